//! Hexadecimal text, both ways.
//!
//! In:     bytes, or text from a user.
//! Out:    lower-case text, or bytes.
//! Fails:  [`HexError`] for an odd length or a character outside 0-9, a-f, A-F.

use std::fmt;

/// Why text is not hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HexError {
    /// The text has an odd number of characters, or not the number asked for.
    Length {
        /// Bytes of text given.
        got: usize,
    },
    /// The byte of text at this position is no hexadecimal digit.
    Digit {
        /// Position in the text, from zero.
        index: usize,
    },
}

impl fmt::Display for HexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HexError::Length { got } => write!(f, "{got} characters is not the length of this hexadecimal value"),
            HexError::Digit { index } => write!(f, "character {index} is no hexadecimal digit"),
        }
    }
}

impl std::error::Error for HexError {}

/// Lower-case hexadecimal text of `bytes`.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
}

/// Bytes of hexadecimal text in either case.
pub fn decode(text: &str) -> Result<Vec<u8>, HexError> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(2) {
        return Err(HexError::Length { got: text.len() });
    }
    let nibble = |index: usize| match text[index] {
        digit @ b'0'..=b'9' => Ok(digit - b'0'),
        digit @ b'a'..=b'f' => Ok(digit - b'a' + 10),
        digit @ b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(HexError::Digit { index }),
    };
    (0..text.len() / 2).map(|i| Ok(nibble(2 * i)? << 4 | nibble(2 * i + 1)?)).collect()
}

/// Exactly `N` bytes of hexadecimal text.
pub fn decode_array<const N: usize>(text: &str) -> Result<[u8; N], HexError> {
    if text.len() != 2 * N {
        return Err(HexError::Length { got: text.len() });
    }
    Ok(decode(text)?.try_into().expect("2N digits are N bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_agree() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Ok(all.clone()));
        assert_eq!(decode(&encode(&all).to_uppercase()), Ok(all));
        assert_eq!(decode("0"), Err(HexError::Length { got: 1 }));
        assert_eq!(decode("0g"), Err(HexError::Digit { index: 1 }));
        assert_eq!(decode("é"), Err(HexError::Digit { index: 0 }));
        assert_eq!(decode_array::<2>("0102"), Ok([1, 2]));
        assert_eq!(decode_array::<2>("010203"), Err(HexError::Length { got: 6 }));
    }
}
