//! Strict arguments: what is not exactly right is refused before anything happens, in the schemas' own terms.

use crate::common::{Owner, Server, proc};
use serde_json::{Value, json};

fn one_session(server: &Server) -> String {
    server.start("cat").id
}

fn serve() -> Server {
    Owner::new()
        .argv("cat", &["/bin/cat"])
        .set("max_timeout_ms", 3_600_000)
        .set("max_sessions", 64)
        .set("max_records", 64)
        .set("buffer_records", 4096)
        .serve()
}

/// Values that are no integers in JSON's own text, and what a lenient parser would take them for.
const LOOSE_INTEGERS: &[&str] = &[
    "true",
    "false",
    "\"500\"",
    "500.5",
    "500.0",
    "5e2",
    "5E+2",
    "-1",
    "-0.5",
    "[500]",
    "{}",
    "null",
    "18446744073709551616",
];

/// Calls a tool with these arguments as JSON text; the whole answer.
fn raw_call(server: &Server, id: &str, tool: &str, arguments: &str) -> Value {
    server.send_line(&format!(
        r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    ));
    server.answer_to(&json!(id))
}

#[track_caller]
fn assert_invalid(server: &Server, tool: &str, arguments: &str, names: &str) {
    let answer = raw_call(server, "loose", tool, arguments);
    let body = &answer["result"]["structuredContent"];
    assert_eq!(
        body["error"]["code"], "INVALID_ARGUMENT",
        "{tool} {arguments}: {answer}"
    );
    assert_eq!(answer["result"]["isError"], true);
    let message = body["error"]["message"].as_str().expect("a message");
    assert!(
        message.contains(names),
        "{tool} {arguments}: {message} does not name {names}"
    );
    assert!(!message.contains('\n'), "{message:?}");
}

