//! The chain generator: a valid regtest chain from a seed, the same bytes on every machine and with any crew of threads.
//!
//! In:     [`ForgeOptions`], and a pool of threads to sign on.
//! Out:    blocks one by one ([`Forge::next_block`]) or as a folder of Bitcoin Core's block files ([`forge_to`]), and a
//!         [`Report`] of what was forged. Every standard script type is funded and spent.
//! Fails:  [`ForgeError`]: options that contradict each other, or the disk.
//! Source: shapes of transactions by era from 86 mainnet blocks, see [`mix`].
//!
//! One block at a time: the planner decides everything (one thread, seeded), the pool signs transactions whose parents
//! are known, wave by wave, and the assembler adds coinbase, commitment and proof of work. Memory holds one block, the
//! unspent coins and the keys.

pub mod assemble;
pub mod draft;
pub mod files;
pub mod keys;
pub mod lock;
pub mod mix;
pub mod plan;
pub mod planned;
pub mod sighash;
pub mod sign;
pub mod wallet;

mod pay;
mod special;

use std::sync::Arc;

use primitives::{BlockHash, Network, Params, Txid};
use stdx::pool::Pool;
use stdx::random::Random;

pub use draft::{Draft, DraftInput, DraftOutput};
pub use files::forge_to;
pub use keys::Keyring;
pub use lock::{Kind, Lock};
pub use mix::Mix;

use assemble::Coinbase;
use plan::Planner;
use planned::{PlannedTx, Source};

/// A script that ends with exactly this history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialScript {
    /// Its type; one that is spendable at once.
    pub kind: Kind,
    /// Transactions that touch it.
    pub entries: u32,
    /// Unspent outputs at the end.
    pub unspent: u32,
    /// First and last height of its transactions, about; none: the whole chain.
    pub heights: Option<(u32, u32)>,
    /// Scripts of the same wallet are touched together now and then; 0 for none.
    pub wallet: u32,
}

impl SpecialScript {
    /// On its own, over the whole chain.
    pub fn new(kind: Kind, entries: u32, unspent: u32) -> SpecialScript {
        SpecialScript { kind, entries, unspent, heights: None, wallet: 0 }
    }
}

/// What became of a [`SpecialScript`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptHistory {
    /// The output script.
    pub script: Vec<u8>,
    /// Its type.
    pub kind: Kind,
    /// See [`SpecialScript::wallet`].
    pub wallet: u32,
    /// Transactions that touch it.
    pub entries: u32,
    /// Its unspent outputs.
    pub unspent: u32,
    /// Height of the first transaction that touches it; 0 for none.
    pub first_height: u32,
    /// Height of the last one.
    pub last_height: u32,
}

/// What to forge.
#[derive(Clone, Debug)]
pub struct ForgeOptions {
    /// Same seed and options, same bytes.
    pub seed: u64,
    /// Height of the last block; at least [`BLOCKS_MIN`], for a coinbase is spendable after 100 blocks.
    pub blocks: u32,
    /// Inputs to spend over the whole chain, the coinbases' left out. Reached unless blocks are full before.
    pub inputs: u64,
    /// Which years' transactions.
    pub mix: Mix,
    /// Of 1,000 outputs, how many get a script type at random, rare and odd ones included.
    pub odd_permille: u32,
    /// Scripts with a history of exact length.
    pub special: Vec<SpecialScript>,
    /// Every block signals CSV, segregated witness and taproot (BIP 9), and nothing is spent before they are active
    /// everywhere: for nodes whose regtest waits for signals, where Core's has them from the start.
    pub signals: bool,
    /// Key that block files are XORed with, written to `xor.dat`; none: no such file.
    pub xor_key: Option<[u8; 8]>,
    /// Blocks that are gathered and put into random order before they are written; 1 keeps the order.
    pub shuffle_blocks: usize,
    /// Most bytes in one block file; Core's is 128 MiB.
    pub file_bytes_max: u64,
}

/// Height from which deployments that every block signals are active on regtest: three windows of 144 blocks (BIP 9).
pub const ACTIVE_HEIGHT: u32 = 3 * 144;
/// Least height of a forged chain: the first coinbase is spent in its last two blocks.
pub const BLOCKS_MIN: u32 = 103;
/// Most scripts with an exact history.
pub const SPECIAL_MAX: usize = 20_000;
/// Keys that only such scripts have, at least: with as many scripts or fewer, the other outputs are the same.
pub const KEYS_RESERVED: usize = 64;
/// Most entries of special scripts that one block has room for, with some to spare.
pub const SPECIAL_PER_BLOCK_MAX: u64 = 2_000;
/// Bitcoin Core's `MAX_BLOCKFILE_SIZE`.
pub const FILE_BYTES_MAX: u64 = 0x800_0000;

impl Default for ForgeOptions {
    fn default() -> Self {
        ForgeOptions {
            seed: 1,
            blocks: 300,
            inputs: 20_000,
            mix: Mix::History,
            odd_permille: 4,
            special: Vec::new(),
            signals: false,
            xor_key: None,
            shuffle_blocks: 1,
            file_bytes_max: FILE_BYTES_MAX,
        }
    }
}

