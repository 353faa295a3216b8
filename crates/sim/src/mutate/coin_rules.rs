//! Cases about the coins that are spent: existence, maturity, amounts, signature operations.
//!
//! In:     a block on the bench.
//! Out:    one rule broken, or met at its edge.
//! Fails:  none where the world lacks a coin.
//! Source: Core's `ConnectBlock`, `CheckTxInputs`, `GetTransactionSigOpCost`; BIP 30.

use consensus::connect;
use primitives::hash::{hash160, sha256};
use primitives::{OutPoint, Txid};

use super::craft::Commitment;
use super::{Case, Craft, WorldCoin, broken, valid};
use crate::forge::draft::{Draft, DraftInput, DraftOutput};
use crate::forge::lock::{Kind, push};

/// The table.
pub const CASES: &[Case] = &[
    broken("MissingInput", "an input from nowhere", |craft| {
        missing(craft, |craft, _| OutPoint { txid: Txid(craft.random.bytes()), vout: 0 })
    }),
    broken("MissingInput", "an output beyond the last", |craft| {
        missing(craft, |_, coin| OutPoint { vout: 1_000_000, ..coin.outpoint })
    }),
    broken("MissingInput", "the genesis block's output", |craft| {
        missing(craft, |craft, _| OutPoint { txid: craft.world.judge.book().block(0).tx(0).txid(), vout: 0 })
    }),
    broken("MissingInput", "an output spent in an earlier block", |craft| {
        let book = craft.world.judge.book();
        let heights = (1..craft.height).rev().filter(|&height| book.block(height).tx_count() > 1);
        let spent = heights.map(|height| book.block(height).tx(1).input(0).outpoint()).next()?;
        missing(craft, |_, _| spent)
    }),
    broken("MissingInput", "an output spent twice in the block", |craft| {
        let coin = craft.free_coin()?;
        craft.spend(&[coin], |_| ());
        craft.spend(&[coin], |draft| draft.lock_time = 1);
        Some(())
    }),
    broken("MissingInput", "an output that carries data", |craft| {
        craft.custom(vec![0x6a, 1, 7], Vec::new(), Vec::new())
    }),
    broken("MissingInput", "an output with a script of 10,001 bytes", |craft| {
        craft.custom(vec![0x61; 10_001], vec![0x51], Vec::new())
    }),
    broken("MissingInput", "an output of a later transaction", |craft| {
        chain(craft)?;
        let last = craft.txs.len() - 1;
        craft.txs.swap(last, last - 1);
        Some(())
    }),
    valid("an output of the transaction before", chain),
    broken("Bip30", "a transaction that is in the chain, unspent", |craft| again(craft, true)),
    broken("MissingInput", "a transaction that is in the chain, spent", |craft| again(craft, false)),
    valid("a coinbase spent after 100 blocks", |craft| coinbase_at(craft, 100)),
    broken("PrematureCoinbaseSpend", "a coinbase spent after 99 blocks", |craft| coinbase_at(craft, 99)),
    broken("PrematureCoinbaseSpend", "a coinbase spent after one block", |craft| coinbase_at(craft, 1)),
    broken("PrematureCoinbaseSpend", "the block's own coinbase spent", |craft| {
        // Its txid must be known before it is built: no commitment, no fees, and the first output gets the rest.
        craft.clear();
        craft.commitment = Commitment::Left;
        let anyone = |value_sat| DraftOutput { value_sat, script: vec![0x51] };
        let subsidy_sat = connect::subsidy_sat(craft.height, craft.world.judge.params()) as i64;
        craft.coinbase.outputs = vec![anyone(subsidy_sat - 1), anyone(1)];
        let input = DraftInput::unsigned(OutPoint { txid: craft.coinbase.txid(), vout: 1 }, u32::MAX);
        craft.add(Draft { version: 2, inputs: vec![input], outputs: vec![anyone(1)], lock_time: 0 }, 1);
        Some(())
    }),
    valid("a fee of nothing", |craft| fee(craft, 0)),
    broken("InBelowOut", "one more paid than spent", |craft| fee(craft, -1)),
    valid("signature operations cost 80,000", |craft| sigop_cost(craft, 80_000)),
    broken("SigOpCost", "signature operations cost 80,001", |craft| sigop_cost(craft, 80_001)),
    broken("SigOpCost", "signature operations in redeem scripts", |craft| {
        let coin = craft.coin_of(Kind::P2wpkh)?;
        redeem(craft, coin, &[200; 6])
    }),
];

fn missing(craft: &mut Craft<'_>, make: impl FnOnce(&mut Craft<'_>, &WorldCoin) -> OutPoint) -> Option<()> {
    let coin = craft.free_coin()?;
    let outpoint = make(craft, &coin);
    craft.spend(&[coin], |draft| draft.inputs[0].outpoint = outpoint);
    Some(())
}

