//! Recordings of real programs on a terminal (`fixtures/terminals`), replayed into the screen: what it shows at the end is
//! written down beside each, and all the way there it shows, cell by cell, what a second emulator does.

use std::{fs, num::NonZeroU16, path::PathBuf};

use sluicegate::screen::{Screen, Size};
use unicode_width::UnicodeWidthChar;

const ROWS: u16 = 24;
const COLS: u16 = 80;

/// Every recording, whether it ends on the alternate screen, and where the cursor stands then.
const RECORDINGS: &[(&str, bool, (u16, u16))] = &[
    ("bash", false, (23, 25)),
    ("fzf", true, (22, 5)),
    ("git-log", false, (23, 33)),
    ("htop", true, (1, 10)),
    ("less", true, (23, 1)),
    ("progress", false, (15, 0)),
    ("python", false, (14, 14)),
    ("tmux", true, (1, 4)),
    ("tmux-ascii", true, (12, 43)),
    ("top", false, (1, 0)),
    ("vim", true, (0, 7)),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/terminals")
}

fn recording(name: &str) -> String {
    fs::read_to_string(folder().join(format!("{name}.rec"))).expect("a recording is UTF-8")
}

fn screen() -> Screen {
    Screen::new(
        Size {
            rows: ROWS,
            cols: COLS,
        },
        1000,
    )
}

/// A row's cells: a character with its marks, and nothing in the second half of a wide one.
fn cells(row: &str) -> Vec<String> {
    let mut cells: Vec<String> = Vec::new();
    for c in row.chars() {
        match c.width().unwrap_or(0) {
            0 => cells.last_mut().expect("a mark has a base").push(c),
            width => {
                cells.push(c.to_string());
                cells.extend((1..width).map(|_| String::new()));
            }
        }
    }
    cells.resize(usize::from(COLS), " ".to_owned());
    cells
}

/// The same emulator that the screen isn't made of.
struct Second(vt100::Parser);

impl Second {
    fn new() -> Second {
        let size = |number| NonZeroU16::new(number).expect("a screen has cells");
        Second(vt100::Parser::new(size(ROWS), size(COLS), 0))
    }

    fn cells(&self, row: u16) -> Vec<String> {
        let mut cells: Vec<String> = Vec::new();
        for column in 0..COLS {
            let cell = self.0.screen().cell(row, column).expect("within the size");
            cells.push(if cell.is_wide_continuation() {
                String::new()
            } else if cell.has_contents() {
                cell.contents().to_owned()
            } else {
                " ".to_owned()
            });
        }
        cells
    }
}

/// What the second emulator makes of a cell in a recording that it is known to get wrong: it has no line drawing characters,
/// which tmux uses where the locale has no Unicode, and shows the letters that stand for them.
fn without_line_drawing(name: &str, cell: String) -> String {
    match (name, cell.as_str()) {
        ("tmux-ascii", "│") => "x".to_owned(),
        ("tmux-ascii", "─") => "q".to_owned(),
        ("tmux-ascii", "├") => "t".to_owned(),
        _ => cell,
    }
}

/// The pieces in which a program's output may come.
fn pieces(text: &str, size: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = (size..rest.len())
            .find(|end| rest.is_char_boundary(*end))
            .unwrap_or(rest.len());
        let (piece, later) = rest.split_at(end);
        rest = later;
        (!piece.is_empty()).then_some(piece)
    })
}

#[test]
fn every_recording_is_known_and_small() {
    let mut found: Vec<String> = fs::read_dir(folder())
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rec"))
        .map(|path| {
            assert!(fs::metadata(&path).expect("a file").len() <= 40_000);
            path.file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    found.sort();
    let known: Vec<&str> = RECORDINGS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(found, known);
}

#[test]
fn each_recording_ends_with_the_screen_that_is_written_down() {
    for &(name, alternate, cursor) in RECORDINGS {
        let mut screen = screen();
        screen.feed(&recording(name), &mut Vec::new());
        let shown = screen.rows().join("\n") + "\n";
        let expected = folder().join(format!("{name}.txt"));
        let expected = fs::read_to_string(expected).expect("what it ends with is written down");
        assert_eq!(shown, expected, "{name} shows\n{shown}");
        assert_eq!(screen.alternate(), alternate, "{name}");
        assert_eq!(screen.cursor(), cursor, "{name}");
    }
}

#[test]
fn pieces_of_any_size_end_with_the_same_screen() {
    for &(name, ..) in RECORDINGS {
        let text = recording(name);
        let (mut whole, mut answers) = (screen(), Vec::new());
        whole.feed(&text, &mut answers);
        for size in [1, 7, 64, 4096] {
            let (mut split, mut split_answers) = (screen(), Vec::new());
            for piece in pieces(&text, size) {
                split.feed(piece, &mut split_answers);
            }
            assert_eq!(split.scrolled(2000), whole.scrolled(2000), "{name}, {size}");
            assert_eq!(split.cursor(), whole.cursor(), "{name}, {size}");
            assert_eq!(split_answers, answers, "{name}, {size}");
        }
    }
}

#[test]
fn all_along_it_shows_what_a_second_emulator_shows() {
    for &(name, ..) in RECORDINGS {
        let text = recording(name);
        let (mut screen, mut second) = (screen(), Second::new());
        let mut at = 0;
        for piece in pieces(&text, 23) {
            screen.feed(piece, &mut Vec::new());
            second.0.process(piece.as_bytes());
            at += piece.len();
            let (row, column) = second.0.screen().cursor_position();
            // It counts a pending wrap as a column.
            assert_eq!(
                screen.cursor(),
                (row, column.min(COLS - 1)),
                "{name} after {at} bytes"
            );
            for (row, line) in screen.rows().iter().enumerate() {
                let row = u16::try_from(row).expect("24 rows");
                let cells: Vec<String> = cells(line)
                    .into_iter()
                    .map(|cell| without_line_drawing(name, cell))
                    .collect();
                assert_eq!(
                    cells,
                    second.cells(row),
                    "{name} after {at} bytes, row {row}"
                );
            }
        }
    }
}
