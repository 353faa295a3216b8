//! Blocks by hash or height, and what Core tells of each: work, median time, neighbours.
//!
//! In:     a view, and a hash or a height out of a request.
//! Out:    [`Located`], and the members of `getblockheader`.
//! Fails:  "Block not found" and the other sentences of Core for what is not there.
//! Source: Bitcoin Core, `src/rpc/blockchain.cpp` (`blockheaderToJSON`, `ParseHashOrHeight`, `GetDifficulty`).

use std::cell::RefCell;

use chain::{View, ViewError};
use consensus::Work;
use consensus::header::Ancestry;
use primitives::{BlockHash, Header};

use crate::json::Json;
use crate::rpc::call::{Call, hash_of};
use crate::rpc::env::Env;
use crate::rpc::error::RpcError;
use crate::rpc::value::{Type, Value};

/// A block that is known.
#[derive(Clone, Debug)]
pub struct Located {
    /// Its height.
    pub height: u32,
    /// Its header.
    pub header: Header,
    /// Its hash.
    pub hash: BlockHash,
    /// The bytes of a block off the best chain; those of the others are read when needed.
    pub stale: Option<Option<Vec<u8>>>,
}

/// What is said of a block that nobody knows.
pub fn block_not_found() -> RpcError {
    RpcError::address_or_key("Block not found")
}

impl Located {
    /// The block at a height of the view's chain.
    pub fn at(view: &View, height: u32) -> Result<Located, ViewError> {
        let bytes = view.header(height)?.ok_or(ViewError::BlockGone { height })?;
        let header = Header::decode(&bytes);
        Ok(Located { height, header, hash: header.hash(), stale: None })
    }

    /// The tip.
    pub fn tip(view: &View) -> Result<Located, ViewError> {
        Located::at(view, view.tip().height)
    }

    /// The block of a hash, on the best chain or off it.
    pub fn find(env: &Env, view: &View, hash: &BlockHash) -> Result<Option<Located>, RpcError> {
        let handle = env.handle()?;
        let Some(info) = handle.header(hash) else { return Ok(None) };
        // The view decides: the tree may have moved on.
        let in_view = view.header(info.height)?.is_some_and(|header| Header::decode(&header).hash() == *hash);
        let stale = (!in_view).then(|| handle.block_bytes(hash));
        Ok(Some(Located { height: info.height, header: info.header, hash: *hash, stale }))
    }

    /// The block whose hash is the argument at `index`.
    pub fn of_arg(call: &Call<'_>, view: &View, index: usize, name: &str) -> Result<Located, RpcError> {
        let hash = call.block_hash(index, name)?;
        Located::find(call.env, view, &hash)?.ok_or_else(block_not_found)
    }

    /// The block of a hash or a height.
    pub fn of_hash_or_height(env: &Env, view: &View, value: Value<'_>) -> Result<Located, RpcError> {
        if value.kind() != Type::Number {
            let hash = BlockHash(hash_of(value, "hash_or_height")?);
            return Located::find(env, view, &hash)?.ok_or_else(block_not_found);
        }
        let (height, tip): (i32, u32) = (value.integer()?, view.tip().height);
        match u32::try_from(height) {
            Err(_) => Err(RpcError::parameter(format!("Target block height {height} is negative"))),
            Ok(above) if above > tip => {
                Err(RpcError::parameter(format!("Target block height {height} after current tip {tip}")))
            }
            Ok(height) => Ok(Located::at(view, height)?),
        }
    }

    /// True where it is on the best chain.
    pub fn is_active(&self) -> bool {
        self.stale.is_none()
    }

    /// Blocks from it to the tip, itself included; -1 off the best chain.
    pub fn confirmations(&self, view: &View) -> i64 {
        if self.is_active() { i64::from(view.tip().height) - i64::from(self.height) + 1 } else { -1 }
    }

    /// The block's bytes.
    pub fn bytes(&self, view: &View) -> Result<Vec<u8>, RpcError> {
        match &self.stale {
            Some(Some(bytes)) => Ok(bytes.clone()),
            Some(None) => Err(RpcError::misc("Block not available (not fully downloaded)")),
            None => view.block_bytes(self.height)?.ok_or_else(|| RpcError::misc("Block not found on disk")),
        }
    }

    /// Median of its time and of the ten before it.
    pub fn median_time_s(&self, env: &Env) -> Result<u32, RpcError> {
        Ok(env.handle()?.header(&self.hash).ok_or_else(block_not_found)?.median_time_past_s)
    }

    /// Work of its whole chain.
    pub fn work(&self, env: &Env) -> Result<Work, RpcError> {
        Ok(env.handle()?.header(&self.hash).ok_or_else(block_not_found)?.work)
    }

