//! The costliest blocks we can think of, as one transaction each, through the script verifier on one thread.
//!
//! In:     nothing, or words that choose cases by name.
//! Out:    a line a case: inputs, rows, inputs by the interpreter, seconds of this thread's time.
//! Fails:  panics where a transaction that must be valid is not.
//!
//! `cargo run --release -p assay-consensus --example worst_blocks`; the figures are in docs/worst-blocks.md.

use consensus::Flags;
use consensus::script::{Counters, Interpreter, Sighasher, TxCoins, TxJob, verify_txs};
use primitives::encode::put_compact_size;
use primitives::hash::sha256;
use primitives::{Coin, SpentCoins, Transaction};
use secp256k1::{Keypair, Message, Parity, Scalar, SecretKey, ecdsa, schnorr};
use sigs::{EngineName, engine};
use stdx::clock::{Clock, SystemClock};

/// Bytes of a block without witnesses; what a weight of 4,000,000 leaves without any.
const LEGACY_BYTES_MAX: usize = 999_000;
/// Weight of a block, less a header and a coinbase.
const WEIGHT_MAX: usize = 3_996_000;
/// Signature operation cost of a block.
const SIGOP_COST_MAX: usize = 80_000;
/// Inputs of 85 bytes in a transaction of 1 MB whose other bytes are an output: the number for which inputs times
/// bytes hashed at each check, 500,000, is largest.
const SEPARATED_INPUTS: usize = LEGACY_BYTES_MAX / 88;

/// How an input is filled in once the transaction is known.
enum Unlock {
    /// Nothing is signed.
    Fixed(Vec<u8>, Vec<Vec<u8>>),
    /// `front`, a signature push, `back`, for the script code.
    Legacy { front: Vec<u8>, code: Vec<u8>, back: Vec<u8> },
    /// `front`, a signature, `back` as witness items, for the script code.
    Witness { front: Vec<Vec<u8>>, code: Vec<u8>, back: Vec<Vec<u8>> },
    /// A signature, then `back` as witness items, for the leaf.
    Tapscript { leaf: [u8; 32], back: Vec<Vec<u8>> },
}

struct Case {
    name: &'static str,
    coin: Vec<u8>,
    unlock: Unlock,
    inputs: usize,
    /// Every second input spends this script instead, with nothing signed.
    beside: Option<Vec<u8>>,
    /// Bytes of the one output's script, which every input's message holds.
    output_bytes: usize,
}

fn secret() -> SecretKey {
    SecretKey::from_secret_bytes([0x42; 32]).unwrap()
}

fn key() -> [u8; 33] {
    secret().public_key().serialize()
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_compact_size(out, bytes.len() as u64);
    out.extend(bytes);
}

/// The inputs given as script and witness, and one output.
fn transaction(inputs: &[(Vec<u8>, Vec<Vec<u8>>)], output_bytes: usize) -> Transaction {
    let witnesses = inputs.iter().any(|(_, witness)| !witness.is_empty());
    let mut out = vec![2, 0, 0, 0];
    out.extend([0, 1].iter().filter(|_| witnesses));
    put_compact_size(&mut out, inputs.len() as u64);
    for (index, (script_sig, _)) in inputs.iter().enumerate() {
        out.extend(sha256(&(index as u64).to_le_bytes()));
        out.extend([0; 4]);
        put_bytes(&mut out, script_sig);
        out.extend([0xff; 4]);
    }
    out.extend([1, 1, 0, 0, 0, 0, 0, 0, 0]);
    put_bytes(&mut out, &vec![0x51; output_bytes]);
    for (_, witness) in inputs.iter().filter(|_| witnesses) {
        put_compact_size(&mut out, witness.len() as u64);
        witness.iter().for_each(|item| put_bytes(&mut out, item));
    }
    out.extend([0; 4]);
    Transaction::parse(out).unwrap()
}

fn der(message: [u8; 32]) -> Vec<u8> {
    let mut signature = ecdsa::sign_low_r(Message::from_digest(message), &secret()).serialize_der().to_vec();
    signature.push(1);
    signature
}

impl Case {
    fn is_beside(&self, input: usize) -> bool {
        self.beside.is_some() && input % 2 == 1
    }

