//! The arguments of the benches of Electrum servers.
//!
//! In:     the words after `assay bench addresses | wallet | load | electrum`.
//! Out:    their options.
//! Fails:  with clap's message.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use primitives::Network;

use crate::client::Address;
use crate::machine;

/// A server and what it is called in the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub address: Address,
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Server, String> {
        // Without a name the address is it.
        let is_name = |name: &str| !name.is_empty() && !name.contains("://");
        let (name, address) = match text.split_once('=') {
            Some((name, address)) if is_name(name) => (name, address),
            _ => (text, text),
        };
        Ok(Server { name: name.to_owned(), address: address.parse()? })
    }
}

/// A span of numbers, both ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub from: u64,
    /// The last.
    pub to: u64,
}

impl Span {
    /// Whether a number is in it.
    pub fn has(&self, number: u64) -> bool {
        (self.from..=self.to).contains(&number)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        match (from.trim().parse(), to.trim().parse()) {
            (Ok(from), Ok(to)) if from <= to => Ok(Span { from, to }),
            _ => Err(format!("{text:?}: expected FROM-TO, such as 10-999")),
        }
    }
}

/// Whom to ask.
#[derive(Args, Clone, Debug)]
pub struct ServerOptions {
    /// An Electrum server: tcp://, ssl://, ws:// or wss:// with HOST:PORT; may be given several times
    #[arg(long = "server", value_name = "NAME=URL", required = true)]
    pub servers: Vec<Server>,
    /// The network of addresses in a file of scripts
    #[arg(long, default_value = "main")]
    pub chain: Network,
}

/// Which scripts to ask for.
#[derive(Args, Clone, Debug)]
pub struct ScriptOptions {
    /// Scripts to ask for, one a line: an address, a script hash, or a scriptPubKey; without it they are drawn from the chain
    #[arg(long, value_name = "FILE")]
    pub scripts: Option<PathBuf>,
    /// Scripts to draw from the chain
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub draw: u64,
    /// Heights between which a drawn script received; the whole chain by default
    #[arg(long, value_name = "FROM-TO")]
    pub heights: Option<Span>,
    /// Transactions of a drawn script
    #[arg(long, value_name = "FROM-TO", default_value = "10-999")]
    pub transactions: Span,
    /// Chance of everything that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// How addresses are asked for.
#[derive(Args, Clone, Debug)]
pub struct PassOptions {
    /// Passes over all scripts after the first, which is kept apart
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub passes: u32,
    /// Seconds until a request counts as not answered
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub timeout_s: u64,
}

/// How a wallet asks.
#[derive(Args, Clone, Debug)]
pub struct WalletShape {
    /// Used addresses of the wallet
    #[arg(long, value_name = "COUNT", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub addresses: u64,
    /// Requests of a batch
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub page: u64,
    /// Connections of the wallet
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub sockets: u64,
    /// Runs after the first, which is kept apart
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
}

/// How many ask at once.
#[derive(Args, Clone, Debug)]
pub struct LoadShape {
    /// Clients at once
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    pub clients: u64,
    /// Seconds of a slice; servers take turns
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub slice_s: u64,
    /// Slices of each server, one more at the start to warm up
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub slices: u32,
}

/// Where the report goes.
#[derive(Args, Clone, Debug)]
pub struct OutputOptions {
    /// Write the report into this folder: HTML, Markdown with its charts, JSON, and every raw figure
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// `assay bench addresses`.
#[derive(Args, Debug)]
pub struct AddressesOptions {
    #[command(flatten)]
    pub servers: ServerOptions,
    #[command(flatten)]
    pub scripts: ScriptOptions,
    #[command(flatten)]
    pub passes: PassOptions,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// `assay bench wallet`.
#[derive(Args, Debug)]
pub struct WalletOptions {
    #[command(flatten)]
    pub servers: ServerOptions,
    #[command(flatten)]
    pub scripts: ScriptOptions,
    #[command(flatten)]
    pub wallet: WalletShape,
    /// Seconds until a page counts as not answered
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub timeout_s: u64,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// `assay bench load`.
#[derive(Args, Debug)]
pub struct LoadOptions {
    #[command(flatten)]
    pub servers: ServerOptions,
    #[command(flatten)]
    pub scripts: ScriptOptions,
    #[command(flatten)]
    pub load: LoadShape,
    /// Seconds until a request counts as not answered
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub timeout_s: u64,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// `assay bench electrum`.
#[derive(Args, Debug)]
pub struct ElectrumOptions {
    /// An electrs to measure beside us; needs --bitcoind
    #[arg(long, value_name = "PROGRAM", requires = "bitcoind")]
    pub electrs: Option<PathBuf>,
    /// An electrumx_server to measure beside us; needs --bitcoind
    #[arg(long, value_name = "PROGRAM", requires = "bitcoind")]
    pub electrumx: Option<PathBuf>,
    /// A Fulcrum to measure beside us; needs --bitcoind
    #[arg(long, value_name = "PROGRAM", requires = "bitcoind")]
    pub fulcrum: Option<PathBuf>,
    /// The bitcoind behind them
    #[arg(long, value_name = "PROGRAM")]
    pub bitcoind: Option<PathBuf>,
    /// Inputs of the forged chain beside the measured scripts
    #[arg(long, value_name = "COUNT", default_value_t = 300_000)]
    pub forge_inputs: u64,
    /// Transactions of the largest forged script
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub largest: u32,
    /// Threads of each program
    #[arg(long, value_name = "N", default_value_t = machine::cores())]
    pub threads: usize,
    /// Memory budget of our node, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub memory: u64,
    /// Forged scripts of 1 to --largest transactions, most of them of 10 to 999
    #[arg(long, value_name = "COUNT", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub histories: u32,
    /// Chance of everything that is forged and drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub passes: PassOptions,
    #[command(flatten)]
    pub wallet: WalletShape,
    #[command(flatten)]
    pub load: LoadShape,
    /// Sessions and subscriptions whose memory is measured
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..=10_000))]
    pub sessions: u64,
    /// Subscribed scripts that a new block touches, at most
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub notices: u64,
    /// Folder for data directories and the forged chain, removed afterwards
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub scratch: PathBuf,
    #[command(flatten)]
    pub output: OutputOptions,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Scheme;

    #[test]
    fn servers_have_a_name_or_are_called_by_their_address() {
        let server: Server = "ours=tcp://127.0.0.1:50001".parse().unwrap();
        assert_eq!((server.name.as_str(), server.address.port), ("ours", 50001));
        let server: Server = "wss://[::1]:50004/".parse().unwrap();
        assert_eq!((server.name.as_str(), server.address.scheme), ("wss://[::1]:50004/", Scheme::Wss));
        for bad in ["ours=", "ours", "tcp://:1", "tcp://host", "gopher://host:1", "a=tcp://host:70000"] {
            assert!(bad.parse::<Server>().is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_have_both_ends_in_them() {
        let span: Span = "10-999".parse().unwrap();
        assert_eq!([9, 10, 999, 1000].map(|number| span.has(number)), [false, true, true, false]);
        assert_eq!("7".parse(), Ok(Span { from: 7, to: 7 }));
        for bad in ["", "9-1", "a-b", "1-", "-1"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }
}
