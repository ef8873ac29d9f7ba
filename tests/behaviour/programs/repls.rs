//! Programs that read a line, answer it, and ask for the next.

use std::process::Command;

use serde_json::json;

use super::{answers, at_home, at_once, exit_code, text};
use crate::common::{
    Owner, Terminal,
    installed::{self, lacks},
    terminal::call,
};

#[test]
fn pythons_answers_are_there_at_once() {
    if lacks("python3") {
        return;
    }
    let server = at_home(Owner::new(), &[]);
    let python = Terminal::open(&server, "python3 -q");
    python.wait_for(">>> $");
    answers(&python, "6 * 7", "\r\n42\r\n>>> ");
    answers(&python, "def twice(n):", "... ");
    answers(&python, "    return 2 * n", "... ");
    answers(&python, "", ">>> ");
    answers(&python, "twice('ab')", "'abab'");
    answers(&python, "1 / 0", "ZeroDivisionError: division by zero");
    answers(&python, "name = input('Who? ')", "Who? ");
    answers(&python, "Ada", ">>> ");
    answers(&python, "name.upper()", "'ADA'");
    let read = at_once(&python, "raise SystemExit(5)");
    assert_eq!(read["is_alive"], false, "{read}");
    assert_eq!(python.close()["exit_status"], 5);
}

#[test]
fn pythons_endless_loop_is_interrupted() {
    if lacks("python3") {
        return;
    }
    let server = at_home(Owner::new(), &[]);
    let python = Terminal::open(&server, "python3 -q");
    python.wait_for(">>> $");
    let endless = r#"exec("print('be' + 'gun')\nwhile True: pass")"#;
    python.ok("session_send", json!({ "input": endless }));
    python.wait_for("begun");
    let arguments = json!({"control_char": "c", "wait_for": "KeyboardInterrupt(?s:.*)>>> $"});
    let read = python.ok("session_interact", arguments);
    assert_eq!(read["matched"], true, "{read}");
    answers(&python, "'still ' + 'here'", "'still here'");
}

#[test]
fn python_on_a_terminal_profile_answers_the_five_tools() {
    let Some(python) = installed::find("python3") else {
        return installed::not_tested("there is no python3 here");
    };
    let argv = [python.to_str().expect("UTF-8"), "-q"];
    let profile = json!({"argv": argv, "allowed_env": [], "tty": {"rows": 24, "cols": 80}});
    let server = Owner::new().profile("python", profile).serve();
    let python = server.start("python");
    python.wait_for_text(">>> ");
    python.write("6 * 7\n");
    python.wait_for_text("\n42\r\n>>> ");
    python.write("raise SystemExit(5)\n");
    assert_eq!(python.wait_final()["exit_code"], 5);
}

#[test]
fn nodes_answers_are_there_at_once() {
    if lacks("node") {
        return;
    }
    let server = at_home(Owner::new(), &[("NODE_REPL_HISTORY", "")]);
    let node = Terminal::open(&server, "node");
    node.wait_for("> $");
    answers(&node, "[1, 2, 3].map(n => n * 7).join('-')", "'7-14-21'");
    answers(&node, "const twice = n => {", "... ");
    answers(&node, "  return 2 * n", "... ");
    answers(&node, "}", "undefined");
    answers(&node, "twice(21)", "42");
    answers(&node, "null.x", "TypeError");
    let read = at_once(&node, ".exit");
    assert_eq!(read["is_alive"], false, "{read}");
    assert_eq!(node.close()["exit_status"], 0);
}

#[test]
fn what_is_typed_into_sqlite_is_in_its_file() {
    if lacks("sqlite3") {
        return;
    }
    let server = at_home(Owner::new(), &[]);
    let file = server.owner.root().join("fruit.db");
    let sqlite = Terminal::open(&server, "sqlite3 fruit.db");
    sqlite.wait_for("sqlite> $");
    answers(
        &sqlite,
        "create table fruit (name text, count int);",
        "sqlite> ",
    );
    answers(&sqlite, "insert into fruit", "   ...> ");
    answers(&sqlite, "values ('apple', 3), ('pear', 4);", "sqlite> ");
    answers(
        &sqlite,
        "select sum(count) * 6 as total from fruit;",
        "\r42\r\nsqlite> ",
    );
    answers(&sqlite, "select * from nowhere;", "no such table: nowhere");
    // What would be lost has to be confirmed, and what isn't is not typed.
    let gone = sqlite.with_id(json!({"input": "drop table fruit;"}));
    assert_eq!(
        call(&server, "session_send", gone)["requires_confirmation"],
        true
    );
    sqlite.ok("session_send", json!({"input": ".quit"}));
    // By itself, whatever it makes of the errors above.
    assert!(exit_code(&sqlite).is_number());
    let mut reader = Command::new("sqlite3");
    let rows = reader.arg(file).arg("select * from fruit").output();
    let rows = rows.expect("sqlite3 starts").stdout;
    assert_eq!(String::from_utf8_lossy(&rows), "apple|3\npear|4\n");
}

#[test]
fn a_bare_line_of_sqlite_is_read_by_exec() {
    if lacks("sqlite3") {
        return;
    }
    let server = at_home(Owner::new(), &[]);
    let arguments = json!({"exec": "select 6 * 7;", "command": "sqlite3"});
    let ran = crate::common::terminal::ok(&server, "session_exec", arguments);
    assert!(text(&ran).contains("42"), "{ran}");
}
