//! Valid spends of every kind, damaged at random: never a yes that Core's interpreter does not give.
//!
//! In:     a seed, the kinds of [`crate::spends`].
//! Out:    one verdict from templates plus interpreter and from the interpreter alone, for thousands of cases.
//! Fails:  panics with kind, case and the changes made; the same seed makes the same cases.

use std::collections::HashMap;

use consensus::Flags;
use stdx::random::Random;

use crate::raw::{judge, one_input};
use crate::spends::{Kind, Spend};

const CASES_PER_KIND: u64 = 800;

/// Every subset of rules that some block could be judged by, and more: witness needs P2SH, taproot needs witness.
fn rules(random: &mut Random) -> Flags {
    let any = [Flags::DERSIG, Flags::NULLDUMMY, Flags::CLTV, Flags::CSV];
    let mut flags = Flags::NONE;
    for flag in any.into_iter().filter(|_| random.chance(1, 2)) {
        flags = flags | flag;
    }
    let steps = [Flags::P2SH, Flags::WITNESS, Flags::TAPROOT];
    for flag in &steps[..random.below(4) as usize] {
        flags = flags | *flag;
    }
    if random.chance(1, 2) { Flags::ALL } else { flags }
}

/// n - s for the group order n, in a signature written in strict DER with a low s.
fn with_high_s(signature: &[u8]) -> Option<Vec<u8>> {
    let (&hash_type, der) = signature.split_last()?;
    let compact = secp256k1::ecdsa::Signature::from_der(der).ok()?.serialize_compact();
    let s = secp256k1::SecretKey::from_secret_bytes(compact[32..].try_into().unwrap()).ok()?;
    let mut high = compact;
    high[32..].copy_from_slice(&s.negate().to_secret_bytes());
    let mut out = secp256k1::ecdsa::Signature::from_compact(&high).ok()?.serialize_der().to_vec();
    out.push(hash_type);
    Some(out)
}

/// The same numbers in an encoding that only the lenient reader takes.
fn with_lax_der(random: &mut Random, signature: &[u8]) -> Vec<u8> {
    let mut out = signature.to_vec();
    match random.below(4) {
        // The outer length is not looked at.
        0 if out.len() > 1 => out[1] = random.next_u64() as u8 & 0x7f,
        // A zero in front of r.
        1 if out.len() > 4 => {
            out[3] += 1;
            out.insert(4, 0);
        }
        // A long form of r's length.
        2 if out.len() > 4 => out.insert(3, 0x81),
        // Bytes after s.
        _ => {
            let at = out.len().saturating_sub(1);
            out.insert(at, random.next_u64() as u8);
        }
    }
    out
}

/// One change of one element.
fn change_bytes(random: &mut Random, item: &mut Vec<u8>) -> &'static str {
    let length = item.len() as u64;
    match random.below(9) {
        0..=2 if length > 0 => {
            item[random.below(length) as usize] ^= 1 << random.below(8);
            "bit"
        }
        3 if length > 0 => {
            *item.last_mut().unwrap() = random.next_u64() as u8;
            "hash type"
        }
        4 => {
            *item = with_high_s(item).unwrap_or_default();
            "high s"
        }
        5 => {
            *item = with_lax_der(random, item);
            "lax DER"
        }
        6 => {
            item.truncate(random.below(length + 1) as usize);
            "cut"
        }
        7 if length > 0 => {
            item[0] = random.below(9) as u8;
            "first byte"
        }
        _ => {
            item.push(random.below(2) as u8);
            "longer"
        }
    }
}

/// One change of a list of elements.
fn change_list(random: &mut Random, items: &mut Vec<Vec<u8>>) -> &'static str {
    let count = items.len() as u64;
    match random.below(6) {
        0 => {
            items.insert(random.below(count + 1) as usize, random.bytes::<3>()[..random.below(4) as usize].to_vec());
            "extra element"
        }
        1 if count > 0 => {
            items.remove(random.below(count) as usize);
            "element lost"
        }
        2 if count > 1 => {
            items.swap(random.below(count) as usize, random.below(count) as usize);
            "elements swapped"
        }
        3 if count > 0 => {
            let copy = items[random.below(count) as usize].clone();
            items.insert(random.below(count + 1) as usize, copy);
            "element twice"
        }
        4 => {
            items.push(vec![0x50, 1]);
            "annex"
        }
        _ if count > 0 => {
            let place = random.below(count) as usize;
            change_bytes(random, &mut items[place])
        }
        _ => "nothing",
    }
}

