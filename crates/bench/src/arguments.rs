//! The arguments of `assay bench`.
//!
//! In:     the words after `assay bench`.
//! Out:    [`Request`].
//! Fails:  with clap's message, which names the argument and what it accepts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use primitives::Network;
use sigs::EngineName;

use crate::electrum::arguments::{AddressesOptions, ElectrumOptions, LoadOptions, WalletOptions};
use crate::machine;
use crate::validate::Wanted;

/// What to run.
#[derive(Debug)]
pub enum Request {
    /// A bench.
    Bench(Bench),
    /// One contestant of a bench, in this process.
    Child {
        /// Its name.
        contestant: String,
        /// Its settings as JSON.
        settings: String,
    },
}

#[derive(Parser)]
#[command(name = "assay bench", about = "Measures this program, and others on the same work", version)]
struct Program {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    #[command(flatten)]
    Bench(Bench),
    /// One contestant, started by a bench
    #[command(hide = true)]
    Child { contestant: String, settings: String },
}

/// The benches.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Block files to validated, indexed tip: time, memory, bytes; also against libbitcoinkernel and plain hashing
    Import(ImportOptions),
    /// Nanoseconds a signature check, by each engine and by libsecp256k1 alone
    Signatures(SignaturesOptions),
    /// Signature engines against libsecp256k1 on made-up signatures, for as long as one likes
    Fuzz(FuzzOptions),
    /// Latency of balance, unspent and history for scripts of different size
    Lookups(LookupsOptions),
    /// Import under a small and a large memory budget: peak memory, same result
    Memory(MemoryOptions),
    /// kill -9 in the middle of an import: time until the state is served again
    Restart(RestartOptions),
    /// Initial sync from peers on loopback against import of the same blocks from files
    Sync(SyncOptions),
    /// Blocks, headers and transactions by JSON-RPC, beside bitcoind
    Rpc(RpcOptions),
    /// Unconfirmed transactions taken in: by the library, by JSON-RPC and from a peer, beside bitcoind
    Mempool(MempoolOptions),
    /// Memory of a node whose mempool is full, and of bitcoind's
    FullMempool(FullMempoolOptions),
    /// A new block of known transactions, from the peer that has it to the one that has not, beside bitcoind
    Relay(RelayOptions),
    /// The table of coins and its segments: cuts, merges, bytes written, recovery, lookups, by memory budget
    Storage(PartsOptions),
    /// Rows and bytes of the index, and what it adds to an import
    Index(PartsOptions),
    /// Nodes of every kind validate a whole chain: time, CPU time, memory, bytes, and the limit of signatures alone
    Validate(ValidateOptions),
    /// Balance, history and unspent outputs of scripts of every size, from Electrum servers in turn
    Addresses(AddressesOptions),
    /// A wallet of thousands of addresses opens and refreshes, from Electrum servers in turn
    Wallet(WalletOptions),
    /// Many clients with wallets' habits at once, at Electrum servers in turn
    Load(LoadOptions),
    /// The three before over one forged chain: our Electrum server, electrs, ElectrumX and Fulcrum
    Electrum(Box<ElectrumOptions>),
    /// Two reports of the same bench, measure by measure
    Compare(CompareOptions),
}

/// Where the chain of a bench comes from.
#[derive(Args, Clone, Debug)]
pub struct SourceOptions {
    /// The network of the block files
    #[arg(long, default_value = "regtest")]
    pub chain: Network,
    /// Folder of Bitcoin Core's block files; without it a sample chain is forged
    #[arg(long, value_name = "DIR")]
    pub blocks_from: Option<PathBuf>,
    /// Inputs of the sample chain
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    pub forge_inputs: u64,
    /// Folder for data directories and sample chains, removed afterwards
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub scratch: PathBuf,
}

/// What every import of a bench shares.
#[derive(Args, Clone, Debug)]
pub struct CrewOptions {
    /// Threads that work at once
    #[arg(long, value_name = "N", default_value_t = machine::cores())]
    pub threads: usize,
    /// Memory budget, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub memory: u64,
    /// Signature engine: auto, lanes, batch, scalar
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub engine: EngineName,
}

/// Who else imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rival {
    /// libbitcoinkernel's own chainstate, without any index
    Kernel,
}

/// `assay bench import`.
#[derive(Args, Debug)]
pub struct ImportOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    #[command(flatten)]
    pub crew: CrewOptions,
    /// Let another program import the same files in turn
    #[arg(long, value_name = "WHO")]
    pub against: Option<Rival>,
    /// Check no script, and compare with double-SHA256 of the same bytes on one thread
    #[arg(long, conflicts_with = "against")]
    pub no_signatures: bool,
    /// Derive no index rows
    #[arg(long)]
    pub no_index: bool,
    /// Import also without the index, to know its share of the time
    #[arg(long, conflicts_with = "no_index")]
    pub index_share: bool,
    /// Keep hints of signatures while importing, and import again with them, as `assay reindex` does
    #[arg(long, conflicts_with = "no_signatures")]
    pub hints: bool,
    /// Runs of each contestant, in turn
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Write the report, raw runs included, to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Who verifies in `assay bench signatures`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Contestant {
    /// Eight signatures in the lanes of a vector register
    Lanes,
    /// Random linear combinations, in the lanes
    Batch,
    /// Random linear combinations in 64-bit words, for processors without the lanes' instructions
    PortableBatch,
    /// libsecp256k1, one signature after the other
    Scalar,
}

