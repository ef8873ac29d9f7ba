//! Raw results: one measurement a line, in a file for each bench that anything can read.

use std::{
    fmt::Write,
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// What stands behind a contender's name when it ran on one CPU.
pub const ONE_CPU: &str = " on one CPU";

const HEAD: &str = "bench,work,measure,unit,contender,round,value";

/// One measurement.
#[derive(Clone)]
pub struct Sample {
    pub bench: String,
    /// What was done.
    pub work: String,
    /// What of it was measured, in `unit`.
    pub measure: String,
    pub unit: String,
    /// Who did it.
    pub contender: String,
    pub round: usize,
    pub value: f64,
}

/// Measurements, in the order in which their works were first measured.
#[derive(Default)]
pub struct Record {
    samples: Vec<Sample>,
}

impl Record {
    pub fn add(&mut self, sample: Sample) {
        for name in [
            &sample.bench,
            &sample.work,
            &sample.measure,
            &sample.unit,
            &sample.contender,
        ] {
            assert!(!name.contains([',', '"', '\n']), "{name:?} needs no quotes");
        }
        self.samples.push(sample);
    }

    /// What `folder` holds.
    pub fn read(folder: &Path) -> Record {
        let entries = fs::read_dir(folder)
            .unwrap_or_else(|error| panic!("{} can't be read: {error}", folder.display()));
        let mut files: Vec<_> = entries
            .map(|entry| entry.expect("a folder that stays").path())
            .filter(|file| file.extension().is_some_and(|name| name == "csv"))
            .collect();
        files.sort();
        let samples = files.iter().flat_map(|file| read_file(file)).collect();
        Record { samples }
    }

    /// Writes this into `folder`, in place of what stands there of the same works and contenders.
    pub fn keep(self, folder: &Path, bench: &str) {
        fs::create_dir_all(folder).expect("the record's folder can be made");
        let file = folder.join(format!("{bench}.csv"));
        let mut works: Vec<String> = Vec::new();
        let old = if file.exists() {
            read_file(&file)
        } else {
            Vec::new()
        };
        for sample in old.iter().chain(&self.samples) {
            if !works.contains(&sample.work) {
                works.push(sample.work.clone());
            }
        }
        let is_new = |old: &Sample| {
            self.samples
                .iter()
                .any(|new| new.work == old.work && new.contender == old.contender)
        };
        let mut samples: Vec<Sample> = old.into_iter().filter(|old| !is_new(old)).collect();
        samples.extend(self.samples.iter().cloned());
        samples.sort_by_key(|sample| works.iter().position(|work| *work == sample.work));

        let mut text = format!("# {}\n{HEAD}\n", machine());
        for sample in &samples {
            let Sample {
                bench,
                work,
                measure,
                unit,
                contender,
                round,
                value,
            } = sample;
            writeln!(
                text,
                "{bench},{work},{measure},{unit},{contender},{round},{value}"
            )
            .expect("a string takes it");
        }
        fs::write(&file, text).expect("the record can be written");
    }

    pub fn all(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter()
    }

    /// Of one bench.
    pub fn of<'a>(&'a self, bench: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.samples
            .iter()
            .filter(move |sample| sample.bench == bench)
    }

    /// The rounds of one contender in one row.
    pub fn values(&self, bench: &str, work: &str, measure: &str, contender: &str) -> Vec<f64> {
        self.of(bench)
            .filter(|sample| {
                sample.work == work && sample.measure == measure && sample.contender == contender
            })
            .map(|sample| sample.value)
            .collect()
    }

    /// The bench's works, in order.
    pub fn works(&self, bench: &str) -> Vec<String> {
        distinct(self.of(bench).map(|sample| &sample.work))
    }

    /// The bench's contenders: baselines, then ours, and those on one CPU last.
    pub fn contenders(&self, bench: &str) -> Vec<String> {
        let mut found = distinct(self.of(bench).map(|sample| &sample.contender));
        found.sort_by_key(|contender| {
            let name = contender.strip_suffix(ONE_CPU).unwrap_or(contender);
            let ours = ["ours", "uring", "epoll"]
                .iter()
                .position(|our| *our == name);
            (contender.ends_with(ONE_CPU), ours)
        });
        found
    }
}

/// Each once, in the order of their first.
pub fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        if !found.contains(name) {
            found.push(name.clone());
        }
    }
    found
}

fn read_file(file: &Path) -> Vec<Sample> {
    let text = fs::read_to_string(file).expect("the record can be read");
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && *line != HEAD);
    let sample = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [bench, work, measure, unit, contender, round, value] = fields[..] else {
            panic!(
                "{} has a line of another shape than {HEAD}: {line}",
                file.display()
            );
        };
        Sample {
            bench: bench.to_owned(),
            work: work.to_owned(),
            measure: measure.to_owned(),
            unit: unit.to_owned(),
            contender: contender.to_owned(),
            round: round.parse().expect("a round is a number"),
            value: value.parse().expect("a value is a number"),
        }
    };
    lines.map(sample).collect()
}

/// Kernel, processors and the commit that was measured.
fn machine() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models: Vec<&str> = cpus
        .lines()
        .filter(|line| line.starts_with("model name"))
        .filter_map(|line| line.split_once(": "))
        .map(|(_, model)| model)
        .collect();
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .stderr(Stdio::null())
        .output();
    let commit = commit.map_or(String::new(), |answer| {
        String::from_utf8_lossy(&answer.stdout).trim().to_owned()
    });
    format!(
        "Linux {}, {} x {}, commit {commit}",
        kernel.trim(),
        models.len(),
        models.first().unwrap_or(&"?")
    )
}
