//! Rules about one block, without coins.
//!
//! In:     forged blocks.
//! Out:    verdicts on both sides of every bound; libbitcoinkernel agrees on those of `CheckBlock`.
//! Fails:  where one differs.

use bitcoinkernel::prelude::BlockValidationStateExt;
use bitcoinkernel::{BLOCK_CHECK_ALL, BlockCheckResult, BlockValidationResult, ChainParams, ChainType};
use consensus::block::{check_contextual, height_push};
use consensus::{BlockError, CheckedBlock, block};
use primitives::hash::sha256d;
use primitives::{Block, Network, Params};

use super::Broken;
use crate::forge::{ForgedBlock, ForgedTx, HEIGHT, MEDIAN_S};

/// Kinds of verdicts that libbitcoinkernel tells apart, with the same meaning.
fn kind(verdict: &Result<CheckedBlock, BlockError>) -> Option<BlockValidationResult> {
    Some(match verdict {
        Ok(_) => return None,
        Err(BlockError::Header { .. }) => BlockValidationResult::InvalidHeader,
        Err(error) if error.is_mutation() => BlockValidationResult::Mutated,
        Err(_) => BlockValidationResult::Consensus,
    })
}

/// `block::check`, held against Core's `CheckBlock`.
#[track_caller]
pub fn check_beside_core(block: Block) -> Result<CheckedBlock, BlockError> {
    let core = bitcoinkernel::Block::new(block.bytes()).expect("Core parses it too");
    let verdict = block::check(block, &Params::of(Network::Regtest));
    let core = match core.check(&ChainParams::new(ChainType::Regtest), BLOCK_CHECK_ALL) {
        BlockCheckResult::Valid => None,
        BlockCheckResult::Invalid(state) => Some(state.result()),
    };
    assert_eq!(kind(&verdict), core, "{:?}", verdict.err());
    verdict
}

#[track_caller]
fn judge(broken: &mut Broken, what: &str, forged: ForgedBlock, params: &Params, want: &str) {
    let checked = check_beside_core(forged.seal());
    let verdict = checked.and_then(|checked| check_contextual(&checked, HEIGHT, MEDIAN_S, params));
    broken.note(what, verdict.err().map(|error| error.rule()), want);
}

pub fn table(broken: &mut Broken) {
    shapes(broken);
    merkle_roots(broken);
    signature_operations(broken);
    locks(broken);
    witnesses(broken);
    weights(broken);
    signet_solutions(broken);
}

fn shapes(broken: &mut Broken) {
    let params = Params::of(Network::Regtest);
    let mut check = |what: &str, forged: ForgedBlock, want: &str| judge(broken, what, forged, &params, want);
    let one = || ForgedBlock::of([ForgedTx::spending([1])]);
    check("as it is", one(), "");
    check("hard bits", ForgedBlock { bits: 0x1d00_ffff, ..one() }, "HighHash");
    check("no transactions", ForgedBlock { txs: vec![], ..one() }, "Length");
    check("no coinbase", ForgedBlock { txs: vec![ForgedTx::spending([1])], ..one() }, "CoinbaseMissing");
    let mut second = ForgedTx::coinbase();
    second.lock_time = 1;
    check("two coinbases", ForgedBlock::of([ForgedTx::spending([1]), second]), "CoinbaseMultiple");
    check("a broken transaction", ForgedBlock::of([ForgedTx::spending([1]).paying(-1)]), "NegativeOutput");
    // Bytes without witnesses: 80 of the header, 1 of the count, coinbase, and a transaction of 64 and its script.
    let room = 1_000_000 - 81 - ForgedTx::coinbase().bytes(false).len() - 64;
    for (bytes, want) in [(room, ""), (room + 1, "Length")] {
        let mut large = ForgedTx::spending([1]);
        large.outputs[0].1 = vec![0x51; bytes];
        check("1,000,000 bytes", ForgedBlock::of([large]), want);
    }
}

fn merkle_roots(broken: &mut Broken) {
    let params = Params::of(Network::Regtest);
    let mut check = |what: &str, forged: ForgedBlock, want: &str| judge(broken, what, forged, &params, want);
    let three = ForgedBlock::of([ForgedTx::spending([1]), ForgedTx::spending([2])]);
    let mut four = three.clone();
    four.txs.push(ForgedTx::spending([2]));
    check("three", three.clone(), "");
    check("the last one twice", four, "MerkleMutated");
    check("another root", ForgedBlock { root: Some(sha256d(b"")), ..three }, "MerkleRoot");
    let mut inner = ForgedBlock::of((1..6).map(|n| ForgedTx::spending([n])));
    inner.txs.extend([4, 5].map(|n| ForgedTx::spending([n])));
    check("the last two twice", inner, "MerkleMutated");
}

