//! The session tools as a client sees them: names, descriptions, schemas, hints. As short as those of
//! [`tools`](crate::mcp::tools), for the same reason.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::{args, schema};
use crate::{
    config::{Access, Results, SessionSettings},
    interactive::{DEFAULT_SHELL, DEFAULT_TIMEOUT, DEFAULT_WAIT},
    mcp::{
        Settings,
        schema::input,
        tools::{inline, with_profiles},
    },
};

pub(in crate::mcp) const CREATE: &str = "session_create";
pub(in crate::mcp) const SEND: &str = "session_send";
pub(in crate::mcp) const READ: &str = "session_read";
pub(in crate::mcp) const RESIZE: &str = "session_resize";
pub(in crate::mcp) const CLOSE: &str = "session_close";
pub(in crate::mcp) const EXEC: &str = "session_exec";
pub(in crate::mcp) const INTERACT: &str = "session_interact";
pub(in crate::mcp) const WAIT_FOR: &str = "session_wait_for";
pub(in crate::mcp) const LIST: &str = "session_list";

const NAMES: [&str; 9] = [
    CREATE, SEND, READ, RESIZE, CLOSE, LIST, EXEC, WAIT_FOR, INTERACT,
];

/// Whether there is a tool of this name among them.
pub(in crate::mcp) fn has(tool: &str) -> bool {
    NAMES.contains(&tool)
}

/// What a client is told about these tools.
pub(in crate::mcp) const INSTRUCTIONS: &str = "The session_ tools converse with programs on terminals: shells, REPLs, ssh, \
databases, full-screen programs. session_create, then session_interact: it types and returns the answer, at once when a prompt is \
back; with wait_for it waits for a regex. session_exec for one shell command: output and exit code. Secrets as password. \
session_close what is no longer needed. Failures have success=false and error.type; after requires_confirmation nothing was typed.";

/// The tools, in the order in which they are listed.
pub(in crate::mcp) fn list(settings: &Settings) -> Vec<Tool> {
    let any = settings.access == Access::Any;
    let hints = || ToolAnnotations::new().open_world(any);
    let reads = || hints().read_only(true);
    let types = || hints().read_only(false).destructive(true).idempotent(false);
    let mut tools = vec![
        Tool::new(CREATE, create_description(settings), create_schema(settings))
            .with_title("Open a terminal")
            .with_annotations(hints().read_only(false).destructive(false).idempotent(false)),
        Tool::new(
            SEND,
            "Types one of input, control_char, key and password into a session. session_interact also reads the answer.",
            input::<args::Send>(),
        )
        .with_title("Type")
        .with_annotations(types()),
        Tool::new(
            READ,
            "Returns the output since the last read once it is quiet, or at a prompt or the end; of a full-screen program \
             the screen.",
            read_schema(&settings.session),
        )
        .with_title("Read a terminal")
        .with_annotations(reads().idempotent(false)),
        Tool::new(RESIZE, "Sets the size of a session's terminal.", input::<args::Resize>())
            .with_title("Resize a terminal")
            .with_annotations(hints().read_only(false).destructive(false).idempotent(true)),
        Tool::new(
            CLOSE,
            "Ends a session: end of input, after 2 s SIGHUP, after 2 s SIGKILL.",
            input::<args::Close>(),
        )
        .with_title("Close a terminal")
        .with_annotations(hints().read_only(false).destructive(true).idempotent(true)),
        Tool::new(
            LIST,
            "Lists the open sessions.",
            input::<args::List>(),
        )
        .with_title("List terminals")
        .with_annotations(reads().idempotent(true)),
        Tool::new(
            EXEC,
            "Runs one command in a shell of its own, which is closed then: output and exit_code.",
            exec_schema(settings),
        )
        .with_title("Run a command")
        .with_annotations(types()),
        Tool::new(
            WAIT_FOR,
            "Reads until a regex matches new output. Syntax of Rust's regex crate: no look-around, no backreferences.",
            wait_schema(&settings.session),
        )
        .with_title("Wait for output")
        .with_annotations(reads().idempotent(false)),
        Tool::new(
            INTERACT,
            "session_send and session_read in one call. wait_for sees neither older output nor the echo of the input.",
            interact_schema(&settings.session),
        )
        .with_title("Type and read")
        .with_annotations(types()),
    ];
    for tool in &mut tools {
        if [READ, EXEC, WAIT_FOR, INTERACT].contains(&&*tool.name) {
            tool.meta = Some(inline());
        }
        if settings.results != Results::Text {
            tool.output_schema = Some(schema::output(&tool.name));
        }
    }
    tools
}

