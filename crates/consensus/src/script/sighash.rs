//! The message a signature is about.
//!
//! In:     a transaction, the coins it spends, an input, a hash type, and what the input's kind of script adds.
//! Out:    32 bytes: the double SHA-256 of before segwit and of BIP 143, the tagged hash of BIP 341 and BIP 342.
//! Fails:  only taproot's, with `None` for a hash type it does not define or a missing output.
//! Source: Core's script/interpreter.cpp (`SignatureHash`, `SignatureHashSchnorr`).
//!
//! What all inputs share is hashed once a transaction. Before segwit each input hashes the whole transaction; the
//! part in front of the input is hashed once for all inputs asked for in order, which halves that work.

use bitcoin_hashes::{HashEngine as _, sha256};
use primitives::{Coin, SpentCoins, Tx};

/// Hash type: sign no output.
const NONE: u8 = 2;
/// Hash type: sign the output at the input's position.
const SINGLE: u8 = 3;
/// Hash type bit: sign one input only.
const ANYONE_CAN_PAY: u8 = 0x80;

/// The coins one transaction spends, input by input.
#[derive(Clone, Copy)]
pub struct TxCoins<'a> {
    coins: &'a SpentCoins,
    first: usize,
    count: usize,
}

impl<'a> TxCoins<'a> {
    /// The coins of the `count` inputs of a transaction whose first one spends `coins[first]`.
    pub fn new(coins: &'a SpentCoins, first: usize, count: usize) -> TxCoins<'a> {
        assert!(first + count <= coins.len(), "a coin for each input: {first} + {count} of {}", coins.len());
        TxCoins { coins, first, count }
    }

    /// Number of coins, and of inputs.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True for a transaction without inputs.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The coin that input `input` spends.
    #[inline]
    pub fn get(&self, input: usize) -> Coin<'a> {
        assert!(input < self.count);
        self.coins.get(self.first + input)
    }

    /// Coins in the order of the inputs.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Coin<'a>> + use<'a> {
        let (coins, first) = (self.coins, self.first);
        (0..self.count).map(move |input| coins.get(first + input))
    }
}

/// Single SHA-256 of what all inputs of a transaction share since segwit.
#[derive(Clone, Copy)]
struct Shared {
    prevouts: [u8; 32],
    sequences: [u8; 32],
    outputs: [u8; 32],
}

/// Single SHA-256 of what taproot signs of the coins spent.
#[derive(Clone, Copy)]
struct SharedCoins {
    amounts: [u8; 32],
    scripts: [u8; 32],
}

/// All inputs with empty scripts, and the hash state in front of one of them.
struct Blanked {
    /// 41 bytes an input: outpoint, empty script, sequence.
    inputs: Vec<u8>,
    /// State after version, input count and the first `hashed` inputs.
    front: sha256::HashEngine,
    hashed: usize,
}

const BLANKED_INPUT_BYTES: usize = 41;

/// Computes the messages of one transaction's signatures.
pub struct Sighasher<'a> {
    tx: Tx<'a>,
    coins: TxCoins<'a>,
    shared: Option<Shared>,
    shared_coins: Option<SharedCoins>,
    /// With the sequences as written.
    blanked: Option<Blanked>,
    /// With sequences zero, as SIGHASH_NONE and SIGHASH_SINGLE sign the other inputs.
    blanked_zero: Option<Blanked>,
}

