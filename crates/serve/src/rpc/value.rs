//! Values of a request, as they were written.
//!
//! In:     JSON text that has been checked as a whole.
//! Out:    [`Value`]: a piece of that text, read as what a call needs of it: numbers keep every digit.
//! Fails:  [`RpcError`] in Core's words where the value is of another type.
//! Source: Bitcoin Core's `UniValue` (`uvTypeName`, `checkType`, `getInt`) and `ParseFixedPoint`.
//!
//! A value is parsed one level at a time and only when somebody asks, so deep nesting costs nothing: no call looks
//! deeper than four levels, and what nobody looks at was skipped without recursion.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error::RpcError;

/// Types of JSON, with the names that Core gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Type {
    Null,
    Bool,
    Object,
    Array,
    Text,
    Number,
}

impl Type {
    /// Core's `uvTypeName`.
    pub fn name(self) -> &'static str {
        match self {
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Object => "object",
            Type::Array => "array",
            Type::Text => "string",
            Type::Number => "number",
        }
    }
}

/// A value as text.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a>(&'a str);

/// A member of an object.
pub type Member<'a> = (Cow<'a, str>, Value<'a>);

impl<'a> Value<'a> {
    /// What is not there.
    pub const NULL: Value<'static> = Value("null");

    /// The value of a piece of text; none where it is no JSON.
    pub fn parse(text: &'a str) -> Option<Value<'a>> {
        serde_json::from_str::<&RawValue>(text).ok().map(|raw| Value(raw.get()))
    }

    pub(super) fn of(raw: &'a RawValue) -> Value<'a> {
        Value(raw.get())
    }

    /// Its text, without blanks around it.
    pub fn raw(self) -> &'a str {
        self.0
    }

    /// Its type, which its first character tells.
    pub fn kind(self) -> Type {
        match self.0.as_bytes().first() {
            Some(b'{') => Type::Object,
            Some(b'[') => Type::Array,
            Some(b'"') => Type::Text,
            Some(b't' | b'f') => Type::Bool,
            Some(b'n') | None => Type::Null,
            Some(_) => Type::Number,
        }
    }

    /// True for `null`, and for what is not there.
    pub fn is_null(self) -> bool {
        self.kind() == Type::Null
    }

    fn expect(self, want: Type) -> Result<(), RpcError> {
        if self.kind() == want { Ok(()) } else { Err(RpcError::type_error(mismatch(self.kind(), want))) }
    }

    /// A string.
    pub fn text(self) -> Result<Cow<'a, str>, RpcError> {
        self.expect(Type::Text)?;
        let inner = &self.0[1..self.0.len() - 1];
        if !inner.contains('\\') {
            return Ok(Cow::Borrowed(inner));
        }
        // A lone half of a surrogate pair is JSON to the one who skips it and no text to the one who reads it.
        serde_json::from_str::<String>(self.0).map(Cow::Owned).map_err(|_| RpcError::type_error("Invalid string"))
    }

    /// `true` or `false`.
    pub fn bool(self) -> Result<bool, RpcError> {
        self.expect(Type::Bool)?;
        Ok(self.0 == "true")
    }

    /// A whole number within the range of `T`.
    pub fn integer<T: std::str::FromStr>(self) -> Result<T, RpcError> {
        self.expect(Type::Number)?;
        self.0.parse().map_err(|_| RpcError::misc("JSON integer out of range"))
    }

    /// Any number.
    pub fn float(self) -> Result<f64, RpcError> {
        self.expect(Type::Number)?;
        self.0.parse().map_err(|_| RpcError::misc("JSON double out of range"))
    }

    /// An amount in bitcoin, as a number or in quotes, in satoshi (Core: `AmountFromValue`).
    pub fn amount_sat(self) -> Result<i64, RpcError> {
        let text = match self.kind() {
            Type::Number => Cow::Borrowed(self.0),
            Type::Text => self.text()?,
            _ => return Err(RpcError::type_error("Amount is not a number or string")),
        };
        let amount = fixed_point(&text, 8).ok_or_else(|| RpcError::type_error("Invalid amount"))?;
        match u64::try_from(amount) {
            Ok(amount_sat) if amount_sat <= consensus::MONEY_SAT_MAX => Ok(amount),
            _ => Err(RpcError::type_error("Amount out of range")),
        }
    }

    /// The elements of a list.
    pub fn array(self) -> Result<Vec<Value<'a>>, RpcError> {
        self.expect(Type::Array)?;
        let elements: Elements<'a> = serde_json::from_str(self.0).map_err(|_| RpcError::type_error("Invalid array"))?;
        Ok(elements.0)
    }

    /// The members of an object, in order, repeated ones included.
    pub fn object(self) -> Result<Vec<Member<'a>>, RpcError> {
        self.expect(Type::Object)?;
        let members: Members<'a> = serde_json::from_str(self.0).map_err(|_| RpcError::type_error("Invalid object"))?;
        Ok(members.0)
    }
}

/// Core's sentence about a value of the wrong type.
pub fn mismatch(got: Type, want: Type) -> String {
    format!("JSON value of type {} is not of expected type {}", got.name(), want.name())
}

