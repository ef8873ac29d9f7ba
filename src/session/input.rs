//! The writes of one session: one after the other, in the order in which they were queued, each whole or ended aloud.
//!
//! On a terminal a write is typed, and so is the end of input, which ends the input of whoever reads at the time: it stays
//! open for the next.
//!
//! Owns the child's stdin. Every way in which it closes passes through here, so that a write's `accepted` count is
//! exactly what the pipe took.

use std::{
    future::pending,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::{Buf, Bytes};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use crate::{
    io::{Sink, Stop, Write},
    process::Mode,
    session::{
        Session,
        snapshot::Status,
        tty::{MAX_LINE, Tty, Typed},
    },
};

/// How long a write may take from the moment that its turn came. A pipe that stays full that long belongs to a
/// program that doesn't read; waiting on would block the writes behind it for ever.
pub const TURN: Duration = Duration::from_millis(1_000);
/// What a terminal takes for the end of input where it doesn't say: ^D.
const END_OF_FILE: u8 = 4;

/// One write, waiting for its turn.
#[derive(Debug)]
pub struct WriteJob {
    /// Exactly these bytes.
    pub text: Bytes,
    /// Close stdin after them.
    pub close: bool,
    /// Where the answer goes. Nobody need listen.
    pub reply: oneshot::Sender<WriteEnd>,
}

/// What became of a write. `accepted` is how many of its bytes the pipe took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteEnd {
    /// All of it was taken.
    Done {
        /// Bytes of the text.
        accepted: usize,
        /// Stdin is closed now.
        stdin_closed: bool,
        /// The log's end when the turn came.
        next_cursor: u64,
    },
    /// The turn was over first.
    Backpressure {
        /// See the enum.
        accepted: usize,
        /// Stdin is closed now, and so input is uncertain. A terminal takes the rest when its program reads again.
        closed: bool,
    },
    /// Input is uncertain: this or an earlier write was cut off.
    Uncertain {
        /// See the enum.
        accepted: usize,
    },
    /// The text has a line that the terminal would cut; nothing of it was typed.
    LineTooLong {
        /// Bytes of the line.
        bytes: usize,
    },
    /// Stdin is closed, by either side.
    Closed {
        /// See the enum.
        accepted: usize,
    },
    /// The session is ending or has ended.
    NotRunning {
        /// See the enum.
        accepted: usize,
    },
}

/// Makes the session's writes until it is final. `sink` is absent when the child's stdin is `/dev/null`.
///
/// # Cancel safety
/// Runs as a task of its own for the session's whole life; it's dropped only together with the runtime.
pub async fn run(
    session: Arc<Session>,
    mut sink: Option<Sink>,
    mut jobs: mpsc::Receiver<WriteJob>,
) {
    let mut typed = Typed::default();
    loop {
        let job = tokio::select! {
            biased;
            () = session.input_cut.notified() => None,
            job = jobs.recv() => match job {
                Some(job) => Some(job),
                None => return,
            },
            () = answered(&session) => {
                type_answers(&session, &mut sink, &mut typed).await;
                None
            }
        };
        if let Some(job) = job {
            let end = take_turn(&session, &mut sink, &mut typed, job.text, job.close).await;
            // A caller that was cancelled doesn't listen; what it did stands in the session's state.
            job.reply.send(end).ok();
        }
        let status = {
            let state = session.state();
            if state.stdin_closed {
                sink = None;
            }
            state.status
        };
        if status.is_final() {
            jobs.close();
            while let Some(job) = jobs.recv().await {
                job.reply.send(WriteEnd::NotRunning { accepted: 0 }).ok();
            }
            return;
        }
    }
}

