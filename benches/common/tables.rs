//! The tables of PERF.md, made of a record. Each number is the median of its rounds.

use super::{
    median, ratio,
    record::{ONE_CPU, Record, distinct},
};

/// What is to be reached: bench, work, measure.
const GOALS: &[(&str, &str, &str, &str)] = &[
    (
        "flood",
        "64 KiB writes",
        "",
        "2.0 of bare; 0.95 of 256 KiB at 1.25 of its CPU",
    ),
    (
        "flood",
        "1 MiB writes",
        "",
        "2.0 of bare; 0.95 of 256 KiB at 1.25 of its CPU",
    ),
    ("flood", "4 KiB writes", "", "0.95 of bare"),
    (
        "flood",
        "8 KiB writes like those of yes",
        "",
        "0.95 of bare",
    ),
    (
        "flood",
        "81-byte lines",
        "",
        "1.3 of bare at 0.6 of its CPU",
    ),
    (
        "flood",
        "Chinese and emoji in 64 KiB",
        "",
        "0.9 of our ASCII",
    ),
    ("flood", "random bytes in 64 KiB", "", "0.3 GB/s"),
    (
        "mcp_roundtrip",
        "server start to tools/list answered",
        "p50",
        "10",
    ),
    ("mcp_roundtrip", "tools/list", "whole answer", "14"),
    ("mcp_roundtrip", "status round trip", "p50", "25"),
    (
        "mcp_roundtrip",
        "status round trip from the Python SDK",
        "p50",
        "0.25",
    ),
    (
        "mcp_roundtrip",
        "status round trip from the Python SDK",
        "p99",
        "0.40",
    ),
    ("mcp_roundtrip", "64 KiB page as both", "p50", "250"),
    ("mcp_roundtrip", "64 KiB page as both", "CPU", "170"),
    (
        "mcp_roundtrip",
        "64 KiB page as both",
        "wire bytes per byte of text",
        "2.1",
    ),
    (
        "mcp_roundtrip",
        "64 KiB page as structured",
        "wire bytes per byte of text",
        "1.1",
    ),
    ("mcp_roundtrip", "reading 10 MB as both", "speed", "200"),
    (
        "mcp_roundtrip",
        "/bin/echo: start to first line",
        "p50",
        "2",
    ),
    (
        "burst",
        "50 sessions of 1000 lines from a burst",
        "read to their ends",
        "0.35",
    ),
    (
        "burst",
        "200 bursts of 50 starts",
        "sessions started and read",
        "10000",
    ),
    ("burst", "status under 8 floods", "p99", "2"),
    (
        "burst",
        "/bin/echo under 8 floods: start to complete",
        "p99",
        "30",
    ),
    ("memory", "idle", "resident", "6"),
    ("memory", "64 idle sessions", "resident", "20"),
    ("memory", "100 GB of flood", "resident at each 2 GB", "flat"),
    ("search", "a word", "time", "20; 2 of rg"),
    ("search", "one of three words", "time", "20; 2 of rg"),
    ("search", "words and numbers", "time", "20; 2 of rg"),
    (
        "search",
        "a word in Chinese and emoji",
        "time",
        "20; 2 of rg",
    ),
    (
        "spawn",
        "/bin/true one after the other",
        "starts",
        "0.7 of posix_spawn",
    ),
    (
        "spool",
        "64 KiB writes kept whole",
        "speed",
        "0.9 of a file",
    ),
    ("spool", "64 KiB page at a random cursor", "p99", "2"),
    (
        "real_job",
        "cargo build -v of schemars",
        "whole build",
        "no slower",
    ),
];

/// Ratios that a bench's table shows besides the figures: of whom, to whom.
const RATIOS: &[(&str, &str, &str)] = &[
    ("syscalls", "uring", "epoll"),
    ("syscalls", "uring", "bare"),
    ("spawn", "uring", "posix_spawn"),
    ("spawn", "epoll", "posix_spawn"),
    ("real_job", "uring", "file"),
    ("real_job", "epoll", "file"),
    ("search", "ours", "rg"),
    ("search", "ours", "slice"),
    ("spool", "uring", "file"),
    ("spool", "epoll", "file"),
    ("utf8", "ours", "std"),
];

/// The bench's table in Markdown.
pub fn table(bench: &str, record: &Record) -> String {
    if record.of(bench).next().is_none() {
        return format!("Not in the record; `benches/run FOLDER {bench}` measures it.\n");
    }
    match bench {
        "flood" => floods(record),
        "cost" => ["sessions", "KiB kept", "KiB a page"]
            .map(|what| growths(record, what))
            .join("\n"),
        _ => rows(bench, record),
    }
}

/// The work whose cost is measured at `size`.
pub fn growth(what: &str, size: usize) -> String {
    format!("{size} {what}")
}

/// The work of as many writers at once.
pub fn into_pipes(writes: &str, pipes: usize) -> String {
    let noun = if pipes == 1 { "pipe" } else { "pipes" };
    format!("{writes} into {pipes} {noun}")
}

/// The sizes at which the cost was measured, with their works.
pub fn sizes(record: &Record, what: &str) -> Vec<(f64, String)> {
    let works = record.works("cost").into_iter();
    let sized = works.filter_map(|work| {
        let size = work.strip_suffix(what)?.trim_end().parse().ok()?;
        Some((size, work))
    });
    sized.collect()
}

fn goal(bench: &str, work: &str, measure: &str) -> &'static str {
    let found = GOALS
        .iter()
        .find(|goal| (goal.0, goal.1, goal.2) == (bench, work, measure));
    found.map_or("", |goal| goal.3)
}

