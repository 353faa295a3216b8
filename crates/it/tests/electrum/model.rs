//! Random transactions, replacements, blocks and reorganisations under subscribed clients of every version.
//!
//! In:     a seed.
//! Out:    after every event each client has been told exactly what a slow book computes anew: nothing missing, nothing twice,
//!         nothing that is not so; and what it asks for is what the book says.
//! Fails:  with the seed, the step and the first difference.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use primitives::{OutPoint, ScriptHash, Transaction, Txid};
use serde_json::{Value, json};
use stdx::hex;
use stdx::random::Random;

use crate::coins::{Coin, call, coin_of, digits, mine_as, mine_coins, mine_only, own_script, sign, stranger};
use crate::slow::Slow;
use crate::wire::{Client, Wire};
use crate::world::World;

/// Longest wait for a notice, on a machine that does other things besides.
const PATIENCE: Duration = Duration::from_secs(30);
/// Scripts that nobody spends from.
const STRANGERS: u8 = 5;

/// A subscription of a client: what its notices carry before the state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Tip,
    /// By hash or as itself.
    Script(ScriptHash),
    Address(String, ScriptHash),
    Tx(Txid),
    Outpoint(OutPoint),
}

impl Subject {
    fn state(&self, slow: &Slow) -> Value {
        match self {
            Subject::Tip => slow.tip(),
            Subject::Script(script) | Subject::Address(_, script) => slow.status(script),
            Subject::Tx(txid) => slow.tx_height(txid),
            Subject::Outpoint(outpoint) => slow.outpoint(outpoint),
        }
    }
}

/// A client and what it believes.
struct Watcher {
    client: Client,
    version: &'static str,
    believes: BTreeMap<Subject, Value>,
}

impl Watcher {
    fn new(wire: &Wire, version: &'static str, slow: &Slow) -> Watcher {
        let mut watcher = Watcher { client: wire.greet(version), version, believes: BTreeMap::new() };
        watcher.subscribe(Subject::Tip, "blockchain.headers.subscribe", json!([]), slow);
        for script in scripts() {
            let hash = ScriptHash::of(&script);
            match version {
                "1.7" => {
                    let spk = json!([hex::encode(&script)]);
                    watcher.subscribe(Subject::Script(hash), "blockchain.scriptpubkey.subscribe", spk, slow);
                }
                _ => {
                    let named = json!([hash.to_string()]);
                    watcher.subscribe(Subject::Script(hash), "blockchain.scripthash.subscribe", named, slow);
                }
            }
        }
        if version == "1.6" {
            let address = crate::coins::ADDRESS.to_owned();
            let subject = Subject::Address(address.clone(), ScriptHash::of(&own_script()));
            watcher.subscribe(subject, "blockchain.address.subscribe", json!([address]), slow);
        }
        watcher
    }

    #[track_caller]
    fn subscribe(&mut self, subject: Subject, method: &str, params: Value, slow: &Slow) {
        let got = self.client.call(method, params);
        assert_eq!(got, subject.state(slow), "{} {subject:?}", self.version);
        self.believes.insert(subject, got);
    }

    /// Watches a transaction, its first outputs, and what it spends.
    fn watch(&mut self, transaction: &Transaction, slow: &Slow) {
        let tx = transaction.tx();
        let txid = tx.txid();
        if self.version != "1.7" || self.believes.len() > 80 {
            return;
        }
        self.subscribe(Subject::Tx(txid), "blockchain.transaction.subscribe", json!([txid.to_string()]), slow);
        let first = OutPoint { txid, vout: 0 };
        for outpoint in tx.inputs().map(|input| input.outpoint()).chain([first]) {
            let params = json!([outpoint.txid.to_string(), outpoint.vout, hex::encode(&own_script())]);
            self.subscribe(Subject::Outpoint(outpoint), "blockchain.outpoint.subscribe", params, slow);
        }
    }

