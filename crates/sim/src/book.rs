//! The plain, slow model of everything a node knows about its best chain.
//!
//! In:     valid blocks, connected and disconnected one at a time.
//! Out:    coins, history and unspent outputs by script, transactions, spenders, balances, statuses.
//! Fails:  panics where a block spends what is not there: blocks are judged before they come here.
//! Source: the Electrum protocol for the order of a history and the status; Core's `CCoinsViewCache::AddCoin` for
//!         outputs that are never coins: those have no history either, nor has the genesis block's.

use std::collections::{BTreeMap, HashMap};

use primitives::hash::sha256;
use primitives::script::is_unspendable;
use primitives::{Block, BlockHash, Header, OutPoint, ScriptHash, Tx, Txid};

use crate::muhash::{MuHash, coin_bytes};

/// An unspent output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookCoin {
    /// Amount.
    pub value_sat: u64,
    /// Height of its block.
    pub height: u32,
    /// Made by a coinbase.
    pub coinbase: bool,
    /// Its number among all outputs of the chain.
    pub txo_num: u64,
    /// Output script.
    pub script: Vec<u8>,
}

/// A transaction of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Height of its block.
    pub height: u32,
    /// Position in the block.
    pub position: u32,
    /// The transaction.
    pub txid: Txid,
}

/// Where an output was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spender {
    /// The spending transaction.
    pub txid: Txid,
    /// Its input.
    pub vin: u32,
    /// Height of its block.
    pub height: u32,
}

#[derive(Clone)]
struct Page {
    block: Block,
    /// What it spent, in order, the coinbase's left out.
    spent: Vec<(OutPoint, BookCoin)>,
    first_txo_num: u64,
}

/// The model.
#[derive(Clone, Default)]
pub struct Book {
    pages: Vec<Page>,
    coins: HashMap<OutPoint, BookCoin>,
    history: HashMap<ScriptHash, Vec<Entry>>,
    unspent: HashMap<ScriptHash, BTreeMap<u64, OutPoint>>,
    txs: HashMap<Txid, Entry>,
    spenders: HashMap<OutPoint, Spender>,
    txo_count: u64,
}

impl Book {
    /// A book that holds the genesis block.
    pub fn new(genesis: Block) -> Book {
        let mut book = Book::default();
        book.connect(genesis);
        book
    }

    /// Height of the last block.
    pub fn height(&self) -> u32 {
        self.pages.len() as u32 - 1
    }

    /// Hash of the last block.
    pub fn tip(&self) -> BlockHash {
        self.header(self.height()).hash()
    }

    /// Header at a height.
    pub fn header(&self, height: u32) -> Header {
        *self.pages[height as usize].block.header()
    }

    /// Block at a height.
    pub fn block(&self, height: u32) -> &Block {
        &self.pages[height as usize].block
    }

    /// Outputs of all blocks so far; the next one's number.
    pub fn txo_count(&self) -> u64 {
        self.txo_count
    }

    /// Adds a block after the last one.
    pub fn connect(&mut self, block: Block) {
        let height = self.pages.len() as u32;
        let mut page = Page { block: block.clone(), spent: Vec::new(), first_txo_num: self.txo_count };
        for tx in block.txs() {
            let entry = Entry { height, position: tx.index() as u32, txid: tx.txid() };
            let mut touched = std::collections::BTreeSet::new();
            for (vin, input) in tx.inputs().enumerate().filter(|_| tx.index() > 0) {
                let outpoint = input.outpoint();
                let coin = self.take(&outpoint);
                touched.insert(ScriptHash::of(&coin.script));
                self.spenders.insert(outpoint, Spender { txid: entry.txid, vin: vin as u32, height });
                page.spent.push((outpoint, coin));
            }
            for (vout, output) in tx.outputs().enumerate() {
                let txo_num = self.txo_count;
                self.txo_count += 1;
                // Core never adds the genesis block's output, nor what nothing can spend.
                if height > 0 && !is_unspendable(output.script) {
                    touched.insert(ScriptHash::of(output.script));
                    let (value_sat, script) = (output.value_sat as u64, output.script.to_vec());
                    let coin = BookCoin { value_sat, height, coinbase: tx.is_coinbase(), txo_num, script };
                    self.put(OutPoint { txid: entry.txid, vout: vout as u32 }, coin);
                }
            }
            touched.into_iter().for_each(|script| self.history.entry(script).or_default().push(entry));
            self.txs.insert(entry.txid, entry);
        }
        self.pages.push(page);
    }