impl<'a> Sighasher<'a> {
    /// Nothing is hashed before it is asked for.
    pub fn new(tx: Tx<'a>, coins: TxCoins<'a>) -> Sighasher<'a> {
        assert_eq!(tx.input_count(), coins.count, "a coin for each input");
        Sighasher { tx, coins, shared: None, shared_coins: None, blanked: None, blanked_zero: None }
    }

    /// The message before segwit. `script_code` holds no OP_CODESEPARATOR (Core would leave it out).
    ///
    /// `hash_type` is one byte in a signature; four are signed.
    pub fn legacy(&mut self, input: usize, script_code: &[u8], hash_type: u32) -> [u8; 32] {
        let kind = hash_type as u8 & 0x1f;
        // SIGHASH_SINGLE without an output at its position signs the number one, a bug all nodes keep.
        if kind == SINGLE && input >= self.tx.output_count() {
            let mut one = [0; 32];
            one[0] = 1;
            return one;
        }
        let mut engine = self.legacy_inputs(input, script_code, kind, hash_type as u8 & ANYONE_CAN_PAY != 0);
        self.feed_legacy_outputs(&mut engine, input, kind);
        engine.input(&self.tx.lock_time().to_le_bytes());
        engine.input(&hash_type.to_le_bytes());
        engine.finalize().hash_again().to_byte_array()
    }

    /// Hash state after version and inputs.
    fn legacy_inputs(&mut self, input: usize, script_code: &[u8], kind: u8, alone: bool) -> sha256::HashEngine {
        let (tx, this) = (self.tx, self.tx.input(input));
        if alone || tx.input_count() == 1 {
            let mut engine = sha256::HashEngine::new();
            engine.input(&tx.version().to_le_bytes());
            engine.input(&[1]);
            engine.input(this.outpoint_bytes());
            feed_script(&mut engine, script_code);
            engine.input(&this.sequence().to_le_bytes());
            return engine;
        }
        let zero = matches!(kind, NONE | SINGLE);
        let slot = if zero { &mut self.blanked_zero } else { &mut self.blanked };
        let blanked = slot.get_or_insert_with(|| Blanked::of(tx, zero));
        let mut engine = blanked.front_of(tx, input);
        engine.input(this.outpoint_bytes());
        feed_script(&mut engine, script_code);
        engine.input(&this.sequence().to_le_bytes());
        engine.input(&blanked.inputs[(input + 1) * BLANKED_INPUT_BYTES..]);
        engine
    }

    fn feed_legacy_outputs(&self, engine: &mut sha256::HashEngine, input: usize, kind: u8) {
        match kind {
            NONE => engine.input(&[0]),
            SINGLE => {
                feed_compact_size(engine, input as u64 + 1);
                feed_blank_outputs(engine, input);
                self.feed_output(engine, input);
            }
            _ => {
                feed_compact_size(engine, self.tx.output_count() as u64);
                engine.input(self.tx.outputs_raw());
            }
        }
    }

    fn feed_output(&self, engine: &mut sha256::HashEngine, index: usize) {
        let output = self.tx.output(index);
        engine.input(&output.value_sat.to_le_bytes());
        feed_script(engine, output.script);
    }

    /// The message of a version 0 witness program (BIP 143).
    pub fn segwit_v0(&mut self, input: usize, script_code: &[u8], hash_type: u32) -> [u8; 32] {
        let kind = hash_type as u8 & 0x1f;
        let alone = hash_type as u8 & ANYONE_CAN_PAY != 0;
        let shared = self.shared();
        let (tx, this) = (self.tx, self.tx.input(input));
        let mut engine = sha256::HashEngine::new();
        engine.input(&tx.version().to_le_bytes());
        engine.input(&if alone { [0; 32] } else { again(shared.prevouts) });
        engine.input(&if alone || matches!(kind, NONE | SINGLE) { [0; 32] } else { again(shared.sequences) });
        engine.input(this.outpoint_bytes());
        feed_script(&mut engine, script_code);
        engine.input(&self.coins.get(input).value_sat.to_le_bytes());
        engine.input(&this.sequence().to_le_bytes());
        engine.input(&match kind {
            NONE => [0; 32],
            SINGLE if input < tx.output_count() => again(self.output_hash(input)),
            SINGLE => [0; 32],
            _ => again(shared.outputs),
        });
        engine.input(&tx.lock_time().to_le_bytes());
        engine.input(&hash_type.to_le_bytes());
        engine.finalize().hash_again().to_byte_array()
    }

    /// The message of a taproot key path, or of a tapscript where `leaf` (its tapleaf hash) is given, executed without
    /// an OP_CODESEPARATOR. `annex` is the SHA-256 of the annex with its length in front.
    ///
    /// `None` where BIP 341 makes the signature invalid.
    pub fn taproot(
        &mut self,
        input: usize,
        hash_type: u8,
        annex: Option<&[u8; 32]>,
        leaf: Option<&[u8; 32]>,
    ) -> Option<[u8; 32]> {
        if !matches!(hash_type, 0..=3 | 0x81..=0x83) {
            return None;
        }
        let (kind, alone) = (hash_type & 3, hash_type & ANYONE_CAN_PAY != 0);
        if kind == SINGLE && input >= self.tx.output_count() {
            return None;
        }
        let shared = self.shared();
        let (tx, this) = (self.tx, self.tx.input(input));
        let mut engine = tagged(b"TapSighash");
        engine.input(&[0, hash_type]);
        engine.input(&tx.version().to_le_bytes());
        engine.input(&tx.lock_time().to_le_bytes());
        if !alone {
            let coins = self.shared_coins();
            for part in [shared.prevouts, coins.amounts, coins.scripts, shared.sequences] {
                engine.input(&part);
            }
        }
        if !matches!(kind, NONE | SINGLE) {
            engine.input(&shared.outputs);
        }
        engine.input(&[u8::from(leaf.is_some()) << 1 | u8::from(annex.is_some())]);
        if alone {
            let coin = self.coins.get(input);
            engine.input(this.outpoint_bytes());
            engine.input(&coin.value_sat.to_le_bytes());
            feed_script(&mut engine, coin.script);
            engine.input(&this.sequence().to_le_bytes());
        } else {
            engine.input(&(input as u32).to_le_bytes());
        }
        if let Some(annex) = annex {
            engine.input(annex);
        }
        if kind == SINGLE {
            engine.input(&self.output_hash(input));
        }
        if let Some(leaf) = leaf {
            engine.input(leaf);
            // Key version 0; no OP_CODESEPARATOR was executed.
            engine.input(&[0, 0xff, 0xff, 0xff, 0xff]);
        }
        Some(engine.finalize().to_byte_array())
    }

    fn output_hash(&self, index: usize) -> [u8; 32] {
        let mut engine = sha256::HashEngine::new();
        self.feed_output(&mut engine, index);
        engine.finalize().to_byte_array()
    }

    fn shared(&mut self) -> Shared {
        let tx = self.tx;
        *self.shared.get_or_insert_with(|| {
            let (mut prevouts, mut sequences) = (sha256::HashEngine::new(), sha256::HashEngine::new());
            for input in tx.inputs() {
                prevouts.input(input.outpoint_bytes());
                sequences.input(&input.sequence().to_le_bytes());
            }
            Shared {
                prevouts: prevouts.finalize().to_byte_array(),
                sequences: sequences.finalize().to_byte_array(),
                outputs: sha256::Hash::hash(tx.outputs_raw()).to_byte_array(),
            }
        })
    }

    fn shared_coins(&mut self) -> SharedCoins {
        let coins = self.coins;
        *self.shared_coins.get_or_insert_with(|| {
            let (mut amounts, mut scripts) = (sha256::HashEngine::new(), sha256::HashEngine::new());
            for coin in coins.iter() {
                amounts.input(&coin.value_sat.to_le_bytes());
                feed_script(&mut scripts, coin.script);
            }
            SharedCoins { amounts: amounts.finalize().to_byte_array(), scripts: scripts.finalize().to_byte_array() }
        })
    }
}

