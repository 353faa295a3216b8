//! The plain, slow second opinion: what wallets should be told, computed anew from blocks and the list of the mempool.
//!
//! In:     the world's blocks and raw transactions, asked for by JSON-RPC; nothing of the index, nor of the mempool's tables.
//! Out:    histories, statuses, balances, unspent outputs, heights, fates of outpoints.
//! Fails:  panics.

use std::collections::{BTreeMap, BTreeSet};

use primitives::hash::sha256;
use primitives::{Block, Header, OutPoint, ScriptHash, Transaction, Txid};
use serde_json::{Value, json};
use sim::book::Book;
use stdx::hex;

use crate::coins::{block, call};
use crate::world::World;

/// Chain and mempool as of one moment.
pub struct Slow {
    pub book: Book,
    pub waiting: BTreeMap<Txid, Transaction>,
}

impl Slow {
    /// A book of the world's chain as it is.
    pub fn new(world: &World) -> Slow {
        let mut book = Book::new(world.blocks[0].clone());
        world.blocks[1..].iter().for_each(|block| book.connect(block.clone()));
        let mut slow = Slow { book, waiting: BTreeMap::new() };
        slow.follow(world);
        slow
    }

    /// Brings it to the chain and the mempool as they are now.
    pub fn follow(&mut self, world: &World) {
        call(world, "getrawmempool", json!([])); // waits until the mempool has followed
        let height = call(world, "getblockcount", json!([])).as_u64().unwrap() as u32;
        let hash_at = |height: u32| call(world, "getblockhash", json!([height]));
        while self.book.height() > height || self.book.tip().to_string() != hash_at(self.book.height()) {
            self.book.disconnect();
        }
        while self.book.height() < height {
            let next: Block = block(world, &hash_at(self.book.height() + 1));
            self.book.connect(next);
        }
        let txids = call(world, "getrawmempool", json!([]));
        let parsed = |txid: &Value| {
            let bytes = call(world, "getrawtransaction", json!([txid]));
            let transaction = Transaction::parse(hex::decode(bytes.as_str().unwrap()).unwrap()).unwrap();
            (transaction.tx().txid(), transaction)
        };
        self.waiting = txids.as_array().unwrap().iter().map(parsed).collect();
    }

    fn spent_script(&self, outpoint: &OutPoint) -> ScriptHash {
        match self.waiting.get(&outpoint.txid) {
            Some(parent) => ScriptHash::of(parent.tx().outputs().nth(outpoint.vout as usize).unwrap().script),
            None => ScriptHash::of(&self.book.coin(outpoint).expect("the mempool spends coins").script),
        }
    }

    fn spent_value(&self, outpoint: &OutPoint) -> i64 {
        match self.waiting.get(&outpoint.txid) {
            Some(parent) => parent.tx().outputs().nth(outpoint.vout as usize).unwrap().value_sat,
            None => self.book.coin(outpoint).unwrap().value_sat as i64,
        }
    }

    /// The height that an unconfirmed transaction is shown at.
    fn shown(&self, transaction: &Transaction) -> i64 {
        let on_unconfirmed = transaction.tx().inputs().any(|input| self.waiting.contains_key(&input.outpoint().txid));
        if on_unconfirmed { -1 } else { 0 }
    }

    fn fee(&self, transaction: &Transaction) -> i64 {
        let spent: i64 = transaction.tx().inputs().map(|input| self.spent_value(&input.outpoint())).sum();
        spent - transaction.tx().outputs().map(|output| output.value_sat).sum::<i64>()
    }

    /// The unconfirmed part of a history: height, digits of the txid, fee.
    fn unconfirmed(&self, script: &ScriptHash) -> Vec<(i64, String, i64)> {
        let touches = |transaction: &Transaction| {
            transaction.tx().outputs().any(|output| ScriptHash::of(output.script) == *script)
                || transaction.tx().inputs().any(|input| self.spent_script(&input.outpoint()) == *script)
        };
        let mut all: Vec<_> = (self.waiting.iter())
            .filter(|(_, transaction)| touches(transaction))
            .map(|(txid, transaction)| (self.shown(transaction), txid.to_string(), self.fee(transaction)))
            .collect();
        all.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        all
    }

    /// What `get_mempool` answers.
    pub fn mempool(&self, script: &ScriptHash) -> Value {
        let entry = |(height, txid, fee)| json!({"height": height, "tx_hash": txid, "fee": fee});
        self.unconfirmed(script).into_iter().map(entry).collect()
    }

