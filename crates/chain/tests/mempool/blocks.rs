//! Blocks connected and disconnected.
//!
//! In:     mempools with families, blocks with some of them.
//! Out:    who is left.
//! Fails:  with the row.

use std::sync::mpsc::Receiver;

use chain::mempool::{Event, Reason};
use chain::policy::Policy;
use primitives::{ScriptHash, Transaction};

use crate::world::{ANCHOR, Draft, World, out};

#[test]
fn a_block_takes_its_transactions_and_their_rivals() {
    let mut world = World::new(Policy::default());
    let [a, b] = world.coins(1_000_000);
    let parent = Draft::new(&[a], &[990_000]).tx();
    let child = Draft::new(&[out(&parent, 0)], &[980_000]).tx();
    let loser = Draft::new(&[b], &[990_000]).tx();
    let heir = Draft::new(&[out(&loser, 0)], &[980_000]).tx();
    for tx in [&parent, &child, &loser, &heir] {
        world.must(tx);
    }
    let winner = Draft::new(&[b], &[900_000]).tx();
    world.mine(&[parent.clone(), winner.clone()]);
    assert!(world.has(&child) && !world.has(&parent) && !world.has(&loser) && !world.has(&heir));
    assert_eq!(world.pool.details(&child.tx().txid()).unwrap().ancestors.0, 1);
    assert_eq!(world.word(&Draft::new(&[out(&winner, 0)], &[800_000]).tx()), "");
}

#[test]
fn what_a_block_takes_out_is_told_in_cores_order() {
    let mut world = World::new(Policy::default());
    let [a, b, c, d] = world.coins(1_000_000);
    let first_loser = Draft::new(&[b], &[990_000]).tx();
    let confirmed = Draft::new(&[a], &[990_000]).tx();
    let heir = Draft::new(&[out(&first_loser, 0), d], &[1_900_000]).tx();
    let last_loser = Draft::new(&[c], &[990_000]).tx();
    for tx in [&first_loser, &confirmed, &last_loser, &heir] {
        world.must(tx);
    }
    let events = world.pool.subscribe();
    // The first transaction of the block spends what the last of the losers does.
    let winner = Draft::new(&[c, b], &[1_800_000]).tx();
    world.mine(&[winner, confirmed.clone()]);
    let told: Vec<_> = events
        .try_iter()
        .filter_map(|event| match event {
            Event::Removed { entry, reason, sequence } => Some((entry.txid, reason, sequence)),
            _ => None,
        })
        .collect();
    let want = [(&last_loser, Reason::Conflict), (&first_loser, Reason::Conflict), (&heir, Reason::Conflict)];
    let want = want.into_iter().chain([(&confirmed, Reason::Block)]);
    let first = told[0].2;
    let want: Vec<_> = want.zip(first..).map(|((tx, reason), number)| (tx.tx().txid(), reason, number)).collect();
    assert_eq!(told, want);
}

#[test]
fn a_disconnected_block_comes_back_under_its_children() {
    let mut world = World::new(Policy::default());
    let [a, b] = world.coins(1_000_000);
    let parent = Draft::new(&[a], &[990_000]).tx();
    let free = Draft::new(&[b], &[1_000_000]).tx();
    let (block, before) = world.mine(&[parent.clone(), free.clone()]);
    let child = Draft::new(&[out(&parent, 0)], &[980_000]).tx();
    let grandchild = Draft::new(&[out(&child, 0), out(&free, 0)], &[1_900_000]).tx();
    world.must(&child);
    world.must(&grandchild);
    let events = world.pool.subscribe();
    world.disconnect(&[block], before);
    // Whatever it pays, a transaction of a block comes back.
    for tx in [&parent, &free, &child, &grandchild] {
        assert!(world.has(tx));
    }
    assert_eq!(world.pool.details(&grandchild.tx().txid()).unwrap().ancestors.0, 4);
    assert_eq!(world.pool.get(&parent.tx().txid()).unwrap().sequence, 0);
    // Two came back; of the two that stayed one has an unconfirmed parent again, and had none before.
    let (mut others, mut shifted) = (0, Vec::new());
    for event in events.try_iter() {
        match event {
            Event::Shifted { entry } => shifted.push(entry.txid),
            _ => others += 1,
        }
    }
    assert_eq!((others, shifted), (3, vec![child.tx().txid()]));
}

