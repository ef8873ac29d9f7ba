//! From a JSON document to typed fields that still know where they stand.
//!
//! The tree keeps byte ranges and repeated keys, which serde's data model loses, so that every finding names its
//! place and all findings are reported at once. What is read here is of the right type and nothing more: ranges and
//! rules between fields belong to `validate`.

use jsonc_parser::{
    ast::{Object, ObjectProp, Value},
    common::Ranged,
};

use super::finding::{Findings, quoted, shortened};

mod profile;

use profile::profile;
pub(super) use profile::{DraftLimits, DraftProfile, DraftSandbox, DraftTty};
#[cfg(test)]
pub(super) use profile::{LIMITS_FIELDS, PROFILE_FIELDS, SANDBOX_FIELDS};

/// The fields of a config.
pub(super) const FIELDS: [&str; 14] = [
    "allowed_roots",
    "default_cwd",
    "commands",
    "max_sessions",
    "max_records",
    "buffer_bytes",
    "buffer_records",
    "default_timeout_ms",
    "max_timeout_ms",
    "retention_seconds",
    "max_input_bytes",
    "results",
    "audit_log",
    "spool",
];

/// The fields of `spool`.
pub(super) const SPOOL_FIELDS: [&str; 4] = ["dir", "bytes_per_session", "bytes_total", "when_slow"];

/// A value and where it stands. A default stands nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) path: String,
    pub(super) offset: Option<usize>,
}

impl<T> At<T> {
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At {
            value: f(self.value),
            path: self.path,
            offset: self.offset,
        }
    }
}

/// What became of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Field<T> {
    /// Not in the file.
    #[default]
    Absent,
    /// Of a wrong type. It is reported already, so the rules that need it stay silent.
    Broken,
    /// Read.
    Given(At<T>),
}

/// Elements of an array; `None` stands for one that is reported already and keeps the others' places.
pub(super) type Strings = Vec<Option<At<String>>>;

/// Members of an object, in order.
pub(super) type Members<T> = Vec<At<(String, T)>>;

/// The fields of the format, of the right types.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) offset: usize,
    pub(super) allowed_roots: Field<Strings>,
    pub(super) default_cwd: Field<String>,
    pub(super) commands: Field<Members<DraftProfile>>,
    pub(super) max_sessions: Field<u64>,
    pub(super) max_records: Field<u64>,
    pub(super) buffer_bytes: Field<u64>,
    /// `None` is `null`.
    pub(super) buffer_records: Field<Option<u64>>,
    pub(super) default_timeout_ms: Field<u64>,
    pub(super) max_timeout_ms: Field<u64>,
    pub(super) retention_seconds: Field<u64>,
    pub(super) max_input_bytes: Field<u64>,
    pub(super) results: Field<String>,
    pub(super) audit_log: Field<String>,
    pub(super) spool: Field<DraftSpool>,
}

/// The fields of `spool`.
#[derive(Debug, Default)]
pub(super) struct DraftSpool {
    pub(super) dir: Field<String>,
    pub(super) bytes_per_session: Field<u64>,
    pub(super) bytes_total: Field<u64>,
    pub(super) when_slow: Field<String>,
}

/// Reads the fields of a config. `None` when the document is no object; that is reported then.
pub(super) fn read(root: &Value<'_>, findings: &mut Findings<'_>) -> Option<Draft> {
    let Value::Object(object) = root else {
        wrong_type(root, "", "an object", findings);
        return None;
    };
    let mut draft = Draft {
        offset: object.range.start,
        ..Draft::default()
    };
    for (path, member) in members(object, "", findings) {
        let value = &member.value;
        match member.name.as_str() {
            "allowed_roots" => draft.allowed_roots = strings(value, path, findings),
            "default_cwd" => draft.default_cwd = string(value, path, findings),
            "commands" => draft.commands = object_of(value, path, findings, profile),
            "max_sessions" => draft.max_sessions = integer(value, path, findings),
            "max_records" => draft.max_records = integer(value, path, findings),
            "buffer_bytes" => draft.buffer_bytes = integer(value, path, findings),
            "buffer_records" => draft.buffer_records = integer_or_null(value, path, findings),
            "default_timeout_ms" => draft.default_timeout_ms = integer(value, path, findings),
            "max_timeout_ms" => draft.max_timeout_ms = integer(value, path, findings),
            "retention_seconds" => draft.retention_seconds = integer(value, path, findings),
            "max_input_bytes" => draft.max_input_bytes = integer(value, path, findings),
            "results" => draft.results = string(value, path, findings),
            "audit_log" => draft.audit_log = string(value, path, findings),
            "spool" => draft.spool = spool(value, path, findings),
            _ => unknown(&path, member, &FIELDS, findings),
        }
    }
    Some(draft)
}

