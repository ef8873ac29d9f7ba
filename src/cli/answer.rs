//! Reading the answers of the five tools.

use std::io;

use serde_json::Value;

/// A text of an answer.
///
/// # Errors
/// It has none of this name.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> io::Result<&'a str> {
    let found = value[field].as_str();
    found.ok_or_else(|| missing("text", field))
}

/// A number of an answer.
///
/// # Errors
/// It has none of this name.
pub(super) fn number(value: &Value, field: &str) -> io::Result<u64> {
    let found = value[field].as_u64();
    found.ok_or_else(|| missing("number", field))
}

fn missing(what: &str, field: &str) -> io::Error {
    io::Error::other(format!("an answer of the server has no {what} {field}"))
}

/// The text of a page, of both streams.
pub(super) fn joined(page: &Value) -> String {
    let records = page["records"].as_array().into_iter().flatten();
    records
        .filter_map(|record| record["text"].as_str())
        .collect()
}
