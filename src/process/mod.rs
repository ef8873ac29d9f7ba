//! One child: spawning, its process group, reaping.
//!
//! A child is the leader of its own kernel session and process group, so one number is its pid, its group's id and its
//! session's id. The kernel keeps that number from being used again for as long as the leader is not reaped, even as a
//! zombie; [`Leader`] is the proof that it isn't. From that follows the order in which a child ends:
//!
//! 1. The leader exits (its pidfd becomes readable), or was told to with TERM and CONT to the group.
//! 2. The group gets KILL while the leader is a zombie: the number still means this group and nothing else.
//! 3. [`Census`] confirms that no member runs.
//! 4. [`Leader::reap`] takes the status. From here on no signal may be sent to the number, and none can be: the `Leader`
//!    is gone.
//!
//! Left to others: when to send what (the session), and descendants that left the group.

mod group;
mod prepare;
mod reaper;
mod spawn;
#[cfg(test)]
pub(crate) mod testing;

pub use group::Census;
pub use prepare::prepare;
pub use reaper::{Delivery, Exit, Leader};
pub use spawn::{Launch, Spawned, spawn};

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