    fn coins(&self) -> SpentCoins {
        let mut coins = SpentCoins::default();
        for input in 0..self.inputs {
            let beside = self.beside.as_deref().filter(|_| self.is_beside(input));
            let script = beside.unwrap_or(&self.coin);
            coins.push(Coin { value_sat: 1000, height: 1, coinbase: false, txo_num: 0, script });
        }
        coins
    }

    fn signed(&self, coins: &SpentCoins) -> Transaction {
        let blank = transaction(&vec![(vec![], vec![]); self.inputs], self.output_bytes);
        let mut hasher = Sighasher::new(blank.tx(), TxCoins::new(coins, 0, self.inputs));
        let pair = Keypair::from_secret_key(&secret());
        let unlock = |input: usize| match &self.unlock {
            _ if self.is_beside(input) => (vec![], vec![]),
            Unlock::Fixed(script_sig, witness) => (script_sig.clone(), witness.clone()),
            Unlock::Legacy { front, code, back } => {
                let signature = der(hasher.legacy(input, code, 1));
                ([&front[..], &[signature.len() as u8], &signature, back].concat(), vec![])
            }
            Unlock::Witness { front, code, back } => {
                let signature = der(hasher.segwit_v0(input, code, 1));
                (vec![], [&front[..], &[signature], back].concat())
            }
            Unlock::Tapscript { leaf, back } => {
                let message = hasher.taproot(input, 0, None, Some(leaf)).unwrap();
                let signature = schnorr::sign_no_aux_rand(&message, &pair).to_byte_array().to_vec();
                (vec![], [&[signature][..], back].concat())
            }
        };
        transaction(&(0..self.inputs).map(unlock).collect::<Vec<_>>(), self.output_bytes)
    }
}

/// A taproot output with one leaf: its script, the leaf's hash, the control block.
fn taproot(leaf: &[u8]) -> (Vec<u8>, [u8; 32], Vec<u8>) {
    let tagged = |tag: &[u8], data: &[u8]| sha256(&[&sha256(tag)[..], &sha256(tag), data].concat());
    let hash = tagged(b"TapLeaf", &[&[0xc0, leaf.len() as u8], leaf].concat());
    let internal = Keypair::from_secret_key(&secret()).x_only_public_key().0;
    let tweak = tagged(b"TapTweak", &[&internal.to_byte_array()[..], &hash].concat());
    let (output, parity) = internal.add_tweak(&Scalar::from_be_bytes(tweak).unwrap()).unwrap();
    let control = [&[0xc0 | u8::from(parity == Parity::Odd)], &internal.to_byte_array()[..]].concat();
    ([&[0x51, 0x20], &output.to_byte_array()[..]].concat(), hash, control)
}

/// 1-of-20, the first key signing: the walk reaches it last.
fn one_of_twenty() -> Vec<u8> {
    let other = SecretKey::from_secret_bytes([0x43; 32]).unwrap().public_key().serialize();
    let mut script = vec![0x51, 33];
    script.extend(key());
    (0..19).for_each(|_| script.extend([&[33], &other[..]].concat()));
    script.extend([1, 20, 0xae]);
    script
}

