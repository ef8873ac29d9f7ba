//! What a report may look like where it goes: colours and moving lines on a terminal, plain text elsewhere, and on a
//! terminal never wider than that.

use std::{
    env,
    fmt::Display,
    io::{self, IsTerminal},
};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// For what went right.
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// For what went wrong.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// For what is worth a look.
pub(super) const NOTE: Style = AnsiColor::Yellow.on_default().bold();
/// For headings.
pub(super) const STRONG: Style = Style::new().bold();
/// For what matters less.
pub(super) const FAINT: Style = Style::new().dimmed();

/// Columns of a terminal that doesn't say how many it has.
const USUAL_WIDTH: usize = 80;
/// Below this a wrapped text would be a column of single words.
const LEAST_WIDTH: usize = 20;

/// Where standard output goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    colour: bool,
    live: bool,
    width: usize,
}

impl Screen {
    /// `NO_COLOR`, `CLICOLOR_FORCE` and `TERM=dumb` are respected.
    pub(super) fn of_stdout() -> Screen {
        let stdout = io::stdout();
        let dumb = env::var_os("TERM").is_none_or(|kind| kind == "dumb");
        let forced = env::var_os("CLICOLOR_FORCE").is_some_and(|force| force != "0");
        // Where `CI` is set, anstream takes even a dumb terminal for one with colours.
        let colour = AutoStream::choice(&stdout) != ColorChoice::Never && (forced || !dumb);
        if !stdout.is_terminal() {
            // A line of a file or a pipe is searched by line, so it isn't broken.
            return Screen {
                colour,
                live: false,
                width: usize::MAX,
            };
        }
        let columns = terminal_size::terminal_size_of(&stdout).map(|(width, _)| width.0.into());
        Screen {
            colour,
            live: !dumb,
            width: columns.unwrap_or(USUAL_WIDTH).max(LEAST_WIDTH),
        }
    }

    /// For output that nobody looks at: no colours, no moving lines.
    #[cfg(test)]
    pub(super) fn plain(width: usize) -> Screen {
        Screen {
            colour: false,
            live: false,
            width,
        }
    }

    /// Whether a line may be drawn over.
    pub(super) fn live(self) -> bool {
        self.live
    }

    /// Whether so many columns are there.
    pub(super) fn fits(self, columns: usize) -> bool {
        columns <= self.width
    }

    /// The text in this style, where there are styles.
    pub(super) fn paint(self, style: Style, text: impl Display) -> String {
        if self.colour {
            format!("{style}{text}{style:#}")
        } else {
            text.to_string()
        }
    }

    /// The text in lines that fit, the first one after `first`, the others after `rest`.
    pub(super) fn wrapped(self, first: &str, rest: &str, text: &str) -> String {
        let options = textwrap::Options::new(self.width)
            .initial_indent(first)
            .subsequent_indent(rest);
        textwrap::fill(text, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn wrapped_lines_fit_and_lose_no_word() {
        let text = "io_uring_setup: EPERM; allow the io_uring system calls in the seccomp filter";
        let wrapped = Screen::plain(40).wrapped("  note  ", "        ", text);
        assert!(wrapped.lines().all(|line| line.width() <= 40), "{wrapped}");
        let words: Vec<&str> = wrapped.split_whitespace().skip(1).collect();
        assert_eq!(words, text.split_whitespace().collect::<Vec<_>>());
        let whole = Screen::plain(usize::MAX).wrapped("- ", "  ", text);
        assert_eq!(whole, format!("- {text}"));
    }

    #[test]
    fn a_style_is_left_out_where_there_are_none() {
        assert_eq!(Screen::plain(80).paint(GOOD, "ok"), "ok");
        let coloured = Screen {
            colour: true,
            ..Screen::plain(80)
        };
        let painted = coloured.paint(GOOD, "ok");
        assert!(painted.contains("\u{1b}[") && painted.ends_with("\u{1b}[0m"));
    }
}
