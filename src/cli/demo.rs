//! `sluicegate demo`: the main job, to look at. Everything that it prints was just measured or answered.

use std::{
    fs,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args;
use serde_json::{Value, json};

use super::client::Client;

/// `demo`'s command line.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// How the server reads and writes pipes.
    #[arg(long, value_enum, default_value_t)]
    io: super::stdio::IoChoice,
}

/// Plays every scene; the exit code says whether all went right.
pub(super) fn run(args: &DemoArgs, out: &mut dyn Write) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(play(args, out))
}

async fn play(args: &DemoArgs, out: &mut dyn Write) -> io::Result<ExitCode> {
    let client = Client::start(None, args.io).await?;
    writeln!(
        out,
        "sluicegate {} serves MCP to this demo; every line below is an answer of its five tools.\n",
        env!("CARGO_PKG_VERSION")
    )?;
    follow(&client, out).await?;
    converse(&client, out).await?;
    decode(&client, out).await?;
    flood(&client, out).await?;
    end(&client, out).await?;
    refuse(&client, out).await?;
    let status = client.close().await?.status;
    writeln!(out, "The client left; the server ended with {status}.")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn start(client: &Client, command_id: &str) -> io::Result<String> {
    let snapshot = client
        .expect("terminal_start", json!({ "command_id": command_id }))
        .await?;
    text(&snapshot, "session_id").map(str::to_owned)
}

async fn follow(client: &Client, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "1. Follow a job (`stream`): both streams, as they come"
    )?;
    let session = start(client, "stream").await?;
    let mut cursor = 0;
    loop {
        let page = client
            .expect(
                "terminal_read",
                json!({ "session_id": session, "cursor": cursor, "wait_ms": 2000 }),
            )
            .await?;
        for record in page["records"].as_array().into_iter().flatten() {
            for line in text(record, "text")?.lines() {
                writeln!(
                    out,
                    "   cursor {:>5}  {:<6}  {line}",
                    record["cursor"],
                    text(record, "stream")?
                )?;
            }
        }
        cursor = number(&page, "next_cursor")?;
        if settled(&page) && page["has_more"] == json!(false) {
            break;
        }
    }
    let status = ended(client, &session).await?;
    writeln!(
        out,
        "   {} with code {}\n",
        text(&status, "status")?,
        status["exit_code"]
    )
}

async fn converse(client: &Client, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "2. Type into a program (`interactive`)")?;
    let session = start(client, "interactive").await?;
    let mut cursor = 0;
    for (line, close) in [("hello\n", false), ("goodbye\n", true)] {
        let written = client
            .expect(
                "terminal_write",
                json!({ "session_id": session, "text": line, "close_stdin": close }),
            )
            .await?;
        writeln!(
            out,
            "   > {:<10} {} bytes taken by its stdin",
            line.trim_end(),
            written["accepted_bytes"]
        )?;
        let page = client
            .expect(
                "terminal_read",
                json!({ "session_id": session, "cursor": cursor, "wait_ms": 2000 }),
            )
            .await?;
        cursor = number(&page, "next_cursor")?;
        writeln!(
            out,
            "   < {}",
            joined(&page).trim_end().replace('\n', "\n   < ")
        )?;
    }
    let status = ended(client, &session).await?;
    writeln!(
        out,
        "   its stdin was closed: {} with code {}\n",
        text(&status, "status")?,
        status["exit_code"]
    )
}

async fn decode(client: &Client, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "3. Characters, not bytes")?;
    for (command, what) in [
        ("split-utf8", "written byte by byte"),
        ("invalid-utf8", "with bytes that are no UTF-8"),
    ] {
        let session = start(client, command).await?;
        let status = ended(client, &session).await?;
        let page = client
            .expect("terminal_read", json!({ "session_id": session }))
            .await?;
        writeln!(
            out,
            "   {command} ({what}): {:?}, {} code points",
            joined(&page),
            status["next_cursor"]
        )?;
    }
    writeln!(out)
}

