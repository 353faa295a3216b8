//! Checked blocks that wait for their turn in memory, besides on the disk.
//!
//! In:     blocks as they come in; a bound in bytes.
//! Out:    the block of a node, if it is still here.
//! Fails:  never; where there is no room the highest go, which are needed last.

use std::collections::BTreeMap;
use std::sync::Arc;

use consensus::CheckedBlock;

use crate::tree::NodeId;

/// The blocks, by height and node.
pub(crate) struct Fresh {
    blocks: BTreeMap<(u32, NodeId), Arc<CheckedBlock>>,
    bytes: u64,
    bytes_max: u64,
}

impl Fresh {
    pub(crate) fn new(bytes_max: u64) -> Fresh {
        Fresh { blocks: BTreeMap::new(), bytes: 0, bytes_max }
    }

    pub(crate) fn put(&mut self, height: u32, node: NodeId, block: Arc<CheckedBlock>) {
        self.bytes += block.block().bytes().len() as u64;
        if let Some(before) = self.blocks.insert((height, node), block) {
            self.bytes -= before.block().bytes().len() as u64;
        }
        while self.bytes > self.bytes_max {
            let Some((_, highest)) = self.blocks.pop_last() else { return };
            self.bytes -= highest.block().bytes().len() as u64;
        }
    }

    /// Bytes here, and how many are kept at most.
    pub(crate) fn load(&self) -> (u64, u64) {
        (self.bytes, self.bytes_max)
    }

    /// Takes a block out.
    pub(crate) fn take(&mut self, height: u32, node: NodeId) -> Option<Arc<CheckedBlock>> {
        let block = self.blocks.remove(&(height, node))?;
        self.bytes -= block.block().bytes().len() as u64;
        Some(block)
    }

    /// Forgets blocks below `height`: those of branches that lost.
    pub(crate) fn drop_below(&mut self, height: u32) {
        self.blocks = self.blocks.split_off(&(height, NodeId::GENESIS));
        self.bytes = self.blocks.values().map(|block| block.block().bytes().len() as u64).sum();
    }
}
