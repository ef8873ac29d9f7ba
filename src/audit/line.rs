//! An event as a line: JSON in ASCII, since a log is read in terminals and cut into lines by programs that know more line
//! ends than one.

use std::{io, time::SystemTime};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use super::event::Event;
use crate::text::rfc3339;

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    server_pid: u32,
    #[serde(flatten)]
    event: &'a Event<'a>,
}

/// The whole line, its newline included.
pub(super) fn line(time: SystemTime, event: &Event<'_>) -> Vec<u8> {
    let line = Line {
        time: rfc3339(time),
        server_pid: std::process::id(),
        event,
    };
    let mut bytes = Vec::with_capacity(512);
    line.serialize(&mut Serializer::with_formatter(&mut bytes, Ascii))
        .expect("events are plain data, and a vector takes any write");
    bytes.push(b'\n');
    bytes
}

struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let is_plain = |byte: u8| byte.is_ascii() && byte != 0x7f;
        let mut rest = fragment;
        while !rest.is_empty() {
            let plain = rest.bytes().position(|byte| !is_plain(byte));
            let (head, tail) = rest.split_at(plain.unwrap_or(rest.len()));
            to.write_all(head.as_bytes())?;
            let mut chars = tail.chars();
            if let Some(char) = chars.next() {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    write!(to, "\\u{unit:04x}")?;
                }
            }
            rest = chars.as_str();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::audit::{Client, Clip, Names};

    fn parsed(event: &Event<'_>) -> (String, Value) {
        let bytes = line(SystemTime::UNIX_EPOCH, event);
        let text = String::from_utf8(bytes).unwrap();
        let value = serde_json::from_str(&text).unwrap();
        (text, value)
    }

    #[test]
    fn a_line_begins_with_when_who_and_what() {
        let (text, _) = parsed(&Event::Terminate {
            session_id: Some(Clip("5e55")),
            command_id: None,
            client: Some(&Client::new("editor", "1.2")),
            grace_ms: Some(500),
            outcome: "SESSION_NOT_FOUND",
        });
        assert_eq!(
            text,
            format!(
                concat!(
                    r#"{{"time":"1970-01-01T00:00:00.000Z","server_pid":{},"event":"terminate","session_id":"5e55","#,
                    r#""command_id":null,"client":{{"name":"editor","version":"1.2"}},"grace_ms":500,"#,
                    r#""outcome":"SESSION_NOT_FOUND"}}"#,
                    "\n"
                ),
                std::process::id()
            )
        );
    }

    #[test]
    fn what_a_client_chose_is_shortened() {
        let names: Vec<String> = (0..40).map(|n| format!("N{n}")).collect();
        let long = "\u{e9}".repeat(5_000);
        let (_, value) = parsed(&Event::StartRefused {
            command_id: Some(Clip(&long)),
            client: Some(&Client::new(&long, &long)),
            cwd: Some(Clip(&long)),
            env: Names(&names),
            outcome: "ENV_NOT_ALLOWED",
        });
        let chars = |value: &Value| value.as_str().unwrap().chars().count();
        assert_eq!(chars(&value["command_id"]), 129);
        assert_eq!(chars(&value["client"]["name"]), 129);
        assert_eq!(chars(&value["client"]["version"]), 129);
        assert_eq!(chars(&value["cwd"]), 4_097);
        let env = value["env"].as_array().unwrap();
        assert_eq!(
            (env.len(), &env[31], &env[32]),
            (33, &json!("N31"), &json!("…"))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_one_line_of_printable_ascii_and_comes_back(
            text in prop_oneof![
                "\\PC{0,60}",
                "[\\x00-\\x1f\"\\\\\u{7f}\u{80}\u{85}\u{9b}\u{2028}\u{202e}\u{fffd}a\u{1f600}\u{10ffff}]{0,60}",
            ],
        ) {
            let names = vec![text.clone()];
            let (spelled, value) = parsed(&Event::StartRefused {
                command_id: Some(Clip(&text)),
                client: Some(&Client::new(&text, "")),
                cwd: Some(Clip(&text)),
                env: Names(&names),
                outcome: "CWD_NOT_ALLOWED",
            });
            let (body, end) = spelled.split_at(spelled.len() - 1);
            prop_assert_eq!(end, "\n");
            prop_assert!(body.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", body);
            for field in [&value["command_id"], &value["cwd"], &value["env"][0], &value["client"]["name"]] {
                prop_assert_eq!(field.as_str(), Some(text.as_str()));
            }
        }
    }
}
