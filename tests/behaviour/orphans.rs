//! Descendants that leave their group: they belong to their session, end with it, and leave no zombie.

use crate::common::{Owner, Server, Session, proc, wait_until};
use nix::sys::signal::Signal;
use serde_json::json;

/// The number on the first line of a session's output: the escaped process's id.
fn escaped(session: &Session) -> i32 {
    let text = session.wait_for_text("\n");
    let line = text.lines().next().expect("a line");
    line.parse().expect("a process id")
}

/// Whether an escaped process holds the pipes of its session.
#[derive(Clone, Copy, PartialEq)]
enum Pipes {
    Held,
    Closed,
}

/// Waits until the session settled although a process outside its group lives, and until that process, whose id the child
/// printed, is gone. Where it held the pipes, the end of the output was given up and that is said, for good.
fn assert_escaped_goes_too(pipes: Pipes, script: &str) {
    let server = Owner::job(script).set("max_sessions", 1).serve();
    let session = server.start("job");
    let escaped = escaped(&session);
    let pipes_of = |pid: i32| {
        let open = proc::descriptors(pid).into_iter().map(|(_, what)| what);
        open.filter(|what| what.to_string_lossy().starts_with("pipe:"))
            .collect::<Vec<_>>()
    };
    let ours = pipes_of(session.pid);
    assert_eq!(ours.len(), 3);
    let _escaped = proc::Doomed::process(escaped);
    wait_until("it has a group of its own", || {
        proc::stat(escaped).is_some_and(|process| process.group != session.pid)
    });
    session.write("\n");
    let end = session.wait_settled();
    assert_eq!(
        (&end["status"], &end["exit_code"]),
        (&json!("EXITED"), &json!(0))
    );
    assert_eq!(
        (&end["output_complete"], &end["output_incomplete"]),
        (&json!(pipes == Pipes::Closed), &json!(pipes == Pipes::Held))
    );
    assert!(session.read_all().stdout.ends_with("\nhi\n"));
    wait_until("the escaped process is gone", || {
        proc::stat(escaped).is_none()
    });
    let later = session.status();
    for field in ["output_complete", "output_incomplete"] {
        assert_eq!(later[field], end[field], "settled is settled");
    }
    wait_until("the server has closed its ends of the pipes", || {
        pipes_of(server.pid())
            .iter()
            .all(|pipe| !ours.contains(pipe))
    });
    // The only place is free again.
    server.start("job");
    server.finish();
}

#[test]
fn a_descendant_in_another_kernel_session_goes_with_its_session() {
    assert_escaped_goes_too(
        Pipes::Held,
        "setsid sh -c 'echo $$; exec sleep 60' & read go; echo hi",
    );
}

#[test]
fn a_double_forked_descendant_goes_with_its_session() {
    assert_escaped_goes_too(
        Pipes::Held,
        "(setsid sh -c 'echo $$; exec sleep 60' &) ; read go; echo hi",
    );
}

#[test]
fn an_escaped_descendant_without_pipes_goes_with_its_session() {
    assert_escaped_goes_too(
        Pipes::Closed,
        "(setsid sh -c 'echo $$; exec sleep 60 <&- >&- 2>&-' &) ; read go; echo hi",
    );
}

#[test]
fn an_escaped_descendant_with_an_empty_environment_goes_with_its_session() {
    assert_escaped_goes_too(
        Pipes::Held,
        "(env -i setsid sh -c 'echo $$; exec env -i sleep 60' &) ; read go; echo hi",
    );
}

#[test]
fn an_escaped_descendant_that_ignores_everything_goes_with_its_session() {
    assert_escaped_goes_too(
        Pipes::Held,
        "(setsid sh -c 'trap \"\" TERM HUP INT; echo $$; while :; do sleep 1; done' &) ; read go; echo hi",
    );
}

#[test]
fn a_stopped_escaped_descendant_goes_with_its_session() {
    assert_escaped_goes_too(
        Pipes::Held,
        "(setsid sh -c 'echo $$; kill -STOP $$' &) ; read go; echo hi",
    );
}

#[test]
fn termination_of_a_leader_takes_its_escaped_descendants() {
    let server =
        Owner::job("setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait")
            .serve();
    let session = server.start("job");
    let escaped = escaped(&session);
    let _escaped = proc::Doomed::process(escaped);
    assert_eq!(session.terminate(0)["status"], "TERMINATED");
    wait_until("the escaped process is gone", || {
        proc::stat(escaped).is_none()
    });
    server.finish();
}

#[test]
fn orphans_are_reaped_while_the_session_runs_on() {
    // Thirty processes whose parents leave them, each in a session of its own, none waited for by anybody.
    let script = "i=0; while [ $i -lt 30 ]; do (setsid sh -c 'exit 3' &); i=$((i+1)); done; echo done; read go";
    let server = Owner::job(script).serve();
    let session = server.start("job");
    session.wait_for_text("done\n");
    wait_until("all are gone", || {
        let keeper = proc::stat(session.pid).expect("it waits").parent;
        proc::children_of(&[keeper]).len() == 1
    });
    assert_eq!(session.status()["status"], "RUNNING");
    session.write("\n");
    assert_eq!(session.wait_final()["exit_code"], 0);
    server.finish();
}

