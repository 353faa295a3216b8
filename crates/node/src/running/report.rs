//! What the node says about itself: one object for `assay status`, one line for the log, one for a terminal.
//!
//! In:     the writer's status, the meter, the machine.
//! Out:    JSON with a unit in every name; text.
//! Fails:  never; before the store is open the phase is `opening` and the rest is zero.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chain::mempool::SharedMempool;
use chain::{Handle, Phase, Status};
use net::shell::PeerReport;
use net::sync::Waiting;
use serde_json::{Value as Json, json};
use serve::electrum::Env;
use serve::metrics::{LATENCY_US_MAX, MethodCounters, SIZE_BYTES_MAX};
use sigs::{Counters, Engine};
use stdx::clock::Clock;
use stdx::disk::SystemDisk;

use super::progress::{Meter, Rates, Sample, bytes_text, count_text, duration_text, percent};
use super::{log, os};
use crate::config::Config;
use crate::wiring::Admin;

/// Everything a report is made from; shared by the main thread and the status thread.
#[derive(Clone)]
pub struct Reporter(Arc<Inner>);

struct Inner {
    started: Instant,
    network: &'static str,
    chain_dir: PathBuf,
    blocks_from: PathBuf,
    memory_budget_bytes: u64,
    threads: usize,
    engine: Arc<dyn Engine>,
    disk: Arc<SystemDisk>,
    handle: OnceLock<Handle>,
    electrum: OnceLock<Electrum>,
    peers: OnceLock<Network>,
    mempool: OnceLock<(SharedMempool, Arc<dyn Clock>)>,
    meter: Mutex<Meter>,
    /// Height from which this start went on.
    first_height: AtomicU32,
}

/// What the Electrum server is asked.
struct Electrum {
    listen: String,
    env: Arc<Env>,
    admin: Admin,
}

/// What the network is asked.
struct Network {
    listen: Option<String>,
    reports: Box<dyn Fn() -> Vec<PeerReport> + Send + Sync>,
    waiting: Box<dyn Fn() -> Waiting + Send + Sync>,
}

impl Reporter {
    /// Begins with nothing but the settings.
    pub fn new(config: &Config, disk: Arc<SystemDisk>, engine: Arc<dyn Engine>) -> Reporter {
        Reporter(Arc::new(Inner {
            started: Instant::now(),
            network: config.network.name(),
            chain_dir: config.chain_dir.clone(),
            blocks_from: config.blocks_from.clone(),
            memory_budget_bytes: config.memory_bytes,
            threads: config.threads,
            engine,
            disk,
            handle: OnceLock::new(),
            electrum: OnceLock::new(),
            peers: OnceLock::new(),
            mempool: OnceLock::new(),
            meter: Mutex::default(),
            first_height: AtomicU32::new(0),
        }))
    }

    /// The store is open: from now on there is something to say.
    pub fn opened(&self, handle: Handle) {
        self.0.first_height.store(handle.status().height, Ordering::Relaxed);
        let _ = self.0.handle.set(handle);
    }

    /// The Electrum server listens here, and may be changed while it runs.
    pub fn serving(&self, env: Arc<Env>, listen: String, settings_file: PathBuf) {
        let admin = Admin::new(env.clone(), settings_file, self.0.chain_dir.join("electrum-bans.jsonl"));
        if let Err(why) = admin.restore_bans() {
            log::warn("electrum", "bans of before are not known", &[("why", &why)]);
        }
        let _ = self.0.electrum.set(Electrum { listen, env, admin });
    }

    /// What the status socket answers: how we are, where nothing was asked for, or what came of a command.
    pub fn answer(&self, asked: &str) -> Json {
        if asked.is_empty() {
            return self.json();
        }
        let Ok(asked) = serde_json::from_str::<Json>(asked) else {
            return json!({ "error": "the question is no JSON" });
        };
        match self.0.electrum.get() {
            Some(electrum) => electrum.admin.answer(&asked),
            None => json!({ "error": "this node has no Electrum server" }),
        }
    }

