//! `sluicegate verify`: this very binary, started as an MCP client would start it, and held to what it promises.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use self::{
    evidence::{Evidence, Io, Played, ms, shown},
    play::Play,
    scenarios::{SCENARIOS, Scenario},
};
use super::{
    client,
    doctor::checks,
    draft::{Draft, Present},
    screen::{BAD, FAINT, GOOD, STRONG, Screen},
    stdio::IoChoice,
    this_program,
};

mod evidence;
mod play;
mod scenarios;

/// How long one scenario may take.
const SCENARIO_LIMIT: Duration = Duration::from_secs(60);

// `verify`'s command line.
#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// File for the evidence, in JSON; replaced if it is there.
    #[arg(long, value_name = "FILE", required_unless_present = "list")]
    output: Option<PathBuf>,
    /// Play only this scenario; may be repeated.
    #[arg(long, value_name = "NAME", value_parser = scenario)]
    scenario: Vec<&'static Scenario>,
    /// List the scenarios and play none.
    #[arg(long)]
    list: bool,
    /// How the server reads and writes pipes.
    #[arg(long, value_enum, default_value_t)]
    io: IoChoice,
}

fn scenario(name: &str) -> Result<&'static Scenario, String> {
    let mut all = SCENARIOS.iter();
    all.find(|scenario| scenario.name == name).ok_or_else(|| {
        let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        format!("there is no such scenario; there are {}", names.join(", "))
    })
}

