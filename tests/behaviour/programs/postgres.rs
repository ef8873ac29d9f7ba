//! psql on a PostgreSQL of its own.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::json;
use tempfile::TempDir;

use super::{answers, assert_is_secret, at_once, audited, screen, text, typed};
use crate::common::{
    Owner, Terminal,
    installed::{self, lacks, not_tested},
    terminal::call,
    wait_until,
};

const SECRET: &str = "correct-horse-battery";

/// A cluster in a folder of its own that listens on a socket there, until it is dropped.
struct Postgres {
    folder: TempDir,
    running: Option<Child>,
    /// Whom it runs as, since it refuses to be root.
    user: Option<(u32, u32)>,
}

/// The folder of the server's programs, which Debian keeps out of `PATH`.
fn programs() -> Option<PathBuf> {
    if let Some(initdb) = installed::find("initdb") {
        return initdb.canonicalize().ok()?.parent().map(Path::to_path_buf);
    }
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut folders = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    folders.find(|folder| folder.join("initdb").exists())
}

impl Postgres {
    /// One whose superuser `owner` has the password [`SECRET`]; says why there is none.
    fn start() -> Option<Postgres> {
        let Some(programs) = programs() else {
            not_tested("there is no PostgreSQL server here");
            return None;
        };
        let user = if nix::unistd::geteuid().is_root() {
            let user = installed::user(&["postgres", "nobody"]);
            if user.is_none() {
                not_tested("PostgreSQL refuses to run as root, and there is nobody else");
                return None;
            }
            user
        } else {
            None
        };
        let folder = tempfile::Builder::new()
            .prefix("sluicegate-test-")
            .tempdir();
        let folder = folder.expect("a temporary directory");
        if let Some((user, group)) = user {
            chown(folder.path(), Some(user), Some(group)).expect("root gives away");
        }
        let mut postgres = Postgres {
            folder,
            running: None,
            user,
        };
        let folder = postgres.folder.path().to_owned();
        let password = folder.join("password");
        fs::write(&password, SECRET).expect("the folder takes files");
        fs::set_permissions(&password, fs::Permissions::from_mode(0o644)).expect("it is ours");
        let mut init = postgres.command(&programs.join("initdb"));
        init.args(["--no-sync", "--auth=scram-sha-256", "--username=owner"]);
        init.args(["--encoding=UTF8", "--locale=C", "--pwfile"]);
        let made = init.arg(&password).output().expect("it starts");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{said}");
        let mut serve = postgres.command(&programs.join("postgres"));
        serve
            .args(["-F", "-c", "listen_addresses=", "-k"])
            .arg(&folder);
        let log = fs::File::create(folder.join("log")).expect("the folder takes files");
        serve.stderr(log);
        postgres.running = Some(serve.spawn().expect("it starts"));
        wait_until("PostgreSQL takes connections", || {
            let log = fs::read_to_string(folder.join("log")).expect("it is there");
            log.contains("ready to accept connections")
        });
        Some(postgres)
    }

    /// One of its programs, as its user, that doesn't outlive this test.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "QUIT"]);
        if let Some((user, group)) = self.user {
            command.arg(format!("--reuid={user}"));
            command.arg(format!("--regid={group}"));
            command.arg("--clear-groups");
        }
        let data = self.folder.path().join("data");
        command.arg(program).arg("-D").arg(data);
        command.current_dir("/").env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let pid = i32::try_from(running.id()).expect("pids are small");
            // At once, without a checkpoint; its own children go with it.
            let quit = nix::sys::signal::Signal::SIGQUIT;
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), quit).ok();
            running.wait().ok();
        }
    }
}

#[test]
fn psql_asks_for_its_password_answers_at_once_and_pages() {
    if lacks("psql") || lacks("setpriv") || lacks("less") {
        return;
    }
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let (server, log) = audited(Owner::new());
    let host = postgres.folder.path().to_str().expect("UTF-8").to_owned();
    let settings = "PSQL_PAGER=less LESS= LESSHISTFILE=-";
    let psql = Terminal::open_with(
        &server,
        json!({"command": format!("env {settings} psql -X -h {host} -U owner postgres"), "label": "psql"}),
    );
    psql.wait_for("Password for user owner: $");
    let sent = psql.ok("session_send", json!({ "password": SECRET }));
    assert_eq!(sent["bytes_sent"], SECRET.len() + 1);
    let read = psql.wait_for("postgres=# $");
    assert!(!text(&read).contains(SECRET), "{read}");

    answers(&psql, "select 6 * 7 as answer;", "     42\r\n");
    answers(&psql, "create table fruit (name text);", "CREATE TABLE");
    answers(&psql, "insert into fruit", "postgres-# ");
    answers(&psql, "values ('apple'), ('pear');", "INSERT 0 2");
    answers(&psql, "select nothing;", "does not exist");
    answers(&psql, "begin;", "postgres=*# ");
    answers(&psql, "rollback;", "postgres=# ");
    let gone = psql.with_id(json!({"input": "DROP TABLE fruit;"}));
    assert_eq!(
        call(&server, "session_send", gone)["requires_confirmation"],
        true
    );
    answers(&psql, "table fruit;", "(2 rows)");

    psql.ok(
        "session_send",
        json!({"input": "select generate_series(1, 500) as number;"}),
    );
    screen(&psql, "the pager shows the first rows", |screen| {
        screen.trim_start().starts_with("number") && screen.ends_with("\n:")
    });
    typed(&psql, "G");
    screen(&psql, "the pager shows the last row", |screen| {
        screen.contains("(500 rows)")
    });
    let arguments = json!({"input": "q", "press_enter": false, "wait_for": "postgres=# $"});
    assert_eq!(psql.ok("session_interact", arguments)["matched"], true);

    // What runs is interrupted, and the client stays.
    let sleeps = json!({"input": "select pg_sleep(9000);"});
    psql.ok("session_send", sleeps);
    wait_until("the server runs it", || {
        let watch = Terminal::open_with(
            &server,
            json!({"command": format!("env PGPASSWORD={SECRET} psql -X -At -h {host} -U owner postgres -c \"select state from pg_stat_activity where query like 'select pg_sleep%'\"")}),
        );
        let read = watch.ok("session_read", json!({}));
        watch.close();
        text(&read).contains("active")
    });
    let arguments =
        json!({"control_char": "c", "wait_for": "canceling statement(?s:.*)postgres=# $"});
    assert_eq!(psql.ok("session_interact", arguments)["matched"], true);

    let read = at_once(&psql, r"\q");
    assert_eq!(read["is_alive"], false, "{read}");
    assert_eq!(psql.close()["exit_status"], 0);
    drop(psql);
    assert_is_secret(server, log, SECRET);
}
