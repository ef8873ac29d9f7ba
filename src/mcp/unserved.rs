//! Calls that are refused before they reach the supervisor, for the audit log: those whose arguments are none of the tool,
//! and those over the bound.

use serde::Deserialize;

use crate::{
    audit::{Client, Clip, Event, Log, Names},
    mcp::{session, tools},
};

/// What such a call names, as far as it can be read; nothing more of it is trusted.
#[derive(Debug, Default, Deserialize)]
struct Named {
    #[serde(alias = "command")]
    command_id: Option<String>,
    session_id: Option<String>,
}

/// What such a call would have done.
enum Kind {
    Start,
    Write,
    Terminate,
}

/// Tells of the call, if it is one of a tool that does something.
pub(super) fn log(
    log: &Log,
    tool: &str,
    arguments: Option<&str>,
    client: Option<&Client>,
    outcome: &str,
) {
    let kind = match tool {
        tools::START | session::CREATE | session::EXEC => Kind::Start,
        tools::WRITE | session::SEND | session::INTERACT => Kind::Write,
        tools::TERMINATE | session::CLOSE => Kind::Terminate,
        _ => return,
    };
    if !log.is_on() {
        return;
    }
    let named = arguments.and_then(|raw| serde_json::from_str::<Named>(raw).ok());
    let named = named.unwrap_or_default();
    let session_id = named.session_id.as_deref().map(Clip);
    log.record(|| match kind {
        Kind::Start => Event::StartRefused {
            command_id: named.command_id.as_deref().map(Clip),
            client,
            cwd: None,
            env: Names(&[]),
            outcome,
        },
        Kind::Write => Event::Write {
            session_id,
            command_id: None,
            client,
            bytes: None,
            sha256: None,
            close_stdin: None,
            accepted_bytes: None,
            outcome,
        },
        Kind::Terminate => Event::Terminate {
            session_id,
            command_id: None,
            client,
            grace_ms: None,
            outcome,
        },
    });
}
