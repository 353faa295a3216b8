//! Answers to getaddr.
//!
//! In:     the address book, and who asks through which door.
//! Out:    up to 1,000 addresses, the same for a day to all who ask through one door.
//! Fails:  never.
//! Source: Bitcoin Core, `CConnman::GetAddresses`.
//!
//! Fresh answers for every question would let anybody copy the book, and see through the times in it who is connected to whom.

use std::collections::BTreeMap;

use super::book::Book;
use crate::entropy::{self, Entropy};
use crate::hosts::HostKind;
use crate::wire::PeerAddress;
use crate::wire::limits::ADDRESSES_MAX;

/// Most of the book that is ever told; Core's `MAX_PCT_ADDR_TO_SEND`.
pub const PERCENT_MAX: usize = 23;
/// How long an answer lasts at least, in seconds ...
const LASTS_S: u64 = 21 * 3600;
/// ... and how much longer at most.
const LASTS_MORE_S: u64 = 6 * 3600;

/// Answers that are given again.
#[derive(Debug, Default)]
pub struct Answers {
    by_door: BTreeMap<(HostKind, u16), (u64, Vec<PeerAddress>)>,
}

impl Answers {
    /// The answer to somebody from a network of `kind` who connected to our `port`: so a node seen through Tor and through IPv4
    /// does not give the same list twice.
    pub fn answer(
        &mut self,
        book: &mut Book,
        kind: HostKind,
        port: u16,
        now_s: u64,
        entropy: &mut dyn Entropy,
    ) -> &[PeerAddress] {
        let known = self.by_door.entry((kind, port)).or_default();
        if known.0 <= now_s {
            let lasts_s = LASTS_S + entropy::below(entropy, LASTS_MORE_S);
            *known = (now_s + lasts_s, book.sample(ADDRESSES_MAX, PERCENT_MAX, None, now_s, entropy));
        }
        &known.1
    }
}
