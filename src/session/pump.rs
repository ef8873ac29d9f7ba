//! Moves one output pipe into the session's log: read, decode, append, wake.
//!
//! One read is in flight at any time and is never dropped; the block that it fills belongs to the kernel meanwhile.
//! Nothing here allocates once the log is warm.

use std::{
    rc::Rc,
    sync::Arc,
    time::{Instant, SystemTime},
};

use crate::{
    arena::{Block, RecordLog, Stream},
    io::{Read, Source, Stop, Timer},
    session::{
        Session,
        driver::IoThread,
        pace::{LARGE_PIPE, Next, Pace},
    },
    text::{
        code_points,
        utf8::{Body, Decoder},
    },
};

/// Why a pump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PumpEnd {
    /// The pipe's end: every byte is in the log.
    Eof,
    /// It was told to stop, or the pipe failed; more may have come.
    Cut,
}

/// Pumps until the pipe ends or `stop` is requested.
///
/// # Cancel safety
/// Runs as a task of its own; to end it, request `stop` and wait for it.
pub async fn run(
    session: Arc<Session>,
    stream: Stream,
    mut source: Source,
    thread: Rc<IoThread>,
    stop: Stop,
) -> PumpEnd {
    let mut decoder = Decoder::new();
    let mut pace = Pace::default();
    let mut timer = Timer::new(thread.backend);
    let mut large_pipe = None;
    let mut block = thread.slab.take();
    let end = loop {
        let asked = Instant::now();
        let (read, filled) = source.read(block, &stop).await;
        block = filled;
        match read {
            Read::Data(n) => {
                let next = pace.after_read(n, asked.elapsed());
                block = take_in(&session, stream, &mut decoder, block, &thread);
                // A writer that never pauses always has data, which wins over the stop in the backend.
                if stop.is_requested() {
                    break PumpEnd::Cut;
                }
                match next {
                    Next::Read => {}
                    Next::Enlarge => large_pipe = LargePipe::grant(&thread, &source),
                    Next::Pause(pause) => source.pause(&mut timer, pause).await,
                }
            }
            Read::Eof => break PumpEnd::Eof,
            Read::Stopped => break PumpEnd::Cut,
            Read::Failed(errno) => {
                tracing::warn!(session = session.id(), ?stream, %errno, "an output pipe failed");
                break PumpEnd::Cut;
            }
        }
    };
    drop(large_pipe);
    if let Some(left_over) = decoder.finish() {
        let mut state = session.state();
        append_char(&mut state.log, stream, left_over);
        drop(state);
        session.changed.notify_waiters();
    }
    end
}

/// Enlarged pipes of one host. A user who isn't root has 64 MiB of pipe memory in all (pipe(7)), beyond which new pipes
/// shrink to 8 KiB; this many take a quarter of it.
const LARGE_PIPES: usize = 64;

/// A share of [`LARGE_PIPES`], given back when the pipe is gone.
struct LargePipe(Rc<IoThread>);

impl LargePipe {
    /// Enlarges the pipe where both the host's share and the user's quota permit. Refused, the pipe stays as it is,
    /// which is slower and nothing else.
    fn grant(thread: &Rc<IoThread>, source: &Source) -> Option<Self> {
        let granted = thread.large_pipes.get();
        if granted >= LARGE_PIPES || source.set_pipe_size(LARGE_PIPE).is_err() {
            return None;
        }
        thread.large_pipes.set(granted + 1);
        Some(Self(Rc::clone(thread)))
    }
}

impl Drop for LargePipe {
    fn drop(&mut self) {
        self.0.large_pipes.set(self.0.large_pipes.get() - 1);
    }
}

/// Appends what was read and returns a block for the next read: the same one, or a fresh one when the log took it.
fn take_in(
    session: &Session,
    stream: Stream,
    decoder: &mut Decoder,
    block: Block,
    thread: &IoThread,
) -> Block {
    let mut scratch = thread.scratch.borrow_mut();
    // Validation and counting happen before the lock is taken: a page that is being cut waits for a copy at most.
    let decoded = decoder.decode(block.filled(), &mut scratch);
    let head = decoded.head;
    let (range, text) = match decoded.body {
        Body::Clean { start, end, text } => (Some((start, end)), text),
        Body::Replaced(text) => (None, text),
    };
    if head.is_none() && text.is_empty() {
        // Part of one character: nothing to show yet.
        return reuse(block);
    }
    let count = code_points(text);
    let now = SystemTime::now();
    let mut state = session.state();
    if let Some(head) = head {
        append_char(&mut state.log, stream, head);
    }
    let next = match range {
        Some((start, end)) if state.log.wants(end - start) => {
            state.log.adopt(stream, block, start, end, count);
            None
        }
        _ => {
            state.log.append(stream, text, count);
            Some(block)
        }
    };
    state.last_activity = now;
    drop(state);
    session.changed.notify_waiters();
    match next {
        Some(block) => reuse(block),
        None => thread.slab.take(),
    }
}

fn reuse(mut block: Block) -> Block {
    block.clear();
    block
}

fn append_char(log: &mut RecordLog, stream: Stream, character: char) {
    log.append(stream, character.encode_utf8(&mut [0; 4]), 1);
}
