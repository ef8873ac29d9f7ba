//! One terminal, as others see it: what tests of real terminals check, and random input.

use proptest::prelude::*;

use super::*;
use crate::screen::surface::width;

fn fed(rows: u16, cols: u16, text: &str) -> Screen {
    let mut screen = Screen::new(Size { rows, cols }, 100);
    screen.feed(text, &mut Vec::new());
    screen
}

fn answers_to(text: &str) -> String {
    let mut replies = Vec::new();
    let mut screen = Screen::new(Size { rows: 24, cols: 80 }, 0);
    screen.feed(text, &mut replies);
    String::from_utf8(replies).expect("answers are text")
}

/// What a text shows, and where it leaves the cursor.
struct Case {
    name: &'static str,
    size: (u16, u16),
    text: &'static str,
    rows: &'static [&'static str],
    cursor: (u16, u16),
}

const fn case(
    name: &'static str,
    size: (u16, u16),
    text: &'static str,
    rows: &'static [&'static str],
    cursor: (u16, u16),
) -> Case {
    Case {
        name,
        size,
        text,
        rows,
        cursor,
    }
}

/// After vttest's menus and xterm's behaviour.
#[rustfmt::skip]
const CASES: &[Case] = &[
    case("a wide character that doesn't fit goes to the next line", (3, 5), "abcd日x", &["abcd", "日x", ""], (1, 3)),
    case("without autowrap a wide character that doesn't fit isn't shown", (2, 3), "\x1b[?7lab日", &["ab", ""], (0, 2)),
    case("at most a line is repeated", (3, 4), "a\x1b[65535b", &["aaaa", "a", ""], (1, 1)),
    case("overwriting half of a wide character blanks the other half", (1, 6), "日本\x1b[1;2Hx", &[" x本"], (0, 2)),
    case("a wide character over the second half of another", (1, 6), "日本\x1b[1;2H語", &[" 語"], (0, 3)),
    case("deleting half of a wide character blanks what is left", (1, 6), "日本x\x1b[1;1H\x1b[P", &[" 本x"], (0, 0)),
    case("inserting into a wide character blanks both halves", (1, 8), "日x\x1b[1;2H\x1b[@", &["   x"], (0, 1)),
    case("erasing half of a wide character blanks both", (1, 6), "日本\x1b[1;2H\x1b[K", &[""], (0, 1)),
    case("a wide character pushed over the margin is gone", (1, 4), "a日\x1b[1;1H\x1b[@\x1b[@", &["  a"], (0, 0)),
    case("an emoji takes two cells", (1, 6), "😀x", &["😀x"], (0, 3)),
    case("a combining mark joins its base", (1, 5), "e\u{301}x", &["e\u{301}x"], (0, 2)),
    case("what is left of a cut character with a mark is blank", (1, 6), "か\u{3099}\x1b[1;2Hx\x1b[1;2H\x1b[K", &[""], (0, 1)),
    case("the one character of three columns takes two", (1, 6), "\u{17d8}x", &["\u{17d8}x"], (0, 3)),
    case("a combining mark joins a wide base", (1, 5), "か\u{3099}x", &["か\u{3099}x"], (0, 3)),
    case("a combining mark at the margin", (2, 3), "abc\u{301}d", &["abc\u{301}", "d"], (1, 1)),
    case("a joiner takes no cell", (1, 8), "a\u{200d}b", &["a\u{200d}b"], (0, 2)),
    case("the wrap at the margin waits for a character", (2, 3), "abc", &["abc", ""], (0, 2)),
    case("a carriage return cancels the wrap", (2, 3), "abc\rx", &["xbc", ""], (0, 1)),
    case("a backspace cancels the wrap", (2, 3), "abc\x08x", &["axc", ""], (0, 2)),
    case("a tab at the margin stays there", (2, 3), "abc\tx", &["abc", "x"], (1, 1)),
    case("without autowrap the last column is overwritten", (2, 3), "\x1b[?7labcdef", &["abf", ""], (0, 2)),
    case("a region scrolls alone", (5, 3), "1\r\n2\r\n3\r\n4\r\n5\x1b[2;4r\x1b[4;1H\n", &["1", "3", "4", "", "5"], (3, 0)),
    case("a line feed below the region doesn't scroll", (4, 3), "1\r\n2\r\n3\r\n4\x1b[1;2r\x1b[4;1H\n\n", &["1", "2", "3", "4"], (3, 0)),
    case("a reverse line feed at the region's top", (5, 3), "1\r\n2\r\n3\r\n4\r\n5\x1b[2;4r\x1b[2;1H\x1bM", &["1", "", "2", "3", "5"], (1, 0)),
    case("the cursor goes up to the region's top", (5, 3), "\x1b[2;4r\x1b[3;1H\x1b[9Ax", &["", "x", "", "", ""], (1, 1)),
    case("the cursor goes down to the region's end", (5, 3), "\x1b[2;4r\x1b[3;1H\x1b[9Bx", &["", "", "", "x", ""], (3, 1)),
    case("from outside the region it goes to the screen's edge", (5, 3), "\x1b[2;3r\x1b[5;1H\x1b[9Bx\x1b[1;2H\x1b[9Ay", &[" y", "", "", "", "x"], (0, 2)),
    case("a region of one line is none", (3, 3), "1\r\n2\r\n3\x1b[2;2r\n4", &["2", "3", " 4"], (2, 2)),
    case("lines are inserted and deleted", (4, 3), "1\r\n2\r\n3\r\n4\x1b[2;2H\x1b[L\x1b[4;1H\x1b[M", &["1", "", "2", ""], (3, 0)),
    case("a deleted line at the top isn't scrolled", (3, 3), "1\r\n2\r\n3\x1b[1;1H\x1b[M", &["2", "3", ""], (0, 0)),
    case("characters are inserted", (1, 6), "abcdef\x1b[1;3H\x1b[2@", &["ab  cd"], (0, 2)),
    case("characters are deleted", (1, 6), "abcdef\x1b[1;3H\x1b[2P", &["abef"], (0, 2)),
    case("characters are erased", (1, 6), "abcdef\x1b[1;3H\x1b[2X", &["ab  ef"], (0, 2)),
    case("insert mode", (1, 6), "abc\x1b[1;1H\x1b[4hX\x1b[4lY", &["XYbc"], (0, 2)),
    case("tabs are every eight columns", (1, 20), "a\tb", &["a       b"], (0, 9)),
    case("a tab overwrites nothing", (1, 20), "abcdefghij\r\tX", &["abcdefghXj"], (0, 9)),
    case("tabs are set and cleared", (1, 20), "\x1b[3g\x1b[1;4H\x1bH\r\tx", &["   x"], (0, 4)),
    case("tabs forwards and backwards", (1, 30), "\x1b[2Ix\x1b[1;26H\x1b[2Zy", &["                y"], (0, 17)),
    case("the cursor is saved and restored", (2, 5), "ab\x1b7\x1b[2;4Hx\x1b8c", &["abc", "   x"], (0, 3)),
    case("and by control sequences", (2, 5), "ab\x1b[s\x1b[2;4Hx\x1b[uc", &["abc", "   x"], (0, 3)),
    case("a saved cursor that was never saved is at home", (2, 5), "ab\x1b8c", &["cb", ""], (0, 1)),
    case("origin mode is saved with the cursor", (5, 3), "\x1b[2;4r\x1b[?6h\x1b7\x1b[?6l\x1b8\x1b[1;1Hx", &["", "x", "", "", ""], (1, 1)),
    case("the alternate screen comes and goes (1049)", (2, 5), "ab\x1b[?1049h\x1b[HXY\x1b[?1049lc", &["abc", ""], (0, 3)),
    case("the alternate screen starts blank each time", (2, 5), "\x1b[?1049hXY\x1b[?1049l\x1b[?1049h", &["", ""], (0, 0)),
    case("the alternate screen (1047)", (2, 5), "ab\x1b[?1047h\x1b[HXYZ\x1b[?1047lc", &["ab c", ""], (0, 4)),
    case("the alternate screen (47)", (2, 5), "ab\x1b[?47h\x1b[2;1HXY\x1b[?47lc", &["ab", "  c"], (1, 3)),
    case("the cursor is saved by 1048", (2, 5), "ab\x1b[?1048h\x1b[2;4Hx\x1b[?1048lc", &["abc", "   x"], (0, 3)),
    case("origin mode counts from the region and stays in it", (5, 3), "\x1b[2;4r\x1b[?6h\x1b[1;1Hx\x1b[9;1Hy", &["", "x", "", "y", ""], (3, 1)),
    case("columns are set in origin mode without moving lines", (5, 5), "\x1b[2;4r\x1b[?6h\x1b[2;1Hx\x1b[4Gy", &["", "", "x  y", "", ""], (2, 4)),
    case("line drawing", (1, 5), "\x1b(0lqk\x1b(Bq", &["┌─┐q"], (0, 4)),
    case("line drawing, shifted out and in", (1, 5), "\x1b)0\x0eq\x0fq", &["─q"], (0, 2)),
    case("a character is repeated", (1, 8), "a\x1b[3bx", &["aaaax"], (0, 5)),
    case("erasing below", (3, 3), "aaa\r\nbbb\r\nccc\x1b[2;2H\x1b[J", &["aaa", "b", ""], (1, 1)),
    case("erasing above, from the second line as well", (3, 3), "aaa\r\nbbb\r\nccc\x1b[2;2H\x1b[1J", &["", "  b", "ccc"], (1, 1)),
    case("erasing all leaves the cursor", (2, 3), "aa\x1b[2Jb", &["  b", ""], (0, 2)),
    case("erasing in a line", (3, 5), "abcde\r\nabcde\r\nabcde\x1b[1;3H\x1b[K\x1b[2;3H\x1b[1K\x1b[3;3H\x1b[2K", &["ab", "   de", ""], (2, 2)),
    case("no alignment pattern", (2, 3), "a\x1b#8", &["a", ""], (0, 1)),
    case("positions by line and column", (4, 6), "\x1b[3`a\x1b[3db\x1b[Ec\x1b[2Fd", &["  a", "d", "   b", "c"], (1, 1)),
    case("scrolling without the cursor", (3, 3), "1\r\n2\r\n3\x1b[S\x1b[2T", &["", "", "2"], (2, 1)),
    case("next line and index", (3, 3), "a\x1bEb\x1bDc", &["a", "b", " c"], (2, 2)),
    case("new line mode", (2, 3), "\x1b[20ha\nb", &["a", "b"], (1, 1)),
    case("a reset", (2, 3), "abc\x1b[?6h\x1bcx", &["x", ""], (0, 1)),
    case("a soft reset keeps text and cursor", (3, 3), "ab\x1b[2;3r\x1b[?6h\x1b[4h\x1b[!p\x1b[1;1Hx", &["xb", "", ""], (0, 1)),
    case("strings are no text", (1, 8), "a\x1b]777;x\x07b\x1bPq#0\x1b\\c\x1b_G\x1b\\d\x1b]0;t\x1b\\e", &["abcde"], (0, 5)),
    case("a control within a sequence is done", (2, 5), "ab\x1b[\x081D\x08x", &["xb", ""], (0, 1)),
    case("a sequence is cancelled", (1, 5), "a\x1b[2\x18Jb", &["aJb"], (0, 3)),
    case("columns are for the terminal's holder to choose", (2, 5), "ab\x1b[?3hc", &["abc", ""], (0, 3)),
    case("C1 controls in UTF-8 are no text", (1, 5), "a\u{85}\u{9b}b", &["ab"], (0, 2)),
];

