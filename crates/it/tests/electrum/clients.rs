//! Clients of other houses, each through a whole life of a wallet: nothing here knows how we write an answer.
//!
//! In:     a world with coins; `@mempool/electrum-client` in a `node_modules`, and a Python with `aiorpcx`, in the folders that
//!         `FOREIGN_NODES` lists or on PATH.
//! Out:    history found, received unconfirmed, confirmed and proved, reorganised away, spent, replaced, packed.
//! Fails:  where a client does not understand us. A client that is not installed is "skipped".

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use primitives::ScriptHash;
use serde_json::{Value, json};
use stdx::hex;

use crate::coins::{COIN_SAT, Coin, call, coin_of, digits, mine, mine_coins, mine_only, own_script, sign, stranger};
use crate::wire::Wire;
use crate::world::World;

/// Longest wait for anything, on a machine that does other things besides.
const PATIENCE: Duration = Duration::from_secs(60);

/// The folders of `FOREIGN_NODES`.
pub fn folders() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("FOREIGN_NODES").unwrap_or_default()).collect()
}

/// A driver of a client, in a process of its own.
struct Driven {
    child: Child,
    asks: ChildStdin,
    says: Receiver<Value>,
    told: VecDeque<(String, Value)>,
    next_id: u64,
    version: String,
}

impl Drop for Driven {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Driven {
    /// Starts a driver that connects and greets; the version agreed on must be this one.
    fn start(mut command: Command, version: &str) -> Driven {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, says) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Ok(()) = sender.send(serde_json::from_str(&line).unwrap()) else { return };
            }
        });
        let asks = child.stdin.take().unwrap();
        let mut driven = Driven { child, asks, says, told: VecDeque::new(), next_id: 0, version: version.to_owned() };
        let greeting = driven.answer(0).unwrap();
        assert_eq!(greeting[1], version, "{greeting}");
        driven
    }

    fn hear(&mut self) -> Value {
        self.says.recv_timeout(PATIENCE).expect("the client says something in time")
    }

    fn answer(&mut self, id: u64) -> Result<Value, String> {
        loop {
            let mut said = self.hear();
            if let Some(told) = said["told"].as_str() {
                self.told.push_back((told.to_owned(), said["params"].clone()));
                continue;
            }
            assert_eq!(said["id"], id, "{said}");
            return match said.get("error") {
                Some(error) => Err(error.to_string()),
                None => Ok(said["result"].take()),
            };
        }
    }

    fn try_ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.next_id += 1;
        let line = json!({"id": self.next_id, "method": method, "params": params});
        writeln!(self.asks, "{line}").unwrap();
        self.answer(self.next_id)
    }

    #[track_caller]
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.try_ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The next thing the server told by itself under this name.
    fn next_told(&mut self, name: &str) -> Value {
        loop {
            if let Some(at) = self.told.iter().position(|(told, _)| told == name) {
                return self.told.remove(at).unwrap().1;
            }
            let mut said = self.hear();
            let told = said["told"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned();
            self.told.push_back((told, said["params"].take()));
        }
    }

    /// How the version names a method about scripts.
    fn about_scripts(&self, name: &str) -> String {
        format!("blockchain.{}.{name}", if self.version == "1.7" { "scriptpubkey" } else { "scripthash" })
    }

    /// How the version names a script.
    fn named(&self, script: &[u8]) -> String {
        if self.version == "1.7" { hex::encode(script) } else { ScriptHash::of(script).to_string() }
    }

    /// What is answered about a script; lists without the object that 1.7 has around them.
    fn about(&mut self, name: &str, script: &[u8]) -> Value {
        let (method, named) = (self.about_scripts(name), self.named(script));
        let mut answer = self.ask(&method, json!([named]));
        for around in ["history", "utxos"] {
            if let Some(list) = answer.get_mut(around) {
                return list.take();
            }
        }
        answer
    }

    /// Height and txid of each entry of the history.
    fn history(&mut self) -> Vec<(i64, String)> {
        let history = self.about("get_history", &own_script());
        let row = |row: &Value| (row["height"].as_i64().unwrap(), row["tx_hash"].as_str().unwrap().to_owned());
        history.as_array().unwrap().iter().map(row).collect()
    }

    fn heights(&mut self) -> Vec<i64> {
        self.history().iter().map(|(height, _)| *height).collect()
    }

    /// Waits for the next status and the history that goes with it.
    fn next_heights(&mut self) -> Vec<i64> {
        let told = self.next_told(&self.about_scripts("subscribe"));
        assert_eq!(told[0], ScriptHash::of(&own_script()).to_string());
        self.heights()
    }
}

