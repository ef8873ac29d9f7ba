//! What a child inherits, and what the server gives back after each: descriptors, process ids, memory.

use std::process::Command;

use crate::common::{Owner, Server, launch, proc, wait_until};
use serde_json::json;

#[test]
fn the_childs_own_memory_and_time_are_accounted() {
    // The shell keeps 48 MiB in a variable. Below the keeper's size, about 1 MiB, the kernel can't tell them apart.
    let server = Owner::job("x=$(head -c 50331648 /dev/zero | tr '\\0' x); echo ${#x}").serve();
    let session = server.start("job");
    assert_eq!(session.read_all().stdout, "50331648\n");
    let end = session.wait_final();
    assert!(end["max_rss_bytes"].as_u64() >= Some(48 << 20), "{end}");
    assert!(end["cpu_ms"].as_u64() > Some(0), "{end}");
    server.finish();
}

#[test]
fn fifteen_hundred_starts_leak_nothing() {
    let server = Owner::new()
        .argv("true", &["/bin/true"])
        .room_for_many()
        .set("retention_seconds", 1)
        .serve();
    let start = || {
        wait_until("there is room for a session", || {
            let body = server.call("terminal_start", json!({"command_id": "true"}));
            let code = body["error"]["code"].as_str();
            assert!(
                body["ok"] == true || matches!(code, Some("SESSION_LIMIT" | "RECORD_LIMIT")),
                "{body}"
            );
            body["ok"] == true
        });
    };
    let idle = || {
        // Only the pipes and pidfds of living sessions come and go.
        wait_until("no child is left", || {
            proc::children_of(&server.processes())
                .iter()
                .all(|child| server.processes().contains(&child.pid))
        });
    };
    (0..300).for_each(|_| start());
    idle();
    let (descriptors, resident) = (server.descriptor_count(), server.resident());
    (0..1200).for_each(|_| start());
    idle();
    wait_until("the descriptors are back", || {
        server.descriptor_count() <= descriptors
    });
    assert_eq!(server.zombies().len(), 0);
    let grown = server.resident().saturating_sub(resident);
    assert!(grown < 16 << 20, "the server grew by {grown} bytes");
    server.finish();
}

#[test]
fn every_way_to_end_gives_the_descriptors_back() {
    let server = Owner::new()
        .sh("exit", "exit 0")
        .sh("cat", "exec cat")
        .argv("missing", &["/nonexistent"])
        .room_for_many()
        .serve();
    let round = || {
        let sessions: Vec<_> = (0..30)
            .map(|n| match n % 3 {
                0 => server.start("exit"),
                1 => server.start("cat"),
                _ => server.start_with(json!({"command_id": "cat", "timeout_ms": 100})),
            })
            .collect();
        server.code("terminal_start", json!({"command_id": "missing"}));
        for (number, session) in sessions.iter().enumerate() {
            if number % 3 == 1 {
                session.terminate(0);
            }
            session.wait_settled();
        }
    };
    round();
    let (before, resident) = (server.descriptor_count(), server.resident());
    // Five hundred sessions and more, a third each way.
    (0..17).for_each(|_| round());
    wait_until("the descriptors are back", || {
        server.descriptor_count() <= before
    });
    wait_until("no zombie is left", || server.zombies().is_empty());
    let grown = server.resident().saturating_sub(resident);
    assert!(grown < 16 << 20, "the server grew by {grown} bytes");
    server.finish();
}

