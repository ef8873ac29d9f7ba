//! The other scenes, and how they read answers.

use std::{
    io,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{in_ms, stage::Stage};
use crate::cli::{
    answer::{joined, text},
    client::Client,
};

/// How long a scene waits for what a program is to print, or for its end.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn converse(client: &Client, stage: &mut Stage<'_>) -> io::Result<()> {
    stage.scene("interactive", "Type into a program")?;
    let session = start(client, "interactive").await?;
    let mut said = String::new();
    for (line, close) in [("hello\n", false), ("goodbye\n", true)] {
        let write = json!({ "session_id": session, "text": line, "close_stdin": close });
        let written = client.expect("terminal_write", write).await?;
        let bytes = &written["accepted_bytes"];
        stage.line(&format!(
            "> {:<8} {bytes} bytes taken by its stdin",
            line.trim_end()
        ))?;
        let before = said.len();
        printed(client, &session, &mut said, before + line.len()).await?;
        stage.line(&format!("< {}", said[before..].trim_end()))?;
    }
    let end = ended(client, &session).await?;
    stage.found("text", said.as_str());
    stage.check("it echoed every byte", said == "hello\ngoodbye\n")?;
    stage.check(
        "it ended by itself when its stdin was closed",
        end["status"] == "EXITED" && end["exit_code"] == 0,
    )
}

pub(super) async fn decode(client: &Client, stage: &mut Stage<'_>) -> io::Result<()> {
    stage.scene("utf8", "Characters, not bytes")?;
    for (command, what, expected) in [
        ("split-utf8", "written byte by byte", "≤ 中 é 😀\n"),
        (
            "invalid-utf8",
            "with bytes that are no UTF-8",
            "lone continuation: \u{fffd}\noverlong slash: \u{fffd}\u{fffd}\n\
             surrogate: \u{fffd}\u{fffd}\u{fffd}\nbeyond U+10FFFF: \u{fffd}\u{fffd}\u{fffd}\u{fffd}\n\
             cut short: \u{fffd} \u{fffd}\nnever in UTF-8: \u{fffd}\u{fffd}\nunfinished at the end: \u{fffd}",
        ),
    ] {
        let session = start(client, command).await?;
        let end = ended(client, &session).await?;
        let page = client
            .expect("terminal_read", json!({ "session_id": session }))
            .await?;
        let text = joined(&page);
        stage.line(&format!(
            "{what}: {text:?}, {} characters",
            end["next_cursor"]
        ))?;
        stage.found(command, text.as_str());
        stage.check(&format!("{command} reads as it should"), text == expected)?;
    }
    Ok(())
}

pub(super) async fn end(client: &Client, stage: &mut Stage<'_>) -> io::Result<()> {
    stage.scene(
        "terminate",
        "End a program that ignores TERM: the grace, then KILL, for its whole group",
    )?;
    let session = start(client, "ignore-term").await?;
    let mut said = String::new();
    printed(client, &session, &mut said, 1).await?;
    stage.line(&format!("it says: {}", said.trim_end()))?;
    let before = Instant::now();
    let terminate = json!({ "session_id": session, "grace_ms": 300 });
    let end = client.expect("terminal_terminate", terminate).await?;
    let took = in_ms(before.elapsed());
    stage.line(&format!(
        "{} by signal {} after {took} ms",
        text(&end, "status")?,
        end["exit_signal"]
    ))?;
    stage.found("took_ms", took);
    stage.found("exit_signal", end["exit_signal"].clone());
    stage.check(
        "it is gone",
        end["status"] == "TERMINATED" && end["exit_signal"] == 9,
    )
}

pub(super) async fn refuse(client: &Client, stage: &mut Stage<'_>) -> io::Result<()> {
    stage.scene("refusals", "What was not approved does not run")?;
    for (call, code) in [
        (json!({ "command_id": "rm -rf /" }), "COMMAND_NOT_FOUND"),
        (
            json!({ "command_id": "stream", "cwd": "/etc" }),
            "CWD_NOT_ALLOWED",
        ),
        (
            json!({ "command_id": "stream", "env": { "LD_PRELOAD": "x.so" } }),
            "ENV_NOT_ALLOWED",
        ),
    ] {
        let refused = client.call("terminal_start", call.clone()).await?;
        let error = &refused["error"];
        let message = text(error, "message")?;
        stage.line(&format!("{call}: {message}"))?;
        stage.check(&format!("refused with {code}"), error["code"] == code)?;
    }
    Ok(())
}

pub(super) async fn start(client: &Client, command_id: &str) -> io::Result<String> {
    let snapshot = client
        .expect("terminal_start", json!({ "command_id": command_id }))
        .await?;
    text(&snapshot, "session_id").map(str::to_owned)
}

/// Reads on until `said` has at least so many bytes.
async fn printed(
    client: &Client,
    session: &str,
    said: &mut String,
    bytes: usize,
) -> io::Result<()> {
    let began = Instant::now();
    while said.len() < bytes {
        if began.elapsed() > LIMIT {
            return Err(io::Error::other(format!(
                "a demo program printed {} of {bytes} bytes in 10 s",
                said.len()
            )));
        }
        let read =
            json!({ "session_id": session, "cursor": said.chars().count(), "wait_ms": 2000 });
        said.push_str(&joined(&client.expect("terminal_read", read).await?));
    }
    Ok(())
}

/// Waits until the session is final and its output has settled.
pub(super) async fn ended(client: &Client, session: &str) -> io::Result<Value> {
    let wait = json!({
        "session_id": session, "from": "tail", "max_bytes": 4, "until": "end",
        "wait_ms": in_ms(LIMIT),
    });
    client.expect("terminal_read", wait).await?;
    let status = client
        .expect("terminal_status", json!({ "session_id": session }))
        .await?;
    if matches!(text(&status, "status")?, "RUNNING" | "TERMINATING") {
        return Err(io::Error::other(format!(
            "a demo program is still {} after 10 s",
            status["status"]
        )));
    }
    Ok(status)
}
