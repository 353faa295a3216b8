//! One transaction: form, locks, coins, amounts, fees.
//!
//! In:     transactions at both sides of each rule.
//! Out:    Core's reject words.
//! Fails:  with the row.

use chain::mempool::{Accept, Event, Rejected, SharedMempool};
use chain::policy::{Class, FeeRate, Policy, Reject};
use primitives::{OutPoint, Transaction};
use stdx::random::Random;

use crate::world::{ANCHOR, Draft, World, out, txid};

#[test]
fn form_is_judged_before_anything_else() {
    let mut world = World::new(Policy::default());
    let [coin] = world.coins(1_000_000);
    let good = Draft::new(&[coin], &[990_000]);
    let changed = |change: &dyn Fn(&mut Draft)| {
        let mut draft = good.clone();
        change(&mut draft);
        draft
    };
    let mut check = |draft: Draft, want: &str| assert_eq!(world.word(&draft.tx()), want);
    check(good.clone(), "");
    check(good.clone().version(0), "version");
    check(good.clone().version(1), "");
    check(good.clone().version(4), "version");
    check(changed(&|draft| draft.inputs[0].0 = OutPoint::NULL), "bad-cb-length");
    check(changed(&|draft| draft.outputs[0].1 = vec![0x51]), "scriptpubkey");
    check(changed(&|draft| draft.inputs[0].2 = vec![0x61]), "scriptsig-not-pushonly");
    check(changed(&|draft| draft.inputs[0].2 = vec![0; 1_651]), "scriptsig-size");
    check(changed(&|draft| draft.inputs.push(draft.inputs[0].clone())), "bad-txns-inputs-duplicate");
    check(changed(&|draft| draft.outputs.clear()), "bad-txns-vout-empty");
    check(changed(&|draft| draft.outputs[0].0 = -1), "bad-txns-vout-negative");
    // One P2A output and no other are 64 bytes; a byte more is enough.
    assert_eq!(good.tx().tx().stripped_length(), 74);
    check(changed(&|draft| drop(draft.outputs.pop())), "tx-size-small");
    check(changed(&|draft| draft.outputs = vec![(0, vec![0x6a, 3, 1, 1, 1])]), "");
    check(changed(&|draft| draft.outputs = vec![(0, vec![0x6a, 2, 1, 1])]), "tx-size-small");
    // A wide data carrier is taken until the weight limit.
    check(good.clone().padded(60_000), "");
    check(changed(&|draft| *draft = draft.clone().padded(60_000).padded(40_000)), "tx-size");
}

#[test]
fn the_weight_limit_has_two_sides() {
    let mut world = World::new(Policy { cluster_vbytes_max: 200_000, ..Policy::default() });
    let [coin] = world.coins(10_000_000);
    let mut draft = Draft::new(&[coin], &[9_000_000]).padded(50_000).padded(49_000);
    let missing = 400_000 - draft.tx().tx().weight();
    let last = draft.outputs.pop().unwrap().1.len();
    let exact = draft.clone().padded(last + missing / 4);
    assert_eq!(exact.tx().tx().weight(), 400_000);
    assert_eq!(world.word(&exact.tx()), "");
    assert_eq!(world.word(&draft.padded(last + missing / 4 + 1).tx()), "tx-size");
}

