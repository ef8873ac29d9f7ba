//! The server in a pid namespace of its own: as its first process, and with so few process ids that each is soon another's.
//! Both need root, or a kernel that lets others make such namespaces.

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Stdio},
};

use crate::common::{Owner, Server, Session, proc, wait_until};
use serde_json::{Value, json};

/// Serves `owner` as the first process of a pid namespace, after `prelude` ran in a shell there. `None`, loudly, where that
/// is not permitted.
fn serve_in_namespace(test: &str, owner: Owner, prelude: &str) -> Option<Server> {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command
    };
    let tried = unshare()
        .arg("/bin/true")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !tried.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED {test}: no pid namespace may be made here");
        return None;
    }
    let served = owner.command();
    let mut command = unshare();
    command
        .args(["/bin/sh", "-c", &format!("{prelude}\nexec \"$0\" \"$@\"")])
        .arg(served.get_program())
        .args(served.get_args());
    let server = Server::spawn(owner, command);
    server.initialize();
    Some(server)
}

/// Every process of the namespace, zombies too, by their ids outside.
fn inhabitants(server: &Server) -> Vec<proc::Stat> {
    let mut found = proc::children_of(&[server.pid()]);
    let mut looked_at = 0;
    while looked_at < found.len() {
        let parents: Vec<i32> = found[looked_at..]
            .iter()
            .map(|process| process.pid)
            .collect();
        looked_at = found.len();
        found.extend(proc::children_of(&parents));
    }
    found
}

/// Waits until only the server, its nursery and its keepers are there.
fn assert_alone(server: &Server) {
    wait_until("no job's process and no zombie is left", || {
        inhabitants(server)
            .iter()
            .all(|process| !process.is_zombie() && process.name.starts_with("sluice"))
    });
}

#[test]
fn as_the_first_process_it_gives_forty_exact_exit_codes_and_leaves_no_zombie() {
    let mut owner = Owner::new()
        .set("max_sessions", 64)
        .set("max_records", 64)
        .set("buffer_bytes", 4096)
        .set("buffer_records", 4096)
        .sh("orphaned", "(sleep 0.2; exit 9) & exit 5")
        .sh("escaped", "(setsid sh -c 'sleep 0.2; exit 9' &); exit 6");
    for code in 0..40 {
        owner = owner.sh(&code.to_string(), &format!("exit {code}"));
    }
    // An orphan that is none of ours falls to the first process.
    let stranger = "(sh -c 'sleep 0.3' &)";
    let test = "as_the_first_process_it_gives_forty_exact_exit_codes_and_leaves_no_zombie";
    let Some(server) = serve_in_namespace(test, owner, stranger) else {
        return;
    };
    let names = (0..40).flat_map(|code| {
        let others = [("orphaned", 5), ("escaped", 6)];
        let other = (code % 4 == 0).then(|| others[code / 4 % 2]);
        let (other, named) = (
            other.map(|(id, end)| (id.to_owned(), end)),
            (code.to_string(), code),
        );
        std::iter::once(named).chain(other)
    });
    let calls: Vec<_> = names
        .map(|(id, code)| {
            (
                code,
                server.send("terminal_start", json!({"command_id": id})),
            )
        })
        .collect();
    for (code, call) in calls {
        let end = Session::of(&server, call.ok()).wait_settled();
        assert_eq!(
            (&end["status"], &end["exit_code"]),
            (&json!("EXITED"), &json!(code))
        );
    }
    assert_alone(&server);
    server.finish();
}

/// Linux 6.14 gave each pid namespace a limit of its own; before, it is the machine's.
fn limit_is_the_namespaces_own() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux has it");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    (next(), next()) >= (Some(6), Some(14))
}

#[test]
fn ids_that_are_used_again_mislead_no_signal_and_no_status() {
    let test = "ids_that_are_used_again_mislead_no_signal_and_no_status";
    if !limit_is_the_namespaces_own() {
        eprintln!(
            "SKIPPED {test}: before Linux 6.14 the limit of ids would be the whole machine's"
        );
        return;
    }
    // Says what it was sent, and ends only when told to.
    let bystander =
        "for s in TERM HUP INT QUIT USR1 USR2 CONT PIPE ALRM; do trap \"echo got $s\" $s; done
        echo up; while read line; do exit 5; done";
    let owner = Owner::new()
        .set("max_sessions", 12)
        .set("max_records", 1024)
        .set("buffer_bytes", 4096)
        .set("buffer_records", 1024)
        .set("default_timeout_ms", 300_000)
        .sh("bystander", bystander)
        .sh("exits", "exit 3")
        .sh("member", "sleep 60 & exit 4")
        .sh("escapes", "(setsid sleep 60 >&- 2>&- &); exit 6")
        .sh("orphans", "(sh -c 'exit 9' &); exit 7")
        .sh("stays", "sleep 60; exit 1");
    // A hundred ids beyond the first 300, which the kernel doesn't give again, and a stranger whom nobody may touch.
    let prelude = "echo 400 > /proc/sys/kernel/pid_max || exit 1\nsleep 600 <&- >&- 2>&- &";
    let Some(server) = serve_in_namespace(test, owner, prelude) else {
        return;
    };
    let stranger = || {
        inhabitants(&server)
            .iter()
            .any(|process| process.name == "sleep" && process.parent == first(&server))
    };
    wait_until("the stranger is there", stranger);
    let bystanders: Vec<_> = (0..3).map(|_| server.start("bystander")).collect();
    bystanders.iter().for_each(|session| {
        session.wait_for_text("up\n");
    });
    let mut ids = BTreeSet::new();
    let mut reused = 0;
    for round in 0..120 {
        let calls: Vec<_> = [("exits", 3), ("member", 4), ("escapes", 6), ("orphans", 7)]
            .map(|(id, code)| {
                (
                    code,
                    server.send("terminal_start", json!({"command_id": id})),
                )
            })
            .into();
        let stays = server.start("stays");
        for (code, call) in calls {
            let session = Session::of(&server, call.ok());
            reused += usize::from(!ids.insert(session.pid));
            let end = session.wait_settled();
            assert_eq!(
                (&end["status"], &end["exit_code"]),
                (&json!("EXITED"), &json!(code)),
                "round {round}: {end}"
            );
        }
        reused += usize::from(!ids.insert(stays.pid));
        let end = stays.terminate(if round % 2 == 0 { 0 } else { 500 });
        // Without a grace, TERM and KILL race.
        let signals: &[i64] = if round % 2 == 0 { &[9, 15] } else { &[15] };
        let signal = end["exit_signal"].as_i64().expect("a signal");
        assert!(
            end["status"] == "TERMINATED" && signals.contains(&signal),
            "{end}"
        );
    }
    assert!(reused > 100, "only {reused} ids came again");
    assert!(stranger(), "a process that is none of ours was ended");
    for session in bystanders {
        session.write("\n");
        let end = session.wait_settled();
        assert_eq!(
            (&end["status"], &end["exit_code"]),
            (&json!("EXITED"), &json!(5)),
            "{end}"
        );
        assert_eq!(session.read_all().stdout, "up\n");
    }
    let left = |server: &Server| -> Vec<Value> {
        inhabitants(server)
            .iter()
            .filter(|process| process.is_zombie() || process.name == "sh")
            .map(|process| json!(process.name))
            .collect()
    };
    wait_until("nothing else is left", || left(&server).is_empty());
    server.finish();
}

/// The first process of the namespace, by its id outside.
fn first(server: &Server) -> i32 {
    let children = proc::children_of(&[server.pid()]);
    children.first().expect("it runs").pid
}
