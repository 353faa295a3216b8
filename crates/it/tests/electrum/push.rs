//! A wallet's life in the mempool: sent, refused, replaced, packed, confirmed, reorganised away.
//!
//! In:     a world with coins, clients of each version.
//! Out:    one test a promise.
//! Fails:  where a notice is missing, or an answer is not what the node thinks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use primitives::{ScriptHash, Transaction};
use serde_json::{Value, json};
use serve::source::{Source, ViewError};
use serve::wallet::moment::still;
use stdx::hex;

use crate::coins::{
    COIN_SAT, Coin, call, coin_of, digits, mine, mine_as, mine_coins, mine_only, own_script, sign, stranger,
};
use crate::wire::{Wire, source};
use crate::world::World;

fn txid(transaction: &Transaction) -> String {
    transaction.tx().txid().to_string()
}

/// Spends a coin to a stranger and back, leaving a fee.
fn pays(world: &World, coin: Coin, fee_sat: u64) -> Transaction {
    sign(world, &[coin], &[(50_000, stranger(1)), (coin.value_sat - 50_000 - fee_sat, own_script())])
}

#[test]
fn a_payment_is_seen_replaced_confirmed_and_undone() {
    let world = World::new("electrum-push");
    let coins = mine_coins(&world, 1);
    let wire = Wire::new(&world);
    let (mut payer, mut payee) = (wire.greet("1.6"), wire.greet("1.4"));
    let hash = ScriptHash::of(&stranger(1)).to_string();
    assert_eq!(payee.call("blockchain.scripthash.subscribe", json!([hash])), Value::Null);
    payee.call("blockchain.headers.subscribe", json!([]));
    let (first, second) = (pays(&world, coins[0], 1_000), pays(&world, coins[0], 5_000));

    let sent = Instant::now();
    assert_eq!(payer.call("blockchain.transaction.broadcast", json!([digits(&first)])), txid(&first));
    let (method, params) = payee.next_notice();
    println!("from the broadcast to the notice: {:?}", sent.elapsed());
    assert_eq!((&*method, &params[0]), ("blockchain.scripthash.subscribe", &json!(hash)));
    let history = payee.call("blockchain.scripthash.get_history", json!([hash]));
    assert_eq!(history, json!([{"fee": 1_000, "height": 0, "tx_hash": txid(&first)}]));
    assert_eq!(payee.call("blockchain.transaction.get", json!([txid(&first)])), digits(&first));
    let verbose = payee.call("blockchain.transaction.get", json!([txid(&first), true]));
    assert_eq!((&verbose["hex"], verbose.get("confirmations")), (&json!(digits(&first)), None));

    assert_eq!(payer.call("blockchain.transaction.broadcast", json!([digits(&second)])), txid(&second));
    let (_, replaced) = payee.next_notice();
    assert_ne!(replaced, params, "another status");
    assert_eq!(payee.refusal("blockchain.transaction.get", json!([txid(&first)])).0, 2);

    mine(&world);
    assert_eq!(payee.next_notice().0, "blockchain.headers.subscribe", "the tip comes first");
    let (_, confirmed) = payee.next_notice();
    assert!(confirmed[1].is_string() && confirmed != replaced);
    let balance = payee.call("blockchain.scripthash.get_balance", json!([hash]));
    assert_eq!(balance, json!({"confirmed": 50_000, "unconfirmed": 0}));

    let tip = call(&world, "getbestblockhash", json!([]));
    call(&world, "invalidateblock", json!([tip]));
    assert_eq!(payee.next_notice().0, "blockchain.headers.subscribe");
    assert_eq!(payee.next_notice().1, replaced, "unconfirmed as before");
    assert!(payee.told().is_empty());
}

