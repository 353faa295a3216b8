//! Which blocks' scripts are taken on trust.
//!
//! In:     the headers, a block among them, the setting `assume_valid`.
//! Out:    why its scripts are checked all the same, in Core's words; none where they are not.
//! Fails:  never.
//! Source: Bitcoin Core, `ConnectBlock` (`script_check_reason`), `GetBlockProofEquivalentTime`.
//!
//! Trust in a hash is trust in a chain: scripts are skipped only on the best chain of headers, with the network's least
//! work, and where two weeks of work lie above the block. Whoever feeds us a short chain cannot make use of it.

use consensus::Work;
use consensus::header::work_of;
use primitives::{BlockHash, Params};

use crate::tree::{HeaderTree, NodeId};

/// Time that the work above a block must be worth, in seconds.
const BURIED_S: u32 = 2 * 7 * 24 * 60 * 60;

/// Why the scripts of a block are checked; none where they need not be.
pub(crate) fn why_scripts_are_checked(
    tree: &HeaderTree,
    node: NodeId,
    assumed: Option<BlockHash>,
    params: &Params,
) -> Option<&'static str> {
    let Some(assumed) = assumed else { return Some("assumevalid=0 (always verify)") };
    let Some(assumed) = tree.find(&assumed) else { return Some("assumevalid hash not in headers") };
    let height = tree.height(node);
    if tree.ancestor(assumed, height) != Some(node) {
        return Some(match height > tree.height(assumed) {
            true => "block height above assumevalid height",
            false => "block not in assumevalid chain",
        });
    }
    let best = tree.best_header();
    if tree.ancestor(best, height) != Some(node) {
        return Some("block not in best header chain");
    }
    if tree.work(best) < Work::from_be_bytes(&params.minimum_chainwork) {
        return Some("best header chainwork below minimumchainwork");
    }
    let blocks = BURIED_S / params.pow_spacing_s;
    let buried: Work = std::iter::repeat_n(work_of(tree.header(best).bits), blocks as usize).sum();
    let is_buried = tree.work(best) > tree.work(node) + buried;
    (!is_buried).then_some("block too recent relative to best header")
}
