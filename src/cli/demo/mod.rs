//! `sluicegate demo`: the main job, to look at. Everything that it prints was just measured or answered.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args;
use serde_json::{Value, json};

use self::stage::Stage;
use super::{
    client::Client,
    doctor::checks,
    place::Place,
    screen::{BAD, GOOD, STRONG, Screen},
    stdio::IoChoice,
};
use crate::config::Config;

mod flood;
mod scenes;
mod stage;

// `demo`'s command line.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// How the server reads and writes pipes. With io_uring, all is shown over epoll afterwards.
    #[arg(long, value_enum, default_value_t)]
    io: IoChoice,
    /// Print what was measured and found as JSON, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Plays every scene; the exit code says whether all went right.
pub(super) fn run(args: &DemoArgs, out: &mut dyn Write) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let began = Instant::now();
    let screen = Screen::of_stdout();
    let mut stage = Stage::new(screen, (!args.json).then_some(&mut *out));
    let rounds = runtime.block_on(play(args.io, &mut stage))?;
    let right = rounds.iter().all(|round| round["ok"] == json!(true));
    if args.json {
        let report = json!({
            "ok": right,
            "version": env!("CARGO_PKG_VERSION"),
            "kernel": checks::kernel(),
            "duration_ms": in_ms(began.elapsed()),
            "rounds": rounds,
        });
        writeln!(out, "{report:#}")?;
    } else {
        let verdict = if right {
            screen.paint(GOOD, "Everything went right.")
        } else {
            screen.paint(BAD, "Something went wrong: see FAIL above.")
        };
        writeln!(out, "{verdict}")?;
    }
    Ok(if right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn play(io: IoChoice, stage: &mut Stage<'_>) -> io::Result<Vec<Value>> {
    let chosen = checks::choice();
    let backends: &[IoChoice] = match io {
        IoChoice::Auto if chosen.because.is_some() => &[IoChoice::Epoll],
        IoChoice::Epoll => &[IoChoice::Epoll],
        IoChoice::Auto | IoChoice::Uring => &[IoChoice::Uring, IoChoice::Epoll],
    };
    let place = Place::new()?;
    let file = place.write(&Config {
        // A window in bytes alone.
        buffer_records: None,
        commands: flood::endless(place.demo_config()?.commands),
        ..place.demo_config()?
    })?;
    let bare = flood::bare(stage)?;
    let mut rounds = Vec::new();
    for backend in backends {
        let client = Client::start(Some(&file), *backend).await?;
        let name = match backend {
            IoChoice::Epoll => "epoll",
            _ => "io_uring",
        };
        let title = format!("sluicegate {} over {name}", env!("CARGO_PKG_VERSION"));
        stage.title(STRONG, &title)?;
        if io == IoChoice::Auto
            && let Some(because) = &chosen.because
        {
            stage.line(&format!("not io_uring: {because}"))?;
        }
        flood::hosted(&client, bare, stage).await?;
        scenes::converse(&client, stage).await?;
        scenes::decode(&client, stage).await?;
        scenes::end(&client, stage).await?;
        scenes::refuse(&client, stage).await?;
        stage.scene("leave", "The client leaves")?;
        let closed = client.close().await?;
        stage.check("the server ends with 0", closed.status.success())?;
        let (scenes, right) = stage.take()?;
        rounds.push(json!({ "io": name, "ok": right, "scenes": scenes }));
    }
    Ok(rounds)
}

/// Whole milliseconds.
fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
