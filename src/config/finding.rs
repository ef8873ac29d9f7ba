//! What is wrong with a config, and where.
//!
//! A finding is one line, whatever the file holds: names and values come from outside, so they are escaped and
//! shortened here before they reach a terminal or a log.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Characters of a value that a finding quotes.
const SHOWN_CHARS: usize = 60;

/// Findings that are listed one by one: more than anyone reads, few enough for a file of any content.
const LISTED_FINDINGS: usize = 200;

/// Whether a finding stops the start-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The config is refused.
    Error,
    /// The config is taken; the Owner should know.
    Warning,
}

/// One thing to say about a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// See [`Severity`].
    pub severity: Severity,
    /// The file, as it was named by whoever asked for it.
    pub file: PathBuf,
    /// Field, such as `commands.build.argv[0]`; empty when the file as a whole is meant.
    pub path: String,
    /// Line, from 1; absent when the file as a whole or a default is meant.
    pub line: Option<usize>,
    /// Column in characters, from 1; absent together with `line`.
    pub column: Option<usize>,
    /// The value and the rule that it breaks.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Finding {
    /// An error about the file as a whole.
    pub fn about_file(file: &Path, message: impl Into<String>, hint: &str) -> Finding {
        Finding {
            severity: Severity::Error,
            file: file.to_owned(),
            path: String::new(),
            line: None,
            column: None,
            message: message.into(),
            hint: Some(hint.to_owned()),
        }
    }
}

/// `FILE:LINE:COLUMN: FIELD: MESSAGE; HINT`, on one line, without the parts that are absent.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.file.to_string_lossy()))?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, ":{line}:{column}")?;
        }
        f.write_str(": ")?;
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// The one line that a refused start-up prints: the first error, and where to see the others.
/// `None` when no finding is an error.
pub fn startup_line(findings: &[Finding]) -> Option<String> {
    let mut errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    let first = errors.next()?;
    Some(match errors.count() {
        0 => first.to_string(),
        more => format!(
            "{first} (and {more} more: see `sluicegate config check {}`)",
            one_line(&first.file.to_string_lossy())
        ),
    })
}

/// Findings in the making, by byte offset; lines and columns are counted once, at the end.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    file: &'a Path,
    text: &'a str,
    line_starts: Vec<usize>,
    list: Vec<(Option<usize>, Finding)>,
    errors: usize,
    unlisted: usize,
}

impl<'a> Findings<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str) -> Findings<'a> {
        let after_newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        Findings {
            file,
            text,
            line_starts: std::iter::once(0).chain(after_newlines).collect(),
            list: Vec::new(),
            errors: 0,
            unlisted: 0,
        }
    }

    pub(super) fn error(
        &mut self,
        path: &str,
        offset: Option<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.errors += 1;
        self.add(Severity::Error, path, offset, message.into(), hint.into());
    }

    pub(super) fn warning(
        &mut self,
        path: &str,
        offset: Option<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(Severity::Warning, path, offset, message.into(), hint.into());
    }

    fn add(
        &mut self,
        severity: Severity,
        path: &str,
        offset: Option<usize>,
        message: String,
        hint: String,
    ) {
        if self.list.len() == LISTED_FINDINGS {
            self.unlisted += 1;
            return;
        }
        let finding = Finding {
            severity,
            file: self.file.to_owned(),
            path: path.to_owned(),
            line: None,
            column: None,
            message,
            hint: Some(hint),
        };
        self.list.push((offset, finding));
    }

    /// The file that is being read, as it was named.
    pub(super) fn file(&self) -> &Path {
        self.file
    }

    /// Whether any error was found, listed or not.
    pub(super) fn refused(&self) -> bool {
        self.errors > 0
    }

    /// Line on which `offset` stands, from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= offset)
    }

    /// All findings in the order of the text; those without a place come last.
    pub(super) fn into_sorted(mut self) -> Vec<Finding> {
        self.list
            .sort_by_key(|(offset, _)| offset.unwrap_or(usize::MAX));
        // A column continues the one before it on the same line, so that a long line is walked only once.
        let (mut counted_to, mut column) = (0, 1);
        let mut list = std::mem::take(&mut self.list);
        for (offset, finding) in &mut list {
            let Some(offset) = *offset else { continue };
            let line = self.line(offset);
            let start = self.line_starts[line - 1];
            if start > counted_to {
                (counted_to, column) = (start, 1);
            }
            column += bytecount::num_chars(&self.text.as_bytes()[counted_to..offset]);
            counted_to = offset;
            finding.line = Some(line);
            finding.column = Some(column);
        }
        let mut findings: Vec<Finding> = list.into_iter().map(|(_, finding)| finding).collect();
        if self.unlisted > 0 {
            findings.push(Finding::about_file(
                self.file,
                format!("{} more findings are not listed", self.unlisted),
                "correct these first",
            ));
        }
        findings
    }
}

