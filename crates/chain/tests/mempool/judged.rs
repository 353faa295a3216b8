//! Scripts among threads: judged once for each question, and never while the mempool is locked.
//!
//! In:     transactions whose one signature is well formed and wrong, an engine that watches.
//! Out:    how often the engine was asked, and whether others could use the mempool meanwhile.
//! Fails:  with the row.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use chain::mempool::{Accept, Accepted, Base, Event, Mempool, PackageResult, Rejected, SharedMempool, Verdict};
use chain::policy::{Policy, Reject};
use chain::{Tip, ViewError};
use primitives::hash::hash160;
use primitives::{OutPoint, Params, Transaction};
use sigs::{Check, Counters, Engine, EngineName};

use store::CoinBuf;

use crate::world::{Draft, World, block, out};

/// Longest wait for the lock; a busy machine may take long, a deadlock takes for ever.
const PATIENCE: Duration = Duration::from_secs(60);
/// A key that is on the curve: the generator.
const KEY: [u8; 33] = [
    0x02, 0x79, 0xbe, 0x66, 0x7e, 0xf9, 0xdc, 0xbb, 0xac, 0x55, 0xa0, 0x62, 0x95, 0xce, 0x87, 0x0b, 0x07, 0x02, 0x9b,
    0xfc, 0xdb, 0x2d, 0xce, 0x28, 0xd9, 0x59, 0xf2, 0x81, 0x5b, 0x16, 0xf8, 0x17, 0x98,
];
/// r = s = 1, and the hash type ALL.
const SIGNATURE: [u8; 9] = [0x30, 6, 2, 1, 1, 2, 1, 1, 1];

type Hook = Box<dyn FnOnce(&SharedMempool) + Send>;

/// Counts rows, and looks whether another thread can write to the mempool while it works.
struct Watching {
    engine: Arc<dyn Engine>,
    mempool: OnceLock<SharedMempool>,
    rows: AtomicUsize,
    calls: AtomicUsize,
    /// Done once, in the middle of a judgement.
    meanwhile: Mutex<Option<Hook>>,
}

impl Engine for Watching {
    fn name(&self) -> &'static str {
        "watching"
    }

    fn verify(&self, checks: &[Check], verdicts: &mut [bool]) {
        self.rows.fetch_add(checks.len(), Ordering::SeqCst);
        self.calls.fetch_add(1, Ordering::SeqCst);
        let (sender, receiver) = channel();
        let mempool = self.mempool.get().expect("set before any question").clone();
        let hook = self.meanwhile.lock().unwrap().take();
        std::thread::spawn(move || {
            drop(mempool.write());
            hook.into_iter().for_each(|hook| hook(&mempool));
            let _ = sender.send(());
        });
        receiver.recv_timeout(PATIENCE).expect("the mempool is not locked while scripts are judged");
        self.engine.verify(checks, verdicts);
    }

    fn counters(&self) -> Counters {
        self.engine.counters()
    }
}

struct Stage {
    world: World,
    shared: SharedMempool,
    engine: Arc<Watching>,
}

impl Stage {
    /// `coins` of a key hash, then as many P2A ones, of a million satoshi each.
    fn new(coins: usize) -> (Stage, Vec<OutPoint>) {
        let mut world = World::new(Policy::default());
        let keyhash = [&[0, 20][..], &hash160(&KEY)].concat();
        let mut all: Vec<OutPoint> = (0..coins).map(|_| world.coin_of(1_000_000, &keyhash, 500, false)).collect();
        all.extend((0..coins).map(|_| world.coin_of(1_000_000, &crate::world::ANCHOR, 500, false)));
        let engine = Arc::new(Watching {
            engine: sigs::engine(EngineName::Scalar).unwrap(),
            mempool: OnceLock::new(),
            rows: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            meanwhile: Mutex::new(None),
        });
        let mempool = Mempool::new(Policy::default(), Arc::new(world.ledger.clone()), engine.clone(), [7; 16]);
        let shared = SharedMempool::new(mempool);
        assert!(engine.mempool.set(shared.clone()).is_ok());
        (Stage { world, shared, engine }, all)
    }

    fn how(&self) -> Accept {
        Accept::at(self.world.now_s)
    }

    /// Signatures asked about since the last time.
    fn rows(&self) -> usize {
        self.engine.rows.swap(0, Ordering::SeqCst)
    }
}

/// Spends a coin of a key hash with a signature that is wrong, and perhaps another coin.
fn wrong(coin: OutPoint, others: &[OutPoint], output_sat: i64) -> Transaction {
    let mut draft = Draft::new(&[&[coin], others].concat(), &[output_sat]);
    draft.inputs[0].3 = vec![SIGNATURE.to_vec(), KEY.to_vec()];
    draft.tx()
}

fn word(verdict: &Result<Accepted, Rejected>) -> String {
    match verdict {
        Ok(_) => "taken".to_owned(),
        Err(rejected) => rejected.reject.reject_word().into_owned(),
    }
}

