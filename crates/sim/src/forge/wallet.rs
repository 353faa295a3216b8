//! Which scripts a chain gets to be measured by: a wallet, and histories of every size.
//!
//! In:     a seed, how many scripts, the heights at which the chain spends.
//! Out:    [`SpecialScript`]s for [`super::ForgeOptions::special`].
//! Fails:  never.
//! Source: docs/forge.md. The sizes of the address reports (10 to 999 transactions) and of the wallet report (a wallet with
//!         3,000 used addresses) are theirs; how often a wallet's address is used is an estimate, marked so there.

use super::{Kind, SpecialScript, stream};

/// Of 1,000 used addresses of a wallet: how many have so many entries, from the least to the most.
pub const WALLET_ENTRIES: [(u64, u32, u32); 6] =
    [(120, 1, 1), (560, 2, 2), (150, 3, 4), (110, 5, 9), (50, 10, 49), (10, 50, 500)];
/// Sizes of histories drawn by chance, as the address reports chose theirs.
pub const DRAWN_ENTRIES: (u32, u32) = (10, 999);

/// A wallet of so many used addresses, by number `wallet` from 1, of a chain that spends between these heights.
///
/// Addresses are used one after the other, as wallets hand them out: each for a tenth of the chain, those used more than
/// four times for half of it. One in eight still holds what it received.
pub fn wallet(seed: u64, wallet: u32, addresses: u32, (first, last): (u32, u32)) -> Vec<SpecialScript> {
    let mut random = stream(seed, 0x7761_6c6c_0000 + u64::from(wallet));
    let span = last.saturating_sub(first);
    let address = |number: u32| {
        let mut drawn = random.below(1000);
        let mut size = WALLET_ENTRIES.iter();
        let (least, most) = loop {
            let (share, least, most) = *size.next().expect("shares add up to 1,000");
            if drawn < share {
                break (least, most);
            }
            drawn -= share;
        };
        let entries = least + random.below(u64::from(most - least) + 1) as u32;
        // Whoever received once holds it; with more entries most have spent all, some hold a few.
        let held = if random.chance(1, 8) { 1 + random.below(3) as u32 } else { 0 };
        let unspent = if entries == 1 { 1 } else { held.min(entries) };
        let from = first + (u64::from(number) * u64::from(span) * 9 / (10 * u64::from(addresses))) as u32;
        let stays = if entries > 4 { span / 2 } else { span / 10 };
        let heights = Some((from, (from + stays.max(2)).min(last)));
        SpecialScript { kind: Kind::P2wpkh, entries, unspent, heights, wallet }
    };
    (0..addresses).map(address).collect()
}

/// So many scripts: first the sizes 1, 10, 100 and on up to `entries_max`, each with few and with many unspent outputs; the
/// others drawn evenly over the orders of magnitude of [`DRAWN_ENTRIES`], their unspent outputs drawn apart from that.
pub fn histories(seed: u64, count: u32, entries_max: u32) -> Vec<SpecialScript> {
    let mut random = stream(seed, 0x7369_7a65);
    let mut scripts = Vec::new();
    let sizes = (0..=6).map(|power| 10u32.pow(power)).take_while(|size| *size <= entries_max);
    for entries in sizes {
        let kind = KINDS[scripts.len() / 2 % KINDS.len()];
        scripts.push(SpecialScript::new(kind, entries, entries.min(10)));
        if entries > 20 {
            scripts.push(SpecialScript::new(kind, entries, entries / 2));
        }
    }
    while scripts.len() < count as usize {
        let entries = between(&mut random, DRAWN_ENTRIES.0, DRAWN_ENTRIES.1.min(entries_max.max(DRAWN_ENTRIES.0)));
        let unspent = between(&mut random, 1, entries);
        let kind = KINDS[random.below(KINDS.len() as u64) as usize];
        scripts.push(SpecialScript::new(kind, entries, unspent));
    }
    scripts.truncate(count as usize);
    scripts
}

/// Types of the scripts that are measured: those people use most.
const KINDS: [Kind; 5] = [Kind::P2wpkh, Kind::P2pkh, Kind::P2trKey, Kind::P2shP2wpkh, Kind::P2wshMultisig];

/// A number from `least` to `most`, each doubling of it as likely as any other; whole numbers only, so that every machine
/// draws the same.
fn between(random: &mut stdx::random::Random, least: u32, most: u32) -> u32 {
    let (low, high) = (u64::from(least), u64::from(most));
    let doublings = u64::from((high / low).ilog2()) + 1;
    loop {
        let from = low << random.below(doublings);
        let drawn = from + random.below(from);
        if drawn <= high {
            return drawn as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wallet_has_the_shares_of_its_table() {
        assert_eq!(WALLET_ENTRIES.iter().map(|row| row.0).sum::<u64>(), 1000);
        let scripts = wallet(1, 1, 3_000, (101, 1_000));
        assert_eq!(scripts, wallet(1, 1, 3_000, (101, 1_000)), "same seed, same wallet");
        assert!(scripts != wallet(2, 1, 3_000, (101, 1_000)) && scripts != wallet(1, 2, 3_000, (101, 1_000)));
        for (share, least, most) in WALLET_ENTRIES {
            let found = scripts.iter().filter(|script| (least..=most).contains(&script.entries)).count() as f64;
            let want = 3.0 * share as f64;
            // Four standard deviations of as many draws.
            assert!((found - want).abs() < 4.0 * want.sqrt(), "{least} to {most}: {found}, not {want}");
        }
        assert!(scripts.iter().all(|script| script.unspent <= script.entries && script.wallet == 1));
        assert!(scripts.iter().all(|script| script.heights.is_some_and(|(from, to)| from < to && to <= 1_000)));
        assert!(scripts.is_sorted_by_key(|script| script.heights.map(|heights| heights.0)), "one after the other");
    }

    #[test]
    fn histories_have_every_size_and_unspent_outputs_of_their_own() {
        let scripts = histories(1, 300, 100_000);
        assert_eq!(scripts.len(), 300);
        for entries in [1, 10, 100, 1_000, 10_000, 100_000] {
            let few = scripts.iter().any(|script| script.entries == entries && script.unspent == entries.min(10));
            let many = entries <= 20 || scripts.iter().any(|script| script.entries == entries && script.unspent > 20);
            assert!(few && many, "{entries}");
        }
        let drawn = &scripts[10..];
        assert!(drawn.iter().all(|script| (10..=999).contains(&script.entries) && script.unspent >= 1));
        // Each doubling from 10 to 999 (seven of them, the last one cut off) has its share.
        for power in 0..6 {
            let from = 10 << power;
            let found = drawn.iter().filter(|script| (from..2 * from).contains(&script.entries)).count();
            assert!((20..=75).contains(&found), "{from}: {found}");
        }
        let many = drawn.iter().filter(|script| script.entries >= 100 && script.unspent < 10).count();
        assert!(many > 10, "long histories with few unspent outputs: {many}");
        assert_eq!(histories(1, 3, 100_000).len(), 3);
        assert!(histories(1, 50, 5).iter().all(|script| script.entries <= 10));
    }
}
