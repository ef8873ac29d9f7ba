//! Starts for which something is missing or doesn't answer: descriptors, system calls, file systems.
#![allow(unsafe_code)]

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, RawFd},
        unix::{
            fs::{PermissionsExt, symlink},
            process::CommandExt,
        },
    },
    path::Path,
    process::Command,
};

use crate::common::{Owner, Server, Session, launch, proc, wait_until};
use serde_json::{Value, json};

/// Sets both limits of a running process's descriptors.
fn limit_descriptors(pid: i32, limit: usize) {
    let status = Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &format!("--nofile={limit}:4096")])
        .status();
    // A keeper may have gone since it was found.
    assert!(status.expect("prlimit is there").success() || !proc::is_alive(pid));
}

/// Tries a start. Returns whether it worked; a failure must say what it was.
fn try_start(server: &Server) -> bool {
    let body = server.call("terminal_start", json!({"command_id": "job"}));
    if body["ok"] == true {
        let session = Session::of(server, body);
        session.write("\n");
        let end = session.wait_settled();
        assert_eq!(
            (&end["status"], &end["exit_code"]),
            (&json!("EXITED"), &json!(3)),
            "{end}"
        );
        assert_eq!(session.read_all().stdout, "got\n");
        return true;
    }
    let (code, message) = (
        &body["error"]["code"],
        body["error"]["message"].as_str().expect("a message"),
    );
    assert_eq!(*code, "START_FAILED", "{message}");
    assert!(
        message.contains("descriptors") || message.contains("killed"),
        "{message}"
    );
    false
}

/// Starts with ever fewer descriptors for the process that `whose` finds, until none works and one step further.
fn assert_few_descriptors_are_survived(whose: fn(&Server) -> Vec<i32>) {
    let server = Owner::job("read go; echo got $go; exit 3")
        .set("max_records", 1024)
        .set("buffer_bytes", 4096)
        .set("buffer_records", 1024)
        .serve();
    assert!(try_start(&server) && try_start(&server));
    let settled = |server: &Server| {
        let own = server.processes();
        proc::children_of(&own)
            .iter()
            .all(|child| own.contains(&child.pid))
    };
    wait_until("all is quiet", || settled(&server));
    let before = server.descriptor_count();
    let held = |server: &Server| {
        whose(server)
            .iter()
            .map(|&pid| proc::descriptors(pid).len())
            .max()
            .unwrap_or_default()
    };
    let most = held(&server) + 14;
    let mut outcomes = Vec::new();
    for limit in (0..=most).rev() {
        for pid in whose(&server) {
            limit_descriptors(pid, limit);
        }
        outcomes.push(try_start(&server));
        server.ping();
        wait_until("no descriptor is left over", || {
            settled(&server) && server.descriptor_count() <= before
        });
        if outcomes.ends_with(&[false, false, false]) {
            break;
        }
    }
    assert!(outcomes[0] && outcomes.ends_with(&[false]), "{outcomes:?}");
    for pid in whose(&server) {
        limit_descriptors(pid, 4096);
    }
    wait_until("starts work again", || try_start(&server));
    wait_until("all is quiet", || {
        settled(&server) && server.zombies().is_empty()
    });
    assert!(server.descriptor_count() <= before);
    server.finish();
}

#[test]
fn a_server_with_ever_fewer_descriptors_refuses_starts_and_goes_on() {
    assert_few_descriptors_are_survived(|server| vec![server.pid()]);
}

#[test]
fn keepers_with_ever_fewer_descriptors_refuse_starts_and_the_server_goes_on() {
    assert_few_descriptors_are_survived(|server| {
        let mut pids = server.processes();
        pids.retain(|&pid| pid != server.pid());
        pids
    });
}

/// What the server says that is started under this filter: it must end at once, with one line.
fn refused_start(restrict: impl FnOnce(&mut Command)) -> String {
    let owner = Owner::job("exit 0");
    let mut command = owner.command();
    restrict(&mut command);
    launch::refusal(&mut command)
}