#[test]
fn children_have_default_signals_whatever_the_server_was_given() {
    let owner = Owner::new()
        .argv(
            "signals",
            &["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"],
        )
        .sh("pipe", "yes | head -n 1")
        .sh("term", "sleep 60");
    let mut command = owner.command();
    launch::ignore_signals(
        &mut command,
        &[
            libc::SIGPIPE,
            libc::SIGHUP,
            libc::SIGINT,
            libc::SIGCHLD,
            libc::SIGUSR1,
        ],
    );
    launch::block_signals(&mut command, &[libc::SIGTERM, libc::SIGCHLD, libc::SIGUSR2]);
    let server = Server::spawn(owner, command);
    server.initialize();
    let zero = "0000000000000000";
    assert_eq!(
        server.start("signals").read_all().stdout,
        format!("SigBlk:\t{zero}\nSigIgn:\t{zero}\n")
    );
    let piped = server.start("pipe");
    let output = piped.read_all();
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("y\n", "")
    );
    assert_eq!(piped.wait_final()["exit_code"], 0);
    // Exit codes need SIGCHLD not to be ignored, terminate needs nothing of it.
    assert_eq!(server.start("term").terminate(2000)["exit_signal"], 15);
    wait_until("no zombie is left", || server.zombies().is_empty());
    server.finish();
}

#[test]
fn umask_and_limits_are_those_that_the_server_got() {
    let owner = Owner::job("umask; ulimit -n; ulimit -c; ulimit -s");
    let command =
        owner.command_after("umask 027; ulimit -S -n 300; ulimit -S -c 0; ulimit -S -s 4096");
    let server = Server::spawn(owner, command);
    server.initialize();
    assert_eq!(
        server.start("job").read_all().stdout,
        "0027\n300\n0\n4096\n"
    );
    server.finish();
}

#[test]
fn limits_that_were_raised_for_the_server_reach_no_child() {
    let owner = Owner::job("ulimit -S -n; ulimit -H -n; ulimit -S -c");
    let command = owner.command_after("ulimit -S -c 0; ulimit -S -n 300; ulimit -H -n 2000");
    let server = Server::spawn(owner, command);
    server.initialize();
    for _ in 0..5 {
        assert_eq!(server.start("job").read_all().stdout, "300\n2000\n0\n");
        let pid = server.pid().to_string();
        let raised = Command::new("prlimit")
            .args(["--pid", &pid, "--nofile=2000:2000", "--core=4096"])
            .status();
        assert!(raised.expect("prlimit is there").success());
    }
    server.finish();
}

#[test]
fn a_child_has_three_descriptors() {
    let owner = Owner::new()
        .argv("ls", &["/bin/ls", "/proc/self/fd"])
        .argv("cat", &["/bin/cat"])
        .room_for_many();
    let extra = std::fs::File::open("/dev/null").expect("it is always there");
    let mut command = owner.command();
    launch::inherit_descriptor(&mut command, std::os::fd::AsRawFd::as_raw_fd(&extra), 9);
    let server = Server::spawn(owner, command);
    server.initialize();
    let _others: Vec<_> = (0..8).map(|_| server.start("cat")).collect();
    for _ in 0..10 {
        let calls: Vec<_> = (0..10)
            .map(|_| server.send("terminal_start", json!({"command_id": "ls"})))
            .collect();
        for call in calls {
            let session = crate::common::Session::of(&server, call.ok());
            // 3 is the directory that ls itself reads.
            assert_eq!(session.read_all().stdout, "0\n1\n2\n3\n");
            session.wait_final();
        }
    }
    server.finish();
}

#[test]
fn a_child_does_not_share_the_protocols_stdin() {
    let server = Owner::job("readlink /proc/self/fd/0; exec cat").serve();
    let session = server.start("job");
    let theirs = session.wait_for_text("\n");
    for pid in server.processes() {
        for (fd, target) in proc::descriptors(pid) {
            let same = target.to_str() == Some(theirs.trim());
            // The server holds the write end; its own protocol is elsewhere.
            assert!(
                !(same && fd <= 2),
                "descriptor {fd} of the server is the child's stdin"
            );
        }
    }
    (0..50).for_each(|_| server.ping());
    session.close_stdin();
    assert_eq!(session.read_all().stdout, theirs);
    server.finish();
}

#[test]
fn a_server_that_may_open_too_few_descriptors_says_so_in_one_line() {
    let owner = Owner::job("true");
    let mut command = owner.command_after("ulimit -n 8");
    let stderr = launch::refusal(&mut command);
    assert!(stderr.contains("only 8 descriptors"), "{stderr}");
}
