//! Merkle proofs over headers: that a header belongs to a chain of which only one root is known.
//!
//! In:     hashes of headers by height.
//! Out:    branch and root for a header under a checkpoint height (`cp_height`).
//! Fails:  never; the caller has checked the heights.
//! Source: Electrum protocol 1.4, `cp_height`: Bitcoin's merkle tree over the hashes of headers 0 to `cp_height`.
//!
//! Roots of whole, aligned groups of [`GROUP_HEADERS`] headers are kept, so a proof hashes one group and the row of
//! group roots: at most 2,048 + 440 hashes for 900,000 headers, instead of 900,000.

use primitives::BlockHash;
use primitives::hash::{merkle_branch, merkle_root};

/// Headers under one kept root; a power of two, so that a group is a subtree.
pub const GROUP_HEADERS: usize = 2048;

/// Kept roots of whole groups of the best chain.
#[derive(Clone, Debug, Default)]
pub struct HeaderMountain {
    roots: Vec<[u8; 32]>,
}

impl HeaderMountain {
    /// Cuts to the groups that lie wholly below `count` headers.
    pub fn cut(&mut self, count: usize) {
        self.roots.truncate(count / GROUP_HEADERS);
    }

    /// Adds every whole group among the first `count` headers.
    pub fn extend<E>(
        &mut self,
        count: usize,
        mut hashes: impl FnMut(usize, usize) -> Result<Vec<BlockHash>, E>,
    ) -> Result<(), E> {
        while (self.roots.len() + 1) * GROUP_HEADERS <= count {
            let group = hashes(self.roots.len() * GROUP_HEADERS, GROUP_HEADERS)?;
            self.roots.push(root_of(&group));
        }
        Ok(())
    }

    /// Branch and root of the header at `height` among headers `0..=cp_height`; `hashes(start, count)` reads the chain.
    pub fn proof<E>(
        &self,
        height: usize,
        cp_height: usize,
        mut hashes: impl FnMut(usize, usize) -> Result<Vec<BlockHash>, E>,
    ) -> Result<(Vec<[u8; 32]>, [u8; 32]), E> {
        assert!(height <= cp_height, "the caller has checked the heights");
        let count = cp_height + 1;
        let whole = (count / GROUP_HEADERS).min(self.roots.len());
        let mut roots = self.roots[..whole].to_vec();
        let mut branch = Vec::new();
        let asked = height / GROUP_HEADERS;
        let open = whole..count.div_ceil(GROUP_HEADERS);
        for group in open.chain((asked < whole).then_some(asked)) {
            let start = group * GROUP_HEADERS;
            let mut leaves: Vec<[u8; 32]> =
                hashes(start, GROUP_HEADERS.min(count - start))?.iter().map(|hash| hash.0).collect();
            // A group cut short is filled up with its last node level by level, exactly as the whole tree would be.
            if count > GROUP_HEADERS {
                pad(&mut leaves);
            }
            if group == asked {
                branch = merkle_branch(&leaves, height - start);
            }
            if group >= whole {
                roots.push(merkle_root(&leaves).0);
            }
        }
        if roots.len() > 1 {
            branch.extend(merkle_branch(&roots, asked));
        }
        Ok((branch, merkle_root(&roots).0))
    }
}

/// Fills a short last group so that its root stands as high as the others': the last node pairs with itself at each
/// level, which is the same as repeating the tail of the level below.
fn pad(leaves: &mut Vec<[u8; 32]>) {
    let mut width = 1;
    while width < GROUP_HEADERS {
        if leaves.len() % (2 * width) != 0 {
            leaves.extend_from_within(leaves.len() - width..);
        }
        width *= 2;
    }
}

fn root_of(hashes: &[BlockHash]) -> [u8; 32] {
    merkle_root(&hashes.iter().map(|hash| hash.0).collect::<Vec<_>>()).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hash::{merkle_root_of_branch, sha256};

    #[test]
    fn proofs_equal_those_of_the_whole_tree() {
        let chain: Vec<BlockHash> = (0..9000u32).map(|n| BlockHash(sha256(&n.to_le_bytes()))).collect();
        let read = |start: usize, count: usize| Ok::<_, ()>(chain[start..start + count].to_vec());
        for known in [0, 2047, 2048, 6200] {
            let mut mountain = HeaderMountain::default();
            mountain.extend(known, read).unwrap();
            for cp_height in [0, 1, 2, 5, 2046, 2047, 2048, 2049, 2050, 4095, 4096, 4099, 6143, 6144, 8191, 8192, 8999]
            {
                let leaves: Vec<[u8; 32]> = chain[..=cp_height].iter().map(|hash| hash.0).collect();
                let want_root = merkle_root(&leaves).0;
                for height in [0, 1, 2047, 2048, 4096, 5000, cp_height.saturating_sub(1), cp_height] {
                    if height > cp_height {
                        continue;
                    }
                    let (branch, root) = mountain.proof(height, cp_height, read).unwrap();
                    assert_eq!(root, want_root, "{height} under {cp_height}, {known} known");
                    assert_eq!(branch, merkle_branch(&leaves, height), "{height} under {cp_height}");
                    assert_eq!(merkle_root_of_branch(chain[height].0, height, &branch), root);
                }
            }
        }
    }
}
