//! Strict JSON (RFC 8259) as a tree with byte ranges.
//!
//! The parser is one for JSON with extensions. They are all switched off, and what it takes beyond JSON even then is
//! refused here.

use jsonc_parser::{
    CollectOptions, ParseOptions, ast::Value, errors::ParseErrorKind, parse_to_ast,
};

use super::finding::{Findings, shortened};

/// Deepest nesting of brackets; the format needs four levels.
const MAX_DEPTH: usize = 64;

/// Strict JSON: every extension of the parser is off.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses `text` as strict JSON. `None` when it is not; that is reported then.
pub(super) fn parse<'t>(text: &'t str, findings: &mut Findings<'_>) -> Option<Value<'t>> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &STRICT);
    let refused_at = parsed
        .as_ref()
        .map_or_else(|error| error.range().start, |_| text.len());
    // The parser takes more as white space and inside strings than JSON does.
    if let Some((offset, message, hint)) =
        lenience(text).filter(|(offset, ..)| *offset <= refused_at)
    {
        findings.error("", Some(offset), message, hint);
        return None;
    }
    let hint = "the file must be strict JSON (RFC 8259)";
    match parsed {
        Ok(result) => {
            if result.value.is_none() {
                findings.error("", Some(text.len()), "holds only white space", hint);
            }
            result.value
        }
        Err(error) => {
            let message = syntax_message(error.kind());
            findings.error("", Some(error.range().start), message, hint);
            None
        }
    }
}

/// The first thing in `text` that the parser may take although JSON does not. Stops at whatever the parser refuses.
fn lenience(text: &str) -> Option<(usize, String, &'static str)> {
    let (mut in_string, mut escaped, mut depth) = (false, false, 0_usize);
    for (offset, c) in text.char_indices() {
        if in_string {
            if c < ' ' {
                return Some((
                    offset,
                    format!(
                        "a string holds the control character U+{:04X}",
                        u32::from(c)
                    ),
                    "close the string on its line, or write an escape such as \\n or \\u0000",
                ));
            }
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => in_string = true,
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.checked_sub(1)?,
            ' ' | '\t' | '\n' | '\r' | ',' | ':' => {}
            '0'..='9' | '+' | '-' | '.' | 'a'..='z' | 'A'..='Z' => {}
            '\u{b}' | '\u{c}' => return Some(not_white_space(offset, c)),
            c if c.is_whitespace() => return Some(not_white_space(offset, c)),
            _ => return None,
        }
        if depth > MAX_DEPTH {
            return Some((
                offset,
                format!("brackets are nested more than {MAX_DEPTH} levels deep"),
                "the format needs four levels",
            ));
        }
    }
    None
}

fn not_white_space(offset: usize, c: char) -> (usize, String, &'static str) {
    (
        offset,
        format!("U+{:04X} stands between values", u32::from(c)),
        "only spaces, tabs and line ends may; replace it by a space",
    )
}

