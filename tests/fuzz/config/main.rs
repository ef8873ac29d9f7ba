//! The config reader on any text: no panic, every refusal placed, everything that is taken within the published schema
//! and the same when it is written and read again.

#![no_main]

use std::path::Path;

use sluicegate::config::{Config, Severity, schema, startup_line};

#[path = "../../../src/config/schema_twin.rs"]
mod schema_twin;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let file = Path::new("owner.json");
    match Config::from_bytes(file, data) {
        Ok(loaded) => {
            let value: serde_json::Value =
                serde_json::from_slice(data).expect("what is taken is JSON");
            if let Err(fault) = schema_twin::check(&schema(), &value) {
                panic!("taken against the schema: {fault}");
            }
            let written = loaded.config.to_json().expect("paths came from UTF-8");
            let again = Config::from_bytes(file, written.as_bytes());
            assert_eq!(
                again.expect("what was taken is taken again").config,
                loaded.config
            );
        }
        Err(findings) => {
            let line = startup_line(&findings).expect("a refusal has an error");
            assert!(!line.contains(['\n', '\r']));
            let lines: Vec<&[u8]> = data.split(|&byte| byte == b'\n').collect();
            for finding in &findings {
                let shown = finding.to_string();
                assert!(!shown.contains(['\n', '\r', '\u{1b}']), "{shown:?}");
                assert_eq!(finding.line.is_some(), finding.column.is_some());
                let (Some(at), Some(column)) = (finding.line, finding.column) else {
                    continue;
                };
                let line = lines
                    .get(at - 1)
                    .unwrap_or_else(|| panic!("no line {at}: {shown}"));
                // One behind the last character is where something is missing.
                let characters = String::from_utf8_lossy(line).chars().count();
                assert!((1..=characters + 1).contains(&column), "{shown}");
            }
            assert!(
                findings
                    .iter()
                    .any(|finding| finding.severity == Severity::Error)
            );
        }
    }
});