#[test]
fn orphans_are_reaped_although_the_leader_is_a_zombie() {
    // The leader dies of TERM at once; members of its group die one by one during the grace, and the last ignores it.
    let script = "trap 'exit 0' TERM
        for i in 1 2 3; do (trap '' TERM; sleep 0.$i) & done
        (trap '' TERM; echo up; exec sleep 60) &
        wait";
    let server = Owner::job(script).serve();
    let session = server.start("job");
    session.wait_for_text("up\n");
    let keeper = proc::stat(session.pid).expect("it runs").parent;
    let call = server.send(
        "terminal_terminate",
        json!({"session_id": session.id, "grace_ms": 2000}),
    );
    wait_until(
        "only the leader's zombie and the last member are left",
        || {
            let children = proc::children_of(&[keeper]);
            children.len() == 2
                && children
                    .iter()
                    .any(|child| child.pid == session.pid && child.is_zombie())
        },
    );
    assert_eq!(call.ok()["status"], "TERMINATED");
    session.assert_group_is_gone();
    server.finish();
}

#[test]
fn the_end_of_one_session_leaves_anothers_descendants_alone() {
    let server = Owner::job("(setsid sh -c 'echo $$; exec sleep 60 >&- 2>&-' &); read go").serve();
    let (one, other) = (server.start("job"), server.start("job"));
    let (first, second) = (escaped(&one), escaped(&other));
    let _escaped = (proc::Doomed::process(first), proc::Doomed::process(second));
    one.write("\n");
    one.wait_settled();
    wait_until("the ended session's is gone", || {
        proc::stat(first).is_none()
    });
    assert!(proc::is_alive(second));
    assert_eq!(other.status()["status"], "RUNNING");
    other.write("\n");
    other.wait_settled();
    wait_until("the other's is gone", || proc::stat(second).is_none());
    server.finish();
}

#[test]
fn a_tree_of_escaped_descendants_goes_to_its_last_leaf() {
    // Each generation in a kernel session of its own, forty deep, all alive.
    let grow = r#"if [ "$1" -gt 0 ]; then setsid sh -c "$0" "$0" $(($1 - 1)) & else echo deep; fi; sleep 60"#;
    let server = Owner::new()
        .argv("job", &["/bin/sh", "-c", grow, grow, "40"])
        .serve();
    let session = server.start("job");
    session.wait_for_text("deep\n");
    let family = proc::descendants_of(proc::stat(session.pid).expect("it runs").parent);
    assert!(family.len() > 40, "{} processes", family.len());
    session.terminate(0);
    wait_until("all are gone", || {
        family
            .iter()
            .all(|process| proc::stat(process.pid).is_none())
    });
    server.finish();
}

#[test]
fn a_fork_storm_under_its_profiles_process_limit_is_cleaned_up() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root may become the user whose processes are limited");
        return;
    }
    let storm = r#"while :; do setsid sh -c "$0" "$0" "$1" & sleep 0.5; done"#;
    // A user that nobody else is: the kernel counts all processes of one, and root's not at all.
    let user = 1_000_000 + std::process::id();
    let (uid, mark) = (format!("--reuid={user}"), format!("storm-{user}"));
    let profile = json!({
        "argv": ["/usr/bin/setpriv", uid, "sh", "-c", storm, storm, mark],
        "limits": {"processes": 200},
    });
    let server = Owner::new().profile("job", profile).serve();
    let session = server.start("job");
    // Long before the limit: a shell that can't fork ends, and a storm of them can die out.
    wait_until("it storms", || proc::with_argument(&mark).len() > 10);
    session.terminate(0);
    session.wait_settled();
    wait_until("it is over", || proc::with_argument(&mark).is_empty());
    wait_until("no zombie is left", || server.zombies().is_empty());
    server.finish();
}

#[test]
fn a_fork_bomb_that_has_reached_its_profiles_process_limit_is_cleaned_up() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root may become the user whose processes are limited");
        return;
    }
    // Those that can't fork stay, so the bomb fills its limit and holds it. Half of them have left the group.
    let bomb = r#"trap "" TERM; [ $1 -gt 0 ] && { sh -c "$0" "$0" $(($1 - 1)) $2 & setsid sh -c "$0" "$0" $(($1 - 1)) $2 & }
        while :; do sleep 60; done"#;
    let user = 2_000_000 + std::process::id();
    let (uid, mark) = (format!("--reuid={user}"), format!("bomb-{user}"));
    let profile = json!({
        "argv": ["/usr/bin/setpriv", uid, "sh", "-c", bomb, bomb, "10", mark],
        "limits": {"processes": 60},
    });
    let server = Owner::new().profile("job", profile).serve();
    let session = server.start("job");
    wait_until("forks fail", || {
        let page = session.read(json!({"cursor": 0}));
        crate::common::session::stream_text(&page, "stderr").contains("fork")
    });
    assert!(proc::with_argument(&mark).len() <= 60);
    assert_eq!(session.terminate(0)["status"], "TERMINATED");
    session.wait_settled();
    wait_until("it is over", || proc::with_argument(&mark).is_empty());
    wait_until("no zombie is left", || server.zombies().is_empty());
    server.finish();
}

