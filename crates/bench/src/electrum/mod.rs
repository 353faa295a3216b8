//! Electrum servers measured as their users meet them: addresses of every size, a large wallet, many clients.
//!
//! In:     servers that run somewhere, or programs to start over one forged chain.
//! Out:    tables on standard output; where `--report` names a folder, the report with every raw figure beside it.
//! Fails:  when a server is gone, and at the end when servers gave different answers.
//!
//! Whatever is measured, servers take turns, and those that wait are up but idle.

pub mod arguments;

mod addresses;
mod contest;
mod contestants;
mod load;
mod mix;
mod scripts;
mod sessions;
mod sizes;
mod told;
mod wallet;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use addresses::Answers;
use arguments::{AddressesOptions, LoadOptions, Server, ServerOptions, WalletOptions, WalletShape};
use contestants::Asked;
use mix::Material;
use scripts::{Confirmed, Probe};
use wallet::Run;

use crate::noise::Watch;
use crate::report::{Contestant, Report, Rows, Table};
use crate::{BenchError, at};

pub use contest::bench as electrum;

/// Longest wait for an answer while it is found out what to ask for.
const PREPARING: Duration = Duration::from_secs(120);
/// Scripts whose transactions are asked for under load.
const MATERIAL_SCRIPTS: usize = 500;

/// Sentences on what is fair, whatever is measured.
const FAIRNESS: [&str; 3] = [
    "Servers and the clients that measure them share this machine's processors; the clients' own CPU time is told.",
    "Reading an answer is in its time, parsing it is not.",
    "ElectrumX holds small answers over TCP back by up to a second, against those who watch the line; asked by WebSocket it \
     does not.",
];

/// `assay bench addresses`.
pub fn addresses(options: &AddressesOptions) -> Result<(), BenchError> {
    let mut watch = Watch::start();
    let (asked, mut first) = meet(&options.servers)?;
    let probes = scripts::wanted(&mut first, &options.scripts, options.servers.chain)?;
    drop(first);
    let answers = addresses::ask(&options.servers.servers, &probes, &options.passes)?;
    watch.look();
    let mut report = begin("addresses", "Balance, history and unspent outputs", &asked);
    report.fairness.push("The first pass is cold only as far as nobody asked the servers before.".to_owned());
    let names = names(&asked);
    told::addresses(&mut report, &names, &probes, &answers);
    print(&report, &mut 0);
    finish(report, watch, options.output.report.as_deref(), &raw_addresses(&names, &probes, &answers))?;
    agreed(&answers)
}

/// `assay bench wallet`.
pub fn wallet(options: &WalletOptions) -> Result<(), BenchError> {
    let mut watch = Watch::start();
    let (asked, mut first) = meet(&options.servers)?;
    let wanted = arguments::ScriptOptions { draw: options.wallet.addresses, ..options.scripts.clone() };
    let probes = scripts::wanted(&mut first, &wanted, options.servers.chain)?;
    drop(first);
    let (shape, runs) = wallets(&options.servers.servers, &probes, &options.wallet, options.timeout_s)?;
    watch.look();
    let mut report = begin("wallet", "A large wallet opens and refreshes", &asked);
    let names = names(&asked);
    told::wallet(&mut report, &names, &runs, &shape);
    print(&report, &mut 0);
    finish(report, watch, options.output.report.as_deref(), &json!({ "runs": by_name(&names, &runs) }))
}

/// `assay bench load`.
pub fn load(options: &LoadOptions) -> Result<(), BenchError> {
    let mut watch = Watch::start();
    let (asked, mut first) = meet(&options.servers)?;
    let probes = scripts::wanted(&mut first, &options.scripts, options.servers.chain)?;
    let material = material(&mut first, probes)?;
    drop(first);
    let slices = load::run(&options.servers.servers, &material, &options.load, options.timeout_s)?;
    watch.look();
    let mut report = begin("load", "Many clients at once", &asked);
    let names = names(&asked);
    told::load(&mut report, &names, &slices, &options.load);
    print(&report, &mut 0);
    finish(report, watch, options.output.report.as_deref(), &raw_load(&names, &slices))
}

/// Versions of the servers, and a client of the first.
fn meet(options: &ServerOptions) -> Result<(Vec<Asked>, Client), BenchError> {
    let names: BTreeSet<&String> = options.servers.iter().map(|server| &server.name).collect();
    if names.len() < options.servers.len() {
        return Err(BenchError::Usage("--server: two of them have the same name".to_owned()));
    }
    let asked = options.servers.iter().map(|server| contestants::ask_version(server, Vec::new()));
    let asked = asked.collect::<Result<Vec<Asked>, BenchError>>()?;
    let first = Client::open(&options.servers[0].address, PREPARING).map_err(scripts::failed)?;
    Ok((asked, first))
}

fn names(asked: &[Asked]) -> Vec<String> {
    asked.iter().map(|one| one.server.name.clone()).collect()
}

