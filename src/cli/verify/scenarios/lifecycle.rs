//! From a program's start to its end, whoever ends it.

use std::{
    io,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Play, number, text};

pub(super) async fn interactive(play: &mut Play) -> io::Result<()> {
    let session = play.run("interactive").await?;
    let mut at = 0;
    for (line, close, bytes, characters) in [
        ("hello\n", false, 6, 6),
        ("naïve 中 no line end", false, 22, 19),
        ("\r\n", true, 2, 2),
    ] {
        let write = json!({ "session_id": session, "text": line, "close_stdin": close });
        let written = play.expect("terminal_write", write).await?;
        play.is("bytes accepted", written["accepted_bytes"].clone(), bytes);
        let mut echoed = at;
        while echoed < at + characters {
            echoed = number(&play.page(&session, echoed).await?, "next_cursor")?;
        }
        at = echoed;
    }
    let end = play.end(&session).await?;
    play.are(
        "the session",
        &end,
        &json!({ "status": "EXITED", "exit_code": 0, "stdin_closed": true, "input_uncertain": false }),
    );
    let output = play.read(&session, 0).await?;
    play.is(
        "what came back",
        output.text,
        "hello\nnaïve 中 no line end\r\n",
    );
    let late = json!({ "session_id": session, "text": "x" });
    play.refused("terminal_write", late, "SESSION_NOT_RUNNING")
        .await?;
    Ok(())
}

pub(super) async fn large_input(play: &mut Play) -> io::Result<()> {
    let session = play.run("eof").await?;
    let more = json!({ "session_id": session, "text": "x".repeat(65_537) });
    play.refused("terminal_write", more, "INPUT_TOO_LARGE")
        .await?;
    let most = json!({ "session_id": session, "text": "x".repeat(65_536), "close_stdin": true });
    let written = play.expect("terminal_write", most).await?;
    play.is("bytes accepted", written["accepted_bytes"].clone(), 65_536);
    play.end(&session).await?;
    let output = play.read(&session, 0).await?;
    play.is(
        "what the program counted",
        output.text,
        "read 65536 bytes to the end of input\n",
    );
    Ok(())
}

pub(super) async fn closed_stdin(play: &mut Play) -> io::Result<()> {
    let session = play.run("closed-stdin").await?;
    play.page(&session, 0).await?;
    let write = json!({ "session_id": session, "text": "x" });
    play.refused("terminal_write", write.clone(), "STDIN_CLOSED")
        .await?;
    let status = play
        .expect("terminal_status", json!({ "session_id": session }))
        .await?;
    play.are(
        "the session",
        &status,
        &json!({ "status": "RUNNING", "stdin_closed": true }),
    );
    let ended = json!({ "session_id": session, "grace_ms": 0 });
    play.expect("terminal_terminate", ended).await?;
    Ok(())
}

pub(super) async fn exit_code(play: &mut Play) -> io::Result<()> {
    let (end, output) = play.run_to_end("exit7").await?;
    play.are(
        "the session",
        &end,
        &json!({ "status": "EXITED", "exit_code": 7, "exit_signal": null, "termination_reason": "natural" }),
    );
    play.is("stderr", output.stderr, "exiting with code 7\n");
    play.is("stdout", output.stdout, "");
    Ok(())
}

pub(super) async fn terminate(play: &mut Play) -> io::Result<()> {
    let session = play.run("ignore-term").await?;
    // It ignores TERM from here on.
    let page = play.page(&session, 0).await?;
    play.is(
        "its first words",
        page["records"][0]["text"].clone(),
        "SIGTERM is ignored\n",
    );
    let ended = json!({ "session_id": session, "grace_ms": 200 });
    let end = play.expect("terminal_terminate", ended.clone()).await?;
    play.are(
        "the session",
        &end,
        &json!({ "status": "TERMINATED", "exit_code": null, "exit_signal": 9, "termination_reason": "user" }),
    );
    play.disappears("its process", number(&end, "process_id")?)
        .await;
    let again = play.expect("terminal_terminate", ended).await?;
    let same = ["status", "exit_signal", "termination_reason", "process_id"];
    for field in same {
        play.is(
            &format!("{field} after a second call"),
            again[field].clone(),
            end[field].clone(),
        );
    }
    Ok(())
}