impl Blanked {
    fn of(tx: Tx<'_>, zero_sequences: bool) -> Blanked {
        let mut inputs = Vec::with_capacity(tx.input_count() * BLANKED_INPUT_BYTES);
        for input in tx.inputs() {
            inputs.extend_from_slice(input.outpoint_bytes());
            inputs.push(0);
            let sequence = if zero_sequences { 0 } else { input.sequence() };
            inputs.extend_from_slice(&sequence.to_le_bytes());
        }
        let mut blanked = Blanked { inputs, front: sha256::HashEngine::new(), hashed: 0 };
        blanked.restart(tx);
        blanked
    }

    fn restart(&mut self, tx: Tx<'_>) {
        self.front = sha256::HashEngine::new();
        self.front.input(&tx.version().to_le_bytes());
        feed_compact_size(&mut self.front, tx.input_count() as u64);
        self.hashed = 0;
    }

    /// State in front of input `input`; cheap when asked for in rising order.
    fn front_of(&mut self, tx: Tx<'_>, input: usize) -> sha256::HashEngine {
        if input < self.hashed {
            self.restart(tx);
        }
        self.front.input(&self.inputs[self.hashed * BLANKED_INPUT_BYTES..input * BLANKED_INPUT_BYTES]);
        self.hashed = input;
        self.front.clone()
    }
}

/// SHA-256 once more.
fn again(hash: [u8; 32]) -> [u8; 32] {
    sha256::Hash::hash(&hash).to_byte_array()
}

/// State of SHA-256 after the tag of BIP 340, twice.
pub(super) fn tagged(tag: &[u8]) -> sha256::HashEngine {
    let hash = sha256::Hash::hash(tag).to_byte_array();
    let mut engine = sha256::HashEngine::new();
    engine.input(&hash);
    engine.input(&hash);
    engine
}

/// A script or other bytes with their length in front.
pub(super) fn feed_script(engine: &mut sha256::HashEngine, script: &[u8]) {
    feed_compact_size(engine, script.len() as u64);
    engine.input(script);
}

fn feed_compact_size(engine: &mut sha256::HashEngine, value: u64) {
    match value {
        0..=0xfc => engine.input(&[value as u8]),
        0xfd..=0xffff => {
            let [low, high] = (value as u16).to_le_bytes();
            engine.input(&[0xfd, low, high]);
        }
        _ => {
            // No block holds 2^32 of anything.
            engine.input(&[0xfe]);
            engine.input(&(value as u32).to_le_bytes());
        }
    }
}