    /// There is a mempool; its floor falls with this clock's time.
    pub fn holding(&self, mempool: SharedMempool, clock: Arc<dyn Clock>) {
        let _ = self.0.mempool.set((mempool, clock));
    }

    /// The node talks to peers, who may connect here.
    pub fn connected(
        &self,
        address: Option<SocketAddr>,
        reports: impl Fn() -> Vec<PeerReport> + Send + Sync + 'static,
        waiting: impl Fn() -> Waiting + Send + Sync + 'static,
    ) {
        let listen = address.map(|address| address.to_string());
        let _ = self.0.peers.set(Network { listen, reports: Box::new(reports), waiting: Box::new(waiting) });
    }

    /// Connections now, of both directions.
    pub fn peer_count(&self) -> usize {
        self.0.peers.get().map_or(0, |network| (network.reports)().len())
    }

    /// The writer's status, once the store is open.
    pub fn status(&self) -> Option<Status> {
        self.0.handle.get().map(Handle::status)
    }

    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        self.0.started.elapsed()
    }

    /// Takes a sample for the rates; once a second is enough.
    pub fn sample(&self) {
        let Some(status) = self.status() else { return };
        let sample = Sample {
            at: self.uptime(),
            blocks: status.blocks,
            bytes: status.bytes_done,
            transactions: status.transactions,
            signatures: status.signatures,
            bytes_left: status.bytes_left,
        };
        self.0.meter.lock().unwrap_or_else(PoisonError::into_inner).add(sample);
    }

    /// Bytes this start has written below the data directory.
    pub fn written_bytes(&self) -> u64 {
        self.0.disk.written_bytes()
    }

    fn speed(&self) -> (Rates, Option<Duration>) {
        let meter = self.0.meter.lock().unwrap_or_else(PoisonError::into_inner);
        (meter.rates(), meter.time_left())
    }

    /// The object that `assay status --json` shows.
    pub fn json(&self) -> Json {
        let inner = &*self.0;
        let opening = inner.handle.get().is_none();
        let status = self.status().unwrap_or_default();
        let (rates, left) = self.speed();
        let (resident_bytes, resident_bytes_max) = os::resident_bytes();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "process": std::process::id(),
            "chain": inner.network,
            "datadir": text(&inner.chain_dir),
            "blocks_from": text(&inner.blocks_from),
            "uptime_s": self.uptime().as_secs(),
            "phase": if opening { "opening" } else { status.phase.name() },
            "height": status.height,
            "hash": status.hash.to_string(),
            "time_s": status.time_s,
            "headers_height": status.headers_height,
            "committed_height": status.committed_height,
            "percent": share(&status, opening),
            "time_left_s": left.map(|left| left.as_secs()),
            "since_start": {
                "first_height": inner.first_height.load(Ordering::Relaxed),
                "blocks": status.blocks,
                "block_bytes": status.bytes_done,
                "block_bytes_left": status.bytes_left,
                "transactions": status.transactions,
                "inputs": status.inputs,
                "outputs": status.outputs,
                "signatures": status.signatures,
                "hinted_signatures": status.hinted_signatures,
                "template_inputs": status.template_inputs,
                "interpreter_inputs": status.interpreter_inputs,
                "known_inputs": status.known_inputs,
                "disconnected_blocks": status.disconnected,
                "commits": status.commits,
                "written_bytes": inner.disk.written_bytes(),
            },
            "rates": rates_json(&rates),
            "headers_waiting": status.headers_waiting,
            "notes": status.notes,
            "refused": status.refused.map(|(height, hash, why)| {
                json!({ "height": height, "hash": hash.to_string(), "why": why })
            }),
            "engine": inner.engine.name(),
            "engine_instructions": inner.engine.instructions(),
            "signatures": signatures(&inner.engine.counters()),
            "threads": inner.threads,
            "memory": {
                "budget_bytes": inner.memory_budget_bytes,
                "resident_bytes": resident_bytes,
                "resident_bytes_max": resident_bytes_max,
                "coins_bytes": status.coins_bytes,
            },
            "disk": {
                "index_bytes": status.stored_bytes,
                "hints_bytes": status.hints_bytes,
                "hints_off": status.hints_off,
                "filters": status.filters.count,
                "filters_bytes": status.filters.bytes,
                "filters_off": status.filters.problem,
                "free_bytes": os::disk_free_bytes(&inner.chain_dir),
            },
            "mempool": inner.mempool.get().map(|(mempool, clock)| mempool_json(mempool, &**clock)),
            "peers": inner.peers.get().map(peers),
            "electrum": inner.electrum.get().map(electrum),
        })
    }

    /// One line of the log.
    pub fn log_progress(&self) {
        let Some(status) = self.status() else {
            return log::info("node", "opening", &[("uptime_s", &self.uptime().as_secs())]);
        };
        let (rates, left) = self.speed();
        let fields: log::Fields = &[
            ("phase", &status.phase.name()),
            ("height", &status.height),
            ("headers", &status.headers_height),
            ("percent", &share(&status, false).map_or("unknown".to_owned(), |percent| format!("{percent:.2}"))),
            ("mb_per_s", &format!("{:.1}", rates.bytes / 1e6)),
            ("tx_per_s", &(rates.transactions as u64)),
            ("signatures_per_s", &(rates.signatures as u64)),
            ("coins_mib", &(status.coins_bytes >> 20)),
            ("memory_mib", &(os::resident_bytes().0 >> 20)),
            ("peers", &self.peer_count()),
            ("eta", &left.map_or("unknown".to_owned(), duration_text)),
        ];
        log::info("node", "progress", fields);
    }

    /// One line of the log with what this start has done.
    pub fn log_totals(&self, event: &str) {
        let status = self.status().unwrap_or_default();
        let seconds = self.uptime().as_secs_f64();
        let fields: log::Fields = &[
            ("height", &status.height),
            ("hash", &status.hash),
            ("blocks", &status.blocks),
            ("transactions", &status.transactions),
            ("inputs", &status.inputs),
            ("signatures", &status.signatures),
            ("hinted_signatures", &status.hinted_signatures),
            ("seconds", &format!("{seconds:.1}")),
            ("block_bytes", &status.bytes_done),
            ("index_bytes", &status.stored_bytes),
            ("hints_bytes", &status.hints_bytes),
            ("written_bytes", &self.0.disk.written_bytes()),
            ("resident_bytes_max", &os::resident_bytes().1),
        ];
        log::info("node", event, fields);
    }

    /// The line a terminal shows while it syncs.
    pub fn live_line(&self) -> String {
        let Some(status) = self.status() else { return "opening the data directory".to_owned() };
        if status.phase == Phase::Scanning {
            return format!("scanning block files | {} headers", count_text(status.headers_height.into()));
        }
        let (rates, left) = self.speed();
        format!(
            "{} {}/{} {:.1} % | {:.1} MB/s | {} tx/s | {} sig/s | coins {} | memory {} | {} left",
            status.phase.name(),
            status.height,
            status.headers_height,
            percent(status.bytes_done, status.bytes_left),
            rates.bytes / 1e6,
            count_text(rates.transactions as u64),
            count_text(rates.signatures as u64),
            bytes_text(status.coins_bytes),
            bytes_text(os::resident_bytes().0),
            left.map_or("unknown".to_owned(), duration_text),
        )
    }
}