/// A transaction and another that spends it.
fn chain(craft: &mut Craft<'_>) -> Option<()> {
    // OP_TRUE, opened by nothing.
    craft.custom(vec![0x51], Vec::new(), Vec::new())
}

/// A transaction of an earlier block once more.
fn again(craft: &mut Craft<'_>, unspent: bool) -> Option<()> {
    let book = craft.world.judge.book();
    let is_coin = |txid: Txid, vout: usize| book.coin(&OutPoint { txid, vout: vout as u32 }).is_some();
    let heights = (1..craft.height).rev();
    let txs = heights.flat_map(|height| book.block(height).txs().skip(1).map(|tx| Draft::of(&tx)).collect::<Vec<_>>());
    let mut fitting = txs.filter(|draft| {
        let txid = draft.txid();
        (0..draft.outputs.len()).any(|vout| is_coin(txid, vout)) == unspent
    });
    let draft = fitting.next()?;
    craft.txs.push(draft);
    Some(())
}

fn coinbase_at(craft: &mut Craft<'_>, age: u32) -> Option<()> {
    let coin = craft.coin_of_any_age(|craft, coin| {
        coin.coinbase && coin.height + age == craft.height && coin.lock.kind.is_spendable_at_once()
    })?;
    craft.spend(&[coin], |_| ());
    Some(())
}

fn fee(craft: &mut Craft<'_>, fee_sat: i64) -> Option<()> {
    let coin = craft.free_coin()?;
    craft.spend(&[coin], |draft| draft.outputs[0].value_sat = coin.value_sat as i64 - fee_sat);
    Some(())
}

/// `0 IF CHECKMULTISIG.. CHECKSIG.. ENDIF 1`: true, and counted for its signature operations all the same.
fn counted(multisigs: usize, singles: usize) -> Vec<u8> {
    let mut script = vec![0x00, 0x63];
    script.extend(std::iter::repeat_n(0xae, multisigs));
    script.extend(std::iter::repeat_n(0xac, singles));
    script.extend_from_slice(&[0x68, 0x51]);
    script
}

/// Makes and spends P2SH outputs whose redeem scripts hold so many `CHECKMULTISIG`, 80 of cost each.
fn redeem(craft: &mut Craft<'_>, coin: WorldCoin, multisigs: &[usize]) -> Option<()> {
    let inner: Vec<(Vec<u8>, bool)> = multisigs.iter().map(|&count| (counted(count.min(198), 0), false)).collect();
    spend_inner(craft, coin, &inner)
}

/// Funds a P2SH or P2WSH output for each inner script (`true` for P2WSH), and spends them in one transaction.
fn spend_inner(craft: &mut Craft<'_>, coin: WorldCoin, inner: &[(Vec<u8>, bool)]) -> Option<()> {
    let value_sat = (coin.value_sat as i64 - 1000) / inner.len() as i64;
    let funding = craft.spend(&[coin], |draft| {
        draft.outputs = inner
            .iter()
            .map(|(script, witness)| {
                let script = if *witness {
                    [&[0, 32], &sha256(script)[..]].concat()
                } else {
                    [&[0xa9, 20], &hash160(script)[..], &[0x87]].concat()
                };
                DraftOutput { value_sat, script }
            })
            .collect();
    });
    let txid = craft.txs[funding].txid();
    let inputs = inner.iter().zip(0..).map(|((script, witness), vout)| {
        let mut input = DraftInput::unsigned(OutPoint { txid, vout }, u32::MAX);
        if *witness {
            input.witness = vec![script.clone()];
        } else {
            push(&mut input.script_sig, script);
        }
        input
    });
    let inputs: Vec<DraftInput> = inputs.collect();
    let outputs = vec![DraftOutput { value_sat: value_sat * inner.len() as i64, script: vec![0x51] }];
    let draft = Draft { version: 2, inputs, outputs, lock_time: 0 };
    craft.add(draft, (value_sat * inner.len() as i64) as u64);
    Some(())
}

/// A block whose signature operations cost exactly so much.
fn sigop_cost(craft: &mut Craft<'_>, want: usize) -> Option<()> {
    let coin = craft.coin_of(Kind::P2wpkh)?;
    craft.clear();
    craft.coinbase.outputs = vec![DraftOutput { value_sat: 0, script: vec![0x51] }];
    // The funding input is P2WPKH and counts one. Five redeem scripts of 198 count 80 each, witness scripts make up the
    // rest: 20 for CHECKMULTISIG, one for CHECKSIG.
    let rest = want - 1 - 5 * 198 * 80;
    let inner = [
        (counted(198, 0), false),
        (counted(198, 0), false),
        (counted(198, 0), false),
        (counted(198, 0), false),
        (counted(198, 0), false),
        (counted(rest / 20, rest % 20), true),
    ];
    spend_inner(craft, coin, &inner)
}