/// In a system call's number as the tests' filter takes it.
fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).expect("small")
}

const EPERM: u16 = 1;
const EAGAIN: u16 = 11;
const EINVAL: u16 = 22;
const ENOSYS: u16 = 38;

#[test]
fn a_filter_without_what_starts_need_is_told_once_at_the_servers_start() {
    let stderr = refused_start(|command| refuse_clone(command, libc::CLONE_PIDFD, EINVAL));
    assert!(
        stderr.contains("no pidfd") && stderr.contains("CLONE_PIDFD"),
        "{stderr}"
    );
    for (call, name) in [
        (libc::SYS_pidfd_send_signal, "pidfd_send_signal"),
        (libc::SYS_signalfd4, "signalfd"),
    ] {
        let stderr = refused_start(|command| launch::refuse_syscall(command, number(call), EPERM));
        assert!(
            stderr.contains(name) && stderr.contains("must allow"),
            "{stderr}"
        );
    }
}

#[test]
fn leaders_that_cannot_be_cloned_are_told_at_each_start_and_nothing_leaks() {
    // Keepers are copies, and come to be; leaders borrow their memory, and don't.
    let owner = Owner::new()
        .argv("job", &["/bin/true"])
        .argv("absent", &["/nonexistent/program"]);
    let mut command = owner.command();
    refuse_clone(&mut command, libc::CLONE_VFORK, EAGAIN);
    let server = Server::spawn(owner, command);
    server.initialize();
    let descriptors = server.descriptor_count();
    for round in 0..30 {
        let id = ["job", "absent"][round % 2];
        let error = server.refused("terminal_start", json!({"command_id": id}));
        assert_eq!(error["code"], "START_FAILED");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("out of processes"), "{message}");
    }
    server.ping();
    // One may be that of a keeper that is gone, and is found so at the next start; thirty starts would leave more.
    wait_until("no descriptor is left over", || {
        server.descriptor_count() <= descriptors + 1
    });
    wait_until("keepers whose start failed are gone", || {
        server.processes().len() <= 1 + 1 + 3 && server.zombies().is_empty()
    });
    server.finish();
}

#[test]
fn a_filter_without_calls_that_have_a_substitute_changes_nothing() {
    for call in [
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_send_signal,
        libc::SYS_close_range,
    ] {
        let owner = Owner::new()
            .sh("job", "exit 3")
            .sh("stays", "trap '' TERM; sleep 60; sleep 60");
        let mut command = owner.command();
        launch::refuse_syscall(&mut command, number(call), ENOSYS);
        let server = Server::spawn(owner, command);
        server.initialize();
        assert_eq!(server.start("job").wait_settled()["exit_code"], 3);
        let stays = server.start("stays");
        assert_eq!(stays.terminate(0)["status"], "TERMINATED");
        stays.assert_group_is_gone();
        server.finish();
    }
}

/// Starts under a filter in which clone(2) with this flag fails.
fn refuse_clone(command: &mut Command, flag: libc::c_int, errno: u16) {
    let statement = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: u16::try_from(code).expect("BPF opcodes are 16 bits wide"),
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let allow = libc::SECCOMP_RET_ALLOW;
    let refuse = libc::SECCOMP_RET_ERRNO | u32::from(errno);
    let flag = u32::try_from(flag).expect("a flag");
    let filter = [
        statement(load, 0, 0, 0),
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            number(libc::SYS_clone),
            0,
            3,
        ),
        // The lower half of the first argument, the flags.
        statement(load, 16, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, flag, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, refuse, 0, 0),
        statement(libc::BPF_RET | libc::BPF_K, allow, 0, 0),
    ];
    launch::install_filter(command, filter.to_vec());
}

/// A FUSE mount that nobody serves: whoever looks below it waits until this value is dropped.
struct DeadMount {
    #[allow(dead_code, reason = "its drop ends the mount's life")]
    device: File,
}

