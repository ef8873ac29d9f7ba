//! Reading: the stream when it has settled, or the screen.

use std::{
    future::Future,
    pin::Pin,
    time::{Duration, SystemTime},
};

use tokio::time::{Instant, sleep_until};

use super::{
    Shared,
    closing::ends_within,
    failures::refused,
    prompt::is_prompt,
    registry::{Entry, Reading, Sent},
    requests::{ChangedLine, Failure, FailureKind, ReadAnswer, ReadMode, ReadRequest, ShellState},
    sending::before_cursor,
    settle::{End, Next, Settle},
    stream::Form,
};
use crate::{
    config::Truncation,
    screen::{CommandState, Marks, Screen, changed},
    supervisor::refusal::Refusal,
};

/// How long the screen has to be quiet after something was typed, before it is shown.
const SCREEN_QUIET: Duration = Duration::from_millis(50);
/// How long the first sign of what was typed is waited for, before the screen is shown.
const SCREEN_WAIT: Duration = Duration::from_millis(500);
/// How long a program whose terminal is closed may take to be reaped, so that an answer can tell that it has ended.
pub(super) const REAP_TIME: Duration = Duration::from_secs(1);

/// What a read is to return.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) mode: ReadMode,
    /// How long output has to be quiet.
    pub(super) quiet: Duration,
    pub(super) form: Form,
    pub(super) scrollback: Option<usize>,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// What was waited for.
    Done,
    /// Nobody waits for the answer any more, so nothing is to count as read.
    Cancelled,
}

impl Shared {
    /// `session_read`.
    pub(super) async fn read(
        &self,
        request: ReadRequest,
        cancelled: impl Future<Output = ()>,
    ) -> Result<ReadAnswer, Failure> {
        let entry = self.registry.find(&request.session_id)?;
        let wanted = Wanted {
            mode: request.mode,
            quiet: request.timeout.unwrap_or(self.settings.read_settle_timeout),
            form: self.form(request.strip_ansi, request.truncation),
            scrollback: request.scrollback,
        };
        let cancelled = std::pin::pin!(cancelled);
        let read = self.read_entry(&entry, wanted, cancelled).await;
        read.map_err(refused(FailureKind::ReadError))
    }

    /// How output is returned.
    pub(super) fn form(&self, strip_ansi: bool, truncation: Option<Truncation>) -> Form {
        Form {
            strip_ansi,
            truncation: truncation.unwrap_or(self.settings.truncation),
            max_output_bytes: self.settings.max_output_bytes,
            max_buffer_bytes: self.settings.max_buffer_bytes,
        }
    }

