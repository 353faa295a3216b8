//! From a compact block back to the block.
//!
//! In:     a compact block, transactions we know, and later those we had to ask for.
//! Out:    the positions that are missing; then the block, whose merkle root is the header's, and the identifiers of its
//!         transactions, of which those we knew are not hashed again.
//! Fails:  [`ReconstructionError`]; which of them are the sender's fault is [`ReconstructionError::is_misbehaviour`].
//! Source: BIP 152; Bitcoin Core, `PartiallyDownloadedBlock`.
//!
//! [`Reconstruction::finish`] takes the reconstruction away, so a second blocktxn for the same block finds nothing to fill
//! (Core's assertion there could be reached by a peer: CVE-2024-35202).

use std::fmt;

use primitives::encode::{ParseError, put_compact_size};
use primitives::hash::merkle_root;
use primitives::sha256::sha256d_many;
use primitives::{Block, Header, Txid, Wtxid};

use super::compact::{CompactBlock, ShortIdKeys, TxList};

/// Why a compact block does not become a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconstructionError {
    /// Two transactions of the block have one identifier, or too many fall into one place of the table; ask for the block.
    ShortIdCollision,
    /// More or fewer transactions than were asked for.
    WrongCount {
        /// Transactions asked for.
        want: usize,
        /// Transactions sent.
        got: usize,
    },
    /// The merkle root is not the header's: one of our transactions was not the one meant, or one of the sender's. Ask for
    /// the block.
    WrongMerkleRoot,
    /// The transactions together are no block; only its size can be wrong.
    Format(ParseError),
}

impl ReconstructionError {
    /// True where no honest sender can be the cause.
    pub fn is_misbehaviour(&self) -> bool {
        matches!(self, ReconstructionError::WrongCount { .. } | ReconstructionError::Format(_))
    }
}

impl fmt::Display for ReconstructionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReconstructionError::ShortIdCollision => f.write_str("short identifiers collide"),
            ReconstructionError::WrongCount { want, got } => write!(f, "{got} transactions, {want} were asked for"),
            ReconstructionError::WrongMerkleRoot => f.write_str("the merkle root is not the header's"),
            ReconstructionError::Format(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ReconstructionError {}

/// What is known of one position.
enum Slot<T> {
    /// Nothing.
    Missing,
    /// Two transactions we know have its identifier: it is asked for.
    Ambiguous,
    /// The sender sent it along.
    Prefilled(Vec<u8>),
    /// We knew it.
    Known(Ids, T),
}

/// Both identifiers of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// Without its witnesses.
    pub txid: Txid,
    /// With them.
    pub wtxid: Wtxid,
}

/// A block that was put together.
pub struct Rebuilt {
    /// It.
    pub block: Block,
    /// Its transactions' identifiers, in order.
    pub txids: Vec<Txid>,
    /// Those with witnesses, the coinbase's as it is.
    pub wtxids: Vec<Wtxid>,
}

impl<T: Clone> Slot<T> {
    /// True where the transaction has to be asked for.
    fn is_wanted(&self) -> bool {
        matches!(self, Slot::Missing | Slot::Ambiguous)
    }

    /// Takes a transaction with the position's identifier.
    fn offer(&mut self, ids: &Ids, tx: &T) {
        match self {
            Slot::Missing => *self = Slot::Known(*ids, tx.clone()),
            Slot::Known(before, _) if before.wtxid != ids.wtxid => *self = Slot::Ambiguous,
            _ => {}
        }
    }
}

/// A block some transactions of which may still be missing.
pub struct Reconstruction<T> {
    header: Header,
    slots: Vec<Slot<T>>,
    keys: ShortIdKeys,
    table: ShortIdTable,
    /// Where in the block each short identifier's transaction is.
    positions: Vec<u16>,
}

impl<T: AsRef<[u8]> + Clone> Reconstruction<T> {
    /// A compact block, nothing of which is known but what it carries whole.
    pub fn open(compact: CompactBlock) -> Result<Reconstruction<T>, ReconstructionError> {
        let keys = ShortIdKeys::of(&compact.header, compact.nonce);
        let mut slots: Vec<Slot<T>> = (0..compact.tx_count()).map(|_| Slot::Missing).collect();
        for prefilled in compact.prefilled {
            slots[usize::from(prefilled.index)] = Slot::Prefilled(prefilled.tx);
        }
        let positions = (0..slots.len()).filter(|at| slots[*at].is_wanted()).map(|at| at as u16).collect();
        let table = ShortIdTable::new(compact.short_ids)?;
        Ok(Reconstruction { header: compact.header, slots, keys, table, positions })
    }

