//! Cases about single transactions that need no chain state.
//!
//! In:     a block on the bench.
//! Out:    one rule broken, or met at its edge.
//! Fails:  none where the world lacks a coin.
//! Source: Core's `CheckTransaction`.

use primitives::{OutPoint, Txid};

use super::{Case, Craft, broken, valid};
use crate::forge::draft::{Draft, DraftInput};
use crate::forge::lock::push_number;

const MONEY: i64 = consensus::MONEY_SAT_MAX as i64;

/// The table.
pub const CASES: &[Case] = &[
    // A transaction without inputs that has outputs reads as one with witnesses: without both it can be written.
    broken("NoInputs", "no inputs", |craft| {
        craft.txs.push(Draft { version: 2, inputs: Vec::new(), outputs: Vec::new(), lock_time: 0 });
        Some(())
    }),
    broken("NoOutputs", "no outputs", |craft| {
        let coin = craft.free_coin()?;
        let index = craft.spend(&[coin], |_| ());
        craft.txs[index].outputs.clear();
        Some(())
    }),
    valid("output of nothing", |craft| amounts(craft, &[0])),
    broken("NegativeOutput", "output of minus one", |craft| amounts(craft, &[-1])),
    broken("NegativeOutput", "output of the lowest number", |craft| amounts(craft, &[i64::MIN])),
    broken("OutputTooLarge", "output of all money and one", |craft| amounts(craft, &[MONEY + 1])),
    broken("OutputTooLarge", "output of the highest number", |craft| amounts(craft, &[i64::MAX])),
    broken("InBelowOut", "output of all money", |craft| amounts(craft, &[MONEY])),
    broken("OutputSumTooLarge", "outputs of all money and one in sum", |craft| amounts(craft, &[MONEY, 1])),
    broken("OutputSumTooLarge", "three outputs of half of all money", |craft| {
        amounts(craft, &[MONEY / 2, MONEY / 2, MONEY / 2])
    }),
    broken("InBelowOut", "outputs of all money in sum", |craft| amounts(craft, &[MONEY - 1, 1])),
    broken("DuplicateInput", "an input twice", |craft| {
        let coin = craft.free_coin()?;
        craft.spend(&[coin, coin], |_| ());
        Some(())
    }),
    broken("DuplicateInput", "an input twice with another between", |craft| {
        let (coin, other) = (craft.free_coin()?, craft.free_coin()?);
        craft.spend(&[coin, other, coin], |_| ());
        Some(())
    }),
    broken("NullInput", "an input that names nothing", |craft| {
        let coin = craft.free_coin()?;
        craft.spend(&[coin], |_| ());
        let index = craft.txs.len() - 1;
        craft.txs[index].inputs.push(DraftInput::unsigned(OutPoint::NULL, 0));
        Some(())
    }),
    broken("MissingInput", "an input with the null txid and another position", |craft| {
        let coin = craft.free_coin()?;
        craft.spend(&[coin], |_| ());
        let index = craft.txs.len() - 1;
        let outpoint = OutPoint { txid: Txid([0; 32]), vout: 0 };
        craft.txs[index].inputs.push(DraftInput::unsigned(outpoint, 0));
        Some(())
    }),
    broken("CoinbaseScriptLength", "coinbase script of no bytes", |craft| coinbase_length(craft, 0)),
    broken("CoinbaseScriptLength", "coinbase script of one byte", |craft| coinbase_length(craft, 1)),
    valid("coinbase script of nothing but the height", |craft| {
        craft.coinbase.inputs[0].script_sig.clear();
        push_number(&mut craft.coinbase.inputs[0].script_sig, craft.height);
        Some(())
    }),
    valid("coinbase script of 100 bytes", |craft| coinbase_length(craft, 100)),
    broken("CoinbaseScriptLength", "coinbase script of 101 bytes", |craft| coinbase_length(craft, 101)),
    valid("coinbase that claims less", |craft| coinbase_extra(craft, -1)),
    broken("CoinbaseAmount", "coinbase that claims one more", |craft| coinbase_extra(craft, 1)),
    broken("CoinbaseAmount", "coinbase that claims a coin more", |craft| coinbase_extra(craft, 100_000_000)),
];

fn amounts(craft: &mut Craft<'_>, amounts: &[i64]) -> Option<()> {
    let coin = craft.free_coin()?;
    craft.spend(&[coin], |draft| {
        let output = draft.outputs[0].clone();
        draft.outputs = vec![output; amounts.len()];
        for (output, &value_sat) in draft.outputs.iter_mut().zip(amounts) {
            output.value_sat = value_sat;
        }
    });
    Some(())
}

fn coinbase_length(craft: &mut Craft<'_>, length: usize) -> Option<()> {
    craft.coinbase.inputs[0].script_sig.resize(length, 0);
    Some(())
}

fn coinbase_extra(craft: &mut Craft<'_>, extra_sat: i64) -> Option<()> {
    craft.coinbase_extra_sat = extra_sat;
    Some(())
}
