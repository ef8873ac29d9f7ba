//! What the config reader promises of any bytes whatever, for tests that make such bytes.

use std::path::Path;

use serde_json::Value;

use crate::config::{Config, Severity, schema, startup_line};

use super::schema_twin;

/// Reads `bytes` as a config; panics where a promise is broken. Returns whether it was taken.
pub fn check(bytes: &[u8]) -> bool {
    let file = Path::new("owner.json");
    let findings = match Config::from_bytes(file, bytes) {
        Ok(loaded) => {
            let value: Value = serde_json::from_slice(bytes).expect("what is taken is JSON");
            if let Err(fault) = schema_twin::check(&schema(), &value) {
                panic!("taken against the published schema: {fault}");
            }
            let written = loaded.config.to_json().expect("paths came from UTF-8");
            let again = Config::from_bytes(file, written.as_bytes());
            let again = again.expect("what was taken is taken again").config;
            assert_eq!(again, loaded.config);
            return true;
        }
        Err(findings) => findings,
    };
    let line = startup_line(&findings).expect("a refusal has an error");
    assert!(!line.contains(char::is_control), "{line:?}");
    let is_object = serde_json::from_slice::<Value>(bytes).is_ok_and(|value| value.is_object());
    let lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    for finding in &findings {
        let shown = finding.to_string();
        assert!(!shown.contains(char::is_control), "{shown:?}");
        let is_tally = shown.contains("not listed");
        if is_object && finding.severity == Severity::Error && !is_tally {
            assert!(!finding.path.is_empty(), "names no field: {shown}");
        }
        assert_eq!(finding.line.is_some(), finding.column.is_some());
        let (Some(at), Some(column)) = (finding.line, finding.column) else {
            continue;
        };
        let line = lines.get(at - 1);
        let line = line.unwrap_or_else(|| panic!("the text has no line {at}: {shown}"));
        let characters = String::from_utf8_lossy(line).chars().count();
        // One behind the last character is where something is missing.
        assert!((1..=characters + 1).contains(&column), "{shown}");
    }
    false
}
