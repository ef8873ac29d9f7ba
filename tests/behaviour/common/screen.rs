//! A terminal of a given width for the binary's reports, and runs without one.

use std::{
    fs::File,
    io::Read,
    num::NonZero,
    process::{Command, Output, Stdio},
};

use nix::pty::{Winsize, openpty};

/// What a run came to.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs with its streams in pipes.
pub fn run(command: &mut Command) -> Ran {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env_remove("CLICOLOR_FORCE")
        .output()
        .expect("the binary starts");
    Ran {
        code: status.code(),
        stdout: String::from_utf8(stdout).expect("UTF-8"),
        stderr: String::from_utf8(stderr).expect("UTF-8"),
    }
}

/// Runs with its output on a terminal of so many columns. What came of both streams is in `stdout`, line ends as the
/// terminal makes them.
pub fn run_on_terminal(command: &mut Command, columns: u16) -> Ran {
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let ends = openpty(Some(&size), None).expect("a terminal");
    let slave = File::from(ends.slave);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(slave.try_clone().expect("a duplicate"))
        .stderr(slave)
        .spawn()
        .expect("the binary starts");
    // The command keeps its copies of the terminal's end; while they are open the other end sees no end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut said = Vec::new();
    let mut master = File::from(ends.master);
    let mut piece = [0; 4096];
    // Linux ends a terminal that nobody holds any more with EIO.
    while let Ok(read @ 1..) = master.read(&mut piece) {
        said.extend_from_slice(&piece[..read]);
    }
    let status = child.wait().expect("it was started");
    Ran {
        code: status.code(),
        stdout: String::from_utf8(said).expect("UTF-8"),
        stderr: String::new(),
    }
}

/// What a terminal of so many columns shows in the end, a row each; nothing may have been wrapped.
pub fn rows(said: &str, columns: u16) -> Vec<String> {
    // One more column than the program was told of: what is too long for it is longer than it here.
    let size = |count| NonZero::new(count).expect("not zero");
    let mut emulator = vt100::Parser::new(size(400), size(columns + 1), 0);
    emulator.process(said.as_bytes());
    let rows = emulator.screen().rows(0, columns + 1);
    let mut rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    rows
}
