//! Waiting for a pattern in what came after something was typed, the echo of that left out.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::{
    task::yield_now,
    time::{Instant, sleep_until},
};

use super::{
    Shared,
    closing::ends_within,
    echo::Echo,
    failures::{failure, refused},
    reading::{REAP_TIME, Waited, Wanted},
    registry::{Entry, Reading, Sent},
    requests::{
        DEFAULT_TIMEOUT, DEFAULT_WAIT, Failure, FailureKind, InteractAnswer, InteractRequest,
        ReadMode, WaitAnswer, WaitRequest,
    },
    stream::{PIECE_BYTES, split_chars},
};
use crate::{
    supervisor::{
        handle::{Handle, TextWatch},
        refusal::Refusal,
    },
    text::strip::Strip,
};

/// After so long without output, a line that could have been an echo isn't one.
const PAUSE: Duration = Duration::from_millis(30);
/// How long what was printed by the end of a wait may go on being searched.
const OVERTIME: Duration = Duration::from_millis(500);

impl Shared {
    /// `session_wait_for`.
    pub(super) async fn wait_for(
        &self,
        request: WaitRequest,
        cancelled: impl Future<Output = ()>,
    ) -> Result<WaitAnswer, Failure> {
        let refused = refused(FailureKind::ReadError);
        let entry = self.registry.find(&request.session_id)?;
        let watch = self.handle.watch(request.pattern).await.map_err(&refused)?;
        let until = Instant::now() + request.timeout.unwrap_or(DEFAULT_WAIT);
        let mut cancelled = std::pin::pin!(cancelled);
        let mut reading = tokio::select! {
            reading = entry.reading.lock() => reading,
            () = &mut cancelled => return Err(refused(Refusal::ShuttingDown)),
        };
        let from = reading.stream.cursor;
        let hunt = Hunt::new(watch, entry.sent(), from, request.strip_ansi);
        let (matched, end, waited) = self
            .until_match(&entry, hunt, until, cancelled)
            .await
            .map_err(&refused)?;
        let form = self.form(request.strip_ansi, request.truncation);
        let wanted = Wanted {
            mode: ReadMode::Stream,
            quiet: Duration::ZERO,
            form,
            scrollback: None,
        };
        let read = self
            .take_until(&entry, &mut reading, end, waited, wanted)
            .map_err(&refused)?;
        Ok(WaitAnswer {
            output: read.output,
            bytes_read: read.bytes_read,
            matched,
            prompt_detected: read.prompt_detected,
            is_alive: read.is_alive,
            truncated: read.truncated,
            shell: read.shell,
        })
    }

    /// `session_interact`.
    pub(super) async fn interact(
        &self,
        request: InteractRequest,
        cancelled: impl Future<Output = ()>,
    ) -> Result<InteractAnswer, Failure> {
        let usual = FailureKind::InteractError;
        let refused = refused(usual);
        let send = request.send;
        let entry = self.registry.find(&send.session_id)?;
        self.may_type(&send.input, send.confirmed)?;
        // Before anything is typed: what is refused has no effect.
        let watch = match request.wait_for {
            Some(pattern) => match self.handle.watch(pattern).await {
                Err(Refusal::Pattern { error, .. }) => {
                    let message = format!("argument `wait_for`: {error}");
                    return Err(failure(FailureKind::ValidationError, message));
                }
                watch => Some(watch.map_err(&refused)?),
            },
            None => None,
        };
        let timeout = request.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let wanted = Wanted {
            mode: request.read_mode.unwrap_or(ReadMode::Stream),
            quiet: timeout,
            form: self.form(request.strip_ansi, request.truncation),
            scrollback: None,
        };
        let mut cancelled = std::pin::pin!(cancelled);
        let (bytes_sent, sent) = self.type_in(&entry, send.input, send.client, usual).await?;
        let Some(watch) = watch else {
            let read = self.read_entry(&entry, wanted, cancelled).await;
            return Ok(InteractAnswer {
                read: read.map_err(&refused)?,
                bytes_sent,
                matched: None,
            });
        };
        let until = Instant::now() + timeout;
        let mut reading = tokio::select! {
            reading = entry.reading.lock() => reading,
            () = &mut cancelled => return Err(refused(Refusal::ShuttingDown)),
        };
        let hunt = Hunt::new(watch, Some(sent), 0, request.strip_ansi);
        let (matched, end, waited) = self
            .until_match(&entry, hunt, until, cancelled)
            .await
            .map_err(&refused)?;
        let read = self
            .take_until(&entry, &mut reading, end, waited, wanted)
            .map_err(&refused)?;
        Ok(InteractAnswer {
            read,
            bytes_sent,
            matched: Some(matched),
        })
    }

    /// Takes what there is up to `end`; on the screen, what it shows now.
    fn take_until(
        &self,
        entry: &Entry,
        reading: &mut Reading,
        end: u64,
        waited: Waited,
        wanted: Wanted,
    ) -> Result<super::requests::ReadAnswer, Refusal> {
        match waited {
            Waited::Done => self.take(entry, reading, Some(end), wanted),
            Waited::Cancelled => self.take(entry, &mut reading.clone(), Some(end), wanted),
        }
    }