#[test]
fn what_terminals_are_tested_for() {
    for Case {
        name,
        size: (rows, cols),
        text,
        rows: expected,
        cursor,
    } in CASES
    {
        let screen = fed(*rows, *cols, text);
        assert_eq!(screen.rows(), *expected, "{name}");
        assert_eq!(screen.cursor(), *cursor, "{name}");
    }
}

#[test]
fn what_leaves_the_top_can_be_read_and_is_counted() {
    let screen = fed(3, 10, "one\r\ntwo\r\nthree\r\nfour");
    assert_eq!(screen.rows(), ["two", "three", "four"]);
    assert_eq!(screen.scrolled(5), ["one", "two", "three", "four"]);
    assert_eq!(screen.scrolled(0), screen.rows());
    assert_eq!(screen.total_lines(), 4);
    assert_eq!(screen.cursor(), (2, 4));
}

#[test]
fn only_as_many_lines_are_kept_as_were_asked_for() {
    let mut screen = Screen::new(Size { rows: 3, cols: 10 }, 4);
    for number in 0..100 {
        screen.feed(&format!("{number}\r\n"), &mut Vec::new());
    }
    assert_eq!(screen.total_lines(), 7);
    assert_eq!(
        screen.scrolled(usize::MAX),
        ["94", "95", "96", "97", "98", "99", ""]
    );
}

