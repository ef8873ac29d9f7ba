//! What the benches that bring a harness of their own share: options, medians, the record of raw results and the tables
//! made of it, the engine and the server under test, and the process that floods them.
//!
//! Criterion repeats one thing until its mean is steady. Here each repetition takes a second and a machine that is busy
//! with other work drifts meanwhile, so contenders take turns round by round (A B C D, A B C D) and are compared within
//! each round; what a table shows is the median of the rounds and of the rounds' ratios.

#![allow(clippy::print_stdout, dead_code)]

use std::{cell::RefCell, path::PathBuf};

use sluicegate::io::{Backend, probe};

pub mod chart;
pub mod client;
pub mod drain;
pub mod engine;
pub mod plots;
pub mod record;
pub mod tables;
pub mod writer;

use record::{Record, Sample};

pub const KIB: usize = 1024;
pub const MIB: usize = 1024 * KIB;
pub const GIB: usize = 1024 * MIB;

/// Rows that are measured together, and what measures them.
pub type Group = (&'static str, fn(&Bench));

/// One bench as its command line asks for it, and what it has measured so far.
pub struct Bench {
    name: &'static str,
    /// Everything once and small, only to show that it runs: `cargo bench -- --test`.
    pub test: bool,
    /// Repetitions.
    pub rounds: usize,
    /// Only what one of these is part of the name of; everything when empty.
    only: Vec<String>,
    /// Where the record is kept.
    folder: Option<PathBuf>,
    record: RefCell<Record>,
    /// Whether all of it runs on one CPU, as under `taskset -c 0`.
    one_cpu: bool,
}

impl Bench {
    /// Reads `--test`, `--rounds N`, `--record FOLDER` and filters; what else cargo passes is ignored.
    pub fn from_command_line(name: &'static str, rounds: usize) -> Bench {
        let mut bench = Bench {
            name,
            test: false,
            rounds,
            only: Vec::new(),
            folder: None,
            record: RefCell::default(),
            one_cpu: std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--test" => bench.test = true,
                "--rounds" => {
                    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok());
                    bench.rounds = rounds.expect("--rounds takes a number");
                }
                "--record" => {
                    let folder = arguments.next().expect("--record takes a folder");
                    bench.folder = Some(PathBuf::from(folder));
                }
                flag if flag.starts_with('-') => {}
                filter => bench.only.push(filter.to_owned()),
            }
        }
        if bench.test {
            bench.rounds = 1;
        }
        bench
    }

    /// Measures all groups that are asked for.
    pub fn run(self, groups: &[Group]) {
        for (group, measure) in groups {
            if self.wants(group) {
                measure(&self);
            }
        }
        self.finish();
    }

    /// Whether the group or row is asked for.
    pub fn wants(&self, row: &str) -> bool {
        let wanted = self.only.is_empty() || self.only.iter().any(|only| row.contains(only));
        if wanted {
            eprintln!("{}: {row}", self.name);
        }
        wanted
    }

    /// `full`, or `small` when everything is to be small.
    pub fn size<T>(&self, full: T, small: T) -> T {
        if self.test { small } else { full }
    }

    /// One measurement.
    pub fn add(
        &self,
        work: &str,
        measure: &str,
        unit: &str,
        contender: &str,
        round: usize,
        value: f64,
    ) {
        let place = if self.one_cpu { record::ONE_CPU } else { "" };
        self.record.borrow_mut().add(Sample {
            bench: self.name.to_owned(),
            work: work.to_owned(),
            measure: measure.to_owned(),
            unit: unit.to_owned(),
            contender: format!("{contender}{place}"),
            round,
            value,
        });
    }

    /// Median and 99th percentile of what one round gave.
    pub fn add_p50_p99(
        &self,
        work: &str,
        unit: &str,
        contender: &str,
        round: usize,
        values: &[f64],
    ) {
        self.add(work, "p50", unit, contender, round, percentile(values, 50));
        self.add(work, "p99", unit, contender, round, percentile(values, 99));
    }

    /// Prints the table, and puts what was measured into the record where one is kept.
    pub fn finish(self) {
        let record = self.record.into_inner();
        println!("{}", tables::table(self.name, &record));
        if let Some(folder) = &self.folder {
            record.keep(folder, self.name);
        }
    }
}

/// The backends that this kernel lets us have, io_uring first.
pub fn backends() -> Vec<Backend> {
    match probe() {
        Ok(()) => vec![Backend::Uring, Backend::Epoll],
        Err(refused) => {
            eprintln!("SKIPPED every row of io_uring, which is refused here: {refused}");
            vec![Backend::Epoll]
        }
    }
}

/// The backend's name as a contender and on the server's command line.
pub fn name(backend: Backend) -> &'static str {
    match backend {
        Backend::Uring => "uring",
        Backend::Epoll => "epoll",
    }
}

pub fn this_program() -> PathBuf {
    std::env::current_exe().expect("this program has a path")
}

pub fn gigabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e9
}

/// The middle one; of an even number the mean of the two in the middle. NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The value that `per_cent` of all are not above.
pub fn percentile(values: &[f64], per_cent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() * per_cent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

/// Median of the rounds' ratios.
pub fn ratio(values: &[f64], base: &[f64]) -> f64 {
    let ratios: Vec<f64> = values
        .iter()
        .zip(base)
        .map(|(value, base)| value / base)
        .collect();
    median(&ratios)
}

/// Zeroed bytes that start on a page of their own. Some processors copy at half the speed to and from addresses that are odd
/// multiples of 16, and where an allocator puts a vector is a matter of luck.
pub struct Aligned {
    memory: Vec<u8>,
    bytes: std::ops::Range<usize>,
}

impl Aligned {
    pub fn new(bytes: usize) -> Aligned {
        const PAGE: usize = 4 * KIB;
        let memory = vec![0; bytes + PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        Aligned {
            memory,
            bytes: start..start + bytes,
        }
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.bytes.clone()]
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.bytes.clone()]
    }
}
