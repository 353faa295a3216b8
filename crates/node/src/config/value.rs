//! What a setting may hold, and how text becomes it.
//!
//! In:     text from a flag, the environment or the file.
//! Out:    [`Value`], typed and within its range.
//! Fails:  with the reason in words; the caller adds the setting's name, where it came from and what is accepted.

use std::net::SocketAddr;
use std::path::PathBuf;

use primitives::hash::BlockHash;

/// Longest text a setting may have, in bytes: a banner of a screen full, and no more.
pub const TEXT_BYTES_MAX: usize = 4_096;

/// The type and range of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number, both ends included.
    Whole {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// Free text.
    Text,
    /// A file or folder.
    Path,
    /// An IP address and a port.
    Address,
    /// A block's hash as explorers show it.
    BlockHash,
}

/// A setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// One of the setting's words, or of its choices.
    Word(&'static str),
    /// A number.
    Whole(u64),
    /// Free text.
    Text(String),
    /// A file or folder, `~/` resolved.
    Path(PathBuf),
    /// An address.
    Address(SocketAddr),
    /// A block's hash.
    BlockHash(BlockHash),
}

impl Kind {
    /// The name of the type, for the JSON schema.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Choice(_) => "choice",
            Kind::Whole { .. } => "integer",
            Kind::Text => "text",
            Kind::Path => "path",
            Kind::Address => "address",
            Kind::BlockHash => "block_hash",
        }
    }

    /// What may be written, in words.
    pub fn accepted(self, unit: &str) -> String {
        match self {
            Kind::Choice(choices) => choices.join(", "),
            Kind::Whole { min, max } => format!("{min}..={max} {unit}").trim_end().to_owned(),
            Kind::Text => format!("text of at most {TEXT_BYTES_MAX} bytes"),
            Kind::Path => "a path".to_owned(),
            Kind::Address => "an IP address and port such as 127.0.0.1:50001".to_owned(),
            Kind::BlockHash => "64 hexadecimal digits".to_owned(),
        }
    }

    /// Reads a value; `words` are the setting's own.
    pub fn parse(self, text: &str, words: &'static [&'static str]) -> Result<Value, String> {
        if let Some(word) = words.iter().find(|word| **word == text) {
            return Ok(Value::Word(word));
        }
        match self {
            Kind::Choice(choices) => {
                let known = choices.iter().find(|choice| **choice == text);
                known.map(|word| Value::Word(word)).ok_or_else(|| format!("{text:?} is none of the choices"))
            }
            Kind::Whole { min, max } => parse_whole(text, min, max),
            Kind::Text if text.len() > TEXT_BYTES_MAX => Err(format!("text of {} bytes is too long", text.len())),
            Kind::Text => Ok(Value::Text(text.to_owned())),
            Kind::Path => parse_path(text),
            Kind::Address => {
                text.parse().map(Value::Address).map_err(|_| format!("{text:?} is no address with a port"))
            }
            Kind::BlockHash => text.parse().map(Value::BlockHash).map_err(|_| format!("{text:?} is no block hash")),
        }
    }
}

fn parse_whole(text: &str, min: u64, max: u64) -> Result<Value, String> {
    let number: u64 = text.parse().map_err(|_| format!("{text:?} is no whole number in range"))?;
    if number < min || number > max {
        return Err(format!("{number} is out of range"));
    }
    Ok(Value::Whole(number))
}

fn parse_path(text: &str) -> Result<Value, String> {
    if text.is_empty() || text.contains('\0') {
        return Err("an empty path names nothing".to_owned());
    }
    let Some(below_home) = text.strip_prefix("~/") else { return Ok(Value::Path(PathBuf::from(text))) };
    let home = std::env::home_dir().ok_or("there is no home directory for ~/")?;
    Ok(Value::Path(home.join(below_home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Kind, words: &'static [&'static str], text: &str, want: Option<Value>) {
        assert_eq!(kind.parse(text, words).ok(), want, "{kind:?} {text:?}");
    }

    #[test]
    fn values_at_both_sides_of_every_edge() {
        let whole = Kind::Whole { min: 2, max: 4 };
        for (text, want) in [("1", None), ("2", Some(2)), ("4", Some(4)), ("5", None), ("-1", None), ("2.5", None)] {
            check(whole, &[], text, want.map(Value::Whole));
        }
        check(whole, &[], "18446744073709551616", None);
        check(whole, &[], "auto", None);
        check(whole, &["auto"], "auto", Some(Value::Word("auto")));
        check(whole, &["auto"], "Auto", None);
        check(Kind::Choice(&["main", "regtest"]), &[], "regtest", Some(Value::Word("regtest")));
        check(Kind::Choice(&["main", "regtest"]), &[], "mainnet", None);
        check(Kind::Address, &["off"], "127.0.0.1:1", Some(Value::Address("127.0.0.1:1".parse().unwrap())));
        check(Kind::Address, &["off"], "[::1]:50001", Some(Value::Address("[::1]:50001".parse().unwrap())));
        check(Kind::Address, &["off"], "localhost:1", None);
        check(Kind::Address, &["off"], "127.0.0.1", None);
        check(Kind::Address, &["off"], "127.0.0.1:65536", None);
        check(Kind::BlockHash, &["none"], &"0".repeat(64), Some(Value::BlockHash(BlockHash([0; 32]))));
        check(Kind::BlockHash, &["none"], &"0".repeat(63), None);
        check(Kind::Path, &[], "", None);
        check(Kind::Text, &[], &"x".repeat(TEXT_BYTES_MAX + 1), None);
    }
}
