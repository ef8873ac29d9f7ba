//! The parser against `vte`'s.

use alacritty_terminal::vte;
use proptest::prelude::*;

use super::*;

#[derive(Debug, Default, PartialEq)]
struct Seen {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Control(u8),
    Escape(u8, u8),
    Csi(u8, Vec<u16>, u8, u8),
    Command(Vec<u8>, bool),
    Device,
}

impl Seen {
    fn add_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(before)) => before.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }
}

impl Sink for Seen {
    fn text(&mut self, run: &str) {
        self.add_text(run);
    }

    fn control(&mut self, byte: u8) {
        self.parts.push(Part::Control(byte));
    }

    fn escape(&mut self, intermediate: u8, last: u8) {
        self.parts.push(Part::Escape(intermediate, last));
    }

    fn csi(&mut self, sequence: &Csi) {
        self.parts.push(Part::Csi(
            sequence.private,
            sequence.parameters().to_vec(),
            sequence.intermediate,
            sequence.last,
        ));
    }

    fn command(&mut self, text: &str, bell: bool) {
        self.parts
            .push(Part::Command(text.as_bytes().to_vec(), bell));
    }

    fn device_string(&mut self, _: &str) {
        self.parts.push(Part::Device);
    }
}

/// What `vte` makes of it, told in our terms.
#[derive(Default)]
struct Twin(Seen);

impl vte::Perform for Twin {
    fn print(&mut self, c: char) {
        if c == '\x7f' {
            self.0.control(0x7f);
        } else {
            self.0.add_text(c.encode_utf8(&mut [0; 4]));
        }
    }

    fn execute(&mut self, byte: u8) {
        self.0.control(byte);
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _: bool, byte: u8) {
        if let [] | [_] = intermediates {
            self.0
                .escape(intermediates.first().copied().unwrap_or(0), byte);
        }
    }

    fn csi_dispatch(
        &mut self,
        parameters: &vte::Params,
        intermediates: &[u8],
        ignored: bool,
        action: char,
    ) {
        let (private, rest) = match intermediates {
            [private @ b'<'..=b'?', rest @ ..] => (*private, rest),
            rest => (0, rest),
        };
        if ignored || rest.len() > 1 || (private == 0 && rest.is_empty() && action == 'm') {
            return;
        }
        self.0.parts.push(Part::Csi(
            private,
            parameters.iter().map(|parts| parts[0]).collect(),
            rest.first().copied().unwrap_or(0),
            action as u8,
        ));
    }

    fn osc_dispatch(&mut self, fields: &[&[u8]], bell: bool) {
        self.0.parts.push(Part::Command(fields.join(&b';'), bell));
    }

    fn unhook(&mut self) {
        self.0.parts.push(Part::Device);
    }
}

fn seen(pieces: &[&str]) -> Vec<Part> {
    let mut parser = Parser::default();
    let mut seen = Seen::default();
    for piece in pieces {
        parser.advance(piece, &mut seen);
    }
    seen.parts
}

#[test]
fn text_controls_and_sequences_come_in_their_order() {
    assert_eq!(
        seen(&["a\r\n\x1b[2;5Hé\x1b[?25l\x1b(0\x1b]133;D;1\x07\x1b[0 q"]),
        [
            Part::Text("a".to_owned()),
            Part::Control(b'\r'),
            Part::Control(b'\n'),
            Part::Csi(0, vec![2, 5], 0, b'H'),
            Part::Text("é".to_owned()),
            Part::Csi(b'?', vec![25], 0, b'l'),
            Part::Escape(b'(', b'0'),
            Part::Command(b"133;D;1".to_vec(), true),
            Part::Csi(0, vec![0], b' ', b'q'),
        ]
    );
}

#[test]
fn colours_are_passed_over_whole_or_split() {
    let whole = "a\x1b[1;38;5;12mb\x1b[mc\x1b[4:3md";
    assert_eq!(seen(&[whole]), [Part::Text("abcd".to_owned())]);
    for at in 0..whole.len() {
        assert_eq!(
            seen(&[&whole[..at], &whole[at..]]),
            [Part::Text("abcd".to_owned())]
        );
    }
}

