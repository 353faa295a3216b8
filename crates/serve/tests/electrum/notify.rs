//! Notifications: who is told what, in which order, and what it costs.
//!
//! In:     blocks connected and disconnected under connected clients.
//! Out:    one test a promise.
//! Fails:  where a notice is missing, doubled, early or meant for somebody else.

use serde_json::{Value, json};
use serve::source::Event;

use crate::chain::{block, coinbase, mainnet, mainnet_hash, next, sample, script};
use crate::client::{Client, hash_of, serve};

fn is_quiet(client: &mut Client) -> bool {
    // A ping's answer comes after whatever was to be told before it.
    client.call("server.ping", json!([])) == Value::Null
}

#[test]
fn a_new_block_tells_the_tip_first_and_then_the_scripts_it_touched() {
    let server = serve(mainnet(), |_| {});
    let (one, two, three) = (hash_of(&script(1)), hash_of(&script(2)), hash_of(&script(3)));
    let mut all = server.greet();
    all.call("blockchain.headers.subscribe", json!([]));
    for script in [&one, &two, &three] {
        assert_eq!(all.call("blockchain.scripthash.subscribe", json!([script])), Value::Null);
    }
    let mut only_three = server.greet();
    only_three.call("blockchain.scripthash.subscribe", json!([three]));
    let mut nothing = server.greet();

    let block = next(&server.chain, &[coinbase(9, 1)]);
    let header = stdx::hex::encode(&block.header().encode());
    server.events.send(server.chain.connect(block)).unwrap();
    let told = all.json();
    assert_eq!(told["method"], "blockchain.headers.subscribe");
    assert_eq!(told["params"], json!([{"height": 9, "hex": header}]));
    assert!(told.get("id").is_none());
    let told = all.json();
    assert_eq!(told["method"], "blockchain.scripthash.subscribe");
    assert_eq!(told["params"][0], one);
    let status = told["params"][1].clone();
    assert!(is_quiet(&mut all) && is_quiet(&mut only_three) && is_quiet(&mut nothing));
    assert_eq!(all.call("blockchain.scripthash.subscribe", json!([one])), status);

    all.call("blockchain.scripthash.unsubscribe", json!([one]));
    let block = next(&server.chain, &[coinbase(10, 1)]);
    server.events.send(server.chain.connect(block)).unwrap();
    assert_eq!(all.json()["params"][0]["height"], 10);
    assert!(is_quiet(&mut all), "an unsubscribed script is not told");
    assert_eq!(server.count("notifications"), 3);
}

#[test]
fn a_tip_that_touched_too_many_scripts_to_list_is_told_of_all_the_same() {
    let server = serve(mainnet(), |_| {});
    let (one, two) = (hash_of(&script(1)), hash_of(&script(2)));
    let mut client = server.greet();
    client.call("blockchain.headers.subscribe", json!([]));
    for script in [&one, &two] {
        client.call("blockchain.scripthash.subscribe", json!([script]));
    }
    let mut event = server.chain.connect(next(&server.chain, &[coinbase(9, 1)]));
    let Event::NewTip { touched, .. } = &mut event else { panic!("a tip") };
    *touched = None;
    server.events.send(event).unwrap();
    assert_eq!(client.json()["method"], "blockchain.headers.subscribe");
    assert_eq!(client.json()["params"][0], one);
    assert!(is_quiet(&mut client), "the other's status is the same");
}

#[test]
fn a_reorganisation_tells_the_scripts_of_both_branches_back_and_forth() {
    let server = serve(sample(), |_| {});
    let scripts: Vec<String> = (1..=5).map(|n| hash_of(&script(n))).collect();
    let mut client = server.greet();
    client.call("blockchain.headers.subscribe", json!([]));
    let mut statuses: Vec<Value> =
        scripts.iter().map(|script| client.call("blockchain.scripthash.subscribe", json!([script]))).collect();
    let first = statuses.clone();
    let view = server.chain.plain_view();
    drop(view);

    // Blocks 9 and 10 go, one that pays script 5 comes; then it goes and the first two come back.
    let other = block(mainnet_hash(8), 1_300_000_000, &[coinbase(9, 5).bytes()]);
    let old = [9, 10].map(|height| sample_block(height));
    let mut told_total = 0;
    for (blocks, tip) in [(vec![other], 9), (old.to_vec(), 10)] {
        server.events.send(server.chain.reorganise(8, blocks)).unwrap();
        assert_eq!(client.json()["params"][0]["height"], tip);
        // Scripts 1 to 5 all change both times: 1 to 4 lose or regain their history, 5 gains or loses one.
        for _ in 0..5 {
            let told = client.json();
            let n = scripts.iter().position(|script| told["params"][0] == **script).unwrap();
            assert_ne!(statuses[n], told["params"][1]);
            statuses[n] = told["params"][1].clone();
            told_total += 1;
        }
        assert!(is_quiet(&mut client));
        for (script, status) in scripts.iter().zip(&statuses) {
            assert_eq!(client.call("blockchain.scripthash.subscribe", json!([script])), *status);
        }
    }
    assert_eq!(told_total, 10);
    assert_eq!(statuses, first, "back where it began");
}

