//! JSON-RPC of a node: open from the first second, with a password made at each start.
//!
//! In:     the settings; later a [`Handle`] to the writer.
//! Out:    [`Rpc`], a running server and its cookie file; dropping it closes connections and removes the file.
//! Fails:  when the address cannot be bound or the cookie cannot be written.
//! Source: Bitcoin Core, `src/rpc/request.cpp` (`GenerateAuthCookie`).

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chain::Handle;
use primitives::network::Network as Chain;
use serve::door::Door;
use serve::pool::Pool;
use serve::rpc::auth::COOKIE_USER;
use serve::rpc::env::Env;
use serve::rpc::needs::{Host, Network};
use serve::rpc::{Config as ServerConfig, ServerHandle, start};
use serve::zmq::Notifier;
use stdx::clock::Clock;
use stdx::hex;

use super::clock::NodeClock;
use super::log;
use super::report::Reporter;
use super::stop::StopFlag;
use crate::config::Config;
use crate::config::rpc::RpcSettings;

/// A running server.
pub struct Rpc {
    server: Option<ServerHandle>,
    env: Arc<Env>,
    cookie_file: Option<PathBuf>,
}

/// The process as calls see it.
struct NodeHost {
    reporter: Reporter,
    stop: StopFlag,
    clock: Arc<NodeClock>,
    network: Chain,
    blocks_from: PathBuf,
    log_file: String,
}

/// The process as servers see it.
pub fn host(config: &Config, reporter: &Reporter, stop: &StopFlag, clock: &Arc<NodeClock>) -> Arc<dyn Host> {
    Arc::new(NodeHost {
        reporter: reporter.clone(),
        stop: stop.clone(),
        clock: clock.clone(),
        network: config.network,
        blocks_from: config.blocks_from.clone(),
        log_file: config.log_file.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
    })
}

impl Rpc {
    /// Binds and answers what can be answered before the store is open. `None` where the settings say so.
    pub fn start(config: &Config, host: &Arc<dyn Host>) -> Result<Option<Rpc>, String> {
        let Some(settings) = &config.rpc else { return Ok(None) };
        let mut users = settings.users.clone();
        let cookie_file = if settings.user.is_empty() {
            let password = hex::encode(&random::<32>());
            write_cookie(&settings.cookie_file, &password)
                .map_err(|error| format!("the cookie {} cannot be written: {error}", settings.cookie_file.display()))?;
            users.add_plain(COOKIE_USER, &password, &random());
            Some(settings.cookie_file.clone())
        } else {
            users.add_plain(&settings.user, &settings.password, &random());
            None
        };
        let env = Arc::new(Env::new(config.params.clone(), host.clone()));
        let server = start(server_config(settings, users), env.clone())
            .map_err(|error| format!("JSON-RPC cannot listen on {} (setting rpc_listen): {error}", settings.listen))?;
        let address = server.local_address();
        log::info("rpc", "listening", &[("address", &address), ("rest", &settings.rest)]);
        if !address.ip().is_loopback() {
            log::warn("rpc", "not loopback: passwords travel in plain text", &[("address", &address)]);
        }
        Ok(Some(Rpc { server: Some(server), env, cookie_file }))
    }

    /// Answers from the writer's views and the mempool from now on.
    pub fn open(&self, handle: &Handle, pool: &Arc<Pool>) {
        let _ = self.env.mempool.set(pool.clone());
        let _ = self.env.blocks.set(Arc::new(Door::new(handle.clone(), self.env.host.clone())));
        let _ = self.env.chain.set(handle.clone());
    }

    /// What `getzmqnotifications` answers.
    pub fn publishes(&self, notifiers: &[Notifier]) {
        let _ = self.env.zmq.set(notifiers.to_vec());
    }

    /// Answers questions about peers from now on.
    pub fn join(&self, network: Arc<dyn Network>) {
        let _ = self.env.network.set(network);
    }

    /// What went wrong on our side since it was asked last, the newest only.
    pub fn take_fault(&self) -> Option<String> {
        self.env.metrics.take_fault()
    }
}

impl Drop for Rpc {
    fn drop(&mut self) {
        self.server = None;
        if let Some(path) = &self.cookie_file {
            let _ = fs::remove_file(path); // a file that is gone already is what we want
        }
    }
}

fn server_config(settings: &RpcSettings, users: serve::rpc::auth::Users) -> ServerConfig {
    ServerConfig {
        allow: settings.allow.clone(),
        threads: settings.threads,
        queue_max: settings.queue_max,
        timeout: std::time::Duration::from_secs(settings.timeout_s),
        rest: settings.rest,
        ..ServerConfig::new(settings.listen, users)
    }
}

/// Writes `user:password` for this user's eyes only, whole or not at all.
fn write_cookie(path: &Path, password: &str) -> std::io::Result<()> {
    let unfinished = path.with_extension("tmp");
    let _ = fs::remove_file(&unfinished); // left by a start that was killed, or a link that somebody put there
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    write!(file, "{COOKIE_USER}:{password}")?;
    drop(file);
    fs::rename(&unfinished, path)
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.expect("the writer's secret came from there already");
    bytes
}

impl Host for NodeHost {
    fn stop(&self) {
        self.stop.request();
    }

    fn stopping(&self) -> bool {
        self.stop.is_signalled() || self.stop.is_panicked()
    }

    fn uptime_s(&self) -> u64 {
        self.reporter.uptime().as_secs()
    }

    fn unix_s(&self) -> u64 {
        self.clock.unix_s()
    }

    fn set_unix_s(&self, unix_s: u64) -> bool {
        let may = self.network == Chain::Regtest;
        if may {
            self.clock.set(unix_s);
        }
        may
    }

    fn pass_time(&self, time: Duration) -> bool {
        let may = self.network == Chain::Regtest;
        if may {
            self.clock.pass(time);
        }
        may
    }

    fn log_path(&self) -> String {
        self.log_file.clone()
    }

    fn block_files_bytes(&self) -> u64 {
        let Ok(folder) = fs::read_dir(&self.blocks_from) else { return 0 };
        let files = folder.flatten().filter(|entry| entry.file_name().to_string_lossy().ends_with(".dat"));
        files.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
