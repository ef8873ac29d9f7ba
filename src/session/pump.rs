//! Moves one output pipe into the session's log: read, decode, append, wake.
//!
//! One read is in flight at any time and is never dropped; the block that it fills belongs to the kernel meanwhile.
//! Nothing here allocates once the log is warm.

use std::{rc::Rc, sync::Arc, time::SystemTime};

use tokio::time::Instant;

use crate::{
    arena::{Block, RecordLog, Stream},
    io::{Read, Source, Stop, Timer},
    session::{
        Session,
        io_thread::{IoThread, LargePipe},
        pace::{Next, Pace},
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
    let mut pace = Pace::new(source.pipe_size());
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
                session.spool_has_room(&stop).await;
                match next {
                    Next::Read => {}
                    Next::Enlarge => {
                        large_pipe = LargePipe::grant(&thread, &source);
                        pace.resized(source.pipe_size());
                    }
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
        draw(&session, Some(left_over), "");
        let mut state = session.state();
        append_char(&mut state.log, stream, left_over);
        drop(state);
        session.changed.notify_waiters();
    }
    end
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
    let read = block.filled().len() as u64;
    // Validation and counting happen before the lock is taken: a page that is being cut waits for a copy at most.
    let decoded = decoder.decode(block.filled(), &mut scratch);
    let head = decoded.head;
    let (range, text) = match decoded.body {
        Body::Clean { start, end, text } => (Some((start, end)), text),
        Body::Replaced(text) => (None, text),
    };
    if head.is_none() && text.is_empty() {
        // Part of one character: nothing to show yet.
        session.state().printed(read, SystemTime::now());
        return reuse(block);
    }
    let count = code_points(text);
    // Before the text is there to be read: whoever is woken by it looks at the screen too.
    draw(session, head, text);
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
    state.printed(read, now);
    let to_spool = state.log.full_leaving() > 0;
    drop(state);
    session.changed.notify_waiters();
    if to_spool {
        session.spool_wanted.notify_one();
    }
    match next {
        Some(block) => reuse(block),
        None => thread.slab.take(),
    }
}

/// Has the terminal's screen, if there is one, take in what came.
fn draw(session: &Session, head: Option<char>, text: &str) {
    if let Some(tty) = session.tty() {
        if let Some(head) = head {
            tty.draw(head.encode_utf8(&mut [0; 4]));
        }
        tty.draw(text);
    }
}

fn reuse(mut block: Block) -> Block {
    block.clear();
    block
}

fn append_char(log: &mut RecordLog, stream: Stream, character: char) {
    log.append(stream, character.encode_utf8(&mut [0; 4]), 1);
}