#[test]
fn what_the_node_would_not_take_is_refused_with_its_words() {
    let world = World::new("electrum-refused");
    let coins = mine_coins(&world, 2);
    let wire = Wire::new(&world);
    let mut client = wire.greet("1.7");
    let send = "blockchain.transaction.broadcast";
    let first = pays(&world, coins[0], 10_000);
    client.call(send, json!([digits(&first)]));
    assert_eq!(client.call(send, json!([digits(&first)])), txid(&first), "one that is known is taken once more");
    #[track_caller]
    fn check(got: (i64, String), code: i64, why: &str) {
        assert!(got.0 == code && got.1.contains(why), "{got:?}");
    }
    let cheap = pays(&world, coins[0], 10_010);
    check(client.refusal(send, json!([digits(&cheap)])), 1, "insufficient fee");
    let missing = Coin { outpoint: primitives::OutPoint { txid: first.tx().txid(), vout: 9 }, value_sat: 100_000 };
    check(client.refusal(send, json!([digits(&pays(&world, missing, 1_000))])), 1, "bad-txns-inputs-missingorspent");
    check(client.refusal(send, json!([digits(&pays(&world, coins[1], 0))])), 1, "min relay fee not met");
    check(client.refusal(send, json!([digits(&pays(&world, coins[1], 20_000_000))])), 1, "Fee exceeds maximum");
    check(client.refusal(send, json!(["00"])), 1, "no transaction");
    check(client.refusal(send, json!(["0"])), -32602, "hexadecimal");
    let burnt = sign(&world, &coins[1..], &[(COIN_SAT - 1_000, vec![0x6a])]);
    check(client.refusal(send, json!([digits(&burnt)])), 1, "maxburnamount");
    mine(&world);
    check(client.refusal(send, json!([digits(&first)])), 1, "already in utxo set");

    // Tried only: each with its verdict, and nothing is kept.
    let good = pays(&world, coins[1], 1_000);
    let tried = client.call("blockchain.transaction.testmempoolaccept", json!([[digits(&good)]]));
    let wtxid = good.tx().wtxid().to_string();
    assert_eq!(tried, json!([{"txid": txid(&good), "wtxid": wtxid, "allowed": true}]));
    let free = pays(&world, coins[1], 0);
    let tried = client.call("blockchain.transaction.testmempoolaccept", json!([[digits(&free)]]));
    assert_eq!(tried[0]["allowed"], json!(false));
    assert!(tried[0]["reason"].as_str().unwrap().contains("min relay fee not met"), "{tried}");
    let dear = pays(&world, coins[1], 20_000_000);
    let tried = client.call("blockchain.transaction.testmempoolaccept", json!([[digits(&dear)]]));
    assert_eq!((&tried[0]["allowed"], &tried[0]["reason"]), (&json!(false), &json!("max-fee-exceeded")));
    check(client.refusal("blockchain.transaction.testmempoolaccept", json!([[]])), -32602, "1 to 25");
    let many = vec![digits(&good); 26];
    check(client.refusal("blockchain.transaction.testmempoolaccept", json!([many])), -32602, "1 to 25");
    assert_eq!(world.mempool.read().len(), 0);
}