#[test]
fn a_region_that_begins_below_the_top_and_the_alternate_screen_leave_nothing_behind() {
    for text in ["\x1b[2;4r\x1b[4;1H1\n2\n3\n", "\x1b[?1049h1\n2\n3\n4\n5\n"] {
        assert_eq!(fed(4, 10, text).total_lines(), 4, "{text:?}");
    }
    assert_eq!(fed(4, 10, "\x1b[1;3r1\n2\n3\n4").total_lines(), 5);
}

#[test]
fn clearing_the_screen_keeps_the_scrollback_until_that_is_cleared_too() {
    let mut screen = fed(2, 10, "1\r\n2\r\n3\r\n4");
    screen.feed("\x1b[H\x1b[2J", &mut Vec::new());
    assert_eq!(screen.scrolled(10), ["1", "2", "", ""]);
    screen.feed("\x1b[3J", &mut Vec::new());
    assert_eq!(
        (screen.scrolled(10), screen.total_lines()),
        (vec![String::new(); 2], 2)
    );
}

#[test]
fn modes_are_told() {
    let mut screen = fed(2, 10, "\x1b[?1h\x1b[?1049h");
    assert!(screen.application_cursor() && screen.alternate());
    screen.feed("\x1b[?1l\x1b[?1049l", &mut Vec::new());
    assert!(!screen.application_cursor() && !screen.alternate());
}