#[test]
fn locks_are_judged_by_the_next_block() {
    let mut world = World::new(Policy::default());
    let [coin] = world.coins(1_000_000);
    let tip = world.ledger.height;
    let mut check = |sequence: u32, lock_time: u32, want: &str| {
        let mut draft = Draft::new(&[coin], &[990_000]);
        draft.inputs[0].1 = sequence;
        draft.lock_time = lock_time;
        assert_eq!(world.word(&draft.tx()), want, "{sequence:x} {lock_time}");
    };
    let no_lock = 0xffff_fffe;
    check(no_lock, tip, "");
    check(no_lock, tip + 1, "non-final");
    check(0xffff_ffff, tip + 1, "");
    let median_s = 1_600_000_000 + 600 * tip;
    check(no_lock, median_s - 1, "");
    check(no_lock, median_s, "non-final");
    // The coin is at height 500: in block 1,001 it is 501 deep.
    check(tip + 1 - 500, 0, "");
    check(tip + 1 - 500 + 1, 0, "non-BIP68-final");
    // Its time counts from block 499 to the tip: 501 blocks of 600 s are 587.1 units of 512 s.
    check(1 << 22 | 587, 0, "");
    check(1 << 22 | 588, 0, "non-BIP68-final");
}

#[test]
fn relative_locks_on_unconfirmed_coins_wait_for_a_block() {
    let mut world = World::new(Policy::default());
    let [coin] = world.coins(1_000_000);
    let parent = Draft::new(&[coin], &[990_000]).tx();
    world.must(&parent);
    for (sequence, want) in [(0, ""), (1, "non-BIP68-final"), (1 << 22, ""), (1 << 22 | 1, "non-BIP68-final")] {
        let mut child = Draft::new(&[out(&parent, 0)], &[980_000]);
        child.inputs[0].1 = sequence;
        assert_eq!(world.word(&child.tx()), want, "{sequence:x}");
    }
}

#[test]
fn coins_must_be_there_mature_and_enough() {
    let mut world = World::new(Policy::default());
    let young = world.coin_of(50_000, &ANCHOR, 902, true);
    let ripe = world.coin_of(50_000, &ANCHOR, 901, true);
    let [coin] = world.coins(50_000);
    let unknown = OutPoint { vout: 9, ..coin };
    assert_eq!(world.word(&Draft::new(&[unknown], &[40_000]).tx()), "bad-txns-inputs-missingorspent");
    assert_eq!(world.word(&Draft::new(&[young], &[40_000]).tx()), "bad-txns-premature-spend-of-coinbase");
    assert_eq!(world.word(&Draft::new(&[ripe], &[40_000]).tx()), "");
    assert_eq!(world.word(&Draft::new(&[coin], &[50_001]).tx()), "bad-txns-in-belowout");
    assert_eq!(world.word(&Draft::new(&[coin], &[50_000]).tx()), "min relay fee not met");
    let odd = world.coin_of(50_000, &[0x51], 500, false);
    let future = world.coin_of(50_000, &[0x52, 0x02, 1, 2], 500, false);
    world.publish();
    assert_eq!(world.word(&Draft::new(&[odd], &[40_000]).tx()), "bad-txns-nonstandard-inputs");
    assert_eq!(world.word(&Draft::new(&[future], &[40_000]).tx()), "bad-txns-nonstandard-inputs");
    let mut with_witness = Draft::new(&[coin], &[40_000]);
    with_witness.inputs[0].3 = vec![vec![1]];
    assert_eq!(world.word(&with_witness.tx()), "bad-witness-nonstandard");
    let tx = Draft::new(&[coin], &[40_000]).tx();
    world.must(&tx);
    assert_eq!(world.word(&tx), "txn-already-in-mempool");
    world.mine(&[tx.clone()]);
    assert_eq!(world.word(&tx), "txn-already-known");
    assert_eq!(world.accept(&tx).unwrap_err().class(), Class::Conflict);
}

