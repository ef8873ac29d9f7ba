//! What the log tells of: a closed set, in which every text that a client chose has a bounded length.

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::SerializeSeq};

use crate::config::limits::MAX_CLIENT_ENV;

/// Characters of a name: of a client, a session, a command, a variable.
const NAME_CHARS: usize = 128;
/// Characters of a directory: `PATH_MAX`.
const PLACE_CHARS: usize = 4_096;

/// One line of the log, less what every line has. `outcome` is `ok` or why it was refused; what is not known is `null`.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The server takes requests from now on.
    ServerStart {
        /// Of this program.
        version: &'a str,
        /// The config that is in force.
        config: Clip<'a, PLACE_CHARS>,
        /// The user whose rights commands run with.
        user_id: u32,
    },
    /// The last line of a server that ended in order.
    ServerStop {
        /// `input_ended`, `client_gone`, `failed`, or the name of a signal.
        reason: &'a str,
    },
    /// A command runs.
    Start {
        /// Of the new session.
        session_id: &'a str,
        /// The approved command.
        command_id: Clip<'a, NAME_CHARS>,
        /// Who asked.
        client: Option<&'a Client>,
        /// Where it runs, links resolved.
        cwd: Clip<'a, PLACE_CHARS>,
        /// Variables that the client set.
        env: Names<'a>,
        /// The leader's, which is also its group's.
        process_id: i32,
        /// Its lifetime.
        timeout_ms: u64,
        /// See the enum.
        outcome: &'a str,
    },
    /// A command that was asked for doesn't run.
    StartRefused {
        /// As the client named it.
        command_id: Option<Clip<'a, NAME_CHARS>>,
        /// Who asked.
        client: Option<&'a Client>,
        /// As the client named it.
        cwd: Option<Clip<'a, PLACE_CHARS>>,
        /// Variables that the client wanted to set.
        env: Names<'a>,
        /// See the enum.
        outcome: &'a str,
    },
    /// Input for a session.
    Write {
        /// As the client named it.
        session_id: Option<Clip<'a, NAME_CHARS>>,
        /// What it runs.
        command_id: Option<Clip<'a, NAME_CHARS>>,
        /// Who asked.
        client: Option<&'a Client>,
        /// Length of the text.
        bytes: Option<usize>,
        /// Of the text, in hexadecimal digits.
        sha256: Option<&'a str>,
        /// Whether stdin was to be closed after the text.
        close_stdin: Option<bool>,
        /// How many bytes the pipe took.
        accepted_bytes: Option<usize>,
        /// See the enum.
        outcome: &'a str,
    },
    /// A client asks for a session's end.
    Terminate {
        /// As the client named it.
        session_id: Option<Clip<'a, NAME_CHARS>>,
        /// What it runs.
        command_id: Option<Clip<'a, NAME_CHARS>>,
        /// Who asked.
        client: Option<&'a Client>,
        /// Between SIGTERM and SIGKILL.
        grace_ms: Option<u64>,
        /// See the enum.
        outcome: &'a str,
    },
    /// A session is over.
    End {
        /// Its name.
        session_id: &'a str,
        /// What it ran.
        command_id: Clip<'a, NAME_CHARS>,
        /// Who started it.
        client: Option<&'a Client>,
        /// As in a snapshot.
        status: &'a str,
        /// As in a snapshot.
        exit_code: Option<i32>,
        /// As in a snapshot.
        exit_signal: Option<i32>,
        /// As in a snapshot.
        termination_reason: Option<&'a str>,
        /// Bytes that the server read of its stdout and stderr.
        output_bytes: u64,
        /// As in a snapshot.
        output_complete: bool,
        /// As in a snapshot.
        output_incomplete: bool,
    },
    /// Lines are missing here.
    Lost {
        /// How many.
        lines: u64,
        /// When the first of them was made.
        since: String,
    },
}

/// Who is connected, by its own account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Client {
    name: String,
    version: String,
}

impl Client {
    /// What the client says of itself, shortened.
    pub fn new(name: &str, version: &str) -> Client {
        let short = |text| clip(text, NAME_CHARS).into_owned();
        Client {
            name: short(name),
            version: short(version),
        }
    }
}

/// A text of any length, of which at most `CHARS` characters are written.
#[derive(Clone, Copy, Debug)]
pub struct Clip<'a, const CHARS: usize>(pub &'a str);

impl<const CHARS: usize> Serialize for Clip<'_, CHARS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&clip(self.0, CHARS))
    }
}

/// Names of variables, as many as a client may set, and a mark when there are more.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a>(pub &'a [String]);

impl Serialize for Names<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names = serializer.serialize_seq(None)?;
        for name in self.0.iter().take(MAX_CLIENT_ENV) {
            names.serialize_element(&Clip::<NAME_CHARS>(name))?;
        }
        if self.0.len() > MAX_CLIENT_ENV {
            names.serialize_element(MORE)?;
        }
        names.end()
    }
}

/// Stands where something was left out.
const MORE: &str = "…";

fn clip(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}{MORE}", &text[..end]).into(),
        None => text.into(),
    }
}
