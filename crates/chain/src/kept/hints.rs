//! What proofs of blocks learn, kept for the next proof of the same blocks.
//!
//! In:     blocks that joined the chain, with what their proof was given and what it learnt.
//! Out:    hints for the pool, which reads them while it prepares a block; records for the disk, in batches.
//! Fails:  never: hints that cannot be read are not there, and after a write that fails no more are kept. The status
//!         says why.
//! Source: docs/formats.md, "hints".

use std::path::PathBuf;

use consensus::script::Learnt;
use primitives::{BlockHash, Params};
use stdx::disk::Disk;
use store::{Hints, HintsWriter, StoreError};

/// What is done with hints of earlier proofs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HintsUse {
    /// Nothing.
    #[default]
    Off,
    /// Those in this folder are used; none are written.
    Read(PathBuf),
    /// Those in this folder are used, and better ones are kept there.
    Keep(PathBuf),
}

/// The writer's side of the hints.
#[derive(Default)]
pub(crate) struct HintsKeeper {
    writer: Option<HintsWriter>,
    /// Why none are kept although they should be.
    pub off: Option<String>,
}

impl HintsKeeper {
    /// Opens what is to be used: the writer's side, and what the pool reads from.
    pub fn open(disk: &dyn Disk, hints_use: &HintsUse, params: &Params) -> (HintsKeeper, Option<Hints>) {
        match hints_use {
            HintsUse::Off => (HintsKeeper::default(), None),
            HintsUse::Read(dir) => (HintsKeeper::default(), Hints::open(disk, dir, params)),
            HintsUse::Keep(dir) => match HintsWriter::open(disk, dir, params) {
                Ok(writer) => {
                    let hints = writer.hints();
                    (HintsKeeper { writer: Some(writer), off: None }, Some(hints))
                }
                Err(error) => (HintsKeeper { writer: None, off: Some(error.to_string()) }, None),
            },
        }
    }

    /// Keeps what the proof of a block learnt, unless just that was kept already. An engine that cannot learn leaves
    /// hints as they are, so it never makes them worse.
    pub fn keep(&mut self, height: u32, hash: &BlockHash, kept: &[u8], learnt: &Learnt) {
        if learnt.parities > 0 && learnt.bytes != kept {
            self.write(|writer| writer.keep(height, hash, &learnt.bytes));
        }
    }

    /// Writes what waits.
    pub fn flush(&mut self) {
        self.write(HintsWriter::flush);
    }

    /// Bytes kept.
    pub fn bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, HintsWriter::bytes)
    }

    fn write(&mut self, write: impl FnOnce(&mut HintsWriter) -> Result<(), StoreError>) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = write(writer) {
            self.off = Some(error.to_string());
            self.writer = None;
        }
    }
}
