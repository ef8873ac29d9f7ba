use proptest::{collection::vec, prelude::*, sample::Index};

use super::*;
use crate::text::floor;

const TERMINAL: Echoing = Echoing::Terminal { busy: false };
const BUSY: Echoing = Echoing::Terminal { busy: true };
const PROGRAM: Echoing = Echoing::Program;

fn typed(echoing: Echoing, prompt: &str, text: &str) -> Typed {
    Typed {
        echoing,
        prompt: prompt.to_owned(),
        cols: 80,
        text: text.to_owned(),
    }
}

/// What is no echo of `output`, which comes in pieces that end at `cuts`.
fn visible(typed: &Typed, output: &str, cuts: &[usize]) -> String {
    let (mut echo, mut out, mut from) = (Echo::new(typed), String::new(), 0);
    for &to in cuts.iter().chain([&output.len()]) {
        echo.take(&output[from..to], &mut out);
        from = to;
    }
    echo.end(&mut out);
    out
}

/// Holds for the output in one piece, and for each two pieces of it.
#[track_caller]
fn shows(echoing: Echoing, prompt: &str, text: &str, output: &str, expected: &str) {
    let typed = typed(echoing, prompt, text);
    assert_eq!(visible(&typed, output, &[]), expected, "in one piece");
    for cut in 0..output.len() {
        if output.is_char_boundary(cut) {
            assert_eq!(visible(&typed, output, &[cut]), expected, "cut at {cut}");
        }
    }
}

fn digits() -> String {
    "0123456789".repeat(9)
}

#[test]
fn the_line_disciplines_echo_is_no_output_and_the_same_text_after_it_is() {
    shows(TERMINAL, "", "hi\r", "hi\r\nhi\r\n", "hi\r\n");
    shows(
        TERMINAL,
        "Name: ",
        "Ann\r",
        "Ann\r\nHello Ann\r\n",
        "Hello Ann\r\n",
    );
    shows(
        TERMINAL,
        "> ",
        "yes\r",
        "yes\r\nyou said> yes\r\n",
        "you said> yes\r\n",
    );
    shows(TERMINAL, "", "a\nb\r", "a\r\nb\r\na\r\nb\r\n", "a\r\nb\r\n");
    shows(TERMINAL, "", "a\nb\r", "a\r\na\r\nb\r\nb\r\n", "a\r\nb\r\n");
    let long = digits();
    shows(
        TERMINAL,
        "$ ",
        &format!("{long}\r"),
        &format!("{long}\r\n{long}\r\n"),
        &format!("{long}\r\n"),
    );
}

#[test]
fn an_editors_echo_is_no_output_and_the_same_text_after_it_is() {
    // bash
    shows(
        PROGRAM,
        "$ ",
        "echo hi\r",
        "echo hi\r\n\u{1b}[?2004l\rhi\r\n\u{1b}[?2004h$ ",
        "\u{1b}[?2004l\rhi\r\n\u{1b}[?2004h$ ",
    );
    // python3
    shows(
        PROGRAM,
        ">>> ",
        "print(\"hi\")\r",
        "print(\"hi\")\r\nhi\r\n>>> ",
        "hi\r\n>>> ",
    );
    // node
    shows(
        PROGRAM,
        "> ",
        "console.log(\"hi\")\r",
        "console.log(\"hi\")\r\r\nhi\r\n\u{1b}[90mundefined\u{1b}[39m\r\n\u{1b}[1G\u{1b}[0J> \u{1b}[3G",
        "hi\r\n\u{1b}[90mundefined\u{1b}[39m\r\n\u{1b}[1G\u{1b}[0J> \u{1b}[3G",
    );
    // An answer that is the input.
    shows(PROGRAM, "> ", "7\r", "7\r\n7\r\n> ", "7\r\n> ");
}

