//! Starts of real processes.

#![allow(unsafe_code)]

use std::{collections::BTreeSet, io::Write, os::fd::AsRawFd, path::PathBuf, process::Command};

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use tempfile::TempDir;

use super::*;
use crate::process::{
    children::for_each_child,
    prepare,
    testing::{
        in_own_process, launch, launch_in, open_descriptors, read_to_end, reap, root, run, spawn,
        wait_for_exit, with_private_descriptors,
    },
};

fn output(argv: &[&str]) -> String {
    let (exit, text) = run(&launch(argv));
    assert_eq!(exit.code, Some(0), "{argv:?}");
    text
}

fn refused(argv: &[&str]) -> SpawnError {
    spawn(&launch(argv)).map(drop).unwrap_err()
}

/// Written by a process of its own: were the descriptor ours, a child that another test starts at this moment would
/// hold it until its exec, and the file would be busy.
fn executable(directory: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = directory.path().join(name);
    let status = Command::new("/bin/sh")
        .args(["-c", "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"", "sh"])
        .args([path.as_os_str(), text.as_ref()])
        .status();
    assert!(status.unwrap().success());
    path
}

#[test]
fn a_child_leads_its_own_session_and_group() {
    let script = "cat /proc/$$/stat";
    let Spawned { leader, stdout, .. } = spawn(&launch(&["/bin/sh", "-c", script])).unwrap();
    let pid = leader.pid().as_raw().to_string();
    let stat = read_to_end(stdout);
    let fields = stat
        .rsplit_once(") ")
        .unwrap()
        .1
        .split(' ')
        .collect::<Vec<_>>();
    assert_eq!(
        fields[2..4],
        [pid.as_str(), pid.as_str()],
        "group and session"
    );
    assert_eq!(fields[4], "0", "no controlling terminal");
    wait_for_exit(&leader);
    reap(leader).unwrap();
}

#[test]
fn a_child_has_descriptors_0_to_2_and_the_listing_itself() {
    prepare().unwrap();
    let _open = File::open("/dev/null").unwrap();
    assert_eq!(output(&["/bin/ls", "/proc/self/fd"]), "0\n1\n2\n3\n");
    let spawned = spawn(&launch_in(
        &["/bin/ls", "/proc/self/fd"],
        root(),
        StdinKind::Pipe,
    ))
    .unwrap();
    assert_eq!(read_to_end(spawned.stdout), "0\n1\n2\n3\n");
}

#[test]
fn the_three_pipes_lead_to_the_child() {
    let script = "read line; echo \"out $line\"; echo \"err $line\" >&2; cat";
    let spawned = spawn(&launch_in(
        &["/bin/sh", "-c", script],
        root(),
        StdinKind::Pipe,
    ))
    .unwrap();
    let mut stdin = File::from(spawned.stdin.unwrap());
    stdin.write_all("päng\nrest".as_bytes()).unwrap();
    drop(stdin);
    assert_eq!(read_to_end(spawned.stdout), "out päng\nrest");
    assert_eq!(read_to_end(spawned.stderr.unwrap()), "err päng\n");
}

#[test]
fn null_stdin_is_at_its_end() {
    assert_eq!(output(&["/bin/cat"]), "");
    assert_eq!(output(&["/bin/readlink", "/proc/self/fd/0"]), "/dev/null\n");
}

#[test]
fn no_signal_is_blocked_ignored_or_pending_whatever_the_server_was_given() {
    in_own_process(
        "process::spawn::tests::inner_no_signal_is_blocked",
        "exec env --ignore-signal=USR2 --ignore-signal=TSTP",
    );
}

#[test]
#[ignore = "runs in a process of its own, whose nursery is forked with these signals, by the test above"]
fn inner_no_signal_is_blocked() {
    extern "C" fn caught(_: libc::c_int) {}
    let masked = |status: &str, field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        u64::from_str_radix(line.unwrap().trim_start_matches([':', '\t']), 16).unwrap()
    };
    // SAFETY: SIG_IGN installs no handler, and the one that is installed does nothing.
    unsafe {
        signal(Signal::SIGPIPE, SigHandler::SigIgn).unwrap();
        signal(Signal::SIGUSR1, SigHandler::Handler(caught)).unwrap();
    }
    SigSet::all().thread_block().unwrap();
    nix::sys::signal::raise(Signal::SIGHUP).unwrap();
    let ours = fs::read_to_string("/proc/thread-self/status").unwrap();
    for field in ["SigBlk", "SigIgn", "SigCgt", "SigPnd"] {
        assert_ne!(masked(&ours, field), 0, "what nothing may come of, {field}");
    }
    // The first use of the nursery, which is forked by it.
    let status = output(&["/bin/cat", "/proc/self/status"]);
    for field in ["SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd"] {
        assert_eq!(masked(&status, field), 0, "{field}");
    }
}

#[test]
fn the_environment_is_what_was_given() {
    let env = [("LANG", "C.UTF-8"), ("EMPTY", ""), ("TEXT", "a=b c\nd")];
    let launch = Launch::new(&["/usr/bin/env", "-0"], &env, root(), StdinKind::Null).unwrap();
    assert_eq!(run(&launch).1, "LANG=C.UTF-8\0EMPTY=\0TEXT=a=b c\nd\0");
    let none: [(&str, &str); 0] = [];
    let launch = Launch::new(&["/usr/bin/env"], &none, root(), StdinKind::Null).unwrap();
    assert_eq!(run(&launch).1, "");
}

#[test]
fn arguments_arrive_as_they_are() {
    assert_eq!(
        output(&["/usr/bin/printf", "[%s]", "", "a b", "$HOME;*", "é"]),
        "[][a b][$HOME;*][é]"
    );
}

#[test]
fn the_checked_directory_is_entered_even_when_its_path_leads_elsewhere() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().canonicalize().unwrap();
    fs::create_dir(path.join("checked")).unwrap();
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let checked = open(&path.join("checked"), flags, Mode::empty()).unwrap();
    fs::rename(path.join("checked"), path.join("moved")).unwrap();
    std::os::unix::fs::symlink("/etc", path.join("checked")).unwrap();
    let (_, text) = run(&launch_in(&["/bin/pwd", "-P"], checked, StdinKind::Null));
    assert_eq!(text.trim_end(), path.join("moved").to_str().unwrap());
}

