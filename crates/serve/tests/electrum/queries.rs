//! Questions over a real socket: statuses, versions, syncing, limits, long histories, reorganisations under a view.
//!
//! In:     chains in memory, some with made-up long histories.
//! Out:    one test a promise.
//! Fails:  where an answer is not what a slow second computation gives.

use std::fmt::Write as _;
use std::io::BufRead;

use primitives::hash::{merkle_root_of_branch, sha256, sha256d};
use primitives::{BlockHash, Header, ScriptHash, Txid};
use serde_json::{Value, json};
use stdx::hex;

use crate::chain::{coinbase, mainnet, next, sample, script};
use crate::client::{hash_of, serve};

/// The status as the protocol's text defines it.
fn status_of(history: &Value) -> Value {
    let mut text = String::new();
    for entry in history.as_array().unwrap() {
        write!(text, "{}:{}:", entry["tx_hash"].as_str().unwrap(), entry["height"]).unwrap();
    }
    if text.is_empty() { Value::Null } else { json!(hex::encode(&sha256(text.as_bytes()))) }
}

#[test]
fn every_script_has_the_status_of_its_history_and_the_balance_of_its_coins() {
    let server = serve(sample(), |_| {});
    let mut client = server.greet();
    let view = server.chain.plain_view();
    let mut scripts = 0;
    for script in view.scripts() {
        let script = script.to_string();
        let history = client.call("blockchain.scripthash.get_history", json!([script]));
        assert_eq!(client.call("blockchain.scripthash.subscribe", json!([script])), status_of(&history));
        let unspent = client.call("blockchain.scripthash.listunspent", json!([script]));
        let sum: u64 = unspent.as_array().unwrap().iter().map(|coin| coin["value"].as_u64().unwrap()).sum();
        let balance = client.call("blockchain.scripthash.get_balance", json!([script]));
        assert_eq!(balance, json!({"confirmed": sum, "unconfirmed": 0}));
        scripts += 1;
    }
    assert!(scripts > 12, "{scripts} scripts");
    assert_eq!(server.count("subscriptions_now"), scripts);
    drop(client);
    server.wait_for("subscriptions_now", 0);
    server.wait_for("sessions_now", 0);
}

#[test]
fn every_branch_leads_to_its_blocks_root() {
    let server = serve(sample(), |_| {});
    let mut client = server.greet();
    for (height, count) in [(0, 1), (5, 1), (9, 5), (10, 2)] {
        let header = client.call("blockchain.block.header", json!([height]));
        let root = Header::decode(&hex::decode_array(header.as_str().unwrap()).unwrap()).merkle_root;
        for pos in 0..count {
            let txid = client.call("blockchain.transaction.id_from_pos", json!([height, pos]));
            let proof = client.call("blockchain.transaction.get_merkle", json!([txid, height]));
            assert_eq!((&proof["pos"], &proof["block_height"]), (&json!(pos), &json!(height)));
            let branch: Vec<[u8; 32]> = (proof["merkle"].as_array().unwrap().iter())
                .map(|hash| hash.as_str().unwrap().parse::<BlockHash>().unwrap().0)
                .collect();
            let leaf: Txid = txid.as_str().unwrap().parse().unwrap();
            assert_eq!(merkle_root_of_branch(leaf.0, pos, &branch), root, "{height}/{pos}");
        }
    }
}

#[test]
fn versions_are_agreed_on_once_and_first() {
    let server = serve(mainnet(), |_| {});
    let name = format!("ElectrumX-compatible/Assay {}", env!("CARGO_PKG_VERSION"));
    for (asked, want) in [
        (json!(["Sparrow", ["1.3", "1.4.2"]]), "1.4.2"),
        (json!(["bluewallet", "1.4"]), "1.4"),
        (json!(["electrum", ["1.4", "1.6"], "more", {"to": "come"}]), "1.6"),
        (json!(["newest", ["1.4", "2.0"]]), "1.7"),
        (json!({"client_name": "x", "protocol_version": "1.4.1"}), "1.4.1"),
        (json!([]), "1.4"),
    ] {
        let mut client = server.connect();
        assert_eq!(client.call("server.version", asked.clone()), json!([name, want]), "{asked}");
        assert_eq!(client.refusal("server.version", asked).0, 1);
        assert!(client.call("server.banner", json!([])).is_string(), "a second greeting does not end the session");
    }
    for (method, params) in [
        ("server.ping", json!([])),
        ("no.such.method", json!([])),
        ("server.version", json!(["x", ["1.8", "1.9"]])),
        ("server.version", json!(["x", "1.3"])),
    ] {
        let mut client = server.connect();
        assert_eq!(client.refusal(method, params).0, 1, "{method}");
        assert!(client.is_closed(), "{method}");
    }
    let mut client = server.connect();
    assert_eq!(client.refusal("server.version", json!(["x", "one"])).0, -32602);
    assert_eq!(client.call("server.version", json!(["x", "1.4"]))[1], "1.4");
}

