//! The chain's writer as a way in for blocks, as JSON-RPC needs it.
//!
//! In:     the writer's handle.
//! Out:    [`Blocks`]: blocks and headers taken and judged, marks on blocks, the ends of branches.
//! Fails:  with Core's words for what breaks a rule; a block whose judgement does not come is inconclusive.
//! Source: Bitcoin Core, `src/validation.cpp` (`TestBlockValidity`), `src/rpc/mining.cpp`.

use std::sync::Arc;

use chain::{Acceptance, ControlError, Handle, HeadersStop, Pending, Verdict, View, WorkProof};
use consensus::connect::Context;
use consensus::header::{check_contextual, median_time_past};
use consensus::script::{Interpreter, TxCoins};
use consensus::{BlockError, CheckedBlock, block, connect, flags};
use primitives::{Block, BlockHash, Coin, Header, Params, SpentCoins};

use crate::rpc::error::RpcError;
use crate::rpc::located::ViewHeaders;
use crate::rpc::needs::{Blocks, BranchTip, Host, Refusal, Submitted};

/// The writer, and the clock that headers are judged by.
pub struct Door {
    handle: Handle,
    host: Arc<dyn Host>,
}

impl Door {
    /// A way to the writer of `handle`.
    pub fn new(handle: Handle, host: Arc<dyn Host>) -> Door {
        Door { handle, host }
    }

    fn ordered(&self, order: Result<Pending, ControlError>) -> Result<bool, Refusal> {
        match order {
            Ok(pending) => {
                pending.wait();
                Ok(true)
            }
            Err(ControlError::UnknownBlock) => Ok(false),
            Err(error) => Err(RpcError::misc(error.to_string())),
        }
    }
}

fn invalid(word: &str) -> Submitted {
    Submitted::Invalid { reason: word.to_owned(), details: word.to_owned() }
}

fn broken(error: &BlockError) -> Submitted {
    let reason = error.reject_reason();
    Submitted::Invalid { details: format!("{reason}, {}", error.detail()), reason }
}

fn judged(verdict: Verdict) -> Submitted {
    match verdict {
        Verdict::Connected | Verdict::Done => Submitted::Accepted,
        Verdict::Inconclusive | Verdict::Stopped => Submitted::Inconclusive,
        Verdict::Invalid { error } => broken(&error),
        Verdict::NotStored { why: Acceptance::Duplicate { .. } } => Submitted::Duplicate,
        Verdict::NotStored { why: Acceptance::KnownInvalid { .. } } => Submitted::DuplicateInvalid,
        Verdict::NotStored { why: Acceptance::Refused { error, .. } } => broken(&error),
        Verdict::NotStored { why } => why.word().map_or(Submitted::Inconclusive, invalid),
    }
}

impl Blocks for Door {
    fn submit_block(&self, bytes: &[u8]) -> Submitted {
        match self.handle.judge_block(bytes.to_vec()) {
            Ok(pending) => judged(pending.wait()),
            Err(_) => Submitted::Inconclusive, // the queue is full of blocks that came before
        }
    }

    fn submit_header(&self, header: &[u8; 80]) -> Submitted {
        let answer = self.handle.submit_headers(&[Header::decode(header)], WorkProof::Proven);
        match answer.stop {
            None => Submitted::Accepted,
            Some(HeadersStop::KnownInvalid { .. }) => Submitted::DuplicateInvalid,
            Some(stop) => invalid(stop.reject_word()),
        }
    }

    fn test_block(&self, bytes: &[u8], _check_merkle_root: bool) -> Submitted {
        let view = self.handle.view();
        match test(&view, bytes, self.host.unix_s()) {
            Ok(()) => Submitted::Accepted,
            Err(submitted) => submitted,
        }
    }

    fn invalidate(&self, hash: &BlockHash) -> Result<bool, Refusal> {
        self.ordered(self.handle.invalidate_block(hash))
    }

    fn reconsider(&self, hash: &BlockHash) -> Result<bool, Refusal> {
        self.ordered(self.handle.reconsider_block(hash))
    }