fn words(result: &PackageResult) -> Vec<String> {
    let word = |verdict: &Verdict| match verdict {
        Verdict::Invalid(rejected) => rejected.reject.reject_word().into_owned(),
        _ => "taken".to_owned(),
    };
    result.txs.iter().map(|(_, verdict)| word(verdict)).collect()
}

const NULLFAIL: &str =
    "mempool-script-verify-flag-failed (Signature must be zero for failed CHECK(MULTI)SIG operation)";

#[test]
fn a_script_that_fails_is_judged_once_a_question() {
    let (stage, coins) = Stage::new(3);
    let bad = wrong(coins[0], &[], 900_000);
    assert_eq!(word(&stage.shared.accept(&bad, &stage.how())), NULLFAIL);
    assert_eq!(stage.rows(), 1);
    let good = Draft::new(&[coins[3]], &[990_000]).tx();
    let batch = [bad.clone(), good, bad.clone(), wrong(coins[1], &[], 900_000)];
    let got: Vec<String> = stage.shared.accept_all(&batch, &stage.how()).iter().map(word).collect();
    assert_eq!(got, [NULLFAIL, "taken", NULLFAIL, NULLFAIL]);
    // The same transaction twice in a batch is one question, and the two go to the engine together.
    assert_eq!((stage.rows(), stage.engine.calls.load(Ordering::SeqCst)), (2, 2));
    let tested = stage.shared.accept(&bad, &Accept::test_at(stage.world.now_s));
    assert_eq!((word(&tested).as_str(), stage.rows()), (NULLFAIL, 1));
    // Inputs: three bad ones, the good one, and the first two bad ones again.
    assert_eq!(stage.shared.counters().inputs, 5);
}

#[test]
fn packages_are_judged_with_the_mempool_unlocked() {
    let (stage, coins) = Stage::new(3);
    let now_s = stage.world.now_s;
    let free = Draft::new(&[coins[3]], &[1_000_000]).tx();
    let bad = wrong(coins[0], &[out(&free, 0)], 1_900_000);
    let result = stage.shared.accept_package(&[free.clone(), bad], now_s, None);
    assert_eq!((words(&result), stage.rows()), (vec!["min relay fee not met".to_owned(), NULLFAIL.to_owned()], 1));
    assert!(stage.shared.read().is_empty());
    // A parent that stands alone is taken although the child fails after it was let go of.
    let paid = Draft::new(&[coins[4]], &[990_000]).tx();
    let bad = wrong(coins[1], &[out(&paid, 0)], 1_900_000);
    let result = stage.shared.accept_package(&[paid.clone(), bad], now_s, None);
    assert_eq!((words(&result), stage.rows()), (vec!["taken".to_owned(), NULLFAIL.to_owned()], 1));
    assert_eq!(stage.shared.read().len(), 1);
    let other = Draft::new(&[coins[5]], &[990_000]).tx();
    let bad = wrong(coins[2], &[], 900_000);
    let tested = stage.shared.test_package(&[other.clone(), bad.clone()], now_s);
    // The first one has passed everything by then, and is told so.
    assert_eq!((words(&tested), stage.rows()), (vec!["taken".to_owned(), NULLFAIL.to_owned()], 1));
    assert_eq!((words(&stage.shared.test_package(&[bad], now_s)), stage.rows()), (vec![NULLFAIL.to_owned()], 1));
    // A child whose parent nobody needs to judge: both are taken together.
    let child = Draft::new(&[out(&free, 0)], &[900_000]).tx();
    assert_eq!(words(&stage.shared.accept_package(&[free, child], now_s, None)), ["taken", "taken"]);
}

#[test]
fn what_changes_while_scripts_are_judged_is_seen() {
    let (stage, coins) = Stage::new(3);
    let (parent, how) = (Draft::new(&[coins[3]], &[990_000]).tx(), stage.how());
    let child = wrong(coins[0], &[out(&parent, 0)], 1_900_000);
    // While the second one is judged the first one's parent comes: the first one's scripts are judged then, once.
    let come = parent.clone();
    *stage.engine.meanwhile.lock().unwrap() = Some(Box::new(move |shared| {
        assert!(shared.accept(&come, &how).is_ok());
    }));
    let got = stage.shared.accept_all(&[child, wrong(coins[1], &[], 900_000)], &stage.how());
    assert_eq!(got.iter().map(word).collect::<Vec<_>>(), [NULLFAIL, NULLFAIL]);
    assert_eq!((stage.rows(), stage.engine.calls.load(Ordering::SeqCst)), (2, 2));
    // While one is judged another spends its coin, and pays too little to be replaced by it.
    let rival = Draft::new(&[coins[4]], &[900_000]).tx();
    *stage.engine.meanwhile.lock().unwrap() = Some(Box::new(move |shared| {
        assert!(shared.accept(&rival, &how).is_ok());
    }));
    let late = wrong(coins[2], &[coins[4]], 1_999_000);
    assert_eq!(word(&stage.shared.accept(&late, &stage.how())), "insufficient fee");
}

/// A chain that was reorganised: nothing of it can be read.
struct Gone(Arc<dyn Base>);

impl Base for Gone {
    fn tip(&self) -> Tip {
        self.0.tip()
    }

