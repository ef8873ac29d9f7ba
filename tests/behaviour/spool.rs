//! What memory has no room for lies in files: read by the same cursor, private, within budgets, and gone with its session and
//! its server.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::common::{
    Owner, Server, Session, SmallDisk, launch, proc, session::stream_text, wait_until,
};

const MIB: u64 = 1 << 20;

fn spooled(owner: Owner, spool: Value) -> Owner {
    owner.set("spool", spool)
}

/// 64 KiB in memory, the rest in `spool` beside the root.
fn large(owner: Owner) -> (Owner, PathBuf) {
    let dir = owner.base().join("spool");
    let owner = spooled(owner.buffer(65_536), json!({"dir": dir}));
    (owner, dir)
}

/// The files of text in a directory.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("it is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_none_or(|extension| extension != "lock"))
        .collect()
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).expect("it is there").count()
}

/// Lines of both streams with characters of one to four bytes and bytes that are none, some megabytes of it.
const MIXED: &str = r#"i=0; while [ $i -lt 40 ]; do
    seq $((i * 2000)) $((i * 2000 + 1999)) | sed 's/$/ abc é 中 😀/'
    printf 'err %s \377\303\n' $i >&2
    i=$((i + 1))
done"#;

#[test]
fn following_the_cursor_from_0_gives_every_byte_in_order() {
    let expected: String = (0..80_000).map(|n| format!("{n} abc é 中 😀\n")).collect();
    let errors: String = (0..40)
        .map(|n| format!("err {n} \u{fffd}\u{fffd}\n"))
        .collect();
    let (owner, _) = large(Owner::job(MIXED));
    let server = owner.serve();
    let job = server.start("job");
    let end = job.wait_settled();
    assert_eq!(end["spool_state"], "ok");
    assert_eq!(
        (&end["base_cursor"], &end["truncated"]),
        (&json!(0), &json!(false))
    );
    for page_bytes in [65_536, 10_007] {
        let all = job.read_from(0, page_bytes);
        assert!(
            all.stdout == expected,
            "{} of {} bytes",
            all.stdout.len(),
            expected.len()
        );
        assert_eq!(all.stderr, errors);
        assert!(all.complete && !all.truncated);
    }
    let end = job.read(json!({"from": "tail", "max_bytes": 65_536}));
    let text = stream_text(&end, "stdout");
    let whole_lines = text.split_once('\n').expect("lines").1;
    assert!(64_000 < text.len() && expected.ends_with(whole_lines));
}

fn texts(page: &Value) -> Vec<&str> {
    let records = page["records"].as_array().expect("records");
    records
        .iter()
        .map(|record| record["text"].as_str().expect("text"))
        .collect()
}

#[test]
fn a_follower_of_a_flood_misses_nothing() {
    let (owner, _) = large(Owner::job("seq 1 400000"));
    let server = owner.serve();
    let all = server.start("job").read_all();
    let expected: String = (1..=400_000).map(|n| format!("{n}\n")).collect();
    assert!(all.stdout == expected && !all.truncated);
}

