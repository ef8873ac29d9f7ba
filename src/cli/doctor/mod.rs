//! `sluicegate doctor`: whether the server can do its work on this machine, and what it would choose.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Args;
use serde_json::{Value, json};

use self::checks::{Check, Verdict};
use super::screen::{BAD, FAINT, GOOD, NOTE, STRONG, Screen};

pub(super) mod checks;

// `doctor`'s command line.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Looks at everything and reports. Exit code 1 when the server can't do its work here.
pub(super) fn run(args: &DoctorArgs, out: &mut dyn Write) -> io::Result<ExitCode> {
    let choice = checks::choice();
    let checks = checks::all(&choice);
    let able = checks.iter().all(|check| check.verdict != Verdict::Broken);
    if args.json {
        writeln!(out, "{:#}", report(&choice, &checks, able))?;
    } else {
        print(&choice, &checks, able, out)?;
    }
    Ok(if able {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn report(choice: &checks::Chosen, checks: &[Check], able: bool) -> Value {
    let listed = checks.iter().map(|check| {
        json!({
            "name": check.name,
            "verdict": check.verdict.as_str(),
            "found": check.found,
            "remedy": check.remedy,
        })
    });
    json!({
        "ok": able,
        "version": env!("CARGO_PKG_VERSION"),
        "kernel": checks::kernel(),
        "architecture": std::env::consts::ARCH,
        "chosen": {
            "io": choice.io,
            "because": choice.because,
        },
        "checks": listed.collect::<Vec<_>>(),
    })
}

fn print(
    choice: &checks::Chosen,
    checks: &[Check],
    able: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let screen = Screen::of_stdout();
    let title = format!("sluicegate {}", env!("CARGO_PKG_VERSION"));
    writeln!(out, "{}\n", screen.paint(STRONG, title))?;
    let widest = checks.iter().map(|check| check.name.len()).max();
    let names = widest.unwrap_or_default();
    let indent = " ".repeat(names + 10);
    for check in checks {
        let style = match check.verdict {
            Verdict::Works => GOOD,
            Verdict::Lacks => NOTE,
            Verdict::Broken => BAD,
        };
        let mark = screen.paint(style, format!("{:<6}", check.verdict.as_str()));
        let head = format!("  {mark}  {:<names$}", check.name);
        writeln!(
            out,
            "{}",
            screen.wrapped(&head, &indent, &format!("  {}", check.found))
        )?;
        if let Some(remedy) = &check.remedy {
            let remedy = screen.wrapped(&indent, &indent, remedy);
            writeln!(out, "{}", screen.paint(FAINT, remedy))?;
        }
    }
    let verdict = if able {
        let because = choice.because.as_ref();
        let because = because.map(|why| format!(", because of {why}"));
        format!(
            "The server works here and would read and write pipes through {}{}.",
            choice.io,
            because.unwrap_or_default()
        )
    } else {
        "The server can't do its work here: see what is broken above.".to_owned()
    };
    writeln!(out, "\n{}", screen.wrapped("", "", &verdict))
}