#[test]
fn each_cause_of_a_failed_start_has_its_variant() {
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let script = |name: &str, text: &str| {
        executable(&directory, name, text)
            .to_str()
            .unwrap()
            .to_owned()
    };
    fs::write(at("plain"), "text").unwrap();

    assert_eq!(refused(&[&at("absent")]), SpawnError::NotFound);
    assert_eq!(refused(&[&at("absent/deeper")]), SpawnError::NotFound);
    assert_eq!(refused(&[&at("plain/deeper")]), SpawnError::NotFound);
    assert_eq!(
        refused(&[&format!("/{}", "x".repeat(5000))]),
        SpawnError::NotFound
    );
    assert_eq!(refused(&[&at("plain")]), SpawnError::NotExecutable);
    assert_eq!(
        refused(&[directory.path().to_str().unwrap()]),
        SpawnError::NotExecutable
    );
    assert_eq!(
        refused(&[&script("no-format", "echo never run by a shell\n")]),
        SpawnError::NotExecutable
    );
    assert_eq!(refused(&[&script("empty", "")]), SpawnError::NotExecutable);
    let absent = format!("#!{}\n", at("absent"));
    assert_eq!(
        refused(&[&script("interpreter-absent", &absent)]),
        SpawnError::BadInterpreter
    );
    let plain = format!("#!{}\n", at("plain"));
    assert_eq!(
        refused(&[&script("interpreter-plain", &plain)]),
        SpawnError::BadInterpreter
    );
    assert_eq!(
        refused(&[&script("interpreter-none", "#!\n")]),
        SpawnError::BadInterpreter
    );
    assert_eq!(
        refused(&["/bin/echo", &"x".repeat(1 << 20)]),
        SpawnError::TooLarge
    );

    let busy = script("busy", "#!/bin/sh\n");
    let writer = File::options().write(true).open(&busy).unwrap();
    assert_eq!(refused(&[&busy]), SpawnError::Busy);
    drop(writer);
}

