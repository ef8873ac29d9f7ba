//! What the kernel holds a command to, beyond what the server does.

use std::path::PathBuf;

use serde::{Serialize, Serializer};

/// Set between clone and exec, so that the command and all its descendants have them from their first instruction.
/// Absent ones stay as the server got them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restrictions {
    /// Resource limits.
    #[serde(skip_serializing_if = "JobLimits::is_empty")]
    pub limits: JobLimits,
    /// Priority below the usual, 0 to 19.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<u64>,
    /// Permissions that new files don't get.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "octal")]
    pub umask: Option<u64>,
}

/// Limits of `setrlimit(2)`. One above the server's own hard limit leaves that in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobLimits {
    /// CPU time of one process: SIGXCPU at the limit, SIGKILL a second later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// Address space of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes and threads of the user, those outside the session included; not enforced for root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Descriptors of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Size of a file that is written: SIGXFSZ beyond it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
}

impl JobLimits {
    fn is_empty(&self) -> bool {
        *self == JobLimits::default()
    }
}

/// What the command may touch; all else is refused it, root or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sandbox {
    /// What may be read and executed, everything below included. Here and in `write`, symbolic links are resolved as they
    /// were when the config was read.
    pub read: Vec<PathBuf>,
    /// What may be changed too.
    pub write: Vec<PathBuf>,
    /// Whether it may have sockets.
    pub network: bool,
}

fn octal<S: Serializer>(umask: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{:03o}", umask.unwrap_or_default()))
}