fn syntax_message(kind: &ParseErrorKind) -> String {
    let words = kind.to_string();
    let mut chars = words.chars();
    let first = chars.next().map(|c| c.to_ascii_lowercase());
    let message: String = first.into_iter().chain(chars).collect();
    format!("not JSON: {}", shortened(&message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    /// Whether the reader takes `text` as a JSON document.
    fn accepts(text: &str) -> bool {
        let mut findings = Findings::new(Path::new("f"), text);
        let accepted = parse(text, &mut findings).is_some();
        assert_eq!(accepted, !findings.refused(), "{text:?}");
        accepted
    }

    /// Whether serde_json takes `text`; `None` when it stops at a number beyond f64, which is JSON all the same.
    fn serde_accepts(text: &str) -> Option<bool> {
        match serde_json::from_str::<serde_json::Value>(text) {
            Ok(_) => Some(true),
            Err(error) if error.to_string().starts_with("number out of range") => None,
            Err(_) => Some(false),
        }
    }

    /// Whether both judge `text` alike, as far as serde_json judges it.
    fn judged_alike(text: &str) -> bool {
        let accepted = accepts(text);
        serde_accepts(text).is_none_or(|verdict| verdict == accepted)
    }

    #[test]
    fn every_extension_of_the_parser_is_refused() {
        for text in [
            "// c\n1",
            "/* c */ 1",
            "[1,]",
            "{\"a\":1,}",
            "[1 2]",
            "{\"a\":1 \"b\":2}",
            "{a:1}",
            "{1:1}",
            "{true:1}",
            "'a'",
            "0x1",
            "+1",
            "1.",
            ".5",
            "-.5",
            "Infinity",
            "-Infinity",
            "NaN",
            "01",
            "-",
            "1e",
            "\"\\x41\"",
            "\"\\v\"",
            "\"\\'\"",
            "\"\\\n\"",
            "\"\\ud800\"",
            "\"\\u12\"",
            "\"a\nb\"",
            "\"\u{0}\"",
            "\u{a0}1",
            "1\u{b}",
            "1\u{c}",
            "\u{2028}1",
            "\u{feff}1",
            "",
            " \n",
            "1 2",
            "nulll",
            "True",
            "[",
            "{",
            "\"",
            "{\"a\"}",
            "{\"a\":}",
            "[,1]",
            "{,}",
            "[1,,2]",
            "]",
            "tru\u{e9}",
            "#",
        ] {
            assert!(!accepts(text), "{text:?}");
            assert_eq!(serde_accepts(text), Some(false), "{text:?}");
        }
    }

    #[test]
    fn strict_json_is_taken() {
        for text in [
            "null",
            " true\n",
            "-0",
            "1e400",
            "1.5E+3",
            "\"\u{7f}\u{2028}\u{feff}é\"",
            "\"\\ud83d\\ude00\\u0000\"",
            "[]",
            "{}",
            "\t{\"a\" : [1,2,{\"b\":\"\"}]}\r\n",
            "\"//\"",
        ] {
            assert!(accepts(text), "{text:?}");
            assert_ne!(serde_accepts(text), Some(false), "{text:?}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_without_deep_recursion() {
        let deep = "[".repeat(1_000_000);
        assert!(!accepts(&deep));
        assert!(accepts(&format!("{}{}", "[".repeat(64), "]".repeat(64))));
        assert!(!accepts(&format!("{}{}", "[".repeat(65), "]".repeat(65))));
    }

    /// Text that is nearly JSON: tokens in any order, so that most cases break one rule.
    fn nearly_json() -> impl Strategy<Value = String> {
        let token = prop_oneof![
            prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "1", "-", "0", ".5", "1e3", "true",
                "null", " ", "\n", "\u{b}", "\u{a0}", "\"", "\\", "\\u", "d800", "\\udc00", "'",
                "//", "/*", "*/", "+", "e", "x", "\u{1}", "é", "_", "NaN",
            ])
            .prop_map(str::to_owned),
            ".{0,3}",
        ];
        prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
    }

    /// Documents of serde_json, with keys that may repeat no others.
    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<u64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::hash_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// What the parser read, as serde_json would hold it.
    fn as_serde(value: &Value<'_>) -> serde_json::Value {
        match value {
            Value::StringLit(literal) => literal.value.as_ref().into(),
            Value::NumberLit(literal) => serde_json::from_str(literal.value).unwrap(),
            Value::BooleanLit(literal) => literal.value.into(),
            Value::NullKeyword(_) => serde_json::Value::Null,
            Value::Array(array) => array.elements.iter().map(as_serde).collect(),
            Value::Object(object) => {
                let members = object.properties.iter();
                serde_json::Value::Object(
                    members
                        .map(|member| (member.name.as_str().to_owned(), as_serde(&member.value)))
                        .collect(),
                )
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn nearly_json_is_taken_exactly_when_serde_json_takes_it(text in nearly_json()) {
            prop_assert!(judged_alike(&text));
        }

        #[test]
        fn json_is_read_as_serde_json_reads_it(document in json(), pretty in any::<bool>()) {
            let text = if pretty {
                serde_json::to_string_pretty(&document)
            } else {
                serde_json::to_string(&document)
            }
            .unwrap();
            let mut findings = Findings::new(Path::new("f"), &text);
            let value = parse(&text, &mut findings);
            // Not `document` itself: serde_json's default float parsing may miss the last digit.
            let twin: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(value.map(|value| as_serde(&value)), Some(twin));
        }

        #[test]
        fn one_changed_byte_is_judged_as_serde_json_judges_it(
            document in json(),
            at in any::<prop::sample::Index>(),
            byte in 0_u8..0x80,
        ) {
            let mut bytes = serde_json::to_vec(&document).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(text) = std::str::from_utf8(&bytes) {
                prop_assert!(judged_alike(text));
            }
        }
    }
}