#[test]
fn while_syncing_headers_answer_and_addresses_say_how_far_the_index_is() {
    let server = serve(mainnet(), |_| {});
    server.chain.set_syncing(Some(900_000));
    let mut client = server.greet();
    assert_eq!(client.call("blockchain.headers.subscribe", json!([]))["height"], 8);
    assert_eq!(client.call("blockchain.block.headers", json!([0, 9]))["count"], 9);
    let script = hash_of(&script(1));
    let syncing = (-28, "syncing: index at height 8 of 900000".to_owned());
    for method in ["get_balance", "get_history", "get_mempool", "listunspent", "subscribe"] {
        assert_eq!(client.refusal(&format!("blockchain.scripthash.{method}"), json!([script])), syncing, "{method}");
    }
    let unknown = "00".repeat(32);
    assert_eq!(client.refusal("blockchain.transaction.get", json!([unknown])), syncing);
    assert_eq!(client.refusal("blockchain.transaction.get_merkle", json!([unknown, 1])), syncing);
    let known = "0e3e2357e806b6cdb1f70b54c3a3a17b6714ee1f0e68bebb44a74b1efd512098";
    assert!(client.call("blockchain.transaction.get", json!([known])).is_string());
    server.chain.set_syncing(None);
    assert_eq!(client.call("blockchain.scripthash.subscribe", json!([script])), Value::Null);
    assert_eq!(client.refusal("blockchain.transaction.get", json!([unknown])).0, 2);
}

#[test]
fn a_long_history_is_refused_where_a_maximum_is_set_and_never_shown_as_empty() {
    let chain = sample();
    let script = ScriptHash([7; 32]);
    chain.pad(script, 5001);
    let server = serve(chain, |limits| limits.history_entries_max = Some(5000));
    let mut client = server.greet();
    for method in ["get_history", "subscribe"] {
        let (code, text) = client.refusal(&format!("blockchain.scripthash.{method}"), json!([script.to_string()]));
        assert_eq!(code, 10_001);
        assert!(text.contains("5000") && text.contains("electrum_history_entries_max"), "{text}");
    }
    assert_eq!(server.count("subscriptions_now"), 0, "a refused subscription is none");
    server.chain.pad(script, 5000);
    assert_eq!(
        client.call("blockchain.scripthash.get_history", json!([script.to_string()])).as_array().unwrap().len(),
        5000
    );
}

#[test]
fn a_million_entries_are_streamed_in_bounded_memory() {
    const ENTRIES: usize = 1_000_000;
    let chain = sample();
    let script = ScriptHash([7; 32]);
    chain.pad(script, ENTRIES);
    let server = serve(chain, |_| {});
    let mut client = server.greet();
    client.send_line(&format!(
        r#"{{"jsonrpc":"2.0","id":5,"method":"blockchain.scripthash.get_history","params":["{script}"]}}"#
    ));
    // Read in pieces and counted, as the whole is 90 MB: each entry ends in one brace, the answer in another.
    let (mut bytes, mut braces, mut waiting_max) = (0u64, 0usize, 0u64);
    loop {
        let piece = client.reader.fill_buf().unwrap();
        let (length, end) = (piece.len(), piece.last() == Some(&b'\n'));
        bytes += length as u64;
        braces += piece.iter().filter(|byte| **byte == b'}').count();
        client.reader.consume(length);
        waiting_max = waiting_max.max(server.count("bytes_waiting_now"));
        if end {
            break;
        }
    }
    assert_eq!(braces, ENTRIES + 1);
    assert!(bytes > 85 * ENTRIES as u64, "{bytes} bytes");
    // The bound, and the slice that may overshoot it.
    assert!(waiting_max <= 9 * 1024 * 1024, "{waiting_max} bytes waited");
    let status = client.call("blockchain.scripthash.subscribe", json!([script.to_string()]));
    let mut text = String::new();
    for n in 0..ENTRIES {
        write!(text, "{}:{}:", Txid(sha256d(&n.to_le_bytes())), 1 + n / 2000).unwrap();
    }
    assert_eq!(status, json!(hex::encode(&sha256(text.as_bytes()))));
    // Asked again, only what is new is hashed: nothing here.
    assert_eq!(server.handle.env().statuses.len(), 1);
    assert_eq!(client.call("blockchain.scripthash.subscribe", json!([script.to_string()])), status);
}

