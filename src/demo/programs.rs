//! The programs behind the demo profiles. They write to the process's real stdout and stderr, flush what they
//! write, and end quietly when nobody reads any more.

use std::{
    env,
    io::{self, BufRead, Read, Write},
    process::{Command, ExitCode, Stdio},
    thread::sleep,
    time::Duration,
};

use nix::sys::signal::{SigSet, Signal};

use super::COMMAND;

type Program = fn(argument: Option<&str>) -> io::Result<ExitCode>;

/// Programs by name; `descendant` serves `children` and has no profile.
const PROGRAMS: [(&str, Program); 14] = [
    ("stream", stream),
    ("interactive", interactive),
    ("long", long),
    ("unicode", unicode),
    ("flood", flood),
    ("exit7", exit7),
    ("empty", |_| Ok(ExitCode::SUCCESS)),
    ("children", children),
    ("descendant", descendant),
    ("closed-stdin", closed_stdin),
    ("split-utf8", split_utf8),
    ("invalid-utf8", invalid_utf8),
    ("eof", eof),
    ("ignore-term", ignore_term),
];

/// Runs the demo program `name` to its end in this process and returns what to exit with. `flood` takes how many
/// bytes to print after a colon: `flood:1048576`.
pub fn run_program(name: &str) -> ExitCode {
    let (name, argument) = match name.split_once(':') {
        Some((name, argument)) => (name, Some(argument)),
        None => (name, None),
    };
    let Some((_, program)) = PROGRAMS.iter().find(|(known, _)| *known == name) else {
        complain(format_args!("there is no demo program {name:?}"));
        return ExitCode::from(2);
    };
    match program(argument) {
        Ok(code) => code,
        // Whoever read the output left; that is no failure of the program.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("demo program {name}: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Says `why` on stderr. When even that can't be written there is nobody left to tell.
fn complain(why: std::fmt::Arguments<'_>) {
    writeln!(io::stderr(), "{why}").ok();
}

#[cfg(test)]
pub(super) fn exists(name: &str) -> bool {
    PROGRAMS.iter().any(|(known, _)| *known == name)
}

/// Writes `bytes` and leaves none of them in a buffer.
fn say(mut stream: impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

fn line(text: std::fmt::Arguments<'_>) -> io::Result<()> {
    say(io::stdout().lock(), format!("{text}\n").as_bytes())
}

fn pause(ms: u64) {
    sleep(Duration::from_millis(ms));
}

fn stream(_: Option<&str>) -> io::Result<ExitCode> {
    if let Some(label) = env::var_os("DEMO_LABEL") {
        line(format_args!("label: {}", label.to_string_lossy()))?;
    }
    for number in 1..=20 {
        line(format_args!("stdout line {number}"))?;
        say(
            io::stderr().lock(),
            format!("stderr line {number}\n").as_bytes(),
        )?;
        pause(100);
    }
    Ok(ExitCode::SUCCESS)
}

fn interactive(_: Option<&str>) -> io::Result<ExitCode> {
    let mut input = io::stdin().lock();
    loop {
        let piece = input.fill_buf()?;
        if piece.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        say(io::stdout().lock(), piece)?;
        let taken = piece.len();
        input.consume(taken);
    }
}

fn long(_: Option<&str>) -> io::Result<ExitCode> {
    for seconds in (0..60).step_by(5) {
        line(format_args!("{seconds} s"))?;
        pause(5_000);
    }
    line(format_args!("60 s, done"))?;
    Ok(ExitCode::SUCCESS)
}

fn unicode(_: Option<&str>) -> io::Result<ExitCode> {
    let text = "Latin: Grüße, naïve, Łódź\n\
        Greek: Καλημέρα κόσμε\n\
        Cyrillic: Доброе утро\n\
        Hebrew: שלום עולם\n\
        Arabic: مرحبا بالعالم\n\
        Devanagari: नमस्ते\n\
        Thai: สวัสดีชาวโลก\n\
        Chinese: 你好，世界\n\
        Japanese: こんにちは世界\n\
        Korean: 안녕하세요\n\
        Emoji: 😀 👩‍👩‍👧‍👦 🏳️‍🌈 🇪🇺\n\
        Combining: e\u{301} o\u{308} q\u{303}\u{323}\n\
        Mathematics: ∀x∈ℝ: ⌈x⌉ ≥ x, 𝔸𝕓𝕔\n\
        Terminal: \u{1b}[1;32mgreen\u{1b}[0m, bell \u{7}, tab\there\r\n\
        Progress: 10%\rProgress: 100%\n";
    say(io::stdout().lock(), text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Bytes that `flood` prints unless told otherwise.
const FLOOD_BYTES: usize = 32 * 1_048_576;
/// Bytes of one of its lines, and of one of its writes.
const FLOOD_LINE: usize = 64;
const FLOOD_WRITE: usize = 65_536;

/// The byte that `flood` prints at this place of its output.
pub fn flood_byte(at: u64) -> u8 {
    const LINE: u64 = FLOOD_LINE as u64;
    let column = usize::try_from(at % LINE).expect("a column of a short line");
    let head = format!("flood line {:>12} ", at / LINE + 1);
    match head.as_bytes().get(column) {
        Some(byte) => *byte,
        None if column == FLOOD_LINE - 1 => b'\n',
        None => b'.',
    }
}

fn flood(argument: Option<&str>) -> io::Result<ExitCode> {
    let mut left = match argument.map(str::parse::<usize>) {
        None => FLOOD_BYTES,
        Some(Ok(bytes)) => bytes,
        Some(Err(_)) => {
            complain(format_args!(
                "demo program flood: give the number of bytes in digits"
            ));
            return Ok(ExitCode::from(2));
        }
    };
    // Not through StdoutLock: its line buffer would split the writes at their last newline.
    let mut stdout =
        std::fs::File::from(std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?);
    let mut block = Vec::with_capacity(FLOOD_WRITE);
    let mut number = 1_u64;
    while left > 0 {
        block.clear();
        while block.len() < FLOOD_WRITE {
            let start = block.len();
            write!(block, "flood line {number:>12} ")?;
            block.resize(start + FLOOD_LINE - 1, b'.');
            block.push(b'\n');
            number += 1;
        }
        let piece = &block[..left.min(FLOOD_WRITE)];
        stdout.write_all(piece)?;
        left -= piece.len();
    }
    Ok(ExitCode::SUCCESS)
}

fn exit7(_: Option<&str>) -> io::Result<ExitCode> {
    say(io::stderr().lock(), b"exiting with code 7\n")?;
    Ok(ExitCode::from(7))
}

fn children(_: Option<&str>) -> io::Result<ExitCode> {
    let exe = env::current_exe()?;
    for number in 1..=2 {
        let child = Command::new(&exe)
            .args([COMMAND, "descendant"])
            .stdin(Stdio::null())
            .spawn()?;
        line(format_args!(
            "descendant {number} is process {}",
            child.id()
        ))?;
    }
    line(format_args!("the leader ends now"))?;
    Ok(ExitCode::SUCCESS)
}

fn descendant(_: Option<&str>) -> io::Result<ExitCode> {
    pause(60_000);
    Ok(ExitCode::SUCCESS)
}

fn closed_stdin(_: Option<&str>) -> io::Result<ExitCode> {
    // Nothing of this program touches stdin again, so a reused descriptor 0 can't be mistaken for it.
    nix::unistd::close(0)?;
    line(format_args!("stdin is closed"))?;
    for number in 1..=15 {
        pause(200);
        line(format_args!("still here {number}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn split_utf8(_: Option<&str>) -> io::Result<ExitCode> {
    for byte in "≤ 中 é 😀\n".bytes() {
        say(io::stdout().lock(), &[byte])?;
        // Without a newline a line-buffered stdout holds the byte back; `say` flushes it.
        pause(100);
    }
    Ok(ExitCode::SUCCESS)
}

fn invalid_utf8(_: Option<&str>) -> io::Result<ExitCode> {
    for bytes in [
        &b"lone continuation: \x80\n"[..],
        b"overlong slash: \xc0\xaf\n",
        b"surrogate: \xed\xa0\x80\n",
        b"beyond U+10FFFF: \xf4\x90\x80\x80\n",
        b"cut short: \xe4\xb8 \xf0\x9f\x98\n",
        b"never in UTF-8: \xfe\xff\n",
        b"unfinished at the end: \xe2\x82",
    ] {
        say(io::stdout().lock(), bytes)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn eof(_: Option<&str>) -> io::Result<ExitCode> {
    let mut input = io::stdin().lock();
    let mut buffer = vec![0; 65_536];
    let mut bytes = 0_u64;
    loop {
        match input.read(&mut buffer)? {
            0 => break,
            read => bytes += u64::try_from(read).expect("a length fits in 64 bits"),
        }
    }
    line(format_args!("read {bytes} bytes to the end of input"))?;
    Ok(ExitCode::SUCCESS)
}

fn ignore_term(_: Option<&str>) -> io::Result<ExitCode> {
    // A blocked signal stays pending and ends nothing; unlike a handler that needs no unsafe code.
    let mut term = SigSet::empty();
    term.add(Signal::SIGTERM);
    term.thread_block()?;
    line(format_args!("SIGTERM is ignored"))?;
    for seconds in 1..=60 {
        pause(1_000);
        line(format_args!("still here after {seconds} s"))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::process::CommandExt, process::Child};

    /// What separates the test harness's own output from the program's.
    const BEGIN: &str = "\u{2}begin\n";

    /// Not a test: where the tests below run a program, in a process of its own.
    #[test]
    #[ignore = "runs in a child of the other tests"]
    fn in_a_child() {
        let name = env::var("DEMO_PROGRAM").expect("set by the parent");
        say(io::stdout().lock(), BEGIN.as_bytes()).unwrap();
        let code = run_program(&name);
        // An ExitCode has no number to read; the two that matter here are told apart by comparing.
        std::process::exit(if code == ExitCode::SUCCESS { 0 } else { 7 });
    }

    fn start(name: &str) -> Child {
        Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "demo::programs::tests::in_a_child",
                "--ignored",
                "--nocapture",
            ])
            .env("DEMO_PROGRAM", name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap()
    }

    /// Reads lines up to one that ends with `end`.
    fn until(stdout: &mut impl BufRead, end: &str) {
        let mut said = String::new();
        while !said.ends_with(end) {
            assert_ne!(stdout.read_line(&mut said).unwrap(), 0, "{said}");
        }
    }

    /// Runs the program on `input` and returns its stdout, stderr and exit code.
    fn output(name: &str, input: &[u8]) -> (Vec<u8>, String, Option<i32>) {
        let mut child = start(name);
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        let begin = output
            .stdout
            .windows(BEGIN.len())
            .position(|window| window == BEGIN.as_bytes())
            .expect("the program began");
        let stderr = String::from_utf8(output.stderr).unwrap();
        (
            output.stdout[begin + BEGIN.len()..].to_vec(),
            stderr,
            output.status.code(),
        )
    }

    #[test]
    fn interactive_echoes_every_byte_and_ends_with_its_input() {
        let input = "one\nzwei é\r\nno line end".as_bytes();
        assert_eq!(
            output("interactive", input),
            (input.to_vec(), String::new(), Some(0))
        );
    }

    #[test]
    fn eof_reports_the_count_of_bytes() {
        let (stdout, _, code) = output("eof", &[b'x'; 40_000]);
        assert_eq!(
            (stdout.as_slice(), code),
            (&b"read 40000 bytes to the end of input\n"[..], Some(0))
        );
    }

    #[test]
    fn exit7_and_an_unknown_program_say_why_on_stderr() {
        let (stdout, stderr, code) = output("exit7", b"");
        assert_eq!(
            (stdout.as_slice(), stderr.as_str(), code),
            (&b""[..], "exiting with code 7\n", Some(7))
        );
        let (_, stderr, code) = output("none", b"");
        assert_eq!(
            (stderr.as_str(), code),
            ("there is no demo program \"none\"\n", Some(7))
        );
    }

    #[test]
    fn empty_prints_nothing() {
        assert_eq!(output("empty", b""), (Vec::new(), String::new(), Some(0)));
    }

    #[test]
    fn flood_prints_exactly_as_many_bytes_as_asked_in_numbered_lines() {
        let (stdout, _, code) = output("flood:200000", b"");
        assert_eq!((stdout.len(), code), (200_000, Some(0)));
        let lines = stdout.chunks_exact(FLOOD_LINE).zip(1..);
        for (line, number) in lines {
            let expected = format!("flood line {number:>12} ");
            assert!(line.starts_with(expected.as_bytes()) && line.ends_with(b".\n"));
        }
        let told: Vec<u8> = (0..200_000).map(flood_byte).collect();
        assert!(told == stdout);
    }

    #[test]
    fn flood_ends_quietly_when_nobody_reads() {
        let mut child = start("flood");
        let mut stdout = io::BufReader::new(child.stdout.take().unwrap());
        until(&mut stdout, BEGIN);
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    }

    #[test]
    fn split_and_invalid_text_arrive_as_bytes() {
        assert_eq!(output("split-utf8", b"").0, "≤ 中 é 😀\n".as_bytes());
        let (stdout, _, code) = output("invalid-utf8", b"");
        assert_eq!(code, Some(0));
        assert!(std::str::from_utf8(&stdout).is_err() && stdout.ends_with(b"\xe2\x82"));
        let (stdout, _, _) = output("unicode", b"");
        assert!(std::str::from_utf8(&stdout).is_ok());
    }

    #[test]
    fn closed_stdin_breaks_the_pipe_and_goes_on() {
        let mut child = start("closed-stdin");
        let mut stdout = io::BufReader::new(child.stdout.take().unwrap());
        until(&mut stdout, "stdin is closed\n");
        let refused = child.stdin.take().unwrap().write_all(b"x").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
        let mut said = String::new();
        stdout.read_line(&mut said).unwrap();
        assert_eq!(said, "still here 1\n");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn ignore_term_blocks_the_signal() {
        use nix::{sys::signal::kill, unistd::Pid};
        let mut child = start("ignore-term");
        let mut stdout = io::BufReader::new(child.stdout.take().unwrap());
        until(&mut stdout, "SIGTERM is ignored\n");
        // The harness has another thread that could take the signal, so the program's own is the one to ask. That other one
        // has every signal blocked while it comes out of creating it.
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let blocked = || {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            let statuses = tasks
                .map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap());
            let masks = statuses.filter_map(|status| {
                let mut lines = status.lines();
                let mask = lines.find_map(|line| line.strip_prefix("SigBlk:\t"))?;
                u64::from_str_radix(mask, 16).ok()
            });
            masks.filter(|mask| mask & (1 << 14) != 0).count()
        };
        // libc blocks every signal of a thread that starts another until it has, which the harness may still be at.
        while blocked() > 1 {
            std::thread::yield_now();
        }
        assert_eq!(blocked(), 1);
        kill(pid, Signal::SIGKILL).unwrap();
        child.wait().unwrap();
    }
}