/// A string value as a finding shows it: spelled as in JSON, shortened.
pub fn quoted(value: &str) -> String {
    let (head, cut) = head(value);
    let spelled = head.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}{cut}\"", one_line(&spelled))
}

/// A value's own spelling, on one line and shortened.
pub(super) fn shortened(value: &str) -> String {
    let (head, cut) = head(value);
    format!("{}{cut}", one_line(head))
}

/// As much of `value` as is shown, and what marks that there is more.
fn head(value: &str) -> (&str, &'static str) {
    match value.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => (&value[..end], "…"),
        None => (value, ""),
    }
}

/// `text` without anything that could break, recolour or reorder a line: such characters come as escapes of JSON.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        let reorders = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match c {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            '\u{2028}' | '\u{2029}' | '\u{feff}' => line.push_str(&escape(c)),
            c if c.is_control() || reorders => line.push_str(&escape(c)),
            c => line.push(c),
        }
    }
    line
}

fn escape(c: char) -> String {
    format!("\\u{:04x}", u32::from(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finding(severity: Severity) -> Finding {
        Finding {
            severity,
            file: PathBuf::from("own\ner.json"),
            path: "commands.build.argv[0]".into(),
            line: Some(3),
            column: Some(7),
            message: "is \"make\"".into(),
            hint: Some("give the absolute path".into()),
        }
    }

    #[test]
    fn a_finding_is_one_line_with_place_field_value_and_hint() {
        assert_eq!(
            finding(Severity::Error).to_string(),
            "own\\ner.json:3:7: commands.build.argv[0]: is \"make\"; give the absolute path"
        );
        assert_eq!(
            finding(Severity::Warning).to_string(),
            "own\\ner.json:3:7: warning: commands.build.argv[0]: is \"make\"; give the absolute path"
        );
        assert_eq!(
            Finding::about_file(Path::new("a"), "is empty", "write one").to_string(),
            "a: is empty; write one"
        );
    }

    #[test]
    fn the_startup_line_shows_the_first_error_and_counts_the_others() {
        let one = [finding(Severity::Warning), finding(Severity::Error)];
        assert_eq!(startup_line(&one), Some(one[1].to_string()));
        assert_eq!(startup_line(&one[..1]), None);
        let two = [one[0].clone(), one[1].clone(), one[1].clone()];
        let line = startup_line(&two).unwrap();
        assert!(line.ends_with("(and 1 more: see `sluicegate config check own\\ner.json`)"));
    }

    #[test]
    fn shown_values_are_short_and_hold_no_control_characters() {
        assert_eq!(quoted("a\u{1b}[31m\n\u{202e}"), r#""a\u001b[31m\n\u202e""#);
        assert_eq!(quoted(r#"a"b\c"#), r#""a\"b\\c""#);
        assert_eq!(quoted(&"x".repeat(60)), format!("\"{}\"", "x".repeat(60)));
        assert_eq!(quoted(&"x".repeat(61)), format!("\"{}…\"", "x".repeat(60)));
    }

    proptest! {
        #[test]
        fn line_and_column_agree_with_a_walk_over_the_characters(
            text in "[a\r\n\té中😀]{0,60}",
            picks in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        ) {
            let offsets: Vec<usize> = text.char_indices().map(|(i, _)| i).chain([text.len()]).collect();
            let mut findings = Findings::new(Path::new("f"), &text);
            let mut chosen: Vec<usize> = picks.iter().map(|pick| *pick.get(&offsets)).collect();
            for offset in &chosen {
                findings.error("", Some(*offset), "", "");
            }
            chosen.sort_unstable();
            let expected: Vec<_> = chosen.iter().map(|offset| {
                let (mut line, mut column) = (1, 1);
                for c in text[..*offset].chars() {
                    if c == '\n' {
                        (line, column) = (line + 1, 1);
                    } else {
                        column += 1;
                    }
                }
                (Some(line), Some(column))
            }).collect();
            let got: Vec<_> = findings.into_sorted().iter().map(|f| (f.line, f.column)).collect();
            prop_assert_eq!(got, expected);
        }
    }
}
