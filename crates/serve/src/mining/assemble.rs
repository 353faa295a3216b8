//! Blocks that could be the next: header fields, coinbase, witness commitment, and the search for a nonce.
//!
//! In:     a view, the time, transactions for the block, where the reward goes.
//! Out:    [`Assembled`]: the block's parts, and its bytes once a nonce is found.
//! Fails:  with the view's errors; the search ends after the tries it was given.
//! Source: Bitcoin Core, `src/node/miner.cpp` (`CreateNewBlock`, `GetMinimumTime`), BIP 34, BIP 141.

use chain::View;
use consensus::connect::subsidy_sat;
use consensus::header::{check_proof_of_work, median_time_past, next_bits};
use primitives::encode::put_compact_size;
use primitives::hash::{merkle_root, sha256d};
use primitives::{BlockHash, Header, OutPoint, Params, Transaction};

use crate::calls::deployments::{Stage, TESTDUMMY_BIT, VERSION_TOP, next_stage};
use crate::keys::draft::{Draft, DraftInput};
use crate::rpc::error::RpcError;
use crate::rpc::located::ViewHeaders;
use crate::rpc::needs::Chosen;

/// How far the first block of a period may be before its parent (BIP 94); kept on every network, as Core's miner does.
const TIMEWARP_MAX_S: u32 = 600;
/// What stands in front of the commitment to witnesses (BIP 141): OP_RETURN, a push of 36 bytes, four bytes of its own.
const COMMITMENT: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];

/// Header fields of the next block.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// Its height.
    pub height: u32,
    /// Its parent.
    pub previous: BlockHash,
    /// Its version.
    pub version: i32,
    /// Its target.
    pub bits: u32,
    /// Its time.
    pub time_s: u32,
    /// The least time it may have.
    pub time_least_s: u32,
}

impl Next {
    /// The block after the view's tip, found now.
    pub fn of(view: &View, now_s: u64, params: &Params) -> Result<Next, RpcError> {
        let (tip, headers) = (view.tip(), ViewHeaders::new(view));
        let height = tip.height + 1;
        let parent = consensus::header::Ancestry::header(&headers, tip.height);
        let mut time_least_s = median_time_past(tip.height, &headers) + 1;
        if height.is_multiple_of(params.pow_interval()) {
            time_least_s = time_least_s.max(parent.time_s.saturating_sub(TIMEWARP_MAX_S));
        }
        let time_s = u32::try_from(now_s).unwrap_or(u32::MAX).max(time_least_s);
        let bits = next_bits(height, time_s, &headers, params);
        headers.checked(())?;
        let signals = matches!(next_stage(view, params.network)?, Some(Stage::Started | Stage::LockedIn));
        let version = (VERSION_TOP | u32::from(signals) << TESTDUMMY_BIT) as i32;
        Ok(Next { height, previous: tip.hash, version, bits, time_s, time_least_s })
    }

    /// True where its scripts may have witnesses.
    pub fn has_segwit(&self, params: &Params) -> bool {
        self.height >= params.segwit_height
    }
}

/// A block without a nonce.
pub struct Assembled {
    header: Header,
    transactions: Vec<Vec<u8>>,
}

/// A height as the coinbase's script begins (BIP 34).
fn height_push(height: u32) -> Vec<u8> {
    if (1..=16).contains(&height) {
        return vec![0x50 + height as u8];
    }
    if height == 0 {
        return vec![0];
    }
    let mut bytes = height.to_le_bytes().to_vec();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    // The top bit is the sign.
    if bytes.last().is_some_and(|last| last & 0x80 != 0) {
        bytes.push(0);
    }
    [&[bytes.len() as u8], &bytes[..]].concat()
}

/// The output script that commits to the witnesses of a block's transactions, the coinbase's counted as zero.
pub fn commitment(wtxids: &[[u8; 32]]) -> Vec<u8> {
    let leaves: Vec<[u8; 32]> = std::iter::once([0; 32]).chain(wtxids.iter().copied()).collect();
    let (root, _) = merkle_root(&leaves);
    let hash = sha256d(&[root, [0; 32]].concat());
    [&COMMITMENT[..], &hash].concat()
}

fn wtxid(bytes: &[u8]) -> Result<[u8; 32], RpcError> {
    let parsed =
        Transaction::parse(bytes).map_err(|_| RpcError::internal("A transaction for a block does not parse"))?;
    Ok(parsed.tx().wtxid().0)
}

