//! A wallet's whole conversation with the program: by a wallet library's own client, and script by script.
//!
//! In:     a forged chain in files as Bitcoin Core keeps them: XORed, blocks out of order, in two files.
//! Out:    every answer equals the book's, every proof leads to a header's root.
//! Fails:  with the first difference.

use electrum_client::bitcoin::hashes::Hash;
use electrum_client::bitcoin::{Script, Txid as BitcoinTxid, consensus};
use electrum_client::utils::validate_merkle_proof;
use electrum_client::{Client, ElectrumApi, Param};
use primitives::hash::{merkle_root_of_branch, sha256d};
use primitives::script::is_unspendable;
use primitives::{BlockHash, ScriptHash};
use serde_json::json;
use stdx::random::Random;

use crate::node::Node;
use crate::raw::{Raw, compare};
use crate::world::{BlockFolder, Folder, World};

#[test]
fn every_question_is_answered_as_the_book_knows_it() {
    let folder = Folder::new("wallet");
    let world = World::new(11, 140, 5_000);
    let files = BlockFolder::new(folder.join("blocks"), [0x5a, 1, 0xff, 0, 7, 0x80, 0x33, 0xc4]);
    let mut blocks: Vec<Vec<u8>> = world.blocks().collect();
    Random::new(3).shuffle(&mut blocks);
    for (index, block) in blocks.iter().enumerate() {
        files.append((index * 2 / blocks.len()) as u32, block);
    }
    let mut node = Node::start(&folder.join("data"), &files.path);
    let address = node.electrum();
    let mut raw = Raw::connect(address);
    raw.wait_ready();
    assert!(compare(&mut raw, &world.book) > 1_000, "enough scripts for the comparison to mean something");
    headers_lead_to_one_root(&mut raw, &world);
    library(&address.to_string(), &world);
    let exit = node.stop();
    assert_eq!(exit.code, Some(0), "{}", exit.log);
}

/// Headers one by one, in a row, and under a checkpoint.
fn headers_lead_to_one_root(raw: &mut Raw, world: &World) {
    let book = &world.book;
    let tip = book.height();
    let all = raw.call("blockchain.block.headers", json!([0, 2016]));
    let want: String = (0..=tip).map(|height| stdx::hex::encode(&book.header(height).encode())).collect();
    assert_eq!((&all["count"], &all["hex"]), (&json!(tip + 1), &json!(want)));
    for (height, cp_height) in [(0, 1), (1, 1), (5, 8), (tip / 2, tip - 1), (tip, tip)] {
        let proof = raw.call("blockchain.block.header", json!([height, cp_height]));
        let leaves: Vec<[u8; 32]> = (0..=cp_height).map(|at| sha256d(&book.header(at).encode())).collect();
        let root = primitives::hash::merkle_root(&leaves).0;
        assert_eq!(proof["root"], BlockHash(root).to_string(), "{height} under {cp_height}");
        let branch = proof["branch"].as_array().unwrap().iter();
        let branch: Vec<[u8; 32]> = branch.map(|hash| hash.as_str().unwrap().parse::<BlockHash>().unwrap().0).collect();
        assert_eq!(merkle_root_of_branch(leaves[height as usize], height as usize, &branch), root);
    }
}

/// The client that Bitcoin Development Kit's wallets use.
fn library(address: &str, world: &World) {
    let book = &world.book;
    let client = Client::new(&format!("tcp://{address}")).unwrap();
    client.ping().unwrap();
    let features = client.server_features().unwrap();
    let genesis = book.header(0).hash();
    assert_eq!(features.genesis_hash, std::array::from_fn(|at| genesis.0[31 - at]));
    assert_eq!((features.hash_function.as_deref(), features.pruning), (Some("sha256"), None));
    let tip = client.block_headers_subscribe().unwrap();
    assert_eq!((tip.height as u32, tip.header.block_hash().to_byte_array()), (book.height(), book.tip().0));
    assert_eq!(client.block_headers(1, 20).unwrap().headers.len(), 20);
    // It speaks 1.6, where this took the place of `relayfee`.
    let floors = client.mempool_get_info().unwrap();
    assert!(floors.minrelaytxfee > 0.0 && floors.mempoolminfee >= floors.minrelaytxfee);
    assert_eq!(client.estimate_fee(6, None).unwrap(), -1.0);

    // Two scripts a block; their histories, coins, transactions and proofs.
    for height in (101..=book.height()).step_by(3) {
        let block = book.block(height);
        let tx = block.tx(block.tx_count() - 1);
        let spendable: Vec<&[u8]> =
            tx.outputs().map(|output| output.script).filter(|script| !is_unspendable(script)).take(2).collect();
        let scripts: Vec<&Script> = spendable.iter().map(|script| Script::from_bytes(script)).collect();
        let histories = client.batch_script_get_history(scripts.iter()).unwrap();
        let balances = client.batch_script_get_balance(scripts.iter()).unwrap();
        let coins = client.batch_script_list_unspent(scripts.iter()).unwrap();
        for (index, script) in spendable.iter().enumerate() {
            let hash = ScriptHash::of(script);
            let want: Vec<_> = book.history(&hash).iter().map(|entry| (entry.height as i32, entry.txid.0)).collect();
            let got = histories[index].iter().map(|entry| (entry.height, entry.tx_hash.to_byte_array()));
            assert_eq!(got.collect::<Vec<_>>(), want);
            assert_eq!(balances[index].confirmed, book.balance_sat(&hash));
            let got: u64 = coins[index].iter().map(|coin| coin.value).sum();
            assert_eq!(got, book.balance_sat(&hash));
            let status = client.script_subscribe(scripts[index]).unwrap().map(|status| *status);
            assert_eq!(status, book.status(&hash));
            assert!(client.script_unsubscribe(scripts[index]).unwrap());
        }
        let txid = BitcoinTxid::from_byte_array(tx.txid().0);
        assert_eq!(consensus::serialize(&client.transaction_get(&txid).unwrap()), tx.raw());
        let proof = client.transaction_get_merkle(&txid, height as usize).unwrap();
        let header = client.block_header(height as usize).unwrap();
        assert_eq!(proof.pos, tx.index());
        assert!(validate_merkle_proof(&txid, &header.merkle_root, &proof), "block {height}");
        assert_eq!(client.txid_from_pos(height as usize, tx.index()).unwrap(), txid);
        let verbose = client
            .raw_call("blockchain.transaction.get", vec![Param::String(txid.to_string()), Param::Bool(true)])
            .unwrap();
        assert_eq!(verbose["confirmations"], book.height() - height + 1);
        assert_eq!(verbose["blockhash"], block.header().hash().to_string());
        assert_eq!(verbose["vout"].as_array().unwrap().len(), tx.output_count());
    }
}