fn signature_operations(broken: &mut Broken) {
    let params = Params::of(Network::Regtest);
    let mut check = |script_sig: usize, outputs: Vec<u8>, want: &str| {
        let mut forged = ForgedTx::spending([1]);
        forged.inputs[0].script_sig = vec![0xac; script_sig];
        forged.outputs[0].1 = outputs;
        judge(broken, "signature operations", ForgedBlock::of([forged]), &params, want);
    };
    check(0, vec![0xac; 20_000], "");
    check(0, vec![0xad; 20_001], "LegacySigOps");
    check(10_000, vec![0xac; 10_000], "");
    check(10_001, vec![0xac; 10_000], "LegacySigOps");
    // Each CHECKMULTISIG counts twenty, whatever number stands before it.
    check(0, [0x51, 0xae].repeat(1_000), "");
    check(1, [0x51, 0xaf].repeat(1_000), "LegacySigOps");
    // What follows a push that is too long is not counted.
    check(0, [&[0xac; 20_000][..], &[0x4c, 0xff, 0xac]].concat(), "");
}

fn locks(broken: &mut Broken) {
    let regtest = Params::of(Network::Regtest);
    let before_csv = Params { csv_height: HEIGHT + 1, ..regtest.clone() };
    let mut check = |lock_time: u32, sequence: u32, params: &Params, want: &str| {
        let mut forged = ForgedTx::spending([1]);
        (forged.lock_time, forged.inputs[0].sequence) = (lock_time, sequence);
        let what = format!("locked until {lock_time}");
        judge(broken, &what, ForgedBlock::of([forged]), params, want);
    };
    check(HEIGHT - 1, 0, &regtest, "");
    check(HEIGHT, 0, &regtest, "NonFinal");
    check(HEIGHT, u32::MAX - 1, &regtest, "NonFinal");
    check(HEIGHT, u32::MAX, &regtest, "");
    check(499_999_999, 0, &regtest, "NonFinal");
    check(500_000_000, 0, &regtest, "");
    check(MEDIAN_S - 1, 0, &regtest, "");
    check(MEDIAN_S, 0, &regtest, "NonFinal");
    // Before BIP 113 the block's own time counts, ten minutes later here.
    check(MEDIAN_S + 599, 0, &before_csv, "");
    check(MEDIAN_S + 600, 0, &before_csv, "NonFinal");

    let before_bip34 = Params { bip34_height: HEIGHT + 1, ..regtest.clone() };
    let right = height_push(HEIGHT);
    for (script_sig, params, want) in [
        ([&right[..], &[0]].concat(), &regtest, ""),
        (right.clone(), &regtest, ""),
        (right[..right.len() - 1].to_vec(), &regtest, "CoinbaseHeight"),
        (height_push(HEIGHT + 1), &regtest, "CoinbaseHeight"),
        ([&[0x4c], &right[..]].concat(), &regtest, "CoinbaseHeight"),
        (vec![0, 0], &before_bip34, ""),
    ] {
        let forged = ForgedBlock::of([]).with_coinbase(|tx| tx.inputs[0].script_sig = script_sig);
        judge(broken, "height in the coinbase", forged, params, want);
    }
}

fn witnesses(broken: &mut Broken) {
    let regtest = Params::of(Network::Regtest);
    let before_segwit = Params { segwit_height: HEIGHT + 1, ..regtest.clone() };
    let with_witness = || ForgedBlock::of([ForgedTx::spending([1]), ForgedTx::spending([2]).with_witness(vec![1])]);
    let without = || ForgedBlock::of([ForgedTx::spending([1])]);
    let mut check = |what: &str, forged: ForgedBlock, want: &str, want_before: &str| {
        judge(broken, what, forged.clone(), &regtest, want);
        judge(broken, &format!("{what}, before BIP 141"), forged, &before_segwit, want_before);
    };
    check("no witness, no commitment", without(), "", "");
    check("committed", with_witness().committed(), "", "UnexpectedWitness");
    check("not committed", with_witness(), "UnexpectedWitness", "UnexpectedWitness");
    let plain = |forged: ForgedBlock, witness: Vec<Vec<u8>>| {
        forged.committed().with_coinbase(|tx| tx.inputs[0].witness = witness)
    };
    check("no reserved value", plain(without(), vec![]), "WitnessNonce", "");
    check("31 bytes", plain(without(), vec![vec![7; 31]]), "WitnessNonce", "UnexpectedWitness");
    check("33 bytes", plain(without(), vec![vec![7; 33]]), "WitnessNonce", "UnexpectedWitness");
    check("two items", plain(without(), vec![vec![7; 32]; 2]), "WitnessNonce", "UnexpectedWitness");
    check("another value", plain(without(), vec![vec![8; 32]]), "WitnessCommitment", "UnexpectedWitness");
    let mut changed = with_witness().committed();
    changed.txs[2].inputs[0].witness[0] = vec![2];
    check("another witness", changed, "WitnessCommitment", "UnexpectedWitness");
    // The last output that looks like a commitment counts, however long it is; a shorter one never.
    let decoy = [&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed][..], &[0; 32]].concat();
    let before = with_witness().with_coinbase(|tx| tx.outputs.push((0, decoy.clone()))).committed();
    check("a decoy before", before, "", "UnexpectedWitness");
    let after = with_witness().committed().with_coinbase(|tx| tx.outputs.push((0, decoy.clone())));
    check("a decoy after", after, "WitnessCommitment", "UnexpectedWitness");
    let short = with_witness().committed().with_coinbase(|tx| tx.outputs.push((0, decoy[..37].to_vec())));
    check("a short decoy after", short, "", "UnexpectedWitness");
    let longer = with_witness().committed().with_coinbase(|tx| tx.outputs.last_mut().unwrap().1.push(0));
    check("a longer commitment", longer, "", "UnexpectedWitness");
}

