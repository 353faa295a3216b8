//! Cases about signatures and what surrounds them, for every script type.
//!
//! In:     a block on the bench.
//! Out:    one input signed wrongly, or oddly and yet right.
//! Fails:  none where the world lacks a coin.
//! Source: BIP 66, 141, 143, 147, 341, 342; Core's `EvalScript`, `VerifyWitnessProgram`. High `s`, unknown hash types in
//!         ECDSA and uncompressed keys are only refused by relay policy: as consensus they are valid.

use stdx::random::Random;

use super::craft::seal;
use super::{Case, Craft, Want, WorldCoin, broken, valid};
use crate::forge::keys::{ORDER, der};
use crate::forge::lock::{Kind, Lock, push};
use crate::forge::sighash;

const RULE: &str = "Script";

/// The table.
pub const CASES: &[Case] = &[
    valid("any script type", |craft| one(craft, |_| true).map(|_| ())),
    valid("many inputs of any script type", |craft| {
        let coins: Vec<WorldCoin> = (0..12).filter_map(|_| craft.any_coin()).collect();
        craft.spend(&coins, |_| ());
        Some(())
    }),
    valid("any hash type", |craft| {
        let coin = craft.any_coin()?;
        // One input, one output: SINGLE finds the output that taproot asks for.
        hash_type(craft, coin, |random| {
            let base = [sighash::ALL, sighash::NONE, sighash::SINGLE][random.below(3) as usize];
            base | if random.chance(1, 2) { sighash::ANYONE_CAN_PAY } else { 0 }
        })
    }),
    valid("unknown hash types in ECDSA", |craft| {
        let coin = craft.coin(|coin| coin.lock.needs().lock_time.is_none() && !coin.lock.kind.is_taproot())?;
        hash_type(craft, coin, |random| random.next_u64() as u8)
    }),
    broken(RULE, "unknown hash type in taproot", |craft| {
        let unknown = [4, 5, 0x20, 0x40, 0x80, 0x84, 0xff][craft.random.below(7) as usize];
        let coin = craft.coin_of(Kind::P2trKey)?;
        let index = craft.spend(&[coin], |_| ());
        craft.txs[index].inputs[0].witness[0].push(unknown);
        Some(())
    }),
    broken(RULE, "default hash type written out in taproot", |craft| {
        let coin = craft.coin_of(Kind::P2trKey)?;
        let index = craft.spend(&[coin], |_| ());
        craft.txs[index].inputs[0].witness[0].push(0);
        Some(())
    }),
    broken(RULE, "SINGLE without an output in taproot", |craft| {
        let coins = [craft.free_coin()?, craft.coin_of(Kind::P2trKey)?];
        let mut openings = craft.openings(&coins);
        // Signed as ALL, said to be SINGLE: there is no digest it could be right for.
        openings[1].hash_type = sighash::ALL | sighash::ANYONE_CAN_PAY;
        let index = craft.spend_by(&coins, |_| (), openings);
        *craft.txs[index].inputs[1].witness[0].last_mut()? = sighash::SINGLE;
        Some(())
    }),
    valid("SINGLE without an output before taproot", |craft| {
        let kind = [Kind::P2pkh, Kind::P2wpkh, Kind::P2shMultisig, Kind::P2wshMultisig][craft.random.below(4) as usize];
        let coins = [craft.free_coin()?, craft.coin_of(kind)?];
        let mut openings = craft.openings(&coins);
        openings[1].hash_type = sighash::SINGLE;
        craft.spend_by(&coins, |_| (), openings);
        Some(())
    }),
    broken(RULE, "outputs changed after signing", |craft| {
        let index = one(craft, is_signed)?;
        craft.txs[index].outputs[0].value_sat -= 1;
        Some(())
    }),
    broken(RULE, "lock time changed after signing", |craft| {
        let index = one(craft, |kind| is_signed(kind) && kind.is_spendable_at_once())?;
        craft.txs[index].lock_time = 1;
        Some(())
    }),
    broken(RULE, "version changed after signing", |craft| {
        let index = one(craft, |kind| is_signed(kind) && kind.is_spendable_at_once())?;
        craft.txs[index].version = 1;
        Some(())
    }),
    broken(RULE, "another's keys", |craft| {
        let coin = craft.coin(|coin| coin.lock.needs().lock_time.is_none() && is_locked(coin.lock.kind))?;
        let mut openings = craft.openings(&[coin]);
        openings[0].lock = Lock::new(coin.lock.kind, coin.lock.key + 20);
        craft.spend_by(&[coin], |_| (), openings);
        Some(())
    }),
    broken(RULE, "the amount signed is not the coin's", |craft| {
        let coin = craft.coin(|coin| coin.lock.needs().lock_time.is_none() && signs_amount(coin.lock.kind))?;
        let mut openings = craft.openings(&[coin]);
        openings[0].coin.value_sat += 1;
        craft.spend_by(&[coin], |_| (), openings);
        Some(())
    }),
    broken(RULE, "a witness item too few", |craft| witness(craft, |items| drop(items.remove(0)))),
    broken(RULE, "a witness item too many", |craft| witness(craft, |items| items.insert(0, vec![1]))),
    broken(RULE, "no witness at all", |craft| witness(craft, Vec::clear)),
    broken(RULE, "a witness for a script without one", |craft| {
        let index = one(craft, |kind| is_locked(kind) && !kind.has_witness())?;
        craft.txs[index].inputs[0].witness = vec![vec![1]];
        Some(())
    }),
    broken(RULE, "an input script before a witness program", |craft| {
        let native = |kind: Kind| kind.has_witness() && !matches!(kind, Kind::P2shP2wpkh | Kind::P2shP2wsh);
        let index = one(craft, native)?;
        craft.txs[index].inputs[0].script_sig = vec![0x51];
        Some(())
    }),
    broken(RULE, "one more push in a nested input script", |craft| {
        let index = one(craft, |kind| matches!(kind, Kind::P2shP2wpkh | Kind::P2shP2wsh))?;
        craft.txs[index].inputs[0].script_sig.insert(0, 0x51);
        Some(())
    }),
    broken(RULE, "a byte after the input script's pushes is no push", |craft| {
        let kinds = [Kind::P2shMultisig, Kind::P2shHeightLock];
        let index = one(craft, |kind| kinds.contains(&kind))?;
        craft.txs[index].inputs[0].script_sig.insert(0, 0x61);
        Some(())
    }),
    valid("one more push in an input script", |craft| {
        let kinds = [Kind::P2pk, Kind::P2pkh, Kind::Multisig1of2, Kind::P2shMultisig, Kind::BareHashLock];
        let index = one(craft, |kind| kinds.contains(&kind))?;
        craft.txs[index].inputs[0].script_sig.insert(0, 0x51);
        Some(())
    }),
    valid("an operation in a bare input script", |craft| {
        let index = one(craft, |kind| matches!(kind, Kind::P2pk | Kind::P2pkh | Kind::BareHashLock))?;
        craft.txs[index].inputs[0].script_sig.insert(0, 0x61);
        Some(())
    }),
    broken(RULE, "multisig with a dummy that is not empty", |craft| {
        let index = one(craft, |kind| matches!(kind, Kind::Multisig1of2 | Kind::Multisig2of3 | Kind::P2shMultisig))?;
        craft.txs[index].inputs[0].script_sig[0] = 0x51;
        Some(())
    }),
    broken(RULE, "witness multisig with a dummy that is not empty", |craft| {
        let index = one(craft, |kind| matches!(kind, Kind::P2wshMultisig | Kind::P2shP2wsh))?;
        craft.txs[index].inputs[0].witness[0] = vec![0];
        Some(())
    }),
    broken(RULE, "multisig with signatures in the wrong order", |craft| {
        let index = one(craft, |kind| matches!(kind, Kind::P2wshMultisig | Kind::P2shP2wsh))?;
        craft.txs[index].inputs[0].witness.swap(1, 2);
        Some(())
    }),
    broken(RULE, "multisig with one signature twice", |craft| {
        let index = one(craft, |kind| matches!(kind, Kind::P2wshMultisig | Kind::P2shP2wsh))?;
        let items = &mut craft.txs[index].inputs[0].witness;
        items[1] = items[2].clone();
        Some(())
    }),
    valid("a high s", |craft| signature(craft, |r, s| der(r, &negated(s)))),
    broken(RULE, "r with two more zeros in front", |craft| {
        signature(craft, |r, s| {
            let mut out = der(r, s);
            out.splice(4..4, [0, 0]);
            out[1] += 2;
            out[3] += 2;
            out
        })
    }),
    broken(RULE, "a byte after the signature's numbers", |craft| {
        signature(craft, |r, s| {
            let mut out = der(r, s);
            out.push(0);
            out
        })
    }),
    broken(RULE, "the signature's length one too long", |craft| {
        signature(craft, |r, s| {
            let mut out = der(r, s);
            out[1] += 1;
            out
        })
    }),
    broken(RULE, "r of zero", |craft| signature(craft, |_, s| der(&[0; 32], s))),
    broken(RULE, "s of zero", |craft| signature(craft, |r, _| der(r, &[0; 32]))),
    broken(RULE, "s of the order", |craft| signature(craft, |r, _| der(r, &ORDER))),
    broken(RULE, "an empty signature", |craft| {
        let index = one(craft, |kind| matches!(kind, Kind::P2wpkh | Kind::P2wshP2pk | Kind::P2shP2wpkh))?;
        craft.txs[index].inputs[0].witness[0].clear();
        Some(())
    }),
    broken(RULE, "a Schnorr signature of 63 bytes", |craft| {
        let index = one(craft, |kind| kind == Kind::P2trKey)?;
        craft.txs[index].inputs[0].witness[0].pop();
        Some(())
    }),
    broken(RULE, "a bit of a Schnorr signature", |craft| {
        let index = one(craft, |kind| matches!(kind, Kind::P2trKey | Kind::P2trKeyOverTree))?;
        let bit = craft.random.below(512) as usize;
        craft.txs[index].inputs[0].witness[0][bit / 8] ^= 1 << (bit % 8);
        Some(())
    }),
    broken(RULE, "an annex that was not signed", |craft| {
        let index = one(craft, |kind| matches!(kind, Kind::P2trKey | Kind::P2trSingleKey))?;
        craft.txs[index].inputs[0].witness.push(vec![0x50, 1]);
        Some(())
    }),
    broken(RULE, "the control block's parity", |craft| control(craft, |control| control[0] ^= 1)),
    broken(RULE, "another leaf version", |craft| control(craft, |control| control[0] ^= 2)),
    broken(RULE, "another internal key", |craft| control(craft, |control| control[5] ^= 1)),
    broken(RULE, "a control block one byte longer", |craft| control(craft, |control| control.push(0))),
    broken(RULE, "a control block one node longer", |craft| control(craft, |control| control.extend([7; 32]))),
    broken(RULE, "a control block one byte shorter", |craft| {
        control(craft, |control| control.truncate(control.len() - 1))
    }),
    broken(RULE, "another preimage", |craft| {
        let index = one(craft, |kind| kind == Kind::BareHashLock)?;
        craft.txs[index].inputs[0].script_sig[5] ^= 1;
        Some(())
    }),
    Case {
        name: "one bit of a transaction flipped, all else put right",
        want: Want::Agreement,
        make: |craft| {
            one(craft, |_| true)?;
            craft.bend = Some(|random, bytes| {
                let bit = (81 * 8 + random.below((bytes.len() as u64 - 81) * 8)) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
                seal(bytes);
            });
            Some(())
        },
    },
    Case {
        name: "one bit of an input flipped before all is committed to",
        want: Want::Agreement,
        make: |craft| {
            let index = one(craft, |_| true)?;
            flip(craft, index);
            Some(())
        },
    },
];