#[test]
fn a_line_that_wraps_is_an_echo_however_the_editor_goes_on() {
    let line = format!("echo {}", digits());
    let output = format!("{line}\r\n\u{1b}[?2004l\r{}\r\n", digits());
    let rest = format!("\u{1b}[?2004l\r{}\r\n", digits());
    shows(PROGRAM, "$ ", &format!("{line}\r"), &output, &rest);
    // bash, as it was recorded: it goes back to the start of the line that has just wrapped, and comes again.
    let exact = format!("echo {}", "x".repeat(73));
    let up = format!(" \r\u{1b}[A{}\u{1b}[Kx\r\n", "\u{1b}[C".repeat(79));
    shows(
        PROGRAM,
        "$ ",
        &format!("{exact}\r"),
        &format!("{exact}{up}\u{1b}[?2004l\rout\r\n"),
        "\u{1b}[?2004l\rout\r\n",
    );
    // Wide characters leave a column free at the margin.
    let wide = "世".repeat(40);
    let drawn = format!("{} \u{1b}[K{}", "世".repeat(36), "世".repeat(4));
    shows(
        PROGRAM,
        "$ ",
        &format!("echo {wide}\r"),
        &format!("echo {drawn}\r\n{wide}\r\n"),
        &format!("{wide}\r\n"),
    );
}

#[test]
fn an_editor_that_draws_its_line_anew_with_each_character_is_followed() {
    let mut output = String::new();
    for end in 1..="echo hi".len() {
        let part = &"echo hi"[..end];
        output.push_str(&format!("\r> {part}\u{1b}[0K\r\u{1b}[{}C", 2 + end));
    }
    output.push_str("\r\nhi\r\n> ");
    shows(PROGRAM, "> ", "echo hi\r", &output, "hi\r\n> ");
    // Another prompt is left behind.
    shows(
        PROGRAM,
        "~/src main ❯ ",
        "ls\r",
        "ls\r\u{1b}[K❯ ls\r\na b\r\n",
        "a b\r\n",
    );
    // Something stands at the right margin.
    let right = format!("% ls{}12:00\u{1b}[{}D", " ".repeat(60), 65);
    shows(
        PROGRAM,
        "% ",
        "ls\r",
        &format!("\r{right}\r\na b\r\n"),
        "a b\r\n",
    );
}

#[test]
fn several_lines_are_echoed_each_after_its_prompt_with_output_between() {
    shows(
        PROGRAM,
        "$ ",
        "echo one\necho two\r",
        "echo one\r\n\u{1b}[?2004l\rone\r\n\u{1b}[?2004h$ echo two\r\n\u{1b}[?2004l\rtwo\r\n",
        "\u{1b}[?2004l\rone\r\n\u{1b}[?2004l\rtwo\r\n",
    );
    shows(
        PROGRAM,
        ">>> ",
        "for i in range(2):\n  print(i)\n\r",
        "for i in range(2):\r\n...   print(i)\r\n... \r\n0\r\n1\r\n>>> ",
        "... \r\n0\r\n1\r\n>>> ",
    );
}

#[test]
fn a_busy_shell_echoes_twice_and_neither_is_output() {
    shows(
        BUSY,
        "",
        "echo hi\r",
        "echo hi\r\n\u{1b}[?2004h$ echo hi\r\n\u{1b}[?2004l\rhi\r\n\u{1b}[?2004h$ ",
        "\u{1b}[?2004l\rhi\r\n\u{1b}[?2004h$ ",
    );
    // The rest of an earlier command comes between.
    shows(
        BUSY,
        "",
        "echo hi\r",
        "echo hi\r\ndone hi\r\n$ echo hi\r\nhi\r\n",
        "done hi\r\nhi\r\n",
    );
    // Its editor was ready before the line came.
    shows(BUSY, "", "echo hi\r", "$ echo hi\r\nhi\r\n", "hi\r\n");
    // A program that wasn't ready yet says what it got.
    shows(BUSY, "", "hi\r", "hi\r\nGot: hi\r\n", "Got: hi\r\n");
    // It takes the line without showing it again.
    shows(
        BUSY,
        "",
        "hi\r",
        "hi\r\nhi\r\nsay hi\r\n",
        "hi\r\nsay hi\r\n",
    );
}