#[test]
fn lines_are_wrapped_anew_when_the_width_changes() {
    let mut screen = fed(4, 10, "0123456789abcde\r\nx");
    screen.resize(Size { rows: 4, cols: 5 });
    assert_eq!(screen.scrolled(9), ["01234", "56789", "abcde", "x", ""]);
    screen.resize(Size { rows: 4, cols: 20 });
    assert_eq!(screen.scrolled(9), ["01234", "56789abcde", "x", "", ""]);
    assert_eq!(screen.size(), Size { rows: 4, cols: 20 });
}

#[test]
fn a_character_of_three_columns_is_wrapped_as_one_of_two() {
    let mut screen = fed(4, 8, "aaあああ\u{17d8}あ");
    assert_eq!(screen.rows(), ["aaあああ", "\u{17d8}あ", "", ""]);
    screen.resize(Size { rows: 4, cols: 10 });
    assert_eq!(screen.rows(), ["aaあああ\u{17d8}", "あ", "", ""]);
}

#[test]
fn what_no_longer_fits_goes_to_the_scrollback() {
    let mut screen = fed(4, 10, "1\r\n2\r\n3\r\n4");
    screen.resize(Size { rows: 2, cols: 10 });
    assert_eq!(screen.rows(), ["3", "4"]);
    assert_eq!(screen.scrolled(9), ["1", "2", "3", "4"]);
    assert_eq!(screen.cursor(), (1, 1));
    screen.resize(Size { rows: 4, cols: 10 });
    assert_eq!(screen.rows(), ["1", "2", "3", "4"]);
    assert_eq!((screen.cursor(), screen.total_lines()), ((3, 1), 4));
}

