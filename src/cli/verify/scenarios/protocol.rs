//! The tools themselves.

use std::{cell::Cell, io, time::Instant};

use serde_json::{Value, json};

use super::{Play, number};

/// The tools, and whether each only reads.
const TOOLS: [(&str, bool); 5] = [
    ("terminal_start", false),
    ("terminal_read", true),
    ("terminal_write", false),
    ("terminal_status", true),
    ("terminal_terminate", false),
];

pub(super) async fn tools(play: &mut Play) -> io::Result<()> {
    let began = Instant::now();
    let tools = play.client()?.tools().await?;
    play.record("tools/list", json!({}), &json!(tools), began.elapsed());
    let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
    let expected: Vec<&str> = TOOLS.iter().map(|(name, _)| *name).collect();
    play.is("the list of names", json!(names), json!(expected));
    for ((name, reads), tool) in TOOLS.into_iter().zip(&tools) {
        let input = &tool["inputSchema"];
        play.is(
            &format!("additionalProperties of {name}'s input"),
            input["additionalProperties"].clone(),
            false,
        );
        let undescribed: Vec<&String> = input["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, field)| !field["description"].is_string())
            .map(|(field, _)| field)
            .collect();
        play.is(
            &format!("what {name} doesn't describe"),
            json!(undescribed),
            json!([]),
        );
        let output = &tool["outputSchema"]["type"];
        play.is(
            &format!("the type of {name}'s output"),
            output.clone(),
            "object",
        );
        let hint = &tool["annotations"]["readOnlyHint"];
        play.holds(
            format!("{name} says truly whether it only reads"),
            (hint == &json!(true)) == reads,
            hint,
        );
    }
    let start = tools.iter().find(|tool| tool["name"] == "terminal_start");
    let ids = start.map(|tool| tool["inputSchema"]["properties"]["command_id"]["enum"].clone());
    let ids = ids.unwrap_or_default();
    let approved = ["stream", "interactive", "flood", "exit7", "ignore-term"];
    let listed = ids.as_array().is_some_and(|ids| {
        approved
            .iter()
            .all(|approved| ids.iter().any(|id| id == approved))
    });
    play.holds("a start lists the approved commands", listed, &ids);
    Ok(())
}

pub(super) async fn arguments(play: &mut Play) -> io::Result<()> {
    for (tool, arguments) in [
        ("terminal_start", json!({})),
        ("terminal_start", json!({ "command_id": 5 })),
        (
            "terminal_start",
            json!({ "command_id": "empty", "argv": ["-x"] }),
        ),
        (
            "terminal_start",
            json!({ "command_id": "empty", "timeout_ms": 99 }),
        ),
        (
            "terminal_start",
            json!({ "command_id": "empty", "timeout_ms": "500" }),
        ),
        (
            "terminal_start",
            json!({ "command_id": "empty", "timeout_ms": 500.5 }),
        ),
        ("terminal_read", json!({ "session_id": "x", "cursor": -1 })),
        (
            "terminal_read",
            json!({ "session_id": "x", "max_bytes": 3 }),
        ),
        ("terminal_write", json!({ "session_id": "x" })),
        (
            "terminal_terminate",
            json!({ "session_id": "x", "grace_ms": 2001 }),
        ),
    ] {
        let error = play.refused(tool, arguments, "INVALID_ARGUMENT").await?;
        let message = error["message"].as_str().unwrap_or_default();
        play.holds(
            "the message is one line",
            !message.is_empty() && !message.contains('\n'),
            &error["message"],
        );
    }
    for tool in ["terminal_read", "terminal_terminate"] {
        let unknown = json!({ "session_id": "00000000000000000000000000000000" });
        play.refused(tool, unknown, "SESSION_NOT_FOUND").await?;
    }
    let list = play.expect("terminal_status", json!({})).await?;
    play.is(
        "the sessions that came of it",
        list["sessions"].clone(),
        json!([]),
    );
    Ok(())
}

pub(super) async fn concurrent(play: &mut Play) -> io::Result<()> {
    let mut sessions = Vec::new();
    for _ in 0..8 {
        sessions.push(play.run("interactive").await?);
    }
    let silent = sessions[0].clone();
    let waiting = json!({ "session_id": silent, "until": "end", "wait_ms": 20_000 });
    let ending = json!({ "session_id": silent, "text": "end\n", "close_stdin": true });
    let client = play.client()?;
    let (done, began) = (Cell::new(false), Instant::now());
    let wait = async {
        let page = client.call("terminal_read", waiting.clone()).await;
        done.set(true);
        page
    };
    let meanwhile = async {
        let mut answered = 0;
        for session in &sessions[1..] {
            let line = format!("to {session}\n");
            client
                .expect(
                    "terminal_write",
                    json!({ "session_id": session, "text": line }),
                )
                .await?;
            client
                .expect("terminal_status", json!({ "session_id": session }))
                .await?;
            answered += 2;
        }
        let waited = !done.get();
        client.expect("terminal_write", ending.clone()).await?;
        io::Result::Ok((answered, waited))
    };
    let (page, meanwhile) = tokio::join!(wait, meanwhile);
    let (page, (answered, waited)) = (page?, meanwhile?);
    play.record("terminal_read", waiting, &page, began.elapsed());
    play.is("calls answered beside the one that waited", answered, 14);
    play.holds("it was still waiting then", waited, &json!(waited));
    play.is("what it waited for", page["wait_result"].clone(), "end");
    for session in &sessions[1..] {
        let line = format!("to {session}\n");
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let mut next = 0;
        while next < length {
            next = number(&play.page(session, next).await?, "next_cursor")?;
        }
        let output = play.read(session, 0).await?;
        play.is("each got its own line back", output.text, line);
    }
    Ok(())
}
