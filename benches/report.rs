//! Makes tables and plots of a record.
//!
//! `cargo bench --bench report -- FOLDER` writes `tables.md` and the plots into the folder. Where PERF.md shows that
//! folder's figures, its tables are written anew as well. `--criterion FOLDER` first takes over what criterion measured.
//! `--test` writes nothing, and fails when PERF.md or a plot isn't what the record gives.

use std::{
    fs,
    path::{Path, PathBuf},
};

mod common;

use common::{
    plots::plots,
    record::{Record, Sample, distinct},
    tables::table,
};
use serde_json::Value;

/// Before and behind a table in PERF.md, with the bench's name.
const BEGIN: &str = "<!-- figures of ";
const END: &str = "<!-- end -->";
/// Where PERF.md says which record it shows.
const SHOWN: &str = "<!-- record: ";
/// Benches whose rows are criterion's.
const CRITERION: [&str; 2] = ["utf8", "record_log"];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut test, mut folder) = (false, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--test" => test = true,
            "--criterion" => {
                let from = PathBuf::from(arguments.next().expect("--criterion takes a folder"));
                let to: &PathBuf = folder.as_ref().expect("the record's folder comes first");
                take_over(&from, to);
            }
            flag if flag.starts_with('-') => {}
            path => folder = Some(PathBuf::from(path)),
        }
    }
    let perf_file = Path::new(env!("CARGO_MANIFEST_DIR")).join("PERF.md");
    let perf = fs::read_to_string(&perf_file).expect("PERF.md");
    let shown = perf
        .split_once(SHOWN)
        .and_then(|(_, rest)| rest.split_once(" -->"));
    let shown = Path::new(shown.expect("PERF.md names its record").0);
    let folder = folder.unwrap_or(shown.to_owned());
    let is_shown = folder.canonicalize().ok() == shown.canonicalize().ok();
    let record = Record::read(&folder);

    if test {
        assert!(
            filled(&perf, &record) == perf,
            "PERF.md shows other figures than {}; write it with: cargo bench --bench report",
            shown.display()
        );
        for (name, svg) in plots(&record) {
            let there = fs::read_to_string(folder.join(name)).unwrap_or_default();
            assert!(there == svg, "{name} is not made of the record");
        }
        return;
    }
    for (name, svg) in plots(&record) {
        fs::write(folder.join(name), svg).expect("a plot can be written");
    }
    let benches = distinct(record.all().map(|sample| &sample.bench));
    let tables = benches
        .iter()
        .map(|bench| format!("{}{}\n", begin(bench), table(bench, &record)));
    fs::write(
        folder.join("tables.md"),
        tables.collect::<Vec<_>>().join("\n"),
    )
    .expect("the tables can be written");
    if is_shown {
        fs::write(perf_file, filled(&perf, &record)).expect("PERF.md can be written");
    }
}

fn begin(bench: &str) -> String {
    format!("{BEGIN}{bench} -->\n")
}

/// The page with each table as the record gives it.
fn filled(page: &str, record: &Record) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (bench, after) = after.split_once(" -->\n").expect("a bench's name");
        let (_, after) = after.split_once(END).expect("an end of the figures");
        text.push_str(before);
        text.push_str(&begin(bench));
        text.push_str(&table(bench, record));
        text.push_str(END);
        rest = after;
    }
    text + rest
}

/// Turns criterion's samples into a record: GB/s where a throughput was given, nanoseconds else.
fn take_over(criterion: &Path, folder: &Path) {
    let mut found = Vec::new();
    find(criterion, &mut found);
    found.sort();
    for bench in CRITERION {
        let mut record = Record::default();
        for place in &found {
            samples_of(place, bench, &mut record);
        }
        if record.of(bench).next().is_some() {
            record.keep(folder, bench);
        }
    }
}

/// Every folder `new` below.
fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("criterion's folder") {
        let path = entry.expect("an entry").path();
        if path.ends_with("new") {
            found.push(path);
        } else if path.is_dir() {
            find(&path, found);
        }
    }
}

fn samples_of(place: &Path, bench: &str, record: &mut Record) {
    let json = |name: &str| -> Value {
        let text = fs::read_to_string(place.join(name)).expect("criterion wrote it");
        serde_json::from_str(&text).expect("JSON")
    };
    let about = json("benchmark.json");
    let text = |field: &str| about[field].as_str().map(str::to_owned);
    let group = text("group_id").expect("a group");
    let Some(group) = group
        .strip_prefix(bench)
        .and_then(|rest| rest.strip_prefix('/'))
    else {
        return;
    };
    let function = text("function_id").expect("a function");
    let (work, contender) = match function.as_str() {
        "decoder" | "simd" => (group.to_owned(), "ours"),
        "std_lossy" | "std_chars" => (group.to_owned(), "std"),
        _ => {
            let value = text("value_str").map_or(String::new(), |value| format!(" {value}"));
            (format!("{group}: {function}{value}"), "ours")
        }
    };
    let bytes = about["throughput"]["Bytes"].as_f64();
    let sample = json("sample.json");
    let list = |field: &str| -> Vec<f64> {
        let numbers = sample[field].as_array().expect("a list");
        numbers.iter().filter_map(Value::as_f64).collect()
    };
    for (round, (iterations, ns)) in list("iters").iter().zip(list("times")).enumerate() {
        let ns = ns / iterations;
        let (measure, unit, value) = match bytes {
            Some(bytes) => ("speed", "GB/s", bytes / ns),
            None => ("time", "ns", ns),
        };
        record.add(Sample {
            bench: bench.to_owned(),
            work: work.replace('_', " "),
            measure: measure.to_owned(),
            unit: unit.to_owned(),
            contender: contender.to_owned(),
            round,
            value,
        });
    }
}
