//! Bitcoin Development Kit's own way to follow a chain over Electrum, through a whole life of a wallet.
//!
//! In:     a world with coins, the crate `bdk_electrum`.
//! Out:    scanned, received, confirmed and anchored, reorganised away, spent, replaced, packed.
//! Fails:  where a sync misses a transaction, an anchor or an eviction, or its chain is not ours.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bdk_electrum::BdkElectrumClient;
use bdk_electrum::bdk_core::bitcoin::consensus::deserialize;
use bdk_electrum::bdk_core::bitcoin::hashes::Hash;
use bdk_electrum::bdk_core::bitcoin::{BlockHash, ScriptBuf, Transaction as BitcoinTransaction, Txid};
use bdk_electrum::bdk_core::spk_client::{FullScanRequest, SyncRequest};
use bdk_electrum::bdk_core::{BlockId, CheckPoint, ConfirmationBlockTime, TxUpdate};
use bdk_electrum::electrum_client::{Client, ElectrumApi};
use primitives::Transaction;
use serde_json::json;

use crate::coins::{COIN_SAT, call, coin_of, digits, mine, mine_coins, mine_only, own_script, sign, stranger};
use crate::wire::Wire;
use crate::world::World;

/// Longest wait for a tip, on a machine that does other things besides.
const PATIENCE: Duration = Duration::from_secs(60);
/// Scripts asked for in one batch; BDK's wallets use 5 to 50.
const BATCH: usize = 10;

fn txid(transaction: &Transaction) -> Txid {
    Txid::from_byte_array(transaction.tx().txid().0)
}

fn theirs(transaction: &Transaction) -> BitcoinTransaction {
    deserialize(transaction.tx().raw()).unwrap()
}

/// What a wallet remembers from one sync to the next.
struct Wallet<'a> {
    client: BdkElectrumClient<Client>,
    world: &'a World,
    tip: CheckPoint,
    /// What it believes to be unconfirmed.
    waiting: BTreeSet<Txid>,
}

impl Wallet<'_> {
    /// Syncs the key's script and follows the chain; the new tip is that of the node.
    fn sync(&mut self) -> TxUpdate<ConfirmationBlockTime> {
        // The server tells of a tip once the mempool has followed it.
        let best = call(self.world, "getbestblockhash", json!([]));
        let begin = Instant::now();
        let told = || self.client.inner.block_headers_subscribe().unwrap().header.block_hash().to_string();
        while told() != best.as_str().unwrap() {
            assert!(begin.elapsed() < PATIENCE, "the server does not follow");
            std::thread::sleep(Duration::from_millis(1));
        }
        let expected: Vec<_> = self.waiting.iter().map(|txid| (ScriptBuf::from_bytes(own_script()), *txid)).collect();
        let request = SyncRequest::<u32>::builder_at(1_000)
            .chain_tip(self.tip.clone())
            .spks_with_indexes([(0, ScriptBuf::from_bytes(own_script()))])
            .expected_spk_txids(expected);
        let answer = self.client.sync(request, BATCH, true).unwrap();
        self.follow(answer.chain_update.unwrap());
        let update = answer.tx_update;
        self.waiting = update.seen_ats.iter().map(|(txid, _)| *txid).collect();
        update
    }

    fn follow(&mut self, tip: CheckPoint) {
        let hash = call(self.world, "getbestblockhash", json!([]));
        assert_eq!(tip.hash().to_string(), hash.as_str().unwrap());
        self.tip = tip;
    }

    fn height(&self) -> u32 {
        call(self.world, "getblockcount", json!([])).as_u64().unwrap() as u32
    }
}

/// Where a transaction is anchored; none where it is not.
fn anchored(update: &TxUpdate<ConfirmationBlockTime>, id: Txid) -> Option<u32> {
    update.anchors.iter().find(|(_, anchored)| *anchored == id).map(|(anchor, _)| anchor.block_id.height)
}

fn seen(update: &TxUpdate<ConfirmationBlockTime>, id: Txid) -> bool {
    update.seen_ats.contains(&(id, 1_000))
}

#[test]
fn bdk_lives_through_a_payment() {
    let world = World::new("electrum-bdk");
    let coins = mine_coins(&world, 2);
    let wire = Wire::new(&world);
    let client = Client::new(&format!("tcp://{}", wire.handle.local_address())).unwrap();
    let genesis = BlockHash::from_byte_array(world.blocks[0].header().hash().0);
    let tip = CheckPoint::new(BlockId { height: 0, hash: genesis });
    let mut wallet =
        Wallet { client: BdkElectrumClient::new(client), world: &world, tip: tip.clone(), waiting: BTreeSet::new() };

    // A wallet that is restored finds its history behind a gap, and stops after one.
    let scripts = |n: u32| if n == 3 { own_script() } else { stranger(100 + n as u8) };
    let keychain = (0..100).map(move |n| (n, ScriptBuf::from_bytes(scripts(n))));
    let request = FullScanRequest::builder_at(1_000).chain_tip(tip).spks_for_keychain("own", keychain);
    let found = wallet.client.full_scan(request, 20, BATCH, true).unwrap();
    assert_eq!((found.last_active_indices.get("own"), found.tx_update.anchors.len()), (Some(&3), 2));
    wallet.follow(found.chain_update.unwrap());

    // Received, confirmed, reorganised away.
    let change = coins[0].value_sat - 1_001_000;
    let received = sign(&world, &coins[..1], &[(1_000_000, own_script()), (change, own_script())]);
    call(&world, "sendrawtransaction", json!([digits(&received)]));
    let update = wallet.sync();
    assert!(seen(&update, txid(&received)) && anchored(&update, txid(&received)).is_none());
    assert!(update.txs.iter().any(|tx| **tx == theirs(&received)));
    mine(&world);
    let update = wallet.sync();
    assert_eq!(anchored(&update, txid(&received)), Some(wallet.height()));
    call(&world, "invalidateblock", json!([call(&world, "getbestblockhash", json!([]))]));
    mine_only(&world, 1, &[]);
    mine_only(&world, 2, &[]);
    let update = wallet.sync();
    assert!(seen(&update, txid(&received)) && anchored(&update, txid(&received)).is_none());

    // Spent, replaced: the first is missed at once.
    let coin = coin_of(&received, 0);
    let pays = |fee_sat: u64| sign(&world, &[coin], &[(500_000, stranger(1)), (500_000 - fee_sat, own_script())]);
    let [first, second] = [pays(1_000), pays(20_000)];
    assert_eq!(wallet.client.transaction_broadcast(&theirs(&first)).unwrap(), txid(&first));
    assert!(seen(&wallet.sync(), txid(&first)));
    wallet.client.transaction_broadcast(&theirs(&second)).unwrap();
    let update = wallet.sync();
    assert!(seen(&update, txid(&second)) && update.evicted_ats.contains(&(txid(&first), 1_000)));

    // Packed, and all confirmed.
    let parent = sign(&world, &coins[1..2], &[(COIN_SAT, own_script())]);
    let child = sign(&world, &[coin_of(&parent, 0)], &[(COIN_SAT - 40_000, own_script())]);
    let packed = wallet.client.inner.transaction_broadcast_package_raw(&[parent.tx().raw(), child.tx().raw()]);
    assert!(packed.unwrap().success);
    assert!(wallet.sync().seen_ats.len() == 4);
    mine(&world);
    let (update, height) = (wallet.sync(), wallet.height());
    for one in [&received, &second, &parent, &child] {
        assert_eq!(anchored(&update, txid(one)), Some(height));
    }
    assert!(update.seen_ats.is_empty() && update.evicted_ats.is_empty());
}