/// Plays, reports and writes the evidence; the exit code says whether all held.
pub(super) fn run(
    args: &VerifyArgs,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<ExitCode> {
    let screen = Screen::of_stdout();
    let Some(output) = args.output.as_ref().filter(|_| !args.list) else {
        list(screen, out)?;
        return Ok(ExitCode::SUCCESS);
    };
    // Before anything is played: a minute later it would be a minute lost.
    let draft = match Draft::create(output, Present::Replaced) {
        Ok(draft) => draft,
        Err(why) => {
            writeln!(err, "{why}")?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let evidence = runtime.block_on(play_all(args, screen, out))?;
    let text = serde_json::to_string_pretty(&evidence)? + "\n";
    if let Err(why) = draft.place(&text) {
        writeln!(err, "{why}")?;
        return Ok(ExitCode::FAILURE);
    }
    summary(screen, &evidence, out)?;
    let written = format!("evidence: {}", output.display());
    writeln!(out, "{}", screen.wrapped("", "  ", &written))?;
    Ok(if evidence.passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn list(screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    let indent = " ".repeat(widest() + 2);
    for scenario in SCENARIOS {
        let head = format!("{:<1$}  ", scenario.name, widest());
        writeln!(out, "{}", screen.wrapped(&head, &indent, scenario.shows))?;
    }
    Ok(())
}

fn widest() -> usize {
    let names = SCENARIOS.iter().map(|scenario| scenario.name.len());
    names.max().unwrap_or_default()
}

async fn play_all(args: &VerifyArgs, screen: Screen, out: &mut dyn Write) -> io::Result<Evidence> {
    let chosen = checks::choice();
    let (used, because) = match args.io {
        IoChoice::Auto => (chosen.io, chosen.because),
        IoChoice::Uring => ("io_uring", chosen.because),
        IoChoice::Epoll => ("epoll", None),
    };
    let scenarios: Vec<&Scenario> = match args.scenario.as_slice() {
        [] => SCENARIOS.iter().collect(),
        named => named.to_vec(),
    };
    let title = format!("sluicegate {} over {used}", env!("CARGO_PKG_VERSION"));
    writeln!(out, "{}", screen.paint(STRONG, title))?;
    let started_at = format!("{:.3}", jiff::Timestamp::now());
    let began = Instant::now();
    let bar = progress(screen, scenarios.len());
    let mut played = Vec::with_capacity(scenarios.len());
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    for scenario in scenarios {
        bar.set_message(scenario.name);
        let one = tokio::select! {
            one = play(scenario, args.io) => one,
            // What was found until then is evidence too.
            _ = &mut interrupted => {
                played.push(broken_off(scenario, "interrupted", Duration::ZERO));
                break;
            }
        };
        bar.inc(1);
        bar.suspend(|| report(screen, &one, out))?;
        played.push(one);
    }
    bar.finish_and_clear();
    Ok(Evidence {
        format: "sluicegate verify 1",
        passed: played.iter().all(|one| one.passed),
        version: env!("CARGO_PKG_VERSION"),
        program: this_program()?.to_string_lossy().into_owned(),
        kernel: checks::kernel(),
        architecture: std::env::consts::ARCH,
        client: client::sdk(),
        io: Io {
            asked: args.io.as_str(),
            used,
            because,
        },
        started_at,
        duration_ms: ms(began.elapsed()),
        scenarios: played,
    })
}

fn progress(screen: Screen, scenarios: usize) -> ProgressBar {
    if !screen.live() {
        return ProgressBar::hidden();
    }
    let length = u64::try_from(scenarios).unwrap_or(u64::MAX);
    let style = ProgressStyle::with_template("  {bar:10} {pos}/{len} {wide_msg}");
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stdout());
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

async fn play(scenario: &Scenario, io: IoChoice) -> Played {
    let began = Instant::now();
    let mut play = match Play::start(scenario.config, io).await {
        Ok(play) => play,
        Err(error) => return broken_off(scenario, &error.to_string(), began.elapsed()),
    };
    let protocol = play.client().ok().and_then(client::Client::protocol);
    let to_end = async {
        (scenario.run)(&mut play).await?;
        play.close().await
    };
    let outcome = tokio::time::timeout(SCENARIO_LIMIT, to_end).await;
    let error = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("not through after {} s", SCENARIO_LIMIT.as_secs())),
    };
    if error.is_some() {
        // Its stderr may tell why, and nothing of it may disturb the next one.
        play.close().await.ok();
    }
    Played {
        name: scenario.name,
        shows: scenario.shows,
        passed: shown(error.as_deref(), &play.assertions),
        error,
        duration_ms: ms(began.elapsed()),
        protocol,
        stderr: play.stderr,
        calls: play.calls,
        assertions: play.assertions,
    }
}

fn broken_off(scenario: &Scenario, error: &str, took: Duration) -> Played {
    Played {
        name: scenario.name,
        shows: scenario.shows,
        passed: false,
        error: Some(error.to_owned()),
        duration_ms: ms(took),
        protocol: None,
        stderr: String::new(),
        calls: Vec::new(),
        assertions: Vec::new(),
    }
}

fn report(screen: Screen, one: &Played, out: &mut dyn Write) -> io::Result<()> {
    let mark = if one.passed {
        screen.paint(GOOD, "ok  ")
    } else {
        screen.paint(BAD, "FAIL")
    };
    let numbers = format!(
        "{:>7.2} s  {:>2} calls, {:>2} assertions",
        one.duration_ms / 1e3,
        one.calls.len(),
        one.assertions.len()
    );
    // On a narrow terminal the numbers go to a line of their own rather than over its edge.
    let head = format!("  {mark}  {:<1$}", one.name, widest());
    if screen.fits(6 + widest() + numbers.len() + 2) {
        writeln!(out, "{head}  {}", screen.paint(FAINT, numbers))?;
    } else {
        writeln!(out, "{}", head.trim_end())?;
    }
    for fault in one.faults() {
        writeln!(out, "{}", screen.wrapped("        ", "          ", &fault))?;
    }
    Ok(())
}

fn summary(screen: Screen, evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    let passed = evidence.scenarios.iter().filter(|one| one.passed).count();
    let style = if evidence.passed { GOOD } else { BAD };
    let text = format!(
        "{passed} of {} scenarios passed in {:.1} s",
        evidence.scenarios.len(),
        evidence.duration_ms / 1e3
    );
    writeln!(out, "{}", screen.paint(style, text))
}
