//! What a client may ask for: where a command runs and which variables it gets. And whether the command is still to be trusted.
//!
//! Everything here answers one request at a time and keeps nothing. The rules come from the checked config; the
//! state of the file system is asked anew for each request.

mod cwd;
mod env;
mod executable;
mod free;

pub use cwd::{Directory, open_cwd};
pub use env::child_env;
pub use executable::vet_executable;
pub use free::{find_program, inherited_cwd, inherited_env};

/// Why a working directory was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CwdRefused {
    /// Not an absolute path.
    NotAbsolute,
    /// Does not exist, or may not be entered.
    NotFound,
    /// Exists but is no directory.
    NotDirectory,
    /// Its real location is outside every allowed root.
    OutsideRoots,
    /// The kernel could not say, for want of descriptors or memory; asking again later may help.
    Unavailable(nix::errno::Errno),
}

/// Why an environment variable was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvRefused {
    /// More variables than [`crate::config::limits::MAX_CLIENT_ENV`].
    TooMany(usize),
    /// The profile doesn't list it.
    NotApproved(String),
    /// No profile may list it.
    Denied(String),
    /// The value holds a NUL.
    NulInValue(String),
}
