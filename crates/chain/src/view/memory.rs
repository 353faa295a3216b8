//! Transactions and outputs that readers asked for lately, by their ordinals.
//!
//! In:     what the columns and the block files said of an ordinal.
//! Out:    the same without reading them again: wallets ask for a history at every start, and for that of a script they
//!         share with thousands at every block.
//! Fails:  never; what is not here is read.
//!
//! A table of sets, each of which keeps the ordinals that were asked for last. It is bounded in bytes, which are taken when
//! they are first needed. An ordinal means another transaction after a reorganisation: a view that is cut back begins
//! with an empty memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use primitives::{TxNum, Txid, TxoNum};

/// Parts of the table, each behind a lock of its own: 16 threads that answer rarely meet.
const PARTS: usize = 64;
/// Ordinals in a set.
const WAYS: usize = 8;
/// Odd, and without a pattern in its bits: neighbouring ordinals go to sets far from each other.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Added to the ordinal of an output, to tell it from a transaction's.
const OUTPUT: u64 = 1 << 63;

/// What is known of an ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Its transaction.
    pub(super) txid: Txid,
    /// The transaction's block.
    pub(super) height: u32,
    /// The position of the output in the transaction; zero for a transaction.
    pub(super) vout: u32,
}

impl Known {
    /// Until it is read.
    pub(super) const NOTHING: Known = Known { txid: Txid([0; 32]), height: 0, vout: 0 };
}

#[derive(Clone, Copy)]
struct Slot {
    /// One more than the key, so that zero is an empty slot.
    key: u64,
    known: Known,
}

const EMPTY: Slot = Slot { key: 0, known: Known::NOTHING };

/// The table.
pub(super) struct OrdinalMemory {
    parts: Vec<Mutex<Vec<Slot>>>,
    sets_of_part: usize,
}

impl OrdinalMemory {
    /// A memory of at most so many bytes, and of none below a few kilobytes.
    pub(super) fn new(bytes: usize) -> OrdinalMemory {
        let sets_of_part = bytes / (PARTS * WAYS * size_of::<Slot>());
        OrdinalMemory { parts: (0..PARTS).map(|_| Mutex::default()).collect(), sets_of_part }
    }

    /// Another one, of the same size, that knows nothing.
    pub(super) fn emptied(&self) -> OrdinalMemory {
        OrdinalMemory { parts: (0..PARTS).map(|_| Mutex::default()).collect(), sets_of_part: self.sets_of_part }
    }

    pub(super) fn tx(&self, tx_num: TxNum) -> Option<Known> {
        self.find(tx_num.into())
    }

    pub(super) fn keep_tx(&self, tx_num: TxNum, known: Known) {
        self.keep(tx_num.into(), known);
    }

    pub(super) fn output(&self, txo_num: TxoNum) -> Option<Known> {
        self.find(txo_num | OUTPUT)
    }

    pub(super) fn keep_output(&self, txo_num: TxoNum, known: Known) {
        self.keep(txo_num | OUTPUT, known);
    }

    /// The part and the first slot of a key's set; none where there is no room for any.
    fn set_of(&self, key: u64) -> Option<(MutexGuard<'_, Vec<Slot>>, usize)> {
        let spread = key.wrapping_mul(SPREAD);
        let part = (spread >> 32) as usize % PARTS;
        let set = (spread >> 38) as usize % self.sets_of_part.max(1);
        let slots = self.parts[part].lock().unwrap_or_else(PoisonError::into_inner);
        (self.sets_of_part > 0).then_some((slots, set * WAYS))
    }

    fn find(&self, key: u64) -> Option<Known> {
        let (mut slots, first) = self.set_of(key)?;
        let set = slots.get_mut(first..first + WAYS)?;
        let way = set.iter().position(|slot| slot.key == key + 1)?;
        set[..=way].rotate_right(1);
        Some(set[0].known)
    }

    fn keep(&self, key: u64, known: Known) {
        let Some((mut slots, first)) = self.set_of(key) else { return };
        if slots.is_empty() {
            slots.resize(self.sets_of_part * WAYS, EMPTY);
        }
        let set = &mut slots[first..first + WAYS];
        let way = set.iter().position(|slot| slot.key == key + 1).unwrap_or(WAYS - 1);
        set[..=way].rotate_right(1);
        set[0] = Slot { key: key + 1, known };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(number: u32) -> Known {
        let mut txid = [0; 32];
        txid[..4].copy_from_slice(&number.to_le_bytes());
        Known { txid: Txid(txid), height: number / 3, vout: number % 7 }
    }

    #[test]
    fn what_was_kept_is_found_and_a_transaction_is_not_an_output() {
        let memory = OrdinalMemory::new(4 << 20);
        assert_eq!(memory.tx(0), None);
        for number in 0..5_000 {
            memory.keep_tx(number, known(number));
            memory.keep_output(number.into(), known(number + 1));
        }
        for number in 0..5_000 {
            assert_eq!(memory.tx(number), Some(known(number)), "{number}");
            assert_eq!(memory.output(number.into()), Some(known(number + 1)), "{number}");
        }
        memory.keep_tx(7, known(8));
        assert_eq!(memory.tx(7), Some(known(8)), "what was said last counts");
        assert_eq!(memory.emptied().tx(7), None);
    }

    #[test]
    fn it_stays_within_its_bytes_and_forgets_what_was_not_asked_for() {
        let bytes = 256 * 1024;
        let memory = OrdinalMemory::new(bytes);
        let often = 1;
        memory.keep_tx(often, known(often));
        for number in 2..100_000 {
            memory.keep_tx(number, known(number));
            assert_eq!(memory.tx(often), Some(known(often)), "asked for after every other");
        }
        let held: usize = memory.parts.iter().map(|part| part.lock().unwrap().capacity() * size_of::<Slot>()).sum();
        assert!(held <= bytes && held > bytes / 2, "{held}");
        let found = (2..100_000).filter(|number| memory.tx(*number).is_some()).count();
        assert!(found > 4_000 && found <= bytes / size_of::<Slot>(), "{found}");
    }

    #[test]
    fn a_memory_without_room_knows_nothing() {
        let memory = OrdinalMemory::new(100);
        memory.keep_tx(1, known(1));
        assert_eq!(memory.tx(1), None);
    }
}