#[test]
fn integers_are_integers() {
    let server = serve();
    let id = one_session(&server);
    for value in LOOSE_INTEGERS {
        assert_invalid(
            &server,
            "terminal_start",
            &format!(r#"{{"command_id":"cat","timeout_ms":{value}}}"#),
            "timeout_ms",
        );
        for field in ["cursor", "max_bytes", "wait_ms"] {
            assert_invalid(
                &server,
                "terminal_read",
                &format!(r#"{{"session_id":"{id}","{field}":{value}}}"#),
                field,
            );
        }
        assert_invalid(
            &server,
            "terminal_terminate",
            &format!(r#"{{"session_id":"{id}","grace_ms":{value}}}"#),
            "grace_ms",
        );
    }
    // One session was started, by this test, and it is as it was.
    assert_eq!(
        server.ok("terminal_status", json!({"session_id": id}))["status"],
        "RUNNING"
    );
    let processes = server.processes();
    let hosted = proc::children_of(&processes);
    let hosted = hosted
        .iter()
        .filter(|child| !processes.contains(&child.pid));
    assert_eq!(hosted.count(), 1);
    server.finish();
}

#[test]
fn a_number_beyond_every_float_fails_on_its_own_id() {
    let server = serve();
    let answer = raw_call(
        &server,
        "huge",
        "terminal_start",
        r#"{"command_id":"cat","timeout_ms":1e400}"#,
    );
    let refused = answer["result"]["structuredContent"]["error"]["code"] == "INVALID_ARGUMENT";
    assert!(refused || answer["error"]["code"].is_i64(), "{answer}");
    server.ping();
    server.finish();
}

#[test]
fn ranges_are_inclusive() {
    let server = serve();
    let id = one_session(&server);
    for (tool, field, bad, good) in [
        (
            "terminal_start",
            "timeout_ms",
            [0_u64, 99, 3_600_001],
            [100_u64, 3_600_000],
        ),
        (
            "terminal_read",
            "cursor",
            [1 << 63, u64::MAX, u64::MAX],
            [0, 0],
        ),
        ("terminal_read", "max_bytes", [0, 3, 65537], [4, 65536]),
        (
            "terminal_read",
            "wait_ms",
            [2001, 60000, u64::MAX],
            [0, 2000],
        ),
        (
            "terminal_terminate",
            "grace_ms",
            [2001, 60000, u64::MAX],
            [0, 2000],
        ),
    ] {
        let arguments = |value: u64| match tool {
            "terminal_start" => json!({"command_id": "cat", field: value}),
            _ => json!({"session_id": id, field: value}),
        };
        for value in bad {
            assert_invalid(&server, tool, &arguments(value).to_string(), field);
        }
        for value in good {
            server.ok(tool, arguments(value));
        }
    }
    server.finish();
}

#[test]
fn other_types_are_strict_as_well() {
    let server = serve();
    let id = one_session(&server);
    for (tool, arguments, names) in [
        ("terminal_start", json!({"command_id": 5}), "command_id"),
        ("terminal_start", json!({"command_id": null}), "command_id"),
        (
            "terminal_start",
            json!({"command_id": ["cat"]}),
            "command_id",
        ),
        (
            "terminal_start",
            json!({"command_id": "cat", "cwd": 5}),
            "cwd",
        ),
        (
            "terminal_start",
            json!({"command_id": "cat", "env": "A=B"}),
            "env",
        ),
        (
            "terminal_start",
            json!({"command_id": "cat", "env": ["A"]}),
            "env",
        ),
        (
            "terminal_start",
            json!({"command_id": "cat", "env": {"A": 5}}),
            "env",
        ),
        (
            "terminal_start",
            json!({"command_id": "cat", "env": {"A": null}}),
            "env",
        ),
        ("terminal_read", json!({"session_id": 5}), "session_id"),
        (
            "terminal_read",
            json!({"session_id": id, "records": 1}),
            "records",
        ),
        (
            "terminal_write",
            json!({"session_id": id, "text": 5}),
            "text",
        ),
        (
            "terminal_write",
            json!({"session_id": id, "text": null}),
            "text",
        ),
        (
            "terminal_write",
            json!({"session_id": id, "text": "x", "close_stdin": 1}),
            "close_stdin",
        ),
        (
            "terminal_write",
            json!({"session_id": id, "text": "x", "close_stdin": "true"}),
            "close_stdin",
        ),
        ("terminal_status", json!({"session_id": true}), "session_id"),
        ("terminal_status", json!({"session_id": null}), "session_id"),
    ] {
        assert_invalid(&server, tool, &arguments.to_string(), names);
    }
    let status = server.ok("terminal_status", json!({"session_id": id}));
    assert_eq!(
        (&status["stdin_closed"], &status["next_cursor"]),
        (&json!(false), &json!(0)),
        "nothing was written"
    );
    server.finish();
}

#[test]
fn missing_and_unknown_arguments_are_named() {
    let server = serve();
    let id = one_session(&server);
    assert_invalid(&server, "terminal_start", "{}", "command_id");
    for tool in ["terminal_read", "terminal_status", "terminal_terminate"] {
        if tool != "terminal_status" {
            assert_invalid(&server, tool, "{}", "session_id");
        }
        assert_invalid(
            &server,
            tool,
            &format!(r#"{{"session_id":"{id}","surplus":1}}"#),
            "surplus",
        );
        assert_invalid(
            &server,
            tool,
            &format!(r#"{{"session_id":"{id}","text":"x"}}"#),
            "text",
        );
    }
    assert_invalid(&server, "terminal_write", r#"{"text":"x"}"#, "session_id");
    assert_invalid(
        &server,
        "terminal_write",
        &format!(r#"{{"session_id":"{id}","text":"x","surplus":1}}"#),
        "surplus",
    );
    assert_invalid(
        &server,
        "terminal_write",
        &format!(r#"{{"session_id":"{id}"}}"#),
        "text",
    );
    let none = server
        .request("tools/call", json!({"name": "terminal_terminate"}))
        .body();
    assert_eq!(none["error"]["code"], "INVALID_ARGUMENT");
    assert_eq!(
        server.ok("terminal_status", json!({"session_id": id}))["status"],
        "RUNNING"
    );
    server.finish();
}

#[test]
fn an_unknown_session_is_not_found_by_any_tool() {
    let server = serve();
    for id in [
        "none",
        "00000000-0000-4000-8000-000000000000",
        "../..",
        "\u{0}",
    ] {
        for (tool, arguments) in [
            ("terminal_read", json!({"session_id": id})),
            ("terminal_write", json!({"session_id": id, "text": "x"})),
            ("terminal_status", json!({"session_id": id})),
            ("terminal_terminate", json!({"session_id": id})),
        ] {
            assert_eq!(
                server.code(tool, arguments),
                "SESSION_NOT_FOUND",
                "{tool} {id:?}"
            );
        }
    }
    server.finish();
}

fn tools(server: &Server) -> Vec<Value> {
    let listed = server.request("tools/list", json!({})).result();
    listed["tools"].as_array().expect("tools").clone()
}

#[test]
fn the_tools_are_listed_in_a_fixed_order_with_their_annotations() {
    let server = serve();
    let listed = tools(&server);
    assert_eq!(listed, tools(&server));
    for (name, read_only, destructive, idempotent) in [
        ("terminal_start", None, None, None),
        ("terminal_read", Some(true), None, Some(true)),
        ("terminal_write", None, None, None),
        ("terminal_status", Some(true), None, Some(true)),
        ("terminal_terminate", None, Some(true), Some(true)),
    ] {
        let tool = listed
            .iter()
            .find(|tool| tool["name"] == name)
            .unwrap_or_else(|| panic!("{name} is missing"));
        let hints = &tool["annotations"];
        assert_eq!(hints["openWorldHint"], false, "{name}");
        for (hint, wanted) in [
            ("readOnlyHint", read_only),
            ("destructiveHint", destructive),
            ("idempotentHint", idempotent),
        ] {
            if wanted == Some(true) {
                assert_eq!(hints[hint], true, "{name} {hint}");
            }
        }
        assert!(
            read_only.is_some() || hints["readOnlyHint"] != true,
            "{name} is no reader"
        );
        assert!(
            !tool["description"]
                .as_str()
                .expect("a description")
                .is_empty()
        );
    }
    assert_eq!(listed.len(), 5);
    let read = listed
        .iter()
        .find(|tool| tool["name"] == "terminal_read")
        .expect("it is there");
    assert!(
        read["_meta"]["anthropic/maxResultSizeChars"].as_u64() > Some(65536),
        "{}",
        read["_meta"]
    );
    server.finish();
}

#[test]
fn input_schemas_are_closed_and_describe_each_field() {
    let server = serve();
    for tool in tools(&server) {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["additionalProperties"], false, "{}", tool["name"]);
        let properties = schema["properties"].as_object().expect("properties");
        for (field, property) in properties {
            let description = property["description"].as_str();
            assert!(
                description.is_some_and(|text| !text.is_empty()),
                "{} {field}",
                tool["name"]
            );
        }
        let text = tool.to_string();
        assert!(
            !text.contains("\"format\":\"uint"),
            "validators don't know it: {text}"
        );
        assert!(
            !text.contains("\"$ref\""),
            "schemas stand on their own: {text}"
        );
    }
    server.finish();
}

#[test]
fn input_schemas_carry_bounds_and_defaults() {
    let server = serve();
    let listed = tools(&server);
    let property = |tool: &str, field: &str| {
        let tool = listed
            .iter()
            .find(|listed| listed["name"] == tool)
            .expect("a tool");
        tool["inputSchema"]["properties"][field].clone()
    };
    for (tool, field, minimum, maximum, default) in [
        (
            "terminal_start",
            "timeout_ms",
            100_u64,
            3_600_000_u64,
            Value::Null,
        ),
        ("terminal_read", "cursor", 0, (1 << 63) - 1, json!(0)),
        ("terminal_read", "max_bytes", 4, 65536, json!(65536)),
        ("terminal_read", "wait_ms", 0, 55_000, json!(0)),
        ("terminal_start", "wait_ms", 0, 55_000, json!(0)),
        ("terminal_start", "output_bytes", 256, 65536, json!(16384)),
        ("terminal_terminate", "grace_ms", 0, 2000, json!(500)),
    ] {
        let schema = property(tool, field);
        assert_eq!(schema["minimum"], minimum, "{field}: {schema}");
        assert_eq!(schema["maximum"], maximum, "{field}: {schema}");
        assert!(
            default.is_null() || schema["default"] == default,
            "{field}: {schema}"
        );
    }
    assert_eq!(property("terminal_read", "records")["default"], "runs");
    assert_eq!(property("terminal_write", "close_stdin")["default"], false);
    server.finish();
}

#[test]
fn approved_ids_are_an_enum_and_described() {
    let described =
        json!({"argv": ["/bin/true"], "allowed_env": [], "description": "Checks the flux valve"});
    let server = Owner::new()
        .argv("zeta", &["/bin/true"])
        .profile("alpha", described)
        .serve();
    let start = tools(&server)
        .into_iter()
        .find(|tool| tool["name"] == "terminal_start")
        .expect("it is there");
    let property = &start["inputSchema"]["properties"]["command_id"];
    let mut ids: Vec<&str> = property["enum"]
        .as_array()
        .expect("an enum")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, ["alpha", "zeta"]);
    let description = start["description"].as_str().expect("a description");
    for part in ["alpha", "zeta", "Checks the flux valve"] {
        assert!(description.contains(part), "{part} in {description}");
    }
    server.finish();
}

#[test]
fn output_schemas_admit_success_and_failure() {
    let server = serve();
    for tool in tools(&server) {
        let schema = &tool["outputSchema"];
        assert_eq!(schema["type"], "object", "{}", tool["name"]);
        let shapes = schema["oneOf"].as_array().expect("the shapes");
        // A status is one snapshot or a list of them.
        let successes = if tool["name"] == "terminal_status" {
            2
        } else {
            1
        };
        assert_eq!(shapes.len(), successes + 1);
        let text = schema.to_string();
        assert!(
            text.contains("\"error\"") && text.contains("\"ok\""),
            "{text}"
        );
    }
    server.finish();
}