fn rates_json(rates: &Rates) -> Json {
    json!({
        "blocks_per_s": rates.blocks,
        "bytes_per_s": rates.bytes,
        "transactions_per_s": rates.transactions,
        "signatures_per_s": rates.signatures,
    })
}

/// The Electrum server: its counters, and a row for each method that was asked for.
fn electrum(electrum: &Electrum) -> Json {
    let metrics = &electrum.env.metrics;
    let mut object = json!({ "listen": electrum.listen, "sessions": metrics.sessions_now.get() });
    for (name, method, value) in metrics.rows().into_iter().filter(|row| row.1.is_empty()) {
        debug_assert!(method.is_empty());
        object[name] = value.into();
    }
    if electrum.env.directory.is_on() {
        let counts = electrum.env.directory.counts();
        object["servers_good_now"] = counts.good.into();
        object["servers_stale_now"] = counts.stale.into();
        object["servers_never_now"] = counts.never.into();
        object["servers_bad_now"] = counts.bad.into();
    }
    let asked = metrics.methods.iter().filter(|method| method.requests.get() > 0);
    object["methods"] = asked.map(method).collect();
    object
}

fn method(counters: &MethodCounters) -> Json {
    let sizes = counters.latencies.iter().zip(SIZE_BYTES_MAX).filter(|(latencies, _)| latencies.count() > 0);
    let sizes = sizes.map(|(latencies, bytes_max)| {
        json!({
            "bytes_max": bytes_max,
            "microseconds_max": LATENCY_US_MAX,
            "counts": latencies.counts(),
            "total_us": latencies.total_us(),
        })
    });
    json!({ "name": counters.name, "requests": counters.requests.get(), "sizes": sizes.collect::<Vec<Json>>() })
}