fn create_description(settings: &Settings) -> String {
    let what = match settings.access {
        Access::Any if settings.profiles.is_empty() => {
            "Starts a program on a terminal of its own. command is split into words as a shell does; no shell runs it."
        }
        Access::Any => {
            "Starts a program on a terminal of its own. command is split into words as a shell does, no shell runs it; or \
             it is one of:"
        }
        Access::Approved => {
            "Starts an approved command on a terminal of its own. command is one of:"
        }
    };
    with_profiles(what, settings)
}

fn create_schema(settings: &Settings) -> JsonObject {
    let mut schema = input::<args::Create>();
    let usual = &settings.session;
    set_default(&mut schema, "rows", json!(usual.rows));
    set_default(&mut schema, "cols", json!(usual.cols));
    let idle = usual.idle_timeout.as_secs();
    set_default(&mut schema, "idle_timeout", json!(idle));
    narrow(&mut schema, settings);
    schema
}

fn exec_schema(settings: &Settings) -> JsonObject {
    let mut schema = input::<args::Exec>();
    let usual = &settings.session;
    set_default(&mut schema, "timeout", json!(DEFAULT_TIMEOUT.as_secs_f64()));
    set_default(&mut schema, "rows", json!(usual.rows));
    set_default(&mut schema, "cols", json!(usual.cols));
    set_default(&mut schema, "truncation", json!(usual.truncation.as_str()));
    let profiles = &settings.profiles;
    let has_shell = profiles.iter().any(|profile| profile.id == DEFAULT_SHELL);
    if settings.access == Access::Any || has_shell {
        set_default(&mut schema, "command", json!(DEFAULT_SHELL));
    } else if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.push(json!("command"));
    }
    narrow(&mut schema, settings);
    schema
}

fn read_schema(usual: &SessionSettings) -> JsonObject {
    let mut schema = input::<args::Read>();
    let settle = usual.read_settle_timeout.as_secs_f64();
    set_default(&mut schema, "mode", json!("auto"));
    set_default(&mut schema, "timeout", json!(settle));
    set_default(&mut schema, "truncation", json!(usual.truncation.as_str()));
    schema
}

fn wait_schema(usual: &SessionSettings) -> JsonObject {
    let mut schema = input::<args::WaitFor>();
    set_default(&mut schema, "timeout", json!(DEFAULT_WAIT.as_secs_f64()));
    set_default(&mut schema, "truncation", json!(usual.truncation.as_str()));
    schema
}

fn interact_schema(usual: &SessionSettings) -> JsonObject {
    let mut schema = input::<args::Interact>();
    set_default(&mut schema, "timeout", json!(DEFAULT_TIMEOUT.as_secs_f64()));
    set_default(&mut schema, "read_mode", json!("stream"));
    set_default(&mut schema, "truncation", json!(usual.truncation.as_str()));
    schema
}

fn set_default(schema: &mut JsonObject, argument: &str, default: Value) {
    property(schema, argument).insert("default".to_owned(), default);
}

/// Where nothing else may be started, an enum of ids says more than a length.
fn narrow(schema: &mut JsonObject, settings: &Settings) {
    if settings.access == Access::Any {
        return;
    }
    let profiles = settings.profiles.iter();
    let ids: Vec<&str> = profiles.map(|profile| profile.id.as_str()).collect();
    let command = property(schema, "command");
    for key in ["type", "minLength"] {
        command.remove(key);
    }
    command.insert("enum".to_owned(), json!(ids));
}

fn property<'s>(schema: &'s mut JsonObject, argument: &str) -> &'s mut JsonObject {
    schema
        .get_mut("properties")
        .and_then(|properties| properties.get_mut(argument))
        .and_then(Value::as_object_mut)
        .expect("each argument has a schema, which is an object")
}

#[cfg(test)]
mod tests;