async fn take_turn(
    session: &Session,
    sink: &mut Option<Sink>,
    typed: &mut Typed,
    text: Bytes,
    close: bool,
) -> WriteEnd {
    let next_cursor = {
        let state = session.state();
        if state.status != Status::Running {
            return WriteEnd::NotRunning { accepted: 0 };
        }
        if state.input_uncertain {
            return WriteEnd::Uncertain { accepted: 0 };
        }
        if state.stdin_closed {
            return WriteEnd::Closed { accepted: 0 };
        }
        state.log.next_cursor()
    };
    let Some(pipe) = sink.as_mut() else {
        return WriteEnd::Closed { accepted: 0 };
    };
    let length = text.len();
    let on_terminal = session.tty().is_some();
    if typed.is_stuck {
        typed.is_stuck = !is_read(session);
    }
    if let ([key], true) = (&*text, typed.is_stuck)
        && interrupts(session, *key)
    {
        return WriteEnd::Done {
            accepted: length,
            stdin_closed: false,
            next_cursor,
        };
    }
    if let Some(mode) = mode(session) {
        let bytes = typed.longest(&text);
        if mode.canonical && bytes > MAX_LINE {
            return WriteEnd::LineTooLong { bytes };
        }
    }
    let (accepted, mut cut) = write_all(session, pipe, text.clone(), TURN).await;
    typed.took(&text[..accepted]);
    if on_terminal && close && cut.is_none() {
        let end = typed.end_of_file(mode(session).map_or(END_OF_FILE, |mode| mode.end_of_file));
        typed.took(&end);
        cut = write_all(session, pipe, end.into(), TURN).await.1;
    }
    let mut state = session.state();
    if accepted > 0 {
        state.last_activity = SystemTime::now();
    }
    match cut {
        None => {
            debug_assert_eq!(accepted, length);
            state.stdin_closed |= close && !on_terminal;
            WriteEnd::Done {
                accepted,
                stdin_closed: state.stdin_closed,
                next_cursor,
            }
        }
        Some(Cut::Closed) => {
            state.stdin_closed = true;
            if state.status.is_final() {
                WriteEnd::NotRunning { accepted }
            } else {
                WriteEnd::Closed { accepted }
            }
        }
        Some(Cut::TurnOver) => {
            let closed = !on_terminal;
            typed.is_stuck = on_terminal;
            state.stdin_closed |= closed;
            state.input_uncertain |= closed;
            WriteEnd::Backpressure { accepted, closed }
        }
        Some(Cut::FromOutside) => {
            if state.input_uncertain {
                WriteEnd::Uncertain { accepted }
            } else {
                WriteEnd::NotRunning { accepted }
            }
        }
    }
}

/// Resolves when the session's terminal has something to say to its program.
async fn answered(session: &Session) {
    match session.tty() {
        Some(tty) => tty.answered.notified().await,
        None => pending().await,
    }
}

/// Types what the terminal answers to queries, as far as there is room for it at once: no user waits for it, and a program
/// that doesn't read what it asked for may not hold up what users type, let alone end its input.
async fn type_answers(session: &Session, sink: &mut Option<Sink>, typed: &mut Typed) {
    let answers = session.tty().map(Tty::take_answers).unwrap_or_default();
    let takes_input = {
        let state = session.state();
        state.status == Status::Running && !state.stdin_closed && !state.input_uncertain
    };
    let Some(pipe) = sink.as_mut().filter(|_| takes_input) else {
        return;
    };
    let is_canonical = mode(session).is_some_and(|mode| mode.canonical);
    if is_canonical && typed.longest(&answers) > MAX_LINE {
        return;
    }
    let answers = Bytes::from(answers);
    let (accepted, _) = write_all(session, pipe, answers.clone(), Duration::ZERO).await;
    typed.took(&answers[..accepted]);
}

fn mode(session: &Session) -> Option<Mode> {
    session.tty()?.line()?.mode().ok()
}

/// Whether the program has read all that was typed.
fn is_read(session: &Session) -> bool {
    let line = session.tty().and_then(Tty::line);
    line.is_none_or(|line| line.is_read().unwrap_or(true))
}

/// Whether the key, which a terminal that nobody reads wouldn't look at, was a signal that could be sent all the same.
fn interrupts(session: &Session, key: u8) -> bool {
    let line = session.tty().and_then(Tty::line);
    line.is_some_and(|line| line.interrupt(key).is_ok())
}

/// Why a write ended before its last byte.
enum Cut {
    /// Nobody reads the pipe any more, or it failed.
    Closed,
    /// See [`TURN`].
    TurnOver,
    /// A cancellation, or the session became final.
    FromOutside,
}

/// Returns the bytes that the pipe took, and why not all of them.
async fn write_all(
    session: &Session,
    pipe: &mut Sink,
    mut rest: Bytes,
    turn: Duration,
) -> (usize, Option<Cut>) {
    let stop = Stop::new();
    let turn_over = Instant::now() + turn;
    let mut cut = None;
    let mut accepted = 0;
    while !rest.is_empty() {
        let outcome = {
            // The write stays pinned to its end: a dropped one would still be made by the kernel, uncounted.
            let write = pipe.write(rest.clone(), &stop);
            tokio::pin!(write);
            loop {
                tokio::select! {
                    biased;
                    outcome = &mut write => break outcome,
                    () = session.input_cut.notified(), if cut.is_none() => {
                        // The notice may be an old one; the state tells.
                        let state = session.state();
                        if state.stdin_closed || state.status.is_final() {
                            cut = Some(Cut::FromOutside);
                            stop.request();
                        }
                    }
                    () = sleep_until(turn_over), if cut.is_none() => {
                        cut = Some(Cut::TurnOver);
                        stop.request();
                    }
                }
            }
        };
        match outcome {
            Write::Accepted(n) => {
                accepted += n;
                rest.advance(n);
                if rest.is_empty() {
                    return (accepted, None);
                }
            }
            Write::Closed | Write::Failed(_) => return (accepted, Some(Cut::Closed)),
            Write::Stopped => {}
        }
        if cut.is_some() {
            return (accepted, cut);
        }
    }
    (accepted, None)
}
