//! A session's terminal, as long as it has one: the line to the kernel, and the screen that its output draws.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{process::Terminal, screen::Screen};

/// Longest line that a terminal in canonical mode takes, its end not counted: `N_TTY_BUF_SIZE` less one. The kernel drops
/// what is longer and tells nobody (termios(3)).
pub const MAX_LINE: usize = 4_095;

/// See the module.
#[derive(Debug)]
pub struct Tty {
    /// Absent once the session is over.
    line: Mutex<Option<Arc<Terminal>>>,
    screen: Mutex<Screen>,
    /// What the terminal has to say to its program and nobody has typed yet. The screen adds nothing when much is there: a
    /// program that asks and doesn't read gets no more answers.
    answers: Mutex<Vec<u8>>,
    /// Wakes the input writer: there are answers.
    pub(super) answered: Notify,
}

impl Tty {
    /// The terminal of a child that has just been started, and the screen, of the same size.
    pub fn new(line: Terminal, screen: Screen) -> Tty {
        Tty {
            line: Mutex::new(Some(Arc::new(line))),
            screen: Mutex::new(screen),
            answers: Mutex::default(),
            answered: Notify::new(),
        }
    }

    /// The line, until the session is over.
    pub fn line(&self) -> Option<Arc<Terminal>> {
        let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.clone()
    }

    /// The screen. A lock of its own, so that drawing holds up nobody who looks at the log.
    pub fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the screen take in what came.
    pub(super) fn draw(&self, text: &str) {
        let mut answers = self.answers();
        self.screen().feed(text, &mut answers);
        if !answers.is_empty() {
            self.answered.notify_one();
        }
    }

    /// What is to be typed in answer to queries.
    pub(super) fn take_answers(&self) -> Vec<u8> {
        mem::take(&mut *self.answers())
    }

    fn answers(&self) -> MutexGuard<'_, Vec<u8>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives our end of the terminal back. What still has the other end open is hung up by the kernel.
    pub(super) fn close(&self) {
        let line = self
            .line
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // Not under the lock: the kernel hangs up whoever is left.
        drop(line);
    }
}

/// What was typed of a line that isn't finished.
#[derive(Debug, Default)]
pub(super) struct Typed {
    /// Bytes since the line began.
    pending: usize,
    /// A write found no room. The line discipline looks at what is typed from then on, keys that make signals among it, only
    /// when the program has read.
    pub(super) is_stuck: bool,
}

impl Typed {
    /// Bytes of the longest line that this text makes, together with what stands before it.
    pub(super) fn longest(&self, text: &[u8]) -> usize {
        let mut lines = text.split(|byte| ends_line(*byte)).map(<[u8]>::len);
        let first = self.pending + lines.next().unwrap_or_default();
        lines.fold(first, usize::max)
    }

    /// The text was typed.
    pub(super) fn took(&mut self, text: &[u8]) {
        self.pending = match text.iter().rposition(|byte| ends_line(*byte)) {
            Some(end) => text.len() - end - 1,
            None => self.pending + text.len(),
        };
    }

    /// What is to be typed so that the reader finds the end of its input: at a line's start that is one character. In a line
    /// the first hands over what there is of it, and the second then stands at a start.
    pub(super) fn end_of_file(&self, character: u8) -> Vec<u8> {
        vec![character; if self.pending == 0 { 1 } else { 2 }]
    }
}

/// Whether what is typed next begins a line: after newline, carriage return (which the line discipline makes a newline),
/// and the usual characters of end of file, interrupt, quit, suspend and kill.
fn ends_line(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | 0x03 | 0x04 | 0x15 | 0x1a | 0x1c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_goes_on_over_writes_until_something_ends_it() {
        let mut typed = Typed::default();
        assert_eq!(typed.longest(b"abc"), 3);
        typed.took(b"abc");
        assert_eq!(typed.longest(b"de\nf"), 5);
        assert_eq!(typed.longest(b"d\nefghij"), 6);
        assert_eq!(typed.end_of_file(4), [4, 4]);
        typed.took(b"\r");
        assert_eq!(typed.longest(b""), 0);
        assert_eq!(typed.end_of_file(4), [4]);
        typed.took(b"secret\x15");
        assert_eq!(typed.longest(b"x"), 1);
    }

    proptest! {
        #[test]
        fn it_counts_as_one_text_does(pieces in prop::collection::vec("[ab\n\r]{0,6}", 0..6)) {
            let mut typed = Typed::default();
            let mut before = String::new();
            for piece in pieces {
                let whole = format!("{before}{piece}");
                let lines: Vec<&str> = whole.split(['\n', '\r']).collect();
                // Only lines that this piece has a part in.
                let ended = before.split(['\n', '\r']).count() - 1;
                let longest = lines[ended..].iter().map(|line| line.len()).max();
                prop_assert_eq!(Some(typed.longest(piece.as_bytes())), longest);
                typed.took(piece.as_bytes());
                before = whole;
            }
        }
    }
}
