//! What the mempool asks of the chain below it, and the coins it has asked for lately.
//!
//! In:     outpoints and heights.
//! Out:    coins of the committed chain, median times, the tip; [`CoinMemory`], bounded.
//! Fails:  [`ViewError`], when the disk fails.
//!
//! [`View`] is the chain; tests bring their own. A coin is remembered from the first question on, because a transaction
//! is looked at twice (before and after its signatures) and its replacement spends the same coins.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use primitives::{OutPoint, Params};
use store::CoinBuf;

use crate::view::{Tip, View, ViewError};

/// Headers whose times the median is taken of.
const MEDIAN_SPAN: u32 = 11;
/// Bytes of a mempool for each coin of a generation. With 300 MB 50,000, which with two generations and scripts of 34 bytes
/// take about 16 MiB.
const MEMPOOL_BYTES: u64 = 6_000;

/// The chain below the mempool, fixed at one tip.
pub trait Base: Send + Sync {
    /// The last block.
    fn tip(&self) -> Tip;
    /// The network.
    fn params(&self) -> &Params;
    /// An unspent output of the chain.
    fn coin(&self, outpoint: &OutPoint) -> Result<Option<CoinBuf>, ViewError>;
    /// Median time past of the block at `height`, which is the tip or below it.
    fn median_time_past_s(&self, height: u32) -> Result<u32, ViewError>;
}

impl Base for View {
    fn tip(&self) -> Tip {
        View::tip(self)
    }

    fn params(&self) -> &Params {
        View::params(self)
    }

    fn coin(&self, outpoint: &OutPoint) -> Result<Option<CoinBuf>, ViewError> {
        Ok(self.snapshot().coin(outpoint)?)
    }

    fn median_time_past_s(&self, height: u32) -> Result<u32, ViewError> {
        let first = (height + 1).saturating_sub(MEDIAN_SPAN);
        let headers = self.headers(first, height + 1 - first)?;
        let (headers, _) = headers.as_chunks::<80>();
        let mut times: Vec<u32> =
            headers.iter().map(|header| u32::from_le_bytes(header[68..72].try_into().expect("four bytes"))).collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied().ok_or(ViewError::BlockGone { height })
    }
}

/// A hash function with a secret key, so that nobody outside can choose what collides.
///
/// Words are multiplied to 128 bits and folded, the key on both sides: without the key no product can be steered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyed([u64; 2]);

impl Keyed {
    pub fn new(secret: [u8; 16]) -> Keyed {
        let half = |at: usize| u64::from_le_bytes(secret[at..at + 8].try_into().expect("eight bytes")) | 1;
        Keyed([half(0), half(8)])
    }

    /// The hash of some bytes.
    pub fn of(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.build_hasher();
        hasher.write(bytes);
        hasher.finish()
    }
}

impl BuildHasher for Keyed {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { state: self.0[0], key: self.0[1] }
    }
}

pub(super) struct KeyedHasher {
    state: u64,
    key: u64,
}

impl KeyedHasher {
    #[inline]
    fn word(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.key);
        self.state = product as u64 ^ (product >> 64) as u64 ^ self.state.rotate_left(23);
    }
}

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(last) ^ (rest.len() as u64) << 56);
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.word(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }

    fn finish(&self) -> u64 {
        let product = u128::from(self.state) * u128::from(self.key);
        product as u64 ^ (product >> 64) as u64
    }
}

type Coins = HashMap<OutPoint, Arc<CoinBuf>, Keyed>;

/// The coins asked for lately, in two generations: when the younger is full the older is forgotten.
pub(super) struct CoinMemory {
    generations: Mutex<[Coins; 2]>,
    coins_max: usize,
}

impl CoinMemory {
    /// For a mempool of at most so many bytes.
    pub fn new(keyed: Keyed, mempool_bytes_max: u64) -> CoinMemory {
        let generations = Mutex::new([0, 1].map(|_| HashMap::with_hasher(keyed)));
        CoinMemory { generations, coins_max: (mempool_bytes_max / MEMPOOL_BYTES).clamp(100, 50_000) as usize }
    }

    /// The coin, out of memory or the chain.
    pub fn coin(&self, base: &dyn Base, outpoint: &OutPoint) -> Result<Option<Arc<CoinBuf>>, ViewError> {
        if let Some(coin) = self.remembered(outpoint) {
            return Ok(Some(coin));
        }
        let Some(coin) = base.coin(outpoint)?.map(Arc::new) else { return Ok(None) };
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if generations[0].len() >= self.coins_max {
            generations.swap(0, 1);
            generations[0].clear();
        }
        generations[0].insert(*outpoint, coin.clone());
        Ok(Some(coin))
    }

    fn remembered(&self, outpoint: &OutPoint) -> Option<Arc<CoinBuf>> {
        let generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.iter().find_map(|coins| coins.get(outpoint).cloned())
    }

    /// Forgets what a block has spent.
    pub fn forget<'a>(&self, outpoints: impl Iterator<Item = &'a OutPoint>) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        for outpoint in outpoints {
            generations.iter_mut().for_each(|coins| {
                coins.remove(outpoint);
            });
        }
    }

    /// Forgets everything: heights change in a reorganisation.
    pub fn clear(&self) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.iter_mut().for_each(HashMap::clear);
    }
}
