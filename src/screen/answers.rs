//! What a terminal answers to queries, so that no program waits for it in vain.
//!
//! It gives itself out as a VT220 with colours and, by its number, as one of the terminals that programs ask for nothing
//! further.

use std::fmt::Write;

use alacritty_terminal::term::TermMode;

use super::{parser::Csi, surface::Surface};

/// Light text on a dark ground.
const FOREGROUND: [u8; 3] = [0xe5, 0xe5, 0xe5];
const BACKGROUND: [u8; 3] = [0, 0, 0];

/// xterm's first sixteen colours.
const NAMED: [[u8; 3]; 16] = [
    [0x00, 0x00, 0x00],
    [0xcd, 0x00, 0x00],
    [0x00, 0xcd, 0x00],
    [0xcd, 0xcd, 0x00],
    [0x00, 0x00, 0xee],
    [0xcd, 0x00, 0xcd],
    [0x00, 0xcd, 0xcd],
    [0xe5, 0xe5, 0xe5],
    [0x7f, 0x7f, 0x7f],
    [0xff, 0x00, 0x00],
    [0x00, 0xff, 0x00],
    [0xff, 0xff, 0x00],
    [0x5c, 0x5c, 0xff],
    [0xff, 0x00, 0xff],
    [0x00, 0xff, 0xff],
    [0xff, 0xff, 0xff],
];

/// A cell's size in pixels, for those who ask.
const CELL_HEIGHT: u16 = 16;
const CELL_WIDTH: u16 = 8;

/// DA1: a VT220 with ANSI colours.
pub(super) const ATTRIBUTES: &str = "\x1b[?62;22c";

/// The answer to a control sequence, if it is a query.
pub(super) fn to_csi(sequence: &Csi, surface: &Surface) -> Option<String> {
    let parameter = sequence.parameter(0);
    Some(
        match (sequence.private, sequence.intermediate, sequence.last) {
            (0, 0, b'c') if parameter == 0 => ATTRIBUTES.to_owned(),
            (b'>', 0, b'c') if parameter == 0 => "\x1b[>0;10;1c".to_owned(),
            (b'=', 0, b'c') if parameter == 0 => "\x1bP!|00000000\x1b\\".to_owned(),
            (b'>', 0, b'q') if parameter == 0 => {
                format!("\x1bP>|sluicegate({})\x1b\\", env!("CARGO_PKG_VERSION"))
            }
            (0, 0, b'n') if parameter == 5 => "\x1b[0n".to_owned(),
            (private @ (0 | b'?'), 0, b'n') if parameter == 6 => {
                let (mut row, column) = surface.position();
                if surface.mode(TermMode::ORIGIN) {
                    row = row.saturating_sub(surface.region.start);
                }
                let mark = if private == 0 { "" } else { "?" };
                format!("\x1b[{mark}{};{}R", row + 1, column + 1)
            }
            (b'?', 0, b'n') if parameter == 15 => "\x1b[?13n".to_owned(),
            (b'?', 0, b'n') if parameter == 996 => "\x1b[?997;1n".to_owned(),
            (b'?', b'$', b'p') => format!(
                "\x1b[?{parameter};{}$y",
                private_mode(parameter, *surface.term.mode())
            ),
            (0, b'$', b'p') => {
                let mode = match parameter {
                    4 => set_or_reset(surface.mode(TermMode::INSERT)),
                    20 => set_or_reset(surface.mode(TermMode::LINE_FEED_NEW_LINE)),
                    _ => NOT_RECOGNIZED,
                };
                format!("\x1b[{parameter};{mode}$y")
            }
            (0, 0, b't') => window(parameter, surface)?,
            _ => return None,
        },
    )
}

const NOT_RECOGNIZED: u8 = 0;
const PERMANENTLY_RESET: u8 = 4;

fn set_or_reset(on: bool) -> u8 {
    if on { 1 } else { 2 }
}

