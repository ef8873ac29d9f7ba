//! What may run, where, and with what.

use std::{fs, io, os::unix::fs::symlink};

use serde_json::json;

use super::{Output, Play, text};

pub(super) async fn commands(play: &mut Play) -> io::Result<()> {
    let long = "x".repeat(128);
    for id in ["rm -rf /", "../flood", "flood\n", "FLOOD", long.as_str()] {
        let start = json!({ "command_id": id });
        play.refused("terminal_start", start, "COMMAND_NOT_FOUND")
            .await?;
    }
    for (field, value) in [
        ("args", json!(["x"])),
        ("command", json!("x")),
        ("shell", json!(true)),
    ] {
        let start = json!({ "command_id": "empty", (field): value });
        play.refused("terminal_start", start, "INVALID_ARGUMENT")
            .await?;
    }
    let list = play.expect("terminal_status", json!({})).await?;
    play.is(
        "the sessions that came of it",
        list["sessions"].clone(),
        json!([]),
    );
    Ok(())
}

pub(super) async fn environment(play: &mut Play) -> io::Result<()> {
    let (_, output) = play.run_to_end("env").await?;
    let mut lines: Vec<&str> = output.stdout.lines().collect();
    lines.sort_unstable();
    let expected = ["LANG=C.UTF-8", "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"];
    play.is("the environment", json!(lines), json!(expected));
    for name in ["LD_PRELOAD", "PATH", "DEMO_LABEL2", "A=B", "", "MY_TOKEN"] {
        let start = json!({ "command_id": "stream", "env": { (name): "x" } });
        play.refused("terminal_start", start, "ENV_NOT_ALLOWED")
            .await?;
    }
    Ok(())
}

pub(super) async fn working_directory(play: &mut Play) -> io::Result<()> {
    let root = play.place.root().to_owned();
    let outside = play.place.base().join("root-beside");
    for directory in [&root.join("inside"), &outside] {
        fs::create_dir(directory)?;
    }
    symlink("inside", root.join("in"))?;
    symlink(&outside, root.join("out"))?;
    for (cwd, leads_to) in [
        ("", ""),
        ("inside", "inside"),
        ("in", "inside"),
        ("inside/..", ""),
    ] {
        let (cwd, leads_to) = (root.join(cwd), root.join(leads_to));
        let start = json!({ "command_id": "pwd", "cwd": cwd });
        let started = play.expect("terminal_start", start).await?;
        let session = text(&started, "session_id")?.to_owned();
        play.end(&session).await?;
        let Output { stdout, .. } = play.read(&session, 0).await?;
        let leads_to = leads_to.to_string_lossy();
        play.is(
            "where it ran",
            stdout.trim_end(),
            leads_to.trim_end_matches('/'),
        );
    }
    for cwd in [
        outside.to_string_lossy().as_ref(),
        root.join("out").to_string_lossy().as_ref(),
        root.join("absent").to_string_lossy().as_ref(),
        root.join("..").to_string_lossy().as_ref(),
        "/",
        "inside",
        "",
    ] {
        let start = json!({ "command_id": "pwd", "cwd": cwd });
        play.refused("terminal_start", start, "CWD_NOT_ALLOWED")
            .await?;
    }
    Ok(())
}

pub(super) async fn failed_start(play: &mut Play) -> io::Result<()> {
    let start = json!({ "command_id": "absent" });
    let error = play
        .refused("terminal_start", start, "START_FAILED")
        .await?;
    let message = text(&error, "message")?;
    play.holds(
        "the message says that it isn't there and names no path",
        message.contains("not") && !message.contains("/nonexistent"),
        &error["message"],
    );
    let list = play.expect("terminal_status", json!({})).await?;
    play.is(
        "the sessions that came of it",
        list["sessions"].clone(),
        json!([]),
    );
    Ok(())
}
