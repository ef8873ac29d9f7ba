//! Keepers that serve one session after the other: what a session leaves reaches no later one.

use std::{collections::BTreeSet, process::Command};

use crate::common::{Owner, Server, Session, proc, wait_until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;
use sluicegate::contain::offered;

/// As many wait when nothing runs.
const READY: usize = 3;

fn keepers(server: &Server) -> Vec<proc::Stat> {
    let mut all = proc::descendants_of(server.pid());
    all.retain(|process| process.name == "sluice-keeper");
    all
}

/// Waits until every keeper is without a child, and returns them.
fn idle_keepers(server: &Server) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    wait_until("the keepers are idle", || {
        found = keepers(server).iter().map(|keeper| keeper.pid).collect();
        let all: Vec<i32> = found.iter().copied().collect();
        found.len() == READY && proc::children_of(&all).is_empty()
    });
    found
}

fn keeper_of(session: &Session) -> i32 {
    proc::stat(session.pid).expect("it runs").parent
}

#[test]
fn sessions_one_after_the_other_are_served_by_the_same_keepers() {
    let server = Owner::job("read go; exit 3").serve();
    let before = idle_keepers(&server);
    for _ in 0..20 {
        let session = server.start("job");
        assert!(before.contains(&keeper_of(&session)));
        session.write("\n");
        assert_eq!(session.wait_settled()["exit_code"], 3);
        assert_eq!(idle_keepers(&server), before);
    }
    server.finish();
}

#[test]
fn failed_starts_use_no_keeper_up() {
    let server = Owner::new()
        .argv("absent", &["/nonexistent/program"])
        .argv("true", &["/bin/true"])
        .room_for_many()
        .serve();
    let before = idle_keepers(&server);
    for _ in 0..20 {
        assert_eq!(
            server.code("terminal_start", json!({"command_id": "absent"})),
            "START_FAILED"
        );
    }
    assert_eq!(server.start("true").wait_settled()["exit_code"], 0);
    assert_eq!(idle_keepers(&server), before);
    server.finish();
}

#[test]
fn a_burst_leaves_as_many_keepers_as_there_were_and_no_descriptor() {
    let server = Owner::job("read go; exit 3").room_for_many().serve();
    idle_keepers(&server);
    let before = server.descriptor_count();
    for _ in 0..4 {
        let calls: Vec<_> = (0..32)
            .map(|_| server.send("terminal_start", json!({"command_id": "job"})))
            .collect();
        let sessions: Vec<_> = calls
            .iter()
            .map(|call| Session::of(&server, call.ok()))
            .collect();
        let own: BTreeSet<i32> = sessions.iter().map(keeper_of).collect();
        assert_eq!(own.len(), 32, "no two sessions that run share one");
        for session in &sessions {
            session.write("\n");
            assert_eq!(session.wait_settled()["exit_code"], 3);
        }
    }
    idle_keepers(&server);
    wait_until("the descriptors are back", || {
        server.descriptor_count() == before
    });
    server.finish();
}

#[test]
fn what_a_session_left_behind_is_gone_before_its_keeper_serves_another() {
    // Each leaves a tree outside its group that ignores signals and holds no pipe.
    let leaves = "(setsid sh -c 'trap \"\" TERM; (setsid sleep 600 &); exec sleep 600' <&- >&- 2>&- &); read go; exit 3";
    let server = Owner::new()
        .sh("leaves", leaves)
        .sh("looks", "echo up; read go")
        .room_for_many()
        .serve();
    idle_keepers(&server);
    for _ in 0..20 {
        let session = server.start("leaves");
        let keeper = keeper_of(&session);
        wait_until("both have left the group", || {
            proc::children_of(&[keeper]).len() >= 2 && proc::descendants_of(keeper).len() >= 3
        });
        session.write("\n");
        session.wait_settled();
        let next = server.start("looks");
        next.wait_for_text("\n");
        let other = keeper_of(&next);
        assert_eq!(
            proc::children_of(&[other]).len(),
            1,
            "only the leader is its keeper's child"
        );
        next.terminate(0);
        next.wait_settled();
    }
    idle_keepers(&server);
    server.finish();
}