#[test]
fn plain_pages_patterns_finds_and_a_tail_longer_than_memory_reach_into_the_files() {
    let owner = Owner::job("seq 1 200000").buffer(4_096);
    let dir = owner.base().join("spool");
    let server = spooled(owner, json!({"dir": dir})).serve();
    let job = server.start("job");
    job.wait_settled();
    let tail = texts(&job.read(json!({"from": "tail", "max_bytes": 60_000}))).concat();
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(tail, expected[expected.len() - 60_000..]);

    let page = job.read(json!({"until": {"pattern": "^12345$"}, "max_bytes": 64, "wait_ms": 2000}));
    assert_eq!(page["wait_result"], "pattern");
    let at = expected.find("\n12345\n").expect("it is there") + 1;
    assert_eq!(page["match"], json!({"cursor": at, "text": "12345"}));
    assert_eq!(page["omitted"]["lines"], 12_344 - 64 / 6);

    let find = json!({"find": {"pattern": "^1234.$", "context_lines": 1}});
    let found = server.ok("terminal_read", job.with_id(find));
    let matches = found["matches"].as_array().expect("matches");
    let lines: Vec<&str> = matches
        .iter()
        .map(|line| line["text"].as_str().expect("text"))
        .collect();
    let all: Vec<String> = (12_340..12_350).map(|n| n.to_string()).collect();
    assert_eq!(lines, all);
    assert_eq!(matches[0]["before"], json!(["12339"]));
    assert_eq!(matches[9]["after"], json!(["12350"]));
    assert_eq!(matches[5]["cursor"], at);
    assert_eq!(
        (&found["lines_scanned"], &found["has_more"]),
        (&json!(200_000), &json!(false))
    );

    let mut cursor = json!(3);
    let mut plain = String::new();
    loop {
        let page = job.read(json!({"cursor": cursor, "view": "plain"}));
        plain.push_str(&texts(&page).concat());
        if page["has_more"] == false {
            break;
        }
        cursor = page["next_cursor"].clone();
    }
    assert!(
        plain == expected[2..],
        "whole lines from the one that holds the cursor on"
    );
}

#[test]
fn files_are_private_and_go_with_their_session() {
    let (owner, dir) = large(Owner::job("seq 1 200000"));
    let mut server = owner.set("retention_seconds", 1).serve();
    let job = server.start("job");
    wait_until("there is a file", || !segments(&dir).is_empty());
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    assert_eq!(mode(&dir), 0o700);
    for file in fs::read_dir(&dir).expect("readable") {
        assert_eq!(mode(&file.expect("an entry").path()), 0o600);
    }
    job.wait_settled();
    wait_until("retention is over", || segments(&dir).is_empty());
    server.close_stdin();
    server.assert_exits_cleanly();
    assert_eq!(entries(&dir), 0);
}

#[test]
fn nothing_is_left_after_an_exit_with_sessions_and_small_jobs_leave_no_file() {
    let (owner, dir) = large(Owner::job("seq 1 200000; exec sleep 600").sh("small", "seq 1 100"));
    let mut server = owner.serve();
    server.start("small").wait_settled();
    assert!(segments(&dir).is_empty());
    server.start("job");
    wait_until("there is a file", || !segments(&dir).is_empty());
    server.close_stdin();
    server.assert_exits_cleanly();
    assert_eq!(entries(&dir), 0);
}

#[test]
fn a_start_removes_what_a_killed_server_left_and_nothing_of_one_that_lives() {
    let (owner, dir) = large(Owner::job("seq 1 200000"));
    let config = owner.config();
    let serve = || {
        let other = Owner::new();
        let mut command = crate::common::owner::stdio();
        command.arg("--config").arg(&config);
        let server = Server::spawn(other, command);
        server.initialize();
        server
    };
    let (alive, mut killed) = (serve(), serve());
    let mine = alive.start("job");
    mine.wait_settled();
    let files_of_one = entries(&dir) - 1;
    killed.start("job").wait_settled();
    assert_eq!(entries(&dir), 2 * files_of_one);
    fs::write(dir.join("notes.txt"), "").expect("the directory takes files");
    killed.signal(Signal::SIGKILL);
    killed.wait();
    assert_eq!(
        entries(&dir),
        2 * files_of_one + 1,
        "a killed server can't clean up"
    );
    let third = serve();
    assert_eq!(
        entries(&dir),
        files_of_one + 2,
        "the lock of the third, the notes"
    );
    assert!(dir.join("notes.txt").exists());
    assert_eq!(mine.read_all().stdout.lines().count(), 200_000);
    assert_eq!(
        third.start("job").read_all().stdout.lines().count(),
        200_000
    );
}

