//! What one proof of a block learns, the next one is given, and nothing of it is believed.
//!
//! In:     real blocks, and an engine that learns a bit of every ECDSA row and looks at what it is given.
//! Out:    a second proof asks only rows that were proved, each with its own hint; verdicts are the same whatever is kept.
//! Fails:  says "skipped" where the blocks are not on this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use consensus::CheckedBlock;
use consensus::flags::Flags;
use consensus::script::{Counters, CountersTotal, Job, Learnt, SEGMENT_INPUTS, ScriptFailure, verify, verify_learning};
use primitives::{Coin, SpentCoins};
use sigs::{Check, Engine, EngineName, Hint, engine};
use stdx::checksum::checksum;
use stdx::random::Random;

use crate::blocks::{RealBlock, real_blocks};

/// Counts what it is given; any bit that depends on all of the row serves as its parity.
struct Learner {
    inner: Arc<dyn Engine>,
    ecdsa: AtomicU64,
    proved: AtomicU64,
    right: AtomicU64,
    wrong: AtomicU64,
}

impl Learner {
    fn new() -> Learner {
        let inner = engine(EngineName::Auto).unwrap();
        Learner { inner, ecdsa: 0.into(), proved: 0.into(), right: 0.into(), wrong: 0.into() }
    }

    /// Rows of ECDSA, those proved, those that came with their hint, those that came with another.
    fn seen(&self) -> [u64; 4] {
        [&self.ecdsa, &self.proved, &self.right, &self.wrong].map(|count| count.load(Relaxed))
    }
}

fn hint_of(check: &Check) -> Option<Hint> {
    let Check::Ecdsa { key, signature, message } = check else { return None };
    let bit = checksum(1, &[key.as_slice(), signature, message].concat()) & 1;
    Some(if bit == 1 { Hint::Odd } else { Hint::Even })
}

impl Engine for Learner {
    fn name(&self) -> &'static str {
        "learner"
    }

    fn verify(&self, checks: &[Check], verdicts: &mut [bool]) {
        self.inner.verify(checks, verdicts);
    }

    fn prove(&self, checks: &[Check], hints: &mut [Hint], proved: &mut [bool]) {
        self.inner.prove(checks, &mut vec![Hint::Unknown; checks.len()], proved);
        for ((check, hint), proved) in checks.iter().zip(hints).zip(proved) {
            let Some(own) = hint_of(check) else {
                assert_eq!(*hint, Hint::Unknown, "BIP 340 needs no hint");
                continue;
            };
            self.ecdsa.fetch_add(1, Relaxed);
            self.right.fetch_add(u64::from(*hint == own), Relaxed);
            self.wrong.fetch_add(u64::from(*hint != own && *hint != Hint::Unknown), Relaxed);
            if *proved {
                self.proved.fetch_add(1, Relaxed);
                *hint = own;
            }
        }
    }

    fn counters(&self) -> sigs::Counters {
        self.inner.counters()
    }
}

/// Jobs of four segments each.
fn jobs(checked: &Arc<CheckedBlock>, spent: &Arc<SpentCoins>, flags: Flags) -> Vec<Job> {
    let count = checked.block().input_count();
    let job = |start: usize| Job {
        block: checked.clone(),
        spent: spent.clone(),
        flags,
        inputs: start..count.min(start + 4 * SEGMENT_INPUTS),
    };
    (1..count).step_by(4 * SEGMENT_INPUTS).map(job).collect()
}

type Outcome = (Vec<Result<(), ScriptFailure>>, Learnt, CountersTotal);

fn prove(jobs: &[Job], kept: &[u8], engine: &Learner) -> Outcome {
    let counters = Counters::default();
    let outcomes = verify_learning(jobs, &vec![kept; jobs.len()], engine, &counters);
    let mut all = Learnt::default();
    for (_, learnt) in &outcomes {
        all.bytes.extend_from_slice(&learnt.bytes);
        all.parities += learnt.parities;
    }
    (outcomes.into_iter().map(|(verdict, _)| verdict).collect(), all, counters.total())
}

