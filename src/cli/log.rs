//! Log lines on stderr. A stderr that nobody reads, or that is gone, loses lines; it never holds the server up.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    sync::Mutex,
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
/// shares, so it may not be set on descriptor 2 itself: a pipe or terminal is opened anew, a socket is told per call.
enum Stderr {
    Own(File),
    Socket(io::Stderr),
}

impl Stderr {
    fn open() -> Self {
        let path = "/proc/self/fd/2";
        let waits = std::fs::metadata(path)
            .is_ok_and(|meta| meta.file_type().is_fifo() || meta.file_type().is_char_device());
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
            Err(_) => Stderr::Socket(io::stderr()),
        }
    }
}

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = match self {
            Stderr::Own(file) => file.write(line),
            Stderr::Socket(stderr) => send(
                stderr.as_raw_fd(),
                line,
                MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
            )
            .map_err(io::Error::from),
        };
        // Whatever the reason, the rest of the line is lost; a short or failed write is no one's to retry.
        Ok(written.map_or(line.len(), |_| line.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