#[test]
fn a_launch_that_the_kernel_would_misread_is_refused() {
    let invalid = SpawnError::Other(Errno::EINVAL);
    let new = |argv: &[&str], env: &[(&str, &str)]| {
        Launch::new(argv, env, root(), StdinKind::Null).map(drop)
    };
    assert_eq!(new(&["/bin/true"], &[("A", "b")]), Ok(()));
    assert_eq!(new(&[], &[]), Err(invalid));
    assert_eq!(new(&["bin/true"], &[]), Err(invalid));
    assert_eq!(new(&["/bin/true", "a\0b"], &[]), Err(invalid));
    assert_eq!(new(&["/bin/true"], &[("A", "b\0c")]), Err(invalid));
    assert_eq!(new(&["/bin/true"], &[("", "b")]), Err(invalid));
    assert_eq!(new(&["/bin/true"], &[("A=B", "c")]), Err(invalid));
}

#[test]
fn failed_starts_leave_no_descriptor() {
    with_private_descriptors(|nursery| {
        let absent = launch_in(&["/absent"], root(), StdinKind::Pipe);
        let large = launch(&["/bin/echo", &"x".repeat(1 << 20)]);
        let before = open_descriptors();
        for _ in 0..250 {
            let refused = |launch| super::spawn(launch, nursery).map(drop);
            assert_eq!(refused(&absent), Err(SpawnError::NotFound));
            assert_eq!(refused(&large), Err(SpawnError::TooLarge));
        }
        // A keeper that large arguments made larger is given up, and missed later.
        let after = open_descriptors();
        assert!((before - 1..=before).contains(&after), "{before} {after}");
    });
}

#[test]
fn our_ends_lie_above_stderr_even_when_0_to_2_are_free() {
    with_private_descriptors(|nursery| {
        prepare().unwrap();
        for number in 0..3 {
            // SAFETY: this thread's table is its own, and nothing on it uses the numbers until its end.
            unsafe { libc::close(number) };
        }
        let Spawned {
            leader,
            stdin,
            stdout,
            stderr,
            channel: _,
            terminal: _,
            watched: _,
        } = super::spawn(
            &launch_in(&["/bin/ls", "/proc/self/fd"], root(), StdinKind::Pipe),
            nursery,
        )
        .unwrap();
        let numbers = [
            stdin.unwrap().as_raw_fd(),
            stdout.as_raw_fd(),
            stderr.unwrap().as_raw_fd(),
        ];
        let distinct = numbers.into_iter().collect::<BTreeSet<_>>();
        let listing = read_to_end(stdout);
        drop(leader);
        // Panicking needs no descriptor here: the harness captures the message.
        assert!(
            numbers.iter().all(|&number| number > 2) && distinct.len() == 3,
            "{numbers:?}"
        );
        assert_eq!(listing, "0\n1\n2\n3\n");
    });
}

#[test]
fn running_out_of_descriptors_at_any_step_is_reported_and_leaves_nothing() {
    in_own_process(
        "process::spawn::tests::inner_running_out_of_descriptors",
        "ulimit -n 40; exec",
    );
}

#[test]
#[ignore = "runs in a process of its own, started by the test above"]
fn inner_running_out_of_descriptors() {
    let launch = launch_in(&["/bin/true"], root(), StdinKind::Pipe);
    drop(spawn(&launch).unwrap());
    let mut held = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        held.push(file);
    }
    // Three pipes; the control socket is that of a keeper that waits, and the pidfd takes the place of an end that was
    // handed over.
    let mut failures = 0;
    loop {
        match spawn(&launch) {
            Err(error) => {
                assert_eq!(error, SpawnError::OutOfProcesses);
                failures += 1;
            }
            Ok(spawned) => {
                drop(spawned);
                break;
            }
        }
        let free = (0..failures - 1)
            .map(|_| File::open("/dev/null").unwrap())
            .collect::<Vec<_>>();
        assert!(
            File::open("/dev/null").is_err(),
            "exactly as many are free as before"
        );
        drop(free);
        drop(held.pop().unwrap());
    }
    assert_eq!(failures, 6, "free descriptors at each failure: 0 to 5");
    let mut children = 0;
    for_each_child(|_| children += 1);
    assert_eq!(children, 1, "the nursery");
}

#[test]
fn threads_start_children_at_once_and_none_inherits_anothers_pipes() {
    prepare().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let launch = launch_in(&["/bin/ls", "/proc/self/fd"], root(), StdinKind::Pipe);
                    assert_eq!(run(&launch).1, "0\n1\n2\n3\n");
                }
            });
        }
    });
}