    /// Number of its transactions; zero where its bytes are not there.
    pub fn tx_count(&self, view: &View) -> Result<u32, RpcError> {
        match &self.stale {
            Some(bytes) => {
                let parsed = bytes.clone().and_then(|bytes| primitives::Block::parse(bytes).ok());
                Ok(parsed.map_or(0, |block| block.tx_count() as u32))
            }
            None => {
                let first = view.first_tx_num(self.height)?;
                Ok(txs_below(view, self.height + 1)? - first)
            }
        }
    }

    /// Writes what Core tells of a header; the caller opens and closes the object.
    pub fn write_members(&self, env: &Env, view: &View, json: &mut Json<'_>) -> Result<(), RpcError> {
        let header = &self.header;
        json.key("hash").hash(&self.hash.0);
        json.key("confirmations").number(self.confirmations(view));
        json.key("height").number(self.height);
        json.key("version").number(header.version);
        json.key("versionHex").hex(&header.version.to_be_bytes());
        json.key("merkleroot").hash(&header.merkle_root);
        json.key("time").number(header.time_s);
        json.key("mediantime").number(self.median_time_s(env)?);
        json.key("nonce").number(header.nonce);
        json.key("bits").hex(&header.bits.to_be_bytes());
        json.key("target").hex(&target_of(header.bits));
        json.key("difficulty").float(difficulty(header.bits));
        json.key("chainwork").hex(&self.work(env)?.to_be_bytes());
        json.key("nTx").number(self.tx_count(view)?);
        if self.height > 0 {
            json.key("previousblockhash").hash(&header.previous.0);
        }
        if self.is_active() && self.height < view.tip().height {
            json.key("nextblockhash").hash(&Located::at(view, self.height + 1)?.hash.0);
        }
        Ok(())
    }
}

/// Transactions in the blocks below a height, which is at most one above the tip's.
pub fn txs_below(view: &View, height: u32) -> Result<u32, ViewError> {
    if height > view.tip().height { Ok(view.snapshot().tx_count()) } else { view.first_tx_num(height) }
}

/// How many times harder than the easiest target of mainnet (Core: `GetDifficulty`).
pub fn difficulty(bits: u32) -> f64 {
    let mut shift = bits >> 24;
    let mut difficulty = f64::from(0xffff) / f64::from(bits & 0x00ff_ffff);
    while shift < 29 {
        difficulty *= 256.0;
        shift += 1;
    }
    while shift > 29 {
        difficulty /= 256.0;
        shift -= 1;
    }
    difficulty
}

/// The target of compact bits as 32 bytes, big endian; zeros where it does not fit.
pub fn target_of(bits: u32) -> [u8; 32] {
    let (size, mantissa) = ((bits >> 24) as usize, bits & 0x007f_ffff);
    let mut target = [0; 32];
    for (place, byte) in mantissa.to_be_bytes()[1..].iter().enumerate() {
        // The mantissa's last byte stands at 256^(size - 3).
        let above_end = size as i64 - 1 - place as i64;
        if (0..32).contains(&above_end) {
            target[31 - above_end as usize] = *byte;
        }
    }
    target
}

/// A view's headers as the rules ask for them. A read that fails leaves its error behind.
pub struct ViewHeaders<'a> {
    view: &'a View,
    /// What went wrong.
    pub failed: RefCell<Option<ViewError>>,
}

impl<'a> ViewHeaders<'a> {
    /// The headers of `view`.
    pub fn new(view: &'a View) -> ViewHeaders<'a> {
        ViewHeaders { view, failed: RefCell::new(None) }
    }

    /// `value`, unless a read failed on the way to it.
    pub fn checked<T>(self, value: T) -> Result<T, RpcError> {
        self.failed.into_inner().map_or(Ok(value), |error| Err(error.into()))
    }
}

impl Ancestry for ViewHeaders<'_> {
    fn header(&self, height: u32) -> Header {
        let read = self.view.header(height).and_then(|header| header.ok_or(ViewError::Stale));
        read.map_or_else(
            |error| {
                *self.failed.borrow_mut() = Some(error);
                self.view.params().genesis
            },
            |bytes| Header::decode(&bytes),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::float_text;
    use stdx::hex;

    #[test]
    fn difficulty_and_target_of_bits() {
        #[track_caller]
        fn check(bits: u32, want_difficulty: &str, want_target: &str) {
            assert_eq!(float_text(difficulty(bits)), want_difficulty);
            assert_eq!(hex::encode(&target_of(bits)), want_target);
        }
        check(0x1d00_ffff, "1", "00000000ffff0000000000000000000000000000000000000000000000000000");
        check(0x207f_ffff, "4.656542373906925e-10", "7fffff0000000000000000000000000000000000000000000000000000000000");
        check(0x1b04_04cb, "16307.42093852398", "00000000000404cb000000000000000000000000000000000000000000000000");
        check(0x0112_3456, "1.480932088814444e+66", "0000000000000000000000000000000000000000000000000000000000000012");
    }
}
