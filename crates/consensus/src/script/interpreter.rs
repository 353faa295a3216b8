//! Bitcoin Core's script interpreter, for every input that is not a template.
//!
//! In:     a transaction, the coins it spends, an input, flags.
//! Out:    Core's verdict; it stands.
//! Fails:  never on an input. A transaction that Core cannot parse although we did is a broken promise: `expect`.
//! Source: libbitcoinkernel (`btck_script_pubkey_verify`).
//!
//! Each call of the library copies the precomputed data it is handed, the outputs spent by all inputs included: n
//! inputs cost n^2 copies. Only native taproot programs look at those outputs, so every other input is handed data
//! without them, with the taproot rule, which cannot touch it, left out.

use bitcoinkernel::prelude::*;
use bitcoinkernel::{PrecomputedTransactionData, ScriptPubkey, Transaction, TxOut, verify};
use primitives::{SpentCoins, Tx};

use super::sighash::TxCoins;
use crate::flags::Flags;

/// One transaction as the interpreter holds it; what is costly is made when first needed.
pub struct Interpreter<'a> {
    coins: TxCoins<'a>,
    transaction: Transaction,
    /// Without the outputs spent.
    light: Option<PrecomputedTransactionData>,
    /// With them.
    full: Option<PrecomputedTransactionData>,
}

impl<'a> Interpreter<'a> {
    /// Hands the transaction over.
    pub fn new(tx: Tx<'a>, coins: TxCoins<'a>) -> Interpreter<'a> {
        let transaction = Transaction::new(tx.raw()).expect("both parsers read the same format");
        assert_eq!(transaction.input_count(), tx.input_count(), "both parsers read the same format");
        Interpreter { coins, transaction, light: None, full: None }
    }

    /// Core's verdict on input `input`.
    pub fn verify(&mut self, input: usize, flags: Flags) -> bool {
        let coin = self.coins.get(input);
        let needs_coins = flags.has(Flags::TAPROOT) && is_taproot(coin.script);
        let (data, flags) = if needs_coins {
            (self.full.get_or_insert_with(|| with_coins(&self.transaction, self.coins)), flags)
        } else {
            (self.light.get_or_insert_with(|| without_coins(&self.transaction)), Flags(flags.0 & !Flags::TAPROOT.0))
        };
        let script = ScriptPubkey::new(coin.script).expect("any bytes are a script");
        let value_sat = i64::try_from(coin.value_sat).expect("a coin's amount was checked to be below MAX_MONEY");
        verify(&script, Some(value_sat), &self.transaction, input, Some(flags.0), data).is_ok()
    }
}

/// A native witness program of version 1 with 32 bytes: the only script the taproot rule acts on.
fn is_taproot(script: &[u8]) -> bool {
    script.len() == 34 && script.starts_with(&[0x51, 0x20])
}

fn without_coins(transaction: &Transaction) -> PrecomputedTransactionData {
    PrecomputedTransactionData::new(transaction, &[] as &[TxOut]).expect("no outputs are always few enough")
}

fn with_coins(transaction: &Transaction, coins: TxCoins<'_>) -> PrecomputedTransactionData {
    let output = |coin: primitives::Coin<'_>| {
        let script = ScriptPubkey::new(coin.script).expect("any bytes are a script");
        TxOut::new(&script, i64::try_from(coin.value_sat).expect("a coin's amount was checked to be below MAX_MONEY"))
    };
    let outputs: Vec<TxOut> = coins.iter().map(output).collect();
    PrecomputedTransactionData::new(transaction, &outputs).expect("a coin for each input")
}

/// Core's verdict on one input of a transaction whose first input spends `coins[first_coin]`.
///
/// For many inputs of one transaction make an [`Interpreter`].
pub fn verify_input(tx: Tx<'_>, coins: &SpentCoins, first_coin: usize, input: usize, flags: Flags) -> bool {
    Interpreter::new(tx, TxCoins::new(coins, first_coin, tx.input_count())).verify(input, flags)
}
