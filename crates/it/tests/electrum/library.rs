//! A wallet library's own client through a whole life: nothing here knows how we write an answer.
//!
//! In:     a world with coins, the client that Bitcoin Development Kit's wallets use.
//! Out:    history found, received unconfirmed, replaced, packed, confirmed, proved, undone.
//! Fails:  where the library does not understand us, or understands something else.

use std::time::{Duration, Instant};

use electrum_client::bitcoin::hashes::Hash;
use electrum_client::bitcoin::{Script, ScriptBuf, Txid as BitcoinTxid};
use electrum_client::utils::validate_merkle_proof;
use electrum_client::{Client, ElectrumApi, ScriptStatus};
use primitives::Transaction;
use serde_json::json;

use crate::coins::{call, coin_of, mine, mine_coins, own_script, sign, stranger};
use crate::wire::Wire;
use crate::world::World;

/// Longest wait for a notice, on a machine that does other things besides.
const PATIENCE: Duration = Duration::from_secs(30);

fn name(transaction: &Transaction) -> BitcoinTxid {
    BitcoinTxid::from_byte_array(transaction.tx().txid().0)
}

/// The next status that the library was told of; it hears while it asks.
fn next_status(client: &Client, script: &Script) -> ScriptStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        client.ping().unwrap();
        if let Some(status) = client.script_pop(script).unwrap() {
            return status;
        }
        assert!(Instant::now() < deadline, "no notice");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_library_lives_through_a_payment() {
    let world = World::new("electrum-library");
    let coins = mine_coins(&world, 2);
    let wire = Wire::new(&world);
    let client = Client::new(&format!("tcp://{}", wire.handle.local_address())).unwrap();
    let script = ScriptBuf::from_bytes(stranger(1));
    assert_eq!(client.script_subscribe(&script).unwrap(), None);
    assert!(client.script_get_history(&script).unwrap().is_empty());
    let pays = |coin: crate::coins::Coin, fee_sat: u64| {
        sign(&world, &[coin], &[(60_000, stranger(1)), (coin.value_sat - 60_000 - fee_sat, own_script())])
    };

    // Received, then replaced.
    let (first, second) = (pays(coins[0], 1_000), pays(coins[0], 6_000));
    assert_eq!(client.transaction_broadcast_raw(first.tx().raw()).unwrap(), name(&first));
    let seen = next_status(&client, &script);
    let history = client.script_get_history(&script).unwrap();
    assert_eq!((history.len(), history[0].height, history[0].fee), (1, 0, Some(1_000)));
    let balance = client.script_get_balance(&script).unwrap();
    assert_eq!((balance.confirmed, balance.unconfirmed), (0, 60_000));
    client.transaction_broadcast_raw(second.tx().raw()).unwrap();
    assert_ne!(next_status(&client, &script), seen);
    let unspent = client.script_list_unspent(&script).unwrap();
    assert_eq!((unspent.len(), unspent[0].tx_hash, unspent[0].height), (1, name(&second), 0));
    assert!(client.transaction_get(&name(&first)).is_err());

    // A parent that pays nothing comes with its child.
    let parent = pays(coins[1], 0);
    let child = pays(coin_of(&parent, 1), 40_000);
    let packed = client.transaction_broadcast_package_raw(&[parent.tx().raw(), child.tx().raw()]).unwrap();
    assert!(packed.success && packed.errors.is_empty());
    let before = next_status(&client, &script);
    let shown: Vec<_> = client.script_get_history(&script).unwrap().iter().map(|entry| entry.height).collect();
    assert_eq!(shown, [0, 0, -1]);
    assert!(client.mempool_get_info().unwrap().mempoolminfee > 0.0);

    // Confirmed and proved, then undone.
    mine(&world);
    let confirmed = next_status(&client, &script);
    assert_ne!(confirmed, before);
    let tip = client.block_headers_subscribe().unwrap();
    for entry in client.script_get_history(&script).unwrap() {
        assert_eq!(entry.height as usize, tip.height);
        let proof = client.transaction_get_merkle(&entry.tx_hash, tip.height).unwrap();
        assert!(validate_merkle_proof(&entry.tx_hash, &tip.header.merkle_root, &proof));
    }
    assert_eq!(client.script_get_balance(&script).unwrap().confirmed, 180_000);
    call(&world, "invalidateblock", json!([tip.header.block_hash().to_string()]));
    assert_eq!(next_status(&client, &script), before, "as it was before the block");
    assert_eq!(client.script_get_balance(&script).unwrap().unconfirmed, 180_000);
}