#[test]
fn others_are_answered_while_one_asks_for_everything() {
    let chain = sample();
    let script = ScriptHash([7; 32]);
    chain.pad(script, 1_000_000);
    let server = serve(chain, |_| {});
    // More of them than there are threads for work, and none of them reads.
    let greedy: Vec<_> = (0..2 * server.handle.env().config.work_threads)
        .map(|_| {
            let mut client = server.greet();
            client.send_line(&format!(
                r#"{{"id":1,"method":"blockchain.scripthash.get_history","params":["{script}"]}}"#
            ));
            client
        })
        .collect();
    let mut client = server.greet();
    for _ in 0..50 {
        assert_eq!(
            client.call("blockchain.scripthash.get_balance", json!([hash_of(&self::script(3))]))["confirmed"],
            1
        );
    }
    drop(greedy);
}

#[test]
fn a_reorganisation_under_a_view_is_not_seen_by_the_client() {
    let server = serve(sample(), |_| {});
    let mut client = server.greet();
    let script = hash_of(&script(1));
    let want = client.call("blockchain.scripthash.get_history", json!([script]));
    for method in ["get_history", "listunspent", "get_balance", "subscribe"] {
        server.chain.make_next_stale();
        client.call(&format!("blockchain.scripthash.{method}"), json!([script]));
    }
    server.chain.make_next_stale();
    client.call(
        "blockchain.transaction.get",
        json!(["0e3e2357e806b6cdb1f70b54c3a3a17b6714ee1f0e68bebb44a74b1efd512098"]),
    );
    server.chain.make_next_stale();
    let batch = format!(
        r#"[{{"id":1,"method":"server.ping"}},{{"id":2,"method":"blockchain.scripthash.get_history","params":["{script}"]}}]"#
    );
    assert_eq!(client.ask(&batch)[1]["result"], want);
    assert_eq!(server.count("errors"), 0);
}

#[test]
fn a_kept_status_is_forgotten_with_its_block() {
    let chain = sample();
    let script = ScriptHash([7; 32]);
    // 1,200 entries: long enough to be kept, all of them in block 1.
    chain.pad(script, 1_200);
    let server = serve(chain, |_| {});
    let mut client = server.greet();
    let before = client.call("blockchain.scripthash.subscribe", json!([script.to_string()]));
    assert_eq!(server.handle.env().statuses.len(), 1);
    // Another block 1, with another history of the same length in it.
    let other = crate::chain::block(crate::chain::mainnet_hash(0), 1_300_000_000, &[coinbase(1, 1).bytes()]);
    server.chain.reorganise(0, [other]);
    server.chain.pad(script, 1_100);
    let history = client.call("blockchain.scripthash.get_history", json!([script.to_string()]));
    let after = client.call("blockchain.scripthash.subscribe", json!([script.to_string()]));
    assert_ne!(before, after);
    assert_eq!(after, status_of(&history));
}

#[test]
fn many_lines_at_once_are_answered_in_order() {
    let server = serve(sample(), |_| {});
    let mut client = server.greet();
    let script = hash_of(&script(1));
    let mut lines = String::new();
    for id in 0..3000 {
        writeln!(lines, r#"{{"id":{id},"method":"blockchain.scripthash.get_history","params":["{script}"]}}"#).unwrap();
    }
    client.send(lines);
    for id in 0..3000 {
        let answer = client.json();
        assert_eq!(answer["id"], id);
        assert_eq!(answer["result"].as_array().unwrap().len(), 3);
    }
    // The last line needs no newline when the client closes its side: it was never finished, and gets no answer.
    client.send(r#"{"id":1,"method":"server.ping"}"#);
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(client.is_closed());
    let chain = mainnet();
    chain.connect(next(&chain, &[coinbase(9, 1)]));
    assert_eq!(chain.plain_view().scripts().count(), 9, "the tests' own chain: eight keys and one script");
}