#[test]
fn an_input_that_fails_says_why_and_whether_its_witness_is_gone() {
    let mut world = World::new(Policy::default());
    let keyhash = world.coin_of(50_000, &[&[0, 20][..], &[3; 20]].concat(), 500, false);
    let legacy = world.coin_of(50_000, &[&[0x76, 0xa9, 20][..], &[3; 20], &[0x88, 0xac]].concat(), 500, false);
    world.publish();
    let stripped = world.accept(&Draft::new(&[keyhash], &[40_000]).tx()).unwrap_err();
    assert_eq!(stripped.reject_word(), "mempool-script-verify-flag-failed (Witness program hash mismatch)");
    assert_eq!(stripped.class(), Class::WitnessStripped);
    let mut draft = Draft::new(&[legacy], &[40_000]);
    draft.inputs[0].2 = vec![1, 9, 1, 9];
    // 0x01 0x09 is not the shortest push of nine.
    let refused = world.accept(&draft.tx()).unwrap_err();
    assert_eq!(refused.reject_word(), "mempool-script-verify-flag-failed (Data push larger than necessary)");
    assert_eq!(refused.class(), Class::NotStandard);
    draft.inputs[0].2 = vec![2, 9, 9, 2, 9, 9];
    let refused = world.accept(&draft.tx()).unwrap_err();
    assert_eq!(refused.reject_word(), "mempool-script-verify-flag-failed (Script failed an OP_EQUALVERIFY operation)");
    assert!(world.pool.is_empty());
}

#[test]
fn fees_meet_the_relay_minimum_exactly() {
    let mut world = World::new(Policy::default());
    let [coin] = world.coins(1_000_000);
    // 74 bytes: 7.4 satoshi at 100 for 1,000 bytes, so 8.
    assert_eq!(world.word(&Draft::new(&[coin], &[1_000_000 - 8]).tx()), "");
    assert_eq!(world.word(&Draft::new(&[coin], &[1_000_000 - 7]).tx()), "min relay fee not met");
    let tx = Draft::new(&[coin], &[900_000]).tx();
    let at = |rate| Accept { max_feerate: Some(rate), ..Accept::test_at(world.now_s) };
    let (below, exact) = (at(FeeRate::of(99_999, 74)), at(FeeRate::of(100_000, 74)));
    assert_eq!(world.pool.accept(&tx, &below).err().unwrap().reject, Reject::MaxFeeRate);
    assert!(world.pool.accept(&tx, &exact).is_ok());
    // Additions by hand count as fee.
    let poor = Draft::new(&[coin], &[1_000_000]).tx();
    world.pool.prioritise(&txid(&poor), 8);
    assert_eq!(world.word(&poor), "");
    world.pool.prioritise(&txid(&poor), -1);
    assert_eq!(world.word(&poor), "min relay fee not met");
}

#[test]
fn dust_is_taken_with_a_child_only() {
    let mut world = World::new(Policy::default());
    let [coin] = world.coins(1_000_000);
    // A P2A output weighs 13 bytes and 67 to spend: 240 satoshi at 3,000 for 1,000.
    assert_eq!(world.word(&Draft::new(&[coin], &[990_000, 240]).tx()), "");
    assert_eq!(world.word(&Draft::new(&[coin], &[990_000, 239]).tx()), "dust");
    assert_eq!(world.word(&Draft::new(&[coin], &[990_000, 0, 0]).tx()), "dust");
    assert_eq!(world.word(&Draft::new(&[coin], &[1_000_000 - 239, 239]).tx()), "min relay fee not met");
}

#[test]
fn subscribers_hear_every_change_in_order() {
    let mut world = World::new(Policy::default());
    let [a] = world.coins(1_000_000);
    let events = world.pool.subscribe();
    let first = Draft::new(&[a], &[990_000]).tx();
    let second = Draft::new(&[a], &[980_000]).tx();
    world.must(&first);
    world.must(&second);
    world.pool.announce_again(&txid(&second));
    world.pool.announce_again(&txid(&first));
    world.mine(&[second]);
    let told: Vec<(String, u64)> = events
        .try_iter()
        .map(|event| match event {
            Event::Added { sequence, estimable, .. } => (format!("added {estimable}"), sequence),
            Event::Removed { reason, sequence, .. } => (reason.name().to_owned(), sequence),
            Event::Block { height, .. } => ("block".to_owned(), u64::from(height)),
            Event::Offered { .. } => ("offered".to_owned(), 0),
            Event::Shifted { .. } => ("shifted".to_owned(), 0),
        })
        .collect();
    let want = [("added true", 1), ("replaced", 2), ("added true", 3), ("offered", 0), ("block", 4), ("block", 1_001)];
    assert_eq!(told, want.map(|(word, number)| (word.to_owned(), number)));
    assert_eq!(world.pool.sequence(), 5);
}