fn spool(value: &Value<'_>, path: String, findings: &mut Findings<'_>) -> Field<DraftSpool> {
    let Value::Object(object) = value else {
        wrong_type(value, &path, "an object", findings);
        return Field::Broken;
    };
    let mut draft = DraftSpool::default();
    for (path, member) in members(object, &path, findings) {
        let value = &member.value;
        match member.name.as_str() {
            "dir" => draft.dir = string(value, path, findings),
            "bytes_per_session" => draft.bytes_per_session = integer(value, path, findings),
            "bytes_total" => draft.bytes_total = integer(value, path, findings),
            "when_slow" => draft.when_slow = string(value, path, findings),
            _ => unknown(&path, member, &SPOOL_FIELDS, findings),
        }
    }
    Field::Given(At {
        value: draft,
        path,
        offset: Some(object.range.start),
    })
}

/// The members of an object with their paths, the repeated ones reported and left out.
fn members<'o, 't>(
    object: &'o Object<'t>,
    path: &str,
    findings: &mut Findings<'_>,
) -> Vec<(String, &'o ObjectProp<'t>)> {
    let mut first_at = std::collections::HashMap::new();
    let mut kept = Vec::with_capacity(object.properties.len());
    for member in &object.properties {
        let name = member.name.as_str();
        let path = member_path(path, name);
        match first_at.entry(name) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(member.range.start);
                kept.push((path, member));
            }
            std::collections::hash_map::Entry::Occupied(entry) => {
                let line = findings.line(*entry.get());
                findings.error(
                    &path,
                    Some(member.range.start),
                    format!("is repeated; it stands on line {line} already"),
                    "keep one of them",
                );
            }
        }
    }
    kept
}

/// `a.b` for a plain name, `a["b c"]` for any other.
fn member_path(parent: &str, name: &str) -> String {
    let plain = !name.is_empty()
        && name.len() <= 128
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    match (parent, plain) {
        ("", true) => name.to_owned(),
        (_, true) => format!("{parent}.{name}"),
        (_, false) => format!("{parent}[{}]", quoted(name)),
    }
}

fn unknown(path: &str, member: &ObjectProp<'_>, known: &[&str], findings: &mut Findings<'_>) {
    let name = member.name.as_str();
    let nearest = known
        .iter()
        .map(|known| (edits(name, known), known))
        .min()
        .filter(|(edits, _)| *edits <= 3);
    findings.error(
        path,
        Some(member.range.start),
        "is not a field of the format",
        match nearest {
            Some((_, known)) => format!("did you mean {known}?"),
            None => format!("the fields here are {}", known.join(", ")),
        },
    );
}

