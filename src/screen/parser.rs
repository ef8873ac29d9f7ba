//! Where control sequences begin and end (Paul Williams' state machine, UTF-8 text).
//!
//! It owns the state between two pieces of text, so a sequence may be split anywhere. What it keeps is bounded: 16
//! parameters and the first [`STRING_LIMIT`] bytes of a string. What a sequence means is the [`Sink`]'s affair.

/// How much of an operating system command or device control string is kept; the rest is passed over. Shell marks and
/// queries are far shorter, and titles and clipboards are of no use here.
const STRING_LIMIT: usize = 256;

/// A sequence with more parameters than this isn't obeyed. DEC's terminals stop at 16.
const PARAMETERS: usize = 16;

/// What the parts of the text are handed to, in their order.
pub(super) trait Sink {
    /// Characters without any of the controls C0 and DEL; a long run may come in pieces.
    fn text(&mut self, run: &str);
    /// One of C0 but ESC, or DEL.
    fn control(&mut self, byte: u8);
    /// `ESC`, perhaps an intermediate (0 when there is none), final byte.
    fn escape(&mut self, intermediate: u8, last: u8);
    /// A control sequence, but none that selects colours and the like.
    fn csi(&mut self, sequence: &Csi);
    /// The beginning of an operating system command, and whether BEL ended it.
    fn command(&mut self, text: &str, bell: bool);
    /// The beginning of a device control string, after `ESC P`.
    fn device_string(&mut self, text: &str);
}

/// A control sequence: `CSI`, perhaps one of `<=>?`, parameters, perhaps an intermediate, final byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Csi {
    /// One of `<=>?`, or 0.
    pub(super) private: u8,
    /// The byte before the last, or 0.
    pub(super) intermediate: u8,
    /// The final byte: what it is.
    pub(super) last: u8,
    parameters: [u16; PARAMETERS],
    count: usize,
}

impl Csi {
    /// The parameters as they came, those that were left out as 0. There is always one.
    pub(super) fn parameters(&self) -> &[u16] {
        &self.parameters[..self.count]
    }

    /// The parameter at `index`, 0 where there is none.
    pub(super) fn parameter(&self, index: usize) -> u16 {
        self.parameters().get(index).copied().unwrap_or(0)
    }

