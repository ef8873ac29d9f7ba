//! The plain view: what a terminal would show, with cursors that stay positions in the raw text.

use serde_json::{Value, json};

use crate::common::{Owner, session::stream_text, wait_until};

fn records(page: &Value) -> Vec<(u64, String, String)> {
    let records = page["records"].as_array().expect("records");
    let of = |record: &Value| {
        let word = |member: &str| record[member].as_str().expect("a string").to_owned();
        (
            record["cursor"].as_u64().expect("a cursor"),
            word("stream"),
            word("text"),
        )
    };
    records.iter().map(of).collect()
}

#[test]
fn five_thousand_redraws_come_back_as_one_line() {
    let script = "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); printf '\\r\\033[2K\\033[32m%d/5000\\033[0m done' $i; done; \
                  echo; echo ready";
    let server = Owner::job(script).buffer(1 << 20).serve();
    let session = server.start("job");
    let end = session.wait_settled();
    let page = session.read(json!({"view": "plain"}));
    let line = (0, "stdout".to_owned(), "5000/5000 done\n".to_owned());
    let records = records(&page);
    assert_eq!(records.len(), 2, "{page}");
    assert_eq!(records[0], line);
    assert_eq!(records[1].2, "ready\n");
    assert_eq!(page["next_cursor"], end["next_cursor"]);
    assert_eq!(page["has_more"], false);
    assert_eq!(page["output_complete"], true);
    server.finish();
}

#[test]
fn an_unfinished_line_is_shown_and_comes_whole_once_it_is_finished() {
    let script =
        "printf 'one\\n10%%'; read x; printf '\\r50%%'; read x; printf '\\r100%%\\ntwo\\n'; read x";
    let server = Owner::job(script).serve();
    let session = server.start("job");
    let mut page = Value::Null;
    let mut follow = |cursor: u64, wanted: &str| {
        wait_until(wanted, || {
            // From the same cursor: how the text came in reads isn't ours to say.
            page = session.read(json!({"view": "plain", "cursor": cursor, "wait_ms": 1000}));
            stream_text(&page, "stdout") == wanted
        });
        (
            records(&page),
            page["next_cursor"].as_u64().expect("a cursor"),
        )
    };
    let (_, next) = follow(0, "one\n10%");
    assert_eq!(next, 7);
    session.write("\n");
    let (shown, next) = follow(next, "50%");
    assert_eq!((shown[0].0, next), (4, 11));
    session.write("\n");
    let (shown, next) = follow(next, "100%\ntwo\n");
    assert_eq!((shown[0].0, shown[0].2.as_str()), (4, "100%\n"));
    assert_eq!((shown[1].0, next), (17, 21));
    // Nothing is told twice.
    let again = session.read(json!({"view": "plain", "cursor": next}));
    assert_eq!(again["records"], json!([]));
    session.terminate(0);
    server.finish();
}

#[test]
fn pages_of_any_size_give_each_line_once() {
    let script = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); \
                  printf '\\033[1mout %d\\033[0m\\r\\n' $i; printf 'err %d' $i >&2; echo >&2; done";
    let server = Owner::job(script).serve();
    let session = server.start("job");
    session.wait_settled();
    for max_bytes in [16, 61, 4096, 65536] {
        let (mut cursor, mut out, mut err) = (0, String::new(), String::new());
        loop {
            let page =
                session.read(json!({"view": "plain", "cursor": cursor, "max_bytes": max_bytes}));
            let next = page["next_cursor"].as_u64().expect("a cursor");
            out.push_str(&stream_text(&page, "stdout"));
            err.push_str(&stream_text(&page, "stderr"));
            if page["has_more"] == false {
                break;
            }
            assert!(next > cursor, "{page}");
            cursor = next;
        }
        let lines = |stream: &str| {
            (1..=300)
                .map(|n| format!("{stream} {n}\n"))
                .collect::<String>()
        };
        assert_eq!(out, lines("out"), "max_bytes {max_bytes}");
        assert_eq!(err, lines("err"), "max_bytes {max_bytes}");
    }
    server.finish();
}

#[test]
fn a_line_longer_than_the_page_is_cut_and_marked() {
    let server = Owner::job("head -c 100000 /dev/zero | tr '\\0' x; echo; echo end")
        .buffer(1 << 20)
        .serve();
    let session = server.start("job");
    session.wait_settled();
    let page = session.read(json!({"view": "plain", "max_bytes": 1000}));
    assert_eq!(stream_text(&page, "stdout").len(), 1000);
    assert_eq!(page["records"][0]["cut"], true);
    assert_eq!(page["next_cursor"], 100_001);
    let page = session.read(json!({"view": "plain", "cursor": 100_001}));
    assert_eq!(
        page["records"],
        json!([{"cursor": 100_001, "stream": "stdout", "text": "end\n"}])
    );
    server.finish();
}

#[test]
fn its_cursors_expire_as_raw_ones_do() {
    let server = Owner::job("seq 1 1000; printf tail").buffer(1000).serve();
    let session = server.start("job");
    let end = session.wait_settled();
    let refusal = session
        .server
        .refused("terminal_read", session.with_id(json!({"view": "plain"})));
    assert_eq!(refusal["code"], "CURSOR_EXPIRED");
    assert_eq!(refusal["base_cursor"], end["base_cursor"]);
    let page = session.read(json!({"view": "plain", "cursor": end["base_cursor"]}));
    assert!(
        stream_text(&page, "stdout").ends_with("\n1000\ntail"),
        "{page}"
    );
    let beyond = end["next_cursor"].as_u64().expect("a cursor") + 1;
    let refusal = session.server.refused(
        "terminal_read",
        session.with_id(json!({"view": "plain", "cursor": beyond})),
    );
    assert_eq!(refusal["code"], "INVALID_CURSOR");
    let both = json!({"view": "plain", "records": "code_points"});
    let refusal = session
        .server
        .refused("terminal_read", session.with_id(both));
    assert_eq!(refusal["code"], "INVALID_ARGUMENT");
    server.finish();
}
