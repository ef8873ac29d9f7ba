//! The id of a frame that is not parsed, because it is too long or no JSON.
//!
//! A scanner for one JSON object, fed in pieces of any size, in constant memory. It finds the member `id` of the outermost
//! object wherever it stands; ids in nested values and in strings are not its own. What decides odd cases:
//! - Of repeated ids the last one counts, as in the JSON parsers of JavaScript and Python, which wrote the frame.
//! - Only a string or an integer is an id, and at most [`MAX_ID_BYTES`] of raw text. Anything else counts as none.
//! - A frame with a member `result` or `error` is a reply. Its id names a request of ours, and a reply is never answered.
//! - Where the text stops being JSON the scan stops; what was complete before counts.

use rmcp::model::RequestId;

/// Raw bytes, quotes and escapes included, of the longest id.
const MAX_ID_BYTES: usize = 1_024;
/// `"result"` with each letter written as a `\u` escape, and its quotes.
const MAX_KEY_BYTES: usize = 6 * 6 + 2;

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// Before the outermost brace.
    #[default]
    Start,
    /// Where a key or the end of the object is due.
    Key,
    /// Inside a key.
    InKey { escaped: bool },
    /// Between a key and its colon.
    Colon,
    /// Before a value.
    Value,
    /// Inside a value that is a string.
    InString { escaped: bool },
    /// Inside a number or a word.
    InScalar,
    /// Inside an object or an array, `depth` levels below the outermost.
    Nested { depth: u64 },
    /// Inside a string there.
    NestedString { depth: u64, escaped: bool },
    /// After a value.
    Comma,
    /// Past the object, or where it stopped being JSON.
    Done,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct IdScan {
    at: At,
    /// The key or value being captured, raw.
    captured: Vec<u8>,
    /// Whether the value at hand is that of `id`.
    is_id: bool,
    id: Option<RequestId>,
    is_reply: bool,
}

impl IdScan {
    /// The id of a whole frame.
    pub(super) fn of(frame: &[u8]) -> Option<RequestId> {
        let mut scan = Self::default();
        scan.feed(frame);
        scan.id()
    }

    /// What was found so far.
    pub(super) fn id(self) -> Option<RequestId> {
        if self.is_reply { None } else { self.id }
    }