#[test]
fn over_its_budget_a_session_loses_its_oldest_text() {
    let owner = Owner::job("seq 1 600000").buffer(4_096);
    let dir = owner.base().join("spool");
    let server = spooled(owner, json!({"dir": dir, "bytes_per_session": MIB})).serve();
    let job = server.start("job");
    assert_eq!(job.wait_settled()["spool_state"], "ok");
    drained(&server, &dir);
    // The last blocks may still be on their way; the budget counts those that have arrived.
    let base = || cursor(&job.status(), "base_cursor");
    let next = cursor(&job.status(), "next_cursor");
    wait_until(
        "no more is kept than the budget and what memory holds",
        || next - base() <= MIB + 80_000,
    );
    let base = base();
    assert!(next - base >= 9 * MIB / 10, "{} kept", next - base);
    wait_until("what went is removed", || on_disk(&dir) <= MIB);
    let expected: String = (1..=600_000).map(|n| format!("{n}\n")).collect();
    let base_at = usize::try_from(base).expect("small");
    assert!(job.read_from(base, 65_536).stdout == expected[base_at..]);
    let error = server.refused("terminal_read", job.with_id(json!({"cursor": base - 1})));
    assert_eq!(error["code"], "CURSOR_EXPIRED");
    assert_eq!(cursor(&error, "base_cursor"), base);
    assert_eq!(cursor(&error, "next_cursor"), next);
}

/// Waits until what had no room in memory at a session's end is written, too: until then old text may still go for it.
fn drained(server: &Server, dir: &Path) {
    wait_until("no segment is open any more", || {
        let mut open = proc::descriptors(server.pid())
            .into_iter()
            .map(|(_, path)| path);
        open.all(|path| {
            let is_lock = path
                .extension()
                .is_some_and(|extension| extension == "lock");
            !path.starts_with(dir) || path == dir || is_lock
        })
    });
}

/// Bytes of the files of text.
fn on_disk(dir: &Path) -> u64 {
    let size = |file: &PathBuf| fs::metadata(file).map_or(0, |facts| facts.size());
    segments(dir).iter().map(size).sum()
}

fn cursor(body: &Value, name: &str) -> u64 {
    body[name].as_u64().expect("a cursor")
}

#[test]
fn over_the_budget_of_all_the_oldest_session_pays_first() {
    let owner = Owner::job("seq 1 200000").buffer(4_096);
    let dir = owner.base().join("spool");
    let server = spooled(owner, json!({"dir": dir, "bytes_total": 2 * MIB})).serve();
    let base = |job: &Session| cursor(&job.status(), "base_cursor");
    let first = server.start("job");
    first.wait_settled();
    assert_eq!(base(&first), 0);
    let second = server.start("job");
    second.wait_settled();
    drained(&server, &dir);
    assert!(base(&first) > 0, "1.3 MB each don't both fit");
    assert_eq!(base(&second), 0);
    assert_eq!(second.read_all().stdout.lines().count(), 200_000);
    let left = first.read_from(base(&first), 65_536).stdout;
    assert!(left.ends_with("\n200000\n"));
}

/// Runs the job, which must not notice that its text finds no room; returns it with the oldest cursor that is left.
fn job_beyond_its_disk<'s>(server: &'s Server, dir: &Path) -> (Session<'s>, u64) {
    let job = server.start("job");
    let end = job.wait_settled();
    assert_eq!(
        (&end["exit_code"], &end["output_complete"]),
        (&json!(0), &json!(true))
    );
    assert_eq!(end["spool_state"], "dropping");
    drained(server, dir);
    let base = cursor(&job.status(), "base_cursor");
    (job, base)
}