#[test]
fn a_keeper_that_its_job_has_changed_serves_no_other() {
    let server = Owner::new()
        .sh("nice", "renice -n 5 -p $PPID >/dev/null && read go")
        .sh("limit", "prlimit --pid $PPID --nofile=77:77 && read go")
        .sh("disk", "ionice -c 3 -p $PPID && read go")
        .sh("oom", "echo 500 > /proc/$PPID/oom_score_adj && read go")
        .sh("core", "echo 1 > /proc/$PPID/coredump_filter && read go")
        .sh(
            "looks",
            "echo $(nice) $(ulimit -n) $(ionice) $(cat /proc/self/oom_score_adj /proc/self/coredump_filter); read go",
        )
        .room_for_many()
        .serve();
    let look = || -> Vec<String> {
        let sessions: Vec<_> = (0..READY + 1).map(|_| server.start("looks")).collect();
        let texts = sessions.iter().map(|session| {
            let text = session.wait_for_text("\n");
            session.write("\n");
            session.wait_settled();
            text
        });
        texts.collect()
    };
    let before = look();
    for id in ["nice", "limit", "disk", "oom", "core"] {
        let session = server.start(id);
        let changed = keeper_of(&session);
        session.write("\n");
        assert_eq!(session.wait_settled()["exit_code"], 0, "{id}");
        wait_until("the changed keeper is gone", || {
            proc::stat(changed).is_none()
        });
        assert_eq!(look(), before, "{id}");
    }
    server.finish();
}

#[test]
fn a_keeper_of_a_pinned_or_sandboxed_command_serves_no_other() {
    let sum = Command::new("sha256sum").arg("/bin/sh").output();
    let sum = String::from_utf8(sum.expect("it is there").stdout).expect("text");
    let argv = ["/bin/sh", "-c", "echo up; read go; exit 3"];
    let mut profiles = vec![(
        "pinned",
        json!({"argv": argv, "sha256": sum.split_whitespace().next()}),
    )];
    if offered().files.is_ok() {
        let sandbox = json!({"read": ["/"], "write": ["/dev/null"]});
        profiles.push(("sandboxed", json!({"argv": argv, "sandbox": sandbox})));
        // The keeper has entered nothing yet when the program turns out to be absent; it goes all the same.
        let absent = json!(["/nonexistent/program"]);
        profiles.push(("absent", json!({"argv": absent, "sandbox": sandbox})));
    } else {
        eprintln!("SKIPPED in part: this kernel has no sandboxes");
    }
    let mut owner =
        Owner::job("grep -E 'NoNewPrivs|Seccomp:|TracerPid' /proc/self/status; read go")
            .room_for_many();
    for (id, profile) in &profiles {
        owner = owner.profile(id, profile.clone());
    }
    let server = owner.serve();
    for (id, _) in &profiles {
        for _ in 0..READY + 1 {
            let before = idle_keepers(&server);
            let body = server.call("terminal_start", json!({"command_id": id}));
            if body["ok"] == true {
                let session = Session::of(&server, body);
                let keeper = keeper_of(&session);
                session.wait_for_text("up\n");
                session.write("\n");
                assert_eq!(session.wait_settled()["exit_code"], 3, "{id}");
                wait_until("its keeper is gone", || proc::stat(keeper).is_none());
            } else {
                assert_eq!(*id, "absent", "{body}");
                wait_until("its keeper is gone", || {
                    let now = keepers(&server);
                    before
                        .iter()
                        .any(|&pid| now.iter().all(|keeper| keeper.pid != pid))
                });
            }
            let plain = server.start("job");
            assert_eq!(
                plain.wait_for_text("Seccomp:\t0\n"),
                "TracerPid:\t0\nNoNewPrivs:\t0\nSeccomp:\t0\n"
            );
            plain.write("\n");
            plain.wait_settled();
        }
    }
    server.finish();
}

#[test]
fn a_large_request_leaves_no_trace_in_the_accounts_of_the_next() {
    let long = "x".repeat(100_000);
    let server = Owner::new()
        .argv(
            "large",
            &[
                "/bin/true",
                &long,
                &long,
                &long,
                &long,
                &long,
                &long,
                &long,
                &long,
                &long,
                &long,
            ],
        )
        .argv("small", &["/bin/true"])
        .room_for_many()
        .serve();
    let peak = |id: &str| {
        server.start(id).wait_final()["max_rss_bytes"]
            .as_u64()
            .expect("it was reaped")
    };
    // The first sessions of a keeper map more of its own program, which is counted too.
    let before = (0..4 * READY).map(|_| peak("small")).max();
    let before = before.expect("there were some");
    (0..READY + 1).for_each(|_| {
        peak("large");
    });
    for _ in 0..READY + 1 {
        let after = peak("small");
        assert!(
            after < before + (512 << 10),
            "{before} bytes before, {after} after"
        );
    }
    server.finish();
}

#[test]
fn keepers_that_are_killed_while_they_wait_are_replaced() {
    let server = Owner::job("read go; exit 3").serve();
    for _ in 0..5 {
        for keeper in idle_keepers(&server) {
            kill(Pid::from_raw(keeper), Signal::SIGKILL).expect("it waits");
        }
        wait_until("they are gone", || keepers(&server).is_empty());
        let sessions: Vec<_> = (0..4).map(|_| server.start("job")).collect();
        for session in sessions {
            session.write("\n");
            assert_eq!(session.wait_settled()["exit_code"], 3);
        }
    }
    server.finish();
}