impl ForgeOptions {
    /// Height of the first block that spends.
    pub fn first_spends(&self) -> u32 {
        if self.signals { ACTIVE_HEIGHT } else { plan::MATURITY + 1 }
    }
}

/// Why nothing was forged.
#[derive(Debug)]
pub enum ForgeError {
    /// An option is out of its range, or two contradict each other.
    Options(String),
    /// The disk failed.
    Disk(std::io::Error),
}

impl std::fmt::Display for ForgeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ForgeError::Options(text) => f.write_str(text),
            ForgeError::Disk(error) => write!(f, "writing block files: {error}"),
        }
    }
}

impl std::error::Error for ForgeError {}

impl From<std::io::Error> for ForgeError {
    fn from(error: std::io::Error) -> Self {
        ForgeError::Disk(error)
    }
}

/// What has been forged so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Height of the last block; blocks are this and the genesis block.
    pub height: u32,
    /// Hash of the last block.
    pub tip: BlockHash,
    /// Transactions, coinbases included, the genesis block's left out.
    pub txs: u64,
    /// Inputs, the coinbases' left out.
    pub inputs: u64,
    /// Outputs.
    pub outputs: u64,
    /// Signatures.
    pub signatures: u64,
    /// Bytes of all blocks.
    pub block_bytes: u64,
    /// Block files written.
    pub files: u32,
    /// Outputs made, by [`Kind`] in the order of [`Kind::ALL`].
    pub made: [u64; Kind::ALL.len()],
    /// Outputs spent, likewise.
    pub spent: [u64; Kind::ALL.len()],
    /// What became of [`ForgeOptions::special`], in order.
    pub special: Vec<ScriptHistory>,
}

/// A block, and where it belongs.
#[derive(Clone, Debug)]
pub struct ForgedBlock {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
    /// All its bytes.
    pub bytes: Vec<u8>,
}

/// A chain being forged. A clone goes on alone: [`Forge::diverge`] makes the other side of a fork.
#[derive(Clone)]
pub struct Forge {
    params: Arc<Params>,
    keys: Arc<Keyring>,
    planner: Planner,
    report: Report,
}

/// Inputs signed in one piece of work; at 3 us each that is a millisecond, far above the cost of queueing.
const CHUNK_INPUTS: usize = 256;

struct Signed {
    index: usize,
    bytes: Vec<u8>,
    txid: Txid,
    wtxid: [u8; 32],
    signatures: u64,
}

impl Forge {
    /// Makes the keys and stands at the genesis block.
    pub fn new(options: &ForgeOptions, pool: &Pool) -> Result<Forge, ForgeError> {
        check_options(options)?;
        // A quarter as many keys as inputs: each is used by several script types, and scripts are used again.
        let keys = (options.inputs / 4).next_power_of_two().clamp(1 << 10, 1 << 18) as u32;
        // And four times as many as special scripts, which have a key each.
        let keys = keys.max(4 * options.special.len().next_power_of_two() as u32);
        let keys = Arc::new(Keyring::new(options.seed, keys, pool));
        let params = Arc::new(Params::of(Network::Regtest));
        let planner = Planner::new(options, &params, keys.count());
        let special = planner.special_histories(&keys);
        let report = Report { tip: params.genesis_hash, special, ..Report::default() };
        Ok(Forge { params, keys, planner, report })
    }

    /// What has been forged so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The keys behind the scripts.
    pub fn keys(&self) -> &Arc<Keyring> {
        &self.keys
    }

    /// From here on another chance decides: with its clone this makes the two sides of a fork.
    pub fn diverge(&mut self, seed: u64) {
        self.planner.reseed(seed);
    }

    /// Forges the next block even beyond the height asked for, with the same budget of inputs as the last ones.
    pub fn extend(&mut self, pool: &Pool) -> ForgedBlock {
        let plan = self.planner.next_block();
        let signed = self.sign(plan.txs, pool);
        self.report.signatures += signed.iter().map(|tx| tx.signatures).sum::<u64>();
        let txids: Vec<Txid> = signed.iter().map(|tx| tx.txid).collect();
        let coinbase = Coinbase {
            height: plan.height,
            extra_nonce: plan.extra_nonce,
            outputs: plan
                .coinbase
                .iter()
                .map(|&(lock, value_sat)| DraftOutput { value_sat: value_sat as i64, script: lock.script(&self.keys) })
                .collect(),
            commitment: plan.commitment,
        };
        let parts: Vec<assemble::Part> =
            signed.into_iter().map(|tx| assemble::Part { bytes: tx.bytes, txid: tx.txid.0, wtxid: tx.wtxid }).collect();
        let header = assemble::HeaderPlan {
            version: plan.version,
            previous: self.report.tip,
            time_s: plan.time_s,
            bits: self.params.genesis.bits,
        };
        let built = assemble::block(&coinbase, &parts, &header);
        self.planner.settle(built.coinbase_txid, &txids, &mut self.report);
        self.report.height = plan.height;
        self.report.tip = built.hash;
        self.report.block_bytes += built.bytes.len() as u64;
        ForgedBlock { height: plan.height, hash: built.hash, bytes: built.bytes }
    }