#[test]
fn a_child_pays_for_its_parent_in_a_package() {
    let world = World::new("electrum-package");
    let coins = mine_coins(&world, 2);
    let wire = Wire::new(&world);
    let mut client = wire.greet("1.7");
    let hash = hex::encode(&stranger(1));
    client.call("blockchain.scriptpubkey.subscribe", json!([hash]));
    let parent = pays(&world, coins[0], 0);
    let child = pays(&world, coin_of(&parent, 1), 20_000);
    let package = json!([[digits(&parent), digits(&child)]]);
    let sent = client.call("blockchain.transaction.broadcast_package", package);
    assert_eq!(sent, json!({"success": true}));
    let script = ScriptHash::of(&stranger(1)).to_string();
    let (method, params) = client.next_notice();
    assert_eq!((&*method, &params[0]), ("blockchain.scriptpubkey.subscribe", &json!(script)));
    let history = client.call("blockchain.scriptpubkey.get_history", json!([hash]));
    let want = json!({"history": [
        {"fee": 0, "height": 0, "tx_hash": txid(&parent)},
        {"fee": 20_000, "height": -1, "tx_hash": txid(&child)},
    ]});
    assert_eq!(history, want);
    let recent = client.call("mempool.recent", json!([]));
    let recent: Vec<&Value> = recent.as_array().unwrap().iter().map(|row| &row["txid"]).collect();
    assert_eq!(recent, [&json!(txid(&child)), &json!(txid(&parent))]);
    let histogram = client.call("mempool.get_fee_histogram", json!([]));
    // Weights are summed up before they are rounded.
    let size_vb = (parent.tx().weight() + child.tx().weight()).div_ceil(4) as u64;
    assert_eq!(histogram.as_array().unwrap().len(), 1, "one chunk, however little the parent pays alone");
    assert_eq!(histogram[0][1], size_vb);
    assert_eq!(histogram[0][0], json!((200_000 / size_vb) as f64 / 10.0));

    // A package that fails says why, in both forms of the answer.
    let orphan = Coin { outpoint: primitives::OutPoint { txid: child.tx().txid(), vout: 7 }, value_sat: 100_000 };
    let bad = sign(&world, &[orphan, coins[1]], &[(1_000_000, own_script())]);
    let failed = client.call("blockchain.transaction.broadcast_package", json!([[digits(&bad)]]));
    assert_eq!(failed["success"], json!(false));
    assert_eq!(failed["errors"][0]["txid"], json!(txid(&bad)));
    let verbose = client.call("blockchain.transaction.broadcast_package", json!([[digits(&bad)], true]));
    assert_eq!(verbose["tx-results"][bad.tx().wtxid().to_string()]["txid"], json!(txid(&bad)));
    let apart = json!([[digits(&child), digits(&parent)]]);
    let (code, why) = client.refusal("blockchain.transaction.broadcast_package", apart);
    assert!(code == 1 && why.contains("topology"), "{why}");
}

#[test]
fn subscriptions_by_address_and_by_hash_are_told_each_in_its_own_words() {
    let world = World::new("electrum-address");
    let coins = mine_coins(&world, 2);
    let wire = Wire::new(&world);
    let mut client = wire.greet("1.6");
    let address = primitives::address::of_script(&stranger(1), &primitives::Params::of(primitives::Network::Regtest));
    let (address, hash) = (address.unwrap(), ScriptHash::of(&stranger(1)).to_string());
    assert_eq!(client.call("blockchain.address.get_scripthash", json!([address])), hash);
    client.call("blockchain.address.subscribe", json!([address]));
    client.call("blockchain.scripthash.subscribe", json!([hash]));
    client.call("blockchain.transaction.broadcast", json!([digits(&pays(&world, coins[0], 1_000))]));
    let (one, other) = (client.next_notice(), client.next_notice());
    assert_eq!((&*one.0, &one.1[0]), ("blockchain.scripthash.subscribe", &json!(hash)));
    assert_eq!((&*other.0, &other.1[0]), ("blockchain.address.subscribe", &json!(address)));
    assert_eq!(one.1[1], other.1[1]);
    assert_eq!(client.call("blockchain.address.get_status", json!([address])), one.1[1]);
    assert_eq!(client.call("blockchain.scripthash.unsubscribe", json!([hash])), json!(true));
    assert_eq!(client.call("blockchain.scripthash.unsubscribe", json!([hash])), json!(false));
    client.call("blockchain.transaction.broadcast", json!([digits(&pays(&world, coins[1], 1_000))]));
    assert_eq!(client.next_notice().0, "blockchain.address.subscribe");
    assert_eq!(client.call("blockchain.address.unsubscribe", json!([address])), json!(true));
    assert_eq!(client.call("blockchain.address.unsubscribe", json!([address])), json!(false));
    assert_eq!(wire.handle.metrics().subscriptions_now.get(), 0);
    assert!(client.told().is_empty());
}