    fn subject_of(&self, method: &str, params: &Value) -> (Subject, Value) {
        let text = |at: usize| params[at].as_str().unwrap();
        match method {
            "blockchain.headers.subscribe" => (Subject::Tip, params[0].clone()),
            "blockchain.address.subscribe" => {
                (Subject::Address(text(0).to_owned(), ScriptHash::of(&own_script())), params[1].clone())
            }
            "blockchain.transaction.subscribe" => (Subject::Tx(text(0).parse().unwrap()), params[1].clone()),
            "blockchain.outpoint.subscribe" => {
                let outpoint = OutPoint { txid: text(0).parse().unwrap(), vout: params[1].as_u64().unwrap() as u32 };
                (Subject::Outpoint(outpoint), params[2].clone())
            }
            _ => {
                let by = if self.version == "1.7" { "scriptpubkey" } else { "scripthash" };
                assert_eq!(method, format!("blockchain.{by}.subscribe"), "{params}");
                (Subject::Script(text(0).parse().unwrap()), params[1].clone())
            }
        }
    }

    /// Hears what there is until it believes what is so; then nothing was missing, and nothing was told that was known.
    fn catch_up(&mut self, slow: &Slow, step: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut told: BTreeSet<Subject> = BTreeSet::new();
        loop {
            self.client.call("server.ping", json!([]));
            for (index, (method, params)) in self.client.told().into_iter().enumerate() {
                let (subject, state) = self.subject_of(&method, &params);
                let tip_late = subject == Subject::Tip && index > 0;
                assert!(!tip_late || told.is_empty(), "{step}: the tip comes first, {told:?}");
                assert!(told.insert(subject.clone()), "{step} {}: told twice of one event: {subject:?}", self.version);
                let before = self.believes.insert(subject.clone(), state.clone());
                let before = before.unwrap_or_else(|| panic!("{step}: never asked for {subject:?}"));
                assert_ne!(before, state, "{step} {}: told for nothing: {subject:?}", self.version);
            }
            let wrong = self.believes.iter().find(|(subject, state)| subject.state(slow) != **state);
            let Some((subject, state)) = wrong else { return };
            let want = subject.state(slow);
            assert!(Instant::now() < deadline, "{step} {}: {subject:?} is {want}, not {state}", self.version);
        }
    }

    /// Asks about one script everything there is to ask.
    fn ask(&mut self, script: &[u8], slow: &Slow, step: &str) {
        let hash = ScriptHash::of(script);
        let (by, named, member) = match self.version {
            "1.7" => ("scriptpubkey", hex::encode(script), true),
            _ => ("scripthash", hash.to_string(), false),
        };
        let mut call = |method: &str| self.client.call(&format!("blockchain.{by}.{method}"), json!([named]));
        let list = |value: Value, name: &str| if member { value[name].clone() } else { value };
        assert_eq!(list(call("get_history"), "history"), slow.history(&hash), "{step}");
        assert_eq!(list(call("get_mempool"), "history"), slow.mempool(&hash), "{step}");
        assert_eq!(call("get_balance"), slow.balance(&hash), "{step}");
        let unspent = list(call("listunspent"), "utxos");
        let of = |row: &Value| {
            let number = |name: &str| row[name].as_u64().unwrap();
            (row["tx_hash"].as_str().unwrap().to_owned(), number("tx_pos"), number("value"), number("height"))
        };
        let unspent: Vec<_> = unspent.as_array().unwrap().iter().map(of).collect();
        assert!(unspent.is_sorted_by_key(|row| if row.3 == 0 { u64::MAX } else { row.3 }), "{step}: {unspent:?}");
        assert_eq!(unspent.len(), slow.unspent(&hash).len(), "{step}");
        assert_eq!(unspent.into_iter().collect::<BTreeSet<_>>(), slow.unspent(&hash), "{step}");
    }
}

fn scripts() -> Vec<Vec<u8>> {
    (0..STRANGERS).map(stranger).chain([own_script()]).collect()
}

