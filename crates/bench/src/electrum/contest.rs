//! `assay bench electrum`: all workloads in one run, over one forged chain, with every server that is installed.
//!
//! In:     [`ElectrumOptions`].
//! Out:    one report.
//! Fails:  when a server does not start or is gone, and at the end when servers gave different answers.
//!
//! The cold pass comes after every server and bitcoind's files were forgotten: servers are started again, and the page
//! cache is emptied as far as the system lets us.

use serde_json::{Value, json};
use sim::forge::{ForgeOptions, ScriptHistory};

use super::arguments::{ElectrumOptions, Server};
use super::contestants::{self, Contest, Kind};
use super::scripts::{self, Probe};
use super::{addresses, load, sessions, told};
use crate::BenchError;
use crate::client::Client;
use crate::noise::Watch;
use crate::sample::{Blocks, Scratch};

/// Blocks that are handed in while subscribers wait.
const BLOCKS_AHEAD: usize = 5;
/// Inputs of a forged block on the average; notices are best measured with full ones.
const INPUTS_PER_BLOCK: u64 = 2_500;
/// Entries of special scripts in a block.
const ENTRIES_PER_BLOCK: u64 = 1_000;
/// Turns of the light client.
const LIGHT_ROUNDS: usize = 3;
/// Blocks of a chain with nothing in it.
const BLOCKS_LEAST: u32 = 150;
/// Most transactions of a script that many clients ask for: a wallet's, not an exchange's.
const LOAD_TRANSACTIONS_MAX: u64 = 1_000;

const FAIRNESS: [&str; 5] = [
    "All servers answer about the same forged chain on regtest. Its scripts, and their number, are far fewer than on the main \
     network: everything fits into the page cache, which favours whoever reads more of it.",
    "electrs, ElectrumX and Fulcrum share one bitcoind, which answers for transactions, fees and broadcasts; we answer \
     alone. The node's work is in their times, as it is for their users.",
    "Limits against strangers are lifted for all of them, caches and threads are what each takes by itself; a server whose \
     bitcoind polls is told of blocks by ZeroMQ where it can be.",
    "Builds of Bitcoin Core's master of 2026 were seen to answer requests that come together on one connection up to 50 ms apart. Fulcrum sends them so, and \
     is given 50 connections instead of 3 to be spared most of it.",
    "A new block is handed to our node and, when that is done, to bitcoind; the three others then work on it at the same \
     time, on the same processors.",
];

/// Forges, starts, measures, reports.
pub fn bench(options: &ElectrumOptions) -> Result<(), BenchError> {
    sessions::allow_sessions(options.sessions)?;
    let mut watch = Watch::start();
    let scratch = Scratch::new(&options.scratch, "electrum")?;
    let (blocks, ahead, histories) = Blocks::forge_ahead(&options.scratch, &chain_of(options), BLOCKS_AHEAD)?;
    let mut contest = Contest::start(options, &blocks, scratch.path())?;
    let servers: Vec<Server> = contest.contestants.iter().map(contestants::Contestant::server).collect();
    let asked = contest.asked()?;
    let names = super::names(&asked);
    let mut report = super::begin("electrum", "Electrum servers over one chain", &asked);
    report.fairness.extend(FAIRNESS.map(str::to_owned));

    let probes = probes(&servers[0], &histories)?;
    contest.restart(scratch.path())?;
    let mut folders = contest.folders(scratch.path());
    folders.push(blocks.folder().to_owned());
    report.fairness.push(match contestants::forget_files(&folders) {
        true => "Before the cold pass every server was started again and the page cache was emptied.".to_owned(),
        false => "Before the cold pass every server was started again; the page cache could not be emptied.".to_owned(),
    });
    watch.look();
    let mut printed = 0;
    let answers = addresses::ask(&servers, &probes.all, &options.passes)?;
    told::addresses(&mut report, &names, &probes.all, &answers);
    super::print(&report, &mut printed);
    watch.look();
    let (shape, runs) = super::wallets(&servers, &probes.wallet, &options.wallet, options.passes.timeout_s)?;
    told::wallet(&mut report, &names, &runs, &shape);
    super::print(&report, &mut printed);
    watch.look();
    let material = super::material(&mut client(&servers[0])?, probes.load())?;
    let slices = load::run(&servers, &material, &options.load, options.passes.timeout_s)?;
    told::load(&mut report, &names, &slices, &options.load);
    super::print(&report, &mut printed);
    watch.look();
    let more = sessions_of(&mut contest, &servers, options, &probes, ahead)?;
    told::sessions(&mut report, &names, &more.memory, &more.noticed, &more.light);
    super::print(&report, &mut printed);
    let raw = json!({
        "addresses": super::raw_addresses(&names, &probes.all, &answers),
        "wallet": super::by_name(&names, &runs),
        "load": super::raw_load(&names, &slices),
        "sessions": more.raw(),
        "versions": contestants::describe(&asked, options.bitcoind.as_deref())?,
    });
    super::finish(report, watch, options.output.report.as_deref(), &raw)?;
    super::agreed(&answers)
}