    /// Waits as the mode asks, and takes what there is.
    pub(super) async fn read_entry(
        &self,
        entry: &Entry,
        wanted: Wanted,
        mut cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<ReadAnswer, Refusal> {
        let mut reading = tokio::select! {
            reading = entry.reading.lock() => reading,
            () = &mut cancelled => return Err(Refusal::ShuttingDown),
        };
        let on_screen = match wanted.mode {
            ReadMode::Stream => false,
            ReadMode::Snapshot | ReadMode::Diff => true,
            ReadMode::Auto => self.handle.screen(&entry.id, Screen::alternate)?,
        };
        let waited = if on_screen {
            self.until_drawn(entry, &reading, wanted.quiet, cancelled)
                .await?
        } else {
            self.until_settled(entry, &reading, wanted, cancelled)
                .await?
        };
        match waited {
            Waited::Done => self.take(entry, &mut reading, None, wanted),
            Waited::Cancelled => self.take(entry, &mut reading.clone(), None, wanted),
        }
    }

    /// Takes what there is now, of the stream up to `end`.
    pub(super) fn take(
        &self,
        entry: &Entry,
        reading: &mut Reading,
        end: Option<u64>,
        wanted: Wanted,
    ) -> Result<ReadAnswer, Refusal> {
        let id = &entry.id;
        let alternate = self.handle.screen(id, Screen::alternate)?;
        let mode_used = match wanted.mode {
            ReadMode::Auto if alternate => ReadMode::Snapshot,
            ReadMode::Auto => ReadMode::Stream,
            mode => mode,
        };
        let mut answer = ReadAnswer {
            output: String::new(),
            bytes_read: 0,
            prompt_detected: false,
            is_alive: false,
            truncated: false,
            tui_active: alternate,
            snapshot_available: true,
            mode_used,
            changed_lines: None,
            is_first_read: None,
            total_lines: None,
            shell: None,
        };
        let taken = match mode_used {
            ReadMode::Stream | ReadMode::Auto => {
                reading.stream.take(&self.handle, id, end, wanted.form)?
            }
            ReadMode::Snapshot | ReadMode::Diff => {
                if alternate {
                    // Whoever has seen the screen has no use for the strokes that it was drawn with.
                    reading.stream.take(&self.handle, id, None, wanted.form)?;
                }
                let output = match mode_used {
                    ReadMode::Diff => self.diff(id, reading, &mut answer)?,
                    _ => self.snapshot(id, wanted.scrollback, &mut answer)?,
                };
                let taken = super::stream::Taken {
                    bytes: output.len(),
                    output,
                    truncated: false,
                };
                taken.cut(wanted.form)
            }
        };
        answer.output = taken.output;
        answer.bytes_read = taken.bytes;
        answer.truncated = taken.truncated;
        let (marks, prompt) = self.handle.screen(id, stands)?;
        answer.prompt_detected = prompt;
        answer.is_alive = !self.handle.status(id)?.status.is_final();
        answer.shell = shell_state(marks, &mut reading.stream.finished);
        Ok(answer)
    }

    fn snapshot(
        &self,
        id: &str,
        scrollback: Option<usize>,
        answer: &mut ReadAnswer,
    ) -> Result<String, Refusal> {
        let mut lines = self
            .handle
            .screen(id, |screen| screen.scrolled(scrollback.unwrap_or(0)))?;
        let shown = lines.iter().rposition(|line| !line.is_empty());
        lines.truncate(shown.map_or(0, |last| last + 1));
        answer.total_lines = scrollback.map(|_| lines.len());
        Ok(lines.join("\n"))
    }

    fn diff(
        &self,
        id: &str,
        reading: &mut Reading,
        answer: &mut ReadAnswer,
    ) -> Result<String, Refusal> {
        let rows = self.handle.screen(id, Screen::rows)?;
        let before = reading.before.take();
        let lines = changed(before.as_deref().unwrap_or_default(), &rows);
        let output = match &before {
            Some(_) => {
                let lines: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
                lines.join("\n")
            }
            None => rows.join("\n").trim_end_matches('\n').to_owned(),
        };
        let lines = lines
            .into_iter()
            .map(|(line, content)| ChangedLine { line, content });
        answer.changed_lines = Some(lines.collect());
        answer.is_first_read = Some(before.is_none());
        reading.before = Some(rows);
        Ok(output)
    }

    /// Waits until a read of the stream is to return.
    pub(super) async fn until_settled(
        &self,
        entry: &Entry,
        reading: &Reading,
        wanted: Wanted,
        mut cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Waited, Refusal> {
        let mut changes = self.handle.changes(&entry.id)?;
        let mut settle = Settle::new(wanted.quiet, Instant::now());
        loop {
            match settle.next(Instant::now()) {
                Next::Return => return Ok(Waited::Done),
                Next::Look => {
                    let end = self.end_of_output(entry, reading, wanted.mode).await?;
                    if settle.looked(Instant::now(), end) {
                        return Ok(Waited::Done);
                    }
                }
                Next::Wait(until) => tokio::select! {
                    biased;
                    () = &mut cancelled => return Ok(Waited::Cancelled),
                    more = changes.next() => match more {
                        true => settle.printed(Instant::now()),
                        false => {
                            ends_within(&self.handle, &entry.id, REAP_TIME).await;
                            return Ok(Waited::Done);
                        }
                    },
                    () = sleep_until(until) => {}
                },
            }
        }
    }

    /// What stands at the end of the output, and whether it is waited at.
    async fn end_of_output(
        &self,
        entry: &Entry,
        reading: &Reading,
        mode: ReadMode,
    ) -> Result<End, Refusal> {
        let id = &entry.id;
        let sent = entry.sent();
        let awaits_input = || self.handle.line(id).is_ok_and(|line| line.awaits_input);
        if mode == ReadMode::Auto && self.handle.screen(id, Screen::alternate)? {
            // A program has taken the screen meanwhile, and is done with drawing when it waits for keys.
            let quiet = self.quiet(id)?;
            let is_drawn = quiet >= SCREEN_QUIET && awaits_input() || quiet >= SCREEN_WAIT;
            return Ok(if is_drawn { End::Asked } else { End::Prompt });
        }
        // The screen is drawn before the text is there to be read, so it shows no less than is known of here.
        let printed = self.handle.status(id)?.next_cursor;
        let (marks, prompt, row) = self.handle.screen(id, |screen| {
            let (marks, prompt) = stands(screen);
            (marks, prompt, before_cursor(screen))
        })?;
        let before = match &sent {
            Some(sent) => sent.finished,
            None => reading.stream.finished,
        };
        if marks.finished > before {
            return Ok(match marks.state {
                CommandState::Running => End::Marked,
                _ => End::Finished,
            });
        }
        // Before anything was printed since something was typed, the prompt is the one at which it was.
        let is_answer = |sent: &Sent| printed > sent.at && !sent.typed.is_shown_in(&row);
        if !prompt || !sent.as_deref().is_none_or(is_answer) {
            return Ok(End::Open);
        }
        // A program that polls doesn't say for what. One that has printed meanwhile, on the way to us or there already, didn't
        // wait at that prompt.
        let waits = awaits_input()
            && self.handle.is_caught_up(id).await.unwrap_or_default()
            && self.handle.status(id)?.next_cursor == printed;
        Ok(if waits { End::Asked } else { End::Prompt })
    }

    /// Waits, if something was typed since the last read, until it has been drawn.
    async fn until_drawn(
        &self,
        entry: &Entry,
        reading: &Reading,
        longest: Duration,
        mut cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Waited, Refusal> {
        let id = &entry.id;
        let sent = entry.sent().filter(|sent| sent.at >= reading.stream.cursor);
        let Some(sent) = sent else {
            return Ok(Waited::Done);
        };
        let mut changes = self.handle.changes(id)?;
        let until = Instant::now() + longest;
        let first = until.min(Instant::now() + SCREEN_WAIT);
        loop {
            let quiet = if self.handle.status(id)?.next_cursor > sent.at {
                let left = SCREEN_QUIET.saturating_sub(self.quiet(id)?);
                until.min(Instant::now() + left)
            } else {
                first
            };
            if Instant::now() >= quiet {
                return Ok(Waited::Done);
            }
            tokio::select! {
                biased;
                () = &mut cancelled => return Ok(Waited::Cancelled),
                more = changes.next() => if !more {
                    ends_within(&self.handle, id, REAP_TIME).await;
                    return Ok(Waited::Done);
                },
                () = sleep_until(quiet) => {}
            }
        }
    }

    /// How long nothing has been printed.
    fn quiet(&self, id: &str) -> Result<Duration, Refusal> {
        let last = self.handle.status(id)?.last_output_at;
        let since = last.and_then(|last| SystemTime::now().duration_since(last).ok());
        Ok(since.unwrap_or_default())
    }
}

/// The shell's marks, and whether a prompt stands at the end of the output.
fn stands(screen: &Screen) -> (Marks, bool) {
    let prompt = !screen.alternate() && is_prompt(&before_cursor(screen));
    (screen.marks(), prompt)
}

/// What the shell's marks say, and that it was told.
pub(super) fn shell_state(marks: Marks, finished: &mut u64) -> Option<ShellState> {
    let command_complete = marks.finished > *finished;
    *finished = marks.finished;
    marks.seen.then_some(ShellState {
        osc133: true,
        command_state: match marks.state {
            CommandState::Prompt => "prompt",
            CommandState::Running => "running",
            CommandState::Output => "output",
            CommandState::Idle | CommandState::Unknown => "idle",
        },
        exit_code: marks.exit_code,
        command_complete,
    })
}
