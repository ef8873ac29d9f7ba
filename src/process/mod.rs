//! One child: spawning, its process group, reaping.

/// Why a child could not be started; each variant has its own advice for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnError {
    /// The executable is not there.
    NotFound,
    /// It is there but may not be executed, or is of no executable format.
    NotExecutable,
    /// The interpreter that it names is missing or not executable.
    BadInterpreter,
    /// The executable is open for writing.
    Busy,
    /// Arguments and environment exceed what the kernel takes.
    TooLarge,
    /// The process, memory or descriptor limit is reached.
    OutOfProcesses,
    /// Any other kernel error.
    Other(nix::errno::Errno),
}