#[test]
fn who_loses_the_last_unconfirmed_parent_is_told_of_before_the_block() {
    let mut world = World::new(Policy::default());
    let [a, b] = world.coins(1_000_000);
    let first = Draft::new(&[a], &[990_000]).tx();
    let second = Draft::new(&[b], &[490_000, 490_000]).tx();
    let both = Draft::new(&[out(&first, 0), out(&second, 0)], &[1_400_000]).tx();
    let one = Draft::new(&[out(&second, 1)], &[400_000]).tx();
    let heir = Draft::new(&[out(&one, 0)], &[300_000]).tx();
    for tx in [&first, &second, &both, &one, &heir] {
        world.must(tx);
    }
    let events = world.pool.subscribe();
    #[track_caller]
    fn check(events: &Receiver<Event>, want: &[&Transaction]) {
        let shifted = events.try_iter().take_while(|event| !matches!(event, Event::Block { .. }));
        let shifted = shifted.filter_map(|event| match event {
            Event::Shifted { entry } => Some(entry.txid),
            _ => None,
        });
        assert_eq!(shifted.collect::<Vec<_>>(), want.iter().map(|tx| tx.tx().txid()).collect::<Vec<_>>());
    }
    // One parent of two is left to the first child, none to the second; its own child is not concerned.
    let (block, before) = world.mine(std::slice::from_ref(&second));
    check(&events, &[&one]);
    assert!(world.pool.is_on_unconfirmed(&both.tx().txid()) && !world.pool.is_on_unconfirmed(&one.tx().txid()));
    world.disconnect(&[block], before);
    check(&events, &[&one]);
    assert!(world.pool.is_on_unconfirmed(&one.tx().txid()));
    world.mine(&[first, second]);
    let shifted = events.try_iter().filter(|event| matches!(event, Event::Shifted { .. })).count();
    assert_eq!(shifted, 2);
}

#[test]
fn the_histogram_has_tenths_of_a_satoshi_and_recent_ones_come_newest_first() {
    let mut world = World::new(Policy::default());
    let coins = world.coins::<12>(100_000_000);
    let mut txs = Vec::new();
    for (at, coin) in coins.into_iter().enumerate() {
        // 45,000 vB each: three make a bar. Rates of about 1.0, 1.0, 1.1, 1.1, ... satoshi.
        let mut draft = Draft::new(&[coin], &[100_000_000]).padded(45_000);
        let size_vb = draft.tx().tx().weight().div_ceil(4) as i64;
        draft.outputs[0].0 -= size_vb * (10 + at as i64 / 2) / 10 + 1;
        let tx = draft.tx();
        world.must(&tx);
        txs.push(tx);
    }
    let histogram = world.pool.histogram();
    assert_eq!(histogram.iter().map(|bar| bar.1).sum::<u64>(), world.pool.size_vb());
    let rates: Vec<u64> = histogram.iter().map(|bar| bar.0).collect();
    assert!(rates.is_sorted_by(|a, b| a > b) && rates.first().is_some_and(|rate| *rate <= 15), "{histogram:?}");
    assert_eq!(rates.last(), Some(&10), "the last bar says what the least of it pays: {histogram:?}");
    assert!(histogram[..histogram.len() - 1].iter().all(|bar| bar.1 >= 100_000), "{histogram:?}");
    let recent: Vec<_> = world.pool.recent(3).iter().map(|entry| entry.txid).collect();
    assert_eq!(recent, [11, 10, 9].map(|at: usize| txs[at].tx().txid()));
    assert_eq!(world.pool.recent(100).len(), 12);
}

