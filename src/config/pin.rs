//! The SHA-256 that an executable must have.

use std::{
    fmt,
    io::{self, Read},
};

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

/// What is read at once.
const CHUNK: usize = 128 * 1024;

/// A SHA-256. Displayed and written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pin([u8; 32]);

impl Pin {
    /// `None` unless it is 64 hexadecimal digits.
    pub fn parse(digits: &str) -> Option<Pin> {
        let digit = |byte: u8| {
            char::from(byte)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        };
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let mut pin = [0; 32];
        if pairs.len() != pin.len() || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in pin.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Pin(pin))
    }

    /// The pin that all of `content` has.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn of(mut content: impl Read) -> io::Result<Pin> {
        let mut hash = Sha256::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            match content.read(&mut chunk) {
                Ok(0) => return Ok(Pin(hash.finalize().into())),
                Ok(count) => hash.update(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Serialize for Pin {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_pin_is_the_sha256_that_others_compute() {
        assert_eq!(Pin::of(&b"abc"[..]).unwrap().to_string(), OF_ABC);
        let long = vec![b'a'; 1_000_000];
        assert_eq!(
            Pin::of(&long[..]).unwrap().to_string(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        );
    }

    #[test]
    fn only_64_hexadecimal_digits_are_a_pin() {
        assert_eq!(Pin::parse(&OF_ABC.to_uppercase()), Pin::parse(OF_ABC));
        for wrong in [
            "",
            &OF_ABC[1..],
            &format!("{OF_ABC}0"),
            &OF_ABC.replace('b', "g"),
            &OF_ABC.replace("ba", "é"),
        ] {
            assert_eq!(Pin::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_displayed_is_read_back(bytes in any::<[u8; 32]>()) {
            prop_assert_eq!(Pin::parse(&Pin(bytes).to_string()), Some(Pin(bytes)));
        }
    }
}