fn private_mode(number: u16, modes: TermMode) -> u8 {
    let mode = match number {
        1 => TermMode::APP_CURSOR,
        6 => TermMode::ORIGIN,
        7 => TermMode::LINE_WRAP,
        25 => TermMode::SHOW_CURSOR,
        47 | 1047 | 1049 => TermMode::ALT_SCREEN,
        66 => TermMode::APP_KEYPAD,
        1000 => TermMode::MOUSE_REPORT_CLICK,
        1002 => TermMode::MOUSE_DRAG,
        1003 => TermMode::MOUSE_MOTION,
        1004 => TermMode::FOCUS_IN_OUT,
        1005 => TermMode::UTF8_MOUSE,
        1006 => TermMode::SGR_MOUSE,
        1007 => TermMode::ALTERNATE_SCROLL,
        2004 => TermMode::BRACKETED_PASTE,
        // Columns are whoever's the terminal is; synchronized updates are shown as they come.
        3 | 2026 => return PERMANENTLY_RESET,
        _ => return NOT_RECOGNIZED,
    };
    set_or_reset(modes.contains(mode))
}

fn window(what: u16, surface: &Surface) -> Option<String> {
    let size = surface.size();
    let (rows, cols) = (u32::from(size.rows), u32::from(size.cols));
    Some(match what {
        11 => "\x1b[1t".to_owned(),
        13 => "\x1b[3;0;0t".to_owned(),
        14 => format!(
            "\x1b[4;{};{}t",
            rows * u32::from(CELL_HEIGHT),
            cols * u32::from(CELL_WIDTH)
        ),
        16 => format!("\x1b[6;{CELL_HEIGHT};{CELL_WIDTH}t"),
        18 => format!("\x1b[8;{rows};{cols}t"),
        19 => format!("\x1b[9;{rows};{cols}t"),
        // Titles aren't kept.
        20 => "\x1b]L\x1b\\".to_owned(),
        21 => "\x1b]l\x1b\\".to_owned(),
        _ => return None,
    })
}

/// The answer to an operating system command, if it asks for colours.
pub(super) fn to_command(text: &str, bell: bool) -> Option<String> {
    let (number, rest) = text.split_once(';')?;
    let end = if bell { "\x07" } else { "\x1b\\" };
    let mut answer = String::new();
    let mut tell = |what: &str, [red, green, blue]: [u8; 3]| {
        let _ = write!(
            answer,
            "\x1b]{what};rgb:{red:02x}{red:02x}/{green:02x}{green:02x}/{blue:02x}{blue:02x}{end}"
        );
    };
    match number {
        "4" => {
            let fields: Vec<&str> = rest.split(';').collect();
            for pair in fields.chunks_exact(2) {
                if let (Ok(index), "?") = (pair[0].parse(), pair[1]) {
                    tell(&format!("4;{index}"), palette(index));
                }
            }
        }
        // A list: the second field is about the next number.
        "10" | "11" | "12" => {
            let first: u8 = number.parse().ok()?;
            for (what, field) in (first..=12).zip(rest.split(';')) {
                if field == "?" {
                    let colour = if what == 11 { BACKGROUND } else { FOREGROUND };
                    tell(&what.to_string(), colour);
                }
            }
        }
        _ => {}
    }
    (!answer.is_empty()).then_some(answer)
}

/// xterm's 256 colours: the named ones, a cube of six steps each way, 24 greys.
fn palette(index: u8) -> [u8; 3] {
    let step = |level: u8| if level == 0 { 0 } else { 55 + 40 * level };
    match index {
        0..16 => NAMED[usize::from(index)],
        16..232 => {
            let cube = index - 16;
            [step(cube / 36), step(cube / 6 % 6), step(cube % 6)]
        }
        232.. => [8 + 10 * (index - 232); 3],
    }
}

/// The answer to a device control string, if it asks for a setting (DECRQSS) or a capability (XTGETTCAP): there is none.
pub(super) fn to_device_string(text: &str) -> Option<&'static str> {
    if text.starts_with("$q") {
        Some("\x1bP0$r\x1b\\")
    } else if text.starts_with("+q") {
        Some("\x1bP0+r\x1b\\")
    } else {
        None
    }
}