    /// True where the transaction of this wtxid may be of the block.
    #[inline]
    pub fn wants(&self, wtxid: &Wtxid) -> bool {
        self.table.find(self.keys.short_id(wtxid)).is_some()
    }

    /// Puts a transaction that we know where it belongs, if it may be of the block. Both identifiers are of these bytes.
    pub fn offer(&mut self, ids: &Ids, tx: &T) {
        if let Some(found) = self.table.find(self.keys.short_id(&ids.wtxid)) {
            self.slots[usize::from(self.positions[found])].offer(ids, tx);
        }
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Positions to ask for, rising.
    pub fn missing(&self) -> Vec<u16> {
        (0..self.slots.len()).filter(|at| self.slots[*at].is_wanted()).map(|at| at as u16).collect()
    }

    /// Puts the block together with the transactions asked for; an empty list where none are missing.
    ///
    /// The merkle root is checked here and the witness commitment is not: a block that fails it afterwards may be due to a
    /// collision too, so it is asked for whole and nobody is blamed.
    pub fn finish(self, txs: &TxList) -> Result<Rebuilt, ReconstructionError> {
        let want = self.missing().len();
        if txs.len() != want {
            return Err(ReconstructionError::WrongCount { want, got: txs.len() });
        }
        let here = self.slots.iter().map(|slot| match slot {
            Slot::Missing | Slot::Ambiguous => 0,
            Slot::Prefilled(tx) => tx.len(),
            Slot::Known(_, tx) => tx.as_ref().len(),
        });
        // All at once: memory that is fetched a piece at a time is fetched twice.
        let length = 100 + here.sum::<usize>() + txs.iter().map(<[u8]>::len).sum::<usize>();
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&self.header.encode());
        put_compact_size(&mut bytes, self.slots.len() as u64);
        let mut sent = txs.iter();
        for slot in &self.slots {
            match slot {
                Slot::Missing | Slot::Ambiguous => bytes.extend_from_slice(sent.next().expect("counted above")),
                Slot::Prefilled(tx) => bytes.extend_from_slice(tx),
                Slot::Known(_, tx) => bytes.extend_from_slice(tx.as_ref()),
            }
        }
        let block = Block::parse(bytes).map_err(ReconstructionError::Format)?;
        let (txids, wtxids) = ids_of(&block, &self.slots);
        let leaves: Vec<[u8; 32]> = txids.iter().map(|txid| txid.0).collect();
        match merkle_root(&leaves) {
            (root, false) if root == self.header.merkle_root => Ok(Rebuilt { block, txids, wtxids }),
            _ => Err(ReconstructionError::WrongMerkleRoot),
        }
    }
}

/// The identifiers of a block's transactions; those that were not known are hashed.
fn ids_of<T>(block: &Block, slots: &[Slot<T>]) -> (Vec<Txid>, Vec<Wtxid>) {
    let known = |slot: &Slot<T>| match slot {
        Slot::Known(ids, _) => *ids,
        _ => Ids { txid: Txid([0; 32]), wtxid: Wtxid([0; 32]) },
    };
    let (mut txids, mut wtxids): (Vec<Txid>, Vec<Wtxid>) =
        slots.iter().map(known).map(|ids| (ids.txid, ids.wtxid)).unzip();
    let strange: Vec<usize> = (0..slots.len()).filter(|at| !matches!(slots[*at], Slot::Known(..))).collect();
    let stripped = sha256d_many(strange.len(), |at| block.tx(strange[at]).stripped_parts());
    let whole = sha256d_many(strange.len(), |at| [block.tx(strange[at]).raw(), &[], &[]]);
    for (at, (txid, wtxid)) in strange.into_iter().zip(stripped.into_iter().zip(whole)) {
        (txids[at], wtxids[at]) = (Txid(txid), Wtxid(wtxid));
    }
    (txids, wtxids)
}

/// Most identifiers looked at for one: Core allows 12 in a bucket, which honest identifiers exceed once in a million blocks.
const PROBES_MAX: usize = 24;