#[test]
fn what_was_typed_before_may_come_between() {
    let input = "sleep 1; echo hi\r";
    // Its own echo was late, so it isn't known at which prompt the input was typed.
    shows(
        BUSY,
        "",
        input,
        "sleep 1\r\nsleep 1; echo hi\r\n$ sleep 1\r\n\r$ sleep 1; echo hi\r\nhi\r\n",
        "sleep 1\r\n$ sleep 1\r\nhi\r\n",
    );
    // It is a part of the input, and the editor has just handed the terminal back to the line discipline.
    shows(
        PROGRAM,
        "$ ",
        input,
        "sleep 1\r\n\u{1b}[?2004l\rsleep 1; echo hi\r\n$ sleep 1; echo hi\r\n\rhi\r\n",
        "sleep 1\r\n\rhi\r\n",
    );
}

#[test]
fn nothing_is_hidden_when_nobody_echoes() {
    shows(
        Echoing::Nobody,
        "Password: ",
        "secret\r",
        "\r\nsecret\r\n",
        "\r\nsecret\r\n",
    );
    shows(
        PROGRAM,
        "Password: ",
        "secret\r",
        "\r\nPassword ok\r\n$ ",
        "\r\nPassword ok\r\n$ ",
    );
    shows(
        PROGRAM,
        "",
        "y\r",
        "yes, thanks\r\nbye\r\n",
        "yes, thanks\r\nbye\r\n",
    );
    shows(PROGRAM, "Name: ", "y\r", "yes\r\n", "yes\r\n");
    shows(
        PROGRAM,
        "",
        "hello world\r",
        "hello\r\nbye\r\n",
        "hello\r\nbye\r\n",
    );
    shows(TERMINAL, "", "hello\r", "help\r\n", "help\r\n");
    shows(
        PROGRAM,
        "",
        "quit\r",
        "\u{1b}[2J\u{1b}[5;5Hquit?",
        "\u{1b}[2J\u{1b}[5;5Hquit?",
    );
}

#[test]
fn an_input_without_enter_is_echoed_up_to_its_last_character() {
    shows(PROGRAM, "$ ", "echo hi", "echo hi", "");
    shows(TERMINAL, "", "hi", "hi there\r\n", " there\r\n");
    shows(PROGRAM, "Go? ", "y", "y\r\nyes\r\n", "\r\nyes\r\n");
    shows(PROGRAM, "Go? ", "y", "n\r\nyes\r\n", "n\r\nyes\r\n");
}

#[test]
fn of_an_input_with_control_characters_the_start_is_compared() {
    shows(
        PROGRAM,
        "$ ",
        "cat fi\t\r",
        "cat file.txt\r\ntext\r\n",
        "text\r\n",
    );
    shows(PROGRAM, "$ ", "\u{3}", "^C\r\n$ ", "^C\r\n$ ");
}

#[test]
fn a_pause_lets_through_what_is_no_echo_by_then() {
    let mut out = String::new();
    let mut echo = Echo::new(&typed(PROGRAM, "", "1234\r"));
    echo.take("Enter code: ", &mut out);
    assert_eq!(out, "", "an editor may be drawing");
    echo.pause(&mut out);
    assert_eq!(out, "Enter code: ");
    // The input is shown after all.
    echo.take("1234\r\nok 1234\r\n", &mut out);
    assert_eq!(out, "Enter code: ok 1234\r\n");
    assert!(echo.is_over());
    // A part of the echo stays back.
    let mut out = String::new();
    let mut echo = Echo::new(&typed(PROGRAM, "$ ", "echo hi\r"));
    echo.take("echo", &mut out);
    echo.pause(&mut out);
    echo.take(" hi\r\nhi", &mut out);
    assert_eq!(out, "hi");
}

#[test]
fn an_echo_that_never_comes_holds_nothing_back_for_ever() {
    let mut out = String::new();
    let mut echo = Echo::new(&typed(PROGRAM, "", "xyz\r"));
    let flood = "0".repeat(MAX_HELD + 1);
    echo.take(&flood, &mut out);
    assert_eq!(out, flood);
    echo.take("\n", &mut out);
    for _ in 0..MAX_LINES {
        echo.take("line\n", &mut out);
    }
    assert!(echo.is_over());
}

