//! Recorded request and answer of every method in every version, with a mempool.
//!
//! In:     requests made here, their places filled from a world that is the same in every run.
//! Out:    one test; with `ASSAY_BLESS=1` in the environment `data/VERSION.txt` is recorded anew, for a person to
//!         read.
//! Fails:  with the first answer that differs.

use std::path::Path;
use std::sync::Arc;

use primitives::{ScriptHash, Transaction};
use serde_json::{Value, json};
use serve::electrum::Env;
use serve::electrum::machine::{Machine, Step};
use serve::electrum::subscriptions::Mailbox;
use serve::wallet::methods::METHODS;
use stdx::hex;

use crate::coins::{ADDRESS, Coin, call, coin_of, digits, mine, mine_coins, own_script, sign, stranger};
use crate::wire::env;
use crate::world::World;

/// A world with a parent and a child in its mempool, one of their family confirmed.
struct Family {
    env: Arc<Env>,
    world: World,
    confirmed: Transaction,
    parent: Transaction,
    child: Transaction,
    unsent: Transaction,
}

fn pays(world: &World, coin: Coin, fee_sat: u64) -> Transaction {
    sign(world, &[coin], &[(70_000, stranger(1)), (coin.value_sat - 70_000 - fee_sat, own_script())])
}

fn family() -> Family {
    let world = World::new("electrum-golden");
    let coins = mine_coins(&world, 3);
    let confirmed = pays(&world, coins[0], 2_000);
    call(&world, "sendrawtransaction", json!([digits(&confirmed)]));
    mine(&world);
    let parent = pays(&world, coins[1], 3_000);
    let child = pays(&world, coin_of(&parent, 1), 4_000);
    for transaction in [&parent, &child] {
        call(&world, "sendrawtransaction", json!([digits(transaction)]));
    }
    let unsent = pays(&world, coins[2], 0);
    Family { env: env(&world), world, confirmed, parent, child, unsent }
}