    /// The parameter at `index` as a count or a position, for which 0 means 1.
    pub(super) fn ordinal(&self, index: usize) -> usize {
        usize::from(self.parameter(index).max(1))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    EscapeIntermediate,
    CsiEntry,
    CsiParameters,
    /// After a colon: parts of a parameter, of which none but colours has any.
    CsiParts,
    CsiIntermediate,
    CsiIgnored,
    Command,
    DeviceString,
    /// SOS, PM and APC strings, which mean nothing here.
    IgnoredString,
}

/// The state machine between two pieces of text.
#[derive(Debug, Default)]
pub(super) struct Parser {
    state: State,
    csi: Csi,
    /// The intermediate of an escape sequence, and whether there was more than one.
    intermediate: u8,
    crowded: bool,
    string: Vec<u8>,
}

impl Parser {
    /// Hands the parts of `text` to `sink`.
    pub(super) fn advance(&mut self, text: &str, sink: &mut impl Sink) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.state != State::Ground {
                self.step(byte, sink);
                at += 1;
                continue;
            }
            let run = printable(&bytes[at..]);
            if run > 0 {
                sink.text(&text[at..at + run]);
                at += run;
            } else if byte != 0x1b {
                sink.control(byte);
                at += 1;
            } else if let Some(length) = rendition(&bytes[at..]) {
                at += length;
            } else {
                self.state = State::Escape;
                self.begin();
                at += 1;
            }
        }
    }

    fn begin(&mut self) {
        self.csi = Csi::default();
        self.csi.count = 1;
        self.intermediate = 0;
        self.crowded = false;
        self.string.clear();
    }

    fn step(&mut self, byte: u8, sink: &mut impl Sink) {
        match (self.state, byte) {
            (State::Command, 0x07 | 0x18 | 0x1a | 0x1b) => {
                sink.command(&String::from_utf8_lossy(&self.string), byte == 0x07);
                self.leave(byte, sink);
            }
            (State::DeviceString, 0x18 | 0x1a | 0x1b) => {
                sink.device_string(&String::from_utf8_lossy(&self.string));
                self.leave(byte, sink);
            }
            (_, 0x18 | 0x1a | 0x1b) => self.leave(byte, sink),
            (State::Command | State::DeviceString, 0x20..) => {
                if self.string.len() < STRING_LIMIT {
                    self.string.push(byte);
                }
            }
            (State::Command | State::DeviceString | State::IgnoredString, _) => {}
            (_, 0x00..0x20) => sink.control(byte),
            (State::Escape | State::EscapeIntermediate, 0x20..=0x2f) => {
                self.crowded |= self.intermediate != 0;
                self.intermediate = byte;
                self.state = State::EscapeIntermediate;
            }
            (State::Escape, b'[') => self.state = State::CsiEntry,
            (State::Escape, b']') => self.state = State::Command,
            (State::Escape, b'P') => self.state = State::DeviceString,
            (State::Escape, b'X' | b'^' | b'_') => self.state = State::IgnoredString,
            (State::Escape | State::EscapeIntermediate, 0x30..=0x7e) => {
                self.state = State::Ground;
                if !self.crowded {
                    sink.escape(self.intermediate, byte);
                }
            }
            (State::Escape | State::EscapeIntermediate, _) => {}
            _ => self.step_in_csi(byte, sink),
        }
    }

    /// What a byte does that ends any sequence: ESC begins another, CAN and SUB are done.
    fn leave(&mut self, byte: u8, sink: &mut impl Sink) {
        if byte == 0x1b {
            self.state = State::Escape;
            self.begin();
        } else {
            self.state = State::Ground;
            if byte != 0x07 {
                sink.control(byte);
            }
        }
    }

    fn step_in_csi(&mut self, byte: u8, sink: &mut impl Sink) {
        let csi = &mut self.csi;
        match (self.state, byte) {
            (_, 0x7f..) => {}
            (State::CsiIgnored, 0x40..) => self.state = State::Ground,
            (State::CsiIgnored, _) => {}
            (_, 0x40..) => {
                self.state = State::Ground;
                csi.last = byte;
                if !self.crowded && (csi.last, csi.intermediate, csi.private) != (b'm', 0, 0) {
                    sink.csi(csi);
                }
            }
            (_, 0x20..=0x2f) => {
                self.crowded |= csi.intermediate != 0;
                csi.intermediate = byte;
                self.state = State::CsiIntermediate;
            }
            (State::CsiIntermediate, _) => self.state = State::CsiIgnored,
            (State::CsiEntry, b'<'..=b'?') => {
                csi.private = byte;
                self.state = State::CsiParameters;
            }
            (_, b'<'..=b'?') => self.state = State::CsiIgnored,
            (_, b';') => {
                self.state = State::CsiParameters;
                if csi.count == PARAMETERS {
                    self.crowded = true;
                } else {
                    csi.count += 1;
                }
            }
            (_, b':') => self.state = State::CsiParts,
            (State::CsiParts, _) => {}
            _ => {
                self.state = State::CsiParameters;
                let parameter = &mut csi.parameters[csi.count - 1];
                *parameter = parameter
                    .saturating_mul(10)
                    .saturating_add(u16::from(byte - b'0'));
            }
        }
    }
}

/// How many bytes come before the first control.
fn printable(bytes: &[u8]) -> usize {
    const STRIDE: usize = 32;
    let control = |byte: &u8| *byte < 0x20 || *byte == 0x7f;
    let mut length = 0;
    // Without an early exit within a stride, so that the compiler makes it a comparison of whole registers.
    while let Some(stride) = bytes.get(length..length + STRIDE) {
        if stride.iter().fold(false, |any, byte| any | control(byte)) {
            break;
        }
        length += STRIDE;
    }
    bytes[length..]
        .iter()
        .position(control)
        .map_or(bytes.len(), |more| length + more)
}

/// The length of a whole sequence for colours and the like (SGR) at the beginning of `bytes`. They change no character, and
/// every second line of a build log has some.
fn rendition(bytes: &[u8]) -> Option<usize> {
    let parameters = bytes.strip_prefix(b"\x1b[")?;
    let length = parameters
        .iter()
        .position(|byte| !matches!(byte, b'0'..=b';'))?;
    (parameters[length] == b'm').then_some(length + 3)
}

#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;
