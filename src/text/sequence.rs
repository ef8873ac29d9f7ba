//! Tells a terminal's sequences from text, character by character, so it doesn't matter where the text is cut.

/// Largest number in a sequence. Beyond any column.
const MAX_NUMBER: usize = 1 << 20;

/// What a character turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text, or a control character that has its effect by itself, even within a sequence.
    Char(char),
    /// A part of a sequence, or its end when it has no effect on text: a string, a charset, one that was given up.
    Part,
    /// The end of ESC and this character.
    Escape(char),
    /// The end of a control sequence, with its last character.
    Control(char, Numbers),
}

/// The parameters of a control sequence, as far as they matter to a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The first; 0 when it is absent.
    pub first: usize,
    /// The second; 0 when it is absent.
    pub second: usize,
    index: usize,
    /// It is private or has intermediates: none of those that edit a line.
    pub other: bool,
    /// It is one of those with a question mark: DEC's own modes, mostly.
    pub dec: bool,
    /// Any parameter is there.
    pub any: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    state: State,
    numbers: Numbers,
}

/// Where in a sequence the text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// After ESC and a character that announces one more, as charsets do.
    EscapeOne,
    /// In a control sequence: parameters.
    Control,
    /// In a title or the like, which BEL ends as well as ST.
    Title,
    /// In any other string, which ST ends.
    String,
}

impl Sequence {
    /// Whether the text so far ends outside a sequence.
    pub fn is_ground(&self) -> bool {
        self.state == State::Ground
    }

    /// Forgets a sequence that has begun.
    pub fn clear(&mut self) {
        self.state = State::Ground;
    }

    /// Takes the next character.
    pub fn take(&mut self, char: char) -> Piece {
        match char {
            '\u{18}' | '\u{1a}' if self.state != State::Ground => self.ends(),
            '\u{1b}' => self.goes_on(State::Escape),
            // ESC and a character of the second half of ASCII's capitals is the same in seven bits.
            '\u{80}'..='\u{9f}' => self.escape(char::from(char as u8 - 0x40)),
            _ => match self.state {
                State::Ground => Piece::Char(char),
                State::Title if char == '\u{7}' => self.ends(),
                // No title has one: its end got lost, and what follows isn't to be lost, too.
                State::Title if char == '\n' => {
                    self.clear();
                    Piece::Char(char)
                }
                State::Title | State::String => Piece::Part,
                _ if char < ' ' => Piece::Char(char),
                _ if char == '\u{7f}' => Piece::Part,
                // No sequence goes on with it.
                _ if char > '\u{7f}' => {
                    self.clear();
                    Piece::Char(char)
                }
                State::Escape => self.escape(char),
                State::EscapeOne if char < '0' => Piece::Part,
                State::EscapeOne => self.ends(),
                State::Control => self.control(char),
            },
        }
    }

    /// The character after ESC.
    fn escape(&mut self, char: char) -> Piece {
        match char {
            '[' => {
                self.numbers = Numbers::default();
                self.goes_on(State::Control)
            }
            ']' => self.goes_on(State::Title),
            'P' | 'X' | '^' | '_' => self.goes_on(State::String),
            ' '..='/' => self.goes_on(State::EscapeOne),
            _ => {
                self.clear();
                Piece::Escape(char)
            }
        }
    }

    /// A character of a control sequence, printable ASCII.
    fn control(&mut self, char: char) -> Piece {
        let numbers = &mut self.numbers;
        match char {
            '0'..='9' => {
                numbers.any = true;
                let number = match numbers.index {
                    0 => &mut numbers.first,
                    1 => &mut numbers.second,
                    _ => return Piece::Part,
                };
                let digit = usize::from(char as u8 - b'0');
                *number = (*number * 10 + digit).min(MAX_NUMBER);
                Piece::Part
            }
            ';' => {
                numbers.any = true;
                numbers.index += 1;
                Piece::Part
            }
            ' '..='?' => {
                numbers.other = true;
                numbers.dec |= char == '?';
                Piece::Part
            }
            _ => {
                self.clear();
                Piece::Control(char, self.numbers)
            }
        }
    }

    fn goes_on(&mut self, state: State) -> Piece {
        self.state = state;
        Piece::Part
    }

    fn ends(&mut self) -> Piece {
        self.clear();
        Piece::Part
    }
}
