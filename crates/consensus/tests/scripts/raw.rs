//! Transactions to build and change, and the judges.
//!
//! In:     parts of a transaction, the coins it spends, flags.
//! Out:    bytes; the verdict of templates plus interpreter, checked against libbitcoinkernel's own call.
//! Fails:  panics where two verdicts differ.

use std::sync::OnceLock;

use bitcoinkernel::prelude::*;
use bitcoinkernel::{PrecomputedTransactionData, ScriptPubkey, TxOut};
use consensus::Flags;
use consensus::script::{
    Counters, CountersTotal, Interpreter, ScriptFailure, TxCoins, TxJob, verify_input, verify_txs,
};
use primitives::encode::put_compact_size;
use primitives::{Coin, SpentCoins, Transaction, Tx};
use sigs::Jury;

/// An input to be written.
#[derive(Clone, Debug)]
pub struct RawInput {
    pub outpoint: [u8; 36],
    pub script_sig: Vec<u8>,
    pub sequence: u32,
    pub witness: Vec<Vec<u8>>,
}

/// A transaction to be written.
#[derive(Clone, Debug)]
pub struct RawTx {
    pub version: u32,
    pub inputs: Vec<RawInput>,
    pub outputs: Vec<(i64, Vec<u8>)>,
    pub lock_time: u32,
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_compact_size(out, bytes.len() as u64);
    out.extend(bytes);
}

impl RawTx {
    /// Serialized, with witnesses where there are any (BIP 144).
    pub fn bytes(&self) -> Vec<u8> {
        let witnesses = self.inputs.iter().any(|input| !input.witness.is_empty());
        let mut out = self.version.to_le_bytes().to_vec();
        if witnesses {
            out.extend([0, 1]);
        }
        put_compact_size(&mut out, self.inputs.len() as u64);
        for input in &self.inputs {
            out.extend(input.outpoint);
            put_bytes(&mut out, &input.script_sig);
            out.extend(input.sequence.to_le_bytes());
        }
        put_compact_size(&mut out, self.outputs.len() as u64);
        for (value_sat, script) in &self.outputs {
            out.extend(value_sat.to_le_bytes());
            put_bytes(&mut out, script);
        }
        for input in self.inputs.iter().filter(|_| witnesses) {
            put_compact_size(&mut out, input.witness.len() as u64);
            for item in &input.witness {
                put_bytes(&mut out, item);
            }
        }
        out.extend(self.lock_time.to_le_bytes());
        out
    }

    pub fn parse(&self) -> Transaction {
        Transaction::parse(self.bytes()).unwrap()
    }
}

/// Coins for the inputs of one transaction, as `(value, script)`.
pub fn coins<'a>(outputs: impl IntoIterator<Item = (u64, &'a [u8])>) -> SpentCoins {
    let mut coins = SpentCoins::default();
    for (value_sat, script) in outputs {
        coins.push(Coin { value_sat, height: 1, coinbase: false, txo_num: 0, script });
    }
    coins
}

/// Every engine, each of which decides every row.
pub fn jury() -> &'static Jury {
    static JURY: OnceLock<Jury> = OnceLock::new();
    JURY.get_or_init(Jury::new)
}

/// Our verdict, and what it took.
pub fn ours(tx: Tx<'_>, coins: &SpentCoins, flags: Flags) -> (Result<(), ScriptFailure>, CountersTotal) {
    let counters = Counters::default();
    let inputs = 0..tx.input_count();
    let job = TxJob { tx, coins: TxCoins::new(coins, 0, tx.input_count()), flags, inputs };
    let verdict = verify_txs(&[job], jury(), &counters).remove(0);
    (verdict, counters.total())
}

/// The verdict on one input alone, by both judges, and whether a template gave it.
#[track_caller]
pub fn one_input(tx: Tx<'_>, coins: &SpentCoins, input: usize, flags: Flags) -> (bool, u64) {
    let counters = Counters::default();
    let job = TxJob { tx, coins: TxCoins::new(coins, 0, tx.input_count()), flags, inputs: input..input + 1 };
    let verdict = verify_txs(&[job], jury(), &counters).remove(0).is_ok();
    assert_eq!(verdict, kernel_accepts(tx, coins, input, flags), "ours left, the interpreter's right, {flags:?}");
    (verdict, counters.total().template_inputs)
}

/// The verdict on one input by libbitcoinkernel's own call, which our way to its interpreter must share.
#[track_caller]
fn kernel_accepts(tx: Tx<'_>, coins: &SpentCoins, input: usize, flags: Flags) -> bool {
    if flags.any_policy() {
        // The library's own call takes no rules of policy.
        return verify_input(tx, coins, 0, input, flags);
    }
    let transaction = bitcoinkernel::Transaction::new(tx.raw()).unwrap();
    let outputs: Vec<TxOut> =
        coins.iter().map(|coin| TxOut::new(&ScriptPubkey::new(coin.script).unwrap(), coin.value_sat as i64)).collect();
    let data = PrecomputedTransactionData::new(&transaction, &outputs).unwrap();
    let (script, value_sat) = (outputs[input].script_pubkey(), outputs[input].value());
    let verdict = bitcoinkernel::verify(&script, Some(value_sat), &transaction, input, Some(flags.0), &data).is_ok();
    let direct = verify_input(tx, coins, 0, input, flags);
    assert_eq!(direct, verdict, "without copies left, libbitcoinkernel's call right, input {input}, {flags:?}");
    verdict
}

/// The interpreter's verdict: the first input it refuses.
#[track_caller]
pub fn kernels(tx: Tx<'_>, coins: &SpentCoins, flags: Flags) -> Result<(), ScriptFailure> {
    let refused = (0..tx.input_count()).find(|&input| !kernel_accepts(tx, coins, input, flags));
    let Some(input_index) = refused else { return Ok(()) };
    let judged = Interpreter::new(tx, TxCoins::new(coins, 0, tx.input_count())).judge(input_index, flags);
    Err(ScriptFailure { tx_index: 0, input_index, error: judged.expect_err("it was refused") })
}

/// Both verdicts, which must be one.
#[track_caller]
pub fn judge(tx: Tx<'_>, coins: &SpentCoins, flags: Flags, name: &dyn std::fmt::Display) -> (bool, CountersTotal) {
    let (verdict, work) = ours(tx, coins, flags);
    assert_eq!(verdict, kernels(tx, coins, flags), "ours left, the interpreter's right, {flags:?}: {name}");
    (verdict.is_ok(), work)
}
