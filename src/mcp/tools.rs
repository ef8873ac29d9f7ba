//! The five tools as a client sees them: names, descriptions, schemas, hints.
//!
//! A model pays for every byte of this on every turn, and acts on nothing else: each sentence has to tell it something that
//! it would otherwise do wrong. A test holds the sizes.

use std::sync::Arc;

use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::json;

use crate::{
    config::{Profile, Results},
    mcp::{Settings, args, schema},
};

pub(super) const START: &str = "terminal_start";
pub(super) const READ: &str = "terminal_read";
pub(super) const WRITE: &str = "terminal_write";
pub(super) const STATUS: &str = "terminal_status";
pub(super) const TERMINATE: &str = "terminal_terminate";
/// Listed when a profile has a terminal.
pub(super) const RESIZE: &str = "terminal_resize";

/// What a client is told about the whole server.
pub(super) const INSTRUCTIONS: &str = "Runs approved commands as real processes. terminal_start with wait_ms: the answer has exit \
code and output, or what there is when the time is over. Still running: terminal_read with until=end or a pattern, and wait_ms, \
from the last next_cursor; don't poll. Much output: a small output_bytes or max_bytes (512), then find the lines that matter, or \
from=tail; don't page through it. stdin: input at the start, later terminal_write, then read until its answer. \
terminal_terminate ends what is no longer needed. Failures have ok=false and error.code.";

/// Characters of a result that a client should take inline: a full page with its escapes.
const MAX_RESULT_CHARS: u64 = 500_000;

/// The tools, in the order in which they are listed.
pub(super) fn list(settings: &Settings) -> Vec<Tool> {
    let mut tools = vec![
        Tool::new(START, start_description(settings), start_schema(settings))
            .with_title("Start a command")
            .with_annotations(hints().read_only(false).destructive(false).idempotent(false)),
        Tool::new(
            READ,
            "Returns output from cursor on; go on with cursor=next_cursor while has_more. Of a long log use find or from=tail. \
             With until and wait_ms it waits; wait_result says for what. A match lies within a line and ends the page. \
             After CURSOR_EXPIRED go on at error.base_cursor.",
            schema::input::<args::Read>(),
        )
        .with_title("Read output")
        .with_annotations(hints().read_only(true).idempotent(true))
        .with_meta(inline()),
        Tool::new(
            WRITE,
            format!(
                "Writes exactly text to stdin, at most {} bytes; no newline is added. The answer comes at next_cursor or later. \
                 Never resend after INPUT_BACKPRESSURE or INPUT_UNCERTAIN: a part may have been taken.",
                settings.limits.max_input_bytes
            ),
            schema::input::<args::Write>(),
        )
        .with_title("Write to stdin")
        .with_annotations(hints().read_only(false).destructive(false).idempotent(false)),
        Tool::new(
            STATUS,
            "Returns the session's snapshot: status (RUNNING, TERMINATING, or final: EXITED, TERMINATED, FAILED), \
             exit_code, cursors. Without session_id: all sessions.",
            schema::input::<args::Status>(),
        )
        .with_title("Show a session")
        .with_annotations(hints().read_only(true).idempotent(true)),
        Tool::new(
            TERMINATE,
            "Ends the session's process group: SIGTERM, after grace_ms SIGKILL. Returns the final snapshot.",
            schema::input::<args::Terminate>(),
        )
        .with_title("End a session")
        .with_annotations(hints().read_only(false).destructive(true).idempotent(true)),
    ];
    if has_resize(settings) {
        tools.push(
            Tool::new(
                RESIZE,
                "Gives the terminal of a session, if it runs on one, another size.",
                schema::input::<args::Resize>(),
            )
            .with_title("Resize a terminal")
            .with_annotations(hints().read_only(false).destructive(false).idempotent(true)),
        );
    }
    // Without structuredContent there must be no output schema: clients refuse a result that lacks what was declared.
    if settings.results != Results::Text {
        for tool in &mut tools {
            tool.output_schema = Some(output_schema(&tool.name));
        }
    }
    tools
}

/// Whether there is a command on a terminal, and so a tool for its size.
pub(super) fn has_resize(settings: &Settings) -> bool {
    let mut profiles = settings.profiles.iter();
    profiles.any(|profile| profile.tty.is_some())
}

/// Says that a client should take even long results inline.
pub(super) fn inline() -> MetaObject {
    let most = (
        "anthropic/maxResultSizeChars".to_owned(),
        json!(MAX_RESULT_CHARS),
    );
    MetaObject([most].into_iter().collect())
}

fn hints() -> ToolAnnotations {
    ToolAnnotations::new().open_world(false)
}

fn output_schema(tool: &str) -> Arc<JsonObject> {
    match tool {
        START => schema::output(&[schema::started()], json!({})),
        READ => schema::output(&[schema::page()], schema::cursors()),
        RESIZE => schema::output(&[schema::resized().into()], json!({})),
        WRITE => schema::output(&[schema::written().into()], schema::uncertainty()),
        STATUS => schema::output(
            &[schema::snapshot().into(), schema::sessions().into()],
            json!({}),
        ),
        _ => schema::output(&[schema::snapshot().into()], json!({})),
    }
}

fn start_description(settings: &Settings) -> String {
    let what = "Starts an approved command; takes no arguments for it and no shell text. \
                Answers at once, or with wait_ms at its end, with output. command_id is one of:";
    with_profiles(what, settings)
}