fn is_locked(kind: Kind) -> bool {
    !matches!(kind, Kind::FutureWitness | Kind::Anchor)
}

fn is_signed(kind: Kind) -> bool {
    is_locked(kind) && kind != Kind::BareHashLock
}

fn signs_amount(kind: Kind) -> bool {
    kind.has_witness()
}

/// A transaction with one input of a type that `fits`; its position.
fn one(craft: &mut Craft<'_>, fits: impl Fn(Kind) -> bool) -> Option<usize> {
    // A type first, then a coin of it: rare types come up as often as common ones.
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|&kind| fits(kind)).collect();
    let kind = kinds[craft.random.below(kinds.len() as u64) as usize];
    let coin = craft.coin_of(kind)?;
    Some(craft.spend(&[coin], |_| ()))
}

fn hash_type(craft: &mut Craft<'_>, coin: WorldCoin, draw: impl FnOnce(&mut Random) -> u8) -> Option<()> {
    let mut openings = craft.openings(&[coin]);
    openings[0].hash_type = draw(craft.random);
    craft.spend_by(&[coin], |_| (), openings);
    Some(())
}

fn witness(craft: &mut Craft<'_>, bend: impl FnOnce(&mut Vec<Vec<u8>>)) -> Option<()> {
    let index = one(craft, Kind::has_witness)?;
    bend(&mut craft.txs[index].inputs[0].witness);
    Some(())
}