/// Short identifiers by value, for one look-up for each transaction of a mempool.
///
/// Open addressing at a quarter full: most transactions are not in the block and are told so by one empty place. The sender
/// chooses the identifiers, so a crowd at one place ends the attempt instead of slowing it.
struct ShortIdTable {
    short_ids: Vec<u64>,
    /// Position in `short_ids` plus one; 0 is empty.
    places: Vec<u32>,
}

impl ShortIdTable {
    fn new(short_ids: Vec<u64>) -> Result<ShortIdTable, ReconstructionError> {
        let places = vec![0; (4 * short_ids.len()).next_power_of_two()];
        let mut table = ShortIdTable { short_ids, places };
        for index in 0..table.short_ids.len() {
            let short_id = table.short_ids[index];
            let free = table.probes(short_id).find(|place| match table.places[*place] {
                0 => true,
                taken => table.short_ids[taken as usize - 1] == short_id,
            });
            match free {
                Some(place) if table.places[place] == 0 => table.places[place] = index as u32 + 1,
                _ => return Err(ReconstructionError::ShortIdCollision),
            }
        }
        Ok(table)
    }

    fn probes(&self, short_id: u64) -> impl Iterator<Item = usize> + use<> {
        let mask = self.places.len() - 1;
        let first = short_id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (0..PROBES_MAX).map(move |step| (first as usize + step) & mask)
    }