/// How many bytes must be put in, left out or changed to make `b` of `a` (Levenshtein distance).
fn edits(a: &str, b: &str) -> usize {
    // A name much longer than any field is near to none; this keeps the work small for any file.
    if a.len() > 2 * b.len() {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.bytes().enumerate() {
            let change = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn string(value: &Value<'_>, path: String, findings: &mut Findings<'_>) -> Field<String> {
    one_string(value, &path, findings).map_or(Field::Broken, Field::Given)
}

fn one_string(value: &Value<'_>, path: &str, findings: &mut Findings<'_>) -> Option<At<String>> {
    let Value::StringLit(literal) = value else {
        wrong_type(value, path, STRING, findings);
        return None;
    };
    Some(At {
        value: literal.value.clone().into_owned(),
        path: path.to_owned(),
        offset: Some(literal.range.start),
    })
}

fn strings(value: &Value<'_>, path: String, findings: &mut Findings<'_>) -> Field<Strings> {
    let Value::Array(array) = value else {
        wrong_type(value, &path, STRINGS, findings);
        return Field::Broken;
    };
    let elements = array.elements.iter().enumerate();
    let strings = elements
        .map(|(index, element)| one_string(element, &format!("{path}[{index}]"), findings))
        .collect();
    Field::Given(At {
        value: strings,
        path,
        offset: Some(array.range.start),
    })
}

fn object_of<T>(
    value: &Value<'_>,
    path: String,
    findings: &mut Findings<'_>,
    mut read_member: impl FnMut(&Value<'_>, &str, &mut Findings<'_>) -> Option<T>,
) -> Field<Members<T>> {
    let Value::Object(object) = value else {
        wrong_type(value, &path, "an object", findings);
        return Field::Broken;
    };
    let mut read = Vec::with_capacity(object.properties.len());
    let mut whole = true;
    for (path, member) in members(object, &path, findings) {
        match read_member(&member.value, &path, findings) {
            Some(value) => read.push(At {
                value: (member.name.as_str().to_owned(), value),
                path,
                offset: Some(member.range.start),
            }),
            None => whole = false,
        }
    }
    if read.is_empty() && !whole {
        return Field::Broken;
    }
    Field::Given(At {
        value: read,
        path,
        offset: Some(object.range.start),
    })
}

fn integer_or_null(
    value: &Value<'_>,
    path: String,
    findings: &mut Findings<'_>,
) -> Field<Option<u64>> {
    if let Value::NullKeyword(null) = value {
        return Field::Given(At {
            value: None,
            path,
            offset: Some(null.range.start),
        });
    }
    match integer(value, path, findings) {
        Field::Given(at) => Field::Given(at.map(Some)),
        Field::Broken => Field::Broken,
        Field::Absent => unreachable!("a value that was read is not absent"),
    }
}

fn boolean(value: &Value<'_>, path: String, findings: &mut Findings<'_>) -> Field<bool> {
    let Value::BooleanLit(literal) = value else {
        wrong_type(value, &path, "true or false", findings);
        return Field::Broken;
    };
    Field::Given(At {
        value: literal.value,
        path,
        offset: Some(literal.range.start),
    })
}

/// A whole number written with digits only: `5.0`, `5e0` and `-0` are of another type to whoever reads the file.
fn integer(value: &Value<'_>, path: String, findings: &mut Findings<'_>) -> Field<u64> {
    let Value::NumberLit(literal) = value else {
        wrong_type(value, &path, WHOLE_NUMBER, findings);
        return Field::Broken;
    };
    let offset = Some(literal.range.start);
    let spelled = shortened(literal.value);
    if !literal.value.bytes().all(|byte| byte.is_ascii_digit()) {
        findings.error(
            &path,
            offset,
            format!("is {spelled}, but must be a whole number, not negative"),
            "write digits only, without sign, point or exponent",
        );
        return Field::Broken;
    }
    match literal.value.parse() {
        Ok(value) => Field::Given(At {
            value,
            path,
            offset,
        }),
        Err(_) => {
            findings.error(
                &path,
                offset,
                format!("is {spelled}, which no field can hold"),
                "lower it",
            );
            Field::Broken
        }
    }
}

const WHOLE_NUMBER: &str = "a whole number";
const STRING: &str = "a string";
const STRINGS: &str = "an array of strings";

fn wrong_type(value: &Value<'_>, path: &str, wanted: &str, findings: &mut Findings<'_>) {
    let found = match value {
        Value::StringLit(literal) => format!("the string {}", quoted(&literal.value)),
        Value::NumberLit(literal) => format!("the number {}", shortened(literal.value)),
        Value::BooleanLit(literal) => literal.value.to_string(),
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::NullKeyword(_) => "null".to_owned(),
    };
    let hint = match (value, wanted) {
        (Value::NullKeyword(_), _) => format!("give {wanted}, or leave it out"),
        (Value::StringLit(_), WHOLE_NUMBER) => "write it without quotes".to_owned(),
        (Value::StringLit(_), STRINGS) => {
            "write each word as its own string, all in brackets".to_owned()
        }
        (Value::NumberLit(_), STRING) => "write it in quotes".to_owned(),
        _ => format!("give {wanted}"),
    };
    findings.error(
        path,
        Some(value.range().start),
        format!("is {found}, but must be {wanted}"),
        hint,
    );
}

#[cfg(test)]
mod tests {
    use super::{super::syntax::parse, *};
    use std::path::Path;

    #[test]
    fn names_that_are_no_words_are_quoted_in_paths() {
        assert_eq!(member_path("", "commands"), "commands");
        assert_eq!(member_path("commands", "build-2"), "commands.build-2");
        assert_eq!(member_path("commands", "a b"), "commands[\"a b\"]");
        assert_eq!(member_path("commands", "a.b\n"), "commands[\"a.b\\n\"]");
        assert_eq!(member_path("", ""), "[\"\"]");
    }

    #[test]
    fn a_misspelt_field_is_near_to_the_one_that_was_meant() {
        assert_eq!(edits("max_session", "max_sessions"), 1);
        assert_eq!(edits("", "env"), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("cwd", "cwd"), 0);
        assert_eq!(edits(&"x".repeat(1_000_000), "argv"), usize::MAX);
    }

    #[test]
    fn only_digits_make_an_integer() {
        let read = |text: &str| {
            let mut findings = Findings::new(Path::new("f"), text);
            let value = parse(text, &mut findings).unwrap();
            let field = integer(&value, "n".into(), &mut findings);
            assert_eq!(field == Field::Broken, findings.refused(), "{text}");
            match field {
                Field::Given(at) => Some(at.value),
                _ => None,
            }
        };
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("18446744073709551615"), Some(u64::MAX));
        for text in [
            "18446744073709551616",
            "-1",
            "-0",
            "5.0",
            "5e0",
            "5E1",
            "\"5\"",
            "true",
            "null",
            "[5]",
            "{}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