/// The world and what happens to it.
struct Story {
    world: World,
    slow: Slow,
    random: Random,
    /// Blocks that were taken off the chain by hand, the last of them last.
    taken_off: Vec<String>,
    /// Who mines the next block: one that was taken off the chain must not come again.
    miner: u32,
}

impl Story {
    fn below(&mut self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }

    /// Coins of the key that nothing spends, unconfirmed ones too.
    fn coins(&self) -> Vec<Coin> {
        let tip = self.slow.book.height();
        let mature = |coin: &sim::book::BookCoin| !coin.coinbase || tip + 1 - coin.height >= 100;
        let own = ScriptHash::of(&own_script());
        let unspent = self.slow.unspent(&own).into_iter().map(|(txid, vout, value_sat, _)| Coin {
            outpoint: OutPoint { txid: txid.parse().unwrap(), vout: vout as u32 },
            value_sat,
        });
        unspent.filter(|coin| self.slow.book.coin(&coin.outpoint).is_none_or(mature)).collect()
    }

    /// Outputs worth `value_sat` less `fee_sat`: one or two to the key, some to strangers.
    fn outputs(&mut self, value_sat: u64, fee_sat: u64) -> Vec<(u64, Vec<u8>)> {
        let mut outputs = Vec::new();
        let mut left_sat = value_sat - fee_sat;
        for _ in 0..self.below(3) {
            let to = self.below(usize::from(STRANGERS)) as u8;
            outputs.push((10_000, stranger(to)));
            left_sat -= 10_000;
        }
        if self.below(2) == 0 {
            outputs.push((left_sat / 3, own_script()));
            left_sat -= left_sat / 3;
        }
        outputs.push((left_sat, own_script()));
        outputs
    }

    fn spend(&mut self) -> Option<Transaction> {
        let mut coins = self.coins();
        coins.retain(|coin| coin.value_sat > 200_000);
        if coins.is_empty() {
            return None;
        }
        let count = 1 + self.below(2.min(coins.len()));
        self.random.shuffle(&mut coins);
        coins.truncate(count);
        let value_sat = coins.iter().map(|coin| coin.value_sat).sum();
        let fee_sat = 500 + self.below(5_000) as u64;
        let outputs = self.outputs(value_sat, fee_sat);
        Some(sign(&self.world, &coins, &outputs))
    }

    /// Another transaction in the place of one of the mempool.
    fn rival(&mut self) -> Option<Transaction> {
        let own = ScriptHash::of(&own_script());
        let victims: Vec<Vec<OutPoint>> =
            self.slow.waiting.values().map(|tx| tx.tx().inputs().map(|input| input.outpoint()).collect()).collect();
        let victim = victims.get(self.random.below(victims.len().max(1) as u64) as usize)?;
        // Only confirmed coins: the rules of replacement allow no new unconfirmed ones.
        let coin = self.slow.book.coin(&victim[0]).filter(|coin| ScriptHash::of(&coin.script) == own)?;
        let coin = Coin { outpoint: victim[0], value_sat: coin.value_sat };
        let outputs = self.outputs(coin.value_sat, 90_000);
        Some(sign(&self.world, &[coin], &outputs))
    }

