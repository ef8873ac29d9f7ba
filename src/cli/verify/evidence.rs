//! What was done and found, as the evidence file holds it.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

/// Characters of a text, and elements of a list, that the evidence keeps of an answer.
const TEXT_CHARS: usize = 240;
const LIST_ITEMS: usize = 24;

/// One call and its answer.
#[derive(Debug, Serialize)]
pub(super) struct Call {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
    pub(super) answer: Value,
    pub(super) duration_ms: f64,
}

/// One thing that must hold, and what was found.
#[derive(Debug, Serialize)]
pub(super) struct Assertion {
    pub(super) what: String,
    pub(super) holds: bool,
    pub(super) found: Value,
}

/// One scenario, played.
#[derive(Debug, Serialize)]
pub(super) struct Played {
    pub(super) name: &'static str,
    pub(super) shows: &'static str,
    pub(super) passed: bool,
    /// What kept it from being played to its end.
    pub(super) error: Option<String>,
    pub(super) duration_ms: f64,
    pub(super) protocol: Option<String>,
    /// What the server said on stderr.
    pub(super) stderr: String,
    pub(super) calls: Vec<Call>,
    pub(super) assertions: Vec<Assertion>,
}

/// Whether a scenario has shown what it is to show. One that has found nothing has shown nothing.
pub(super) fn shown(error: Option<&str>, assertions: &[Assertion]) -> bool {
    error.is_none() && !assertions.is_empty() && assertions.iter().all(|one| one.holds)
}

impl Played {
    /// What failed, in a line each.
    pub(super) fn faults(&self) -> Vec<String> {
        let failed = self.assertions.iter().filter(|assertion| !assertion.holds);
        let mut faults: Vec<String> = failed
            .map(|assertion| format!("not so: {} (found {})", assertion.what, assertion.found))
            .collect();
        faults.extend(self.error.iter().map(|error| format!("broke off: {error}")));
        faults
    }
}

/// The whole run.
#[derive(Debug, Serialize)]
pub(super) struct Evidence {
    pub(super) format: &'static str,
    pub(super) passed: bool,
    pub(super) version: &'static str,
    pub(super) program: String,
    pub(super) kernel: String,
    pub(super) architecture: &'static str,
    /// The SDK that the client is.
    pub(super) client: String,
    pub(super) io: Io,
    pub(super) started_at: String,
    pub(super) duration_ms: f64,
    pub(super) scenarios: Vec<Played>,
}

/// How pipes were read and written.
#[derive(Debug, Serialize)]
pub(super) struct Io {
    pub(super) asked: &'static str,
    pub(super) used: &'static str,
    /// Why not io_uring.
    pub(super) because: Option<String>,
}

/// Milliseconds with three digits after the point.
pub(super) fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// The value with its long texts and lists cut off, and what was cut counted.
pub(super) fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) => match text.char_indices().nth(TEXT_CHARS) {
            Some((end, _)) => {
                let rest = text[end..].chars().count();
                json!(format!("{}… and {rest} more characters", &text[..end]))
            }
            None => value.clone(),
        },
        Value::Array(items) => {
            let mut kept: Vec<Value> = items.iter().take(LIST_ITEMS).map(shortened).collect();
            if items.len() > LIST_ITEMS {
                kept.push(json!(format!("… and {} more", items.len() - LIST_ITEMS)));
            }
            Value::Array(kept)
        }
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, member)| (name.clone(), shortened(member)))
                .collect(),
        ),
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assertion(holds: bool) -> Assertion {
        Assertion {
            what: "two".to_owned(),
            holds,
            found: json!(2),
        }
    }

    #[test]
    fn one_fault_is_enough_and_no_assertion_is_one() {
        let holds = || assertion(true);
        assert!(shown(None, &[holds(), holds()]));
        assert!(!shown(None, &[holds(), assertion(false)]));
        assert!(!shown(Some("broke"), &[holds()]));
        assert!(!shown(None, &[]));
    }

    #[test]
    fn faults_name_what_was_found() {
        let played = Played {
            name: "one",
            shows: "it",
            passed: false,
            error: Some("gone".to_owned()),
            duration_ms: 1.0,
            protocol: None,
            stderr: String::new(),
            calls: Vec::new(),
            assertions: vec![assertion(true), assertion(false)],
        };
        assert_eq!(
            played.faults(),
            ["not so: two (found 2)", "broke off: gone"]
        );
    }

    #[test]
    fn what_is_cut_off_is_counted() {
        let long = json!({ "text": "é".repeat(250), "list": vec![1; 30], "short": "a" });
        let short = shortened(&long);
        assert_eq!(short["short"], "a");
        let text = short["text"].as_str().unwrap();
        assert!(text.starts_with("éé") && text.ends_with("é… and 10 more characters"));
        let list = short["list"].as_array().unwrap();
        assert_eq!((list.len(), &list[24]), (25, &json!("… and 6 more")));
    }
}