fn cases() -> Vec<Case> {
    let push_key = [&[33], &key()[..]].concat();
    let p2pkh = [&[0x76, 0xa9, 0x14], &primitives::hash::hash160(&key())[..], &[0x88, 0xac]].concat();
    let odd_p2pk = [&push_key[..], &[0xac, 0x61]].concat();
    let multisig = one_of_twenty();
    let p2wsh = [&[0x00, 0x20], &sha256(&multisig)[..]].concat();
    let (free_coin, _, free_control) = taproot(&[0x51]);
    let odd_leaf = [&[0x20], &key()[1..], &[0xac, 0x61]].concat();
    let (leaf_coin, leaf, leaf_control) = taproot(&odd_leaf);
    let mut long = Vec::new();
    (0..19).for_each(|_| long.extend([&[0x4d, 8, 2][..], &[0; 520], &[0x75]].concat()));
    long.push(0x51);
    // 50 checks that fail, each over another script code, so that no state of the hash can be kept.
    let separated = [&[0x6e, 0xac, 0x75, 0xab].repeat(50)[..], &[0x6d, 0x51]].concat();
    let legacy = |front: &[u8], code: &[u8], back: &[u8]| Unlock::Legacy {
        front: front.to_vec(),
        code: code.to_vec(),
        back: back.to_vec(),
    };
    let case = |name, coin: &[u8], unlock, inputs| Case {
        name,
        coin: coin.to_vec(),
        unlock,
        inputs,
        beside: None,
        output_bytes: 1,
    };
    let free = || Unlock::Fixed(vec![], vec![vec![0x51], free_control.clone()]);
    let garbage = [&[9, 0x30, 6, 2, 1, 1, 2, 1, 1, 1][..], &push_key].concat();
    let mut all = vec![
        case("p2pkh, 1 MB", &p2pkh, legacy(&[], &p2pkh, &push_key), LEGACY_BYTES_MAX / 148),
        case("key CHECKSIG NOP, 1 MB", &odd_p2pk, legacy(&[], &odd_p2pk, &[]), LEGACY_BYTES_MAX / 114),
        case("bare 1-of-20, 1 MB", &multisig, legacy(&[0], &multisig, &[]), LEGACY_BYTES_MAX / 115),
        Case {
            name: "p2wsh 1-of-20, 80,000 signature operations",
            coin: p2wsh,
            unlock: Unlock::Witness { front: vec![vec![]], code: multisig.clone(), back: vec![multisig] },
            inputs: SIGOP_COST_MAX / 20,
            beside: None,
            output_bytes: 1,
        },
        case("taproot leaf 1, 4 MB of weight", &free_coin, free(), WEIGHT_MAX / (164 + 38)),
        case(
            "taproot leaf key CHECKSIG NOP, 4 MB of weight",
            &leaf_coin,
            Unlock::Tapscript { leaf, back: vec![odd_leaf, leaf_control] },
            WEIGHT_MAX / (164 + 137),
        ),
    ];
    all.push(Case {
        name: "50 checks over 50 script codes, 1 MB, a sixteenth of its inputs",
        coin: separated,
        unlock: Unlock::Fixed(garbage, vec![]),
        inputs: SEPARATED_INPUTS / 16,
        beside: None,
        output_bytes: LEGACY_BYTES_MAX / 2 - 41 * (SEPARATED_INPUTS / 16),
    });
    all.push(Case {
        name: "taproot leaf 1 beside coins of 10 kB",
        coin: free_coin.clone(),
        unlock: free(),
        inputs: WEIGHT_MAX / (164 + 19) / 2,
        beside: Some(long),
        output_bytes: 1,
    });
    all
}

/// Seconds this thread has had a processor; on Linux only, elsewhere the clock's.
fn thread_s(clock: &SystemClock) -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let on_cpu_ns = statistics.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    on_cpu_ns.map_or(clock.monotonic().as_secs_f64(), |ns| ns / 1e9)
}

fn measure<T>(clock: &SystemClock, work: impl FnOnce() -> T) -> (T, f64) {
    let before = thread_s(clock);
    let value = work();
    (value, thread_s(clock) - before)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (engine, clock) = (engine(EngineName::Scalar).unwrap(), SystemClock::default());
    println!("case | inputs | rows | by the interpreter | seconds | interpreter alone, seconds");
    println!("---|---|---|---|---|---");
    for case in cases().iter().filter(|case| words.iter().all(|word| case.name.contains(word.as_str()))) {
        let coins = case.coins();
        let transaction = case.signed(&coins);
        let (tx, inputs) = (transaction.tx(), 0..case.inputs);
        assert!(tx.weight() < WEIGHT_MAX + 4000, "{}: weight {}", case.name, tx.weight());
        let spent = TxCoins::new(&coins, 0, case.inputs);
        let counters = Counters::default();
        let job = TxJob { tx, coins: spent, flags: Flags::ALL, inputs: inputs.clone() };
        let (verdicts, ours_s) = measure(&clock, || verify_txs(&[job], &*engine, &counters));
        assert_eq!(verdicts, [Ok(())], "{}", case.name);
        let (valid, kernel_s) = measure(&clock, || {
            let interpreter = Interpreter::new(tx, spent);
            inputs.clone().all(|input| interpreter.verify(input, Flags::ALL))
        });
        assert!(valid, "{}", case.name);
        let total = counters.total();
        println!(
            "{} | {} | {} | {} | {ours_s:.2} | {kernel_s:.2}",
            case.name, total.inputs, total.signatures, total.fallback_inputs
        );
    }
}
