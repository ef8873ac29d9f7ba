//! Sandboxed commands: what the kernel withholds from them, however they go about it, and what it leaves them.

use std::{
    fs,
    io::Read,
    net::{TcpListener, UdpSocket},
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use sluicegate::contain::offered;

use crate::common::{Owner, Server, launch, owner, proc, wait_until};

/// `landlock_create_ruleset` and `landlock_restrict_self` have these numbers on every architecture.
const CREATE_RULESET: u32 = 444;
const RESTRICT_SELF: u32 = 446;

/// Whether this kernel can't do what a test is about; prints so.
fn skipped(test: &str, lacks: impl std::fmt::Debug, has: bool) -> bool {
    if !has {
        eprintln!("SKIPPED {test}: {lacks:?}");
    }
    !has
}

fn skipped_without_sandboxes(test: &str) -> bool {
    let has = offered().files.is_ok() && offered().sockets.is_ok();
    skipped(test, offered(), has)
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Where programs and what they are loaded with lie.
fn system() -> Vec<&'static str> {
    let places = ["/usr", "/bin", "/lib", "/lib64", "/etc/alternatives"];
    let there = |place: &&str| Path::new(place).exists();
    places.into_iter().filter(there).collect()
}

fn system_and(place: &'static str) -> Vec<&'static str> {
    let mut places = system();
    places.push(place);
    places
}

/// The system for reading, the root and /dev/null for writing, no network.
fn usual(owner: &Owner) -> Value {
    json!({"read": system(), "write": [owner.root(), "/dev/null"], "network": false})
}

/// Approves a script for `/bin/sh` in this sandbox.
fn sandboxed(owner: Owner, id: &str, script: &str, sandbox: Value) -> Owner {
    let argv = json!(["/bin/sh", "-c", script]);
    owner.profile(id, json!({"argv": argv, "sandbox": sandbox}))
}

/// The script as `job` in the usual sandbox.
fn job(script: &str) -> Owner {
    let owner = Owner::new();
    let sandbox = usual(&owner);
    sandboxed(owner, "job", script, sandbox)
}

/// Both streams of a job, settled.
fn says(server: &Server, id: &str) -> String {
    let output = server.start(id).read_all();
    format!("{}{}", output.stdout, output.stderr)
}

/// A program that tries to reach things, beside the root.
fn reach(owner: &Owner) -> String {
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/behaviour/sandbox/reach.c"
    );
    let program = owner.base().join("reach");
    let mut compiler = Command::new("cc");
    compiler.args(["-o", utf8(&program), source]);
    let compiled = compiler.status().expect("a linker, which Rust needs too");
    assert!(compiled.success());
    utf8(&program).to_owned()
}

/// `reach` with these arguments, approved as `open` in a sandbox with network and as `closed` in one without.
fn reaching(arguments: &[&str]) -> Owner {
    let owner = Owner::new();
    let program = reach(&owner);
    let argv: Vec<&str> = [program.as_str()]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    let mut read = vec![utf8(owner.base())];
    read.extend(system());
    let profile =
        |network: bool| json!({"argv": argv, "sandbox": {"read": read, "network": network}});
    let (open, closed) = (profile(true), profile(false));
    owner.profile("open", open).profile("closed", closed)
}

#[test]
fn what_no_list_names_cannot_be_read() {
    if skipped_without_sandboxes("what_no_list_names_cannot_be_read") {
        return;
    }
    let owner =
        job("cat inside; cat ../secret; ls ..; cat /etc/passwd; head -c 1 /dev/zero; echo end");
    owner.file("secret", b"top secret\n");
    owner.file("root/inside", b"plain\n");
    let server = owner.serve();
    let said = says(&server, "job");
    assert!(said.starts_with("plain\nend\n"), "{said}");
    assert!(
        !said.contains("secret\n") && !said.contains("root:"),
        "{said}"
    );
    assert_eq!(said.matches("Permission denied").count(), 4, "{said}");
    server.finish();
}

#[test]
fn what_only_read_names_cannot_be_changed() {
    if skipped_without_sandboxes("what_only_read_names_cannot_be_changed") {
        return;
    }
    let owner = Owner::new();
    let program = reach(&owner);
    fs::create_dir(owner.base().join("shelf")).expect("a new directory");
    let book = owner.file("shelf/book", b"text\n");
    let script = format!(
        "cd ../shelf && cat book; echo x > book; echo x >> book; echo x > new; rm book; mv book ../root/; ln book ../root/book; \
         mkdir d; ln -s a b; mkfifo f; {program} truncate {}",
        utf8(&book)
    );
    let mut sandbox = usual(&owner);
    let read = sandbox["read"].as_array_mut().expect("a list");
    read.extend([json!(owner.base().join("shelf")), json!(program)]);
    let server = sandboxed(owner, "job", &script, sandbox).serve();
    let said = says(&server, "job");
    assert!(said.starts_with("text\n"), "{said}");
    assert!(said.contains("truncate: EACCES"), "{said}");
    assert_eq!(fs::read(&book).expect("it is there"), b"text\n");
    let shelf = book.parent().expect("it lies in one");
    assert_eq!(fs::read_dir(shelf).expect("ours").count(), 1, "{said}");
    assert!(
        !shelf.with_file_name("root").join("book").exists(),
        "{said}"
    );
    server.finish();
}

#[test]
fn what_write_names_can_be_read_changed_and_executed() {
    if skipped_without_sandboxes("what_write_names_can_be_read_changed_and_executed") {
        return;
    }
    let script = "mkdir -p a/b && echo one > a/b/f && mv a/b/f a/g && ln a/g a/h && echo two >> a/h && cat a/g && rm a/h && \
                  cp /bin/true a/t && a/t && ln -s g a/s && cat a/s > /dev/null && : > a/g && rm -r a && echo done";
    let server = job(script).serve();
    assert_eq!(says(&server, "job"), "one\ntwo\ndone\n");
    server.finish();
}

#[test]
fn links_and_proc_are_no_way_out() {
    if skipped_without_sandboxes("links_and_proc_are_no_way_out") {
        return;
    }
    let owner = Owner::new();
    let secret = utf8(&owner.file("secret", b"top secret\n")).to_owned();
    symlink(&secret, owner.root().join("planted")).expect("a new link");
    let script = format!(
        "cat planted; ln -s {secret} own; cat own; (echo x > own); ln {secret} hard; cat hard; cat ../secret; \
         cat /proc/self/root{secret}; cat /proc/self/cwd/../secret; cat /proc/$PPID/root{secret}; \
         cat /proc/1/root{secret}; (cat < /proc/self/root{secret}); (exec 3< ..; cat /proc/self/fd/3/secret); \
         cd ..; cat secret; echo end"
    );
    let mut sandbox = usual(&owner);
    sandbox["read"]
        .as_array_mut()
        .expect("a list")
        .push(json!("/proc"));
    let server = sandboxed(owner, "job", &script, sandbox).serve();
    let output = server.start("job").read_all();
    assert_eq!(output.stdout, "end\n", "{}", output.stderr);
    server.finish();
}

#[test]
fn descendants_are_in_the_sandbox_too_wherever_they_go() {
    if skipped_without_sandboxes("descendants_are_in_the_sandbox_too_wherever_they_go") {
        return;
    }
    let owner = job(
        "sh -c 'cat ../secret'; setsid -w sh -c 'cat ../secret; echo x > ../new'; (sh -c 'setsid sh -c \"cat ../secret\" &'); \
         read go; unshare -Ur cat ../secret; env -i /bin/cat ../secret; echo end",
    );
    owner.file("secret", b"top secret\n");
    let new = owner.base().join("new");
    let server = owner.serve();
    let session = server.start("job");
    session.write("go\n");
    let output = session.read_all();
    assert_eq!(output.stdout, "end\n", "{}", output.stderr);
    assert!(!new.exists());
    server.finish();
}

#[test]
fn the_network_is_there_unless_it_is_withheld() {
    if skipped_without_sandboxes("the_network_is_there_unless_it_is_withheld") {
        return;
    }
    let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = tcp.local_addr().expect("bound").port().to_string();
    let server = reaching(&["tcp", &port]).serve();
    assert_eq!(says(&server, "open"), "socket: ok\nconnect: ok\n");
    assert_eq!(says(&server, "closed"), "socket: EACCES\n");
    server.finish();

    let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let port = udp.local_addr().expect("bound").port().to_string();
    let server = reaching(&["udp", &port]).serve();
    assert_eq!(says(&server, "open"), "socket: ok\nsend: ok\n");
    let mut received = [0; 16];
    assert_eq!(udp.recv(&mut received).expect("it was sent"), 5);
    assert_eq!(says(&server, "closed"), "socket: EACCES\n");
    server.finish();
}

#[test]
fn without_network_a_daemon_behind_a_unix_socket_is_out_of_reach() {
    if skipped_without_sandboxes("without_network_a_daemon_behind_a_unix_socket_is_out_of_reach") {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("daemon");
    let _daemon = UnixListener::bind(&path).expect("a new socket");
    let server = reaching(&["unix", utf8(&path)]).serve();
    assert_eq!(says(&server, "closed"), "socket: EACCES\n");
    server.finish();
}

#[test]
fn without_network_there_is_no_socket_of_any_kind() {
    if skipped_without_sandboxes("without_network_there_is_no_socket_of_any_kind") {
        return;
    }
    let server = reaching(&["every-kind"]).serve();
    let refused: String = [
        "tcp",
        "udp",
        "tcp6",
        "udp6",
        "raw",
        "packet",
        "netlink",
        "vsock",
        "unix",
        "no family",
        "high bits",
    ]
    .iter()
    .map(|kind| format!("{kind}: EACCES\n"))
    .collect();
    assert_eq!(
        says(&server, "closed"),
        format!("{refused}pair: ok\ntipc pair: EACCES\nio_uring: EPERM\n")
    );
    let open = says(&server, "open");
    assert!(
        open.starts_with("tcp: ok\nudp: ok\n") && open.contains("\nunix: ok\n"),
        "{open}"
    );
    server.finish();
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_calls_of_32_bit_programs_make_no_socket_either() {
    if skipped_without_sandboxes("the_calls_of_32_bit_programs_make_no_socket_either") {
        return;
    }
    let server = reaching(&["other-calls"]).serve();
    let open = says(&server, "open");
    let closed = says(&server, "closed");
    assert!(closed.starts_with("x32 socket: EPERM\n"), "{closed}");
    if !skipped(
        "the half about i386",
        &open,
        open.contains("i386 getpid: ok"),
    ) {
        assert!(
            open.contains("i386 socket: ok\ni386 socketcall: ok\n"),
            "{open}"
        );
        assert!(
            closed.ends_with("i386 getpid: ok\ni386 socket: EACCES\ni386 socketcall: EACCES\n"),
            "{closed}"
        );
    }
    server.finish();
}

#[test]
fn processes_outside_can_be_neither_signalled_nor_traced() {
    let name = "processes_outside_can_be_neither_signalled_nor_traced";
    if skipped_without_sandboxes(name) || skipped(name, offered(), offered().scopes()) {
        return;
    }
    let mut outside = Command::new("/bin/cat");
    outside.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut outside = outside.spawn().expect("cat is there");
    let owner = Owner::new();
    let program = reach(&owner);
    let pid = outside.id();
    let script = format!(
        "kill -0 {pid} || echo spared; kill -9 {pid}; kill -9 $PPID || echo keeper spared; {program} trace {pid}; \
         sleep 60 & kill $! && wait $!; echo own child $?"
    );
    let mut sandbox = usual(&owner);
    sandbox["read"]
        .as_array_mut()
        .expect("a list")
        .push(json!(program));
    let server = sandboxed(owner, "job", &script, sandbox).serve();
    let output = server.start("job").read_all();
    assert_eq!(
        output.stdout, "spared\nkeeper spared\nattach: EPERM\nown child 143\n",
        "{}",
        output.stderr
    );
    drop(outside.stdin.take());
    let mut rest = String::new();
    outside
        .stdout
        .take()
        .expect("piped")
        .read_to_string(&mut rest)
        .expect("text");
    assert!(
        outside.wait().expect("our child").success(),
        "it was not killed"
    );
    server.finish();
}

#[test]
fn set_user_id_programs_give_no_privileges() {
    let name = "set_user_id_programs_give_no_privileges";
    if skipped_without_sandboxes(name)
        || skipped(name, "not root", nix::unistd::geteuid().is_root())
    {
        return;
    }
    let owner = Owner::new().sh("free", "exec setpriv --reuid 65534 --clear-groups ./id -u");
    let sandbox = usual(&owner);
    let owner = sandboxed(
        owner,
        "job",
        "grep NoNewPrivs /proc/self/status; exec setpriv --reuid 65534 --clear-groups ./id -u",
        json!({"read": system_and("/proc"), "write": sandbox["write"]}),
    );
    let copy = owner.root().join("id");
    fs::copy("/usr/bin/id", &copy).expect("id is there");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).expect("our own file");
    for directory in [owner.base(), &owner.root()] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let server = owner.serve();
    assert_eq!(says(&server, "free"), "0\n");
    assert_eq!(says(&server, "job"), "NoNewPrivs:\t1\n65534\n");
    server.finish();
}

#[test]
fn a_compiler_works_in_a_sandbox() {
    if skipped_without_sandboxes("a_compiler_works_in_a_sandbox") {
        return;
    }
    let owner = Owner::new();
    let sandbox = usual(&owner);
    let root = utf8(&owner.root()).to_owned();
    let script = "printf '#include <stdio.h>\\nint main(void){puts(\"built\");}' > a.c && cc -o a a.c && ./a && ls";
    let profile =
        json!({"argv": ["/bin/sh", "-c", script], "env": {"TMPDIR": root}, "sandbox": sandbox});
    let server = owner.profile("job", profile).serve();
    assert_eq!(says(&server, "job"), "built\na\na.c\n");
    server.finish();
}

#[test]
fn a_sandboxed_child_has_three_descriptors_and_its_own_restrictions() {
    if skipped_without_sandboxes("a_sandboxed_child_has_three_descriptors_and_its_own_restrictions")
    {
        return;
    }
    let owner = Owner::new();
    let sandbox = json!({"read": system_and("/proc"), "network": false});
    let profile = json!({
        "argv": ["/bin/sh", "-c", "ls /proc/self/fd; umask; nice; ulimit -n; read line; echo $line; echo err >&2"],
        "sandbox": sandbox, "umask": "027", "nice": 19, "limits": {"open_files": 64},
    });
    let server = owner.profile("job", profile).serve();
    let session = server.start("job");
    session.write("line\n");
    let output = session.read_all();
    assert_eq!(output.stdout, "0\n1\n2\n3\n0027\n19\n64\nline\n");
    assert_eq!(output.stderr, "err\n");
    assert_eq!(session.wait_final()["exit_code"], 0);
    server.finish();
}

#[test]
fn a_sandboxed_daemon_may_stay_and_stays_sandboxed() {
    if skipped_without_sandboxes("a_sandboxed_daemon_may_stay_and_stays_sandboxed") {
        return;
    }
    let owner = Owner::new();
    owner.file("secret", b"top secret\n");
    let script = "setsid sh -c 'echo $$; exec <&- >&- 2>&-; until [ -e go ]; do sleep 0.01; done; cat ../secret > took; \
                  echo > done; exec sleep 600' & read go";
    let profile =
        json!({"argv": ["/bin/sh", "-c", script], "allow_detach": true, "sandbox": usual(&owner)});
    let root = owner.root();
    let server = owner.profile("job", profile).serve();
    let session = server.start("job");
    let daemon: i32 = session.wait_for_text("\n").trim().parse().expect("an id");
    let _daemon = proc::Doomed::process(daemon);
    session.write("\n");
    session.wait_settled();
    fs::write(root.join("go"), "").expect("ours");
    wait_until("the daemon has tried", || root.join("done").exists());
    assert_eq!(fs::read(root.join("took")).expect("it was opened"), b"");
    assert!(proc::is_alive(daemon));
    server.finish();
}

#[test]
fn an_interpreter_outside_is_a_failed_start_that_says_so() {
    if skipped_without_sandboxes("an_interpreter_outside_is_a_failed_start_that_says_so") {
        return;
    }
    let owner = Owner::new();
    let shell = owner.base().join("shell");
    fs::copy("/bin/sh", &shell).expect("sh is there");
    let script = owner.file("root/script", format!("#!{}\n", utf8(&shell)).as_bytes());
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("our own file");
    let argv = json!([script]);
    let sandbox = usual(&owner);
    let server = owner
        .profile("free", json!({"argv": argv}))
        .profile("job", json!({"argv": argv, "sandbox": sandbox}))
        .serve();
    assert_eq!(server.start("free").wait_final()["exit_code"], 0);
    let refused = server.refused("terminal_start", json!({"command_id": "job"}));
    assert_eq!(refused["code"], "START_FAILED");
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("sandbox.read"), "{message}");
    server.finish();
}

#[test]
fn a_command_cannot_widen_its_next_sandbox_by_a_link() {
    if skipped_without_sandboxes("a_command_cannot_widen_its_next_sandbox_by_a_link") {
        return;
    }
    let owner = Owner::new();
    owner.file("secret", b"top secret\n");
    let target = owner.root().join("target");
    fs::create_dir(&target).expect("a new directory");
    let mut sandbox = usual(&owner);
    sandbox["write"]
        .as_array_mut()
        .expect("a list")
        .push(json!(target));
    let script = "cat target/secret; rm -rf target; ln -s .. target; cat target/secret; echo end";
    let server = sandboxed(owner, "job", script, sandbox).serve();
    assert_eq!(server.start("job").read_all().stdout, "end\n");
    let refused = server.refused("terminal_start", json!({"command_id": "job"}));
    assert_eq!(refused["code"], "START_FAILED");
    let message = refused["message"].as_str().expect("a message");
    assert!(
        message.contains("sandbox") && !message.contains('/'),
        "{message}"
    );
    wait_until("the Owner is told which", || {
        server.stderr().contains(utf8(&target))
    });
    fs::remove_file(&target).expect("the link");
    fs::create_dir(&target).expect("a directory again");
    assert_eq!(server.start("job").read_all().stdout, "end\n");
    server.finish();
}

#[test]
fn paths_of_a_sandbox_may_be_links_and_files() {
    if skipped_without_sandboxes("paths_of_a_sandbox_may_be_links_and_files") {
        return;
    }
    let owner = Owner::new();
    let one = owner.file("one", b"1\n");
    let two = owner.file("two", b"2\n");
    let link = owner.base().join("link");
    symlink(&two, &link).expect("a new link");
    let mut sandbox = usual(&owner);
    sandbox["read"]
        .as_array_mut()
        .expect("a list")
        .push(json!(one));
    sandbox["write"]
        .as_array_mut()
        .expect("a list")
        .push(json!(link));
    let script = "cat ../one ../two ../link; echo more >> ../link; echo more >> ../one";
    let server = sandboxed(owner, "job", script, sandbox).serve();
    assert_eq!(server.start("job").read_all().stdout, "1\n2\n2\n");
    assert_eq!(fs::read(&two).expect("ours"), b"2\nmore\n");
    assert_eq!(fs::read(&one).expect("ours"), b"1\n");
    server.finish();
}

/// Serving this config under a filter that answers `number` with `errno` must fail with one line that holds these words,
/// and so must its check.
#[track_caller]
fn assert_refused_where(number: u32, errno: i32, owner: &Owner, words: &[&str]) {
    let file: PathBuf = owner.config();
    let mut check = owner::binary();
    check.args(["config", "check", utf8(&file)]);
    for mut command in [owner.command(), check] {
        launch::refuse_syscall(
            &mut command,
            number,
            u16::try_from(errno).expect("a small number"),
        );
        let output = command.output().expect("the binary starts");
        let said =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let said = said.concat();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let line = said.lines().next().expect("a line");
        for word in words {
            assert!(line.contains(word), "{word:?} is not in {line}");
        }
    }
}

#[test]
fn a_kernel_without_landlock_is_told_before_anything_runs() {
    if skipped_without_sandboxes("a_kernel_without_landlock_is_told_before_anything_runs") {
        return;
    }
    let owner = job("echo ran");
    let named = "commands.job.sandbox: ";
    assert_refused_where(
        CREATE_RULESET,
        libc::ENOSYS,
        &owner,
        &[named, "no Landlock", "6.2"],
    );
    assert_refused_where(CREATE_RULESET, libc::EOPNOTSUPP, &owner, &[named, "lsm="]);
    assert_refused_where(CREATE_RULESET, libc::EPERM, &owner, &[named, "EPERM"]);
    assert_refused_where(RESTRICT_SELF, libc::EPERM, &owner, &[named, "EPERM"]);
}

#[test]
fn a_kernel_without_filters_is_told_by_the_field_that_needs_them() {
    if skipped_without_sandboxes("a_kernel_without_filters_is_told_by_the_field_that_needs_them") {
        return;
    }
    let number = u32::try_from(libc::SYS_seccomp).expect("a call's number");
    let words = ["commands.job.sandbox.network: ", "seccomp"];
    assert_refused_where(number, libc::ENOSYS, &job("echo ran"), &words);
    let owner = Owner::new();
    let files_only = json!({"read": system()});
    let owner = sandboxed(owner, "job", "echo ran", files_only);
    let mut command = owner.command();
    launch::refuse_syscall(
        &mut command,
        number,
        u16::try_from(libc::ENOSYS).expect("small"),
    );
    let server = Server::spawn(owner, command);
    server.initialize();
    assert_eq!(says(&server, "job"), "ran\n", "it needs none");
    server.finish();
}

#[test]
fn without_a_sandbox_nothing_of_it_is_asked_of_the_kernel() {
    let owner = Owner::job("grep NoNewPrivs /proc/self/status");
    let mut command = owner.command();
    launch::refuse_syscall(
        &mut command,
        CREATE_RULESET,
        u16::try_from(libc::ENOSYS).expect("small"),
    );
    let server = Server::spawn(owner, command);
    server.initialize();
    assert_eq!(server.start("job").read_all().stderr, "");
    server.finish();
    let server = Owner::job("grep NoNewPrivs /proc/self/status").serve();
    assert_eq!(says(&server, "job"), "NoNewPrivs:\t0\n");
    server.finish();
}

#[test]
fn a_config_that_its_own_command_may_write_draws_a_warning() {
    if skipped_without_sandboxes("a_config_that_its_own_command_may_write_draws_a_warning") {
        return;
    }
    let owner = Owner::new();
    let sandbox = json!({"read": system(), "write": [owner.base()]});
    let owner = sandboxed(owner, "job", "true", sandbox);
    let mut check = owner::binary();
    check.args(["config", "check", utf8(&owner.config())]);
    let output = check.output().expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("warning: commands.job.sandbox: lets the command write this config"),
        "{said}"
    );
}