    #[inline]
    fn find(&self, short_id: u64) -> Option<usize> {
        for place in self.probes(short_id) {
            let taken = self.places[place].checked_sub(1)? as usize;
            if self.short_ids[taken] == short_id {
                return Some(taken);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::CompactBlock;
    use primitives::Transaction;
    use stdx::random::Random;

    /// A transaction without meaning: one input, one output, told apart by `number`.
    fn tx(number: u64) -> Vec<u8> {
        let mut bytes = vec![1, 0, 0, 0, 1];
        bytes.extend_from_slice(&[7; 36]);
        bytes.extend_from_slice(&[0, 0xff, 0xff, 0xff, 0xff, 1]);
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 0, 0]);
        bytes
    }

    fn block(txs: &[Vec<u8>]) -> Block {
        let mut header = primitives::Params::of(primitives::Network::Main).genesis;
        let txids: Vec<[u8; 32]> = txs.iter().map(|tx| primitives::hash::sha256d(tx)).collect();
        header.merkle_root = merkle_root(&txids).0;
        let mut bytes = header.encode().to_vec();
        put_compact_size(&mut bytes, txs.len() as u64);
        txs.iter().for_each(|tx| bytes.extend_from_slice(tx));
        Block::parse(bytes).unwrap()
    }

    fn known(txs: &[Vec<u8>]) -> Vec<(Ids, Transaction)> {
        let ids = |tx: &Transaction| Ids { txid: tx.tx().txid(), wtxid: tx.tx().wtxid() };
        txs.iter().map(|tx| Transaction::parse(tx.clone()).unwrap()).map(|tx| (ids(&tx), tx)).collect()
    }

    fn start(
        compact: CompactBlock,
        known: &[(Ids, Transaction)],
    ) -> Result<Reconstruction<Transaction>, ReconstructionError> {
        let mut reconstruction = Reconstruction::open(compact)?;
        for (ids, tx) in known.iter().filter(|(ids, _)| reconstruction.wants(&ids.wtxid)).collect::<Vec<_>>() {
            reconstruction.offer(ids, tx);
        }
        Ok(reconstruction)
    }

    #[test]
    fn a_block_comes_back_from_any_part_of_its_transactions() {
        let mut random = Random::new(152);
        for count in [1, 2, 3, 40, 300] {
            let txs: Vec<Vec<u8>> = (0..count).map(tx).collect();
            let block = block(&txs);
            let strangers: Vec<Vec<u8>> = (0..200).map(|number| tx(1_000_000 + number)).collect();
            for share in [0, 1, 50, 99, 100] {
                let mut have: Vec<Vec<u8>> = txs.iter().filter(|_| random.chance(share, 100)).cloned().collect();
                have.extend_from_slice(&strangers);
                random.shuffle(&mut have);
                let compact = CompactBlock::of(&block, random.next_u64());
                let reconstruction = start(compact, &known(&have)).unwrap();
                let missing = reconstruction.missing();
                let lacks = |index: &usize| *index > 0 && !have.contains(&txs[*index]);
                let want: Vec<u16> = (0..txs.len()).filter(lacks).map(|index| index as u16).collect();
                assert_eq!(missing, want, "{share} % of {count}");
                let sent = TxList::of(missing.iter().map(|index| &txs[usize::from(*index)][..]));
                let rebuilt = reconstruction.finish(&sent).unwrap();
                assert_eq!(rebuilt.block.bytes(), block.bytes());
                assert_eq!(rebuilt.txids, block.txs().map(|tx| tx.txid()).collect::<Vec<_>>());
                assert_eq!(rebuilt.wtxids, block.txs().map(|tx| tx.wtxid()).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_wrong_count_is_the_sender_s_fault_and_a_wrong_transaction_need_not_be() {
        let txs: Vec<Vec<u8>> = (0..5).map(tx).collect();
        let block = block(&txs);
        #[track_caller]
        fn check(block: &Block, have: &[Vec<u8>], sent: &[Vec<u8>], want: ReconstructionError) {
            let reconstruction = start(CompactBlock::of(block, 9), &known(have)).unwrap();
            let got = reconstruction.finish(&TxList::of(sent.iter().map(|tx| &tx[..]))).err().unwrap();
            assert_eq!(got, want);
            assert_eq!(got.is_misbehaviour(), want != ReconstructionError::WrongMerkleRoot);
        }
        check(&block, &txs[..3], &txs[3..4], ReconstructionError::WrongCount { want: 2, got: 1 });
        check(&block, &txs, &txs[3..4], ReconstructionError::WrongCount { want: 0, got: 1 });
        check(&block, &txs[..3], &[txs[4].clone(), txs[3].clone()], ReconstructionError::WrongMerkleRoot);
    }

    #[test]
    fn equal_identifiers_and_crowded_tables_end_the_attempt() {
        let mut compact = CompactBlock::of(&block(&[tx(0), tx(1), tx(2)]), 3);
        compact.short_ids[1] = compact.short_ids[0];
        assert_eq!(start(compact.clone(), &[]).err(), Some(ReconstructionError::ShortIdCollision));
        // Identifiers chosen to begin at one place of the table; Core's limit is 12 a bucket.
        let table = |ids: &[u64]| {
            ShortIdTable::new(ids.to_vec()).map(|table| ids.iter().filter(|id| table.find(**id).is_some()).count())
        };
        let mask = 4 * 64 - 1u64;
        let place = |id: &u64| id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & mask;
        let crowd: Vec<u64> = (0..1_000_000).filter(|id| place(id) == 5).take(64).collect();
        assert_eq!(table(&crowd[..24]).map_err(|_| ()), Ok(24));
        assert_eq!(table(&crowd), Err(ReconstructionError::ShortIdCollision));
    }

    #[test]
    fn two_known_transactions_of_one_identifier_are_asked_for() {
        fn ids(number: u8) -> Ids {
            Ids { txid: Txid([9; 32]), wtxid: Wtxid([number; 32]) }
        }
        #[track_caller]
        fn check(offers: &[u8], want_wanted: bool) {
            let mut slot = Slot::Missing;
            offers.iter().for_each(|offer| slot.offer(&ids(*offer), offer));
            assert_eq!(slot.is_wanted(), want_wanted, "{offers:?}");
        }
        check(&[], true);
        check(&[1], false);
        check(&[1, 1], false);
        check(&[1, 2], true);
        check(&[1, 2, 1], true);
        let mut slot = Slot::Prefilled(vec![]);
        slot.offer(&ids(1), &1);
        assert!(matches!(slot, Slot::Prefilled(_)));
    }

    #[test]
    #[ignore = "a measurement"]
    fn speed() {
        let txs: Vec<Vec<u8>> = (0..3_000).map(tx).collect();
        let block = block(&txs);
        let mut have: Vec<Vec<u8>> = (0..100_000).map(|number| tx(1 << 32 | number)).collect();
        have.extend_from_slice(&txs);
        let known = known(&have);
        let mut least = [f64::INFINITY; 2];
        for nonce in 0..20 {
            let compact = CompactBlock::of(&block, nonce);
            let begin = std::time::Instant::now();
            let reconstruction = start(compact, &known).unwrap();
            least[0] = least[0].min(begin.elapsed().as_secs_f64());
            let begin = std::time::Instant::now();
            reconstruction.finish(&TxList::of([])).unwrap();
            least[1] = least[1].min(begin.elapsed().as_secs_f64());
        }
        println!("find {:.2} ms, assemble and check {:.2} ms", least[0] * 1e3, least[1] * 1e3);
    }
}
