use std::fmt::Debug;

use serde::de::DeserializeOwned;

use super::*;
use crate::mcp::args::read;

const SESSION: &str = r#""session_id":"s""#;

fn refusal<T: DeserializeOwned + Debug>(raw: &str) -> String {
    read::<T>(Some(raw)).expect_err(raw).0
}

fn sent(arguments: &str) -> Result<SendRequest, BadArgument> {
    read::<Send>(Some(&format!("{{{SESSION}{arguments}}}")))?.request(None)
}

#[test]
fn seconds_may_have_a_fraction_and_are_bounded() {
    let timeout = |value: &str| {
        read::<Read>(Some(&format!(r#"{{{SESSION},"timeout":{value}}}"#)))
            .map(|read| ReadRequest::from(read).timeout)
    };
    for (value, ms) in [
        ("0", 0),
        ("2", 2_000),
        ("0.25", 250),
        ("2.0", 2_000),
        ("3600", 3_600_000),
        ("1e1", 10_000),
    ] {
        assert_eq!(
            timeout(value),
            Ok(Some(Duration::from_millis(ms))),
            "{value}"
        );
    }
    for value in [
        "-1", "-0.1", "3600.5", "3601", "1e400", "\"2\"", "true", "null", "[2]",
    ] {
        let message = timeout(value).expect_err(value).0;
        assert!(message.contains("`timeout`"), "{message}");
    }
    let message = refusal::<Read>(&format!(r#"{{{SESSION},"timeout":-0.5}}"#));
    assert_eq!(
        message,
        "argument `timeout`: invalid value: floating point `-0.5`, expected a number of seconds from 0 to 3600"
    );
}

#[test]
fn one_thing_is_typed_at_a_time() {
    let text = |text: &str, press_enter| Input::Text {
        text: text.to_owned(),
        press_enter,
    };
    let typed = |arguments: &str| sent(arguments).map(|request| request.input);
    assert_eq!(typed(r#","input":"ls""#), Ok(text("ls", true)));
    assert_eq!(
        typed(r#","input":"y","press_enter":false"#),
        Ok(text("y", false))
    );
    assert_eq!(typed(""), Ok(text("", true)), "Enter alone");
    assert_eq!(typed(r#","control_char":"c""#), Ok(Input::Control('c')));
    assert_eq!(typed(r#","control_char":"]""#), Ok(Input::Control(']')));
    assert_eq!(typed(r#","key":"page-up""#), Ok(Input::Key(Key::PageUp)));
    assert_eq!(
        typed(r#","password":"p""#),
        Ok(Input::Password(crate::interactive::Secret::new(
            "p".to_owned()
        )))
    );
    let all = [
        r#""input":"a""#,
        r#""control_char":"c""#,
        r#""key":"up""#,
        r#""password":"p""#,
    ];
    for (place, one) in all.iter().enumerate() {
        for other in &all[place + 1..] {
            let BadArgument(message) = typed(&format!(",{one},{other}")).unwrap_err();
            assert!(message.starts_with("Only one of"), "{message}");
        }
    }
}

#[test]
fn words_are_those_that_the_refusal_lists() {
    for char in ["a", "z", "Z", "[", "\\\\", "]", "^", "_", "@"] {
        assert!(
            sent(&format!(r#","control_char":"{char}""#)).is_ok(),
            "{char}"
        );
    }
    for char in ["", "cc", "1", " ", "é", "?"] {
        let BadArgument(message) = sent(&format!(r#","control_char":"{char}""#)).unwrap_err();
        assert!(
            message.contains("`control_char`") && message.contains("a-z"),
            "{message}"
        );
    }
    let BadArgument(message) = sent(r#","key":"return""#).unwrap_err();
    assert!(
        message.contains("one of up, down") && message.contains("f12"),
        "{message}"
    );
    let message = refusal::<Read>(&format!(r#"{{{SESSION},"mode":"screen"}}"#));
    assert_eq!(
        message,
        "argument `mode`: invalid value: string \"screen\", expected one of auto, stream, snapshot, diff"
    );
    let message = refusal::<Read>(&format!(r#"{{{SESSION},"truncation":"head"}}"#));
    assert!(
        message.ends_with("one of tail, head_tail, tail_only, none"),
        "{message}"
    );
}

#[test]
fn no_refusal_quotes_a_password() {
    for value in [
        "80808080",
        "-80808080",
        "8080.8080",
        "true",
        "null",
        r#"["hunter2"]"#,
        r#"{"hunter2":"hunter2"}"#,
    ] {
        let BadArgument(message) = sent(&format!(r#","password":{value}"#)).unwrap_err();
        assert!(message.contains("`password`"), "{message}");
        for secret in ["8080", "hunter2"] {
            assert!(!message.contains(secret), "{message}");
        }
    }
    let twice = sent(r#","password":"hunter2","password":"hunter3""#).unwrap_err();
    assert_eq!(twice.0, "duplicate argument `password`");
    let both = sent(r#","password":"hunter2","input":"x""#).unwrap_err();
    assert!(!both.0.contains("hunter2"), "{both:?}");
    let request = sent(r#","password":"hunter2""#).unwrap();
    assert!(!format!("{request:?}").contains("hunter2"));
}

#[test]
fn what_a_call_leaves_out_is_at_its_default() {
    let create: Create = read(Some(r#"{"command":"bash"}"#)).unwrap();
    let request = create.request(None);
    assert_eq!(request.scrollback_lines, 1_000);
    assert_eq!(
        (request.rows, request.cols, request.idle_timeout),
        (None, None, None)
    );
    let request = ReadRequest::from(read::<Read>(Some(&format!("{{{SESSION}}}"))).unwrap());
    assert_eq!((request.mode, request.strip_ansi), (ReadMode::Auto, true));
    let interact: Interact = read(Some(&format!("{{{SESSION}}}"))).unwrap();
    let request = interact.request(None).unwrap();
    assert!(request.strip_ansi && !request.send.confirmed && request.read_mode.is_none());
}

#[test]
fn what_is_unknown_missing_or_out_of_range_is_refused_by_name() {
    let cases = [
        (refusal::<Create>("{}"), "missing argument `command`"),
        (
            refusal::<Create>(r#"{"command":""}"#),
            "argument `command`: invalid length 0, expected at least 1 characters",
        ),
        (
            refusal::<Create>(r#"{"command":"sh","rows":0}"#),
            "argument `rows`: invalid value: integer `0`, expected an integer from 1 to 500",
        ),
        (
            refusal::<Resize>(&format!(r#"{{{SESSION},"rows":24,"cols":80.0}}"#)),
            "argument `cols`: invalid type: floating point `80.0`, expected an integer from 1 to 500",
        ),
        (
            refusal::<Close>(&format!(r#"{{{SESSION},"force":true}}"#)),
            "unknown argument `force`, expected `session_id`",
        ),
        (
            refusal::<List>(r#"{"all":true}"#),
            "unknown argument `all`, there are no fields",
        ),
        (
            refusal::<WaitFor>(&format!(r#"{{{SESSION},"pattern":""}}"#)),
            "argument `pattern`: invalid length 0, expected at least 1 characters",
        ),
        (
            refusal::<Exec>(r#"{"command":"bash"}"#),
            "missing argument `exec`",
        ),
    ];
    for (message, expected) in cases {
        assert_eq!(message, expected);
    }
}