    /// The next block, or none when the height asked for is reached.
    pub fn next_block(&mut self, pool: &Pool) -> Option<ForgedBlock> {
        (!self.planner.is_done()).then(|| self.extend(pool))
    }

    /// Signs wave by wave: a transaction's parents in the same block are signed before it.
    fn sign(&self, txs: Vec<PlannedTx>, pool: &Pool) -> Vec<Signed> {
        let mut txids = vec![Txid::default(); txs.len()];
        let waves = 1 + txs.iter().map(|tx| tx.depth).max().unwrap_or(0);
        let mut by_wave: Vec<Vec<(usize, PlannedTx)>> = (0..waves).map(|_| Vec::new()).collect();
        for (index, tx) in txs.into_iter().enumerate() {
            by_wave[tx.depth as usize].push((index, tx));
        }
        let mut signed: Vec<Signed> = Vec::with_capacity(txids.len());
        for mut wave in by_wave {
            for (_, tx) in &mut wave {
                for input in &mut tx.inputs {
                    if let Source::SameBlock(parent) = input.coin.source {
                        input.coin.source = Source::Known(txids[parent as usize]);
                    }
                }
            }
            let done = pool.map(chunks_of(wave), {
                let keys = self.keys.clone();
                move |chunk: Vec<(usize, PlannedTx)>| -> Vec<Signed> {
                    chunk.into_iter().map(|(index, tx)| sign_one(index, tx, &keys)).collect()
                }
            });
            for tx in done.into_iter().flatten() {
                txids[tx.index] = tx.txid;
                signed.push(tx);
            }
        }
        signed.sort_by_key(|tx| tx.index);
        signed
    }
}

fn chunks_of(wave: Vec<(usize, PlannedTx)>) -> Vec<Vec<(usize, PlannedTx)>> {
    let mut chunks = Vec::new();
    let mut chunk = Vec::new();
    let mut inputs = 0;
    for entry in wave {
        inputs += entry.1.inputs.len();
        chunk.push(entry);
        if inputs >= CHUNK_INPUTS {
            chunks.push(std::mem::take(&mut chunk));
            inputs = 0;
        }
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}

fn sign_one(index: usize, tx: PlannedTx, keys: &Keyring) -> Signed {
    let (mut draft, coins) = tx.draft(keys);
    let signatures = sign::sign(&mut draft, &coins, keys);
    let bytes = draft.encode();
    let txid = draft.txid();
    let wtxid = if draft.has_witness() { primitives::hash::sha256d(&bytes) } else { txid.0 };
    Signed { index, bytes, txid, wtxid, signatures }
}

fn check_options(options: &ForgeOptions) -> Result<(), ForgeError> {
    let fail = |text: String| Err(ForgeError::Options(text));
    if options.blocks < BLOCKS_MIN {
        return fail(format!(
            "blocks = {} is below {BLOCKS_MIN}: a coinbase is spent after 100 blocks",
            options.blocks
        ));
    }
    if options.signals && options.blocks < ACTIVE_HEIGHT + 2 {
        return fail(format!(
            "blocks = {} is below {}: what is signalled is active from height {ACTIVE_HEIGHT} on",
            options.blocks,
            ACTIVE_HEIGHT + 2
        ));
    }
    if options.odd_permille > 1000 {
        return fail(format!("odd_permille = {} is above 1000", options.odd_permille));
    }
    if options.shuffle_blocks == 0 {
        return fail("shuffle_blocks = 0: at least 1, which keeps the order".to_owned());
    }
    if options.file_bytes_max < 4_000_008 {
        return fail(format!("file_bytes_max = {} is below one block of 4,000,008 bytes", options.file_bytes_max));
    }
    if options.special.len() > SPECIAL_MAX {
        return fail(format!("{} special scripts, at most {SPECIAL_MAX}", options.special.len()));
    }
    let entries: u64 = options.special.iter().map(|special| u64::from(special.entries)).sum();
    if entries > u64::from(options.blocks + 1 - options.first_spends()) * SPECIAL_PER_BLOCK_MAX {
        return fail(format!("{entries} entries of special scripts have no room in {} blocks", options.blocks));
    }
    for special in &options.special {
        let SpecialScript { kind, entries, unspent, .. } = *special;
        if !kind.is_spendable_at_once() {
            return fail(format!("special script of type {kind:?}: only types that are spendable at once"));
        }
        if kind == Kind::Anchor {
            return fail("special script of type Anchor: all of that type are one script".to_owned());
        }
        if unspent > entries || (unspent == 0 && entries == 1) {
            return fail(format!("special script: {entries} entries cannot leave {unspent} unspent"));
        }
        if special.heights.is_some_and(|(from, to)| from > to || from > options.blocks) {
            let (from, to) = special.heights.unwrap_or_default();
            return fail(format!("special script: no heights from {from} to {to} in {} blocks", options.blocks));
        }
    }
    Ok(())
}

/// The stream of chance for one purpose under a seed.
pub(crate) fn stream(seed: u64, purpose: u64) -> Random {
    Random::new(seed).fork(purpose)
}

#[cfg(test)]
mod tests;