    fn happen(&mut self, by_wire: &mut Client) -> (String, Option<Transaction>) {
        let send =
            |story: &Story, transaction: &Transaction, client: &mut Client| match transaction.tx().txid().0[0] % 2 {
                0 => drop(story.world.call("sendrawtransaction", &json!([digits(transaction)]).to_string())),
                _ => drop(client.try_call("blockchain.transaction.broadcast", json!([digits(transaction)]))),
            };
        self.miner += 1;
        let miner = self.miner;
        match self.below(12) {
            0..=4 => {
                let Some(transaction) = self.spend() else { return ("nothing to spend".into(), None) };
                send(self, &transaction, by_wire);
                (format!("sent {}", transaction.tx().txid()), Some(transaction))
            }
            5 => {
                let free = self.coins().into_iter().find(|coin| self.slow.book.coin(&coin.outpoint).is_some());
                let Some(coin) = free else { return ("nothing to pack".into(), None) };
                let parent =
                    sign(&self.world, &[coin], &[(10_000, stranger(0)), (coin.value_sat - 10_000, own_script())]);
                let child_sat = coin.value_sat - 10_000 - 30_000;
                let child = sign(
                    &self.world,
                    &[coin_of(&parent, 1)],
                    &[(10_000, stranger(1)), (child_sat - 10_000, own_script())],
                );
                let package = json!([[digits(&parent), digits(&child)]]);
                let taken = by_wire.try_call("blockchain.transaction.broadcast_package", package);
                (format!("packed {taken:?}"), Some(child))
            }
            6 => {
                let Some(transaction) = self.rival() else { return ("nothing to replace".into(), None) };
                send(self, &transaction, by_wire);
                (format!("replaced by {}", transaction.tx().txid()), Some(transaction))
            }
            7 => {
                mine_as(&self.world, miner);
                ("mined all".into(), None)
            }
            8 => {
                // One that needs no other unconfirmed one: its children stay, and stand at another height then.
                let free = self.slow.waiting.iter().find(|(_, transaction)| {
                    !transaction.tx().inputs().any(|input| self.slow.waiting.contains_key(&input.outpoint().txid))
                });
                let chosen: Vec<String> = free.map(|(txid, _)| txid.to_string()).into_iter().collect();
                mine_only(&self.world, miner, &chosen);
                (format!("mined {chosen:?}"), None)
            }
            9 => {
                let Some(transaction) = self.rival() else { return ("no rival".into(), None) };
                mine_only(&self.world, miner, &[digits(&transaction)]);
                (format!("mined the rival {}", transaction.tx().txid()), Some(transaction))
            }
            10 => {
                let depth = 1 + self.below(2) as u32;
                let hash = call(&self.world, "getblockhash", json!([self.slow.book.height() + 1 - depth]));
                call(&self.world, "invalidateblock", json!([hash]));
                self.taken_off.push(hash.as_str().unwrap().to_owned());
                (format!("took off {depth}"), None)
            }
            _ => {
                let Some(hash) = self.taken_off.pop() else { return ("nothing to take back".into(), None) };
                call(&self.world, "reconsiderblock", json!([hash]));
                ("took back".into(), None)
            }
        }
    }
}

fn run(seed: u64, steps: usize) {
    let world = World::new(&format!("electrum-model-{seed}"));
    mine_coins(&world, 6);
    let wire = Wire::new(&world);
    let slow = Slow::new(&world);
    let mut watchers = ["1.4", "1.6", "1.7"].map(|version| Watcher::new(&wire, version, &slow));
    let mut sender = wire.greet("1.6");
    let mut story = Story { world, slow, random: Random::new(seed), taken_off: Vec::new(), miner: 0 };
    let scripts = scripts();
    for step in 0..steps {
        let (what, transaction) = story.happen(&mut sender);
        let step = format!("seed {seed} step {step}: {what}");
        story.slow.follow(&story.world);
        for watcher in &mut watchers {
            watcher.catch_up(&story.slow, &step);
            watcher.ask(&scripts[story.random.below(scripts.len() as u64) as usize], &story.slow, &step);
            if let Some(transaction) = &transaction {
                watcher.watch(transaction, &story.slow);
            }
        }
    }
    let told = wire.handle.metrics().notifications.get();
    assert!(told > steps as u64, "enough happened for the comparison to mean something: {told} notices");
    assert_eq!(wire.handle.metrics().faults.get(), 0);
    // Once more from the beginning: a new client is answered what the others were told.
    let fresh = Watcher::new(&wire, "1.6", &story.slow);
    assert!(fresh.believes.len() > 6);
}

#[test]
fn what_is_told_is_what_a_slow_book_computes_anew() {
    for seed in [1, 2, 3] {
        run(seed, 60);
    }
}