/// Connections to other nodes.
fn peers(network: &Network) -> Json {
    let (reports, waiting) = ((network.reports)(), (network.waiting)());
    let outbound = reports.iter().filter(|report| report.setup.kind.is_outbound()).count();
    let one = |report: &PeerReport| {
        let version = report.features.version.as_ref();
        json!({
            "id": report.setup.id.0,
            "address": report.setup.remote.to_string(),
            "kind": report.setup.kind.name(),
            "user_agent": version.map(|version| version.user_agent_text()),
            "encrypted": report.session_id.is_some(),
            "headers_height": report.talk.synced_headers,
            "blocks_on_order": report.talk.in_flight.len(),
            "received_bytes": report.statistics.received.bytes,
            "sent_bytes": report.statistics.sent.bytes,
        })
    };
    json!({
        "listen": network.listen,
        "block_missing_ms": waiting.lacking_ms,
        "block_missing_and_nothing_ordered_ms": waiting.idle_ms,
        "unused_block_bytes": waiting.unused_bytes,
        "outbound": outbound,
        "inbound": reports.len() - outbound,
        "connections": reports.iter().map(one).collect::<Vec<Json>>(),
    })
}

/// What the signature engine has done since the start.
fn signatures(counters: &Counters) -> Json {
    // Field by field, so that a counter that is new is not forgotten here.
    let Counters { calls, checks, accepted, scalar, lanes, fallbacks, audits, batches, batched, failed_batches } =
        *counters;
    json!({
        "calls": calls,
        "rows": checks,
        "accepted": accepted,
        "lanes": lanes,
        "batches": batches,
        "batch_rows": batched,
        "failed_batches": failed_batches,
        "scalar": scalar,
        "fallbacks": fallbacks,
        "audits": audits,
    })
}

/// Unconfirmed transactions.
fn mempool_json(mempool: &SharedMempool, clock: &dyn Clock) -> Json {
    let mempool = mempool.read();
    json!({
        "transactions": mempool.len(),
        "virtual_bytes": mempool.size_vb(),
        "memory_bytes": mempool.bytes(),
        "memory_bytes_max": mempool.policy().mempool_bytes_max,
        "fee_sat": mempool.fee_sat(),
        "floor_sat_per_kvb": mempool.minimum(clock.unix_s()).sat_per_kvb(),
        "unbroadcast": mempool.unbroadcast().count(),
    })
}

/// Percent done; unknown while nobody knows yet how much there is.
fn share(status: &Status, opening: bool) -> Option<f64> {
    (!opening && status.phase != Phase::Scanning).then(|| percent(status.bytes_done, status.bytes_left))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
