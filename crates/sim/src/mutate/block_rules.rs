//! Cases about the block as a whole: merkle tree, shape, coinbase, commitment, sizes.
//!
//! In:     a block on the bench.
//! Out:    one rule broken, or met at its edge.
//! Fails:  none where the world lacks a coin.
//! Source: Core's `CheckBlock`, `ContextualCheckBlock`; BIP 34, BIP 141.

use super::craft::Commitment;
use super::{Case, Craft, broken, valid};
use crate::forge::assemble::{COMMITMENT_PREFIX, Part, commitment_script};
use crate::forge::draft::{Draft, DraftOutput};
use crate::forge::lock::{Kind, push, push_number};

/// The table.
pub const CASES: &[Case] = &[
    broken("MerkleRoot", "merkle root of zeros", |craft| {
        craft.root = Some([0; 32]);
        Some(())
    }),
    broken("MerkleRoot", "merkle root of other bytes", |craft| {
        craft.root = Some(craft.random.bytes());
        Some(())
    }),
    broken("MerkleMutated", "last transaction twice under the same root", |craft| repeat(craft, 2, 1)),
    broken("MerkleMutated", "last two transactions twice under the same root", |craft| repeat(craft, 5, 2)),
    broken("Length", "no transactions", |craft| {
        (craft.drop_coinbase, craft.root) = (true, Some([0; 32]));
        craft.clear();
        Some(())
    }),
    broken("CoinbaseMissing", "no coinbase", |craft| {
        craft.drop_coinbase = true;
        let coin = craft.free_coin()?;
        craft.spend(&[coin], |_| ());
        Some(())
    }),
    broken("CoinbaseMissing", "coinbase second", |craft| {
        let coin = craft.free_coin()?;
        craft.spend(&[coin], |_| ());
        let coinbase = craft.coinbase.clone();
        craft.drop_coinbase = true;
        craft.txs.push(coinbase);
        Some(())
    }),
    broken("CoinbaseMultiple", "coinbase twice", |craft| {
        let mut second = craft.coinbase.clone();
        second.inputs[0].script_sig.push(0);
        craft.txs.push(second);
        Some(())
    }),
    broken("CoinbaseHeight", "height too high by one", |craft| height(craft, craft.height + 1)),
    broken("CoinbaseHeight", "height too low by one", |craft| height(craft, craft.height - 1)),
    broken("CoinbaseHeight", "height pushed the long way", |craft| {
        let mut script = vec![0x4c, 2];
        script.extend_from_slice(&(craft.height as u16).to_le_bytes());
        coinbase_script(craft, script)
    }),
    broken("CoinbaseHeight", "height missing", |craft| coinbase_script(craft, vec![0x51, 0x51, 0x51])),
    valid("coinbase without commitment where nothing needs one", |craft| {
        craft.clear();
        craft.commitment = Commitment::Left;
        let coin = craft.coin_of(Kind::P2pkh)?;
        craft.coinbase.outputs.truncate(1);
        craft.spend(&[coin], |_| ());
        Some(())
    }),
    broken("UnexpectedWitness", "witness without commitment", |craft| {
        let coin = craft.coin_of(Kind::P2wpkh)?;
        craft.spend(&[coin], |_| ());
        craft.commitment = Commitment::Left;
        Some(())
    }),
    broken("UnexpectedWitness", "coinbase witness without commitment", |craft| {
        craft.clear();
        craft.commitment = Commitment::Left;
        craft.coinbase.inputs[0].witness = vec![vec![0; 32]];
        Some(())
    }),
    broken("WitnessCommitment", "commitment to other witnesses", |craft| {
        craft.commitment = Commitment::Left;
        craft.coinbase.inputs[0].witness = vec![vec![0; 32]];
        let mut script = COMMITMENT_PREFIX.to_vec();
        script.extend_from_slice(&craft.random.bytes::<32>());
        craft.coinbase.outputs.push(DraftOutput { value_sat: 0, script });
        Some(())
    }),
    broken("WitnessCommitment", "right commitment before a wrong one", |craft| two_commitments(craft, false)),
    valid("wrong commitment before the right one", |craft| two_commitments(craft, true)),
    valid("reserved value of other bytes", |craft| {
        craft.reserved = vec![craft.random.bytes::<32>().to_vec()];
        Some(())
    }),
    broken("WitnessNonce", "reserved value of 31 bytes", |craft| reserved(craft, vec![vec![0; 31]])),
    broken("WitnessNonce", "reserved value of 33 bytes", |craft| reserved(craft, vec![vec![0; 33]])),
    broken("WitnessNonce", "two reserved values", |craft| reserved(craft, vec![vec![0; 32], vec![0; 32]])),
    broken("WitnessNonce", "no reserved value", |craft| reserved(craft, Vec::new())),
    valid("legacy signature operations at 20,000", |craft| legacy_sigops(craft, 20_000)),
    broken("LegacySigOps", "legacy signature operations at 20,001", |craft| legacy_sigops(craft, 20_001)),
    broken("LegacySigOps", "multisig outputs count twenty keys each", |craft| {
        let coin = craft.free_coin()?;
        craft.spend(&[coin], |draft| draft.outputs[0].script = vec![0xae; 1001]);
        Some(())
    }),
    valid("heavy block of a million bytes without witnesses", |craft| stripped_bytes(craft, 1_000_000)),
    broken("Length", "heavy block of a million and one bytes without witnesses", |craft| {
        stripped_bytes(craft, 1_000_001)
    }),
    valid("heavy block of weight 4,000,000", |craft| weight(craft, 4_000_000)),
    broken("Weight", "heavy block of weight 4,000,001", |craft| weight(craft, 4_000_001)),
    Case {
        name: "one bit of the bytes flipped",
        want: super::Want::Agreement,
        make: |craft| {
            craft.bend = Some(|random, bytes| {
                let bit = random.below(bytes.len() as u64 * 8);
                // The time's highest byte decides by the clock, and Core's is the machine's: the nonce instead.
                let at = if bit / 8 == 71 { 76 } else { bit as usize / 8 };
                bytes[at] ^= 1 << (bit % 8);
            });
            Some(())
        },
    },
];

