//! What is asked about a transaction or an output: where it is, who spends it.
//!
//! In:     txids and outpoints.
//! Out:    transactions with their places, spenders.
//! Fails:  [`ViewError`].

use index::rows::txid_prefix;
use primitives::{OutPoint, Transaction, TxNum, Txid, TxoNum};
use store::Table;

use super::{Spender, TxAt, View, ViewError};

impl View {
    /// The confirmed transaction of an identifier; of two with one identifier (BIP 30's exceptions) the later.
    pub fn transaction(&self, txid: &Txid) -> Result<Option<TxAt>, ViewError> {
        self.transaction_before(txid, TxNum::MAX)
    }

    /// The last transaction of an identifier with an ordinal below `end`.
    pub fn transaction_before(&self, txid: &Txid, end: TxNum) -> Result<Option<TxAt>, ViewError> {
        let mut found = None;
        for row in self.snapshot.rows(Table::Txid, txid_prefix(txid), 0)? {
            let tx_num = row?.lo as TxNum;
            if tx_num >= end {
                break;
            }
            let tx = self.tx_at(tx_num)?;
            if tx.txid == *txid {
                found = Some(tx);
            }
        }
        Ok(found)
    }

    /// Ordinal of an output of a transaction.
    pub fn txo_num(&self, tx: &TxAt, vout: u32) -> Result<TxoNum, ViewError> {
        let place = self.place(&mut self.snapshot.places(), tx.tx_num)?;
        Ok(place.block.first_txo_num + u64::from(place.first_output) + u64::from(vout))
    }

    /// The confirmed transaction that spends an output.
    pub fn spender(&self, outpoint: &OutPoint) -> Result<Option<Spender>, ViewError> {
        let Some(funding) = self.transaction(&outpoint.txid)? else { return Ok(None) };
        let output_count = Transaction::parse(funding.bytes.clone()).map_or(0, |parsed| parsed.tx().output_count());
        if outpoint.vout as usize >= output_count {
            return Ok(None);
        }
        let txo_num = self.txo_num(&funding, outpoint.vout)?;
        let Some(row) = self.snapshot.rows(Table::Spender, txo_num, 0)?.next() else { return Ok(None) };
        let TxAt { height, bytes, txid, .. } = self.tx_at(row?.value as TxNum)?;
        let parsed = Transaction::parse(bytes).map_err(|_| ViewError::BlockGone { height })?;
        let input = parsed.tx().inputs().position(|input| input.outpoint() == *outpoint);
        Ok(input.map(|input_index| Spender { txid, input_index: input_index as u32, height }))
    }
}
