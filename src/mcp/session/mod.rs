//! The session tools on the wire: nine tools that converse with programs on terminals. What they do is
//! [`interactive`](crate::interactive)'s affair; here are their arguments, schemas and replies.
//!
//! Their names, arguments, defaults and fields are those of terminal-mcp 0.4.4, so that its users can switch. A success is
//! `{"success":true,…}`, a failure `{"success":false,"error":{"type","message"}}`. What must hold: a password is in no
//! message, no log line and no `Debug` text.

mod args;
mod calls;
mod reply;
mod schema;
mod tools;
mod values;
mod words;

pub(super) use calls::{Call, Calls};
pub(super) use tools::{CLOSE, CREATE, EXEC, INSTRUCTIONS, INTERACT, SEND, has, list};