impl DeadMount {
    /// Mounts it for `command`'s process only. `None`, loudly, where that is not permitted.
    fn under(test: &str, command: &mut Command, place: &Path) -> Option<DeadMount> {
        let known =
            fs::read_to_string("/proc/filesystems").is_ok_and(|names| names.contains("\tfuse\n"));
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let (true, true, Ok(device)) = (nix::unistd::geteuid().is_root(), known, device) else {
            eprintln!("SKIPPED {test}: FUSE can't be mounted here");
            return None;
        };
        let fd: RawFd = device.as_raw_fd();
        let options =
            std::ffi::CString::new(format!("fd={fd},rootmode=40000,user_id=0,group_id=0"))
                .expect("no NUL");
        let place = std::ffi::CString::new(place.to_str().expect("UTF-8")).expect("no NUL");
        let enter = move || {
            let check = |result: libc::c_int| match result {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            };
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let flags = libc::MS_NOSUID | libc::MS_NODEV;
            let none = std::ptr::null();
            // SAFETY: integers and NUL-terminated strings that live in this closure or for ever.
            unsafe {
                check(libc::unshare(libc::CLONE_NEWNS))?;
                check(libc::mount(none, c"/".as_ptr(), none, private, none.cast()))?;
                let (source, kind) = (c"dead".as_ptr(), c"fuse".as_ptr());
                let options = options.as_ptr().cast();
                check(libc::mount(source, place.as_ptr(), kind, flags, options))
            }
        };
        // SAFETY: the closure makes system calls only; its strings were made before.
        unsafe { command.pre_exec(enter) };
        Some(DeadMount { device })
    }
}

/// A script whose interpreter lies below `dead`, so that it is the kernel's exec that waits, in the child.
fn dead_interpreter(owner: &Owner, dead: &Path) -> String {
    let line = format!("#!{}/interpreter\n", dead.display());
    let script = owner.file("script", line.as_bytes());
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("our own file");
    script.to_str().expect("UTF-8").to_owned()
}

#[test]
fn starts_that_hang_on_a_dead_mount_are_given_up_and_delay_nothing_else() {
    let owner = Owner::new();
    let dead = owner.root().join("dead");
    fs::create_dir(&dead).expect("our own directory");
    let program = owner.base().join("program");
    symlink("/bin/true", &program).expect("a link");
    let mark = owner.base().join("ran");
    let touch = format!("echo ran >> {}", mark.display());
    let script = dead_interpreter(&owner, &dead);
    let owner = owner
        .sh("job", &touch)
        .argv("program", &[program.to_str().expect("UTF-8")])
        .argv("script", &[&script])
        .argv("cat", &["/bin/cat"])
        .set("max_sessions", 32);
    let mut command = owner.command();
    let test = "starts_that_hang_on_a_dead_mount_are_given_up_and_delay_nothing_else";
    let Some(mount) = DeadMount::under(test, &mut command, &dead) else {
        return;
    };
    let server = Server::spawn(owner, command);
    server.initialize();
    let beside = server.start("cat");
    fs::remove_file(&program).expect("our own link");
    symlink(dead.join("program"), &program).expect("a link");

    // More than may hang at once: in the directory, when the program is looked at, and when it is executed.
    let below = dead.join("below");
    let hang = |number: usize| -> Value {
        match number % 3 {
            0 => json!({"command_id": "job", "cwd": below}),
            1 => json!({"command_id": "program"}),
            _ => json!({"command_id": "script"}),
        }
    };
    let calls: Vec<_> = (0..20)
        .map(|number| server.send("terminal_start", hang(number)))
        .collect();
    beside.write("still there\n");
    beside.wait_for_text("still there\n");
    server.ping();
    let messages: Vec<String> = calls
        .iter()
        .map(|call| {
            let error = call.refusal();
            assert_eq!(error["code"], "START_FAILED", "{error}");
            error["message"].as_str().expect("a message").to_owned()
        })
        .collect();
    let count = |word: &str| {
        messages
            .iter()
            .filter(|message| message.contains(word))
            .count()
    };
    assert_eq!(
        count("busy") + count("does not answer,"),
        20,
        "{messages:?}"
    );
    assert!(
        count("busy") > 0 && count("does not answer,") > 0,
        "{messages:?}"
    );
    let threads = || {
        fs::read_dir(format!("/proc/{}/task", server.pid()))
            .expect("it runs")
            .count()
    };
    // Request, I/O and search threads, eight that start, and one that a timer may need.
    assert!(threads() <= 1 + 1 + 2 + 8 + 1, "{} threads", threads());
    let error = server.refused("terminal_start", json!({"command_id": "cat"}));
    assert!(
        error["message"]
            .as_str()
            .expect("a message")
            .contains("busy"),
        "{error}"
    );

    // The mount is given up by its server, and all that hung comes back with an error.
    drop(mount);
    wait_until("starts work again", || {
        server.call("terminal_start", json!({"command_id": "cat"}))["ok"] == true
    });
    assert!(
        !mark.exists(),
        "a start that was given up runs nothing later"
    );
    server.finish();
}

