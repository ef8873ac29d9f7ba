//! Bytes become text: an incremental decoder per stream, whatever the chunks, and nothing else changed.

use crate::common::{Owner, Server};
use serde_json::json;

/// Byte sequences and the text that CPython's incremental UTF-8 decoder with `errors="replace"` gives for them.
const DECODED: &[(&[u8], &str)] = &[
    (b"", ""),
    (b"plain", "plain"),
    (
        b"a\x00b\x01\x7f\x1b[0m\r\n",
        "a\u{0}b\u{1}\u{7f}\u{1b}[0m\r\n",
    ),
    (
        "\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}".as_bytes(),
        "\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}",
    ),
    (b"\xef\xbb\xbfx", "\u{feff}x"),
    (b"\xff", "\u{fffd}"),
    (b"\x80\xbf", "\u{fffd}\u{fffd}"),
    (b"a\xc3(", "a\u{fffd}("),
    (b"\xc0\xaf", "\u{fffd}\u{fffd}"),
    (b"\xe0\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
    (b"\xe2\x82", "\u{fffd}"),
    (b"\xe2\x82A", "\u{fffd}A"),
    (b"\xe2(\xa1", "\u{fffd}(\u{fffd}"),
    (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
    (b"\xed\x9f\xbf", "\u{d7ff}"),
    (b"\xf0\x9f\x98", "\u{fffd}"),
    (b"\xf0\x9f\x98\xf0\x9f\x98\x80", "\u{fffd}\u{1f600}"),
    (b"\xf0\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
    (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
    (b"\xf5\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
    (b"\xe2\x82\xe2\x82\xac", "\u{fffd}\u{20ac}"),
    (b"\xc3\xc3\xa9", "\u{fffd}\u{e9}"),
    (b"ok\xe2\x82", "ok\u{fffd}"),
    (b"ok\xf0", "ok\u{fffd}"),
];

/// A shell command that writes these bytes with one write(2).
fn printf(bytes: &[u8]) -> String {
    let octal: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
    format!("printf '{octal}'")
}

fn printed(server: &Server, id: &str) -> String {
    let output = server.start(id).read_all();
    assert!(output.complete, "{id}");
    assert_eq!(
        output.next_cursor,
        (output.stdout.chars().count() + output.stderr.chars().count()) as u64
    );
    output.stdout
}

#[test]
fn invalid_bytes_are_replaced_by_the_rule() {
    let mut owner = Owner::new();
    for (number, (bytes, _)) in DECODED.iter().enumerate() {
        owner = owner.bytes(&format!("case{number}"), bytes);
    }
    let server = owner.serve();
    for (number, (bytes, text)) in DECODED.iter().enumerate() {
        assert_eq!(
            printed(&server, &format!("case{number}")),
            *text,
            "{bytes:x?}"
        );
    }
    server.finish();
}

#[test]
fn single_byte_writes_decode_like_one_write() {
    let mut owner = Owner::new();
    for (number, (bytes, _)) in DECODED.iter().enumerate() {
        let writes: Vec<String> = bytes.iter().map(|&byte| printf(&[byte])).collect();
        owner = owner.sh(&format!("case{number}"), &writes.join("; "));
    }
    let server = owner.serve();
    for (number, (bytes, text)) in DECODED.iter().enumerate() {
        assert_eq!(
            printed(&server, &format!("case{number}")),
            *text,
            "{bytes:x?}"
        );
    }
    server.finish();
}

#[test]
fn a_character_appears_only_when_its_last_byte_came() {
    // Each byte is written when the test says so; a dot on stderr tells that it was.
    let bytes: &[u8] = "\u{2264}\n".as_bytes();
    let steps: Vec<String> = bytes
        .iter()
        .map(|&byte| format!("read go; {}; printf . >&2", printf(&[byte])))
        .collect();
    let server = Owner::job(&format!("{}; read go", steps.join("; "))).serve();
    let session = server.start("job");
    let mut cursor = 0;
    let mut seen = String::new();
    let mut dots = 0;
    for wanted_dots in 1..=bytes.len() {
        session.write("\n");
        while dots < wanted_dots {
            let page = session.read(json!({"cursor": cursor, "wait_ms": 2000}));
            cursor = page["next_cursor"].as_u64().expect("next_cursor");
            seen.push_str(&crate::common::session::stream_text(&page, "stdout"));
            dots += crate::common::session::stream_text(&page, "stderr").len();
        }
        assert!(
            wanted_dots > 2 || seen.is_empty(),
            "{seen:?} after {wanted_dots} of 3 bytes"
        );
    }
    session.close_stdin();
    let output = session.read_all();
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("\u{2264}\n", "....")
    );
    assert_eq!(output.next_cursor, 6);
    server.finish();
}

#[test]
fn each_stream_has_its_own_decoder() {
    // The other stream's character arrives between two bytes of this one's.
    let script = format!(
        "{}; read go; printf X >&2; read go; {}",
        printf(b"\xe2"),
        printf(b"\x89\xa4")
    );
    let server = Owner::job(&script).serve();
    let session = server.start("job");
    session.write("\n");
    crate::common::wait_until("X came", || session.status()["next_cursor"] == 1);
    session.write("\n");
    let output = session.read_all();
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("\u{2264}", "X")
    );
    assert_eq!(output.next_cursor, 2);
    server.finish();
}

#[test]
fn a_character_across_a_read_buffers_edge_stays_whole() {
    let mut owner = Owner::new().buffer(1 << 20);
    let prefixes = [
        4095, 8191, 16383, 32767, 65533, 65534, 65535, 131_071, 262_143,
    ];
    for prefix in prefixes {
        let text = format!("{}\u{20ac}\u{1f600}\u{e9}", "a".repeat(prefix));
        owner = owner.bytes(&format!("p{prefix}"), text.as_bytes());
    }
    let server = owner.serve();
    for prefix in prefixes {
        let text = printed(&server, &format!("p{prefix}"));
        assert_eq!(text.len(), prefix + 9);
        assert!(
            text.ends_with("a\u{20ac}\u{1f600}\u{e9}"),
            "prefix {prefix}"
        );
    }
    server.finish();
}

#[test]
fn dense_garbage_decodes_like_the_reference() {
    // A fixed linear congruential sequence: no byte class is missing and no run is long.
    let mut state: u32 = 12345;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(200_000)
    .collect();
    let server = Owner::new()
        .buffer(2 << 20)
        .bytes("garbage", &bytes)
        .serve();
    let text = printed(&server, "garbage");
    // The standard library replaces each maximal part of an ill-formed sequence, which is CPython's rule as well.
    assert!(
        text == String::from_utf8_lossy(&bytes),
        "the decoded text differs"
    );
    server.finish();
}

#[test]
fn escape_sequences_carriage_returns_and_crlf_are_kept() {
    let script = "printf '\\033[31mred\\033[0m'; i=0; while [ $i -lt 100 ]; do printf '\\r%3d%%' $i; i=$((i+1)); done; \
                  printf 'a\\r\\nb'";
    let server = Owner::job(script).serve();
    let text = printed(&server, "job");
    assert!(
        text.starts_with("\u{1b}[31mred\u{1b}[0m\r  0%\r  1%"),
        "{text:?}"
    );
    assert!(text.ends_with("\r 99%a\r\nb"), "{text:?}");
    assert_eq!(text.chars().count(), 12 + 500 + 4);
    server.finish();
}

#[test]
fn output_that_looks_like_protocol_stays_output() {
    let line = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let server = Owner::new()
        .argv("job", &["/usr/bin/printf", "%s\n", line])
        .serve();
    let session = server.start("job");
    assert_eq!(session.read_all().stdout, format!("{line}\n"));
    server.ping();
    assert_eq!(
        server.answers_left(&json!(1)),
        0,
        "the client's own id 1 was answered once"
    );
    server.finish();
}
