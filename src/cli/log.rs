//! Log lines on stderr. A stderr that nobody reads, or that is gone, loses lines; it never holds the server up.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};

use clap::ValueEnum;
use nix::sys::socket::{MsgFlags, send};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum LogLevel {
    /// Faults of the server itself.
    Error,
    /// Also what was decided against the Owner's wish, such as a fallback.
    #[default]
    Warn,
    /// Also starts and ends of sessions.
    Info,
    /// Also calls. Never the text of input or output.
    Debug,
}

impl LogLevel {
    /// The SDK logs whole messages, terminal contents included, from its own debug level on; it's kept silent.
    fn filter(self) -> Targets {
        let own = match self {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        };
        Targets::new()
            .with_default(LevelFilter::ERROR)
            .with_target("rmcp", LevelFilter::OFF)
            .with_target("sluicegate", own)
    }
}

/// Sends log lines to stderr from now on.
pub(super) fn start(level: LogLevel) {
    let lines = fmt::layer()
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .with_writer(Mutex::new(Stderr::open()));
    tracing_subscriber::registry()
        .with(level.filter())
        .with(lines)
        .init();
}

/// Descriptor 2 in a form that never blocks. `O_NONBLOCK` belongs to the open file description, which the client
/// shares, so it may not be set on descriptor 2 itself: a pipe or terminal is opened anew, a socket is told per call. What
/// may not be opened anew (the terminal or pipe of another user, whose server this is after `su` or `setuid`) is left to a
/// thread that may block.
enum Stderr {
    Own(File),
    Socket(io::Stderr),
    Thread(Thread),
    Lost,
}

impl Stderr {
    fn open() -> Self {
        let path = "/proc/self/fd/2";
        let kind = std::fs::metadata(path).map(|meta| meta.file_type()).ok();
        let waits = kind.is_some_and(|kind| kind.is_fifo() || kind.is_char_device());
        let is_socket = kind.is_some_and(|kind| kind.is_socket());
        let flags = if waits {
            nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY
        } else {
            nix::libc::O_NOCTTY
        };
        match OpenOptions::new()
            .append(true)
            .custom_flags(flags)
            .open(path)
        {
            Ok(own) => Stderr::Own(own),
            Err(_) if is_socket => Stderr::Socket(io::stderr()),
            Err(_) => Thread::start().map_or(Stderr::Lost, Stderr::Thread),
        }
    }
}

/// How long a line is waited for, so that the last one before the exit is written too. Once, not for each line that follows
/// while the thread is stuck.
const PATIENCE: Duration = Duration::from_millis(20);

/// A thread that writes one line at a time.
struct Thread {
    lines: mpsc::SyncSender<Vec<u8>>,
    written: mpsc::Receiver<()>,
    stuck: bool,
}

impl Thread {
    fn start() -> io::Result<Self> {
        let (lines, received) = mpsc::sync_channel::<Vec<u8>>(1);
        let (done, written) = mpsc::sync_channel(1);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                for line in received {
                    // A reader that is gone is as good as one that reads: the line is lost, and the next may not be.
                    io::stderr().write_all(&line).ok();
                    if done.send(()).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            lines,
            written,
            stuck: false,
        })
    }

    fn write(&mut self, line: &[u8]) {
        if self.stuck && self.written.try_recv().is_err() {
            return;
        }
        self.stuck = self.lines.try_send(line.to_vec()).is_err()
            || self.written.recv_timeout(PATIENCE).is_err();
    }
}

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Whatever the reason, the rest of the line is lost; a short or failed write is no one's to retry.
        match self {
            Stderr::Own(file) => {
                file.write(line).ok();
            }
            Stderr::Socket(stderr) => {
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                send(stderr.as_raw_fd(), line, flags).ok();
            }
            Stderr::Thread(thread) => thread.write(line),
            Stderr::Lost => {}
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