#[test]
fn a_long_list_of_the_mempool_is_sent_in_pages_and_counts_against_the_maximum() {
    let world = World::new("electrum-long");
    let coins = mine_coins(&world, 1);
    // One transaction with many outputs, then one each: 60 unconfirmed transactions of one script.
    let outputs: Vec<(u64, Vec<u8>)> = (0..60).map(|_| (10_000_000, own_script())).collect();
    let parent = sign(&world, &coins, &[outputs, vec![(COIN_SAT - 600_100_000, own_script())]].concat());
    call(&world, "sendrawtransaction", json!([digits(&parent)]));
    mine(&world);
    for vout in 0..60 {
        let child = sign(&world, &[coin_of(&parent, vout)], &[(9_990_000, stranger(2))]);
        call(&world, "sendrawtransaction", json!([digits(&child)]));
    }
    let wire = Wire::new(&world);
    let mut client = wire.greet("1.6");
    let hash = ScriptHash::of(&stranger(2)).to_string();
    let listed = client.call("blockchain.scripthash.get_mempool", json!([hash]));
    let txids: Vec<&str> = listed.as_array().unwrap().iter().map(|row| row["tx_hash"].as_str().unwrap()).collect();
    assert!(txids.len() == 60 && txids.is_sorted());
    // Part of a history: with an end there is no mempool in it.
    let own = ScriptHash::of(&own_script()).to_string();
    let tip = call(&world, "getblockcount", json!([])).as_u64().unwrap();
    let whole = client.call("blockchain.scripthash.get_history", json!([own]));
    let length = |value: &Value| value.as_array().unwrap().len();
    assert_eq!(length(&whole), 62, "the coin, what split it, and sixty unconfirmed");
    let mut part =
        |from: i64, to: i64| length(&client.call("blockchain.scripthash.get_history", json!([own, from, to])));
    assert_eq!((part(0, -1), part(tip as i64, -1), part(tip as i64 + 1, -1)), (62, 61, 60));
    assert_eq!(
        (part(0, tip as i64), part(tip as i64, tip as i64 + 1), part(tip as i64 + 5, tip as i64 + 9)),
        (1, 1, 0)
    );
}

#[test]
fn a_block_that_touches_ten_thousand_subscribed_scripts_tells_each_once() {
    const SCRIPTS: u32 = 10_000;
    const SESSIONS: usize = 10;
    let world = World::new("electrum-many");
    let coins = mine_coins(&world, 1);
    let script = |n: u32| [&[0, 20][..], &[7; 16], &n.to_be_bytes()].concat();
    let outputs: Vec<(u64, Vec<u8>)> = (0..SCRIPTS).map(|n| (10_000, script(n))).collect();
    let payment = sign(&world, &coins, &outputs);
    let wire = Wire::new(&world);
    let mut clients: Vec<_> = (0..SESSIONS).map(|_| wire.greet("1.4")).collect();
    for n in 0..SCRIPTS {
        let hash = ScriptHash::of(&script(n)).to_string();
        clients[n as usize % SESSIONS].call("blockchain.scripthash.subscribe", json!([hash]));
    }
    let news = world.handle.subscribe();
    let (connected, last) = std::thread::scope(|scope| {
        let connected = scope.spawn(move || {
            assert!(news.iter().any(|event| matches!(event, chain::Event::NewTip { .. })));
            Instant::now()
        });
        let listeners: Vec<_> = (clients.iter_mut())
            .map(|client| {
                scope.spawn(move || {
                    let told = (0..SCRIPTS as usize / SESSIONS).map(|_| client.next_notice().1[0].to_string());
                    let told: std::collections::BTreeSet<String> = told.collect();
                    assert_eq!(told.len(), SCRIPTS as usize / SESSIONS, "each once");
                    Instant::now()
                })
            })
            .collect();
        mine_only(&world, 1, &[digits(&payment)]);
        (connected.join().unwrap(), listeners.into_iter().map(|listener| listener.join().unwrap()).max().unwrap())
    });
    println!("the last of {SCRIPTS} notices was read {:?} after the tip was told of", last - connected);
}

