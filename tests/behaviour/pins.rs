//! Pinned executables: whatever is renamed, replaced or written meanwhile, nothing else runs.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use serde_json::json;

use crate::common::{Owner, Server, Session, launch, owner, proc, wait_until};

fn utf8(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// What sha256sum says.
fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum")
        .arg(path)
        .output()
        .expect("it is there");
    let text = String::from_utf8(output.stdout).expect("text");
    text.split_whitespace().next().expect("a digest").to_owned()
}

fn pinned(owner: Owner, id: &str, argv: &[&str]) -> Owner {
    let pin = sha256(Path::new(argv[0]));
    owner.profile(id, json!({"argv": argv, "sha256": pin}))
}

/// Puts two programs of the same length into `directory` that print `good` and `evil`. Returns their paths.
fn two_programs(directory: &Path) -> (PathBuf, PathBuf) {
    let build = |word: &str| {
        let (source, program) = (directory.join(format!("{word}.c")), directory.join(word));
        let text =
            format!("#include <stdio.h>\nint main(void) {{ puts(\"{word}\"); return 0; }}\n");
        fs::write(&source, text).expect("our directory");
        let mut compiler = Command::new("cc");
        compiler.args(["-o", utf8(&program), utf8(&source)]);
        assert!(
            compiler
                .status()
                .expect("a linker, which Rust needs too")
                .success()
        );
        program
    };
    let programs = (build("good"), build("evil"));
    let length = |path: &Path| fs::metadata(path).expect("it was built").len();
    assert_eq!(length(&programs.0), length(&programs.1));
    programs
}

/// Starts `job`, whose program others meddle with. Whether it ran; it must then have said `good`.
fn ran_good(server: &Server) -> bool {
    let body = server.call("terminal_start", json!({"command_id": "job"}));
    if body["ok"] == true {
        assert_eq!(Session::of(server, body).read_all().stdout, "good\n");
        return true;
    }
    assert_eq!(body["error"]["code"], "START_FAILED", "{body}");
    false
}

/// Processes that the server hosts, zombies included.
fn hosted(server: &Server) -> Vec<proc::Stat> {
    let own = server.processes();
    let mut children = proc::children_of(&own);
    children.retain(|child| !own.contains(&child.pid));
    children
}

/// Ends a meddling thread, also when the test fails: the scope waits for it.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An Owner with room for many short sessions.
fn many() -> Owner {
    Owner::new()
        .set("max_records", 1024)
        .set("buffer_records", 2048)
        .set("buffer_bytes", 65536)
}

#[test]
fn a_pinned_executable_runs_like_any_other() {
    let owner = pinned(
        Owner::new(),
        "argv",
        &["/bin/sh", "-c", "echo \"$0\" \"$@\"", "a", "b c"],
    );
    let owner = pinned(
        owner,
        "state",
        &[
            "/bin/grep",
            "-E",
            "^(TracerPid|SigBlk|SigIgn|SigPnd|ShdPnd)",
            "/proc/self/status",
        ],
    );
    let owner = pinned(owner, "own", &["/bin/readlink", "/proc/self/exe"]);
    let owner = pinned(owner, "descriptors", &["/bin/ls", "/proc/self/fd"]);
    let owner = pinned(owner, "cat", &["/bin/cat"]);
    let server = owner.serve();
    assert_eq!(server.start("argv").read_all().stdout, "a b c\n");
    let zero = "0000000000000000";
    assert_eq!(
        server.start("state").read_all().stdout,
        format!(
            "TracerPid:\t0\nSigPnd:\t{zero}\nShdPnd:\t{zero}\nSigBlk:\t{zero}\nSigIgn:\t{zero}\n"
        )
    );
    let real = fs::canonicalize("/bin/readlink").expect("it is there");
    assert_eq!(
        server.start("own").read_all().stdout.trim_end(),
        utf8(&real)
    );
    assert_eq!(
        server.start("descriptors").read_all().stdout,
        "0\n1\n2\n3\n"
    );
    let session = server.start("cat");
    session.write("through\n");
    session.wait_for_text("through");
    assert_eq!(session.terminate(1000)["exit_signal"], 15);
    server.finish();
}

#[test]
fn another_content_is_a_failed_start_that_leaves_nothing() {
    let owner = many();
    let tool = owner.base().join("tool");
    fs::copy("/bin/echo", &tool).expect("echo is there");
    let owner = pinned(owner, "job", &[utf8(&tool), "ran"]);
    let server = owner.serve();
    assert_eq!(server.start("job").read_all().stdout, "ran\n");
    wait_until("nothing is left of it", || hosted(&server).is_empty());
    let before = server.descriptor_count();
    fs::copy("/bin/cat", &tool).expect("cat is there");
    for _ in 0..20 {
        let refused = server.refused("terminal_start", json!({"command_id": "job"}));
        assert_eq!(refused["code"], "START_FAILED");
        let message = refused["message"].as_str().expect("a message");
        assert!(
            message.contains("sha256") && !message.contains('/'),
            "{message}"
        );
    }
    wait_until("nothing is left", || {
        hosted(&server).is_empty() && server.descriptor_count() <= before
    });
    let line = format!("sha256={}", sha256(&tool));
    wait_until("the Owner is told", || server.stderr().contains(&line));
    fs::copy("/bin/echo", &tool).expect("echo is there");
    assert_eq!(server.start("job").read_all().stdout, "ran\n");
    server.finish();
}

