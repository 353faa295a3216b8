//! Parameters of one request, checked against the method's list of names.
//!
//! In:     [`Params`] as text, and the names of the method's parameters in order.
//! Out:    values of the type each method asks for.
//! Fails:  `InvalidParams`, naming the parameter; nothing a client sent is repeated.
//! Source: Electrum protocol: parameters by position or by name, names are normative.

use std::str::FromStr;

use primitives::{BlockHash, OutPoint, Params, ScriptHash, Txid, address};
use serde_json::Value;
use serde_json::value::RawValue;
use stdx::hex;

use super::error::Error;
use super::request;

/// The parameters of one request, in the method's order; absent ones are none.
pub struct Arguments<'a> {
    names: &'static [&'static str],
    values: Vec<Option<&'a RawValue>>,
}

/// How a script is named in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// By its hash.
    Hash,
    /// As itself.
    Script,
    /// As an address.
    Address,
}

impl<'a> Arguments<'a> {
    /// Brings `params` into the order of `names`. With `extra`, more than those are ignored instead of refused.
    pub fn of(
        params: &request::Params<'a>,
        names: &'static [&'static str],
        extra: bool,
    ) -> Result<Arguments<'a>, Error> {
        let mut values = vec![None; names.len()];
        match params {
            request::Params::Wrong => {
                return Err(Error::InvalidParams("a list or an object of a few values is expected".into()));
            }
            request::Params::List(list) => {
                if list.len() > names.len() && !extra {
                    return Err(Error::InvalidParams(format!("at most {} are expected", names.len())));
                }
                for (value, raw) in values.iter_mut().zip(list) {
                    *value = Some(*raw);
                }
            }
            request::Params::Map(map) => {
                for (name, raw) in map {
                    match names.iter().position(|known| known == name) {
                        Some(index) => values[index] = Some(*raw),
                        None if extra => {}
                        None => return Err(Error::InvalidParams(format!("known names are {}", names.join(", ")))),
                    }
                }
            }
        }
        Ok(Arguments { names, values })
    }

    fn wrong<T>(&self, index: usize, what: &str) -> Result<T, Error> {
        Err(Error::InvalidParams(format!("{} is {what}", self.names[index])))
    }

    /// A value as it was written; none where it is absent.
    pub fn text(&self, index: usize) -> Option<&'a str> {
        self.values[index].map(RawValue::get)
    }

    /// A small value as parsed JSON; its depth is limited by the parser to 128.
    pub fn value(&self, index: usize) -> Result<Option<Value>, Error> {
        match self.text(index) {
            None => Ok(None),
            Some(text) => serde_json::from_str(text).map(Some).or_else(|_| self.wrong(index, "not readable")),
        }
    }

    /// A whole number from 0 to 2^64 - 1; absent means `default`, and no default means it is required.
    pub fn number(&self, index: usize, default: Option<u64>) -> Result<u64, Error> {
        const WHAT: &str = "a whole number, not negative";
        match self.text(index) {
            None => default.map_or_else(|| self.wrong(index, WHAT), Ok),
            Some(text) => serde_json::from_str::<u64>(text).or_else(|_| self.wrong(index, WHAT)),
        }
    }

    /// `true` or `false`; absent means false.
    pub fn truth(&self, index: usize) -> Result<bool, Error> {
        match self.text(index) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => self.wrong(index, "true or false"),
        }
    }

    /// A required string.
    pub fn string(&self, index: usize) -> Result<String, Error> {
        let text = self.text(index).and_then(|text| serde_json::from_str(text).ok());
        text.map_or_else(|| self.wrong(index, "a string"), Ok)
    }

    /// A required string of 64 hexadecimal digits.
    fn digits<T: FromStr>(&self, index: usize) -> Result<T, Error> {
        // Escapes are not accepted in digits, so the text between the quotes is the value.
        let inner = self.text(index).and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
        let parsed = inner.and_then(|digits| digits.parse().ok());
        parsed.map_or_else(|| self.wrong(index, "64 hexadecimal digits"), Ok)
    }

    /// A required script hash.
    pub fn script_hash(&self, index: usize) -> Result<ScriptHash, Error> {
        self.digits(index)
    }

    /// How the parameter at `index` names a script: that follows from its own name.
    pub fn named(&self, index: usize) -> Named {
        match self.names[index] {
            "spk" => Named::Script,
            "address" => Named::Address,
            _ => Named::Hash,
        }
    }

    /// The hash of a required script.
    pub fn script(&self, index: usize, params: &Params) -> Result<ScriptHash, Error> {
        match self.named(index) {
            Named::Hash => self.script_hash(index),
            Named::Script => self.bytes(index).map(|script| ScriptHash::of(&script)),
            Named::Address => match address::to_script(&self.string(index)?, params) {
                Ok(script) => Ok(ScriptHash::of(&script)),
                Err(error) => self.wrong(index, &format!("no address of this network: {error}")),
            },
        }
    }

    /// A required hash of a block.
    pub fn block_hash(&self, index: usize) -> Result<BlockHash, Error> {
        self.digits(index)
    }

    /// A required outpoint: its transaction at `index`, its position after it.
    pub fn outpoint(&self, index: usize) -> Result<OutPoint, Error> {
        let (txid, vout) = (self.txid(index)?, self.number(index + 1, None)?);
        let vout = u32::try_from(vout).or_else(|_| self.wrong(index + 1, "a position of an output"))?;
        Ok(OutPoint { txid, vout })
    }

    /// A required transaction identifier.
    pub fn txid(&self, index: usize) -> Result<Txid, Error> {
        self.digits(index)
    }

    /// Hexadecimal digits, of odd number too; absent means none.
    pub fn digits_of_any_length(&self, index: usize) -> Result<(), Error> {
        let Some(text) = self.text(index) else { return Ok(()) };
        let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let digits = inner.is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        if digits { Ok(()) } else { self.wrong(index, "hexadecimal digits") }
    }

    /// A required list of at most `max` strings of hexadecimal digits, one at least.
    pub fn list_of_bytes(&self, index: usize, max: usize) -> Result<Vec<Vec<u8>>, Error> {
        let list: Option<Vec<String>> = self.text(index).and_then(|text| serde_json::from_str(text).ok());
        let list = list.filter(|list| !list.is_empty() && list.len() <= max);
        let decoded = list.and_then(|list| list.iter().map(|digits| hex::decode(digits).ok()).collect());
        decoded.map_or_else(|| self.wrong(index, &format!("a list of 1 to {max} strings of hexadecimal digits")), Ok)
    }

    /// Required bytes as hexadecimal digits.
    pub fn bytes(&self, index: usize) -> Result<Vec<u8>, Error> {
        let inner = self.text(index).and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
        let parsed = inner.and_then(|digits| hex::decode(digits).ok());
        parsed.map_or_else(|| self.wrong(index, "hexadecimal digits"), Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &["first", "second"];

    #[track_caller]
    fn with<T>(params: &str, read: impl Fn(&Arguments<'_>) -> Result<T, Error>) -> Option<T> {
        let text = format!(r#"{{"id":1,"method":"m","params":{params}}}"#);
        let request = request::parse(&text).expect("a request");
        let read = Arguments::of(&request.params, NAMES, false).and_then(|arguments| read(&arguments));
        read.map_err(|error| assert_eq!(error.code(), -32602)).ok()
    }

    #[test]
    fn numbers_are_whole_and_not_negative() {
        #[track_caller]
        fn check(value: &str, want: Option<u64>) {
            assert_eq!(with(&format!("[{value}]"), |a| a.number(0, None)), want, "{value}");
            assert_eq!(with(&format!(r#"{{"first":{value}}}"#), |a| a.number(0, None)), want, "{value}");
        }
        check("0", Some(0));
        check("9007199254740993", Some((1 << 53) + 1));
        check("18446744073709551615", Some(u64::MAX));
        for wrong in ["18446744073709551616", "-1", "-0", "1.0", "1e3", "1e309", "true", "\"0\"", "null", "[]", "{}"] {
            check(wrong, None);
        }
        assert_eq!(with("[]", |a| a.number(0, Some(7))), Some(7));
        assert_eq!(with("[]", |a| a.number(0, None)), None);
    }

    #[test]
    fn names_and_positions() {
        let both = |a: &Arguments<'_>| Ok((a.number(0, Some(9))?, a.number(1, Some(9))?));
        assert_eq!(with("[1,2]", both), Some((1, 2)));
        assert_eq!(with(r#"{"second":2,"first":1}"#, both), Some((1, 2)));
        assert_eq!(with(r#"{"second":2}"#, both), Some((9, 2)));
        assert_eq!(with("[1,2,3]", both), None);
        assert_eq!(with(r#"{"third":3}"#, both), None);
        assert_eq!(with("7", both), None);
        assert_eq!(with("[1]", |a| a.truth(0)), None);
        assert_eq!(with("[true]", |a| a.truth(0)), Some(true));
    }

    #[test]
    fn digits_are_64() {
        #[track_caller]
        fn check(digits: &str, want: bool) {
            assert_eq!(with(&format!("[\"{digits}\"]"), |a| a.script_hash(0)).is_some(), want, "{digits}");
        }
        check(&"ab".repeat(32), true);
        check(&"AB".repeat(32), true);
        check(&"a".repeat(63), false);
        check(&"a".repeat(65), false);
        check(&"g".repeat(64), false);
        check(&"é".repeat(32), false);
        check("", false);
        assert!(with("[7]", |a| a.txid(0)).is_none());
        assert!(with("[]", |a| a.txid(0)).is_none());
        assert_eq!(with("[\"00fF\"]", |a| a.bytes(0)), Some(vec![0, 255]));
        assert_eq!(with("[\"0\"]", |a| a.bytes(0)), None);
    }
}
