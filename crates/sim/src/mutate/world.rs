//! A chain with coins of every type and the keys to all of them.
//!
//! In:     blocks that both judges took.
//! Out:    coins to spend.
//! Fails:  never.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use primitives::{Block, Network, OutPoint, Params};
use stdx::pool::Pool;
use stdx::random::Random;

use super::craft::Craft;
use crate::forge::lock::{Kind, Lock, SEQUENCE_SECONDS};
use crate::forge::plan::MATURITY;
use crate::forge::{Keyring, stream};
use crate::oracle::Judge;
use crate::oracle::judge::Refusal;

/// Keys of the world; each script type uses the first few.
const KEYS: u32 = 64;
/// Scripts of each type.
const SCRIPTS_PER_KIND: u32 = 8;
/// Outputs of each coinbase.
pub const COINBASE_OUTPUTS: usize = 12;
/// Blocks before the first case: enough that coinbases can be spent, few enough that heights still take two bytes.
pub const FIRST_BLOCKS: u32 = 112;
/// The clock of our judge, in 2033; Core's is the real one. Forged times are years before both.
pub const NOW_S: u64 = 2_000_000_000;

/// A coin and its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorldCoin {
    /// Where it is.
    pub outpoint: OutPoint,
    /// Amount.
    pub value_sat: u64,
    /// Height of its block.
    pub height: u32,
    /// Made by a coinbase.
    pub coinbase: bool,
    /// How it opens.
    pub lock: Lock,
}

/// The chain so far.
pub struct World {
    /// Our judge, who keeps the book.
    pub judge: Judge,
    /// The keys.
    pub keys: Arc<Keyring>,
    /// Coins whose lock is known, oldest first, spent ones removed.
    pub coins: Vec<WorldCoin>,
    scripts: HashMap<Vec<u8>, Lock>,
}

impl World {
    /// A world that has its first blocks; `take` hears of each.
    pub fn new(seed: u64, take: &mut dyn FnMut(&[u8])) -> World {
        let keys = Arc::new(Keyring::new(seed, KEYS, &Pool::new("keys", 1)));
        let judge = Judge::new(Params::of(Network::Regtest), Arc::new(sigs::Jury::new()), NOW_S);
        let locks = Kind::ALL.into_iter().flat_map(|kind| (0..SCRIPTS_PER_KIND).map(move |key| Lock::new(kind, key)));
        let mut scripts = HashMap::new();
        for lock in locks {
            // Where two types share a script, the first one opens it.
            scripts.entry(lock.script(&keys)).or_insert(lock);
        }
        let mut world = World { judge, keys, coins: Vec::new(), scripts };
        let mut random = stream(seed, 0x776f_726c);
        while world.judge.book().height() < FIRST_BLOCKS {
            let block = Craft::empty(&world, &mut random).build();
            take(&block);
            assert_eq!(world.feed(&block), Ok(()), "first blocks are valid");
        }
        world
    }

    /// Height of the next block.
    pub fn next_height(&self) -> u32 {
        self.judge.book().height() + 1
    }

    /// Judges a block, and takes it where it is valid.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.judge.feed(bytes)?;
        self.learn(&Block::parse(bytes).expect("it was accepted"));
        Ok(())
    }

    fn learn(&mut self, block: &Block) {
        let height = self.judge.book().height();
        let spent: HashSet<OutPoint> = block.txs().flat_map(|tx| tx.inputs().map(|input| input.outpoint())).collect();
        for tx in block.txs() {
            let txid = tx.txid();
            for (vout, output) in tx.outputs().enumerate() {
                let outpoint = OutPoint { txid, vout: vout as u32 };
                if let Some(&lock) = self.scripts.get(output.script) {
                    let (value_sat, coinbase) = (output.value_sat as u64, tx.index() == 0);
                    self.coins.push(WorldCoin { outpoint, value_sat, height, coinbase, lock });
                }
            }
        }
        // A coinbase alone spends nothing.
        if block.tx_count() > 1 {
            self.coins.retain(|coin| !spent.contains(&coin.outpoint));
        }
    }

    /// Whether the next block may spend a coin.
    pub fn is_ready(&self, coin: &WorldCoin) -> bool {
        let age = self.next_height() - coin.height;
        let mature = !coin.coinbase || age >= MATURITY;
        mature
            && match coin.lock.needs().sequence {
                Some(sequence) if sequence & SEQUENCE_SECONDS != 0 => {
                    self.elapsed_s(coin.height) >= (sequence & 0xffff) * 512
                }
                Some(blocks) => age >= blocks,
                None => true,
            }
    }

    /// Seconds that BIP 68 counts for a coin made at `height`.
    pub fn elapsed_s(&self, height: u32) -> u32 {
        let tip = self.judge.book().height();
        self.judge.median_time_past_s(tip) - self.judge.median_time_past_s(height.saturating_sub(1))
    }

    /// A lock whose coins the world can spend.
    pub fn draw_lock(&self, random: &mut Random) -> Lock {
        let kind = Kind::ALL[random.below(Kind::ALL.len() as u64) as usize];
        Lock::new(kind, random.below(SCRIPTS_PER_KIND.into()) as u32)
    }
}