/// `what`, and the approved commands with what the Owner says of them.
pub(super) fn with_profiles(what: &str, settings: &Settings) -> String {
    let mut text = what.to_owned();
    for Profile {
        id, description, ..
    } in &settings.profiles
    {
        text.push_str("\n- ");
        text.push_str(id);
        if let Some(description) = description {
            text.push_str(": ");
            text.push_str(description);
        }
    }
    text
}

/// The schema of the arguments, narrowed to what the Owner's config admits.
fn start_schema(settings: &Settings) -> JsonObject {
    let mut schema = schema::input::<args::Start>();
    let properties = schema
        .get_mut("properties")
        .expect("the schema of a struct with fields has properties");
    let ids: Vec<&str> = settings
        .profiles
        .iter()
        .map(|profile| profile.id.as_str())
        .collect();
    let command_id = properties["command_id"]
        .as_object_mut()
        .expect("the schema of a field is an object");
    // An enum of ids says more than their length.
    command_id.remove("minLength");
    command_id.remove("maxLength");
    command_id.insert("enum".to_owned(), json!(ids));
    properties["timeout_ms"]["maximum"] = json!(settings.limits.max_timeout_ms);
    schema
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        config::{Access, SessionSettings, Toolsets},
        mcp::Limits,
    };

    pub(in crate::mcp) fn settings(results: Results) -> Settings {
        let demo = [
            ("stream", "numbered lines on stdout and stderr"),
            (
                "interactive",
                "echoes each line of stdin, ends at end of file",
            ),
            ("long", "runs for minutes, a line a second"),
            ("unicode", "text in many scripts"),
            ("flood", "more output than is retained"),
            ("exit7", "exits with code 7"),
            ("empty", "no output"),
            ("children", "descendants that outlive the leader"),
            ("closed-stdin", "closes its stdin at once"),
            ("split-utf8", "characters split over writes"),
            ("invalid-utf8", "bytes that are no UTF-8"),
            ("eof", "reads to end of file, prints the count"),
            ("ignore-term", "ignores SIGTERM"),
        ];
        let profiles = demo
            .into_iter()
            .map(|(id, description)| Profile {
                description: Some(description.to_owned()),
                ..Profile::new(id, vec!["/bin/true".to_owned()])
            })
            .collect();
        Settings {
            profiles,
            limits: Limits {
                max_timeout_ms: 300_000,
                max_input_bytes: 65_536,
            },
            results,
            toolsets: Toolsets::default(),
            access: Access::default(),
            session: SessionSettings::default(),
        }
    }

    #[test]
    fn the_list_stays_small() {
        let tools = list(&settings(Results::Both));
        let input: usize = tools
            .iter()
            .map(|tool| {
                let parts = json!([tool.name, tool.description, tool.input_schema]);
                parts.to_string().len()
            })
            .sum();
        let whole = serde_json::to_string(&tools).unwrap().len();
        assert!(
            input <= 5_000,
            "{input} bytes of names, descriptions and input schemas"
        );
        assert!(whole <= 14_000, "{whole} bytes in all");
    }

    #[test]
    fn the_list_is_in_order_and_carries_the_hints() {
        let tools = serde_json::to_value(list(&settings(Results::Both))).unwrap();
        let of = |key: &str| -> Vec<&Value> {
            let tools = tools.as_array().unwrap().iter();
            tools.map(|tool| &tool["annotations"][key]).collect()
        };
        let names: Vec<&Value> = tools
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| &tool["name"])
            .collect();
        assert_eq!(names, [START, READ, WRITE, STATUS, TERMINATE]);
        assert_eq!(of("readOnlyHint"), [false, true, false, true, false]);
        assert_eq!(of("idempotentHint"), [false, true, false, true, true]);
        assert_eq!(of("openWorldHint"), [false; 5]);
        assert_eq!(tools[4]["annotations"]["destructiveHint"], true);
        assert_eq!(tools[1]["_meta"]["anthropic/maxResultSizeChars"], 500_000);
        let text = tools.to_string();
        for word in ["\"format\"", "$schema", "$ref", "\"title\":\"Start\""] {
            assert!(!text.contains(word), "{word}");
        }
    }

    #[test]
    fn the_ids_and_the_owners_bounds_are_in_the_schema() {
        let tools = serde_json::to_value(list(&settings(Results::Both))).unwrap();
        let start = &tools[0];
        let properties = &start["inputSchema"]["properties"];
        assert_eq!(properties["command_id"]["enum"][5], "exit7");
        assert_eq!(properties["timeout_ms"]["maximum"], 300_000);
        let description = start["description"].as_str().unwrap();
        assert!(description.contains("\n- exit7: exits with code 7"));
        for tool in tools.as_array().unwrap() {
            assert_eq!(tool["inputSchema"]["additionalProperties"], false);
            assert_eq!(tool["outputSchema"]["type"], "object");
            let bodies = tool["outputSchema"]["oneOf"].as_array().unwrap().len();
            assert_eq!(bodies, if tool["name"] == STATUS { 3 } else { 2 });
        }
    }

    #[test]
    fn text_results_declare_no_output_schema() {
        let tools = list(&settings(Results::Text));
        assert!(tools.iter().all(|tool| tool.output_schema.is_none()));
    }
}