pub(super) async fn timeout(play: &mut Play) -> io::Result<()> {
    let short = json!({ "command_id": "interactive", "timeout_ms": 100 });
    let started = play.expect("terminal_start", short).await?;
    let end = play.end(text(&started, "session_id")?).await?;
    play.are(
        "the session",
        &end,
        &json!({ "status": "TERMINATED", "exit_signal": 15, "termination_reason": "timeout" }),
    );
    play.disappears("its process", number(&end, "process_id")?)
        .await;
    let long = json!({ "command_id": "interactive", "timeout_ms": 300_001 });
    play.refused("terminal_start", long, "INVALID_ARGUMENT")
        .await?;
    Ok(())
}

pub(super) async fn descendants(play: &mut Play) -> io::Result<()> {
    let (end, output) = play.run_to_end("children").await?;
    play.are(
        "the session",
        &end,
        &json!({ "status": "EXITED", "exit_code": 0, "output_complete": true }),
    );
    let pids: Vec<u64> = output
        .stdout
        .lines()
        .filter_map(|line| line.rsplit_once(" is process ")?.1.parse().ok())
        .collect();
    play.is("descendants that it told of", json!(pids.len()), 2);
    for pid in pids {
        play.disappears("a descendant", pid).await;
    }
    Ok(())
}

/// Two programs that would run on for a minute.
async fn long_lived(play: &mut Play) -> io::Result<Vec<u64>> {
    let mut pids = Vec::new();
    for command in ["interactive", "ignore-term"] {
        let session = play.run(command).await?;
        if command == "ignore-term" {
            play.page(&session, 0).await?;
        }
        let status = play
            .expect("terminal_status", json!({ "session_id": session }))
            .await?;
        play.is("its status", status["status"].clone(), "RUNNING");
        pids.push(number(&status, "process_id")?);
    }
    Ok(pids)
}

pub(super) async fn shutdown(play: &mut Play) -> io::Result<()> {
    let pids = long_lived(play).await?;
    play.close().await?;
    for pid in pids {
        play.disappears("a hosted process", pid).await;
    }
    Ok(())
}

pub(super) async fn killed(play: &mut Play) -> io::Result<()> {
    let pids = long_lived(play).await?;
    play.kill().await?;
    for pid in pids {
        play.disappears("a hosted process", pid).await;
    }
    Ok(())
}

pub(super) async fn limits(play: &mut Play) -> io::Result<()> {
    let first = play.run("interactive").await?;
    let another = json!({ "command_id": "empty" });
    play.refused("terminal_start", another.clone(), "SESSION_LIMIT")
        .await?;
    let ended = json!({ "session_id": first, "grace_ms": 500 });
    play.expect("terminal_terminate", ended).await?;
    let (end, _) = play.run_to_end("exit7").await?;
    play.is(
        "the exit code of the one that came after",
        end["exit_code"].clone(),
        7,
    );
    play.refused("terminal_start", another, "RECORD_LIMIT")
        .await?;
    let kept = play
        .expect("terminal_status", json!({ "session_id": first }))
        .await?;
    play.is(
        "the first one, still kept,",
        kept["status"].clone(),
        "TERMINATED",
    );
    Ok(())
}

pub(super) async fn retention(play: &mut Play) -> io::Result<()> {
    // One call: a second one might come too late.
    let job = json!({ "command_id": "exit7", "wait_ms": 20_000 });
    let end = play.expect("terminal_start", job).await?;
    play.is("its exit code", end["exit_code"].clone(), 7);
    let session = json!({ "session_id": text(&end, "session_id")? });
    let began = Instant::now();
    let mut answer = Value::Null;
    while began.elapsed() < Duration::from_secs(10) {
        // Not recorded each time: how often it was asked is of no interest.
        answer = play
            .client()?
            .call("terminal_status", session.clone())
            .await?;
        if answer["ok"] == json!(false) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    play.record("terminal_status", session.clone(), &answer, began.elapsed());
    play.is(
        "the answer after its time",
        answer["error"]["code"].clone(),
        "SESSION_NOT_FOUND",
    );
    play.refused("terminal_read", session, "SESSION_NOT_FOUND")
        .await?;
    Ok(())
}