#[test]
fn a_file_swapped_while_it_is_started_never_runs() {
    let owner = many();
    let (good, evil) = two_programs(owner.base());
    let tool = owner.base().join("tool");
    fs::copy(&good, &tool).expect("it was built");
    let server = pinned(owner, "job", &[utf8(&tool)]).serve();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let aside = tool.with_file_name("aside");
            while !over.load(Ordering::Relaxed) {
                for program in [&evil, &good] {
                    fs::hard_link(program, &aside).expect("a new name");
                    fs::rename(&aside, &tool).expect("the same directory");
                }
            }
        });
        let _over = Over(&over);
        let mut ran = 0;
        for _ in 0..200 {
            ran += usize::from(ran_good(&server));
        }
        assert!(ran > 0, "it is there half of the time");
    });
    server.finish();
}

/// Writes `evil` over `good` and back, in place. Each writer is gone before the next comes, so that starts fall between them.
fn meddle(tool: &Path, good: &[u8], evil: &[u8], over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        for content in [evil, good] {
            // Refused while it runs.
            if let Ok(file) = File::options().write(true).open(tool) {
                file.write_all_at(content, 0).expect("our own file");
            }
            thread::yield_now();
        }
    }
}

#[test]
fn a_file_written_while_it_is_started_never_runs() {
    let owner = many();
    let (good, evil) = two_programs(owner.base());
    let tool = owner.base().join("tool");
    fs::copy(&good, &tool).expect("it was built");
    let server = pinned(owner, "job", &[utf8(&tool)]).serve();
    let (good, evil) = (
        fs::read(&good).expect("built"),
        fs::read(&evil).expect("built"),
    );
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| meddle(&tool, &good, &evil, &over));
        let _over = Over(&over);
        for _ in 0..400 {
            ran_good(&server);
        }
    });
    // The last one that was refused may still be dying.
    wait_until("nobody runs it", || fs::write(&tool, &good).is_ok());
    assert!(ran_good(&server), "when nobody meddles any more");
    server.finish();
}

#[test]
fn a_pinned_script_is_refused_as_one() {
    let owner = Owner::new();
    let script = owner.file("script", b"#!/bin/sh\necho ran\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("our own file");
    let owner = pinned(owner, "job", &[utf8(&script)]);
    let mut command = owner.command();
    let output = command.output().expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("commands.job.sha256: pins a script"),
        "{stderr}"
    );

    // One that takes the executable's place later.
    let owner = Owner::new();
    let tool = owner.base().join("tool");
    fs::copy("/bin/echo", &tool).expect("echo is there");
    let server = pinned(owner, "job", &[utf8(&tool)]).serve();
    fs::remove_file(&tool).expect("ours");
    fs::copy(&script, &tool).expect("a script");
    let refused = server.refused("terminal_start", json!({"command_id": "job"}));
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("script"), "{message}");
    server.finish();
}

#[test]
fn a_check_compares_and_a_start_up_does_not() {
    let owner = Owner::new();
    let other = sha256(Path::new("/bin/cat"));
    let owner = owner.profile("job", json!({"argv": ["/bin/echo"], "sha256": other}));
    let mut check = owner::binary();
    check.args(["config", "check", utf8(&owner.config())]);
    let output = check.output().expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success());
    for words in [
        "config.json:1:",
        "commands.job.sha256: is ",
        &other,
        &sha256(Path::new("/bin/echo")),
    ] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    let server = owner.serve();
    assert_eq!(
        server.code("terminal_start", json!({"command_id": "job"})),
        "START_FAILED"
    );
    server.finish();
}

#[test]
fn a_pin_goes_with_a_sandbox_and_restrictions() {
    if sluicegate::contain::offered().files.is_err() {
        eprintln!(
            "SKIPPED a_pin_goes_with_a_sandbox_and_restrictions: {:?}",
            sluicegate::contain::offered()
        );
        return;
    }
    let owner = Owner::new();
    let profile = |pin: &str| {
        json!({
            "argv": ["/bin/sh", "-c", "umask; cat /etc/passwd; echo end"],
            "sha256": pin,
            "umask": "027",
            "sandbox": {"read": ["/usr", "/bin", "/lib"], "network": false},
        })
    };
    let right = profile(&sha256(Path::new("/bin/sh")));
    let wrong = profile(&sha256(Path::new("/bin/cat")));
    let server = owner
        .profile("right", right)
        .profile("wrong", wrong)
        .serve();
    assert_eq!(server.start("right").read_all().stdout, "0027\nend\n");
    assert_eq!(
        server.code("terminal_start", json!({"command_id": "wrong"})),
        "START_FAILED"
    );
    server.finish();
}

#[test]
fn where_tracing_is_not_allowed_nothing_runs_unchecked() {
    let owner = pinned(
        Owner::new().argv("free", &["/bin/echo", "ran"]),
        "job",
        &["/bin/echo", "ran"],
    );
    let mut command = owner.command();
    let number = u32::try_from(libc::SYS_ptrace).expect("a call's number");
    launch::refuse_syscall(
        &mut command,
        number,
        u16::try_from(libc::EPERM).expect("small"),
    );
    let server = Server::spawn(owner, command);
    server.initialize();
    let refused = server.refused("terminal_start", json!({"command_id": "job"}));
    assert_eq!(refused["code"], "START_FAILED");
    wait_until("the Owner is told why", || {
        server.stderr().contains("tracing is not allowed")
    });
    assert_eq!(server.start("free").read_all().stdout, "ran\n");
    server.finish();
}