/// What each method is asked.
fn params_of(method: &str, family: &Family) -> Vec<Value> {
    let txid = |transaction: &Transaction| transaction.tx().txid().to_string();
    let (confirmed, parent, child) = (txid(&family.confirmed), txid(&family.parent), txid(&family.child));
    let unknown = "ab".repeat(32);
    let (area, name) = method.rsplit_once('.').unwrap();
    let named: Option<[String; 2]> = match area {
        "blockchain.scripthash" => Some([stranger(1), stranger(9)].map(|script| ScriptHash::of(&script).to_string())),
        "blockchain.scriptpubkey" => Some([hex::encode(&stranger(1)), hex::encode(&stranger(9))]),
        "blockchain.address" => Some([ADDRESS.to_owned(), "bcrt1qnowhere".to_owned()]),
        _ => None,
    };
    if let Some([known, other]) = named {
        let mut all = vec![json!([known]), json!([other]), json!([7])];
        if name == "get_history" {
            let tip = call(&family.world, "getblockcount", json!([])).as_u64().unwrap();
            all.extend([json!([known, 0, tip]), json!([known, tip + 1]), json!([known, 0, -1]), json!([known, 0, -2])]);
        }
        return all;
    }
    let hint = hex::encode(&stranger(1));
    match method {
        "server.version" => vec![json!(["again", "1.4"])],
        "blockchain.block.stats" => {
            let tip = call(&family.world, "getblockcount", json!([])).as_u64().unwrap();
            vec![json!([tip]), json!([0]), json!([100_000]), json!(["x"])]
        }
        "blockchain.block.header" => vec![json!([2]), json!([2, 3]), json!([100_000])],
        "blockchain.block.headers" => vec![json!([1, 2]), json!([1, 1, 3]), json!([100_000, 1])],
        "blockchain.header.get" => {
            let hash = family.world.blocks[3].header().hash().to_string();
            vec![json!([3]), json!([hash]), json!([unknown]), json!([100_000])]
        }
        "blockchain.estimatefee" => vec![json!([2]), json!([2, "CONSERVATIVE"]), json!([2, "x"]), json!([])],
        "blockchain.transaction.get" => {
            vec![json!([confirmed]), json!([parent]), json!([parent, true]), json!([unknown])]
        }
        "blockchain.transaction.get_merkle" => vec![json!([confirmed]), json!([confirmed, 1]), json!([parent, 1])],
        "blockchain.transaction.id_from_pos" => vec![json!([3, 0]), json!([3, 0, true]), json!([3, 9_999])],
        "blockchain.transaction.broadcast" => vec![json!([digits(&family.parent)]), json!([digits(&family.unsent)])],
        "blockchain.transaction.broadcast_package" => {
            vec![json!([[digits(&family.unsent)]]), json!([[digits(&family.unsent)], true]), json!([["00"]])]
        }
        "blockchain.transaction.testmempoolaccept" => vec![json!([[digits(&family.unsent)]]), json!([["00"]])],
        "blockchain.transaction.get_confirmed_blockhash" => {
            vec![json!([confirmed]), json!([confirmed, true]), json!([parent])]
        }
        "blockchain.transaction.get_height"
        | "blockchain.transaction.subscribe"
        | "blockchain.transaction.unsubscribe" => vec![json!([confirmed]), json!([parent]), json!([unknown])],
        "blockchain.outpoint.subscribe" | "blockchain.outpoint.get_status" => vec![
            json!([confirmed, 0, hint]),
            json!([parent, 1, hint]),
            json!([child, 0, hint]),
            json!([child, 9, hint]),
            json!([unknown, 0]),
            json!([unknown, 4_294_967_296_u64, hint]),
        ],
        "blockchain.outpoint.unsubscribe" => vec![json!([confirmed, 0]), json!([confirmed, 5])],
        "blockchain.utxo.get_info" => {
            vec![json!([confirmed, 0]), json!([parent, 0]), json!([parent, 1]), json!([unknown, 0])]
        }
        "server.add_peer" => {
            let features = json!({"genesis_hash": family.world.blocks[0].header().hash().to_string(), "hosts": {}});
            vec![json!([features]), json!([7]), json!([])]
        }
        "server.ping" => vec![json!([]), json!([4, "abc"]), json!([65_537])],
        _ => vec![json!([])],
    }
}

fn answer(machine: &mut Machine, request: &Value) -> String {
    machine.take_lines(vec![request.to_string().into_bytes()]);
    let mut out = Vec::new();
    while machine.advance(&mut out) == Step::More {}
    String::from_utf8(out).unwrap()
}

#[track_caller]
fn check(version: &str, family: &Family) {
    let mut machine = Machine::new(family.env.clone(), Arc::new(Mailbox::default()));
    let mut text =
        format!("# Protocol {version}, over a mempool with a parent and its child. Recorded by ASSAY_BLESS=1.\n");
    let mut ask = |method: &str, params: Value| {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        text += &format!("\n> {method} {params}\n< {}", answer(&mut machine, &request).replace('\n', "\n< "));
        text.truncate(text.trim_end_matches("\n< ").len());
        text.push('\n');
    };
    ask("server.version", json!(["golden", version]));
    let mut names: Vec<&str> = METHODS.iter().map(|method| method.name).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        // Also of versions that do not have it: once, to see it refused.
        for params in params_of(name, family) {
            ask(name, params);
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/electrum/data/{version}.txt"));
    if std::env::var_os("ASSAY_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    for (row, (got, want)) in text.lines().zip(recorded.lines()).enumerate() {
        assert_eq!(got, want, "tests/electrum/data/{version}.txt:{}", row + 1);
    }
    assert_eq!(text.lines().count(), recorded.lines().count());
}

#[test]
fn answers_of_every_version_are_as_recorded() {
    let family = family();
    for version in ["1.4", "1.6", "1.7"] {
        check(version, &family);
    }
}
