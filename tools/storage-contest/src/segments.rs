//! The node's own store: segments of all tables, coins, columns and one commit record.
//!
//! In:     sorted batches; each is pushed as one block.
//! Out:    rows of one script, through the store's snapshot, as wallets are served.
//! Fails:  with the store's error.
//!
//! It does more here than the others: an unspent row comes from a coin, so coins (outpoint, amount, height, script of 22
//! bytes) are written, read back when they are spent, and merged; and the columns of blocks and transactions are written.

use crate::engine::{Engine, Outcome};
use crate::workload::{Batch, HISTORY_ROWS, UNSPENT_PUTS};
use primitives::{BlockHash, Coin, Network, OutPoint, Params, Txid};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use stdx::disk::SystemDisk;
use stdx::pool::Pool;
use store::blockfiles::Position;
use store::{Coins, CoinsOptions, Cut, MergedSegment, Options, Store, StoreError, Table, Tip, TxEntry};

pub struct Segments {
    store: Store,
    coins: Coins,
    pool: Pool,
    merge: Option<JoinHandle<Result<MergedSegment, StoreError>>>,
}

fn text(error: StoreError) -> String {
    error.to_string()
}

/// A witness program of 20 bytes that holds the tag.
fn script_of(tag: u64) -> [u8; 22] {
    let mut script = [0x5a; 22];
    script[..2].copy_from_slice(&[0, 20]);
    script[2..10].copy_from_slice(&tag.to_be_bytes());
    script
}

fn tag_of(script: &[u8]) -> u64 {
    u64::from_be_bytes(script[2..10].try_into().expect("22 bytes"))
}

/// An outpoint that looks random, as txids do.
fn outpoint_of(txo_num: u64) -> OutPoint {
    let mut txid = [0; 32];
    for (index, chunk) in txid.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&crate::workload::absent_tag(txo_num * 4 + index as u64).to_le_bytes());
    }
    OutPoint { txid: Txid(txid), vout: (txo_num % 3) as u32 }
}

impl Segments {
    fn tip_of(number: u32) -> Tip {
        Tip { height: number, hash: BlockHash([number as u8; 32]), chainwork: [0; 32] }
    }

    fn push_block(&mut self, number: u32) {
        let tx_count = (HISTORY_ROWS * 10 / 26) as u32;
        let outputs = UNSPENT_PUTS as u32 * 3;
        let entry = |tx: u32| TxEntry { offset: 81 + tx * 300, first_output: tx * outputs / tx_count };
        let txs: Vec<TxEntry> = (0..tx_count).map(entry).collect();
        let position = Position { file: number, offset: 8, size: 81 + tx_count * 300 };
        self.store.push_block(&[number as u8; 80], position, &txs, outputs);
    }

    fn write(&mut self, tip: Option<Tip>, batch: store::Batch) -> Outcome<()> {
        if self.merge.as_ref().is_some_and(JoinHandle::is_finished) {
            self.take_merge()?;
        }
        self.store.commit(Cut { tip, batch, coins: &mut self.coins }, &self.pool).map_err(text)?;
        if self.merge.is_none() {
            self.merge = self.store.pick_merge().map(|job| std::thread::spawn(move || job.run()));
        }
        Ok(())
    }

    fn take_merge(&mut self) -> Outcome<()> {
        match self.merge.take() {
            Some(merge) => self.store.install_merge(merge.join().expect("a merge does not panic")).map_err(text),
            None => Ok(()),
        }
    }
}

impl Engine for Segments {
    fn open(dir: &Path, cache_bytes: u64) -> Outcome<Segments> {
        let options = Options { tag_key_seed: [7; 16] };
        let params = Params::of(Network::Regtest);
        let store = Store::open(Arc::new(SystemDisk::default()), dir, &params, &options).map_err(text)?;
        let options = CoinsOptions { bytes_max: cache_bytes as usize, hash_key: [1, 2] };
        let coins = Coins::new(store.snapshot(), Arc::new(tag_of), &options);
        Ok(Segments { store, coins, pool: Pool::new("contest", 2), merge: None })
    }

    fn commit(&mut self, batch: &Batch) -> Outcome<()> {
        let spent: Vec<OutPoint> =
            batch.unspent.iter().filter(|row| row.amount_sat.is_none()).map(|row| outpoint_of(row.txo_num)).collect();
        let fetch = self.coins.fetch(&self.pool, &spent);
        self.coins.load(fetch).map_err(text)?;
        for row in &batch.unspent {
            let outpoint = outpoint_of(row.txo_num);
            match row.amount_sat {
                Some(value_sat) => {
                    let script = script_of(row.tag);
                    let (height, txo_num) = (batch.number, row.txo_num);
                    let coin = Coin { value_sat, height, coinbase: false, txo_num, script: &script };
                    self.coins.create(&outpoint, coin, row.tag).map_err(text)?;
                }
                None => {
                    let spent = self.coins.spend(&outpoint).map_err(text)?.ok_or("a coin is missing")?;
                    assert_eq!(spent.tag, row.tag);
                }
            }
        }
        self.push_block(batch.number);
        let history = batch.history.iter().map(|row| (row.tag, row.tx_num)).collect();
        self.write(Some(Self::tip_of(batch.number)), store::Batch { history, ..store::Batch::default() })
    }

    fn tip(&self) -> Outcome<Option<u32>> {
        Ok(self.store.snapshot().tip().map(|tip| tip.height))
    }

    fn history(&self, tag: u64, out: &mut Vec<u32>) -> Outcome<()> {
        for row in self.store.snapshot().rows(Table::History, tag, 0).map_err(text)? {
            out.push(row.map_err(text)?.lo as u32);
        }
        Ok(())
    }

    fn unspent(&self, tag: u64, out: &mut Vec<(u64, u64)>) -> Outcome<()> {
        for row in self.store.snapshot().rows(Table::Unspent, tag, 0).map_err(text)? {
            let row = row.map_err(text)?;
            out.push((row.lo, row.value));
        }
        Ok(())
    }

    fn settle(&mut self) -> Outcome<()> {
        while self.merge.is_some() {
            self.take_merge()?;
            let tip = self.store.snapshot().tip();
            self.write(tip, store::Batch::default())?;
        }
        for size in self.store.snapshot().sizes() {
            eprintln!("section {}: {} rows, {} bytes", size.name, size.rows, size.bytes);
        }
        Ok(())
    }
}
