//! Reading what came since the last read.

use serde_json::json;

use super::{keys, text};
use crate::common::{Owner, Terminal, proc, terminal::free, wait_until};

#[test]
fn read_returns_what_came_since_the_last_read() {
    let server = free(&[]);
    let terminal = Terminal::shell(&server);
    terminal.ok("session_send", json!({"input": "echo first"}));
    let read = terminal.ok("session_read", json!({}));
    assert_eq!(
        keys(&read),
        [
            "bytes_read",
            "is_alive",
            "mode_used",
            "output",
            "prompt_detected",
            "snapshot_available",
            "success",
            "truncated",
            "tui_active"
        ]
    );
    // The carriage return is what bash ends a bracketed paste with.
    assert_eq!(text(&read), "echo first\r\n\rfirst\r\n$ ");
    assert_eq!(read["prompt_detected"], true);
    assert_eq!(read["is_alive"], true);
    assert_eq!(
        (&read["truncated"], &read["tui_active"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(read["mode_used"], "stream");
    // What bash's bracketed paste costs is counted, too.
    assert!(
        read["bytes_read"].as_u64() >= Some(text(&read).len() as u64),
        "{read}"
    );
    let nothing = terminal.ok("session_read", json!({"timeout": 0}));
    assert_eq!((text(&nothing), &nothing["bytes_read"]), ("", &json!(0)));
    let read = terminal.interact("exit 3");
    assert_eq!(read["is_alive"], false, "{read}");
    let closed = terminal.close();
    assert_eq!(
        (&closed["exit_status"], closed.get("exit_signal")),
        (&json!(3), None)
    );
}

#[test]
fn what_was_printed_before_the_first_read_is_kept() {
    let server = free(&[]);
    let terminal = Terminal::open(&server, "seq 1 3");
    wait_until("it has ended", || !proc::is_alive(terminal.pid()));
    let read = terminal.ok("session_read", json!({}));
    assert_eq!(
        (text(&read), &read["is_alive"]),
        ("1\r\n2\r\n3\r\n", &json!(false))
    );
}

#[test]
fn escape_sequences_are_removed_unless_they_are_wanted() {
    let server = free(&[]);
    let print = |strip: bool| {
        let terminal = Terminal::open(
            &server,
            r"printf '\033[1;31mred\033[0m\033]0;title\007\033(B\033[?25l\033[3~.'",
        );
        let read = terminal.ok("session_read", json!({"strip_ansi": strip, "timeout": 20}));
        assert_eq!(read["bytes_read"], 38, "{read}");
        text(&read).to_owned()
    };
    assert_eq!(print(true), "red.");
    assert_eq!(
        print(false),
        "\u{1b}[1;31mred\u{1b}[0m\u{1b}]0;title\u{7}\u{1b}(B\u{1b}[?25l\u{1b}[3~."
    );
}

#[test]
fn a_sequence_that_two_reads_tear_apart_is_removed_all_the_same() {
    let server = free(&[]);
    let command = r#"bash --norc -c "stty -echo; printf 'a\033[3'; read; printf '1mb'; exec cat""#;
    let terminal = Terminal::open(&server, command);
    let mut all = String::new();
    wait_until("the first half is read", || {
        let read = terminal.ok("session_read", json!({"timeout": 0.1}));
        all.push_str(text(&read));
        read["bytes_read"] == 4
    });
    terminal.ok("session_send", json!({}));
    wait_until("the second half is read", || {
        let read = terminal.ok("session_read", json!({"timeout": 0.1}));
        all.push_str(text(&read));
        read["bytes_read"] == 3
    });
    assert_eq!(all, "ab");
}

#[test]
fn results_come_in_the_layout_that_the_owner_chose() {
    for layout in ["both", "structured", "text"] {
        let owner = Owner::new()
            .argv("cat", &["/bin/cat"])
            .set("toolsets", json!(["session"]))
            .set("results", layout);
        let server = owner.serve();
        let tools = server.request("tools/list", json!({})).result();
        assert_eq!(
            tools["tools"][0].get("outputSchema").is_some(),
            layout != "text"
        );
        let result = server
            .send("session_create", json!({"command": "cat"}))
            .result();
        assert_eq!(
            result.get("structuredContent").is_some(),
            layout != "text",
            "{result}"
        );
        let text = result["content"][0]["text"].as_str().expect("text");
        assert_eq!(text.starts_with('{'), layout != "structured", "{text}");
        let failed = server
            .send("session_read", json!({"session_id": "x"}))
            .result();
        assert_eq!(failed["isError"], true);
    }
}