    /// Waits for the match. Tells whether it came, and up to where the output was searched.
    async fn until_match(
        &self,
        entry: &Entry,
        mut hunt: Hunt,
        until: Instant,
        mut cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(bool, u64, Waited), Refusal> {
        let (handle, id) = (&self.handle, entry.id.as_str());
        let mut changes = handle.changes(id)?;
        let mut pause = None;
        loop {
            let found = tokio::select! {
                biased;
                () = &mut cancelled => return Ok((false, hunt.at, Waited::Cancelled)),
                found = hunt.search(handle, id) => found?,
                // A program that prints faster than its output can be searched.
                () = sleep_until(until.max(Instant::now()) + OVERTIME) => {
                    return Ok((false, hunt.at, Waited::Done));
                }
            };
            if found {
                return Ok((true, hunt.at, Waited::Done));
            }
            if Instant::now() >= until {
                return Ok((false, hunt.at, Waited::Done));
            }
            let next = pause.map_or(until, |pause: Instant| pause.min(until));
            tokio::select! {
                biased;
                () = &mut cancelled => return Ok((false, hunt.at, Waited::Cancelled)),
                more = changes.next() => match more {
                    true => pause = hunt.holds_back().then(|| Instant::now() + PAUSE),
                    false => {
                        ends_within(handle, id, REAP_TIME).await;
                        // The last of it may have come with the end.
                        let matched = hunt.search(handle, id).await? || hunt.end(handle).await?;
                        return Ok((matched, hunt.at, Waited::Done));
                    }
                },
                () = sleep_until(next) => if pause.take().is_some_and(|pause| Instant::now() >= pause)
                    && hunt.pause(handle).await?
                {
                    return Ok((true, hunt.at, Waited::Done));
                }
            }
        }
    }
}

/// A pattern on its way through a session's output.
#[derive(Debug)]
struct Hunt {
    /// `None` while it is on a search thread.
    watch: Option<TextWatch>,
    echo: Option<Echo>,
    strip: Option<Strip>,
    /// How far the output was taken.
    at: u64,
    /// Nothing before counts.
    from: u64,
    /// Anything that counts has been seen.
    begun: bool,
}

impl Hunt {
    /// A hunt through what came after something was typed, and not before `from`.
    fn new(watch: TextWatch, sent: Option<Arc<Sent>>, from: u64, strip_ansi: bool) -> Hunt {
        // The echo is followed from the place where it can begin.
        let (at, from) = match &sent {
            Some(sent) => (sent.from, sent.at.max(from)),
            None => (from, from),
        };
        Hunt {
            watch: Some(watch),
            echo: sent.map(|sent| Echo::new(&sent.typed)),
            strip: strip_ansi.then(Strip::default),
            at,
            from,
            begun: false,
        }
    }

    fn holds_back(&self) -> bool {
        self.echo.as_ref().is_some_and(|echo| !echo.is_over())
    }

    /// Searches all there is.
    async fn search(&mut self, handle: &Handle, id: &str) -> Result<bool, Refusal> {
        loop {
            let piece = match handle.text(id, self.at, PIECE_BYTES) {
                Ok(piece) => piece,
                Err(Refusal::CursorExpired { base, .. }) => {
                    // Neither an echo nor a sequence can be followed over a gap.
                    (self.at, self.echo) = (base, None);
                    self.strip = self.strip.take().map(|_| Strip::default());
                    continue;
                }
                Err(other) => return Err(other),
            };
            if piece.text.is_empty() {
                return Ok(false);
            }
            let before = self.from.saturating_sub(self.at);
            let (stale, fresh) = split_chars(&piece.text, before);
            self.at = piece.next_cursor;
            let mut visible = String::new();
            match &mut self.echo {
                Some(echo) => {
                    echo.take(stale, &mut String::new());
                    echo.forget_held(!stale.is_empty());
                    echo.take(fresh, &mut visible);
                }
                None => visible.push_str(fresh),
            }
            let is_all = piece.text.len() < PIECE_BYTES / 2;
            if self.see(handle, &visible, is_all).await? {
                return Ok(true);
            }
            // Also where nothing of it was to be searched: others are to be answered meanwhile.
            yield_now().await;
        }
    }

    /// Searches what was held back only in case that more of it would come.
    async fn pause(&mut self, handle: &Handle) -> Result<bool, Refusal> {
        let mut visible = String::new();
        if let Some(echo) = &mut self.echo {
            echo.pause(&mut visible);
        }
        self.see(handle, &visible, true).await
    }

    /// As [`Hunt::pause`], when no more can come at all.
    async fn end(&mut self, handle: &Handle) -> Result<bool, Refusal> {
        let mut visible = String::new();
        if let Some(echo) = &mut self.echo {
            echo.end(&mut visible);
        }
        self.see(handle, &visible, true).await
    }

    async fn see(&mut self, handle: &Handle, visible: &str, is_all: bool) -> Result<bool, Refusal> {
        let mut text = String::new();
        match &mut self.strip {
            Some(strip) => strip.take(visible, &mut text),
            None => text.push_str(visible),
        }
        if !self.begun {
            // What an editor ends a line with, before the program says anything, is no part of what it says.
            text.drain(..text.len() - text.trim_start_matches('\r').len());
            self.begun = !text.is_empty();
        }
        if text.is_empty() {
            return Ok(false);
        }
        let watch = self.watch.take().expect("it comes back with each answer");
        let (watch, matched) = handle.see(watch, text, is_all).await?;
        self.watch = Some(watch);
        Ok(matched)
    }
}