#[test]
fn what_was_typed_is_in_no_debug_text() {
    let typed = typed(PROGRAM, "", "hunter2\r");
    let text = format!("{typed:?} {:?}", Echo::new(&typed));
    assert!(!text.contains("hunter2"), "{text}");
}

fn echoing() -> impl Strategy<Value = Echoing> {
    prop_oneof![Just(TERMINAL), Just(BUSY), Just(PROGRAM)]
}

fn cuts(output: &str, indices: &[Index]) -> Vec<usize> {
    let mut cuts: Vec<usize> = indices
        .iter()
        .map(|index| floor(output, index.index(output.len() + 1)))
        .collect();
    cuts.sort_unstable();
    cuts
}

#[test]
fn a_part_of_the_echo_is_no_prompt_and_what_follows_it_is() {
    let asked = typed(PROGRAM, "remote$ ", "echo a $?; cat > x\r");
    for row in [
        "remote$ e",
        "remote$ echo a $",
        "remote$ echo a $?",
        "remote$ echo a $?; cat >",
        "remote$ echo a $?; cat > x",
        "other> echo a $?",
    ] {
        assert!(asked.is_shown_in(row), "{row:?}");
    }
    for row in [
        "",
        "remote$ ",
        "remote$",
        "> ",
        "a $?",
        "remote$ echo b $?",
        "ho a $?",
    ] {
        assert!(!asked.is_shown_in(row), "{row:?}");
    }
    let lines = typed(PROGRAM, ">>> ", "if x:\r  f(a)\r");
    assert!(lines.is_shown_in(">>> if x:"));
    assert!(lines.is_shown_in("...   f(a"));
    assert!(!lines.is_shown_in("... "));
    let long = format!("{}?{}\r", "x".repeat(100), "y".repeat(20));
    let long = typed(PROGRAM, "$ ", &long);
    assert!(long.is_shown_in(&format!("{}?", "x".repeat(22))));
    assert!(!long.is_shown_in(&format!("{}?", "x".repeat(23))));
    let secret = typed(Echoing::Nobody, "", "Password:\r");
    assert!(!secret.is_shown_in("Password:"));
}

proptest! {
    /// The twin: an exact echo is what it is, whatever follows it.
    #[test]
    fn exactly_the_echo_is_taken_from_the_start(
        echoing in prop_oneof![Just(TERMINAL), Just(PROGRAM)],
        prompt in prop_oneof![Just(""), Just("$ "), Just("user@host:~ # ")],
        input in "[!-~é世]{1,90}",
        after in "([ -~]{0,20}(\r\n)?){0,5}",
        places in vec(any::<Index>(), 0..6),
    ) {
        let output = format!("{input}\r\n{after}");
        let typed = typed(echoing, prompt, &format!("{input}\r"));
        prop_assert_eq!(visible(&typed, &output, &cuts(&output, &places)), after);
    }

    /// Output without the input's last character can't hold its echo.
    #[test]
    fn text_without_the_input_is_all_visible(
        echoing in echoing(),
        prompt in prop_oneof![Just(""), Just("$ ")],
        input in "[a-f]{1,5}X",
        output in "([ -W\u{1b}\\[a-z]{0,20}(\r\n)?){0,8}",
        places in vec(any::<Index>(), 0..6),
    ) {
        let typed = typed(echoing, prompt, &format!("{input}\r"));
        prop_assert_eq!(visible(&typed, &output, &cuts(&output, &places)), output);
    }

    /// Nothing is made up, moved, or lost but whole lines.
    #[test]
    fn what_is_visible_is_a_part_of_the_output_in_its_order(
        echoing in echoing(),
        input in "[ab]{1,3}",
        output in "([ab$ \r\u{8}]{0,6}\n?){0,8}",
        places in vec(any::<Index>(), 0..6),
    ) {
        let typed = typed(echoing, "$ ", &format!("{input}\r"));
        let visible = visible(&typed, &output, &cuts(&output, &places));
        let mut rest = output.chars();
        for char in visible.chars() {
            prop_assert!(rest.any(|other| other == char));
        }
    }
}