    /// What `get_history` answers.
    pub fn history(&self, script: &ScriptHash) -> Value {
        let confirmed = self.book.history(script).iter();
        let mut all: Vec<Value> =
            confirmed.map(|entry| json!({"height": entry.height, "tx_hash": entry.txid.to_string()})).collect();
        all.extend(self.mempool(script).as_array().unwrap().clone());
        all.into()
    }

    /// The status.
    pub fn status(&self, script: &ScriptHash) -> Value {
        let mut text = String::new();
        for entry in self.book.history(script) {
            text += &format!("{}:{}:", entry.txid, entry.height);
        }
        for (height, txid, _) in self.unconfirmed(script) {
            text += &format!("{txid}:{height}:");
        }
        if text.is_empty() { Value::Null } else { json!(hex::encode(&sha256(text.as_bytes()))) }
    }

    fn spenders(&self) -> BTreeMap<OutPoint, &Transaction> {
        let inputs = |transaction| {
            let tx: &Transaction = transaction;
            tx.tx().inputs().map(|input| input.outpoint()).collect::<Vec<_>>().into_iter().map(move |it| (it, tx))
        };
        self.waiting.values().flat_map(inputs).collect()
    }

    /// What `get_balance` answers.
    pub fn balance(&self, script: &ScriptHash) -> Value {
        let mut change = 0;
        for transaction in self.waiting.values() {
            let to_it = |output: &primitives::Output<'_>| ScriptHash::of(output.script) == *script;
            change += transaction.tx().outputs().filter(to_it).map(|output| output.value_sat).sum::<i64>();
            let spent = transaction.tx().inputs().map(|input| input.outpoint());
            let of_it = spent.filter(|outpoint| self.spent_script(outpoint) == *script);
            change -= of_it.map(|outpoint| self.spent_value(&outpoint)).sum::<i64>();
        }
        json!({"confirmed": self.book.balance_sat(script), "unconfirmed": change})
    }

    /// Unspent outputs: txid, position, amount, height.
    pub fn unspent(&self, script: &ScriptHash) -> BTreeSet<(String, u64, u64, u64)> {
        let spenders = self.spenders();
        let mut all = BTreeSet::new();
        for (outpoint, coin) in self.book.unspent(script) {
            all.insert((outpoint, coin.value_sat, u64::from(coin.height)));
        }
        for (txid, transaction) in &self.waiting {
            for (vout, output) in transaction.tx().outputs().enumerate() {
                if ScriptHash::of(output.script) == *script {
                    all.insert((OutPoint { txid: *txid, vout: vout as u32 }, output.value_sat as u64, 0));
                }
            }
        }
        all.retain(|(outpoint, ..)| !spenders.contains_key(outpoint));
        all.into_iter().map(|(at, value, height)| (at.txid.to_string(), at.vout.into(), value, height)).collect()
    }

    /// What `transaction.get_height` answers.
    pub fn tx_height(&self, txid: &Txid) -> Value {
        match (self.waiting.contains_key(txid), self.book.tx(txid)) {
            (true, _) => json!(0),
            (false, Some(entry)) => json!(entry.height),
            (false, None) => Value::Null,
        }
    }

    /// What `outpoint.get_status` answers.
    pub fn outpoint(&self, outpoint: &OutPoint) -> Value {
        let funder = match (self.waiting.get(&outpoint.txid), self.book.tx(&outpoint.txid)) {
            (Some(transaction), _) => self.shown(transaction),
            (None, Some(entry)) => i64::from(entry.height),
            (None, None) => return json!({}),
        };
        let waiting = self.spenders().get(outpoint).map(|tx| (tx.tx().txid(), self.shown(tx)));
        let confirmed = || self.book.spender(outpoint).map(|spender| (spender.txid, i64::from(spender.height)));
        match waiting.or_else(confirmed) {
            None => json!({"funder_height": funder}),
            Some((txid, height)) => {
                json!({"funder_height": funder, "spender_txhash": txid.to_string(), "spender_height": height})
            }
        }
    }

    /// The notice of the tip.
    pub fn tip(&self) -> Value {
        let height = self.book.height();
        let header: Header = self.book.header(height);
        json!({"height": height, "hex": hex::encode(&header.encode())})
    }
}