/// The whole life.
fn live(world: &World, coins: &[Coin], client: &mut Driven) {
    let tip = |world: &World| call(world, "getblockcount", json!([])).as_i64().unwrap();
    // The history that was there before.
    assert_eq!(client.ask("blockchain.headers.subscribe", json!([]))["height"], tip(world));
    assert_eq!(client.ask("server.features", json!([]))["pruning"], Value::Null);
    let found = client.heights();
    assert!(found.len() == 2 && found.iter().all(|height| *height > 0), "{found:?}");
    let (method, named) = (client.about_scripts("get_balance"), [own_script(), stranger(9)].map(|s| client.named(&s)));
    let balances = client.ask("each", json!([method, named]));
    assert_eq!((&balances[0]["confirmed"], &balances[1]["confirmed"]), (&json!(2 * COIN_SAT), &json!(0)));
    assert!(client.about("subscribe", &own_script()).is_string());
    assert_eq!(client.about("subscribe", &stranger(9)), Value::Null);

    // Received unconfirmed, then confirmed and proved.
    let change = coins[0].value_sat - 1_001_000;
    let received = sign(world, &coins[..1], &[(1_000_000, own_script()), (change, own_script())]);
    let txid = received.tx().txid().to_string();
    call(world, "sendrawtransaction", json!([digits(&received)]));
    assert_eq!(client.next_heights(), [&found[..], &[0]].concat());
    assert_eq!(client.about("get_balance", &own_script())["unconfirmed"], -1_000);
    mine(world);
    let at = tip(world);
    assert_eq!(client.next_told("blockchain.headers.subscribe")[0]["height"], at);
    assert_eq!(client.next_heights(), [&found[..], &[at]].concat());
    let proof = client.ask("blockchain.transaction.get_merkle", json!([txid, at]));
    assert_eq!((&proof["block_height"], &proof["pos"]), (&json!(at), &json!(1)));
    assert_eq!(client.ask("blockchain.transaction.get", json!([txid])), digits(&received));

    // Reorganised away by a longer branch without it.
    call(world, "invalidateblock", json!([call(world, "getbestblockhash", json!([]))]));
    mine_only(world, 1, &[]);
    mine_only(world, 2, &[]);
    assert_eq!(client.next_heights(), [&found[..], &[0]].concat());
    while client.next_told("blockchain.headers.subscribe")[0]["height"] != at + 1 {}

    // Spent, then replaced.
    let coin = coin_of(&received, 0);
    let pays = |fee_sat: u64| sign(world, &[coin], &[(500_000, stranger(1)), (500_000 - fee_sat, own_script())]);
    let [first, second] = [pays(1_000), pays(20_000)];
    assert_eq!(client.ask("blockchain.transaction.broadcast", json!([digits(&first)])), first.tx().txid().to_string());
    assert_eq!(client.next_heights(), [&found[..], &[0, -1]].concat());
    let unspent = client.about("listunspent", &own_script());
    let is_spent = |row: &Value| row["tx_hash"] == txid && row["tx_pos"] == 0;
    assert!(unspent.as_array().unwrap().iter().all(|row| !is_spent(row)), "{unspent}");
    client.ask("blockchain.transaction.broadcast", json!([digits(&second)]));
    assert_eq!(client.next_heights(), [&found[..], &[0, -1]].concat());
    assert!(client.try_ask("blockchain.transaction.get", json!([first.tx().txid().to_string()])).is_err());
    assert_eq!(client.history()[3].1, second.tx().txid().to_string());

    // A parent that pays nothing comes with its child; a protocol without packages hears of one that others sent.
    let parent = sign(world, &coins[1..2], &[(COIN_SAT, own_script())]);
    let child = sign(world, &[coin_of(&parent, 0)], &[(COIN_SAT - 40_000, own_script())]);
    let package = json!([[digits(&parent), digits(&child)]]);
    match client.version.as_str() {
        "1.4" => assert_eq!(call(world, "submitpackage", package)["package_msg"], "success"),
        _ => assert_eq!(client.ask("blockchain.transaction.broadcast_package", package), json!({"success": true})),
    }
    let mut seen = client.next_heights();
    seen[2..].sort_unstable();
    assert_eq!(seen, [&found[..], &[-1, -1, 0, 0]].concat());
    mine(world);
    assert_eq!(client.next_heights(), [&found[..], &[at + 2; 4]].concat());
    let spent = 1_000 + 520_000 + 40_000;
    let balance = client.about("get_balance", &own_script());
    assert_eq!(balance, json!({"confirmed": 2 * COIN_SAT - spent, "unconfirmed": 0}));
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/electrum").join(name)
}

/// A world whose key has two coins, and a server over it.
fn served(name: &str) -> (World, Vec<Coin>, Wire, u16) {
    let world = World::new(name);
    let coins = mine_coins(&world, 2);
    let wire = Wire::new(&world);
    let port = wire.handle.local_address().port();
    (world, coins, wire, port)
}

#[test]
fn the_client_of_mempool_lives_through_a_payment() {
    let mut found = folders().into_iter().map(|folder| folder.join("node_modules"));
    let Some(modules) = found.find(|modules| modules.join("@mempool/electrum-client/package.json").is_file()) else {
        return println!("skipped: no @mempool/electrum-client in FOREIGN_NODES");
    };
    if Command::new("node").arg("--version").stdout(Stdio::null()).status().is_err() {
        return println!("skipped: no node on PATH");
    }
    let (world, coins, _wire, port) = served("electrum-mempool-client");
    let mut command = Command::new("node");
    command.arg(script("client.js")).arg(port.to_string()).env("NODE_PATH", modules);
    live(&world, &coins, &mut Driven::start(command, "1.4"));
}

#[test]
fn aiorpcx_lives_through_a_payment_in_each_version() {
    let inside = |folder: PathBuf| [folder.join("bin/python3"), folder.join("py/bin/python3")];
    let mut found = folders().into_iter().flat_map(inside).chain([PathBuf::from("python3")]);
    let has_it = |python: &PathBuf| {
        let tried = Command::new(python).args(["-c", "import aiorpcx"]).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    let Some(python) = found.find(has_it) else {
        return println!("skipped: no Python with aiorpcx in FOREIGN_NODES or on PATH");
    };
    for version in ["1.4", "1.6", "1.7"] {
        let (world, coins, _wire, port) = served("electrum-aiorpcx");
        let mut command = Command::new(&python);
        command.arg(script("client.py")).args([&port.to_string(), version]);
        live(&world, &coins, &mut Driven::start(command, version));
    }
}