#[test]
fn a_taller_screen_shows_lines_that_had_scrolled_off() {
    let mut screen = fed(3, 12, "日本 cafe\u{301}\r\nplain\r\n\r\n3\r\n4\r\n$ ");
    screen.resize(Size { rows: 9, cols: 12 });
    assert_eq!(
        screen.rows(),
        ["日本 cafe\u{301}", "plain", "", "3", "4", "$", "", "", ""]
    );
    assert_eq!((screen.cursor(), screen.total_lines()), ((5, 2), 9));
}

#[test]
fn lines_that_are_too_wide_for_the_taller_screen_stay_in_the_scrollback() {
    let mut screen = fed(2, 12, "0123456789ab\r\n日\r\n2\r\n3");
    screen.resize(Size { rows: 5, cols: 6 });
    assert_eq!(screen.rows(), ["日", "2", "3", "", ""]);
    assert_eq!(screen.scrolled(1)[0], "0123456789ab");
}

#[test]
fn the_primary_screen_is_resized_behind_the_alternate_one() {
    let mut screen = fed(4, 10, "1\r\n2\r\n3\r\n4\x1b[?1049h\x1b[Hfull");
    screen.resize(Size { rows: 2, cols: 10 });
    assert_eq!(screen.rows(), ["full", ""]);
    screen.feed("\x1b[?1049l", &mut Vec::new());
    assert_eq!(screen.rows(), ["3", "4"]);
    assert_eq!(screen.scrolled(9), ["1", "2", "3", "4"]);
}

#[test]
fn impossible_sizes_become_possible_ones() {
    let mut screen = Screen::new(Size { rows: 0, cols: 0 }, 10);
    assert_eq!(screen.size(), Size { rows: 1, cols: 1 });
    screen.feed("日本\r\nabc", &mut Vec::new());
    assert_eq!(screen.cursor().1, 0);
    screen.resize(Size {
        rows: u16::MAX,
        cols: u16::MAX,
    });
    assert_eq!(
        screen.size(),
        Size {
            rows: Size::MAX_SIDE,
            cols: Size::MAX_SIDE
        }
    );
}

#[test]
fn queries_are_answered() {
    for (query, answer) in [
        ("\x1b[5n", "\x1b[0n"),
        ("ab\r\n\x1b[6n", "\x1b[2;1R"),
        ("\x1b[3;9r\x1b[?6h\x1b[2;5H\x1b[6n", "\x1b[2;5R"),
        ("\x1b[?6n", "\x1b[?1;1R"),
        ("\x1b[c", "\x1b[?62;22c"),
        ("\x1bZ", "\x1b[?62;22c"),
        ("\x1b[>c", "\x1b[>0;10;1c"),
        (
            "\x1b[?2004$p\x1b[?2004h\x1b[?2004$p",
            "\x1b[?2004;2$y\x1b[?2004;1$y",
        ),
        ("\x1b[?2026$p", "\x1b[?2026;4$y"),
        ("\x1b[?9999$p", "\x1b[?9999;0$y"),
        ("\x1b[4h\x1b[4$p", "\x1b[4;1$y"),
        ("\x1b[18t", "\x1b[8;24;80t"),
        ("\x1b[14t", "\x1b[4;384;640t"),
        ("\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x07"),
        ("\x1b]10;?\x1b\\", "\x1b]10;rgb:e5e5/e5e5/e5e5\x1b\\"),
        (
            "\x1b]10;?;?\x07",
            "\x1b]10;rgb:e5e5/e5e5/e5e5\x07\x1b]11;rgb:0000/0000/0000\x07",
        ),
        ("\x1b]4;1;?\x07", "\x1b]4;1;rgb:cdcd/0000/0000\x07"),
        (
            "\x1b]4;231;?;244;?\x07",
            "\x1b]4;231;rgb:ffff/ffff/ffff\x07\x1b]4;244;rgb:8080/8080/8080\x07",
        ),
        ("\x1bP$qm\x1b\\", "\x1bP0$r\x1b\\"),
        ("\x1bP+q544e\x1b\\", "\x1bP0+r\x1b\\"),
    ] {
        assert_eq!(answers_to(query), answer, "{query:?}");
    }
    let version = answers_to("\x1b[>q");
    assert!(version.starts_with("\x1bP>|sluicegate("), "{version:?}");
}