/// `count` outputs as SIGHASH_SINGLE signs those of other positions: amount -1, no script.
fn feed_blank_outputs(engine: &mut sha256::HashEngine, count: usize) {
    const BLANK: [u8; 9] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0];
    const ROW: [u8; 9 * 64] = {
        let mut row = [0xff; 9 * 64];
        let mut at = 8;
        while at < row.len() {
            row[at] = 0;
            at += 9;
        }
        row
    };
    for _ in 0..count / 64 {
        engine.input(&ROW);
    }
    for _ in 0..count % 64 {
        engine.input(&BLANK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Transaction;
    use primitives::hash::sha256d;
    use stdx::random::Random;

    /// The message before segwit, built byte by byte as Core's serializer does: slow and plain.
    fn plain(tx: Tx<'_>, input: usize, script_code: &[u8], hash_type: u8) -> [u8; 32] {
        let kind = hash_type & 0x1f;
        let mut out = tx.version().to_le_bytes().to_vec();
        let alone = hash_type & ANYONE_CAN_PAY != 0;
        let signed: Vec<usize> = if alone { vec![input] } else { (0..tx.input_count()).collect() };
        primitives::encode::put_compact_size(&mut out, signed.len() as u64);
        for index in signed {
            let this = tx.input(index);
            out.extend(this.outpoint_bytes());
            let script = if index == input { script_code } else { &[] };
            primitives::encode::put_compact_size(&mut out, script.len() as u64);
            out.extend(script);
            let blank = index != input && (kind == NONE || kind == SINGLE);
            out.extend(if blank { [0; 4] } else { this.sequence().to_le_bytes() });
        }
        let outputs = match kind {
            NONE => 0,
            SINGLE => input + 1,
            _ => tx.output_count(),
        };
        primitives::encode::put_compact_size(&mut out, outputs as u64);
        for index in 0..outputs {
            if kind == SINGLE && index != input {
                out.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]);
                continue;
            }
            out.extend(tx.output(index).value_sat.to_le_bytes());
            primitives::encode::put_compact_size(&mut out, tx.output(index).script.len() as u64);
            out.extend(tx.output(index).script);
        }
        out.extend(tx.lock_time().to_le_bytes());
        out.extend([hash_type, 0, 0, 0]);
        sha256d(&out)
    }

    fn transaction(random: &mut Random, inputs: usize, outputs: usize) -> Transaction {
        let mut raw = random.bytes::<4>().to_vec();
        primitives::encode::put_compact_size(&mut raw, inputs as u64);
        for _ in 0..inputs {
            raw.extend(random.bytes::<36>());
            raw.push(0);
            raw.extend(random.bytes::<4>());
        }
        primitives::encode::put_compact_size(&mut raw, outputs as u64);
        for _ in 0..outputs {
            raw.extend(random.bytes::<8>());
            raw.extend([2, 0x51, 0x52]);
        }
        raw.extend(random.bytes::<4>());
        Transaction::parse(raw).unwrap()
    }

    #[test]
    fn shared_parts_give_the_plain_message_in_any_order_of_inputs() {
        let mut random = Random::new(143);
        for (inputs, outputs) in [(1, 1), (2, 1), (3, 5), (70, 66), (300, 260)] {
            let transaction = transaction(&mut random, inputs, outputs);
            let tx = transaction.tx();
            let mut coins = SpentCoins::default();
            for _ in 0..inputs {
                coins.push(Coin { value_sat: 1, height: 1, coinbase: false, txo_num: 0, script: &[0x51] });
            }
            let mut hasher = Sighasher::new(tx, TxCoins::new(&coins, 0, inputs));
            for hash_type in [0, 1, NONE, SINGLE, 0x81, 0x82, 0x83, 4, 0x1f, 0x41, 0x63, 0xff] {
                for round in 0..20 {
                    let input = if round < inputs { round } else { random.below(inputs as u64) as usize };
                    if hash_type & 0x1f == SINGLE && input >= outputs {
                        let one = hasher.legacy(input, &[0x51], hash_type.into());
                        assert_eq!((one[0], &one[1..]), (1, &[0; 31][..]));
                        continue;
                    }
                    let code = random.bytes::<25>();
                    let got = hasher.legacy(input, &code, hash_type.into());
                    assert_eq!(got, plain(tx, input, &code, hash_type), "input {input} of {inputs}, type {hash_type}");
                }
            }
        }
    }
}
