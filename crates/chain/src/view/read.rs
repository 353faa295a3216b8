//! Reading transactions out of the block files, many at once.
//!
//! In:     ordinals, in rising order where there are many.
//! Out:    bytes, or identifiers only.
//! Fails:  [`ViewError`].
//!
//! Transactions that lie near each other come with one read, and their hashes are computed two at a time.

use primitives::sha256::{Parts, sha256d_many};
use primitives::txid::{stripped_parts_of, txid_of};
use primitives::{TxNum, Txid};
use store::{Places, TxPlace};

use super::{GENESIS_POSITION, TxAt, View, ViewError};

/// Bytes between two transactions of a block that are read along rather than skipped: a read costs about as much as
/// copying 8 KiB.
const GAP_BYTES_MAX: u32 = 8 * 1024;
/// Bytes of one read, unless one transaction is longer.
const READ_BYTES_MAX: u32 = 256 * 1024;
/// Blocks at the tip whose identifiers are taken from their merkle trees, made once and remembered: when a block comes,
/// thousands of scripts are asked about at once, and a transaction that pays many of them would be read for each.
const RECENT_BLOCKS: u32 = 2;
/// Bytes held while identifiers are computed, unless one read is longer.
const HELD_BYTES_MAX: usize = 1024 * 1024;

/// A part of a block: from `start` to `end`, relative to the block.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

impl View {
    /// Where the transaction of an ordinal lies.
    pub(super) fn place(&self, places: &mut Places<'_>, tx_num: TxNum) -> Result<TxPlace, ViewError> {
        places.tx(tx_num)?.ok_or(ViewError::NoSuchOrdinal { ordinal: tx_num.into() })
    }

    /// Offsets of its first byte and of the byte after its last.
    fn span_of(&self, place: &TxPlace) -> Result<Span, ViewError> {
        let size = match place.block.position {
            GENESIS_POSITION => self.params.genesis_block().len() as u32,
            position => position.size,
        };
        let (start, end) = (place.offset, place.end.unwrap_or(size));
        if start < end && end <= size { Ok(Span { start, end }) } else { Err(gone(place)) }
    }

    fn read(&self, place: &TxPlace, span: Span) -> Result<Vec<u8>, ViewError> {
        if place.block.position == GENESIS_POSITION {
            return Ok(self.params.genesis_block()[span.start as usize..span.end as usize].to_vec());
        }
        Ok(self.files.read_at(place.block.position, span.start, span.end - span.start)?)
    }

    /// The transaction at a place.
    pub(super) fn read_tx(&self, place: &TxPlace) -> Result<TxAt, ViewError> {
        let bytes = self.read(place, self.span_of(place)?)?;
        let txid = txid_of(&bytes).map_err(|_| gone(place))?;
        Ok(TxAt { tx_num: place.tx_num, height: place.height, position: place.position(), bytes, txid })
    }

    /// The transaction of an ordinal.
    pub fn tx_at(&self, tx_num: TxNum) -> Result<TxAt, ViewError> {
        self.read_tx(&self.place(&mut self.snapshot.places(), tx_num)?)
    }

    /// Identifiers of the transactions at `places`, which rise, in order.
    pub(super) fn txids_at(&self, places: &[TxPlace]) -> Result<Vec<Txid>, ViewError> {
        let recent = self.tip().height.saturating_sub(RECENT_BLOCKS - 1);
        let (old, new) = places.split_at(places.partition_point(|place| place.height < recent));
        let mut txids = self.txids_read(old)?;
        for of_block in new.chunk_by(|a, b| a.height == b.height) {
            let gone = || gone(&of_block[0]);
            let tree = self.merkle_tree(of_block[0].height)?.ok_or_else(gone)?;
            for place in of_block {
                txids.push(Txid(*tree.leaves().get(place.position() as usize).ok_or_else(gone)?));
            }
        }
        Ok(txids)
    }

    /// The same out of the block files.
    fn txids_read(&self, places: &[TxPlace]) -> Result<Vec<Txid>, ViewError> {
        let mut txids = Vec::with_capacity(places.len());
        // Reads not hashed yet: bytes, their offset in the block, and how many of the places they hold.
        let mut held: Vec<(Vec<u8>, u32, usize)> = Vec::new();
        let (mut held_bytes, mut held_places, mut next) = (0, 0, 0);
        while next < places.len() {
            let (span, count) = self.one_read(&places[next..])?;
            let bytes = self.read(&places[next], span)?;
            held_bytes += bytes.len();
            held.push((bytes, span.start, count));
            next += count;
            if held_bytes >= HELD_BYTES_MAX || next == places.len() {
                self.hash_held(&held, &places[held_places..next], &mut txids)?;
                (held_bytes, held_places) = (0, next);
                held.clear();
            }
        }
        Ok(txids)
    }

    /// What to read next, and how many of the first places it holds.
    fn one_read(&self, places: &[TxPlace]) -> Result<(Span, usize), ViewError> {
        let mut all = self.span_of(&places[0])?;
        let mut count = 1;
        for place in places[1..].iter().take_while(|place| place.height == places[0].height) {
            let span = self.span_of(place)?;
            if span.start < all.end || span.start - all.end > GAP_BYTES_MAX || span.end - all.start > READ_BYTES_MAX {
                break;
            }
            (all.end, count) = (span.end, count + 1);
        }
        Ok((all, count))
    }

    fn hash_held(
        &self,
        held: &[(Vec<u8>, u32, usize)],
        places: &[TxPlace],
        txids: &mut Vec<Txid>,
    ) -> Result<(), ViewError> {
        let mut parts: Vec<Parts<'_>> = Vec::with_capacity(places.len());
        for (bytes, start, count) in held {
            for place in &places[parts.len()..parts.len() + count] {
                let span = self.span_of(place)?;
                let raw = &bytes[(span.start - start) as usize..(span.end - start) as usize];
                parts.push(stripped_parts_of(raw).map_err(|_| gone(place))?);
            }
        }
        txids.extend(sha256d_many(parts.len(), |index| parts[index]).into_iter().map(Txid));
        Ok(())
    }
}

/// The block files no longer hold what they held.
fn gone(place: &TxPlace) -> ViewError {
    ViewError::BlockGone { height: place.height }
}
