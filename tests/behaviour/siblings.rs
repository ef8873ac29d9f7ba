//! Sessions beside each other, and what goes on writing when a session's leader has left.

use crate::common::{Owner, Server, Session, proc, wait_until};
use nix::sys::signal::Signal;
use serde_json::json;

/// Sessions of both kinds in turn, none of whose starts waits for another's answer.
fn sixty_at_once<'s>(server: &'s Server, ids: [&str; 2]) -> Vec<Session<'s>> {
    let start =
        |number: usize| server.send("terminal_start", json!({"command_id": ids[number % 2]}));
    let calls: Vec<_> = (0..60).map(start).collect();
    let sessions = calls.iter().map(|call| Session::of(server, call.ok()));
    sessions.collect()
}

#[test]
fn sixty_sessions_started_at_once_hold_nothing_of_each_others_pipes() {
    // One of each pair reads to its end, which only comes when nobody else holds its pipe; the other stays until told.
    let server = Owner::new()
        .argv("reads", &["/bin/cat"])
        .sh("stays", "read go; exit 7")
        .room_for_many()
        .serve();
    for _ in 0..2 {
        let sessions = sixty_at_once(&server, ["reads", "stays"]);
        let mut pipes = std::collections::BTreeSet::new();
        for session in &sessions {
            let held = proc::descriptors(session.pid);
            assert_eq!(held.len(), 3, "{held:?}");
            assert!(
                held.into_iter().all(|(_, pipe)| pipes.insert(pipe)),
                "each pipe is one child's"
            );
        }
        let pairs = || sessions.chunks_exact(2);
        for pair in pairs() {
            pair[0].write("a line\n");
            pair[0].close_stdin();
        }
        for pair in pairs() {
            assert_eq!(pair[0].read_all().stdout, "a line\n");
            assert_eq!(pair[0].wait_settled()["exit_code"], 0);
            assert_eq!(pair[1].status()["status"], "RUNNING");
        }
        for pair in pairs() {
            pair[1].write("\n");
            assert_eq!(pair[1].wait_settled()["exit_code"], 7);
        }
    }
    server.finish();
}

#[test]
fn a_writer_whose_only_reader_has_left_gets_sigpipe_whatever_runs_beside_it() {
    // Were the reading end of the inner pipe in a sibling too, the writer would block for ever.
    let script = "trap '' TERM; { yes; echo \"yes: $?\" >&2; } | { read line; exec <&-; read go < /dev/null; }; echo over";
    let server = Owner::new()
        .argv("stays", &["/bin/cat"])
        .sh("pipe", script)
        .room_for_many()
        .serve();
    let sessions = sixty_at_once(&server, ["pipe", "stays"]);
    for pair in sessions.chunks_exact(2) {
        let output = pair[0].read_all();
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("over\n", "yes: 141\n")
        );
        assert_eq!(pair[0].wait_settled()["exit_code"], 0);
    }
    server.finish();
}

#[test]
fn a_grandchild_that_goes_on_writing_goes_with_its_leader() {
    let server =
        Owner::job("(trap '' TERM HUP PIPE; while :; do echo line; done) & echo up; exit 3")
            .room_for_many()
            .serve();
    for _ in 0..8 {
        let session = server.start("job");
        let end = session.wait_settled();
        assert_eq!(
            (&end["status"], &end["exit_code"]),
            (&json!("EXITED"), &json!(3))
        );
        assert_eq!(
            end["output_complete"], true,
            "its group is gone, so both pipes have ended"
        );
        session.assert_group_is_gone();
        let later = session.status();
        assert_eq!(
            later["next_cursor"], end["next_cursor"],
            "nothing comes after that"
        );
    }
    server.finish();
}

/// Room for all that a loop can write in the time that a test takes.
fn patient(script: &str) -> Owner {
    Owner::job(script)
        .set("max_sessions", 4)
        .set("max_records", 4)
        .buffer(16 << 20)
}

/// A loop in a kernel session of its own that writes on, after `before`; its id is on the first line.
fn assert_loop_ends(before: &str) {
    let script = format!(
        "(setsid sh -c '{before} echo $$; while :; do echo more || echo lost >&2; done' &); read go; exit 3"
    );
    let server = patient(&script).serve();
    let session = server.start("job");
    let text = session.wait_for_text("more\n");
    let pid: i32 = text
        .lines()
        .next()
        .expect("a line")
        .parse()
        .expect("a process id");
    let _doomed = proc::Doomed::process(pid);
    session.write("\n");
    let end = session.wait_settled();
    assert_eq!(
        (&end["status"], &end["exit_code"]),
        (&json!("EXITED"), &json!(3))
    );
    assert_eq!(
        end["output_incomplete"], true,
        "it held the pipes when they were given up"
    );
    wait_until("the loop is gone", || proc::stat(pid).is_none());
    assert_eq!(session.status()["next_cursor"], end["next_cursor"]);
    server.finish();
}

#[test]
fn a_loop_that_left_its_group_and_writes_on_ends_with_its_session() {
    assert_loop_ends("");
}

#[test]
fn a_loop_that_left_its_group_and_ignores_sigpipe_ends_with_its_session() {
    assert_loop_ends("trap \"\" PIPE TERM HUP INT;");
}

#[test]
fn a_loop_that_writes_on_ends_with_a_killed_server() {
    let script =
        "(setsid sh -c 'trap \"\" PIPE TERM; echo $$; while :; do echo more; done' &); read go";
    let mut server = patient(script).serve();
    let session = server.start("job");
    let text = session.wait_for_text("more\n");
    let pid: i32 = text
        .lines()
        .next()
        .expect("a line")
        .parse()
        .expect("a process id");
    let _doomed = proc::Doomed::process(pid);
    server.signal(Signal::SIGKILL);
    server.wait();
    wait_until("the loop is gone", || !proc::is_alive(pid));
}
