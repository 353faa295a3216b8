//! Both sides of the bounds that templates and interpreter must agree about, and which failure is named.
//!
//! In:     spends made for one bound each.
//! Out:    the verdict that is written here, by templates plus interpreter and by libbitcoinkernel's call.
//! Fails:  panics with the row's name.

use consensus::Flags;
use consensus::script::{Counters, Sighasher, TxCoins, TxJob, verify_txs};
use secp256k1::{Keypair, Message, SecretKey, ecdsa, schnorr};

use crate::published::push;
use crate::raw::{RawInput, RawTx, coins, judge, jury};
use crate::spends::{Leaf, Tree};

fn secret() -> SecretKey {
    SecretKey::from_secret_bytes([9; 32]).unwrap()
}

fn unsigned(inputs: usize) -> RawTx {
    let input = |index: usize| RawInput {
        outpoint: [index as u8; 36],
        script_sig: vec![],
        sequence: u32::MAX,
        witness: vec![],
    };
    RawTx { version: 2, inputs: (0..inputs).map(input).collect(), outputs: vec![(1, vec![0x51])], lock_time: 0 }
}

fn legacy_message(tx: &RawTx, input: usize, code: &[u8]) -> [u8; 32] {
    let (transaction, coins) = (tx.parse(), coins(tx.inputs.iter().map(|_| (5, code))));
    Sighasher::new(transaction.tx(), TxCoins::new(&coins, 0, coins.len())).legacy(input, code, 1)
}

fn p2pk() -> Vec<u8> {
    [&[33], &secret().public_key().serialize()[..], &[0xac]].concat()
}

/// A bare 1-of-1 spend whose signature is padded, as only the lenient reader takes it, to `bytes` behind `dummy_bytes`.
#[track_caller]
fn check_sizes(dummy_bytes: usize, signature_bytes: usize, flags: Flags, want: bool, by_template: u64) {
    let script = [&[0x51, 33], &secret().public_key().serialize()[..], &[0x51, 0xae]].concat();
    let mut tx = unsigned(1);
    let message = legacy_message(&tx, 0, &script);
    let mut signature = ecdsa::sign(Message::from_digest(message), &secret()).serialize_der().to_vec();
    if signature_bytes > signature.len() {
        signature.resize(signature_bytes - 1, 7);
    }
    signature.push(1);
    for item in [vec![0; dummy_bytes], signature] {
        push(&mut tx.inputs[0].script_sig, &item);
    }
    let name = format!("extra element of {dummy_bytes} bytes, signature of {signature_bytes}");
    let (valid, work) = judge(tx.parse().tx(), &coins([(5, &script[..])]), flags, &name);
    assert_eq!((valid, work.template_inputs), (want, by_template), "{name}");
}

#[test]
fn elements_have_520_bytes_at_most() {
    let early = Flags::P2SH | Flags::WITNESS;
    check_sizes(0, 0, Flags::ALL, true, 1);
    check_sizes(1, 0, Flags::ALL, false, 0);
    check_sizes(1, 0, early, true, 1);
    check_sizes(520, 0, early, true, 1);
    check_sizes(521, 0, early, false, 0);
    check_sizes(0, 520, early, true, 1);
    check_sizes(0, 521, early, false, 0);
    check_sizes(0, 520, early | Flags::DERSIG, false, 0);
}

#[test]
fn input_scripts_have_10_000_bytes_at_most() {
    // 20-of-20, each signature padded: both sides of the bound by one byte.
    #[track_caller]
    fn check(length: usize, want: bool) {
        let key = secret().public_key().serialize();
        let mut script = vec![1, 20];
        (0..20).for_each(|_| push(&mut script, &key));
        script.extend([1, 20, 0xae]);
        let mut tx = unsigned(1);
        let message = legacy_message(&tx, 0, &script);
        let signature = ecdsa::sign(Message::from_digest(message), &secret()).serialize_der().to_vec();
        let mut left = length - 1;
        tx.inputs[0].script_sig.push(0);
        for others in (0..20).rev() {
            // The push takes three bytes; what is left is shared evenly.
            let bytes = left / (others + 1) - 3;
            let mut padded = signature.clone();
            padded.resize(bytes - 1, 7);
            padded.push(1);
            push(&mut tx.inputs[0].script_sig, &padded);
            left -= bytes + 3;
        }
        assert_eq!(tx.inputs[0].script_sig.len(), length);
        let (valid, work) = judge(tx.parse().tx(), &coins([(5, &script[..])]), Flags::P2SH, &length);
        assert_eq!((valid, work.template_inputs), (want, u64::from(want)), "{length}");
    }
    check(10_000, true);
    check(10_001, false);
}

