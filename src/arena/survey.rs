//! What was added to a log since its start, whatever it still retains: the beginning, and counts of the whole.

use super::code_points::floor;
use super::{Page, PageLimits, Run, Stream, Unit};

/// See the module. Adding to it allocates nothing.
#[derive(Debug)]
pub struct Survey {
    /// The first text, in whole code points and runs.
    pub head: Page,
    /// UTF-8 bytes of all text, the head's included.
    pub bytes: u64,
    /// Line feeds in all text, the head's included.
    pub lines: u64,
    limits: PageLimits,
    /// Text came that the head has no room for.
    head_is_full: bool,
}

impl Survey {
    pub(super) fn new(limits: PageLimits) -> Survey {
        assert_eq!(limits.unit, Unit::Runs, "a head is kept in runs");
        Survey {
            head: Page {
                text: String::with_capacity(limits.bytes),
                runs: Vec::with_capacity(limits.records),
                ..Page::default()
            },
            bytes: 0,
            lines: 0,
            limits,
            head_is_full: false,
        }
    }

    /// Takes UTF-8 text whose first code point is `cursor`.
    pub(super) fn add(&mut self, stream: Stream, text: &[u8], cursor: u64) {
        self.bytes += text.len() as u64;
        self.lines += bytecount::count(text, b'\n') as u64;
        if self.head_is_full {
            return;
        }
        let continues = self
            .head
            .runs
            .last()
            .is_some_and(|run| run.stream == stream);
        let room = if continues || self.head.runs.len() < self.limits.records {
            self.limits.bytes - self.head.text.len()
        } else {
            0
        };
        let taken = floor(text, room);
        self.head_is_full = taken < text.len();
        if taken == 0 {
            return;
        }
        let taken = simdutf8::basic::from_utf8(&text[..taken]).expect("text is UTF-8");
        self.head.text.push_str(taken);
        let end = self.head.text.len();
        match self.head.runs.last_mut() {
            Some(run) if continues => run.end = end,
            _ => self.head.runs.push(Run {
                cursor,
                stream,
                end,
            }),
        }
        self.head.next_cursor = cursor + bytecount::num_chars(taken.as_bytes()) as u64;
    }
}
