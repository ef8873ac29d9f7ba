//! The server's helpers: whoever is killed, nothing hosted stays, and nothing that is meant for others reaches them.

use std::os::unix::process::CommandExt;

use crate::common::{Owner, Server, proc, wait_until};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use serde_json::{Value, json};

/// Eight ways to hold on.
const STUBBORN: [&str; 8] = [
    "echo up; exec sleep 600",
    "trap '' TERM HUP INT; echo up; while :; do sleep 0.1; done",
    "setsid sh -c 'trap \"\" TERM HUP; echo up; while :; do sleep 0.1; done' & wait",
    // Exits once the other has left the group: before that, the sweep would take it along.
    "x=$( (setsid sh -c 'echo up; exec sleep 600 >&2' &) ); echo $x; exit 0",
    "(setsid sh -c 'echo up; exec sleep 600 <&- >&- 2>&-' &); sleep 600",
    "(env -i setsid sh -c 'echo up; exec env -i sleep 600' &); sleep 600",
    "(setsid sh -c '(setsid sh -c \"echo up; exec sleep 600\" &); sleep 600' &); sleep 600",
    "setsid sh -c 'echo up; kill -STOP $$' & wait",
];

/// A server in a process group of its own.
fn serve() -> Server {
    let owner = STUBBORN
        .iter()
        .enumerate()
        .fold(Owner::new(), |owner, (number, script)| {
            owner.sh(&number.to_string(), script)
        });
    let mut command = owner.command();
    command.process_group(0);
    let server = Server::spawn(owner, command);
    server.initialize();
    server
}

/// Starts all eight, and returns every process that is there because of the server, itself not included.
fn start_all(server: &Server) -> Vec<proc::Stat> {
    for number in 0..STUBBORN.len() {
        server.start(&number.to_string()).wait_for_text("up\n");
    }
    let family = proc::descendants_of(server.pid());
    assert!(family.len() > 20, "{family:?}");
    family
}

fn assert_gone(family: &[proc::Stat]) {
    let is_gone = |process: &proc::Stat| proc::stat(process.pid).is_none_or(|now| now.is_zombie());
    wait_until("all are gone", || family.iter().all(is_gone));
}

#[test]
fn a_killed_server_takes_everything_with_it() {
    let mut server = serve();
    let family = start_all(&server);
    server.signal(Signal::SIGKILL);
    server.wait();
    assert_gone(&family);
}

#[test]
fn a_killed_server_group_takes_everything_with_it() {
    let mut server = serve();
    let family = start_all(&server);
    killpg(Pid::from_raw(server.pid()), Signal::SIGKILL).expect("its own group");
    server.wait();
    assert_gone(&family);
}

#[test]
fn a_server_that_ends_in_order_takes_everything_with_it() {
    let mut server = serve();
    let family = start_all(&server);
    server.close_stdin();
    server.assert_exits_cleanly();
    assert_gone(&family);
}

/// The keeper of a session.
fn keeper_of(leader: i32) -> proc::Stat {
    let keeper = proc::stat(proc::stat(leader).expect("it runs").parent).expect("it waits");
    assert_eq!(keeper.name, "sluice-keeper");
    keeper
}

fn nursery_of(server: &Server) -> proc::Stat {
    let mut children = proc::children_of(&[server.pid()]).into_iter();
    children
        .find(|child| child.name == "sluice-nursery")
        .expect("a nursery")
}

#[test]
fn signals_that_end_others_end_neither_nursery_nor_keepers() {
    let server = Owner::job("read go; exit 5").serve();
    let session = server.start("job");
    let nursery = nursery_of(&server);
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGPIPE,
        Signal::SIGALRM,
    ] {
        killpg(Pid::from_raw(nursery.group), signal).expect("a group of its own");
    }
    assert_ne!(
        nursery.group,
        proc::stat(server.pid()).expect("it runs").group
    );
    session.write("\n");
    assert_eq!(session.wait_final()["exit_code"], 5);
    server.start("job").terminate(0);
    server.finish();
}

/// A status without the checks that hold for sessions whose end is known.
fn status(server: &Server, id: &str) -> Value {
    server.ok("terminal_status", json!({"session_id": id}))
}

#[test]
fn a_killed_keeper_fails_its_session_and_takes_everything_with_it() {
    let server = serve();
    let (one, other) = (server.start("6"), server.start("1"));
    one.wait_for_text("up\n");
    other.wait_for_text("up\n");
    let keeper = keeper_of(one.pid);
    let family = proc::descendants_of(keeper.pid);
    assert!(family.len() >= 3, "{family:?}");
    kill(Pid::from_raw(keeper.pid), Signal::SIGKILL).expect("it runs");
    wait_until("the session has failed", || {
        status(&server, &one.id)["status"] == "FAILED"
    });
    let end = status(&server, &one.id);
    assert!(
        end["exit_code"].is_null() && end["exit_signal"].is_null(),
        "{end}"
    );
    assert_gone(&family);
    wait_until("no zombie is left", || server.zombies().is_empty());
    assert_eq!(other.status()["status"], "RUNNING");
    other.terminate(0);
    server.finish();
}

#[test]
fn a_stopped_keeper_is_made_to_go_on() {
    let server =
        Owner::job("(setsid sleep 60 >&- 2>&- &); kill -STOP $PPID; echo up; read go").serve();
    let session = server.start("job");
    session.wait_for_text("up\n");
    let family = proc::descendants_of(keeper_of(session.pid).pid);
    assert_eq!(session.terminate(0)["status"], "TERMINATED");
    assert_gone(&family);
    server.finish();
}

#[test]
fn without_a_nursery_nothing_starts_and_what_runs_goes_on() {
    let server = Owner::job("(setsid sleep 60 >&- 2>&- &); read go; exit 5").serve();
    let session = server.start("job");
    let descriptors = server.descriptor_count();
    let nursery = nursery_of(&server);
    let family = proc::descendants_of(keeper_of(session.pid).pid);
    kill(Pid::from_raw(nursery.pid), Signal::SIGKILL).expect("it runs");
    wait_until("it is reaped", || proc::stat(nursery.pid).is_none());
    for _ in 0..20 {
        let error = server.refused("terminal_start", json!({"command_id": "job"}));
        assert_eq!(error["code"], "START_FAILED");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("killed"), "{message}");
    }
    let told = || server.stderr().matches("the nursery was killed").count();
    wait_until("the log tells", || told() == 1);
    wait_until("failed starts have left no descriptor", || {
        server.descriptor_count() <= descriptors
    });
    session.write("\n");
    assert_eq!(session.wait_settled()["exit_code"], 5);
    assert_gone(&family);
    assert_eq!(told(), 1, "once, however many starts fail");
    server.finish();
}

#[test]
fn nursery_and_keepers_hold_nothing_of_the_server() {
    let server = Owner::job("echo up; read go").serve();
    let session = server.start("job");
    session.wait_for_text("up\n");
    for process in [nursery_of(&server), keeper_of(session.pid)] {
        // The pidfd of a leader that has just been announced may still be about to be closed.
        wait_until("it holds /dev/null, a socket and a signalfd", || {
            proc::descriptors(process.pid).iter().all(|(number, what)| {
                let what = what.to_string_lossy();
                match number {
                    0..3 => what == "/dev/null",
                    _ => what.starts_with("socket:") || what == "anon_inode:[signalfd]",
                }
            })
        });
        let cwd = std::fs::read_link(format!("/proc/{}/cwd", process.pid));
        assert_eq!(cwd.expect("it runs"), std::path::Path::new("/"));
    }
    server.finish();
}