fn control(craft: &mut Craft<'_>, bend: impl FnOnce(&mut Vec<u8>)) -> Option<()> {
    let index = one(craft, |kind| matches!(kind, Kind::P2trSingleKey | Kind::P2trMultisig | Kind::P2trHashLock))?;
    bend(craft.txs[index].inputs[0].witness.last_mut()?);
    Some(())
}

fn negated(s: &[u8; 32]) -> [u8; 32] {
    let mut out = [0; 32];
    let mut borrow = 0i16;
    for i in (0..32).rev() {
        let digit = i16::from(ORDER[i]) - i16::from(s[i]) - borrow;
        borrow = i16::from(digit < 0);
        out[i] = digit.rem_euclid(256) as u8;
    }
    out
}

/// Replaces the one ECDSA signature of an input by what `bend` makes of its numbers.
fn signature(craft: &mut Craft<'_>, bend: impl FnOnce(&[u8; 32], &[u8; 32]) -> Vec<u8>) -> Option<()> {
    let legacy = craft.random.chance(1, 2);
    let index = one(craft, |kind| if legacy { kind == Kind::P2pkh } else { kind == Kind::P2wpkh })?;
    let input = &mut craft.txs[index].inputs[0];
    let old =
        if legacy { input.script_sig[1..=input.script_sig[0] as usize].to_vec() } else { input.witness[0].clone() };
    let numbers = sigs::parse_der_lax(&old[..old.len() - 1])?;
    let (r, s) = numbers.split_at(32);
    let mut new = bend(r.try_into().expect("32 bytes"), s.try_into().expect("32 bytes"));
    new.push(old[old.len() - 1]);
    if legacy {
        let key = input.script_sig[1 + old.len()..].to_vec();
        input.script_sig.clear();
        push(&mut input.script_sig, &new);
        input.script_sig.extend_from_slice(&key);
    } else {
        input.witness[0] = new;
    }
    Some(())
}

/// Flips one bit somewhere in the input scripts and witnesses of a transaction.
fn flip(craft: &mut Craft<'_>, index: usize) {
    let Craft { txs, random, .. } = craft;
    let mut places: Vec<&mut Vec<u8>> = Vec::new();
    for input in &mut txs[index].inputs {
        places.push(&mut input.script_sig);
        places.extend(input.witness.iter_mut());
    }
    places.retain(|place| !place.is_empty());
    if let Some(count) = (places.len() as u64).checked_sub(1) {
        let place = &mut places[random.below(count + 1) as usize];
        let bit = random.below(place.len() as u64 * 8) as usize;
        place[bit / 8] ^= 1 << (bit % 8);
    }
}
