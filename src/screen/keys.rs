//! What a terminal sends for a key, as terminfo's `xterm-256color` has it.

/// A key that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Cursor up.
    Up,
    /// Cursor down.
    Down,
    /// Cursor left.
    Left,
    /// Cursor right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Insert.
    Insert,
    /// Delete (the one that deletes forwards).
    Delete,
    /// Backspace.
    Backspace,
    /// Tab.
    Tab,
    /// Tab with shift.
    ShiftTab,
    /// Escape.
    Escape,
    /// Enter.
    Enter,
    /// F1.
    F1,
    /// F2.
    F2,
    /// F3.
    F3,
    /// F4.
    F4,
    /// F5.
    F5,
    /// F6.
    F6,
    /// F7.
    F7,
    /// F8.
    F8,
    /// F9.
    F9,
    /// F10.
    F10,
    /// F11.
    F11,
    /// F12.
    F12,
}

impl Key {
    /// Each key with its name.
    pub const NAMES: [(&'static str, Key); 27] = [
        ("up", Key::Up),
        ("down", Key::Down),
        ("left", Key::Left),
        ("right", Key::Right),
        ("home", Key::Home),
        ("end", Key::End),
        ("page-up", Key::PageUp),
        ("page-down", Key::PageDown),
        ("insert", Key::Insert),
        ("delete", Key::Delete),
        ("backspace", Key::Backspace),
        ("tab", Key::Tab),
        ("shift-tab", Key::ShiftTab),
        ("escape", Key::Escape),
        ("enter", Key::Enter),
        ("f1", Key::F1),
        ("f2", Key::F2),
        ("f3", Key::F3),
        ("f4", Key::F4),
        ("f5", Key::F5),
        ("f6", Key::F6),
        ("f7", Key::F7),
        ("f8", Key::F8),
        ("f9", Key::F9),
        ("f10", Key::F10),
        ("f11", Key::F11),
        ("f12", Key::F12),
    ];

    /// The key of that name, exactly as in [`Key::NAMES`].
    pub fn parse(name: &str) -> Option<Key> {
        Key::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, key)| *key)
    }

    /// What is sent for it. Cursor keys, home and end differ while the program has asked for application cursor keys
    /// ([`super::Screen::application_cursor`]).
    pub fn encode(self, application_cursor: bool) -> &'static str {
        match (self, application_cursor) {
            (Key::Up, false) => "\x1b[A",
            (Key::Up, true) => "\x1bOA",
            (Key::Down, false) => "\x1b[B",
            (Key::Down, true) => "\x1bOB",
            (Key::Right, false) => "\x1b[C",
            (Key::Right, true) => "\x1bOC",
            (Key::Left, false) => "\x1b[D",
            (Key::Left, true) => "\x1bOD",
            (Key::Home, false) => "\x1b[H",
            (Key::Home, true) => "\x1bOH",
            (Key::End, false) => "\x1b[F",
            (Key::End, true) => "\x1bOF",
            (Key::Insert, _) => "\x1b[2~",
            (Key::Delete, _) => "\x1b[3~",
            (Key::PageUp, _) => "\x1b[5~",
            (Key::PageDown, _) => "\x1b[6~",
            (Key::Backspace, _) => "\x7f",
            (Key::Tab, _) => "\t",
            (Key::ShiftTab, _) => "\x1b[Z",
            (Key::Escape, _) => "\x1b",
            (Key::Enter, _) => "\r",
            (Key::F1, _) => "\x1bOP",
            (Key::F2, _) => "\x1bOQ",
            (Key::F3, _) => "\x1bOR",
            (Key::F4, _) => "\x1bOS",
            (Key::F5, _) => "\x1b[15~",
            (Key::F6, _) => "\x1b[17~",
            (Key::F7, _) => "\x1b[18~",
            (Key::F8, _) => "\x1b[19~",
            (Key::F9, _) => "\x1b[20~",
            (Key::F10, _) => "\x1b[21~",
            (Key::F11, _) => "\x1b[23~",
            (Key::F12, _) => "\x1b[24~",
        }
    }
}

/// The control character for a letter (of either case) or one of `[ \ ] ^ _ @`: what is sent when it is typed with Ctrl.
pub fn control(c: char) -> Option<char> {
    match c.to_ascii_uppercase() {
        upper @ '@'..='_' => Some(char::from(upper as u8 & 0x1f)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_name_leads_to_its_key_and_nothing_else_does() {
        for (name, key) in Key::NAMES {
            assert_eq!(Key::parse(name), Some(key));
        }
        for name in ["", "Up", "pageup", "f0", "f13", "up "] {
            assert_eq!(Key::parse(name), None, "{name:?}");
        }
    }

    #[test]
    fn no_two_keys_send_the_same() {
        for application in [false, true] {
            let sent: HashSet<&str> = Key::NAMES
                .iter()
                .map(|(_, key)| key.encode(application))
                .collect();
            assert_eq!(sent.len(), Key::NAMES.len());
        }
    }

    #[test]
    fn only_cursor_keys_home_and_end_follow_the_application_cursor_mode() {
        for (name, key) in Key::NAMES {
            let follows = key.encode(false) != key.encode(true);
            let expected = ["up", "down", "left", "right", "home", "end"].contains(&name);
            assert_eq!(follows, expected, "{name}");
        }
        assert_eq!(Key::Up.encode(false), "\x1b[A");
        assert_eq!(Key::Up.encode(true), "\x1bOA");
    }

    #[test]
    fn control_characters_come_from_letters_and_six_signs() {
        assert_eq!(control('a'), Some('\x01'));
        assert_eq!(control('A'), Some('\x01'));
        assert_eq!(control('c'), Some('\x03'));
        assert_eq!(control('z'), Some('\x1a'));
        assert_eq!(control('@'), Some('\0'));
        assert_eq!(control('['), Some('\x1b'));
        assert_eq!(control('\\'), Some('\x1c'));
        assert_eq!(control(']'), Some('\x1d'));
        assert_eq!(control('^'), Some('\x1e'));
        assert_eq!(control('_'), Some('\x1f'));
        for other in ['`', '{', '1', ' ', '\x01', 'é', '\u{141}'] {
            assert_eq!(control(other), None, "{other:?}");
        }
    }
}