    fn prefer(&self, hash: &BlockHash) -> Result<bool, Refusal> {
        self.ordered(self.handle.prefer_block(hash))
    }

    fn tips(&self) -> Vec<BranchTip> {
        let tip = |tip: chain::ChainTip| BranchTip {
            height: tip.height,
            hash: tip.hash,
            branch_length: tip.branch_blocks,
            status: tip.kind.name(),
        };
        self.handle.chain_tips().into_iter().map(tip).collect()
    }

    fn settle(&self) {
        self.handle.flush().wait();
    }
}

/// Judges a block on top of the view's tip, proof of work left out.
fn test(view: &View, bytes: &[u8], now_s: u64) -> Result<(), Submitted> {
    let params = view.params();
    let parsed = Block::parse(bytes).map_err(|_| invalid("bad-blk-length"))?;
    let (tip, header) = (view.tip(), *parsed.header());
    if header.previous != tip.hash {
        return Err(invalid("inconclusive-not-best-prevblk"));
    }
    let (height, headers) = (tip.height + 1, ViewHeaders::new(view));
    let checked = block::check_unmined(parsed).map_err(|error| broken(&error))?;
    check_contextual(&header, height, &headers, now_s, params).map_err(|error| broken(&error.into()))?;
    let median_time_past_s = median_time_past(tip.height, &headers);
    block::check_contextual(&checked, height, median_time_past_s, params).map_err(|error| broken(&error))?;
    let spent = spent_by(view, &checked, height)?;
    let in_force = flags::at(height, &header.hash(), params);
    let mtp_of = |height| median_time_past(height, &headers);
    let context =
        Context { height, block_hash: header.hash(), median_time_past_s, mtp_of: &mtp_of, params, flags: in_force };
    connect::check(&checked, &spent, &context).map_err(|error| broken(&error))?;
    check_scripts(&checked, &spent, height, params)
}

/// The coins that the block spends, of the view and of itself.
fn spent_by(view: &View, checked: &CheckedBlock, height: u32) -> Result<SpentCoins, Submitted> {
    let block = checked.block();
    let mut spent = SpentCoins::with_capacity(block.input_count());
    let mut taken = std::collections::HashSet::new();
    for tx in block.txs().skip(1) {
        for input in tx.inputs() {
            let outpoint = input.outpoint();
            let missing = || {
                let reason = "bad-txns-inputs-missingorspent".to_owned();
                let txid = checked.txids()[tx.index()];
                let details = format!("{reason}, CheckTxInputs: inputs missing/spent in transaction {txid}");
                Submitted::Invalid { reason, details }
            };
            if !taken.insert(outpoint) {
                return Err(missing());
            }
            let here = checked.txids()[..tx.index()].iter().position(|txid| *txid == outpoint.txid);
            if let Some(at) = here {
                let output = block.tx(at).outputs().nth(outpoint.vout as usize).ok_or_else(missing)?;
                let value_sat = output.value_sat as u64;
                spent.push(Coin { value_sat, height, coinbase: at == 0, txo_num: 0, script: output.script });
            } else {
                let coin = view.snapshot().coin(&outpoint).ok().flatten().ok_or_else(missing)?;
                spent.push(coin.coin());
            }
        }
    }
    Ok(spent)
}

fn check_scripts(checked: &CheckedBlock, spent: &SpentCoins, height: u32, params: &Params) -> Result<(), Submitted> {
    let in_force = flags::at(height, &checked.header().hash(), params);
    let mut first = 0;
    for tx in checked.block().txs().skip(1) {
        let count = tx.input_count();
        let interpreter = Interpreter::new(tx, TxCoins::new(spent, first, count));
        for input_index in 0..count {
            let judged = interpreter.judge(input_index, in_force);
            judged.map_err(|error| broken(&BlockError::Script { tx_index: tx.index(), input_index, error }))?;
        }
        first += count;
    }
    Ok(())
}