#[test]
fn what_is_no_query_gets_no_answer() {
    for text in [
        "text\r\n",
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\x1b]11;#ffffff\x07",
        "\x1b]52;c;?\x07",
        "\x1b[0n",
        "\x1b[?1u",
        "\x07",
        "\x1b[?62;22c",
        "\x1b[8;24;80t",
    ] {
        assert_eq!(answers_to(text), "", "{text:?}");
    }
}

#[test]
fn answers_that_nobody_takes_do_not_pile_up() {
    let mut replies = Vec::new();
    let mut screen = Screen::new(Size { rows: 24, cols: 80 }, 0);
    for _ in 0..100 {
        screen.feed(&"\x1b[c\x1b]4;1;?\x07".repeat(100), &mut replies);
    }
    assert!(replies.len() <= ANSWERS_LIMIT + 64, "{}", replies.len());
}

#[test]
fn shell_marks_are_found_wherever_they_are_split() {
    let text = "\x1b]133;A\x07$ \x1b]133;B\x1b\\false\r\n\x1b]133;C\x07\x1b]133;D;1;aid=3\x1b\\";
    for at in 0..text.len() {
        let mut screen = Screen::new(Size { rows: 4, cols: 20 }, 10);
        screen.feed(&text[..at], &mut Vec::new());
        screen.feed(&text[at..], &mut Vec::new());
        assert_eq!(
            screen.marks(),
            Marks {
                seen: true,
                state: super::super::CommandState::Idle,
                exit_code: Some(1),
                finished: 1
            }
        );
        assert_eq!(screen.rows(), ["$ false", "", "", ""]);
    }
}

#[test]
fn marks_are_kept_to_a_few_for_each_cell() {
    let mut screen = fed(2, 10, "e");
    for _ in 0..1000 {
        screen.feed(&"\u{301}".repeat(1000), &mut Vec::new());
    }
    assert_eq!(screen.rows()[0].chars().count(), 1 + 8);
}

/// The same terminal, each line drawn at once.
struct Direct(Surface);

impl Sink for Direct {
    fn text(&mut self, run: &str) {
        self.0.print(run);
    }

    fn control(&mut self, byte: u8) {
        self.0.control(byte);
    }

    fn escape(&mut self, intermediate: u8, last: u8) {
        self.0.escape(intermediate, last);
    }

    fn csi(&mut self, sequence: &Csi) {
        self.0.csi(sequence);
    }

    fn command(&mut self, _: &str, _: bool) {}

    fn device_string(&mut self, _: &str) {}
}

/// Mostly lines, as programs write them, some of them wrapped, with whatever may stand between.
fn lines_and_more() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        12 => "[a-z ]{0,9}\r\n",
        3 => "[a-z ]{0,60}\r\n",
        2 => "(\x1b\\[[0-9;]{0,5}m)?[a-z]{0,12}\t[a-z]{0,3}\t?(\x1b\\[m)?\r\n",
        2 => "[a-z]{0,30}",
        2 => proptest::sample::select(vec![
            "\r", "\n", "\r\r\n", "\n\n", "\t", "\x08", "\x07", "\x00", "日本語\r\n", "é", "e\u{301}", "\u{301}", "\u{1f600}",
        ]).prop_map(str::to_owned),
        1 => "\x1b\\[[0-9]{0,2}(;[0-9]{1,2})?[A-Za-z@`]",
        1 => proptest::sample::select(vec![
            "\x1b[2;4r", "\x1b[r", "\x1b[?6h", "\x1b[?6l", "\x1b[?7l", "\x1b[?7h", "\x1b[4h", "\x1b[4l", "\x1b(0", "\x1b(B", "\x0e",
            "\x0f", "\x1bM", "\x1bD", "\x1b7", "\x1b8", "\x1bH", "\x1b[3g", "\x1b[?1049h", "\x1b[?1049l", "\x1b[?47h", "\x1b[?47l",
            "\x1bc", "\x1b[!p", "\x1b[20h", "\x1b[20l", "\x1b#8", "\x1b[H\x1b[2J", "\x1b[3J", "\x1b[6n",
        ]).prop_map(str::to_owned),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// Everything that can be asked of a screen.