async fn flood(client: &Client, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "4. A flood: a bounded window of the newest text, and no silent gap"
    )?;
    let before = Instant::now();
    let session = start(client, "flood").await?;
    let status = ended(client, &session).await?;
    let seconds = before.elapsed().as_secs_f64();
    let (base, next) = (
        number(&status, "base_cursor")?,
        number(&status, "next_cursor")?,
    );
    writeln!(
        out,
        "   {next} code points in {seconds:.2} s ({:.0} MB/s, start and exit included); the last {} are kept",
        next as f64 / 1e6 / seconds,
        next - base
    )?;
    let refused = client
        .call(
            "terminal_read",
            json!({ "session_id": session, "cursor": 0 }),
        )
        .await?;
    writeln!(
        out,
        "   reading from 0: {} — {}",
        refused["error"]["code"], refused["error"]["message"]
    )?;
    let page = client
        .expect("terminal_read", json!({ "session_id": session, "cursor": refused["error"]["base_cursor"], "max_bytes": 60 }))
        .await?;
    writeln!(out, "   from its base_cursor: {:?}…", joined(&page))?;
    if let Some(memory) = resident(client.pid()) {
        writeln!(out, "   resident memory of the server: {:.1} MiB", memory)?;
    }
    writeln!(out)
}

async fn end(client: &Client, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "5. End a program that ignores TERM (`ignore-term`): the grace, then KILL, for its whole group"
    )?;
    let session = start(client, "ignore-term").await?;
    client
        .expect(
            "terminal_read",
            json!({ "session_id": session, "wait_ms": 2000 }),
        )
        .await?;
    let before = Instant::now();
    let status = client
        .expect(
            "terminal_terminate",
            json!({ "session_id": session, "grace_ms": 300 }),
        )
        .await?;
    writeln!(
        out,
        "   {} by signal {} after {} ms, reason {}\n",
        text(&status, "status")?,
        status["exit_signal"],
        before.elapsed().as_millis(),
        text(&status, "termination_reason")?
    )
}

async fn refuse(client: &Client, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "6. What was not approved does not run")?;
    for call in [
        json!({ "command_id": "rm -rf /" }),
        json!({ "command_id": "stream", "cwd": "/etc" }),
        json!({ "command_id": "stream", "env": { "LD_PRELOAD": "x.so" } }),
    ] {
        let refused = client.call("terminal_start", call.clone()).await?;
        writeln!(
            out,
            "   {call}\n      {} — {}",
            text(&refused["error"], "code")?,
            text(&refused["error"], "message")?
        )?;
    }
    writeln!(out)
}

/// Waits until the session is final and its output has settled.
async fn ended(client: &Client, session: &str) -> io::Result<Value> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let status = client
            .expect("terminal_status", json!({ "session_id": session }))
            .await?;
        let done =
            settled(&status) && !matches!(text(&status, "status")?, "RUNNING" | "TERMINATING");
        if done {
            return Ok(status);
        }
        if Instant::now() > deadline {
            return Err(io::Error::other(format!(
                "a demo job is still {} after 30 s",
                status["status"]
            )));
        }
        // A read at the end of the output returns when more comes or the output settles: a wait, not a poll.
        client
            .expect(
                "terminal_read",
                json!({ "session_id": session, "cursor": status["next_cursor"], "wait_ms": 100, "max_bytes": 4 }),
            )
            .await
            .ok();
    }
}

fn settled(answer: &Value) -> bool {
    answer["output_complete"] == json!(true) || answer["output_incomplete"] == json!(true)
}

fn joined(page: &Value) -> String {
    page["records"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|record| record["text"].as_str())
        .collect()
}

fn text<'a>(value: &'a Value, field: &str) -> io::Result<&'a str> {
    value[field]
        .as_str()
        .ok_or_else(|| io::Error::other(format!("an answer has no text {field}: {value}")))
}

fn number(value: &Value, field: &str) -> io::Result<u64> {
    value[field]
        .as_u64()
        .ok_or_else(|| io::Error::other(format!("an answer has no number {field}: {value}")))
}

/// Resident memory of a process in MiB.
fn resident(pid: Option<u32>) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid?)).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim()
        .trim_end_matches(" kB")
        .parse::<f64>()
        .ok()
        .map(|kib| kib / 1024.0)
}