fn weights(broken: &mut Broken) {
    let params = Params::of(Network::Regtest);
    let forge = |bytes: usize| ForgedBlock::of([ForgedTx::spending([1]).with_witness(vec![0; bytes])]).committed();
    let room = 3_900_000 + 4_000_000 - forge(3_900_000).seal().weight();
    assert_eq!(forge(room).seal().weight(), 4_000_000);
    judge(broken, "weight 4,000,000", forge(room), &params, "");
    judge(broken, "weight 4,000,001", forge(room + 1), &params, "Weight");
}

/// Challenges that need no signature, on a signet as easy as regtest; real signatures are tried in `chains`.
fn signet_solutions(broken: &mut Broken) {
    let mut check = |what: &str, challenge: &[u8], forged: ForgedBlock, want: &str| {
        let params = Params { signet_challenge: Some(challenge.to_vec()), ..Params::of(Network::Regtest) };
        let verdict = block::check(forged.seal(), &params);
        broken.note(what, verdict.err().map(|error| error.rule()), want);
    };
    let solved_by = |push: &[u8]| {
        let add = |tx: &mut ForgedTx| {
            let script = &mut tx.outputs.last_mut().unwrap().1;
            script.push(push.len() as u8);
            script.extend_from_slice(push);
        };
        ForgedBlock::of([]).committed().with_coinbase(add)
    };
    let header = [0xec, 0xc7, 0xda, 0xa2];
    let solution = |rest: &[u8]| solved_by(&[&header, rest].concat());
    let (anyone, nobody, five) = (&[0x51][..], &[0x00][..], &[0x55, 0x87][..]);
    check("anyone may", anyone, ForgedBlock::of([]).committed(), "");
    check("nobody may", nobody, ForgedBlock::of([]).committed(), "SignetSolution");
    check("no commitment to hold it", anyone, ForgedBlock::of([]), "SignetSolution");
    check("no transactions", anyone, ForgedBlock { txs: vec![], ..ForgedBlock::of([]) }, "SignetSolution");
    check("an input script that pushes 5", five, solution(&[1, 0x55, 0]), "");
    check("one that pushes 4", five, solution(&[1, 0x54, 0]), "SignetSolution");
    check("none", five, ForgedBlock::of([]).committed(), "SignetSolution");
    check("a header and nothing else is no solution", five, solved_by(&header), "SignetSolution");
    check("bytes after it", five, solution(&[1, 0x55, 0, 0]), "SignetSolution");
    check("bytes missing", five, solution(&[1, 0x55]), "SignetSolution");
    check("a script that is too short", five, solution(&[2, 0x55]), "SignetSolution");
    check("a witness where none is due", five, solution(&[1, 0x55, 1, 0]), "SignetSolution");
    // A witness script of version 0 is read from the stack.
    let program = [&[0, 32][..], &primitives::hash::sha256(five)].concat();
    check("a witness that pushes 5", &program, solution(&[0, 2, 1, 5, 2, 0x55, 0x87]), "");
    check("one that pushes 4", &program, solution(&[0, 2, 1, 4, 2, 0x55, 0x87]), "SignetSolution");
}

#[test]
fn heights_are_pushed_as_script_numbers() {
    #[track_caller]
    fn check(height: u32, want: &[u8]) {
        assert_eq!(height_push(height), want, "{height}");
    }
    check(0, &[0]);
    check(1, &[0x51]);
    check(16, &[0x60]);
    check(17, &[1, 17]);
    check(127, &[1, 127]);
    check(128, &[2, 128, 0]);
    check(255, &[2, 255, 0]);
    check(256, &[2, 0, 1]);
    check(32_767, &[2, 0xff, 0x7f]);
    check(32_768, &[3, 0, 0x80, 0]);
    check(227_931, &[3, 0x5b, 0x7a, 0x03]);
    check(8_388_607, &[3, 0xff, 0xff, 0x7f]);
    check(8_388_608, &[4, 0, 0, 0x80, 0]);
}
