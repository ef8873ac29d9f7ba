//! What the kernel can keep a command from: files by Landlock, sockets by a seccomp filter. Needs no privileges.
//!
//! [`Containment::new`] makes the ruleset in the server, where it may allocate and open; [`enter`] puts a process under it
//! for good, with system calls only, between clone and exec. [`offered`] tells beforehand whether that would work here.
//!
//! Landlock knows TCP ports and nothing else of a network, so that `network: false` rests on the filter alone; the rules on
//! ports stand behind it as a second wall. A filter in turn sees numbers and no paths, which is why it refuses every kind of
//! socket, Unix sockets included: a daemon behind one (a session bus, a container engine) would do outside what the command
//! may not do itself.

mod enter;
mod filter;
mod offered;
mod ruleset;

pub use enter::enter;
pub use offered::{Lack, Offered, offered};
pub use ruleset::{Containment, NotContained};