    /// Reads on.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            // The long stretches of a frame are strings; only two bytes matter there.
            if let At::InString { escaped: false } | At::NestedString { escaped: false, .. } =
                self.at
            {
                let length = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                if length > 0 {
                    self.capture_value(&rest[..length]);
                    rest = &rest[length..];
                    continue;
                }
            }
            self.step(byte);
            rest = after;
            if self.at == At::Done {
                return;
            }
        }
    }

    fn step(&mut self, byte: u8) {
        let space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.at = match self.at {
            At::Start => match byte {
                b'{' => At::Key,
                // A byte order mark, whose bytes stand nowhere else before a brace.
                0xEF | 0xBB | 0xBF => At::Start,
                _ if space => At::Start,
                _ => At::Done,
            },
            At::Key => match byte {
                b'"' => {
                    self.captured.clear();
                    self.captured.push(byte);
                    At::InKey { escaped: false }
                }
                _ if space => At::Key,
                _ => At::Done,
            },
            At::InKey { escaped } => {
                // One byte over the bound is kept, and tells a key that is too long from one that just fits.
                if self.captured.len() <= MAX_KEY_BYTES {
                    self.captured.push(byte);
                }
                match byte {
                    b'"' if !escaped => {
                        self.end_key();
                        At::Colon
                    }
                    b'\\' => At::InKey { escaped: !escaped },
                    _ => At::InKey { escaped: false },
                }
            }
            At::Colon => match byte {
                b':' => At::Value,
                _ if space => At::Colon,
                _ => At::Done,
            },
            At::Value => {
                self.captured.clear();
                match byte {
                    _ if space => At::Value,
                    b'{' | b'[' => At::Nested { depth: 1 },
                    b'}' | b']' | b',' | b':' => At::Done,
                    b'"' => {
                        self.capture_value(&[byte]);
                        At::InString { escaped: false }
                    }
                    _ => {
                        self.capture_value(&[byte]);
                        At::InScalar
                    }
                }
            }
            At::InString { escaped } => {
                self.capture_value(&[byte]);
                match byte {
                    b'"' if !escaped => {
                        self.end_value();
                        At::Comma
                    }
                    b'\\' => At::InString { escaped: !escaped },
                    _ => At::InString { escaped: false },
                }
            }
            At::InScalar => match byte {
                b',' | b'}' => {
                    self.end_value();
                    after_value(byte)
                }
                _ if space => {
                    self.end_value();
                    At::Comma
                }
                _ => {
                    self.capture_value(&[byte]);
                    At::InScalar
                }
            },
            At::Nested { depth } => match byte {
                b'"' => At::NestedString {
                    depth,
                    escaped: false,
                },
                b'{' | b'[' => At::Nested { depth: depth + 1 },
                b'}' | b']' if depth == 1 => {
                    self.end_value();
                    At::Comma
                }
                b'}' | b']' => At::Nested { depth: depth - 1 },
                _ => At::Nested { depth },
            },
            At::NestedString { depth, escaped } => match byte {
                b'"' if !escaped => At::Nested { depth },
                b'\\' => At::NestedString {
                    depth,
                    escaped: !escaped,
                },
                _ => At::NestedString {
                    depth,
                    escaped: false,
                },
            },
            At::Comma if space => At::Comma,
            At::Comma => after_value(byte),
            At::Done => At::Done,
        };
    }

    fn capture_value(&mut self, bytes: &[u8]) {
        if self.is_id && self.captured.len() <= MAX_ID_BYTES {
            let room = MAX_ID_BYTES + 1 - self.captured.len();
            self.captured
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn end_key(&mut self) {
        let key = serde_json::from_slice::<String>(&self.captured).unwrap_or_default();
        self.is_id = key == "id";
        self.is_reply |= key == "result" || key == "error";
    }

    fn end_value(&mut self) {
        if self.is_id {
            // A nested value leaves nothing captured, one that is too long is cut: neither parses.
            self.id = serde_json::from_slice(&self.captured).ok();
        }
    }
}

fn after_value(byte: u8) -> At {
    match byte {
        b',' => At::Key,
        _ => At::Done,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn number(id: i64) -> Option<RequestId> {
        Some(RequestId::Number(id))
    }

    fn string(id: &str) -> Option<RequestId> {
        Some(RequestId::String(id.into()))
    }

    #[test]
    fn finds_the_id_of_the_outermost_object_only() {
        let long_id = format!(r#"{{"id":"{}"}}"#, "x".repeat(MAX_ID_BYTES));
        let long_key = format!(r#"{{"{}id":3,"id":4}}"#, "x".repeat(500));
        let cases: &[(&str, Option<RequestId>)] = &[
            (r#"{"id":1}"#, number(1)),
            (r#" { "method" : "x" , "id" : -7 } "#, number(-7)),
            (r#"{"params":{"id":5},"id":6}"#, number(6)),
            (r#"{"id":6,"params":{"id":5}}"#, number(6)),
            (r#"{"params":[{"id":5}],"method":"\"id\":9"}"#, None),
            (r#"{"a":"\\","id":"s\"\u0041"}"#, string("s\"A")),
            (r#"{"\u0069\u0064":8}"#, number(8)),
            (r#"{"a":"{\"id\":1","id":2}"#, number(2)),
            (r#"{"id":1,"id":2}"#, number(2)),
            (r#"{"id":1,"id":null}"#, None),
            (r#"{"id":null}"#, None),
            (r#"{"id":true}"#, None),
            (r#"{"id":{"id":3}}"#, None),
            (r#"{"id":[3]}"#, None),
            (r#"{"id":1.5}"#, None),
            (r#"{"id":1,"result":{}}"#, None),
            (r#"{"error":{},"id":1}"#, None),
            (r#"[{"id":1}]"#, None),
            (r#""id""#, None),
            ("", None),
            // No JSON, but the id was complete.
            (r#"{"id":1,"method":tru"#, number(1)),
            (r#"{"id":1} trailing"#, number(1)),
            (r#"{"id":1 "method":"x""#, number(1)),
            // Cut in the id: 12 might have been 123.
            (r#"{"id":12"#, None),
            (r#"{"id":"ab"#, None),
            (r#"{"method":,"id":1}"#, None),
            (&long_id, None),
            (&long_key, number(4)),
            ("\u{FEFF}{\"id\":1}", number(1)),
        ];
        for (text, expected) in cases {
            assert_eq!(IdScan::of(text.as_bytes()), *expected, "{text}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[\"\\\\{}\\[\\]:,id\u{e9}\n ]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    fn key() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("id".to_owned()),
            Just("method".to_owned()),
            "[\"\\\\id]{0,4}"
        ]
    }

    fn id() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<i64>().prop_map(Value::from),
            "\\PC{0,20}".prop_map(Value::from),
            value()
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_parser_however_the_bytes_come(
            before in prop::collection::vec((key(), value()), 0..4),
            ids in prop::collection::vec(id(), 0..2),
            after in prop::collection::vec((key(), value()), 0..3),
            pretty in any::<bool>(),
            chunk in 1usize..40,
        ) {
            // Written by hand, since a map could hold no repeated key.
            let colon = if pretty { " :\t" } else { ":" };
            let members: Vec<String> = before
                .into_iter()
                .chain(ids.into_iter().map(|id| ("id".to_owned(), id)))
                .chain(after)
                .map(|(key, value)| format!("{}{colon}{value}", json!(key)))
                .collect();
            let text = format!("{{{}}}", members.join(if pretty { " , " } else { "," }));
            let parsed: Value = serde_json::from_str(&text).unwrap();
            let expected = serde_json::from_value::<RequestId>(parsed["id"].clone()).ok();
            let mut scan = IdScan::default();
            for piece in text.as_bytes().chunks(chunk) {
                scan.feed(piece);
            }
            prop_assert_eq!(scan.id(), expected, "{}", text);
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = IdScan::of(&bytes);
            let _ = IdScan::of(&[b"{\"id\":".as_slice(), &bytes].concat());
        }
    }
}
