use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    arena::{Page, Run, Unit},
    mcp::args::Until,
    session::snapshot::Status,
    spool::SpoolState,
    supervisor::{
        follow::{Reading, Waited},
        refusal::Refusal,
    },
    text::matcher::Found,
};

fn body_of(result: &CallToolResult) -> String {
    result.content[0].as_text().unwrap().text.clone()
}

fn example() -> Snapshot {
    Snapshot {
        session_id: "5e55".to_owned(),
        command_id: "stream".to_owned(),
        process_id: 42,
        status: Status::Running,
        exit_code: None,
        exit_signal: None,
        termination_reason: None,
        stdin_closed: false,
        input_uncertain: false,
        base_cursor: 0,
        next_cursor: 7,
        created_at: UNIX_EPOCH + Duration::from_millis(1_700_000_000_004),
        last_activity_at: UNIX_EPOCH + Duration::from_millis(1_700_000_001_000),
        ended_at: None,
        last_output_at: None,
        output_bytes: 0,
        output: Output::Open,
        truncated: false,
        spool: SpoolState::Off,
        cpu_ms: None,
        max_rss_bytes: None,
    }
}

#[test]
fn a_snapshot_has_every_field_in_order_and_nulls_for_what_is_absent() {
    assert_eq!(
        body_of(&snapshot(&example(), Results::Both)),
        concat!(
            r#"{"ok":true,"session_id":"5e55","command_id":"stream","process_id":42,"status":"RUNNING","#,
            r#""exit_code":null,"exit_signal":null,"termination_reason":null,"stdin_closed":false,"#,
            r#""input_uncertain":false,"base_cursor":0,"next_cursor":7,"created_at":"2023-11-14T22:13:20.004Z","#,
            r#""last_activity_at":"2023-11-14T22:13:21.000Z","output_complete":false,"output_incomplete":false,"#,
            r#""ended_at":null,"cpu_ms":null,"max_rss_bytes":null,"truncated":false,"spool_state":"off"}"#
        )
    );
}

fn example_page() -> Page {
    Page {
        text: "ab\u{e9}!\u{1f600}".to_owned(),
        runs: vec![
            Run {
                cursor: 10,
                stream: Stream::Stdout,
                end: 4,
            },
            Run {
                cursor: 13,
                stream: Stream::Stderr,
                end: 9,
            },
        ],
        base_cursor: 3,
        next_cursor: 15,
        end_cursor: 15,
    }
}

fn reading(output: Output) -> Reading {
    Reading {
        status: Status::Exited,
        output,
        truncated: true,
        waited: Waited::Record,
        found: None,
        omitted: None,
        unsearched: 0,
    }
}

#[test]
fn a_page_of_runs_and_one_of_code_points() {
    let page_of = |unit| {
        body_of(&page(
            &example_page(),
            &reading(Output::Complete),
            None,
            unit,
            Results::Both,
        ))
    };
    let head = concat!(
        r#"{"ok":true,"base_cursor":3,"next_cursor":15,"truncated":true,"has_more":false,"status":"EXITED","#,
        r#""output_complete":true,"output_incomplete":false,"records":["#
    );
    assert_eq!(
        page_of(Unit::Runs),
        format!(
            "{head}{}]}}",
            concat!(
                r#"{"cursor":10,"stream":"stdout","text":"abé"},"#,
                r#"{"cursor":13,"stream":"stderr","text":"!😀"}"#
            )
        )
    );
    assert_eq!(
        page_of(Unit::CodePoints),
        format!(
            "{head}{}]}}",
            concat!(
                r#"{"cursor":10,"stream":"stdout","text":"a"},"#,
                r#"{"cursor":11,"stream":"stdout","text":"b"},"#,
                r#"{"cursor":12,"stream":"stdout","text":"é"},"#,
                r#"{"cursor":13,"stream":"stderr","text":"!"},"#,
                r#"{"cursor":14,"stream":"stderr","text":"😀"}"#
            )
        )
    );
}