#[test]
fn a_batch_is_taken_as_its_members_would_be_one_by_one() {
    let mut world = World::new(Policy::default());
    let [a, b, c] = world.coins(1_000_000);
    let keyhash = world.coin_of(50_000, &[&[0, 20][..], &[3; 20]].concat(), 500, false);
    world.publish();
    let parent = Draft::new(&[a], &[990_000]).tx();
    let batch = [
        parent.clone(),
        Draft::new(&[out(&parent, 0), b], &[1_900_000]).tx(),
        Draft::new(&[keyhash], &[40_000]).tx(),
        Draft::new(&[c], &[1_000_000]).tx(),
        parent.clone(),
        Draft::new(&[out(&parent, 7)], &[1_000]).tx(),
    ];
    let how = Accept::at(world.now_s);
    let want: Vec<String> = batch
        .iter()
        .map(|tx| world.accept(tx).map_or_else(|reject| reject.reject_word().into_owned(), |_| String::new()))
        .collect();
    let mut other = World::new(Policy::default());
    other.ledger = world.ledger.clone();
    other.publish();
    let shared = SharedMempool::new(other.pool);
    let word = |verdict: &Result<_, Rejected>| match verdict {
        Ok(_) => String::new(),
        Err(rejected) => rejected.reject.reject_word().into_owned(),
    };
    let got: Vec<String> = shared.accept_all(&batch, &how).iter().map(word).collect();
    assert_eq!(got, want);
    assert_eq!(want.iter().filter(|word| word.is_empty()).count(), 2);
    assert_eq!((shared.read().len(), shared.read().histogram().len()), (2, 1));
    assert_eq!(word(&shared.accept(&batch[0], &how)), "txn-already-in-mempool");
}

#[test]
fn damaged_transactions_are_refused_or_taken_without_a_panic() {
    let mut world = World::new(Policy { require_standard: false, ..Policy::default() });
    let mut strict = World::new(Policy::default());
    let taproot = [&[0x51, 0x20][..], &[2; 32]].concat();
    let nested = [&[0xa9, 20][..], &primitives::hash::hash160(&[0, 20]), &[0x87]].concat();
    let scripts = [ANCHOR.to_vec(), taproot, nested, [&[0, 32][..], &[1; 32]].concat(), vec![0x51]];
    let coins: Vec<OutPoint> = scripts.iter().map(|script| world.coin_of(50_000, script, 500, false)).collect();
    strict.ledger = world.ledger.clone();
    world.publish();
    strict.publish();
    let mut random = Random::new(9);
    let (mut parsed, mut taken) = (0, 0);
    for _ in 0..20_000 {
        let mut draft = Draft::new(&[coins[random.below(5) as usize]], &[random.below(60_000) as i64]);
        draft.inputs[0].2 = vec![random.next_u64() as u8; random.below(3) as usize];
        draft.inputs[0].3 = (0..random.below(4)).map(|_| vec![0x50; random.below(40) as usize]).collect();
        let mut bytes = draft.bytes();
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        let Ok(tx) = Transaction::parse(bytes) else { continue };
        parsed += 1;
        taken += u32::from(world.accept(&tx).is_ok());
        let _ = strict.pool.test_package(&[tx.clone(), draft.tx()], strict.now_s);
        let _ = strict.pool.accept_package(&[draft.tx(), tx], strict.now_s, None);
    }
    assert!(parsed > 5_000 && taken > 5, "{parsed} {taken}");
}
