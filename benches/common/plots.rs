//! The plots of PERF.md, made of a record.

use super::{
    chart::{Dots, Panel, Scale, Who, figure},
    median,
    record::Record,
    tables::{into_pipes, sizes},
};

const OURS: [Who; 2] = [Who::Uring, Who::Epoll];

/// Each plot whose figures the record has: its file's name and its text.
pub fn plots(record: &Record) -> Vec<(&'static str, String)> {
    let mut plots = Vec::new();
    if record.of("flood").next().is_some() {
        plots.push(("floods.svg", floods(record)));
    }
    if record.of("syscalls").next().is_some() {
        plots.push(("syscalls.svg", syscalls(record)));
    }
    if !record.values("memory", FLOOD, STEPS, "epoll").is_empty() {
        plots.push(("memory.svg", memory(record)));
    }
    for (what, file) in [
        ("sessions", "sessions.svg"),
        ("KiB kept", "kept.svg"),
        ("KiB a page", "pages.svg"),
    ] {
        if !sizes(record, what).is_empty() {
            plots.push((file, cost(record, what)));
        }
    }
    plots
}

fn floods(record: &Record) -> String {
    let row = |work: String| {
        let dots: Vec<(Who, f64)> = [Who::Bare, Who::BareLarge, Who::Uring, Who::Epoll]
            .into_iter()
            .map(|who| (who, record.values("flood", &work, "speed", who.contender())))
            .filter(|(_, values)| !values.is_empty())
            .map(|(who, values)| (who, median(&values)))
            .collect();
        (work, dots)
    };
    let rows = record.works("flood").into_iter().map(row);
    Dots {
        x: "GB/s (logarithmic)",
        rows: rows.filter(|(_, dots)| !dots.is_empty()).collect(),
    }
    .figure("Speed of draining floods, by what is written")
}

fn syscalls(record: &Record) -> String {
    let panel = |(y, writes): (&'static str, &str)| {
        let line = |who: Who| {
            let point = |pipes: usize| {
                let work = into_pipes(writes, pipes);
                let calls = record.values("syscalls", &work, "system calls", who.contender());
                (pipes as f64, median(&calls))
            };
            (who, known([1, 8, 64].map(point).into()))
        };
        Panel {
            y,
            x: "busy pipes",
            x_scale: Scale::Log,
            ticks: [1, 8, 64]
                .map(|pipes| (f64::from(pipes), pipes.to_string()))
                .into(),
            lines: [Who::Bare, Who::Uring, Who::Epoll].map(line).into(),
        }
    };
    let panels = [
        ("System calls per MiB, 64 KiB writes", "64 KiB writes"),
        ("System calls per MiB, 81-byte lines", "81-byte lines"),
    ];
    figure(
        "System calls of the reading side per MiB",
        &panels.map(panel),
        2,
    )
}

/// Points that were measured.
fn known(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points
        .into_iter()
        .filter(|point| !point.1.is_nan())
        .collect()
}

const FLOOD: &str = "100 GB of flood";
const STEPS: &str = "resident at each 2 GB";

fn memory(record: &Record) -> String {
    let line = |who: Who| {
        let values = record.values("memory", FLOOD, STEPS, who.contender());
        let points = values.iter().enumerate();
        (
            who,
            points
                .map(|(step, &value)| (2.0 * step as f64, value))
                .collect(),
        )
    };
    let panel = Panel {
        y: "Resident memory of the server, MiB",
        x: "GB drained",
        x_scale: Scale::Linear,
        ticks: (0..=5)
            .map(|step| (f64::from(step) * 20.0, (step * 20).to_string()))
            .collect(),
        lines: OURS.map(line).into(),
    };
    figure("Resident memory over a flood of 100 GB", &[panel], 1)
}

/// All that was measured of one thing that grows.
fn cost(record: &Record, what: &str) -> String {
    let sizes = sizes(record, what);
    let (x, measures): (_, &[(&str, &str)]) = match what {
        "sessions" => (
            "sessions",
            &[
                ("drained", "Drained by all, GB/s"),
                ("CPU", "CPU of the server, seconds per GB"),
                ("status p50 when idle", "Status round trip, p50, µs"),
                ("resident when idle", "Resident when idle, MiB"),
            ],
        ),
        "KiB kept" => (
            "KiB kept by the session",
            &[("drained", "Drained, GB/s"), ("resident", "Resident, MiB")],
        ),
        _ => (
            "KiB of text on the page",
            &[
                ("page p50", "Round trip of a page, p50, µs"),
                ("page CPU", "CPU of the server for a page, µs"),
            ],
        ),
    };
    // The names of more than seven would touch: the first, and every second up to the last.
    let is_named = |index: usize| {
        sizes.len() <= 7 || index == 0 || (sizes.len() - 1 - index).is_multiple_of(2)
    };
    let name = |(index, (size, _)): (usize, &(f64, String))| {
        let name = if is_named(index) {
            size.to_string()
        } else {
            String::new()
        };
        (*size, name)
    };
    let ticks: Vec<(f64, String)> = sizes.iter().enumerate().map(name).collect();
    let panel = |(measure, y): &(&str, &'static str)| Panel {
        y,
        x,
        x_scale: Scale::Log,
        ticks: ticks.clone(),
        lines: OURS
            .map(|who| {
                let point = |(size, work): &(f64, String)| {
                    (
                        *size,
                        median(&record.values("cost", work, measure, who.contender())),
                    )
                };
                (who, known(sizes.iter().map(point).collect()))
            })
            .into(),
    };
    let panels: Vec<Panel> = measures.iter().map(panel).collect();
    figure(&format!("Cost by {what}"), &panels, 2)
}