#[test]
fn a_full_page_with_more_behind_it_says_so_and_is_whole() {
    let text = "a line of output, \"quoted\" once\n".repeat(2_048);
    let (end, next) = (text.len(), text.len() as u64);
    let full = Page {
        runs: vec![Run {
            cursor: 0,
            stream: Stream::Stdout,
            end,
        }],
        text,
        base_cursor: 0,
        next_cursor: next,
        end_cursor: next + 1,
    };
    let line = body_of(&page(
        &full,
        &reading(Output::Open),
        None,
        Unit::Runs,
        Results::Both,
    ));
    let parsed: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(parsed["has_more"], true);
    assert_eq!(parsed["records"][0]["text"], full.text.as_str());
}

#[test]
fn a_wait_says_what_ended_it_and_what_is_missing() {
    let found = Found {
        start: 13,
        end: 14,
        text: "!".to_owned(),
        clipped: false,
    };
    let gap = Gap {
        from: 3,
        to: 10,
        bytes: 8,
        lines: 2,
    };
    let matched = Reading {
        waited: Waited::Pattern,
        found: Some((Stream::Stderr, found)),
        omitted: Some(gap),
        unsearched: 3,
        ..reading(Output::Open)
    };
    let until = Until::Pattern("!".to_owned());
    let body_with = |reading: &Reading, until: &Until| -> Value {
        let result = page(
            &example_page(),
            reading,
            Some(until),
            Unit::Runs,
            Results::Both,
        );
        serde_json::from_str(&body_of(&result)).unwrap()
    };
    let body = body_with(&matched, &until);
    assert_eq!(body["wait_result"], "pattern");
    assert_eq!(body["match"], json!({ "cursor": 13, "text": "!" }));
    assert_eq!(
        body["omitted"],
        json!({ "from": 3, "to": 10, "code_points": 7, "bytes": 8, "lines": 2 })
    );
    assert_eq!(body["unsearched"], 3);
    let timeout = Reading {
        waited: Waited::Timeout,
        ..reading(Output::Open)
    };
    let body = body_with(&timeout, &until);
    assert_eq!(
        (&body["wait_result"], &body["match"]),
        (&json!("timeout"), &Value::Null)
    );
    assert!(body.get("match").is_some() && body.get("omitted").is_none());
    assert!(body_with(&timeout, &Until::End).get("match").is_none());
}

#[test]
fn a_write_says_what_was_accepted() {
    let outcome = Written {
        accepted: 5,
        stdin_closed: true,
        next_cursor: 9,
    };
    assert_eq!(
        body_of(&written("s", outcome, Results::Both)),
        r#"{"ok":true,"session_id":"s","accepted_bytes":5,"stdin_closed":true,"next_cursor":9}"#
    );
}

#[test]
fn a_summary_is_made_only_where_it_is_shown() {
    let result = failure(&Refusal::ShuttingDown.into(), Results::Structured);
    assert_eq!(
        result.content[1].as_text().unwrap().text,
        "SHUTTING_DOWN: the server is shutting down"
    );
    assert_eq!(snapshot(&example(), Results::Both).content.len(), 1);
}

proptest! {
    #[test]
    fn any_text_comes_back_whole_in_either_unit(parts in prop::collection::vec(".{1,20}", 1..6)) {
        let mut subject = Page::default();
        for (part, turn) in parts.iter().zip(0..) {
            let cursor = subject.text.chars().count() as u64;
            subject.text.push_str(part);
            let stream = if turn % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
            subject.runs.push(Run { cursor, stream, end: subject.text.len() });
        }
        for unit in [Unit::Runs, Unit::CodePoints] {
            let body: Value =
                serde_json::from_str(&body_of(&page(&subject, &reading(Output::Complete), None, unit, Results::Both))).unwrap();
            let mut text = String::new();
            for record in body["records"].as_array().unwrap() {
                prop_assert_eq!(&record["cursor"], &json!(text.chars().count()));
                text.push_str(record["text"].as_str().unwrap());
            }
            prop_assert_eq!(&text, &subject.text);
        }
    }
}