/// How a contender is called in print.
fn title(contender: &str) -> String {
    let (name, place) = match contender.strip_suffix(ONE_CPU) {
        Some(name) => (name, ", one CPU"),
        None => (contender, ""),
    };
    let name = match name {
        "uring" => "io_uring",
        "bare 256K" => "bare, 256 KiB",
        name => name,
    };
    format!("{name}{place}")
}

/// Three digits that count.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size.is_nan() => "-".to_owned(),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn rows(bench: &str, record: &Record) -> String {
    let contenders = record.contenders(bench);
    let ratios: Vec<_> = RATIOS.iter().filter(|ratio| ratio.0 == bench).collect();
    let has_goals = GOALS.iter().any(|goal| goal.0 == bench);
    let mut head = vec!["work".to_owned(), "measure".to_owned()];
    head.extend(contenders.iter().map(|contender| title(contender)));
    head.extend(
        ratios
            .iter()
            .map(|(_, of, base)| format!("{} / {}", title(of), title(base))),
    );
    if has_goals {
        head.push("goal".to_owned());
    }
    let mut lines = vec![head];
    for work in record.works(bench) {
        let of_work = record.of(bench).filter(|sample| sample.work == work);
        let measures = distinct(of_work.map(|sample| &sample.measure));
        for measure in measures {
            let values = |contender: &str| record.values(bench, &work, &measure, contender);
            let unit = record
                .of(bench)
                .find(|sample| sample.work == work && sample.measure == measure)
                .map_or("", |sample| &sample.unit);
            let label = match unit {
                "" => measure.clone(),
                unit => format!("{measure}, {unit}"),
            };
            let mut line = vec![work.clone(), label];
            line.extend(
                contenders
                    .iter()
                    .map(|contender| short(median(&values(contender)))),
            );
            line.extend(
                ratios
                    .iter()
                    .map(|(_, of, base)| short(ratio(&values(of), &values(base)))),
            );
            if has_goals {
                line.push(goal(bench, &work, &measure).to_owned());
            }
            lines.push(line);
        }
    }
    markdown(&lines)
}

fn floods(record: &Record) -> String {
    const BENCH: &str = "flood";
    let mut head = vec!["work".to_owned()];
    head.extend(["bare", "bare 256K", "uring", "epoll"].map(title));
    head.extend(
        [
            "uring / bare",
            "its CPU",
            "uring / 256K",
            "its CPU",
            "epoll / uring",
            "goal",
        ]
        .map(str::to_owned),
    );
    let mut lines = vec![head];
    let mut shares = Vec::new();
    for (place, suffix) in [("", ""), (ONE_CPU, ", one CPU")] {
        for work in record.works(BENCH) {
            let [bare, large, uring, epoll] =
                ["bare", "bare 256K", "uring", "epoll"].map(|name| format!("{name}{place}"));
            let values =
                |contender: &String, measure| record.values(BENCH, &work, measure, contender);
            let share = |contender| median(&values(contender, "share"));
            if !share(&epoll).is_nan() {
                shares.push(format!(
                    "{work}{suffix}: {} on io_uring, {} on epoll (goal: 0.7).",
                    short(share(&uring)),
                    short(share(&epoll))
                ));
            }
            if values(&bare, "speed").is_empty() {
                continue;
            }
            let cell = |contender| {
                let (speed, cpu) = (values(contender, "speed"), values(contender, "CPU"));
                format!("{} ({})", short(median(&speed)), short(median(&cpu)))
            };
            let between =
                |of, base, measure| short(ratio(&values(of, measure), &values(base, measure)));
            lines.push(vec![
                format!("{work}{suffix}"),
                cell(&bare),
                cell(&large),
                cell(&uring),
                cell(&epoll),
                between(&uring, &bare, "speed"),
                between(&uring, &bare, "CPU"),
                between(&uring, &large, "speed"),
                between(&uring, &large, "CPU"),
                between(&epoll, &uring, "speed"),
                goal(BENCH, &work, "").to_owned(),
            ]);
        }
    }
    format!("{}\n{}\n", markdown(&lines), shares.join("\n"))
}

/// One table for each thing that grows; io_uring and epoll side by side in a cell.
fn growths(record: &Record, what: &str) -> String {
    let sizes = sizes(record, what);
    let Some((_, first)) = sizes.first() else {
        return String::new();
    };
    let of_first: Vec<_> = record
        .of("cost")
        .filter(|sample| sample.work == *first)
        .collect();
    let measures = distinct(of_first.iter().map(|sample| &sample.measure));
    let unit = |measure: &String| {
        let sample = of_first.iter().find(|sample| sample.measure == *measure);
        sample.map_or("", |sample| &sample.unit)
    };
    let mut head = vec![what.to_owned()];
    head.extend(
        measures
            .iter()
            .map(|measure| format!("{measure}, {}", unit(measure))),
    );
    let mut lines = vec![head];
    for (size, work) in &sizes {
        let mut line = vec![short(*size)];
        for measure in &measures {
            let of = |contender| short(median(&record.values("cost", work, measure, contender)));
            line.push(format!("{} / {}", of("uring"), of("epoll")));
        }
        lines.push(line);
    }
    markdown(&lines)
}

/// Rows in columns, the first of them the head.
fn markdown(lines: &[Vec<String>]) -> String {
    let columns = lines[0].len();
    let width = |column: usize| {
        let widths = lines.iter().map(|line| line[column].chars().count());
        widths.max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        for (cell, &width) in line.iter().zip(&widths) {
            text.push_str(&format!("| {cell:<width$} "));
        }
        text.push_str("|\n");
        if index == 0 {
            for &width in &widths {
                text.push_str(&format!("|{}", "-".repeat(width + 2)));
            }
            text.push_str("|\n");
        }
    }
    text
}