impl Assembled {
    /// The next block with these transactions; the reward, with their fees where `with_fees`, goes to `script`.
    pub fn new(
        next: &Next,
        chosen: &[Chosen],
        with_fees: bool,
        script: &[u8],
        params: &Params,
    ) -> Result<Assembled, RpcError> {
        let fees_sat: i64 = if with_fees { chosen.iter().map(|chosen| chosen.fee_sat).sum() } else { 0 };
        let mut coinbase = Draft {
            version: 2,
            inputs: vec![DraftInput {
                outpoint: OutPoint::NULL,
                script_sig: [&height_push(next.height)[..], &[0]].concat(),
                sequence: u32::MAX - 1,
                witness: Vec::new(),
            }],
            outputs: vec![(subsidy_sat(next.height, params) as i64 + fees_sat, script.to_vec())],
            lock_time: next.height - 1,
        };
        if next.has_segwit(params) {
            let wtxids = chosen.iter().map(|chosen| wtxid(&chosen.bytes)).collect::<Result<Vec<_>, _>>()?;
            coinbase.outputs.push((0, commitment(&wtxids)));
            coinbase.inputs[0].witness = vec![vec![0; 32]];
        }
        let transactions: Vec<Vec<u8>> =
            std::iter::once(coinbase.bytes()).chain(chosen.iter().map(|chosen| chosen.bytes.clone())).collect();
        let mut txids = Vec::with_capacity(transactions.len());
        for bytes in &transactions {
            let told = |_| RpcError::internal("A transaction for a block does not parse");
            txids.push(Transaction::parse(&bytes[..]).map_err(told)?.tx().txid().0);
        }
        let (root, _) = merkle_root(&txids);
        let header = Header {
            version: next.version,
            previous: next.previous,
            merkle_root: root,
            time_s: next.time_s,
            bits: next.bits,
            nonce: 0,
        };
        Ok(Assembled { header, transactions })
    }

    /// Looks for a nonce; takes its tries off `tries`. False: none was found with them.
    pub fn find_nonce(&mut self, tries: &mut u64, params: &Params, stopping: &dyn Fn() -> bool) -> bool {
        while *tries > 0 {
            if check_proof_of_work(&self.header.hash(), self.header.bits, params).is_ok() {
                return true;
            }
            *tries -= 1;
            if self.header.nonce == u32::MAX || (self.header.nonce % 0x1_0000 == 0xffff && stopping()) {
                return false;
            }
            self.header.nonce += 1;
        }
        false
    }

    /// Its hash.
    pub fn hash(&self) -> BlockHash {
        self.header.hash()
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.header.encode().to_vec();
        put_compact_size(&mut out, self.transactions.len() as u64);
        self.transactions.iter().for_each(|bytes| out.extend_from_slice(bytes));
        out
    }
}

/// A block whose coinbase commits to witnesses and lost its own, with that put back (Core:
/// `UpdateUncommittedBlockStructures`); none where nothing is missing.
pub fn with_coinbase_witness(block: &primitives::Block) -> Option<Vec<u8>> {
    let coinbase = block.txs().next()?;
    let commits = coinbase.outputs().any(|output| output.script.len() >= 38 && output.script.starts_with(&COMMITMENT));
    if !commits || coinbase.has_witness() {
        return None;
    }
    let mut draft = Draft::of(&coinbase);
    draft.inputs.first_mut()?.witness = vec![vec![0; 32]];
    let mut out = block.header().encode().to_vec();
    put_compact_size(&mut out, block.tx_count() as u64);
    out.extend_from_slice(&draft.bytes());
    block.txs().skip(1).for_each(|tx| out.extend_from_slice(tx.raw()));
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{Block, Network};

    #[test]
    fn heights_are_pushed_as_script_numbers() {
        for (height, want) in [
            (0, &[0][..]),
            (1, &[0x51]),
            (16, &[0x60]),
            (17, &[1, 17]),
            (127, &[1, 127]),
            (128, &[2, 128, 0]),
            (32_767, &[2, 0xff, 0x7f]),
            (32_768, &[3, 0, 0x80, 0]),
            (500_000, &[3, 0x20, 0xa1, 0x07]),
        ] {
            assert_eq!(height_push(height), want, "{height}");
        }
    }

    #[test]
    fn an_empty_block_is_valid_by_itself() {
        let params = Params::of(Network::Regtest);
        let next = Next {
            height: 1,
            previous: params.genesis_hash,
            version: 0x2000_0000,
            bits: 0x207f_ffff,
            time_s: params.genesis.time_s + 1,
            time_least_s: params.genesis.time_s + 1,
        };
        let mut block = Assembled::new(&next, &[], true, &[0x51], &params).unwrap();
        assert!(block.find_nonce(&mut 1_000, &params, &|| false));
        let parsed = Block::parse(block.bytes()).unwrap();
        assert_eq!((parsed.header().hash(), parsed.tx_count()), (block.hash(), 1));
        assert_eq!(parsed.tx(0).output(0).value_sat, 5_000_000_000);
        consensus::block::check(parsed.clone(), &params).unwrap();
        // What lost the coinbase's witness gets it back.
        let coinbase = Draft { inputs: vec![], ..Draft::of(&parsed.tx(0)) };
        assert!(coinbase.inputs.is_empty() && with_coinbase_witness(&parsed).is_none());
        let mut bare = Draft::of(&parsed.tx(0));
        bare.inputs[0].witness.clear();
        let stripped = [&parsed.header().encode()[..], &[1], &bare.bytes()].concat();
        let back = with_coinbase_witness(&Block::parse(stripped).unwrap()).unwrap();
        assert_eq!(back, parsed.bytes());
    }
}