fn repeat(craft: &mut Craft<'_>, txs: usize, tail: usize) -> Option<()> {
    while craft.txs.len() < txs {
        let coin = craft.free_coin()?;
        craft.spend(&[coin], |_| ());
    }
    craft.txs.truncate(txs);
    craft.repeat_tail = tail;
    Some(())
}

fn coinbase_script(craft: &mut Craft<'_>, script: Vec<u8>) -> Option<()> {
    craft.coinbase.inputs[0].script_sig = script;
    Some(())
}

fn height(craft: &mut Craft<'_>, height: u32) -> Option<()> {
    let mut script = Vec::new();
    push_number(&mut script, height);
    push(&mut script, &[7; 8]);
    coinbase_script(craft, script)
}

fn two_commitments(craft: &mut Craft<'_>, right_is_last: bool) -> Option<()> {
    let parts: Vec<Part> = craft.txs.iter().map(Part::of).collect();
    let right = DraftOutput { value_sat: 0, script: commitment_script(&parts, &[0; 32]) };
    let mut wrong = right.clone();
    wrong.script[20] ^= 1;
    craft.commitment = Commitment::Left;
    craft.coinbase.inputs[0].witness = vec![vec![0; 32]];
    craft.coinbase.outputs.extend(if right_is_last { [wrong, right] } else { [right, wrong] });
    Some(())
}

fn reserved(craft: &mut Craft<'_>, stack: Vec<Vec<u8>>) -> Option<()> {
    craft.reserved = stack;
    Some(())
}

/// Signature operations of input and output scripts, as Core counts them without looking at coins.
fn legacy_sigops_of(draft: &Draft) -> usize {
    let inputs = draft.inputs.iter().map(|input| &input.script_sig);
    let outputs = draft.outputs.iter().map(|output| &output.script);
    inputs.chain(outputs).map(|script| consensus::sigops::count(script, false) as usize).sum()
}

fn legacy_sigops(craft: &mut Craft<'_>, total: usize) -> Option<()> {
    // Spending it counts nothing.
    let coin = craft.coin_of(Kind::FutureWitness)?;
    craft.clear();
    craft.coinbase.outputs.truncate(1);
    let before = legacy_sigops_of(&craft.coinbase);
    craft.spend(&[coin], |draft| {
        // CHECKSIG, one each.
        draft.outputs[0].script = vec![0xac; total - before];
    });
    Some(())
}

/// A block whose bytes without witnesses are exactly so many.
fn stripped_bytes(craft: &mut Craft<'_>, want: usize) -> Option<()> {
    let index = padded(craft)?;
    // Even the coinbase's reserved value would weigh.
    craft.commitment = Commitment::Left;
    // The script's length takes five bytes instead of one.
    let now = without_witnesses(craft) + 4;
    craft.txs[index].outputs[0].script = data(want - now + craft.txs[index].outputs[0].script.len());
    assert_eq!(without_witnesses(craft), want);
    // Nothing was signed, so nothing is signed again; the commitment covers no witness.
    Some(())
}

/// A block of exactly this weight, most of it in one witness.
fn weight(craft: &mut Craft<'_>, want: usize) -> Option<()> {
    let index = padded(craft)?;
    craft.txs[index].inputs[0].witness = vec![vec![0; 100_000]];
    let now = 3 * without_witnesses(craft) + with_witnesses(craft);
    craft.txs[index].inputs[0].witness[0].resize(100_000 + want - now, 0);
    assert_eq!(3 * without_witnesses(craft) + with_witnesses(craft), want);
    Some(())
}

/// A transaction that anyone may sign, alone in its block.
fn padded(craft: &mut Craft<'_>) -> Option<usize> {
    let coin = craft.coin_of(Kind::FutureWitness)?;
    craft.clear();
    Some(craft.spend(&[coin], |draft| draft.outputs[0] = DraftOutput { value_sat: 0, script: data(10) }))
}

fn data(length: usize) -> Vec<u8> {
    let mut script = vec![0; length];
    script[0] = 0x6a;
    script
}

/// Header, count, coinbase with its commitment of 47 bytes where it has one, and the transactions.
fn without_witnesses(craft: &Craft<'_>) -> usize {
    let commitment = if craft.commitment == Commitment::Right { 47 } else { 0 };
    let coinbase = craft.coinbase.encode_stripped().len() + commitment;
    81 + coinbase + craft.txs.iter().map(|tx| tx.encode_stripped().len()).sum::<usize>()
}

/// The same with marker, flag, count, length and 32 bytes of the coinbase's witness.
fn with_witnesses(craft: &Craft<'_>) -> usize {
    let witnesses = craft.txs.iter().map(|tx| tx.encode().len() - tx.encode_stripped().len()).sum::<usize>();
    without_witnesses(craft) + witnesses + 36
}