#[test]
fn a_full_disk_costs_old_text_and_never_the_job() {
    let owner = Owner::job("seq 1 2000000").buffer(4_096);
    let Some(disk) = SmallDisk::mount(owner.base().join("disk"), 4_096) else {
        eprintln!("SKIPPED a_full_disk: a tmpfs can't be mounted here (it takes root)");
        return;
    };
    let dir = disk.place.join("spool");
    let mut server = spooled(owner, json!({"dir": dir})).serve();
    let (job, base) = job_beyond_its_disk(&server, &dir);
    let all: String = (1..=2_000_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(cursor(&job.status(), "next_cursor"), all.len() as u64);
    let kept = job.read_from(base, 65_536).stdout;
    assert!(kept == all[usize::try_from(base).expect("small")..]);
    server.close_stdin();
    server.assert_exits_cleanly();
}

#[test]
fn a_directory_that_goes_away_costs_the_spool_and_never_the_job() {
    let (owner, dir) = large(Owner::job("read go; seq 1 200000"));
    let server = owner.serve();
    let job = server.start("job");
    fs::remove_dir_all(&dir).expect("our own");
    job.write("go\n");
    let end = job.wait_settled();
    assert_eq!(
        (&end["exit_code"], &end["output_complete"]),
        (&json!(0), &json!(true))
    );
    wait_until("the first write has failed", || {
        job.status()["spool_state"] == "failed"
    });
    let end = job.status();
    assert_eq!(end["truncated"], true);
    assert!(
        job.read_from(cursor(&end, "base_cursor"), 65_536)
            .stdout
            .ends_with("\n200000\n")
    );
}

#[test]
fn files_that_were_removed_or_changed_are_never_taken_for_text() {
    for damage in [
        |file: &Path| fs::remove_file(file),
        |file: &Path| fs::write(file, [0; 1 << 20]),
    ] {
        let (owner, dir) = large(Owner::job("seq 1 200000"));
        let server = owner.serve();
        let job = server.start("job");
        assert_eq!(job.wait_settled()["base_cursor"], 0);
        drained(&server, &dir);
        for file in segments(&dir) {
            damage(&file).expect("our own");
        }
        let error = server.refused("terminal_read", job.with_id(json!({"cursor": 0})));
        assert_eq!(error["code"], "CURSOR_EXPIRED");
        let end = job.status();
        assert_eq!(end["spool_state"], "failed");
        assert_eq!(end["base_cursor"], error["base_cursor"]);
        let kept = job.read_from(cursor(&end, "base_cursor"), 65_536).stdout;
        assert!(kept.ends_with("\n200000\n"));
    }
}

#[test]
fn without_a_spool_the_snapshot_says_off() {
    let server = Owner::job("true").serve();
    assert_eq!(server.start("job").wait_settled()["spool_state"], "off");
}

#[test]
fn a_directory_that_may_not_hold_text_is_refused_by_name() {
    let mut owner = Owner::job("true");
    let base = owner.base().to_owned();
    for (name, mode) in [("group", 0o750), ("shut", 0o500), ("open", 0o777)] {
        fs::create_dir(base.join(name)).expect("made");
        fs::set_permissions(base.join(name), fs::Permissions::from_mode(mode)).expect("our own");
    }
    fs::create_dir(base.join("private")).expect("made");
    fs::set_permissions(base.join("private"), fs::Permissions::from_mode(0o700)).expect("ours");
    symlink(base.join("private"), base.join("link")).expect("linked");
    let file = owner.file("file", b"");
    let is_root = nix::unistd::geteuid().is_root();
    for (dir, why) in [
        (file, "is not a directory"),
        (base.join("link"), "is a symbolic link"),
        (base.join("group"), "is open to others (mode 0750)"),
        (base.join("shut"), "can't be written"),
        (base.join("open/below"), "everyone may write (mode 0777)"),
        (PathBuf::from("/proc/spool"), "can't be"),
        (PathBuf::from("spool"), "must be an absolute path"),
    ] {
        if why == "can't be written" && is_root {
            // Root may write it all the same.
            continue;
        }
        owner = spooled(owner, json!({"dir": dir}));
        let stderr = launch::refusal(&mut owner.command());
        assert!(
            stderr.contains("spool.dir: ") && stderr.contains(why),
            "{stderr}"
        );
    }
    assert_eq!(entries(&base.join("private")), 0);
}

#[test]
fn a_file_size_limit_is_a_full_disk() {
    let (owner, dir) = large(Owner::job("seq 1 400000"));
    let command = owner.command_after("ulimit -f 200");
    let server = Server::spawn(owner, command);
    server.initialize();
    let (job, base) = job_beyond_its_disk(&server, &dir);
    let kept = job.read_from(base, 65_536).stdout;
    assert!(kept.ends_with("\n400000\n"));
}
