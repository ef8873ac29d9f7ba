//! Bodies of readings: pages, raw and plain, and lines that were found.

use std::fmt;

use rmcp::model::CallToolResult;
use serde::Serialize;

use super::{
    GapBody, body,
    records::{Record, runs, text_capacity, with_records},
    stream_name, summary, text_of,
};
use crate::{
    arena::{Page, Unit},
    config::{Results, limits::MAX_PAGE_BYTES},
    mcp::{args::Until, wire},
    session::snapshot::Output,
    supervisor::{
        follow::{Reading, Waited},
        handle::{FindReading, PlainReading},
    },
    view::find::FoundLine,
};

/// All but the records.
#[derive(Serialize)]
struct PageBody<'a> {
    ok: bool,
    base_cursor: u64,
    next_cursor: u64,
    truncated: bool,
    has_more: bool,
    status: &'static str,
    output_complete: bool,
    output_incomplete: bool,
    #[serde(flatten)]
    wait: Option<WaitMembers<'a>>,
}

/// What a wait came to, when the call said `until`.
#[derive(Serialize)]
struct WaitMembers<'a> {
    wait_result: &'static str,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    found: Option<Option<MatchBody<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<GapBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unsearched: Option<u64>,
}

impl<'a> WaitMembers<'a> {
    fn of(until: Option<&Until>, reading: &'a Reading) -> Option<Self> {
        let found = || {
            reading.found.as_ref().map(|(_, found)| MatchBody {
                cursor: found.start,
                text: &found.text,
                clipped: found.clipped,
            })
        };
        until.map(|until| Self {
            wait_result: waited_name(reading.waited),
            found: matches!(until, Until::Pattern(_)).then(found),
            omitted: reading.omitted.map(GapBody::from),
            unsearched: (reading.unsearched > 0).then_some(reading.unsearched),
        })
    }
}

#[derive(Serialize)]
struct MatchBody<'a> {
    cursor: u64,
    text: &'a str,
    /// The text is only the start of the match.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    clipped: bool,
}

fn waited_name(waited: Waited) -> &'static str {
    match waited {
        Waited::Record => "record",
        Waited::End => "end",
        Waited::Pattern => "pattern",
        Waited::Idle => "idle",
        Waited::Timeout => "timeout",
    }
}

/// Where a page lies in the log.
struct Cursors {
    base: u64,
    next: u64,
    end: u64,
}

/// The result of a read. What was waited for, `until`, has members of its own when the client gave it.
pub(in crate::mcp) fn page(
    page: &Page,
    reading: &Reading,
    until: Option<&Until>,
    unit: Unit,
    layout: Results,
) -> CallToolResult {
    let cursors = Cursors {
        base: page.base_cursor,
        next: page.next_cursor,
        end: page.end_cursor,
    };
    let bytes = page.text.len();
    let shown = format_args!("{bytes} bytes of output");
    let runs = runs(page);
    match unit {
        Unit::Runs => {
            let capacity = text_capacity(bytes, page.runs.len());
            let records = runs.map(|(run, text)| Record::of(run, 0, text));
            page_of(cursors, reading, until, records, capacity, shown, layout)
        }
        Unit::CodePoints => {
            // At most as many as bytes; exact for ASCII.
            let capacity = text_capacity(bytes, bytes);
            let records = runs.flat_map(|(run, text)| {
                let chars = text.char_indices().zip(0..);
                chars.map(move |((at, char), offset)| {
                    Record::of(run, offset, &text[at..at + char.len_utf8()])
                })
            });
            page_of(cursors, reading, until, records, capacity, shown, layout)
        }
    }
}

/// The result of a read with the plain view.
pub(in crate::mcp) fn plain(
    read: &PlainReading,
    until: Option<&Until>,
    layout: Results,
) -> CallToolResult {
    let PlainReading { plain, reading, .. } = read;
    let cursors = Cursors {
        base: read.base_cursor,
        next: plain.next_cursor,
        end: read.end_cursor,
    };
    let capacity = text_capacity(plain.text.len(), plain.records.len());
    let shown = format_args!("{} bytes of plain output", plain.text.len());
    let mut start = 0;
    let records = plain.records.iter().map(|record| {
        let text = &plain.text[start..record.end];
        start = record.end;
        Record {
            cursor: record.cursor,
            stream: stream_name(record.stream),
            text,
            cut: record.cut,
        }
    });
    page_of(cursors, reading, until, records, capacity, shown, layout)
}

fn page_of<'a>(
    cursors: Cursors,
    reading: &Reading,
    until: Option<&Until>,
    records: impl Iterator<Item = Record<'a>>,
    capacity: usize,
    shown: fmt::Arguments<'_>,
    layout: Results,
) -> CallToolResult {
    let status = reading.status.as_str();
    let has_more = cursors.next < cursors.end;
    let body = with_records(
        &PageBody {
            ok: true,
            base_cursor: cursors.base,
            next_cursor: cursors.next,
            truncated: reading.truncated,
            has_more,
            status,
            output_complete: reading.output == Output::Complete,
            output_incomplete: reading.output == Output::Incomplete,
            wait: WaitMembers::of(until, reading),
        },
        records,
        capacity,
    );
    let summary = summary(layout, || {
        let next = cursors.next;
        format!("{shown}, next_cursor {next}, has_more {has_more}, {status}")
    });
    wire::result(text_of(body), summary, false)
}

/// The lines come last, as the records of a page do.
#[derive(Serialize)]
struct FoundBody<'a> {
    ok: bool,
    base_cursor: u64,
    next_cursor: u64,
    truncated: bool,
    has_more: bool,
    status: &'static str,
    output_complete: bool,
    output_incomplete: bool,
    lines_scanned: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    unsearched: Option<u64>,
    matches: Vec<LineBody<'a>>,
}

#[derive(Serialize)]
struct LineBody<'a> {
    cursor: u64,
    stream: &'static str,
    text: &'a str,
    #[serde(rename = "match")]
    matched: MatchBody<'a>,
    before: &'a [String],
    after: &'a [String],
}

impl<'a> From<&'a FoundLine> for LineBody<'a> {
    fn from(line: &'a FoundLine) -> Self {
        Self {
            cursor: line.cursor,
            stream: stream_name(line.stream),
            text: &line.text,
            matched: MatchBody {
                cursor: line.match_cursor,
                text: &line.matched,
                clipped: line.clipped,
            },
            before: &line.before,
            after: &line.after,
        }
    }
}

/// The result of a search for lines.
pub(in crate::mcp) fn found(read: &FindReading, layout: Results) -> CallToolResult {
    let find = &read.find;
    let body = body(
        &FoundBody {
            ok: true,
            base_cursor: read.base_cursor,
            next_cursor: find.next_cursor,
            truncated: read.truncated,
            has_more: find.has_more,
            status: read.status.as_str(),
            output_complete: read.output == Output::Complete,
            output_incomplete: read.output == Output::Incomplete,
            lines_scanned: find.lines_scanned,
            unsearched: (find.unsearched > 0).then_some(find.unsearched),
            matches: find.lines.iter().map(LineBody::from).collect(),
        },
        text_capacity(MAX_PAGE_BYTES / 4, find.lines.len()),
    );
    let summary = summary(layout, || {
        let (count, scanned) = (find.lines.len(), find.lines_scanned);
        let (next, has_more) = (find.next_cursor, find.has_more);
        format!("{count} of {scanned} lines match, next_cursor {next}, has_more {has_more}")
    });
    wire::result(body, summary, false)
}