#[test]
fn forty_sessions_at_once_have_their_own_exit_codes() {
    let mut owner = Owner::new().set("max_sessions", 40).set("max_records", 40);
    owner = owner.set("buffer_bytes", 4096).set("buffer_records", 4096);
    for code in 0..40 {
        owner = owner.sh(&code.to_string(), &format!("exit {code}"));
    }
    let server = owner.serve();
    let calls = (0..40)
        .map(|code| server.send("terminal_start", json!({"command_id": code.to_string()})))
        .collect::<Vec<_>>();
    for (code, call) in calls.iter().enumerate() {
        let session = Session::of(&server, call.ok());
        let end = session.wait_settled();
        assert_eq!(end["exit_code"], code);
        let rss = end["max_rss_bytes"].as_u64().expect("it was reaped");
        assert!((64 << 10..32 << 20).contains(&rss), "{rss} bytes");
    }
    server.finish();
}

#[test]
fn the_process_in_the_snapshot_is_the_leader() {
    let server = Owner::job("echo $$; read go").serve();
    let session = server.start("job");
    assert_eq!(escaped(&session), session.pid);
    let leader = proc::stat(session.pid).expect("it waits");
    assert_eq!((leader.group, leader.session), (session.pid, session.pid));
    server.finish();
}

/// The server's own processes, and what they have open.
fn footprint(server: &Server) -> (usize, usize) {
    (server.processes().len(), server.descriptor_count())
}

#[test]
fn runners_that_never_stay_in_one_process_are_caught() {
    // Twenty of them. Each starts its successor in a kernel session of its own and ends.
    let run = r#"setsid sh -c "$0" "$0" runner-of-ours <&- >&- 2>&- & exit"#;
    let start = r#"i=0; while [ $i -lt 20 ]; do setsid sh -c "$0" "$0" runner-of-ours & i=$((i+1)); done; echo up; read go"#;
    let server = Owner::new()
        .argv("job", &["/bin/sh", "-c", start, run])
        .serve();
    let session = server.start("job");
    session.wait_for_text("up\n");
    let keeper = proc::stat(session.pid).expect("it waits").parent;
    // Beside the leader, any: all were started before "up", but a look at processes that end all the time misses most.
    wait_until("they run", || proc::children_of(&[keeper]).len() > 1);
    session.terminate(0);
    session.wait_settled();
    wait_until("the keeper is done", || {
        proc::children_of(&[keeper]).is_empty()
    });
    assert!(proc::with_argument("runner-of-ours").is_empty());
    server.finish();
}

/// Processes of a server that hosts nothing: itself, the nursery and three spare keepers.
const QUIET: usize = 5;

#[test]
fn five_hundred_sessions_leave_no_descriptor_no_keeper_and_no_zombie() {
    let server = Owner::job("(setsid sleep 60 >&- 2>&- &); exit 3")
        .set("max_sessions", 4)
        .set("max_records", 1024)
        .set("buffer_bytes", 4096)
        .set("buffer_records", 1024)
        .serve();
    let run = |count: usize| {
        for _ in 0..count {
            let session = server.start("job");
            assert_eq!(session.wait_settled()["exit_code"], 3);
        }
    };
    run(10);
    let quiet = |server: &Server| server.processes().len() == QUIET && server.zombies().is_empty();
    wait_until("the first keepers are gone", || quiet(&server));
    let before = footprint(&server);
    run(490);
    wait_until("all keepers are gone", || quiet(&server));
    wait_until("no descriptor is left", || footprint(&server) == before);
    assert_eq!(
        proc::descendants_of(server.pid()).len(),
        QUIET - 1,
        "nursery and spares"
    );
    server.finish();
}

#[test]
fn signals_to_the_group_reach_no_escaped_descendant_before_the_end() {
    // A signal that a job's own member sends to the group is the job's affair; the escaped one is in another.
    let script = "(setsid sh -c 'echo $$; exec sleep 60' &); read go; trap '' USR1; kill -USR1 0; echo hi; read go";
    let server = Owner::job(script).serve();
    let session = server.start("job");
    let escaped = escaped(&session);
    let _escaped = proc::Doomed::process(escaped);
    session.write("\n");
    session.wait_for_text("hi\n");
    assert!(proc::is_alive(escaped));
    server.signal(Signal::SIGTERM);
    wait_until("it is gone", || proc::stat(escaped).is_none());
}