/// `assay bench signatures`.
#[derive(Args, Debug)]
pub struct SignaturesOptions {
    /// Slices of each measure, engine and library in turn, at least
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    pub slices: u32,
    /// Seconds of each measure, at least
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub seconds: f64,
    /// Signature engines; all this processor runs by default
    #[arg(long = "engine", value_name = "NAME", value_delimiter = ',')]
    pub engines: Vec<Contestant>,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `assay bench fuzz`.
#[derive(Args, Debug)]
pub struct FuzzOptions {
    /// Cases, 500,000 of each seed
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    pub cases: u64,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Seeds at once
    #[arg(long, value_name = "N", default_value_t = machine::cores())]
    pub threads: usize,
    /// Signature engines: lanes, batch; all there are by default
    #[arg(long = "engine", value_name = "NAME", value_delimiter = ',')]
    pub engines: Vec<EngineName>,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `assay bench lookups`.
#[derive(Args, Debug)]
pub struct LookupsOptions {
    #[command(flatten)]
    pub crew: CrewOptions,
    /// Inputs of the sample chain beside the measured scripts
    #[arg(long, value_name = "COUNT", default_value_t = 300_000)]
    pub forge_inputs: u64,
    /// Questions of each kind for each script
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub questions: u32,
    /// Folder for the data directory and the sample chain, removed afterwards
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub scratch: PathBuf,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `assay bench memory`.
#[derive(Args, Debug)]
pub struct MemoryOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    /// Threads that work at once
    #[arg(long, value_name = "N", default_value_t = machine::cores())]
    pub threads: usize,
    /// Budgets to compare, in MiB
    #[arg(long, value_name = "MIB", value_delimiter = ',', default_value = "512,4096")]
    pub budgets: Vec<u64>,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `assay bench restart`.
#[derive(Args, Debug)]
pub struct RestartOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    #[command(flatten)]
    pub crew: CrewOptions,
    /// How often an import is killed
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub kills: u32,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `assay bench sync`.
#[derive(Args, Debug)]
pub struct SyncOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    #[command(flatten)]
    pub crew: CrewOptions,
    /// Nodes to download from
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub sources: u32,
    /// Download also over the plain transport
    #[arg(long)]
    pub plain: bool,
    /// Download also from eight peers at this rate, and from seven with an eighth at a hundredth of it, in kB/s
    #[arg(long, value_name = "KB_PER_S", value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub slow_peer: Option<u64>,
    /// Runs of each contestant, in turn
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Write the report, raw runs included, to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `assay bench rpc`.
#[derive(Args, Debug)]
pub struct RpcOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    /// Threads of each node
    #[arg(long, value_name = "N", default_value_t = machine::cores())]
    pub threads: usize,
    /// Slices of each question, nodes in turn
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub slices: u32,
    /// A bitcoind to ask beside us
    #[arg(long, value_name = "PROGRAM")]
    pub bitcoind: Option<PathBuf>,
    /// Write the report, raw runs included, to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `assay bench mempool`.
#[derive(Args, Debug)]
pub struct MempoolOptions {
    /// Unconfirmed transactions
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub transactions: u64,
    /// Of a hundred transactions, those that spend from an unconfirmed one
    #[arg(long, value_name = "PERCENT", default_value_t = 15, value_parser = clap::value_parser!(u64).range(0..=50))]
    pub children: u64,
    /// Threads of each node and of the library
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Bind each node to this core (taskset), and this kit to the others
    #[arg(long, value_name = "N")]
    pub core: Option<u32>,
    /// Memory budget of our node, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub memory: u64,
    /// Leave out what is handed in by JSON-RPC
    #[arg(long)]
    pub no_rpc: bool,
    /// Runs of each contestant, in turn
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// A bitcoind to hand the same transactions to
    #[arg(long, value_name = "PROGRAM")]
    pub bitcoind: Option<PathBuf>,
    /// Folder for data directories and the sample chain, removed afterwards
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub scratch: PathBuf,
    /// Write the report, raw runs included, to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `assay bench full-mempool`.
#[derive(Args, Debug)]
pub struct FullMempoolOptions {
    /// Bytes of the mempool, in MB: `mempool_mb`, and bitcoind's `maxmempool`
    #[arg(long, value_name = "MB", default_value_t = 300, value_parser = clap::value_parser!(u64).range(5..=10_000))]
    pub mempool_mb: u64,
    /// Unconfirmed transactions; with 300 MB 260,000 fill it
    #[arg(long, value_name = "COUNT", default_value_t = 260_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub transactions: u64,
    /// Of a hundred transactions, those that spend from an unconfirmed one
    #[arg(long, value_name = "PERCENT", default_value_t = 15, value_parser = clap::value_parser!(u64).range(0..=50))]
    pub children: u64,
    /// Threads of each node
    #[arg(long, value_name = "N", default_value_t = machine::cores())]
    pub threads: usize,
    /// Memory budget of our node, in MiB; less than it and the mempool want is refused by the node
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub memory: u64,
    /// A bitcoind to fill the same way
    #[arg(long, value_name = "PROGRAM")]
    pub bitcoind: Option<PathBuf>,
    /// Folder for data directories and the sample chain, removed afterwards
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub scratch: PathBuf,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `assay bench relay`.
#[derive(Args, Debug)]
pub struct RelayOptions {
    /// Blocks to relay
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub blocks: u32,
    /// Transactions of each block
    #[arg(long, value_name = "COUNT", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(10..=6_000))]
    pub transactions: u64,
    /// Threads of each node
    #[arg(long, value_name = "N", default_value_t = machine::cores())]
    pub threads: usize,
    /// A bitcoind to send the same blocks to
    #[arg(long, value_name = "PROGRAM")]
    pub bitcoind: Option<PathBuf>,
    /// Folder for data directories and the sample chain, removed afterwards
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub scratch: PathBuf,
    /// Write the report, raw runs included, to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `assay bench storage` and `assay bench index`.
#[derive(Args, Debug)]
pub struct PartsOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    /// Threads that work at once
    #[arg(long, value_name = "N", default_value_t = machine::cores())]
    pub threads: usize,
    /// Memory budgets to compare, in MiB; `index` takes the last one
    #[arg(long, value_name = "MIB", value_delimiter = ',', default_value = "256,1024")]
    pub budgets: Vec<u64>,
    /// Runs of each, in turn
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Write the report as HTML, Markdown and JSON into this folder
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// `assay bench validate`.
#[derive(Args, Debug)]
pub struct ValidateOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    #[command(flatten)]
    pub crew: CrewOptions,
    /// Nodes: assay, assay-files, kernel, and bitcoind, bitcoind-files, btcd, bcoin, mako with =PROGRAM
    #[arg(
        long = "node",
        value_name = "KIND[=PROGRAM]",
        value_delimiter = ',',
        default_value = "assay,assay-files,kernel"
    )]
    pub nodes: Vec<Wanted>,
    /// Name of the report's files
    #[arg(long, value_name = "NAME", default_value = "validate", value_parser = report_name)]
    pub name: String,
    /// Longest time a node may take to the tip, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1_800, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub patience: u64,
    /// Runs of each node, in turn
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Write the report as HTML, Markdown and JSON into this folder
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// `assay bench compare`.
#[derive(Args, Debug)]
pub struct CompareOptions {
    /// The report that the other is held against, as JSON
    #[arg(value_name = "A.json")]
    pub first: PathBuf,
    /// The other report
    #[arg(value_name = "B.json")]
    pub second: PathBuf,
}

/// A name that is a file's on every system, and a link's.
fn report_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = !text.is_empty() && text.len() <= 64 && text.chars().all(fits);
    if is_name { Ok(text.to_owned()) } else { Err("expected lower-case letters, digits and hyphens".to_owned()) }
}

/// Reads the words after `assay bench`.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Request, clap::Error> {
    let words = std::iter::once(OsString::from("assay bench")).chain(words);
    Ok(match Program::try_parse_from(words)?.what {
        What::Bench(bench) => Request::Bench(bench),
        What::Child { contestant, settings } => Request::Child { contestant, settings },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Request, clap::Error> {
        parse(text.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_documented_command_is_read() {
        let text = "import --chain regtest --blocks-from D --threads 2 --memory 512 --json F --against kernel";
        let Request::Bench(Bench::Import(options)) = read(text).unwrap() else { panic!("import") };
        assert_eq!(options.source.blocks_from, Some("D".into()));
        assert_eq!((options.crew.threads, options.crew.memory), (2, 512));
        assert_eq!(options.against, Some(Rival::Kernel));
        assert_eq!((options.json, options.runs), (Some("F".into()), 3));
        let Request::Bench(Bench::Memory(options)) = read("memory").unwrap() else { panic!("memory") };
        assert_eq!(options.budgets, [512, 4096]);
        let Request::Bench(Bench::Validate(options)) = read("validate --name a-1 --node assay,btcd=/b").unwrap() else {
            panic!("validate")
        };
        assert_eq!((options.name.as_str(), options.nodes.len(), options.patience), ("a-1", 2, 1_800));
    }

    #[test]
    fn wrong_arguments_are_refused_with_exit_code_2() {
        let bad = [
            "import --chain nonet",
            "import --against nobody",
            "import --against kernel --no-signatures",
            "import --runs 0",
            "validate --name ../a",
            "validate --node gocoin=/a",
            "compare a.json",
            "signatures --engine none",
            "fuzz --engine lanes,none",
            "nothing",
            "",
        ];
        for text in bad {
            assert_eq!(read(text).err().map(|error| error.exit_code()), Some(2), "{text:?}");
        }
    }
}
