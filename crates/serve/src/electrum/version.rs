//! Agreeing on a protocol version.
//!
//! In:     the `protocol_version` parameter of `server.version`: one version, or the least and the greatest.
//! Out:    the greatest version both sides speak.
//! Fails:  `InvalidParams` for what is no version; `UnsupportedVersion` where there is none in common.
//! Source: Electrum protocol, `server.version`: min(client.max, server.max), refused below max(client.min, server.min).

use std::fmt;

use serde_json::Value;

use super::error::Error;

/// A version as numbers; missing parts count as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u16, u16, u16);

/// Oldest version spoken.
pub const OLDEST: Version = Version(1, 4, 0);
/// After 1.4, of which only 1.4.2 added something (`scripthash.unsubscribe`, which 1.4 has here too), and 1.5, which was
/// skipped. It brought lists of headers, packages and `mempool.get_info`, and took `relayfee` away.
pub const V1_6: Version = Version(1, 6, 0);
/// It asks by scripts instead of their hashes, and for outpoints.
pub const V1_7: Version = Version(1, 7, 0);
/// Newest version spoken.
pub const NEWEST: Version = V1_7;

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.2 {
            0 => write!(f, "{}.{}", self.0, self.1),
            patch => write!(f, "{}.{}.{patch}", self.0, self.1),
        }
    }
}

/// Reads "1.4" or "1.4.2": one to three numbers of one to three digits.
fn parse(text: &str) -> Option<Version> {
    let mut parts = [0u16; 3];
    for (index, part) in text.split('.').enumerate() {
        if index == 3 || part.is_empty() || part.len() > 3 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        parts[index] = part.parse().ok()?;
    }
    Some(Version(parts[0], parts[1], parts[2]))
}

/// The version to speak with a client that sent `asked`; nothing sent means 1.4.
pub fn negotiate(asked: Option<&Value>) -> Result<Version, Error> {
    let wrong = || Error::InvalidParams("protocol_version is \"X.Y\" or [\"least\", \"greatest\"]".into());
    let one = |value: &Value| value.as_str().and_then(parse).ok_or_else(wrong);
    let (least, greatest) = match asked {
        None | Some(Value::Null) => (OLDEST, OLDEST),
        Some(Value::Array(both)) if both.len() == 2 => (one(&both[0])?, one(&both[1])?),
        Some(value) => (one(value)?, one(value)?),
    };
    let agreed = greatest.min(NEWEST);
    if agreed < least.max(OLDEST) { Err(Error::UnsupportedVersion) } else { Ok(agreed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_common_version_is_chosen() {
        #[track_caller]
        fn check(asked: &str, want: Result<&str, i32>) {
            let asked: Value = serde_json::from_str(asked).unwrap();
            let got = negotiate(Some(&asked)).map(|version| version.to_string());
            assert_eq!(got.as_deref().map_err(Error::code), want, "{asked}");
        }
        check(r#""1.4""#, Ok("1.4"));
        check(r#""1.4.0""#, Ok("1.4"));
        check(r#"["1.4","1.6"]"#, Ok("1.6"));
        check(r#"["1.4","1.7"]"#, Ok("1.7"));
        check(r#"["1.4","1.8"]"#, Ok("1.7"));
        check(r#""1.7.0""#, Ok("1.7"));
        check(r#"["1.3","1.4.2"]"#, Ok("1.4.2"));
        check(r#"["1.3","1.4"]"#, Ok("1.4"));
        check(r#"["0","999.999.999"]"#, Ok("1.7"));
        check("null", Ok("1.4"));
        check(r#""1.3""#, Err(1));
        check(r#""1.4.4""#, Ok("1.4.4"));
        check(r#""1.7.1""#, Err(1));
        check(r#"["1.8","1.9"]"#, Err(1));
        check(r#"["1.4.3","1.4"]"#, Err(1));
        for wrong in [r#""""#, r#""1.x""#, r#""1..4""#, r#""1.4.3.2""#, r#""1.4000""#, r#""-1""#, r#""+1.4""#] {
            check(wrong, Err(-32602));
        }
        for wrong in ["1.4", "true", "{}", "[]", r#"["1.4"]"#, r#"["1.4","1.5","1.6"]"#, r#"["1.4",2]"#] {
            check(wrong, Err(-32602));
        }
        assert_eq!(negotiate(None), Ok(OLDEST));
    }
}
