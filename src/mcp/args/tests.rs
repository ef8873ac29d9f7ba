use super::*;

const SESSION: &str = r#""session_id":"s""#;

fn refusal<T: DeserializeOwned + std::fmt::Debug>(raw: &str) -> String {
    read::<T>(Some(raw)).expect_err(raw).0
}

#[test]
fn integers_are_strict_and_bounded() {
    let bad = [
        "true",
        "\"5\"",
        "1.0",
        "5e2",
        "null",
        "-1",
        "1e400",
        "-0",
        "500.5",
        "[1]",
        "{}",
        "18446744073709551616",
    ];
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "cursor",
            &["0", "9223372036854775807"],
            &["9223372036854775808"],
        ),
        ("max_bytes", &["4", "65536"], &["3", "65537", "0"]),
        ("wait_ms", &["0", "55000"], &["55001"]),
    ];
    for (argument, good, out_of_range) in cases {
        for value in *good {
            let raw = format!(r#"{{{SESSION},"{argument}":{value}}}"#);
            read::<Read>(Some(&raw)).unwrap();
        }
        for value in bad.iter().chain(*out_of_range) {
            let message = refusal::<Read>(&format!(r#"{{{SESSION},"{argument}":{value}}}"#));
            assert!(message.contains(&format!("`{argument}`")), "{message}");
        }
    }
    for value in bad.iter().chain(&["2001"]) {
        let message = refusal::<Terminate>(&format!(r#"{{{SESSION},"grace_ms":{value}}}"#));
        assert!(message.contains("`grace_ms`"), "{message}");
    }
    for value in bad.iter().chain(&["0", "99", "3600001"]) {
        let message = refusal::<Start>(&format!(r#"{{"command_id":"c","timeout_ms":{value}}}"#));
        assert!(message.contains("`timeout_ms`"), "{message}");
    }
    for value in ["100", "3600000"] {
        let raw = format!(r#"{{"command_id":"c","timeout_ms":{value}}}"#);
        read::<Start>(Some(&raw)).unwrap();
    }
}

#[test]
fn messages_say_what_was_expected() {
    let cases = [
        (
            refusal::<Read>(r#"{"session_id":"s","wait_ms":55001}"#),
            "argument `wait_ms`: invalid value: integer `55001`, expected an integer from 0 to 55000",
        ),
        (
            refusal::<Read>(r#"{"session_id":"s","wait_ms":true}"#),
            "argument `wait_ms`: invalid type: boolean `true`, expected an integer from 0 to 55000",
        ),
        (
            refusal::<Read>(r#"{"session_id":"s","cursor":1e400}"#),
            "argument `cursor`: number out of range",
        ),
        (refusal::<Read>("{}"), "missing argument `session_id`"),
        (
            refusal::<Status>(r#"{"session_id":"s","argv":[]}"#),
            "unknown argument `argv`, expected `session_id`",
        ),
        (
            refusal::<Status>(r#"{"session_id":"s","session_id":"t"}"#),
            "duplicate argument `session_id`",
        ),
        (
            refusal::<Status>(r#"{"session_id":7}"#),
            "argument `session_id`: invalid type: integer `7`, expected a string",
        ),
        (
            refusal::<Start>(r#"{"command_id":"c","env":{"A":1}}"#),
            "argument `env.A`: invalid type: integer `1`, expected a string",
        ),
        (
            refusal::<Start>(r#"{"command_id":"c","env":["A"]}"#),
            "argument `env`: invalid type: sequence, expected an object of strings",
        ),
        (
            refusal::<Start>(r#"{"command_id":""}"#),
            "argument `command_id`: invalid length 0, expected 1 to 128 characters",
        ),
        (
            refusal::<Read>(r#"{"session_id":"s","records":"lines"}"#),
            "argument `records`: unknown variant `lines`, expected `runs` or `code_points`",
        ),
        (
            refusal::<Read>(r#"{"session_id":"s","records":null}"#),
            "argument `records`: invalid type: null, expected `runs` or `code_points`",
        ),
        (
            refusal::<Read>(r#"{"session_id":"s","view":"html"}"#),
            "argument `view`: unknown variant `html`, expected `raw` or `plain`",
        ),
        (refusal::<Status>("[]"), "arguments must be an object"),
        (refusal::<Status>("7"), "arguments must be an object"),
    ];
    for (message, expected) in cases {
        assert_eq!(message, expected);
    }
}

#[test]
fn strings_flags_and_lengths_are_strict() {
    for value in ["1", "\"true\"", "null"] {
        let message = refusal::<Write>(&format!(
            r#"{{{SESSION},"text":"x","close_stdin":{value}}}"#
        ));
        assert!(message.contains("`close_stdin`"), "{message}");
    }
    for value in ["1", "null", "[]", r#""\ud800""#] {
        let message = refusal::<Write>(&format!(r#"{{{SESSION},"text":{value}}}"#));
        assert!(message.contains("`text`"), "{message}");
    }
    for value in ["1", "null"] {
        let message = refusal::<Start>(&format!(r#"{{"command_id":"c","cwd":{value}}}"#));
        assert!(message.contains("`cwd`"), "{message}");
    }
    assert!(refusal::<Start>(r#"{"command_id":"c","env":null}"#).contains("`env`"));
    assert!(refusal::<Start>(r#"{"command_id":"c","env":{"A":"1","A":"2"}}"#).contains("twice"));
    let id = |length: usize| format!(r#"{{"command_id":"{}"}}"#, "\u{e9}".repeat(length));
    read::<Start>(Some(&id(128))).unwrap();
    assert!(refusal::<Start>(&id(129)).contains("`command_id`"));
}

#[test]
fn absent_arguments_are_an_empty_object_and_defaults_hold() {
    assert_eq!(
        read::<Terminate>(None).unwrap_err(),
        read::<Terminate>(Some("{}")).unwrap_err()
    );
    assert_eq!(read::<Status>(None).unwrap().session_id, None);
    let read_arguments = read::<Read>(Some(r#"{"session_id":"s"}"#)).unwrap();
    assert_eq!(read_arguments.place(), Place::Cursor(0));
    assert!(read_arguments.until.is_none());
    assert_eq!(read_arguments.max_bytes.0, 65_536);
    assert_eq!(read_arguments.wait_ms.0, 0);
    assert_eq!(read_arguments.records, Records::Runs);
    let terminate = read::<Terminate>(Some(r#"{"session_id":"s"}"#)).unwrap();
    assert_eq!(terminate.grace_ms.0, 500);
}

#[test]
fn arguments_that_contradict_each_other_are_refused() {
    let raw = r#"{"session_id":"s","view":"plain","records":"code_points"}"#;
    let message = read::<Read>(Some(raw)).unwrap().check().unwrap_err().0;
    assert!(
        message.contains("`records`") && message.contains("`view`"),
        "{message}"
    );
    let raw = r#"{"session_id":"s","view":"plain","records":"runs"}"#;
    assert!(read::<Read>(Some(raw)).unwrap().check().is_ok());
}

#[test]
fn env_keeps_the_order_of_the_client() {
    let start: Start = read(Some(r#"{"command_id":"c","env":{"Z":"1","A":"2","M":""}}"#)).unwrap();
    let names: Vec<_> = start.env.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Z", "A", "M"]);
}

#[test]
fn the_owner_bounds_the_timeout_further() {
    let start: Start = read(Some(r#"{"command_id":"c","timeout_ms":5000}"#)).unwrap();
    assert_eq!(start.timeout(5_000), Ok(Some(Duration::from_secs(5))));
    assert!(start.timeout(4_999).unwrap_err().0.contains("`timeout_ms`"));
}

#[test]
fn a_message_stays_one_short_line_whatever_the_client_sent() {
    let raw = format!(r#"{{"session_id":"s","a\nb{}":1}}"#, "x".repeat(10_000));
    let message = refusal::<Status>(&raw);
    assert!(!message.contains('\n'));
    assert!(message.chars().count() <= MAX_MESSAGE_CHARS + 1);
}