/// One change anywhere.
fn change(random: &mut Random, spend: &mut Spend) -> &'static str {
    let subject = spend.subject;
    let input = &mut spend.tx.inputs[subject];
    match random.below(16) {
        0..=4 => change_list(random, &mut spend.pushes),
        5..=9 => change_list(random, &mut input.witness),
        10 => change_bytes(random, &mut spend.script),
        11 => {
            spend.value_sat ^= 1;
            "amount"
        }
        12 => {
            input.sequence ^= 1 << random.below(32);
            "sequence"
        }
        13 => {
            spend.tx.outputs[0].0 ^= 1;
            "output"
        }
        14 => {
            // Pushes by opcodes longer than needed; never minimal, always valid before segwit.
            input.script_sig = Vec::new();
            for item in spend.pushes.drain(..) {
                let length = item.len() as u32;
                match random.below(3) {
                    0 if length < 256 => input.script_sig.extend([76, length as u8]),
                    1 => input.script_sig.extend([77, length as u8, (length >> 8) as u8]),
                    _ => input.script_sig.extend([&[78][..], &length.to_le_bytes()].concat()),
                }
                input.script_sig.extend(item);
            }
            "long pushes"
        }
        _ => {
            input.script_sig.push([0x00, 0x51, 0x61, 0x4f, 0xab][random.below(5) as usize]);
            "operation in front"
        }
    }
}

#[test]
fn undamaged_spends_are_taken_by_their_template() {
    let mut random = Random::new(1);
    for kind in Kind::ALL {
        for case in 0..60 {
            let spend = Spend::new(&mut random, kind);
            let (transaction, coins) = (spend.transaction(), spend.coins());
            let (valid, by_template) = one_input(transaction.tx(), &coins, spend.subject, Flags::ALL);
            assert!(valid, "{kind:?} {case} {spend:?}");
            assert_eq!(by_template, 1, "{kind:?} {case} {spend:?}");
        }
    }
}

#[test]
fn damaged_spends_get_the_interpreters_verdict() {
    let mut random = Random::new(2026);
    let (mut valid_count, mut by_template, mut made): (u64, u64, HashMap<&str, u64>) = Default::default();
    for kind in Kind::ALL {
        let (mut valid_of_kind, mut templates_of_kind) = (0, 0);
        for case in 0..CASES_PER_KIND {
            let mut spend = Spend::new(&mut random, kind);
            let changes: Vec<&str> = (0..1 + random.below(2)).map(|_| change(&mut random, &mut spend)).collect();
            changes.iter().for_each(|change| *made.entry(change).or_default() += 1);
            let (transaction, coins) = (spend.transaction(), spend.coins());
            let flags = rules(&mut random);
            let name = || format!("{kind:?} {case} {changes:?} {spend:?}");
            let (valid, work) = judge(transaction.tx(), &coins, flags, &Lazily(&name));
            valid_of_kind += u64::from(valid);
            templates_of_kind += work.template_inputs;
        }
        assert!(valid_of_kind > 50 && valid_of_kind < CASES_PER_KIND - 50, "{kind:?}: {valid_of_kind} valid");
        assert!(templates_of_kind > 10, "{kind:?}: a template said yes {templates_of_kind} times");
        (valid_count, by_template) = (valid_count + valid_of_kind, by_template + templates_of_kind);
    }
    let cases = CASES_PER_KIND * Kind::ALL.len() as u64;
    println!(
        "{cases} damaged spends: {valid_count} valid, {by_template} of them by a template; changes made: {made:?}"
    );
}

/// Text made only when a test fails.
struct Lazily<'a>(&'a dyn Fn() -> String);

impl std::fmt::Display for Lazily<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0())
    }
}