/// The first run of every server in turn, then the others.
fn wallets(
    servers: &[Server],
    probes: &[Probe],
    shape: &WalletShape,
    timeout_s: u64,
) -> Result<(WalletShape, Vec<Vec<Run>>), BenchError> {
    let hashes: Vec<String> = probes.iter().take(shape.addresses as usize).map(|probe| probe.hash.clone()).collect();
    let shape = WalletShape { addresses: hashes.len() as u64, ..shape.clone() };
    let mut runs = vec![Vec::new(); servers.len()];
    for turn in 0..=shape.runs as usize {
        eprintln!("wallet of {} addresses, run {turn} of {}", hashes.len(), shape.runs);
        for server in addresses::rotated(servers.len(), turn) {
            runs[server].push(wallet::open(&servers[server], &hashes, &shape, timeout_s)?);
        }
    }
    Ok((shape, runs))
}

/// What many clients ask for: scripts, and transactions from their histories.
fn material(first: &mut Client, probes: Vec<Probe>) -> Result<Material, BenchError> {
    let tip = first.call("blockchain.headers.subscribe", json!([])).map_err(scripts::failed)?;
    let hashes: Vec<String> = probes.iter().take(MATERIAL_SCRIPTS).map(|probe| probe.hash.clone()).collect();
    let mut transactions: BTreeSet<Confirmed> = BTreeSet::new();
    for page in hashes.chunks(50) {
        let histories = scripts::histories(first, page).map_err(scripts::failed)?;
        transactions.extend(histories.into_iter().flatten().flatten());
    }
    if transactions.is_empty() {
        return Err(BenchError::Usage("none of the scripts has a confirmed transaction".to_owned()));
    }
    let transactions = transactions.into_iter().collect();
    Ok(Material { probes, transactions, tip: tip["height"].as_u64().unwrap_or(0) })
}

fn begin(bench: &str, title: &str, asked: &[Asked]) -> Report {
    let mut report = Report::new(bench, title);
    let contestant = |one: &Asked| Contestant {
        name: one.server.name.clone(),
        version: one.version.clone(),
        settings: [vec![("address".to_owned(), one.server.address.to_string())], one.settings.clone()].concat(),
    };
    report.contestants = asked.iter().map(contestant).collect();
    report.fairness = FAIRNESS.map(str::to_owned).to_vec();
    report
}

/// Says whether the machine was quiet, and writes the report where one was asked for.
fn finish(mut report: Report, watch: Watch, folder: Option<&Path>, raw: &Value) -> Result<(), BenchError> {
    report.noise = watch.finish();
    println!("{}", report.noise.text());
    let Some(folder) = folder else { return Ok(()) };
    report.write(folder)?;
    // In one line: millions of figures, which only programs read.
    let path = folder.join(format!("{}-raw.json", report.bench));
    fs::write(&path, raw.to_string() + "\n").map_err(at(path))
}

/// Prints the sections that were not printed yet.
fn print(report: &Report, printed: &mut usize) {
    for section in &report.sections[*printed..] {
        println!("\n{}\n", section.title);
        section.text.iter().for_each(|text| println!("{text}"));
        section.tables.iter().for_each(|rows| println!("\n{}", as_text(rows)));
    }
    *printed = report.sections.len();
}

fn as_text(rows: &Rows) -> String {
    let headings: Vec<&str> = rows.headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    rows.rows.iter().for_each(|row| table.row(row.clone()));
    table.text()
}

/// An answer that is not the others' makes every time of it doubtful.
fn agreed(answers: &Answers) -> Result<(), BenchError> {
    match answers.differing.len() {
        0 => Ok(()),
        count => Err(BenchError::Wrong(format!("servers gave different answers to {count} questions, see the report"))),
    }
}

fn by_name<T: serde::Serialize>(names: &[String], all: &[T]) -> Value {
    Value::Object(names.iter().zip(all).map(|(name, one)| (name.clone(), json!(one))).collect())
}

fn raw_addresses(names: &[String], probes: &[Probe], answers: &Answers) -> Value {
    let times = answers.times.iter().map(|((server, question, probe), times)| {
        json!({ "server": names[*server], "question": question, "script": probe, "times": times })
    });
    json!({ "scripts": probes, "times": times.collect::<Vec<_>>(), "differing": answers.differing })
}

fn raw_load(names: &[String], slices: &[load::Slice]) -> Value {
    let slice = |slice: &load::Slice| {
        let clients = slice
            .clients
            .iter()
            .map(|client| json!({ "wallet": mix::Wallet::ALL[client.wallet].name(), "errors": client.errors }));
        let mut by_kind: std::collections::BTreeMap<&str, Vec<(f64, f64)>> = Default::default();
        slice.done().for_each(|done| by_kind.entry(done.kind).or_default().push((done.at_s, done.us)));
        json!({
            "server": names[slice.server], "seconds": slice.seconds, "requests": slice.requests(),
            "own_cpu_s": slice.own_cpu_s, "fairness": slice.fairness(),
            "clients": clients.collect::<Vec<_>>(), "end_s_and_us_by_kind": by_kind,
        })
    };
    json!({ "slices": slices.iter().map(slice).collect::<Vec<_>>() })
}
