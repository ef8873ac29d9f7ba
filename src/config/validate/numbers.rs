//! Rules of the numeric fields: bounds, order between two fields, products.

use std::ops::RangeInclusive;

use super::{At, Field, Findings, defaults, limits};

/// The field's value within `bounds`, or its default.
pub(super) fn bounded(
    field: Field<u64>,
    name: &str,
    bounds: RangeInclusive<u64>,
    default: u64,
    findings: &mut Findings<'_>,
) -> Option<At<u64>> {
    match field {
        Field::Absent => Some(At {
            value: default,
            path: name.to_owned(),
            offset: None,
        }),
        Field::Broken => None,
        Field::Given(at) => within(at, &bounds, findings),
    }
}

pub(super) fn within(
    at: At<u64>,
    bounds: &RangeInclusive<u64>,
    findings: &mut Findings<'_>,
) -> Option<At<u64>> {
    if bounds.contains(&at.value) {
        return Some(at);
    }
    let (low, high) = (bounds.start(), bounds.end());
    findings.error(
        &at.path,
        at.offset,
        format!("is {}, but must be from {low} to {high}", at.value),
        if at.value < *low {
            format!("raise it to {low} or more")
        } else {
            format!("lower it to {high} or less")
        },
    );
    None
}

pub(super) fn buffer_records(
    field: Field<Option<u64>>,
    findings: &mut Findings<'_>,
) -> Option<At<Option<u64>>> {
    let number = match field {
        Field::Given(at) if at.value.is_none() => return Some(at),
        Field::Given(At {
            value: Some(value),
            path,
            offset,
        }) => Field::Given(At {
            value,
            path,
            offset,
        }),
        Field::Broken => Field::Broken,
        _ => Field::Absent,
    };
    bounded(
        number,
        "buffer_records",
        limits::BUFFER_RECORDS,
        defaults::BUFFER_RECORDS,
        findings,
    )
    .map(|at| at.map(Some))
}

/// A retained session is not given up for a new one, so there must be a record for each that may run.
pub(super) fn records_cover_sessions(
    max_records: &Option<At<u64>>,
    max_sessions: &Option<At<u64>>,
    findings: &mut Findings<'_>,
) {
    let (Some(records), Some(sessions)) = (max_records, max_sessions) else {
        return;
    };
    if records.value >= sessions.value {
        return;
    }
    let (blamed, message) = if records.offset.is_some() {
        (
            records,
            format!("is {}, below {}", records.value, named(sessions)),
        )
    } else {
        (
            sessions,
            format!("is {}, above {}", sessions.value, named(records)),
        )
    };
    findings.error(
        &blamed.path,
        blamed.offset,
        message,
        format!(
            "set max_records to {} or more, or lower max_sessions",
            sessions.value
        ),
    );
}

pub(super) fn timeout_below_maximum(
    default_timeout_ms: &Option<At<u64>>,
    max_timeout_ms: &Option<At<u64>>,
    findings: &mut Findings<'_>,
) {
    let (Some(default), Some(maximum)) = (default_timeout_ms, max_timeout_ms) else {
        return;
    };
    if default.value <= maximum.value {
        return;
    }
    let (blamed, message) = if default.offset.is_some() {
        (
            default,
            format!("is {}, above {}", default.value, named(maximum)),
        )
    } else {
        (
            maximum,
            format!("is {}, below {}", maximum.value, named(default)),
        )
    };
    findings.error(
        &blamed.path,
        blamed.offset,
        message,
        format!(
            "set default_timeout_ms to {} or less, or raise max_timeout_ms",
            maximum.value
        ),
    );
}

pub(super) fn all_records(
    max_records: &Option<At<u64>>,
    buffer_records: &Option<At<Option<u64>>>,
    findings: &mut Findings<'_>,
) {
    let (Some(records), Some(per_record)) = (max_records, buffer_records) else {
        return;
    };
    let Some(code_points) = per_record.value else {
        return;
    };
    let per_record = per_record.clone().map(|_| code_points);
    product(
        records,
        &per_record,
        limits::MAX_ALL_BUFFER_RECORDS,
        findings,
    );
}

pub(super) fn all_bytes(
    max_records: &Option<At<u64>>,
    buffer_bytes: &Option<At<u64>>,
    findings: &mut Findings<'_>,
) {
    if let (Some(records), Some(per_record)) = (max_records, buffer_bytes) {
        product(records, per_record, limits::MAX_ALL_BUFFER_BYTES, findings);
    }
}

/// `records * per_record` stays within `most`. Both are within their own bounds, so the product can't overflow.
fn product(records: &At<u64>, per_record: &At<u64>, most: u64, findings: &mut Findings<'_>) {
    let product = records.value * per_record.value;
    if product <= most {
        return;
    }
    let (blamed, other) = if per_record.offset.is_some() {
        (per_record, records)
    } else {
        (records, per_record)
    };
    findings.error(
        &blamed.path,
        blamed.offset,
        format!(
            "is {}, which times {} makes {product}, but at most {most} may be kept",
            blamed.value,
            named(other)
        ),
        format!(
            "lower it to {} or less, or lower {}",
            most / other.value,
            other.path
        ),
    );
}

/// A field with its value, as another field's finding speaks of it.
pub(super) fn named(at: &At<u64>) -> String {
    let origin = if at.offset.is_none() {
        " (its default)"
    } else {
        ""
    };
    format!("{} {}{origin}", at.path, at.value)
}