    fn params(&self) -> &Params {
        self.0.params()
    }

    fn coin(&self, _: &OutPoint) -> Result<Option<CoinBuf>, ViewError> {
        Err(ViewError::Stale)
    }

    fn median_time_past_s(&self, height: u32) -> Result<u32, ViewError> {
        self.0.median_time_past_s(height)
    }
}

#[test]
fn what_returns_is_judged_with_the_mempool_unlocked_and_stays_away_where_it_is_wrong() {
    let (stage, coins) = Stage::new(60);
    let good: Vec<Transaction> = coins[60..].iter().map(|coin| Draft::new(&[*coin], &[990_000]).tx()).collect();
    let bad: Vec<Transaction> = coins[..60].iter().map(|coin| wrong(*coin, &[], 900_000)).collect();
    let txs: Vec<Transaction> = good.iter().chain(&bad).cloned().collect();
    let child = Draft::new(&[out(&good[59], 0)], &[980_000]).tx();
    let base: Arc<dyn Base> = Arc::new(stage.world.ledger.clone());
    let (block, _) = block(1, &txs);
    stage.shared.blocks_disconnected(&[block], base, stage.world.now_s, &mut || None);
    assert_eq!((stage.shared.read().len(), stage.rows()), (60, 60));
    assert!(stage.engine.calls.load(Ordering::SeqCst) > 1, "not all at once");
    assert!(stage.shared.accept(&child, &stage.how()).is_ok());
}

#[test]
fn nothing_is_lost_where_the_chain_moves_on_while_the_mempool_follows() {
    let (stage, coins) = Stage::new(40);
    let (now_s, how) = (stage.world.now_s, stage.how());
    let txs: Vec<Transaction> = coins[40..].iter().map(|coin| Draft::new(&[*coin], &[990_000]).tx()).collect();
    let children: Vec<Transaction> = txs.iter().map(|tx| Draft::new(&[out(tx, 0)], &[980_000]).tx()).collect();
    let base: Arc<dyn Base> = Arc::new(stage.world.ledger.clone());
    let gone: Arc<dyn Base> = Arc::new(Gone(base.clone()));
    let (block, _) = block(1, &txs);
    let mut asked = 0;
    let mut renewed = |base: &Arc<dyn Base>| {
        asked += 1;
        Some(base.clone())
    };
    stage.shared.blocks_disconnected(std::slice::from_ref(&block), gone.clone(), now_s, &mut || renewed(&base));
    assert_eq!((stage.shared.read().len(), asked), (40, 1));
    assert!(children.iter().all(|child| stage.shared.accept(child, &how).is_ok()));
    let (events, mut asked) = (stage.shared.write().subscribe(), 0);
    let mut renewed = || {
        asked += 1;
        Some(base.clone())
    };
    stage.shared.chain_moved(gone.clone(), now_s, &mut renewed);
    assert_eq!((stage.shared.read().len(), asked), (80, 1));
    let removed = events.try_iter().filter(|event| matches!(event, Event::Removed { .. })).count();
    assert_eq!(removed, 0);
    // A transaction that comes meanwhile gets no verdict but this one.
    stage.shared.chain_moved(gone, now_s, &mut || None);
    assert!(stage.shared.read().is_empty(), "the node ends");
    assert_eq!(stage.shared.accept(&txs[0], &how).unwrap_err().reject, Reject::Stale);
}

/// Longest and summed time that somebody who reads all the time waits for the mempool while `change` runs.
fn waits(shared: &SharedMempool, change: impl FnOnce()) -> (Duration, Duration) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut longest, mut sum) = (Duration::ZERO, Duration::ZERO);
            while !done.load(Ordering::SeqCst) {
                let asked = Instant::now();
                let len = shared.read().len();
                let waited = asked.elapsed();
                (longest, sum) = (longest.max(waited), sum + waited);
                std::thread::sleep(Duration::from_micros(50 + len as u64 % 2));
            }
            (longest, sum)
        });
        change();
        done.store(true, Ordering::SeqCst);
        reader.join().unwrap()
    })
}

#[test]
#[ignore = "a measurement"]
fn speed_of_reading_beside_a_reorganisation() {
    for turn in 0..3 {
        let (stage, coins) = Stage::new(6_000);
        let txs: Vec<Transaction> = coins[6_000..].iter().map(|coin| Draft::new(&[*coin], &[990_000]).tx()).collect();
        let base: Arc<dyn Base> = Arc::new(stage.world.ledger.clone());
        let (now_s, (block, _)) = (stage.world.now_s, block(1, &txs));
        let blocks = [block];
        let at_once = waits(&stage.shared, || stage.shared.write().blocks_disconnected(&blocks, base.clone(), now_s));
        let (stage, _) = Stage::new(6_000);
        let in_slices =
            waits(&stage.shared, || stage.shared.blocks_disconnected(&blocks, base.clone(), now_s, &mut || None));
        assert_eq!(stage.shared.read().len(), 6_000);
        println!("turn {turn}: longest wait and sum of waits: at once {at_once:?}, in slices {in_slices:?}");
    }
}