/// The member of this name; [`Value::NULL`] where there is none.
pub fn member<'a>(members: &[Member<'a>], name: &str) -> Value<'a> {
    members.iter().find(|(key, _)| key == name).map_or(Value::NULL, |(_, value)| *value)
}

/// A decimal number times ten to the power of `decimals`, where that is whole and below 10^18 (Core:
/// `ParseFixedPoint`).
pub fn fixed_point(text: &str, decimals: i64) -> Option<i64> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (number, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(number, e)| (number, Some(e)));
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(whole, f)| (whole, Some(f)));
    let digits_only = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = whole.len() > 1 && whole.starts_with('0');
    if !digits_only(whole) || leading_zero || !fraction.is_none_or(digits_only) {
        return None;
    }
    let exponent: i64 = match exponent {
        None => 0,
        Some(text) if digits_only(text.trim_start_matches(['+', '-'])) && text.len() < 10 => text.parse().ok()?,
        Some(_) => return None,
    };
    let digits = format!("{whole}{}", fraction.unwrap_or_default());
    let significant = digits.trim_end_matches('0');
    let trailing = (digits.len() - significant.len()) as i64;
    let mantissa = significant.trim_start_matches('0');
    if mantissa.is_empty() {
        return Some(0);
    }
    let power = exponent - fraction.map_or(0, str::len) as i64 + trailing + decimals;
    if power < 0 || mantissa.len() as i64 + power > 18 {
        return None;
    }
    let value = mantissa.parse::<i64>().ok()? * 10i64.pow(power as u32);
    Some(if negative { -value } else { value })
}

struct Elements<'a>(Vec<Value<'a>>);

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Elements<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = seq.next_element::<&'de RawValue>()? {
                    elements.push(Value::of(element));
                }
                Ok(Elements(elements))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

struct Members<'a>(Vec<Member<'a>>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    members.push((key, Value::of(value)));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Map)
    }
}

/// A key that is borrowed where it holds no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_point_numbers_at_every_edge() {
        #[track_caller]
        fn check(text: &str, want: Option<i64>) {
            assert_eq!(fixed_point(text, 8), want, "{text}");
        }
        // Rows of Core's util_tests.cpp, `test_ParseFixedPoint`, and of rpc_tests.cpp, `rpc_parse_monetary_values`.
        check("0", Some(0));
        check("1", Some(100_000_000));
        check("0.0", Some(0));
        check("-0.1", Some(-10_000_000));
        check("1.1", Some(110_000_000));
        check("1.10000000000000000", Some(110_000_000));
        check("1.1e1", Some(1_100_000_000));
        check("1.1e-1", Some(11_000_000));
        check("1000", Some(100_000_000_000));
        check("-1000", Some(-100_000_000_000));
        check("0.00000001", Some(1));
        check("0.0000000100000000", Some(1));
        check("-0.00000001", Some(-1));
        check("0.00000001000000", Some(1));
        check("1e-8", Some(1));
        check("0.1e-7", Some(1));
        check("0.00000000000000000000000000000000000001e+30", Some(1));
        check("9999999999.99999999", Some(999_999_999_999_999_999));
        check("-9999999999.99999999", Some(-999_999_999_999_999_999));
        check("10000000000.00000000", None);
        check("0.000000001", None);
        check("", None);
        check("-", None);
        check("a-1000", None);
        check("-a1000", None);
        check("-1000a", None);
        check("-01000", None);
        check("00.1", None);
        check(".1", None);
        check("--0.1", None);
        check("0.", None);
        check("1.", None);
        check("1.1e", None);
        check("1.1e-", None);
        check("1.1e+-1", None);
        check("1e99999999999", None);
        check("+1", None);
        check(" 1", None);
    }

    #[test]
    fn values_are_read_as_what_they_are() {
        let value = Value::parse(r#" {"a": [1, 2.50, "x\ny", true], "a": null, "b\"": {}} "#).unwrap();
        let members = value.object().unwrap();
        assert_eq!(members.len(), 3);
        assert_eq!(members[2].0, "b\"");
        let list = member(&members, "a").array().unwrap();
        assert_eq!(list[0].integer::<i32>(), Ok(1));
        assert_eq!(list[1].raw(), "2.50");
        assert_eq!(list[1].amount_sat(), Ok(250_000_000));
        assert_eq!(list[2].text().unwrap(), "x\ny");
        assert_eq!(list[3].bool(), Ok(true));
        let wrong = list[3].text().unwrap_err();
        assert_eq!(wrong.message, "JSON value of type bool is not of expected type string");
        assert_eq!(list[1].integer::<i32>().unwrap_err().message, "JSON integer out of range");
        assert_eq!(Value::parse("4294967296").unwrap().integer::<u32>().unwrap_err().code, -1);
        assert!(member(&members, "c").is_null() && Value::parse("{").is_none() && Value::parse("1 2").is_none());
        assert!(Value::parse("\"\\ud800\"").is_none_or(|lone| lone.text().is_err()));
    }

    #[test]
    fn nesting_of_any_depth_is_skipped() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(Value::parse(&deep).unwrap().array().unwrap().len(), 1);
    }
}