#[test]
fn a_second_proof_is_given_what_the_first_one_learnt() {
    let (mut missed, mut hinted, mut bytes) = (0, 0, 0);
    for RealBlock { name, checked, spent, flags } in real_blocks() {
        let jobs = jobs(&checked, &spent, flags);
        let first = Learner::new();
        let (verdicts, learnt, work) = prove(&jobs, &[], &first);
        assert!(verdicts.iter().all(Result::is_ok), "{name}");
        let [ecdsa, proved, right, wrong] = first.seen();
        assert_eq!((right, wrong, work.hinted), (0, 0, 0), "{name}");
        missed += ecdsa - proved;

        let second = Learner::new();
        let (verdicts, again, hinted_work) = prove(&jobs, &learnt.bytes, &second);
        assert!(verdicts.iter().all(Result::is_ok), "{name}");
        // Of rows that are in the end the interpreter's nothing is kept: they are asked again without a hint.
        let [ecdsa_again, proved_again, right, wrong] = second.seen();
        assert_eq!((right, wrong, hinted_work.hinted), (learnt.parities, 0, learnt.parities), "{name}");
        assert_eq!((&again.bytes, again.parities), (&learnt.bytes, learnt.parities), "{name}");
        assert!(proved_again == proved && ecdsa_again - proved_again <= (ecdsa - proved) / 10, "{name}");
        assert_eq!(hinted_work.template_inputs, work.template_inputs, "{name}");
        hinted += learnt.parities;
        bytes += learnt.bytes.len() as u64;
    }
    if hinted > 0 {
        println!("{missed} rows missed at first, {hinted} hints in {bytes} bytes");
        assert!(missed > 100 && bytes * 8 < hinted * 7 / 4);
    }
}

/// The block's coins, but one: its amount is another, which segwit's signatures commit to, and for others its script.
fn broken(spent: &SpentCoins, index: usize) -> SpentCoins {
    let mut coins = SpentCoins::default();
    for (number, coin) in spent.iter().enumerate() {
        let mut script = coin.script.to_vec();
        let (mut value_sat, segwit) = (coin.value_sat, script[0] == 0 || script[0] == 0x51);
        match script.last_mut() {
            Some(last) if number == index && !segwit => *last ^= 1,
            _ => value_sat ^= u64::from(number == index),
        }
        coins.push(Coin { value_sat, script: &script, ..coin });
    }
    coins
}

#[test]
fn whatever_is_kept_the_verdicts_are_the_same() {
    let mut random = Random::new(5);
    let mut refused = 0;
    for RealBlock { name, checked, spent, flags } in
        real_blocks().into_iter().filter(|block| (1..3_000).contains(&block.spent.len()))
    {
        let good = jobs(&checked, &spent, flags);
        let (_, learnt, _) = prove(&good, &[], &Learner::new());
        let mut kept = vec![learnt.bytes.clone()];
        for _ in 0..3 {
            let mut flipped = learnt.bytes.clone();
            for _ in 0..1 + flipped.len() / 20 {
                let at = random.below(flipped.len() as u64) as usize;
                flipped[at] ^= 1 << random.below(8);
            }
            kept.push(flipped);
        }
        kept.push(learnt.bytes[..learnt.bytes.len() / 2].to_vec());
        kept.push(learnt.bytes.iter().rev().copied().collect());
        kept.push((0..learnt.bytes.len()).map(|_| random.below(256) as u8).collect());
        let place = random.below(spent.len() as u64) as usize;
        let bad = jobs(&checked, &Arc::new(broken(&spent, place)), flags);
        let want = verify(&bad, &*engine(EngineName::Auto).unwrap(), &Counters::default());
        refused += want.iter().filter(|verdict| verdict.is_err()).count();
        for kept in &kept {
            let (verdicts, again, _) = prove(&good, kept, &Learner::new());
            assert!(verdicts.iter().all(Result::is_ok), "{name}");
            assert_eq!(again.bytes, learnt.bytes, "{name}: what was wrong is learnt anew");
            assert_eq!(prove(&bad, kept, &Learner::new()).0, want, "{name}");
        }
    }
    assert!(refused >= 5 || real_blocks().is_empty(), "{refused} blocks refused");
}
