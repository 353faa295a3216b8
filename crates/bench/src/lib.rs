//! The measuring kit behind `assay bench`: workloads, drivers for ourselves and for others, reports.
//!
//! In:     the arguments after `assay bench`.
//! Out:    a table with units on standard output, and the same with every raw run as JSON where `--json` names a file.
//! Fails:  [`BenchError`]: exit code 2 for arguments, 1 for everything else; a contestant that fails ends the bench, for
//!         a time without its result means nothing.
//!
//! Each contestant runs in a process of its own (`assay bench child ...`), so that its memory, CPU time and written
//! bytes are nobody else's; contestants take turns (A B A B), so that a busy minute hurts both.

mod arguments;
mod calls;
mod child;
mod client;
mod electrum;
mod fuzz;
mod import;
mod lookups;
mod machine;
mod measure;
mod memory;
mod network;
mod nodes;
mod noise;
mod parts;
mod report;
mod restart;
mod sample;
mod signatures;
mod statistics;
mod unconfirmed;
mod validate;

pub use report::count;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use arguments::{Bench, Request};

/// Why there is no result.
#[derive(Debug)]
pub enum BenchError {
    /// The arguments are wrong.
    Usage(String),
    /// A file or folder.
    Io {
        /// Which.
        path: PathBuf,
        /// The operating system's words.
        source: std::io::Error,
    },
    /// Our own chain failed.
    Chain(chain::ChainError),
    /// A lookup failed.
    View(chain::ViewError),
    /// libbitcoinkernel failed.
    Kernel(String),
    /// The sample chain was not forged.
    Forge(sim::forge::ForgeError),
    /// A contestant's process failed.
    Child {
        /// Which.
        name: String,
        /// How it ended.
        text: String,
    },
    /// A result is not what it must be.
    Wrong(String),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Usage(text) | BenchError::Wrong(text) => f.write_str(text),
            BenchError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            BenchError::Chain(error) => write!(f, "import: {error}"),
            BenchError::View(error) => write!(f, "lookup: {error}"),
            BenchError::Kernel(text) => write!(f, "libbitcoinkernel: {text}"),
            BenchError::Forge(error) => write!(f, "sample chain: {error}"),
            BenchError::Child { name, text } => write!(f, "contestant {name}: {text}"),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<chain::ChainError> for BenchError {
    fn from(error: chain::ChainError) -> Self {
        BenchError::Chain(error)
    }
}

impl From<chain::ViewError> for BenchError {
    fn from(error: chain::ViewError) -> Self {
        BenchError::View(error)
    }
}

impl From<sim::forge::ForgeError> for BenchError {
    fn from(error: sim::forge::ForgeError) -> Self {
        BenchError::Forge(error)
    }
}

/// Names the path an error belongs to.
fn at(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> BenchError {
    move |source| BenchError::Io { path: path.into(), source }
}

/// Runs the bench that the arguments after `assay bench` ask for.
pub fn cli(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let request = match arguments::parse(words) {
        Ok(request) => request,
        Err(error) => {
            // Help and version are "errors" with exit code 0 and go to standard output.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let outcome = match request {
        Request::Bench(bench) => run(bench),
        Request::Child { contestant, settings } => child::answer(&contestant, &settings),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("assay: {error}");
            ExitCode::from(if matches!(error, BenchError::Usage(_)) { 2 } else { 1 })
        }
    }
}

fn run(bench: Bench) -> Result<(), BenchError> {
    match bench {
        Bench::Import(options) => import::bench(&options),
        Bench::Signatures(options) => signatures::bench(&options),
        Bench::Fuzz(options) => fuzz::bench(&options),
        Bench::Lookups(options) => lookups::bench(&options),
        Bench::Memory(options) => memory::bench(&options),
        Bench::Restart(options) => restart::bench(&options),
        Bench::Sync(options) => network::sync::bench(&options),
        Bench::Rpc(options) => calls::bench(&options),
        Bench::Mempool(options) => unconfirmed::acceptance::bench(&options),
        Bench::FullMempool(options) => unconfirmed::fill::bench(&options),
        Bench::Relay(options) => network::relay::bench(&options),
        Bench::Storage(options) => parts::storage::bench(&options),
        Bench::Index(options) => parts::index::bench(&options),
        Bench::Validate(options) => validate::bench(&options),
        Bench::Addresses(options) => electrum::addresses(&options),
        Bench::Wallet(options) => electrum::wallet(&options),
        Bench::Load(options) => electrum::load(&options),
        Bench::Electrum(options) => electrum::electrum(&options),
        Bench::Compare(options) => report::compare::bench(&options),
    }
}
