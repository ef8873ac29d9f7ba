//! What the benches that bring a harness of their own share: options, medians, the table, the record of raw results.
//!
//! Criterion repeats one thing until its mean is steady. Here each repetition takes a second and a machine that is busy
//! with other work drifts meanwhile, so contenders take turns round by round (A B C D, A B C D) and are compared within
//! each round; what is printed is the median of the rounds and of the rounds' ratios.

#![allow(clippy::print_stdout, dead_code)]

use std::{
    cell::RefCell,
    fs::{self, File, OpenOptions},
    io::Write,
    path::PathBuf,
};

/// What the command line asks for.
pub struct Options {
    /// Everything once and small, only to show that it runs: `cargo bench -- --test`.
    pub test: bool,
    /// Repetitions.
    pub rounds: usize,
    /// Only rows whose name contains this.
    only: Option<String>,
    record: Option<RefCell<File>>,
    bench: &'static str,
}

impl Options {
    /// Reads `--test`, `--rounds N`, `--record FILE` and a filter; what else cargo passes is ignored.
    pub fn from_command_line(bench: &'static str) -> Options {
        let mut options = Options {
            test: false,
            rounds: 5,
            only: None,
            record: None,
            bench,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--test" => options.test = true,
                "--rounds" => {
                    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok());
                    options.rounds = rounds.expect("--rounds takes a number");
                }
                "--record" => {
                    let file = PathBuf::from(arguments.next().expect("--record takes a file"));
                    options.record = Some(RefCell::new(open_record(&file)));
                }
                flag if flag.starts_with('-') => {}
                filter => options.only = Some(filter.to_owned()),
            }
        }
        if options.test {
            options.rounds = 1;
        }
        options
    }

    /// Whether the row is asked for.
    pub fn wants(&self, row: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| row.contains(only.as_str()))
    }

    /// `full`, or `small` when everything is to be small.
    pub fn size<T>(&self, full: T, small: T) -> T {
        if self.test { small } else { full }
    }

    /// Puts one measurement into the record.
    pub fn record(&self, row: &str, contender: &str, round: usize, measure: &str, value: f64) {
        if let Some(record) = &self.record {
            let bench = self.bench;
            writeln!(
                record.borrow_mut(),
                "{bench},\"{row}\",{contender},{round},{measure},{value}"
            )
            .expect("the record can be written");
        }
    }
}

fn open_record(file: &PathBuf) -> File {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).expect("the record's folder can be made");
    }
    let is_new = !file.exists();
    let record = OpenOptions::new().create(true).append(true).open(file);
    let mut record = record.expect("the record can be opened");
    if is_new {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cpus = std::thread::available_parallelism().map_or(0, usize::from);
        writeln!(record, "# Linux {}, {cpus} CPUs", kernel.trim())
            .expect("a new file takes a line");
        writeln!(record, "bench,work,contender,round,measure,value").expect("and another");
    }
    record
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
    sorted
        .get((sorted.len() * per_cent / 100).min(sorted.len() - 1))
        .copied()
        .unwrap_or(f64::NAN)
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

/// Prints rows in columns of fixed width.
pub struct Table {
    widths: Vec<usize>,
}

impl Table {
    /// A table whose first row is `head`: a name and its width for each column. The first column is flush left.
    pub fn new(head: &[(&str, usize)]) -> Table {
        let table = Table {
            widths: head.iter().map(|(_, width)| *width).collect(),
        };
        let names: Vec<String> = head.iter().map(|(name, _)| (*name).to_owned()).collect();
        table.row(&names);
        table
    }

    /// One line.
    pub fn row(&self, cells: &[String]) {
        let mut line = String::new();
        for (index, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            if index == 0 {
                line.push_str(&format!("{cell:<width$}"));
            } else {
                line.push_str(&format!("  {cell:>width$}"));
            }
        }
        println!("{}", line.trim_end());
    }
}