fn client(server: &Server) -> Result<Client, BenchError> {
    Client::open(&server.address, super::PREPARING).map_err(scripts::failed)
}

/// The scripts of each workload.
struct Probes {
    /// Of every size.
    all: Vec<Probe>,
    /// A wallet's.
    wallet: Vec<Probe>,
}

impl Probes {
    /// What many clients ask for.
    fn load(&self) -> Vec<Probe> {
        let all = self.wallet.iter().chain(&self.all).filter(|probe| probe.entries <= LOAD_TRANSACTIONS_MAX);
        all.cloned().collect()
    }
}

/// The chain, long enough for everything that is to be in it.
fn chain_of(options: &ElectrumOptions) -> ForgeOptions {
    let base = ForgeOptions { seed: options.seed, inputs: options.forge_inputs, ..ForgeOptions::default() };
    let scripts = |blocks: u32| {
        let heights = (base.first_spends(), blocks);
        let addresses = options.wallet.addresses as u32;
        scripts::forged(options.seed, options.largest, options.histories, addresses, heights)
    };
    let entries: u64 = scripts(BLOCKS_LEAST).iter().map(|script| u64::from(script.entries)).sum();
    let blocks = BLOCKS_LEAST + (options.forge_inputs / INPUTS_PER_BLOCK + entries / ENTRIES_PER_BLOCK) as u32;
    ForgeOptions { blocks, special: scripts(blocks), ..base }
}

/// The forged scripts; the first server must say of each what was forged.
fn probes(first: &Server, histories: &[ScriptHistory]) -> Result<Probes, BenchError> {
    let mut client = client(first)?;
    let mut all = scripts::probes_of(histories, 0);
    all.sort_by(|a, b| (a.entries, a.unspent, &a.hash).cmp(&(b.entries, b.unspent, &b.hash)));
    all.dedup();
    let probes = Probes { all, wallet: scripts::probes_of(histories, 1) };
    for probe in probes.all.iter().chain(&probes.wallet) {
        // One by one, for a batch of long histories would be longer than any answer.
        let (found, _) = scripts::sizes(&mut client, std::slice::from_ref(&probe.hash)).map_err(scripts::failed)?;
        if found.first() != Some(probe) {
            return Err(BenchError::Wrong(format!("forged: {probe:?}; {} says {found:?}", first.name)));
        }
    }
    Ok(probes)
}

/// What is measured of sessions.
struct Sessions {
    memory: Vec<sessions::Memory>,
    noticed: Vec<Vec<sessions::Noticed>>,
    light: std::collections::BTreeMap<String, sessions::Light>,
}

impl Sessions {
    fn raw(&self) -> Value {
        json!({ "memory": self.memory, "notices": self.noticed, "light": self.light })
    }
}

fn sessions_of(
    contest: &mut Contest,
    servers: &[Server],
    options: &ElectrumOptions,
    probes: &Probes,
    ahead: Vec<sim::forge::ForgedBlock>,
) -> Result<Sessions, BenchError> {
    eprintln!("a light client beside a heavy one");
    let (small, heavy) = (&probes.wallet[0], probes.all.iter().max_by_key(|probe| probe.entries));
    let heavy = heavy.unwrap_or(small);
    let light = sessions::light(servers, &small.hash, &heavy.hash, LIGHT_ROUNDS)?;
    let mut noticed = Vec::new();
    for (number, block) in ahead.iter().enumerate() {
        eprintln!("block {} of {} for subscribers", number + 1, ahead.len());
        let hashes = sessions::touched(&block.bytes, options.notices as usize)?;
        let rpc = contest.bitcoind.as_mut().map(|node| &mut node.rpc);
        noticed.push(sessions::notices(&mut contest.contestants, rpc, &block.bytes, &hashes)?);
    }
    let mut memory = Vec::new();
    for contestant in &contest.contestants {
        eprintln!("memory of sessions: {}", contestant.kind().name());
        // One that lets no more in than it has files for is not the others' failure.
        match sessions::memory(contestant, options.sessions) {
            Ok(found) => memory.push(found),
            Err(error) if contestant.kind() == Kind::Assay => return Err(error),
            Err(error) => eprintln!("{error}"),
        }
    }
    Ok(Sessions { memory, noticed, light })
}
