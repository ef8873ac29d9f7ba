//! Instants as text.

use std::time::SystemTime;

use jiff::Timestamp;

/// RFC 3339 in UTC with milliseconds: `2026-07-28T09:30:00.125Z`.
pub fn rfc3339(time: SystemTime) -> String {
    // A clock set beyond the year 9999 is shown as its end.
    let time = Timestamp::try_from(time).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}
