//! Folded lines beside what a terminal emulator shows: of what real programs wrote to a terminal of 120 columns
//! (`fixtures/tty`), and of random edits.

use std::{fs, num::NonZero, path::Path};

use proptest::{collection::vec, prelude::*};
use sluicegate::text::fold::Fold;
use unicode_width::UnicodeWidthStr;

/// Wider than any line here, so that none is wrapped.
const COLUMNS: u16 = 500;

/// Lines as the fold shows them, with tabs as the blanks that they take.
fn folded(text: &str) -> Vec<String> {
    let mut fold = Fold::default();
    let lines = text.split('\n').map(|line| {
        fold.clear();
        fold.take(line);
        let mut shown = String::new();
        assert!(!fold.show(&mut shown).cut);
        let mut expanded = String::new();
        for (index, part) in shown.split('\t').enumerate() {
            if index > 0 {
                let column = expanded.width();
                expanded.push_str(&" ".repeat(8 - column % 8));
            }
            expanded.push_str(part);
        }
        expanded.trim_end().to_owned()
    });
    trimmed(lines.collect())
}

/// The rows of an emulator.
fn emulated(text: &str) -> Vec<String> {
    let rows = u16::try_from(text.matches('\n').count() + 2).ok();
    let rows = rows.and_then(NonZero::new).expect("a short recording");
    let columns = NonZero::new(COLUMNS).expect("not zero");
    let mut emulator = vt100::Parser::new(rows, columns, 0);
    emulator.process(text.as_bytes());
    let rows = emulator.screen().rows(0, COLUMNS);
    trimmed(rows.map(|row| row.trim_end().to_owned()).collect())
}

fn trimmed(mut lines: Vec<String>) -> Vec<String> {
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[test]
fn recorded_output_folds_to_what_an_emulator_shows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tty");
    let mut recordings = 0;
    for entry in fs::read_dir(folder).expect("the recordings are there") {
        let path = entry.expect("a recording").path();
        if path.extension().is_none_or(|extension| extension != "raw") {
            continue;
        }
        let bytes = fs::read(&path).expect("readable");
        let text = String::from_utf8(bytes).expect("real programs wrote UTF-8");
        let (folded, emulated) = (folded(&text), emulated(&text));
        for (number, (ours, theirs)) in folded.iter().zip(&emulated).enumerate() {
            assert_eq!(ours, theirs, "line {} of {}", number + 1, path.display());
        }
        assert_eq!(folded.len(), emulated.len(), "{}", path.display());
        recordings += 1;
    }
    assert!(recordings >= 6, "only {recordings} recordings");
}

fn token(text: &'static str, edits: &str) -> impl Strategy<Value = String> + use<> {
    let edit = (
        0u16..12,
        prop::sample::select(edits.chars().collect::<Vec<_>>()),
    );
    let other = prop::sample::select(vec![
        "\r",
        "\u{8}",
        "\u{1b}[1;31m",
        "\u{1b}]0;title\u{7}",
        "\u{1b}]0;title\u{1b}\\",
        "\u{1b}(B",
        "\u{1b}[?25l",
        "\u{7}",
        "\u{1b}Pq\u{1b}\\",
    ]);
    prop_oneof![
        5 => text.prop_map(String::from),
        3 => edit.prop_map(|(count, last)| format!("\u{1b}[{count}{last}")),
        1 => other.prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn random_edits_fold_to_what_an_emulator_shows(tokens in vec(token("[a-z é\t]", "CDGKXP@`"), 0..30)) {
        let line: String = tokens.concat();
        prop_assert_eq!(folded(&line), emulated(&line), "{:?}", line);
    }

    // Nothing is inserted or deleted within a wide character: emulators don't agree on what becomes of it.
    #[test]
    fn wide_characters_are_written_over_as_an_emulator_does(tokens in vec(token("[a-z 第行]|e\u{301}", "CDGKX`"), 0..30)) {
        let line: String = tokens.concat();
        prop_assert_eq!(folded(&line), emulated(&line), "{:?}", line);
    }
}
