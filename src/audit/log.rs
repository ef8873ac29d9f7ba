//! The log as those who record see it, and the thread behind it.

use std::{
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Instant, SystemTime},
};

use nix::sys::signal::{SigSet, Signal};

use super::{
    backlog::{Backlog, Item, Lost},
    event::Event,
    file::{LogFile, NotOpened, Unwritten, Written},
    line::line,
};
use crate::{config::limits::MAX_AUDIT_BYTES, text::rfc3339};

/// Where events go; nowhere when the Owner keeps no log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Log(Option<Arc<Waiting>>);

impl Log {
    /// Keeps nothing.
    pub fn off() -> Log {
        Log(None)
    }

    /// Opens the file and starts the thread that appends to it.
    ///
    /// # Errors
    /// Nothing is kept then.
    pub fn open(path: &Path) -> Result<Log, NotOpened> {
        let file = LogFile::open(path)?;
        let waiting = Arc::new(Waiting {
            lines: Mutex::new(Lines {
                backlog: Backlog::new(MAX_AUDIT_BYTES),
                is_writing: false,
                is_behind: false,
            }),
            pushed: Condvar::new(),
            drained: Condvar::new(),
        });
        let shared = Arc::clone(&waiting);
        thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || Writer::new(file).run(&shared))
            .map_err(NotOpened::NoThread)?;
        Ok(Log(Some(waiting)))
    }

    /// Whether anything is kept, for what is costly to find out.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Records what happened just now. Never waits for the disk; a line without room is counted instead.
    pub fn record<'a>(&self, event: impl FnOnce() -> Event<'a>) {
        let Some(waiting) = &self.0 else {
            return;
        };
        let now = SystemTime::now();
        let line = line(now, &event());
        let mut lines = waiting.lock();
        if lines.backlog.push(line, now) {
            drop(lines);
            waiting.pushed.notify_one();
        } else if !std::mem::replace(&mut lines.is_behind, true) {
            drop(lines);
            tracing::error!(
                "the audit log takes no lines, and no more can wait; further ones are only counted"
            );
        }
    }

    /// Waits until every line that was recorded is written or lost, at most until `deadline`. Returns whether it is so.
    pub fn flush(&self, deadline: Instant) -> bool {
        let Some(waiting) = &self.0 else {
            return true;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let under_way = |lines: &mut Lines| lines.is_writing || !lines.backlog.is_empty();
        let (lines, timeout) = waiting
            .drained
            .wait_timeout_while(waiting.lock(), left, under_way)
            .unwrap_or_else(PoisonError::into_inner);
        drop(lines);
        !timeout.timed_out()
    }
}

/// What those who record share with the thread.
#[derive(Debug)]
struct Waiting {
    lines: Mutex<Lines>,
    pushed: Condvar,
    drained: Condvar,
}

#[derive(Debug)]
struct Lines {
    backlog: Backlog,
    /// The thread has taken one that it hasn't finished.
    is_writing: bool,
    /// Lines were lost, and the thread has not caught up since.
    is_behind: bool,
}

impl Waiting {
    /// A panic can't leave the lines half changed: each change is one call of the backlog.
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until there is a line.
    fn next(&self) -> Item {
        let mut lines = self.lock();
        lines.is_writing = false;
        loop {
            if let Some(item) = lines.backlog.pop() {
                lines.is_writing = true;
                return item;
            }
            lines.is_behind = false;
            self.drained.notify_all();
            lines = self
                .pushed
                .wait(lines)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What the Owner was told of on stderr. Told again only when lines were written at their path in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Lines go to the file that was renamed.
    Aside,
    /// Lines are lost.
    Unwritten,
}

/// The thread's side.
struct Writer {
    file: LogFile,
    /// Lines that are missing from the file and not told of in it.
    lost: Option<Lost>,
    trouble: Option<Trouble>,
}

impl Writer {
    fn new(file: LogFile) -> Writer {
        Writer {
            file,
            lost: None,
            trouble: None,
        }
    }

    fn run(mut self, waiting: &Waiting) {
        // A file size limit (`ulimit -f`) would end the server by this signal; blocked here, the write fails instead.
        let mut beyond_limit = SigSet::empty();
        beyond_limit.add(Signal::SIGXFSZ);
        if let Err(errno) = beyond_limit.thread_block() {
            tracing::warn!(%errno, "SIGXFSZ can't be blocked in the audit log's thread");
        }
        loop {
            match waiting.next() {
                Item::Lost(lost) => {
                    self.lost = Some(Lost::and(self.lost, lost));
                    self.tell_lost();
                }
                Item::Line { bytes, made } => {
                    if !(self.tell_lost() && self.append(&bytes)) {
                        let one = Lost {
                            lines: 1,
                            since: made,
                        };
                        self.lost = Some(Lost::and(self.lost, one));
                    }
                }
            }
        }
    }

    /// Writes what is missing, before what comes after it. Returns whether nothing is left to tell.
    fn tell_lost(&mut self) -> bool {
        let Some(Lost { lines, since }) = self.lost else {
            return true;
        };
        let event = Event::Lost {
            lines,
            since: rfc3339(since),
        };
        let told = self.append(&line(SystemTime::now(), &event));
        if told {
            self.lost = None;
            tracing::warn!(
                lines,
                "the audit log is written again; lines are missing in it"
            );
        }
        told
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        match self.file.append(bytes) {
            Ok(Written::AtItsPath) => {
                self.trouble = None;
                true
            }
            Ok(Written::Aside(refused)) => {
                if self.is_news(Trouble::Aside) {
                    tracing::error!("{refused}; lines go on into the file that stood there before");
                }
                true
            }
            Err(unwritten) => {
                self.warn(&unwritten);
                false
            }
        }
    }

    fn warn(&mut self, unwritten: &Unwritten) {
        if self.is_news(Trouble::Unwritten) {
            tracing::error!(
                "the audit log can't be written: {unwritten}; its lines are lost until it can"
            );
        }
    }

    fn is_news(&mut self, trouble: Trouble) -> bool {
        self.trouble.replace(trouble) != Some(trouble)
    }
}