fn look(screen: &Screen) -> (Vec<String>, (u16, u16), usize, bool, bool, Marks) {
    (
        screen.scrolled(usize::MAX),
        screen.cursor(),
        screen.total_lines(),
        screen.alternate(),
        screen.application_cursor(),
        screen.marks(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn lines_that_are_not_drawn_at_once_make_no_difference(
        text in lines_and_more(), rows in 1u16..8, cols in 2u16..20, scrollback in 0usize..30,
    ) {
        let size = Size { rows, cols };
        let mut screen = Screen::new(size, scrollback);
        screen.feed(&text, &mut Vec::new());
        let mut direct = Direct(Surface::new(size, scrollback));
        Parser::default().advance(&text, &mut direct);
        let surface = direct.0;
        let mut expected: Vec<String> = surface.scrollback.newest(usize::MAX).collect();
        expected.extend((0..surface.rows()).map(|row| surface.row(row)));
        prop_assert_eq!(screen.scrolled(usize::MAX), expected);
        let (row, column) = surface.position();
        prop_assert_eq!(screen.cursor(), (row as u16, column as u16));
    }

    #[test]
    fn where_the_text_is_split_makes_no_difference(
        text in lines_and_more(), cuts in proptest::collection::vec(0usize..2000, 0..8), rows in 1u16..8, cols in 1u16..20,
    ) {
        let size = Size { rows, cols };
        let mut whole = Screen::new(size, 20);
        let mut answers = Vec::new();
        whole.feed(&text, &mut answers);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (text.len() + 1)).filter(|cut| text.is_char_boundary(*cut)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut split = Screen::new(size, 20);
        let mut split_answers = Vec::new();
        for ends in cuts.windows(2) {
            split.feed(&text[ends[0]..ends[1]], &mut split_answers);
            // Looking changes nothing.
            look(&split);
        }
        prop_assert_eq!(look(&split), look(&whole));
        prop_assert_eq!(split_answers, answers);
    }

    #[test]
    fn no_input_and_no_size_breaks_it(
        steps in proptest::collection::vec(
            (prop_oneof![
                lines_and_more(),
                proptest::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
                "(\x1b[\\[\\]P(#][ -~]{0,8}|[\\x00-\\x1f]|[あ-ん]|\\PC){0,60}",
            ], 0u16..40, 0u16..40),
            1..8,
        ),
    ) {
        let mut screen = Screen::new(Size { rows: 5, cols: 10 }, 50);
        let mut replies = Vec::new();
        for (text, rows, cols) in steps {
            screen.feed(&text, &mut replies);
            check(&screen)?;
            screen.resize(Size { rows, cols });
            check(&screen)?;
        }
    }
}

/// What holds of every screen.
fn check(screen: &Screen) -> Result<(), TestCaseError> {
    let size = screen.size();
    let rows = screen.rows();
    prop_assert_eq!(rows.len(), usize::from(size.rows));
    let (row, column) = screen.cursor();
    prop_assert!(row < size.rows && column < size.cols);
    prop_assert!(rows.iter().all(|row| !row.ends_with(' ')));
    let all = screen.scrolled(usize::MAX);
    prop_assert_eq!(all.len(), screen.total_lines());
    prop_assert!(all.ends_with(&rows));
    prop_assert!(all.len() <= rows.len() + 50);
    let widest = rows.iter().map(|row| unicode_width(row)).max().unwrap_or(0);
    prop_assert!(
        widest <= usize::from(size.cols).max(2),
        "a row of {} columns",
        widest
    );
    Ok(())
}

fn unicode_width(row: &str) -> usize {
    row.chars().filter_map(width).sum()
}