    /// Takes the last block off again.
    pub fn disconnect(&mut self) -> Block {
        assert!(self.pages.len() > 1, "the genesis block stays");
        let Page { block, mut spent, first_txo_num } = self.pages.pop().expect("more than one");
        self.txo_count = first_txo_num;
        let txs: Vec<Tx<'_>> = block.txs().collect();
        for tx in txs.into_iter().rev() {
            let txid = tx.txid();
            let mut touched: Vec<ScriptHash> = Vec::new();
            for (vout, output) in tx.outputs().enumerate() {
                if !is_unspendable(output.script) {
                    touched.push(ScriptHash::of(output.script));
                    self.take(&OutPoint { txid, vout: vout as u32 });
                }
            }
            for _ in tx.inputs().filter(|_| tx.index() > 0) {
                let (outpoint, coin) = spent.pop().expect("a coin for each input");
                touched.push(ScriptHash::of(&coin.script));
                self.spenders.remove(&outpoint);
                self.put(outpoint, coin);
            }
            touched.sort_unstable();
            touched.dedup();
            for script in touched {
                let history = self.history.get_mut(&script).expect("the transaction is in it");
                assert_eq!(history.pop().map(|entry| entry.txid), Some(txid));
                if history.is_empty() {
                    self.history.remove(&script);
                }
            }
            self.txs.remove(&txid);
        }
        block
    }

    fn put(&mut self, outpoint: OutPoint, coin: BookCoin) {
        self.unspent.entry(ScriptHash::of(&coin.script)).or_default().insert(coin.txo_num, outpoint);
        self.coins.insert(outpoint, coin);
    }

    fn take(&mut self, outpoint: &OutPoint) -> BookCoin {
        let coin = self.coins.remove(outpoint).unwrap_or_else(|| panic!("{outpoint:?} is no coin"));
        let script = ScriptHash::of(&coin.script);
        let unspent = self.unspent.get_mut(&script).expect("a coin is in its script's list");
        unspent.remove(&coin.txo_num);
        if unspent.is_empty() {
            self.unspent.remove(&script);
        }
        coin
    }

    /// The coin an outpoint names.
    pub fn coin(&self, outpoint: &OutPoint) -> Option<&BookCoin> {
        self.coins.get(outpoint)
    }

    /// All coins, in no order.
    pub fn coins(&self) -> impl ExactSizeIterator<Item = (&OutPoint, &BookCoin)> {
        self.coins.iter()
    }

    /// Every script that some coin ever had on this chain.
    pub fn scripts(&self) -> impl ExactSizeIterator<Item = &ScriptHash> {
        self.history.keys()
    }

    /// Transactions that touch a script, oldest first.
    pub fn history(&self, script: &ScriptHash) -> &[Entry] {
        self.history.get(script).map_or(&[], Vec::as_slice)
    }

    /// Coins of a script, oldest first.
    pub fn unspent(&self, script: &ScriptHash) -> Vec<(OutPoint, &BookCoin)> {
        let outpoints = self.unspent.get(script).into_iter().flat_map(BTreeMap::values);
        outpoints.map(|outpoint| (*outpoint, &self.coins[outpoint])).collect()
    }

    /// Sum of a script's coins.
    pub fn balance_sat(&self, script: &ScriptHash) -> u64 {
        self.unspent(script).iter().map(|(_, coin)| coin.value_sat).sum()
    }