#[test]
fn estimates_are_those_of_json_rpc_and_never_below_what_the_mempool_asks() {
    let world = World::new("electrum-fees");
    let mut coins = mine_coins(&world, 6);
    let wire = Wire::new(&world);
    let (mut old, mut client) = (wire.greet("1.4"), wire.greet("1.6"));
    assert_eq!(client.call("blockchain.estimatefee", json!([2])), json!(-1));
    // Thirty blocks, each with six transactions that paid 20 satoshi for a virtual byte and were mined at once.
    for _ in 0..30 {
        for coin in &mut coins {
            let payment = pays(&world, *coin, 141 * 20);
            call(&world, "sendrawtransaction", json!([digits(&payment)]));
            *coin = coin_of(&payment, 1);
        }
        mine(&world);
    }
    for (blocks, mode) in [(1, "ECONOMICAL"), (2, "economical"), (6, "CONSERVATIVE"), (1_008, "unset")] {
        let want = call(&world, "estimatesmartfee", json!([blocks, mode]))["feerate"].clone();
        assert!(want.as_f64().is_some_and(|rate| rate >= 0.000_001), "{blocks} {mode}: {want}");
        assert_eq!(client.call("blockchain.estimatefee", json!([blocks, mode])), want, "{blocks} {mode}");
    }
    // Nobody is confirmed at once, and nobody looks further ahead than is known.
    let (first, last) = (json!([1]), json!([1_008]));
    for (asked, same) in [(json!([0]), &first), (json!([1_000_000]), &last), (json!([2_u64.pow(40)]), &last)] {
        let want = client.call("blockchain.estimatefee", same.clone());
        assert_eq!(client.call("blockchain.estimatefee", asked), want);
    }
    let info = call(&world, "getmempoolinfo", json!([]));
    assert_eq!(old.call("blockchain.relayfee", json!([])), info["minrelaytxfee"]);
    let floors = client.call("mempool.get_info", json!([]));
    for name in ["mempoolminfee", "minrelaytxfee", "incrementalrelayfee"] {
        assert_eq!(floors[name], info[name], "{name}");
    }
    assert_eq!(client.refusal("blockchain.relayfee", json!([])).0, -32601);
    assert_eq!(old.refusal("mempool.get_info", json!([])).0, -32601);
}

#[test]
fn no_transaction_is_in_both_or_in_neither_while_blocks_come_and_go() {
    let world = World::new("electrum-still");
    let coins = mine_coins(&world, 1);
    let source = source(&world);
    let payment = pays(&world, coins[0], 1_000);
    let name = payment.tx().txid();
    call(&world, "sendrawtransaction", json!([digits(&payment)]));
    let (over, looked) = (AtomicBool::new(false), AtomicU64::new(0));
    let looks = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut looks = [0, 0];
            while !over.load(Ordering::SeqCst) {
                let waits =
                    |mempool: Option<&chain::mempool::Mempool>| mempool.is_some_and(|it| it.get(&name).is_some());
                let (view, waiting) = still(&*source, |_, mempool| waits(mempool)).unwrap();
                match view.locate(&name) {
                    Ok(found) => assert_ne!(found.is_some(), waiting, "in the mempool: {waiting}"),
                    Err(ViewError::Stale) => {
                        source.catch_up();
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                }
                looks[usize::from(waiting)] += 1;
                looked.fetch_add(1, Ordering::SeqCst);
            }
            looks
        });
        // Two looks from now on: the second began after this. A reader that failed says so when it is joined.
        let wait = || {
            let until = looked.load(Ordering::SeqCst) + 2;
            while looked.load(Ordering::SeqCst) < until && !reader.is_finished() {
                std::thread::yield_now();
            }
        };
        for round in 0..25 {
            mine_as(&world, round);
            wait();
            let tip = call(&world, "getbestblockhash", json!([]));
            call(&world, "invalidateblock", json!([tip]));
            wait();
        }
        over.store(true, Ordering::SeqCst);
        reader.join().unwrap()
    });
    assert!(looks.iter().all(|looks| *looks >= 25), "{looks:?}");
}
