//! Records of a log at the end of a body: the bulk of most replies, written without going through serde.

use serde::Serialize;

use super::{bytes_of, stream_name};
use crate::{
    arena::{Page, Run},
    mcp::json_string,
};

/// `cut` stands only where something is missing: each record pays for its members.
pub(super) struct Record<'a> {
    pub cursor: u64,
    pub stream: &'static str,
    pub text: &'a str,
    pub cut: bool,
}

impl<'a> Record<'a> {
    /// The text from `offset` code points behind the start of `run`.
    pub(super) fn of(run: &Run, offset: u64, text: &'a str) -> Self {
        Self {
            cursor: run.cursor + offset,
            stream: stream_name(run.stream),
            text,
            cut: false,
        }
    }

    fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"cursor\":");
        out.extend_from_slice(self.cursor.to_string().as_bytes());
        out.extend_from_slice(b",\"stream\":\"");
        out.extend_from_slice(self.stream.as_bytes());
        out.extend_from_slice(b"\",\"text\":");
        json_string::push(self.text, out);
        out.extend_from_slice(if self.cut { b",\"cut\":true}" } else { b"}" });
    }
}

/// The runs of a page with their text.
pub(super) fn runs(page: &Page) -> impl Iterator<Item = (&Run, &str)> {
    let mut start = 0;
    page.runs.iter().map(move |run| {
        let text = &page.text[start..run.end];
        start = run.end;
        (run, text)
    })
}

/// The object `head`, which has members, with `records` as its last. They come last so that a client that cuts a long
/// result off still shows how to read on.
pub(super) fn with_records<'a>(
    head: &impl Serialize,
    records: impl Iterator<Item = Record<'a>>,
    capacity: usize,
) -> Vec<u8> {
    let mut object = bytes_of(head, capacity + 256);
    push_member(&mut object, "records", |object| {
        object.push(b'[');
        for (index, record) in records.enumerate() {
            if index > 0 {
                object.push(b',');
            }
            record.push(object);
        }
        object.push(b']');
    });
    object
}

/// Adds a member to `object`, which has others.
pub(super) fn push_member(object: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    let brace = object.pop();
    assert_eq!(brace, Some(b'}'), "an object");
    object.extend_from_slice(b",\"");
    object.extend_from_slice(name.as_bytes());
    object.extend_from_slice(b"\":");
    value(object);
    object.push(b'}');
}

/// `{"cursor":…,"stream":"stdout","text":""},` with a cursor of ten digits.
const RECORD_BYTES: usize = 52;

/// Room for so many bytes of text in so many records.
pub(super) fn text_capacity(bytes: usize, records: usize) -> usize {
    bytes + bytes / 16 + records * RECORD_BYTES
}