#[test]
fn a_merkle_path_has_128_nodes_at_most() {
    #[track_caller]
    fn check(leaves: usize, want: bool) {
        let pair = Keypair::from_secret_key(&secret());
        let script = [&[0x20], &pair.x_only_public_key().0.to_byte_array()[..], &[0xac]].concat();
        let all: Vec<Leaf> = (0..leaves).map(|_| Leaf { version: 0xc0, script: script.clone() }).collect();
        let tree = Tree::new(&secret(), &all);
        let coin = [&[0x51, 0x20], &tree.output_key[..]].concat();
        let mut tx = unsigned(1);
        let (transaction, spent) = (tx.parse(), coins([(5, &coin[..])]));
        let mut hasher = Sighasher::new(transaction.tx(), TxCoins::new(&spent, 0, 1));
        let message = hasher.taproot(0, 0, None, Some(&all[0].hash())).unwrap();
        let signature = schnorr::sign_no_aux_rand(&message, &pair).to_byte_array().to_vec();
        let control = tree.control(leaves - 1);
        assert_eq!(control.len(), 33 + 32 * (leaves - 1));
        tx.inputs[0].witness = vec![signature, script, control];
        let (valid, work) = judge(tx.parse().tx(), &spent, Flags::ALL, &leaves);
        assert_eq!((valid, work.template_inputs), (want, u64::from(want)), "{leaves} leaves");
    }
    check(1, true);
    check(129, true);
    check(130, false);
}

#[test]
fn a_program_that_is_false_as_a_number_is_never_spent() {
    // Bytes that are zero and negative zero; as keys neither is a point of the curve, as hashes nobody knows a preimage.
    for x in [0x80, 0x00] {
        let mut program = [0; 32];
        program[31] = x;
        let tx = |witness: Vec<Vec<u8>>| {
            let mut tx = unsigned(1);
            tx.inputs[0].witness = witness;
            tx.parse()
        };
        for version in [0x51, 0x00] {
            let coin = [&[version, 0x20], &program[..]].concat();
            for witness in [vec![vec![0; 64]], vec![vec![1], vec![0x51]]] {
                let (valid, work) = judge(tx(witness).tx(), &coins([(5, &coin[..])]), Flags::ALL, &x);
                assert_eq!((valid, work.template_inputs), (false, 0));
            }
        }
    }
}

#[test]
fn the_first_bad_input_is_named_whoever_finds_it() {
    #[track_caller]
    fn check(bad_signatures: &[usize], bad_scripts: &[usize], want: Option<usize>) {
        let script = p2pk();
        let mut tx = unsigned(6);
        let messages: Vec<[u8; 32]> = (0..6).map(|input| legacy_message(&tx, input, &script)).collect();
        for (index, (input, message)) in tx.inputs.iter_mut().zip(messages).enumerate() {
            let message = if bad_signatures.contains(&index) { [1; 32] } else { message };
            let mut signature = ecdsa::sign(Message::from_digest(message), &secret()).serialize_der().to_vec();
            signature.push(1);
            push(&mut input.script_sig, &signature);
        }
        let transaction = tx.parse();
        // OP_RETURN is nobody's template, so the interpreter refuses it before any row is checked.
        let spent = coins((0..6).map(|input| (5, if bad_scripts.contains(&input) { &[0x6a][..] } else { &script })));
        let job = || TxJob { tx: transaction.tx(), coins: TxCoins::new(&spent, 0, 6), flags: Flags::ALL, inputs: 0..6 };
        let verdicts = verify_txs(&[job(), job()], jury(), &Counters::default());
        for verdict in verdicts {
            let (failed, why) = verdict.err().map(|failure| (failure.input_index, failure.error.to_string())).unzip();
            assert_eq!(failed, want, "signatures {bad_signatures:?}, scripts {bad_scripts:?}");
            let by_script = want.map(|input| match bad_scripts.contains(&input) {
                true => "OP_RETURN was encountered",
                false => "Script evaluated without error but finished with a false/empty top stack element",
            });
            assert_eq!(why.as_deref(), by_script);
        }
    }
    check(&[], &[], None);
    check(&[5], &[], Some(5));
    check(&[], &[0], Some(0));
    check(&[1], &[2], Some(1));
    check(&[4], &[2], Some(2));
    check(&[1, 3], &[], Some(1));
    check(&[0, 5], &[3, 4], Some(0));
}
