//! What a shell is given to run one command, and how its output is told from everything else that the shell prints.
//!
//! The command's output stands between two sequences that no terminal knows, with a token that nobody can guess. As text
//! they are escaped, so their echo isn't them. The first comes after what the shell's startup files print; the second, which
//! has the exit code, where the shell goes on after the command.

use std::fmt::Write;

/// Bytes of one typed line's part of the command. The line has to be within what a terminal takes of a line: 4,095.
const CHUNK_BYTES: usize = 3_000;

/// A shell that reads commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shell {
    /// With the language of `sh`.
    Posix,
    /// With a language of its own.
    Fish,
}

impl Shell {
    /// The shell that these arguments start, if it is one that would read commands.
    pub(super) fn of(argv: &[String]) -> Option<Shell> {
        let (program, options) = argv.split_first()?;
        let name = program.rsplit('/').next()?;
        let shell = match name {
            "bash" | "zsh" | "sh" | "dash" | "ash" | "ksh" | "mksh" => Shell::Posix,
            "fish" => Shell::Fish,
            _ => return None,
        };
        let is_option = |option: &String| match option.strip_prefix("--") {
            Some(long) => !long.is_empty(),
            // One of these would take the next argument, or another source of commands.
            None => {
                option.starts_with('-') && option.len() > 1 && !option.contains(['c', 'o', 's'])
            }
        };
        options.iter().all(is_option).then_some(shell)
    }

    /// The arguments that run the command and nothing else. Startup files are read only if they ask for that, with `-i` or
    /// `-l`: they can take a hundred times as long as the command.
    pub(super) fn running(argv: &[String], command: &str, token: &str) -> Vec<String> {
        let mut argv = argv.to_vec();
        argv.push("-c".to_owned());
        argv.push(format!("printf '\\033]5379;{token}\\007'\n{command}"));
        argv
    }

    /// What is typed to run the command and leave the shell; `None` when that isn't known.
    pub(super) fn typing(self, command: &str, token: &str) -> Option<String> {
        if self == Shell::Fish {
            return None;
        }
        // It isn't to be found in the history of whoever uses this shell.
        let mut typed = " unset HISTFILE; sluicegate=''\r".to_owned();
        let escaped = escaped(command);
        let mut rest = escaped.as_str();
        while !rest.is_empty() {
            let mut end = rest.len().min(CHUNK_BYTES);
            // No escape is torn apart: each begins with a backslash and has five characters.
            if let Some(at) = rest[..end].rfind('\\').filter(|at| at + 5 > end) {
                end = at;
            }
            let (chunk, more) = rest.split_at(end);
            let _ = write!(typed, " sluicegate=$sluicegate'{chunk}'\r");
            rest = more;
        }
        // In a shell of its own: if it leaves that, this one can still tell its exit code.
        let _ = write!(
            typed,
            " printf '\\033]5379;{token}\\007'; (eval \"$(printf %b \"$sluicegate\")\"); \
             printf '\\033]5379;{token};%d\\007' $?; exit\r"
        );
        Some(typed)
    }
}

/// The command for `printf %b` between single quotes: letters, digits and some signs as they are, any other byte as its
/// number. So an editor finds nothing in it that it would act on.
fn escaped(command: &str) -> String {
    let mut escaped = String::with_capacity(command.len());
    for byte in command.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => escaped.push(char::from(byte)),
            b' ' | b'-' | b'_' | b'.' | b'/' | b'=' | b',' | b':' | b'+' => {
                escaped.push(char::from(byte));
            }
            _ => {
                let _ = write!(escaped, "\\0{byte:03o}");
            }
        }
    }
    escaped
}

/// What of a shell's output is the command's, and the exit code if it is there.
pub(super) fn between<'a>(output: &'a str, token: &str) -> (&'a str, Option<i32>) {
    let start = format!("\u{1b}]5379;{token}\u{7}");
    let output = match output.find(&start) {
        Some(at) => &output[at + start.len()..],
        None => output,
    };
    let end = format!("\u{1b}]5379;{token};");
    let Some(at) = output.rfind(&end) else {
        return (output, None);
    };
    let code = output[at + end.len()..].split('\u{7}').next();
    (&output[..at], code.and_then(|code| code.parse().ok()))
}

/// Without the unfinished line at its end.
pub(super) fn without_last_line(output: &str) -> &str {
    &output[..output.rfind('\n').map_or(0, |at| at + 1)]
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        process::{Command, Stdio},
    };

    use proptest::prelude::*;

    use super::*;

    fn argv(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn shells_that_would_read_commands_are_known() {
        for (line, shell) in [
            ("bash", Shell::Posix),
            ("/bin/bash --norc -l", Shell::Posix),
            ("zsh -f", Shell::Posix),
            ("/usr/bin/dash", Shell::Posix),
            ("sh -e", Shell::Posix),
            ("fish", Shell::Fish),
        ] {
            assert_eq!(Shell::of(&argv(line)), Some(shell), "{line}");
        }
        for line in [
            "python3",
            "bash -c ls",
            "bash -lc ls",
            "bash script.sh",
            "bash --rcfile x",
            "bash -s",
            "bash --",
            "ssh host bash",
        ] {
            assert_eq!(Shell::of(&argv(line)), None, "{line}");
        }
    }

    #[test]
    fn the_output_is_what_stands_between_the_marks() {
        let start = "\u{1b}]5379;T\u{7}";
        for (output, expected) in [
            (format!("hello from rc\r\n{start}hi\r\n"), ("hi\r\n", None)),
            (
                format!("$ printf..\r\n{start}hi\r\n\u{1b}]5379;T;3\u{7}exit\r\n"),
                ("hi\r\n", Some(3)),
            ),
            (
                format!("{start}\u{1b}]5379;X;3\u{7}"),
                ("\u{1b}]5379;X;3\u{7}", None),
            ),
            ("nothing".to_owned(), ("nothing", None)),
        ] {
            assert_eq!(between(&output, "T"), expected, "{output:?}");
        }
    }

    /// Has a shell read what would be typed. Newlines stand for the carriage returns that a terminal makes them of.
    fn sh(command: &str) -> String {
        let typed = Shell::Posix.typing(command, "T").expect("it is known");
        for line in typed.split('\r') {
            assert!(line.len() < 4_095, "a line of {} bytes", line.len());
        }
        let mut child = Command::new("/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin
            .write_all(typed.replace('\r', "\n").as_bytes())
            .expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().expect("it ends").stdout;
        String::from_utf8(output).expect("text")
    }

    #[test]
    fn what_is_typed_runs_the_command_as_it_is_and_tells_its_exit_code() {
        let command =
            "printf '%s|' \"it's\" 'a\\b' \"$(echo x)\"\ncat <<E\n\ttäb !! `echo q`\nE\n(exit 7)";
        let output = sh(command);
        assert_eq!(between(&output, "T"), ("it's|a\\b|x|\ttäb !! q\n", Some(7)));
        assert_eq!(between(&sh("exit 4"), "T"), ("", Some(4)));
    }

    #[test]
    fn a_command_longer_than_a_line_is_typed_in_parts() {
        let long = format!("printf %s '{}'", "a'\\''é".repeat(4_000));
        let output = sh(&long);
        assert_eq!(
            between(&output, "T"),
            ("a'é".repeat(4_000).as_str(), Some(0))
        );
    }

    proptest! {
        #[test]
        fn nothing_but_plain_characters_is_typed(command in any::<String>()) {
            let plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
            prop_assert!(escaped(&command).bytes().all(|byte| plain(byte) && byte != b'\''));
        }
    }
}
