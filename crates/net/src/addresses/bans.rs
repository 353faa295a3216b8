//! Hosts that are not welcome.
//!
//! In:     subnets the user bans until a time; hosts that broke a rule.
//! Out:    whether a host is banned, or discouraged.
//! Fails:  a line of the list that is none, with its number.
//! Source: Bitcoin Core, `src/banman.cpp`: bans are the user's, discouragement is ours and forgets.
//!
//! Only the user adds bans, and looking one up takes a search for each length of prefix in the list; peers add to the
//! discouraged, of whom the last 100,000 at most are kept (CVE-2020-14198 let peers grow a list that every message searched).

use std::collections::{BTreeMap, HashSet};

use crate::hosts::Subnet;
use crate::wire::Host;

/// Hosts of one generation of the discouraged; two are kept.
const DISCOURAGED_MAX: usize = 50_000;

/// A ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// Since when, in seconds since 1970.
    pub created_s: u64,
    /// Until when, in seconds since 1970.
    pub until_s: u64,
}

/// All hosts that are not welcome.
#[derive(Debug, Default)]
pub struct Bans {
    banned: BTreeMap<Subnet, Ban>,
    /// How many subnets there are of each length.
    lengths: BTreeMap<u16, usize>,
    discouraged: [HashSet<Host>; 2],
}

impl Bans {
    /// Bans a subnet; a longer ban that there is stays.
    pub fn ban(&mut self, subnet: Subnet, ban: Ban) {
        match self.banned.get_mut(&subnet) {
            Some(known) if known.until_s >= ban.until_s => {}
            Some(known) => *known = ban,
            None => {
                self.banned.insert(subnet, ban);
                *self.lengths.entry(subnet.bits).or_default() += 1;
            }
        }
    }

    /// Lifts a ban; false where there was none.
    pub fn lift(&mut self, subnet: &Subnet) -> bool {
        let was_there = self.banned.remove(subnet).is_some();
        if was_there && let Some(count) = self.lengths.get_mut(&subnet.bits) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&subnet.bits);
            }
        }
        was_there
    }

    /// Lifts all bans.
    pub fn clear(&mut self) {
        self.banned.clear();
        self.lengths.clear();
    }

    /// Forgets the bans that are over.
    pub fn sweep(&mut self, now_s: u64) {
        let over: Vec<Subnet> =
            self.banned.iter().filter(|(_, ban)| ban.until_s <= now_s).map(|(subnet, _)| *subnet).collect();
        over.iter().for_each(|subnet| {
            self.lift(subnet);
        });
    }

    /// The bans, by subnet.
    pub fn iter(&self) -> impl Iterator<Item = (&Subnet, &Ban)> {
        self.banned.iter()
    }

    /// True while a ban covers the host.
    pub fn is_banned(&self, host: &Host, now_s: u64) -> bool {
        let width = 8 * host.bytes().len() as u16;
        let lengths = self.lengths.keys().filter(|bits| **bits <= width);
        let mut found = lengths.filter_map(|bits| self.banned.get(&Subnet::new(*host, *bits)));
        found.any(|ban| ban.until_s > now_s)
    }

    /// Takes note of a host that broke a rule.
    pub fn discourage(&mut self, host: Host) {
        if self.discouraged[0].len() >= DISCOURAGED_MAX {
            self.discouraged.swap(0, 1);
            self.discouraged[0].clear();
        }
        self.discouraged[0].insert(host);
    }

    /// True for a host that broke a rule not too long ago.
    pub fn is_discouraged(&self, host: &Host) -> bool {
        self.discouraged.iter().any(|generation| generation.contains(host))
    }

    /// The list as text, a ban a line.
    pub fn to_text(&self) -> String {
        self.banned.iter().map(|(subnet, ban)| format!("{subnet} {} {}\n", ban.created_s, ban.until_s)).collect()
    }

    /// The list of a text; on failure the number of the line, from 1.
    pub fn from_text(text: &str) -> Result<Bans, usize> {
        let mut bans = Bans::default();
        for (row, line) in text.lines().enumerate() {
            let mut words = line.split(' ');
            let mut parse = || {
                let subnet = words.next()?.parse().ok()?;
                let ban = Ban { created_s: words.next()?.parse().ok()?, until_s: words.next()?.parse().ok()? };
                words.next().is_none().then_some((subnet, ban))
            };
            let (subnet, ban) = parse().ok_or(row + 1)?;
            bans.ban(subnet, ban);
        }
        Ok(bans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        text.parse().unwrap()
    }

    #[test]
    fn bans_hold_until_their_time_and_survive_as_text() {
        let mut bans = Bans::default();
        bans.ban("1.2.0.0/16".parse().unwrap(), Ban { created_s: 5, until_s: 100 });
        bans.ban("1.2.3.4".parse().unwrap(), Ban { created_s: 5, until_s: 200 });
        bans.ban("1.2.3.4".parse().unwrap(), Ban { created_s: 6, until_s: 150 });
        bans.ban("2001:db8::/32".parse().unwrap(), Ban { created_s: 5, until_s: 100 });
        let text = bans.to_text();
        assert_eq!(Bans::from_text(&text).unwrap().to_text(), text);
        #[track_caller]
        fn check(bans: &Bans, text: &str, now_s: u64, want: bool) {
            assert_eq!(bans.is_banned(&host(text), now_s), want, "{text} at {now_s}");
        }
        check(&bans, "1.2.9.9", 99, true);
        check(&bans, "1.2.9.9", 100, false);
        check(&bans, "1.2.3.4", 199, true);
        check(&bans, "1.2.3.4", 200, false);
        check(&bans, "1.3.0.0", 50, false);
        check(&bans, "2001:db8:ffff::", 50, true);
        bans.sweep(100);
        assert_eq!(bans.iter().count(), 1);
        assert!(bans.lift(&"1.2.3.4".parse().unwrap()) && !bans.lift(&"1.2.3.4".parse().unwrap()));
        assert!(bans.lengths.is_empty());
        for (text, line) in [("x", 1), ("1.2.3.4 1 2\n1.2.3.4 1", 2), ("1.2.3.4 1 2 3", 1), ("1.2.3.4 1 -2", 1)] {
            assert_eq!(Bans::from_text(text).err(), Some(line), "{text}");
        }
    }

    #[test]
    fn the_discouraged_are_bounded_and_the_latest_are_kept() {
        let mut bans = Bans::default();
        let host = |n: u32| Host::V4(n.to_be_bytes());
        for n in 0..300_000 {
            bans.discourage(host(n));
        }
        let kept: usize = bans.discouraged.iter().map(HashSet::len).sum();
        assert!((DISCOURAGED_MAX..=2 * DISCOURAGED_MAX).contains(&kept));
        assert!((299_999 - DISCOURAGED_MAX as u32 + 1..300_000).all(|n| bans.is_discouraged(&host(n))));
        assert!(!bans.is_discouraged(&host(0)));
    }
}