fn sample_block(height: u32) -> primitives::Block {
    sample().block(height)
}

#[test]
fn a_touched_script_whose_status_is_the_same_is_not_told() {
    let server = serve(mainnet(), |_| {});
    let mut client = server.greet();
    let block = next(&server.chain, &[coinbase(9, 1)]);
    let event = server.chain.connect(block);
    // Subscribed after the commit and before its event: the answer has the new status already.
    client.call("blockchain.scripthash.subscribe", json!([hash_of(&script(1))]));
    server.events.send(event.clone()).unwrap();
    server.events.send(event).unwrap();
    let block = next(&server.chain, &[coinbase(10, 1)]);
    server.events.send(server.chain.connect(block)).unwrap();
    assert_eq!(client.json()["method"], "blockchain.scripthash.subscribe");
    assert!(is_quiet(&mut client));
    assert_eq!(server.count("notifications"), 1);
}

#[test]
fn notices_are_written_in_the_version_of_the_greeting() {
    let server = serve(mainnet(), |_| {});
    let mut client = server.connect();
    client.ask(r#"{"id":0,"method":"server.version","params":[]}"#);
    client.ask(r#"{"id":1,"method":"blockchain.headers.subscribe"}"#);
    let block = next(&server.chain, &[coinbase(9, 1)]);
    server.events.send(server.chain.connect(block)).unwrap();
    let told = client.json();
    assert_eq!((told.get("id"), told.get("jsonrpc")), (Some(&Value::Null), None));
    assert_eq!(told["params"][0]["height"], 9);
}

#[test]
fn ten_thousand_subscriptions_come_and_go() {
    let server = serve(mainnet(), |limits| {
        limits.subscriptions_session_max = 10_000;
        limits.subscriptions_max = 10_500;
    });
    let mut client = server.greet();
    let name = |n: u32| format!("{n:064x}");
    for batch in 0..10 {
        let requests: Vec<Value> = (0..1000)
            .map(|n| json!({"id": n, "method": "blockchain.scripthash.subscribe", "params": [name(batch * 1000 + n)]}))
            .collect();
        let answers = client.ask(&Value::Array(requests).to_string());
        assert!(
            answers.as_array().unwrap().iter().all(|answer| answer["error"].is_null() && answer["result"].is_null())
        );
    }
    assert_eq!(server.count("subscriptions_now"), 10_000);
    assert_eq!(client.refusal("blockchain.scripthash.subscribe", json!([name(10_000)])).0, 1);
    assert_eq!(client.call("blockchain.scripthash.subscribe", json!([name(7)])), Value::Null, "again is not more");
    let mut other = server.greet();
    for n in 0..500 {
        other.call("blockchain.scripthash.subscribe", json!([name(n)]));
    }
    assert_eq!(other.refusal("blockchain.scripthash.subscribe", json!([name(500)])).0, 1, "all sessions together");
    drop(client);
    server.wait_for("subscriptions_now", 500);
    drop(other);
    server.wait_for("subscriptions_now", 0);
    assert_eq!(server.handle.env().subscriptions.count(), 0);
}

#[test]
fn after_missed_news_everybody_looks_again_and_hears_only_what_changed() {
    let server = serve(mainnet(), |_| {});
    let mut client = server.greet();
    client.call("blockchain.headers.subscribe", json!([]));
    for n in 1..=3 {
        client.call("blockchain.scripthash.subscribe", json!([hash_of(&script(n))]));
    }
    // Two blocks of which no event arrives.
    for n in 9..=10 {
        server.chain.connect(next(&server.chain, &[coinbase(n, 2)]));
    }
    assert!(is_quiet(&mut client));
    server.handle.env().subscriptions.tell_everything();
    assert_eq!(client.json()["params"][0]["height"], 10);
    assert_eq!(client.json()["params"][0], hash_of(&script(2)));
    assert!(is_quiet(&mut client));
    server.handle.env().subscriptions.tell_everything();
    assert!(is_quiet(&mut client));
    assert_eq!(server.count("notifications"), 2);
    assert_eq!(client.call("blockchain.headers.unsubscribe", json!([])), true);
    assert_eq!(client.call("blockchain.headers.unsubscribe", json!([])), false);
    server.events.send(server.chain.connect(next(&server.chain, &[coinbase(11, 4)]))).unwrap();
    server.handle.env().subscriptions.tell_everything();
    assert!(is_quiet(&mut client));
}
