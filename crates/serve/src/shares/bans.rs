//! Bans as a file keeps them: a line of JSON each.
//!
//! In:     subnets, and until when each is turned away; the time as an argument.
//! Out:    text; bans that still hold.
//! Fails:  with the line that is none.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::rpc::auth::Subnet;

/// A subnet that is turned away, until a second after 1970 or until somebody lifts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// Who.
    pub subnet: Subnet,
    /// Until when.
    pub until_s: Option<u64>,
}

/// A subnet as people write it: an address alone where it is one.
pub fn shown(subnet: &Subnet) -> String {
    let whole = matches!((subnet.address, subnet.prefix), (IpAddr::V4(_), 32) | (IpAddr::V6(_), 128));
    if whole { subnet.address.to_string() } else { format!("{}/{}", subnet.address, subnet.prefix) }
}

/// The lines of a file.
pub fn text(bans: &[Ban]) -> String {
    let line = |ban: &Ban| json!({ "who": shown(&ban.subnet), "until_s": ban.until_s }).to_string() + "\n";
    bans.iter().map(line).collect()
}

/// Reads them again, without those that hold no longer.
pub fn read(text: &str, now_s: u64) -> Result<Vec<Ban>, String> {
    let mut bans = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |why: String| format!("line {}: {why}", number + 1);
        let line: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let subnet = line["who"].as_str().unwrap_or_default().parse().map_err(wrong)?;
        let ban = Ban { subnet, until_s: line["until_s"].as_u64() };
        if ban.until_s.is_none_or(|until_s| until_s > now_s) {
            bans.push(ban);
        }
    }
    Ok(bans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_until_it_is_over() {
        let ban = |who: &str, until_s| Ban { subnet: who.parse().unwrap(), until_s };
        let all = [ban("192.0.2.7", Some(100)), ban("198.51.100.0/24", None), ban("2001:db8::/32", Some(50))];
        let written = text(&all);
        assert_eq!(written.lines().next(), Some(r#"{"who":"192.0.2.7","until_s":100}"#));
        assert_eq!(read(&written, 49), Ok(all.to_vec()));
        assert_eq!(read(&written, 50), Ok(all[..2].to_vec()));
        assert_eq!(read(&written, 1_000), Ok(vec![all[1]]));
        assert_eq!(read("", 0), Ok(Vec::new()));
        for (odd, line) in [("x", "line 1"), ("{\"who\":\"192.0.2.7\"}\n{}", "line 2"), ("[]", "line 1")] {
            assert!(read(odd, 0).unwrap_err().contains(line), "{odd}");
        }
    }
}
