//! One child: starting, its process group, its descendants, reaping.
//!
//! Four kinds of process work together; the middle two are small and single-threaded:
//!
//! - the server asks for starts and sends signals;
//! - the nursery, its child, forks keepers;
//! - a keeper is the parent of one leader at a time and adopts every orphan of that session, however it left the group;
//! - the leader is the program that was asked for.
//!
//! Each keeper has a control socket to the server. Its end, which the kernel brings about whatever the server dies of,
//! means that the session is over, and the keeper kills what is left of it. Told that the session is over, it does the
//! same, and serves the next session if it has seen that nothing is left.
//!
//! A leader leads its own kernel session and process group, so one number is its pid, its group's id and its session's
//! id. The kernel keeps that number from being used again for as long as the leader is not reaped, even as a zombie;
//! [`Leader`] is the proof that it isn't. From that follows the order in which a session ends:
//!
//! 1. The leader exits (its pidfd becomes readable), or was told to with TERM and CONT to the group.
//! 2. The group gets KILL while the leader is a zombie: the number still means this group and nothing else.
//! 3. [`Census`] confirms that no member runs.
//! 4. [`Leader::reap`] has the status taken. From here on no signal may be sent to the number, and none can be: the
//!    `Leader` is gone.
//! 5. Once the output has settled, [`Reaping::finish`] is called: descendants that left the group are killed and reaped.
//!
//! Left to others: when to send what, and when the output has settled (the session).

mod children;
mod descriptors;
mod exec;
mod forked;
mod group;
mod hold;
mod inherited;
mod keeper;
mod leader;
mod nursery;
mod prepare;
mod probe;
mod request;
#[cfg(test)]
pub(crate) mod scripted;
mod spares;
mod spawn;
mod terminal;
#[cfg(test)]
pub(crate) mod testing;
mod wait;
mod wire;

pub use group::Census;
pub use leader::{Exit, Leader, Reaping, Unconfirmed};
pub use nursery::{Nursery, Unfit};
pub use prepare::{prepare, reap_strangers};
pub use probe::{Offered, offered};
pub use spawn::{Launch, Spawned, Watched, spawn};
pub use terminal::{Mode, Terminal, offered as terminal_offered};

/// Why a child could not be started; each variant has its own advice for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnError {
    /// The executable is not there.
    NotFound,
    /// It is there but may not be executed, or is of no executable format.
    NotExecutable,
    /// The interpreter that it names is missing or not executable.
    BadInterpreter,
    /// Its sandbox doesn't let it, or the interpreter or loader that it names, be executed.
    Sandboxed,
    /// A path of its sandbox is gone, or leads through a symbolic link now.
    SandboxPath,
    /// Its content is not what it is pinned to. It did not run an instruction.
    Mismatch,
    /// It is pinned and a script, which is read by name again after the check.
    PinnedScript,
    /// It is pinned, and could not be held or read for the comparison.
    Unpinnable,
    /// The executable is open for writing.
    Busy,
    /// Arguments and environment exceed what the kernel takes.
    TooLarge,
    /// The process, memory or descriptor limit is reached.
    OutOfProcesses,
    /// There are as many terminals as the kernel allows, or none at all.
    NoTerminal(nix::errno::Errno),
    /// The nursery, or this start's keeper, was killed by somebody.
    NurseryGone,
    /// Any other kernel error.
    Other(nix::errno::Errno),
}