#[test]
fn what_no_longer_has_its_coin_goes_in_a_reorganisation() {
    let mut world = World::new(Policy::default());
    let [a] = world.coins(1_000_000);
    // An output that is not standard does not come back, and its child cannot stay.
    let mut odd = Draft::new(&[a], &[500_000, 400_000]);
    odd.outputs[1].1 = vec![0x51];
    let odd = odd.tx();
    let (block, before) = world.mine(std::slice::from_ref(&odd));
    let child = Draft::new(&[out(&odd, 0)], &[480_000]).tx();
    let grandchild = Draft::new(&[out(&child, 0)], &[470_000]).tx();
    world.must(&child);
    world.must(&grandchild);
    world.disconnect(&[block], before);
    assert!(world.pool.is_empty());
}

#[test]
fn locks_and_maturity_are_judged_again_on_a_shorter_chain() {
    let mut world = World::new(Policy::default());
    let coinbase = world.coin_of(1_000_000, &ANCHOR, 902, true);
    let [a, b, c] = world.coins(1_000_000);
    let (block, before) = world.mine(&[]);
    let ripe = Draft::new(&[coinbase], &[990_000]).tx();
    let mut timed = Draft::new(&[a], &[990_000]);
    timed.lock_time = 1_001;
    let timed = timed.tx();
    let mut deep = Draft::new(&[b], &[990_000]);
    deep.inputs[0].1 = 1_002 - 500;
    let deep = deep.tx();
    let plain = Draft::new(&[c], &[990_000]).tx();
    let heir = Draft::new(&[out(&ripe, 0)], &[980_000]).tx();
    for tx in [&ripe, &timed, &deep, &plain, &heir] {
        world.must(tx);
    }
    world.disconnect(&[block], before);
    assert_eq!(world.pool.len(), 1);
    assert!(world.has(&plain));
}

#[test]
fn a_cluster_that_no_longer_fits_keeps_what_pays() {
    let mut world = World::new(Policy::default());
    let [a] = world.coins(10_000_000);
    let outputs = [100_000; 70];
    let parent = Draft::new(&[a], &outputs).tx();
    let (block, before) = world.mine(std::slice::from_ref(&parent));
    let children: Vec<Transaction> =
        (0..70).map(|vout| Draft::new(&[out(&parent, vout)], &[100_000 - 100 * (i64::from(vout) + 1)]).tx()).collect();
    children.iter().for_each(|child| {
        world.must(child);
    });
    world.disconnect(&[block], before);
    assert_eq!(world.pool.len(), 64);
    let kept: Vec<bool> = children.iter().map(|child| world.has(child)).collect();
    assert!(kept[..7].iter().all(|kept| !kept) && kept[7..].iter().all(|kept| *kept), "{kept:?}");
}

#[test]
fn readers_see_scripts_outputs_and_spenders() {
    let mut world = World::new(Policy::default());
    let key = [&[0x51, 0x20][..], &[9; 32]].concat();
    let [a] = world.coins(1_000_000);
    let mut parent = Draft::new(&[a], &[600_000, 300_000]);
    parent.outputs[1].1 = key.clone();
    let parent = parent.tx();
    let child = Draft::new(&[out(&parent, 0)], &[590_000]).tx();
    world.must(&parent);
    world.must(&child);
    let (anchors, hash) = (ScriptHash::of(&ANCHOR), ScriptHash::of(&key));
    let history = world.pool.history(&anchors);
    let shown: Vec<_> = history.iter().map(|one| (one.entry.fee_sat, one.on_unconfirmed)).collect();
    assert_eq!(shown, [(100_000, false), (10_000, true)]);
    assert_eq!(world.pool.balance_change_sat(&anchors), 590_000 - 1_000_000);
    assert_eq!(world.pool.balance_change_sat(&hash), 300_000);
    let unspent = world.pool.unspent(&anchors);
    assert_eq!(
        unspent.iter().map(|(outpoint, value, _)| (*outpoint, *value)).collect::<Vec<_>>(),
        [(out(&child, 0), 590_000)]
    );
    let (spender, input) = world.pool.spender(&out(&parent, 0)).unwrap();
    assert_eq!((spender.txid, input), (child.tx().txid(), 0));
    assert!(world.pool.spender(&out(&parent, 1)).is_none());
    assert!(world.pool.history(&ScriptHash::of(b"nobody")).is_empty());
    let histogram = world.pool.histogram();
    assert_eq!(histogram.iter().map(|bar| bar.1).sum::<u64>(), world.pool.size_vb());
}
