//! Transactions that a block may have although the mempool does not: replaced, refused, or still without parents.
//!
//! In:     such transactions.
//! Out:    the last hundred of them.
//! Fails:  never.
//! Source: Bitcoin Core, `AddToCompactExtraTransactions`.

use primitives::Transaction;

use crate::wire::Ids;

/// How many are kept; Core's `DEFAULT_BLOCK_RECONSTRUCTION_EXTRA_TXN`.
const EXTRA_MAX: usize = 100;
/// Larger ones are not kept, in bytes; Core's figure for refused ones.
const EXTRA_BYTES_MAX: usize = 100_000;

/// The last of them.
#[derive(Default)]
pub struct ExtraTxs {
    txs: Vec<(Ids, Transaction)>,
    next: usize,
}

impl ExtraTxs {
    /// Keeps one; the oldest goes.
    pub fn add(&mut self, transaction: Transaction) {
        let tx = transaction.tx();
        if tx.raw().len() > EXTRA_BYTES_MAX {
            return;
        }
        let extra = (Ids { txid: tx.txid(), wtxid: tx.wtxid() }, transaction);
        match self.txs.len() < EXTRA_MAX {
            true => self.txs.push(extra),
            false => self.txs[self.next] = extra,
        }
        self.next = (self.next + 1) % EXTRA_MAX;
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &(Ids, Transaction)> {
        self.txs.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tx(number: u32, padding: usize) -> Transaction {
        let mut bytes = vec![1, 0, 0, 0, 1];
        bytes.extend_from_slice(&[7; 36]);
        bytes.extend_from_slice(&[0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        primitives::encode::put_compact_size(&mut bytes, padding as u64);
        bytes.resize(bytes.len() + padding, 0x6a);
        bytes.extend_from_slice(&number.to_le_bytes());
        Transaction::parse(bytes).unwrap()
    }

    #[test]
    fn the_last_hundred_are_kept_and_large_ones_never() {
        let mut extra = ExtraTxs::default();
        let empty = tx(0, 300).tx().raw().len() - 300;
        for number in 0..250 {
            extra.add(tx(number, 10));
        }
        let mut kept: Vec<u32> = extra.iter().map(|(_, tx)| tx.tx().lock_time()).collect();
        kept.sort_unstable();
        assert_eq!(kept, (150..250).collect::<Vec<u32>>());
        // The length of the padding takes two bytes more from 253 on, and two again from 65,536 on.
        extra.add(tx(1_000, EXTRA_BYTES_MAX - empty - 2));
        extra.add(tx(2_000, EXTRA_BYTES_MAX - empty - 1));
        let has = |number: u32| extra.iter().any(|(_, tx)| tx.tx().lock_time() == number);
        assert!(has(1_000) && !has(2_000));
    }
}