    /// The Electrum protocol's status: SHA-256 of `txid:height:` for each transaction; none without a history.
    pub fn status(&self, script: &ScriptHash) -> Option<[u8; 32]> {
        let history = self.history.get(script)?;
        let text: String = history.iter().map(|entry| format!("{}:{}:", entry.txid, entry.height)).collect();
        Some(sha256(text.as_bytes()))
    }

    /// Where a transaction is.
    pub fn tx(&self, txid: &Txid) -> Option<&Entry> {
        self.txs.get(txid)
    }

    /// All transactions, in no order.
    pub fn txs(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.txs.values()
    }

    /// What spent an output.
    pub fn spender(&self, outpoint: &OutPoint) -> Option<Spender> {
        self.spenders.get(outpoint).copied()
    }

    /// All outputs that were spent, and by what.
    pub fn spenders(&self) -> impl ExactSizeIterator<Item = (&OutPoint, &Spender)> {
        self.spenders.iter()
    }

    /// The coin set's hash, as `gettxoutsetinfo muhash` gives it.
    pub fn muhash(&self) -> [u8; 32] {
        let mut hash = MuHash::default();
        for (outpoint, coin) in &self.coins {
            hash.insert(&coin_bytes(outpoint, coin.height, coin.coinbase, coin.value_sat, &coin.script));
        }
        hash.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forge::{Forge, ForgeOptions};
    use primitives::{Network, Params};
    use stdx::pool::Pool;

    fn answers(book: &Book) -> impl PartialEq + std::fmt::Debug + use<> {
        let scripts: std::collections::BTreeSet<ScriptHash> = book.scripts().copied().collect();
        let rows: Vec<_> = scripts
            .iter()
            .map(|s| (book.history(s).to_vec(), book.balance_sat(s), book.unspent(s).len(), book.status(s)))
            .collect();
        (rows, book.txs.len(), book.spenders.len(), book.muhash(), book.txo_count(), book.tip())
    }

    #[test]
    fn disconnecting_undoes_connecting() {
        let pool = Pool::new("test", 2);
        let options = ForgeOptions { blocks: 125, inputs: 600, ..ForgeOptions::default() };
        let mut forge = Forge::new(&options, &pool).unwrap();
        let mut book = Book::new(Block::parse(Params::of(Network::Regtest).genesis_block()).unwrap());
        for _ in 0..110 {
            book.connect(Block::parse(forge.next_block(&pool).unwrap().bytes).unwrap());
        }
        let at_110 = answers(&book);
        for _ in 0..15 {
            book.connect(Block::parse(forge.next_block(&pool).unwrap().bytes).unwrap());
        }
        let at_125 = answers(&book);
        let taken: Vec<Block> = (0..15).map(|_| book.disconnect()).collect();
        assert!(answers(&book) == at_110);
        taken.into_iter().rev().for_each(|block| book.connect(block));
        assert!(answers(&book) == at_125);
    }

    #[test]
    fn amounts_add_up_to_what_was_mined() {
        let pool = Pool::new("test", 2);
        let options = ForgeOptions { blocks: 120, inputs: 500, ..ForgeOptions::default() };
        let mut forge = Forge::new(&options, &pool).unwrap();
        let mut book = Book::new(Block::parse(Params::of(Network::Regtest).genesis_block()).unwrap());
        let mut mined = 0;
        while let Some(block) = forge.next_block(&pool) {
            let block = Block::parse(block.bytes).unwrap();
            mined += block.tx(0).outputs().map(|output| output.value_sat as u64).sum::<u64>();
            book.connect(block);
        }
        // Fees are mined again; what is left in coins is what coinbases paid less what others gave up in fees.
        let in_coins: u64 = book.coins().map(|(_, coin)| coin.value_sat).sum();
        let by_script: u64 = book.scripts().map(|script| book.balance_sat(script)).sum();
        assert_eq!(in_coins, by_script);
        assert!(in_coins <= mined && in_coins > mined / 2);
    }
}
