//! What a profile holds its command to, and descendants that may stay.

use crate::common::{Owner, proc, wait_until};
use serde_json::{Value, json};

fn job(script: &str, field: &str, value: Value) -> Owner {
    let mut profile = json!({"argv": ["/bin/sh", "-c", script]});
    profile[field] = value;
    Owner::new().profile("job", profile)
}

/// What `/proc/self/limits` says of a limit: soft and hard.
fn limits(text: &str, name: &str) -> (String, String) {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let mut fields = line.expect("the kernel lists it").split_whitespace();
    let mut next = || fields.next().expect("a number").to_owned();
    (next(), next())
}

#[test]
fn limits_are_set_before_the_first_instruction() {
    let values = json!({
        "cpu_seconds": 50,
        "memory_bytes": 1_u64 << 30,
        "processes": 4_000,
        "open_files": 64,
        "file_bytes": 4_096,
    });
    let server = job("cat /proc/self/limits", "limits", values).serve();
    let session = server.start("job");
    let text = session.read_all().stdout;
    for (name, soft, hard) in [
        ("Max cpu time", "50", "51"),
        ("Max address space", "1073741824", "1073741824"),
        ("Max processes", "4000", "4000"),
        ("Max open files", "64", "64"),
        ("Max file size", "4096", "4096"),
    ] {
        assert_eq!(
            limits(&text, name),
            (soft.to_owned(), hard.to_owned()),
            "{name}"
        );
    }
    server.finish();
}

#[test]
fn without_limits_a_child_has_the_servers_own() {
    let server = Owner::job("cat /proc/self/limits").serve();
    let theirs = server.start("job").read_all().stdout;
    let ours = std::fs::read_to_string("/proc/self/limits").expect("it is there");
    assert_eq!(theirs, ours);
    server.finish();
}

#[test]
fn a_limit_above_the_servers_own_leaves_that_in_force() {
    let owner = job("ulimit -Hn", "limits", json!({"open_files": 1_048_576}));
    let mut command = std::process::Command::new("/bin/sh");
    let served = owner.command();
    command
        .args(["-c", "ulimit -n 200; exec \"$0\" \"$@\""])
        .arg(served.get_program())
        .args(served.get_args());
    let server = crate::common::Server::spawn(owner, command);
    server.initialize();
    assert_eq!(server.start("job").read_all().stdout, "200\n");
    server.finish();
}

#[test]
fn cpu_time_ends_a_job_that_burns_it() {
    let server = job("while :; do :; done", "limits", json!({"cpu_seconds": 1})).serve();
    let session = server.start("job");
    let end = session.wait_final();
    assert_eq!(end["exit_signal"], libc::SIGXCPU);
    assert_eq!(end["status"], "EXITED");
    server.finish();
}

#[test]
fn nice_and_umask_are_those_of_the_profile() {
    let server = job("umask; nice", "umask", json!("027")).serve();
    assert!(server.start("job").read_all().stdout.starts_with("0027\n"));
    server.finish();
    let server = job("nice", "nice", json!(19)).serve();
    assert_eq!(server.start("job").read_all().stdout, "19\n");
    server.finish();
}

/// A daemon as they come: its own kernel session, no pipes. Its id is on the first line.
const DAEMON: &str = "setsid sh -c 'echo $$; exec sleep 600 <&- >&- 2>&-' & read go; exit 3";

#[test]
fn a_daemon_that_may_stay_stays_when_its_session_has_ended_by_itself() {
    let mut server = job(DAEMON, "allow_detach", json!(true)).serve();
    let session = server.start("job");
    let daemon: i32 = session.wait_for_text("\n").trim().parse().expect("an id");
    let _daemon = proc::Doomed::process(daemon);
    session.write("\n");
    assert_eq!(session.wait_settled()["exit_code"], 3);
    wait_until("its own keeper is its parent", || {
        let parent = proc::stat(daemon).expect("it stays").parent;
        proc::children_of(&[parent]).len() == 1
    });
    let keeper = proc::stat(daemon).expect("it stays").parent;
    server.close_stdin();
    server.assert_exits_cleanly();
    assert!(
        proc::is_alive(daemon),
        "also when the server has ended in order"
    );
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(daemon),
        nix::sys::signal::Signal::SIGKILL,
    )
    .expect("it is there");
    wait_until("its keeper ends with it", || !proc::is_alive(keeper));
    assert!(!proc::is_alive(daemon));
}

#[test]
fn a_daemon_that_may_stay_goes_when_its_session_is_ended() {
    let server = job(DAEMON, "allow_detach", json!(true)).serve();
    let session = server.start("job");
    let daemon: i32 = session.wait_for_text("\n").trim().parse().expect("an id");
    let _daemon = proc::Doomed::process(daemon);
    session.terminate(0);
    wait_until("it is gone", || !proc::is_alive(daemon));
    server.finish();
}

#[test]
fn a_daemon_that_may_stay_goes_when_the_server_is_killed_during_its_session() {
    let mut server = job(DAEMON, "allow_detach", json!(true)).serve();
    let session = server.start("job");
    let daemon: i32 = session.wait_for_text("\n").trim().parse().expect("an id");
    let _daemon = proc::Doomed::process(daemon);
    server.signal(nix::sys::signal::Signal::SIGKILL);
    server.wait();
    wait_until("it is gone", || !proc::is_alive(daemon));
}