#[test]
fn a_server_with_starts_that_hang_ends_in_order() {
    let owner = Owner::new();
    let dead = owner.root().join("dead");
    fs::create_dir(&dead).expect("our own directory");
    let script = dead_interpreter(&owner, &dead);
    let owner = owner.argv("script", &[&script]).argv("cat", &["/bin/cat"]);
    let mut command = owner.command();
    let test = "a_server_with_starts_that_hang_ends_in_order";
    let Some(mount) = DeadMount::under(test, &mut command, &dead) else {
        return;
    };
    let mut server = Server::spawn(owner, command);
    server.initialize();
    let below = dead.join("below");
    server.send("terminal_start", json!({"command_id": "script"}));
    server.send("terminal_start", json!({"command_id": "cat", "cwd": below}));
    let leader = server.start("cat").pid;
    wait_until("one keeper waits for its child to execute", || {
        let all = proc::descendants_of(server.pid());
        all.iter().filter(|process| process.state == 'D').count() > 0
    });
    let family = proc::descendants_of(server.pid());
    server.close_stdin();
    server.assert_exits_cleanly();
    wait_until("the session is gone", || !proc::is_alive(leader));
    drop(mount);
    wait_until("all are gone", || {
        family.iter().all(|process| !proc::is_alive(process.pid))
    });
}

#[test]
fn a_program_that_was_just_written_is_never_busy_however_many_starts_run_beside_it() {
    // Were a writing descriptor of one job copied into another's start, the program would be busy until that has executed.
    let owner = Owner::new();
    let fresh = owner.root().join("fresh");
    let path = fresh.to_str().expect("UTF-8").to_owned();
    fs::copy("/bin/true", &fresh).expect("a copy of a program");
    let server = owner
        .sh("write", &format!("rm {path}; cp /bin/true {path}"))
        .argv("fresh", &[&path])
        .argv("other", &["/bin/true"])
        .set("max_sessions", 16)
        .set("max_records", 1024)
        .set("buffer_bytes", 4096)
        .set("buffer_records", 1024)
        .serve();
    for _ in 0..40 {
        let others: Vec<_> = (0..6)
            .map(|_| server.send("terminal_start", json!({"command_id": "other"})))
            .collect();
        assert_eq!(server.start("write").wait_settled()["exit_code"], 0);
        let later: Vec<_> = (0..6)
            .map(|_| server.send("terminal_start", json!({"command_id": "other"})))
            .collect();
        assert_eq!(server.start("fresh").wait_settled()["exit_code"], 0);
        for call in others.iter().chain(&later) {
            Session::of(&server, call.ok()).wait_settled();
        }
    }
    server.finish();
}