#[test]
fn a_sequence_of_colours_with_a_private_mark_is_none() {
    assert_eq!(
        seen(&["\x1b[>4;2m"]),
        [Part::Csi(b'>', vec![4, 2], 0, b'm')]
    );
}

#[test]
fn an_endless_string_is_kept_to_its_limit_and_still_ends() {
    let mut parser = Parser::default();
    let mut seen = Seen::default();
    parser.advance("\x1b]2;", &mut seen);
    for _ in 0..1000 {
        parser.advance(&"é".repeat(1000), &mut seen);
    }
    assert!(parser.string.capacity() <= 2 * STRING_LIMIT);
    parser.advance("\x1b\\x", &mut seen);
    assert!(matches!(&seen.parts[0], Part::Command(text, false) if text.len() <= STRING_LIMIT + 2));
    assert_eq!(
        seen.parts[1..],
        [Part::Escape(0, b'\\'), Part::Text("x".to_owned())]
    );
}

#[test]
fn an_endless_list_of_parameters_is_not_obeyed() {
    let list = "1;".repeat(100_000);
    assert_eq!(seen(&["\x1b[", &list, "Hx"]), [Part::Text("x".to_owned())]);
    assert_eq!(
        seen(&["\x1b[99999999999999A"]),
        [Part::Csi(0, vec![u16::MAX], 0, b'A')]
    );
}

/// Text in which sequences are likely. At most 14 parameters, since `vte` takes 32 of them; no byte 0x9c, at which it ends a
/// device control string even in the middle of a character.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ -~]{0,40}",
        2 => proptest::string::string_regex("[éß日語\u{1f600}\u{301}]{1,4}").expect("a pattern"),
        2 => proptest::sample::select(vec![
            "\r", "\n", "\t", "\x08", "\x07", "\x00", "\x7f", "\x18", "\x1a", "\x1b", "\x1b[", "\x1b]", "\x1b\\", "\x1bP",
            "\x1b_", "\x1b(", "\x1bM", "?", ";", ":", "m", "H", "$", " q",
        ])
        .prop_map(str::to_owned),
        2 => "\x1b\\[[<=>?]?[0-9;:]{0,14}[ !$\"']?[@-~]",
        1 => "\x1b\\][0-9]{1,3};[ -~é]{0,30}(\x07|\x1b\\\\)",
        1 => "\x1bP[0-9;]{0,4}[$+]?[a-z][ -~]{0,20}\x1b\\\\",
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

/// Without what differs on purpose: of a device control string we tell the beginning even when it isn't whole, and `vte`'s
/// second intermediate of an escape sequence.
fn comparable(parts: Vec<Part>) -> Vec<Part> {
    let mut kept = Seen::default();
    for part in parts {
        match part {
            Part::Device => {}
            Part::Text(text) => kept.add_text(&text),
            Part::Command(text, bell) => {
                let text = String::from_utf8_lossy(&text[..text.len().min(STRING_LIMIT)]);
                kept.parts
                    .push(Part::Command(text.as_bytes().to_vec(), bell));
            }
            other => kept.parts.push(other),
        }
    }
    kept.parts
}

proptest! {
    #[test]
    fn it_finds_the_same_sequences_as_vte(text in any_text()) {
        let mut twin = Twin::default();
        vte::Parser::new().advance(&mut twin, text.as_bytes());
        prop_assert_eq!(comparable(seen(&[&text])), comparable(twin.0.parts));
    }

    #[test]
    fn where_it_is_split_makes_no_difference(text in any_text(), cuts in proptest::collection::vec(0usize..1000, 0..6)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (text.len() + 1)).filter(|cut| text.is_char_boundary(*cut)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&str> = cuts.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
        prop_assert_eq!(seen(&pieces), seen(&[&text]));
    }

    #[test]
    fn the_end_of_a_printable_run_is_found(text in "[ -~é\t\r\x7f]{0,120}") {
        let naive = text.bytes().position(|byte| byte < 0x20 || byte == 0x7f).unwrap_or(text.len());
        prop_assert_eq!(printable(text.as_bytes()), naive);
    }
}
