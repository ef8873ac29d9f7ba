//! What a session on a terminal can be asked and told beside what every session can.

use super::Handle;
use crate::{
    arena::{Page, PageLimits, Unit},
    config::limits::MAX_PAGE_RECORDS,
    screen::{Screen, Size},
    session::{Session, tty::Tty},
    supervisor::refusal::Refusal,
};

/// How a terminal treats what is typed, and whether somebody waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Lines are handed over whole; see `process::Mode`.
    pub canonical: bool,
    /// What is typed comes back as output.
    pub echo: bool,
    /// The foreground process sleeps until something is typed.
    pub awaits_input: bool,
}

/// A piece of a session's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// Cursor after its last code point.
    pub next_cursor: u64,
}

impl Handle {
    /// Gives the session's terminal this size, and its screen. Its program is told by SIGWINCH.
    ///
    /// # Errors
    /// It is on no terminal, or not running any more.
    pub fn resize(&self, session_id: &str, size: Size) -> Result<(), Refusal> {
        let session = self.shared.table.find(session_id)?;
        let tty = tty(&session)?;
        let line = tty
            .line()
            .ok_or(Refusal::SessionNotRunning { accepted: 0 })?;
        // The screen first: what the program draws for the new size comes after the signal.
        tty.screen().resize(size);
        line.resize(size)
            .map_err(|_| Refusal::Internal("a terminal took no new size"))
    }

    /// Looks at the session's screen, also after its end.
    ///
    /// # Errors
    /// It is on no terminal.
    pub fn screen<R>(
        &self,
        session_id: &str,
        look: impl FnOnce(&Screen) -> R,
    ) -> Result<R, Refusal> {
        let session = self.shared.table.find(session_id)?;
        let screen = tty(&session)?.screen();
        Ok(look(&screen))
    }

    /// How the session's terminal treats what is typed now.
    ///
    /// # Errors
    /// It is on no terminal, or not running any more.
    pub fn line(&self, session_id: &str) -> Result<Line, Refusal> {
        let session = self.shared.table.find(session_id)?;
        let line = tty(&session)?.line();
        let line = line.ok_or(Refusal::SessionNotRunning { accepted: 0 })?;
        let mode = line
            .mode()
            .map_err(|_| Refusal::Internal("a terminal doesn't tell its mode"))?;
        Ok(Line {
            canonical: mode.canonical,
            echo: mode.echo,
            awaits_input: line.awaits_input(),
        })
    }

    /// Whether all that the session's program has printed by now is in the log, once that is so. False when something is still
    /// on its way, which is told of when it has come.
    ///
    /// # Errors
    /// It is on no terminal, or not running any more.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn is_caught_up(&self, session_id: &str) -> Result<bool, Refusal> {
        let session = self.shared.table.find(session_id)?;
        let line = tty(&session)?.line();
        let line = line.ok_or(Refusal::SessionNotRunning { accepted: 0 })?;
        if line.has_output() {
            return Ok(false);
        }
        session.caught_up().await;
        Ok(true)
    }

    /// At most `bytes` of the session's text from `cursor` on, as it stands in memory.
    ///
    /// # Errors
    /// The cursor expired, or lies beyond the text.
    pub fn text(&self, session_id: &str, cursor: u64, bytes: usize) -> Result<Piece, Refusal> {
        let session = self.shared.table.find(session_id)?;
        let limits = PageLimits {
            bytes,
            records: MAX_PAGE_RECORDS,
            unit: Unit::Runs,
        };
        let mut page = Page::default();
        session.state().log.page(cursor, limits, &mut page)?;
        Ok(Piece {
            text: page.text,
            next_cursor: page.next_cursor,
        })
    }

    /// Tells the session's group that its terminal is gone: SIGHUP.
    ///
    /// # Errors
    /// There is no such session.
    pub fn hang_up(&self, session_id: &str) -> Result<(), Refusal> {
        self.shared.table.find(session_id)?.hang_up();
        Ok(())
    }
}

fn tty(session: &Session) -> Result<&Tty, Refusal> {
    session.tty().ok_or(Refusal::NotATerminal)
}
