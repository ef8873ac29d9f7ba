//! A real build through the host against the same build into a file.
//!
//! `cargo build -v` of one of this project's own dependencies and of what that depends on, from sources that cargo has
//! already, into an empty target folder each time.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use serde_json::{Map, Value, json};
use sluicegate::io::Backend;

mod common;

use common::{
    Bench, backends,
    client::{Client, command, config},
    name,
};

/// Of some twenty crates, build scripts and procedural macros among them.
const PACKAGE: &str = "schemars";
/// For a look at whether it works.
const SMALL_PACKAGE: &str = "memchr";

fn main() {
    let bench = Bench::from_command_line("real_job", 5);
    let Some(cargo) = std::env::var_os("CARGO") else {
        eprintln!("SKIPPED every row: run by `cargo bench`, which says where cargo is");
        return;
    };
    let cargo = cargo.into_string().expect("a path in UTF-8");
    let package = bench.size(PACKAGE, SMALL_PACKAGE);
    let work = format!("cargo build -v of {package}");
    if bench.wants(&work) {
        for round in 0..bench.rounds {
            let add = |contender, seconds| {
                bench.add(&work, "whole build", "s", contender, round, seconds);
            };
            let (seconds, written) = into_a_file(&argv(&cargo, package));
            add("file", seconds);
            for backend in backends() {
                let (seconds, hosted) = through_the_host(&argv(&cargo, package), backend);
                assert_eq!(
                    lines(&hosted),
                    lines(&written),
                    "each line of the log came through"
                );
                add(name(backend), seconds);
            }
        }
    }
    bench.finish();
}

/// Both builds get the same arguments and the same variables.
fn argv(cargo: &str, package: &str) -> Vec<String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let fixed = [
        "build",
        "-v",
        "--offline",
        "--locked",
        "--manifest-path",
        manifest,
        "-p",
        package,
    ];
    std::iter::once(cargo)
        .chain(fixed)
        .map(str::to_owned)
        .collect()
}

fn variables(target: &Path) -> Map<String, Value> {
    let mut variables = Map::new();
    for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Ok(value) = std::env::var(name) {
            variables.insert(name.to_owned(), value.into());
        }
    }
    // The toolchain's own programs come first: a proxy would obey the toolchain file in a dependency's folder, and install
    // what it names.
    let cargo = std::env::var("CARGO").expect("checked by main");
    let programs = Path::new(&cargo).parent().expect("cargo is in a folder");
    let path = std::env::var("PATH").expect("a search path");
    let path = format!("{}:{path}", programs.display());
    variables.insert("PATH".to_owned(), path.into());
    variables.insert("LANG".to_owned(), "C.UTF-8".into());
    variables.insert("LC_ALL".to_owned(), "C.UTF-8".into());
    let target = target.to_str().expect("a path in UTF-8");
    variables.insert("CARGO_TARGET_DIR".to_owned(), target.into());
    variables
}

/// Lines of the log. Their order differs between two builds, and so do times and names; cargo may say besides that
/// another cargo holds its package cache.
fn lines(log: &str) -> usize {
    log.lines()
        .filter(|line| !line.contains("Blocking"))
        .count()
}

fn into_a_file(argv: &[String]) -> (f64, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let file = File::create(&log).expect("a file");
    let before = Instant::now();
    let status = Command::new(&argv[0])
        .args(&argv[1..])
        .env_clear()
        .envs(
            variables(folder.path())
                .iter()
                .map(|(name, value)| (name, value.as_str().expect("text"))),
        )
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("a duplicate"))
        .stderr(file)
        .status()
        .expect("cargo starts");
    let seconds = before.elapsed().as_secs_f64();
    let log = fs::read_to_string(log).expect("the log");
    assert!(status.success(), "the build works: {log}");
    (seconds, log)
}

fn through_the_host(argv: &[String], backend: Backend) -> (f64, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut build = command(&argv.iter().map(String::as_str).collect::<Vec<_>>());
    build["env"] = Value::Object(variables(folder.path()));
    build["stdin"] = "null".into();
    let commands = json!({ "build": build });
    let config = config(
        folder.path(),
        "build",
        commands,
        json!({ "default_timeout_ms": 3_600_000, "max_timeout_ms": 3_600_000 }),
    );
    let mut client = Client::start(&config, backend);
    let before = Instant::now();
    let session = client.start_session("build");
    let (mut cursor, mut log) = (0, String::new());
    loop {
        let read = json!({ "session_id": session, "cursor": cursor, "wait_ms": 2000 });
        let page = client.call("terminal_read", read);
        for record in page["records"].as_array().expect("records") {
            log.push_str(record["text"].as_str().expect("text"));
        }
        cursor = page["next_cursor"].as_u64().expect("a cursor");
        if page["output_complete"] == true && page["has_more"] == false {
            break;
        }
    }
    let seconds = before.elapsed().as_secs_f64();
    let end = client.call("terminal_status", json!({ "session_id": session }));
    assert_eq!(end["exit_code"], 0, "{log}");
    (seconds, log)
}
