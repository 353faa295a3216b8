//! Names of blocks and transactions, as inv, getdata and notfound carry them.
//!
//! In:     36 bytes: kind, little endian, and hash.
//! Out:    [`Inventory`].
//! Fails:  only where bytes are missing; unknown kinds are kept.
//! Source: Bitcoin Core, `src/protocol.h` (`GetDataMsg`); BIP 144, 152, 339.

use stdx::bytes::Reader;

use super::encode::count;
use super::error::WireError;
use super::limits::INVENTORY_MAX;

/// What a hash is the name of, and in which form it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InventoryKind {
    /// A transaction by its txid; in getdata without witnesses.
    Tx,
    /// A block; in getdata without witnesses.
    Block,
    /// A block as BIP 37 filters it.
    FilteredBlock,
    /// A block as a compact block (BIP 152).
    CompactBlock,
    /// A transaction by its wtxid (BIP 339).
    Wtx,
    /// A transaction by its txid, with witnesses (BIP 144).
    WitnessTx,
    /// A block with witnesses (BIP 144).
    WitnessBlock,
    /// Something else.
    Unknown(u32),
}

impl InventoryKind {
    /// The kind of a number.
    pub fn from_number(number: u32) -> InventoryKind {
        match number {
            1 => InventoryKind::Tx,
            2 => InventoryKind::Block,
            3 => InventoryKind::FilteredBlock,
            4 => InventoryKind::CompactBlock,
            5 => InventoryKind::Wtx,
            0x4000_0001 => InventoryKind::WitnessTx,
            0x4000_0002 => InventoryKind::WitnessBlock,
            number => InventoryKind::Unknown(number),
        }
    }

    /// The number of a kind.
    pub fn number(self) -> u32 {
        match self {
            InventoryKind::Tx => 1,
            InventoryKind::Block => 2,
            InventoryKind::FilteredBlock => 3,
            InventoryKind::CompactBlock => 4,
            InventoryKind::Wtx => 5,
            InventoryKind::WitnessTx => 0x4000_0001,
            InventoryKind::WitnessBlock => 0x4000_0002,
            InventoryKind::Unknown(number) => number,
        }
    }

    /// True for a transaction in any form.
    pub fn is_tx(self) -> bool {
        matches!(self, InventoryKind::Tx | InventoryKind::Wtx | InventoryKind::WitnessTx)
    }

    /// True for a block in any form.
    pub fn is_block(self) -> bool {
        use InventoryKind::{Block, CompactBlock, FilteredBlock, WitnessBlock};
        matches!(self, Block | FilteredBlock | CompactBlock | WitnessBlock)
    }
}

/// The name of a block or transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inventory {
    /// What it is.
    pub kind: InventoryKind,
    /// Block hash, txid or wtxid, by the kind.
    pub hash: [u8; 32],
}

/// Reads a list of at most [`INVENTORY_MAX`] entries.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Vec<Inventory>, WireError> {
    let count = count(reader, INVENTORY_MAX, 36, |got| WireError::TooManyInventory { got })?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push(Inventory { kind: InventoryKind::from_number(reader.u32()?), hash: reader.array()? });
    }
    Ok(entries)
}

/// Writes a list.
pub(super) fn encode(entries: &[Inventory], out: &mut Vec<u8>) {
    primitives::encode::put_compact_size(out, entries.len() as u64);
    for entry in entries {
        out.extend_from_slice(&entry.kind.number().to_le_bytes());
        out.extend_from_slice(&entry.hash);
    }
}
