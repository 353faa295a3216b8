//! The ways in, the thread that passes on events, and the end of it all.
//!
//! In:     a configuration, a source; a receiver of events as soon as there is one.
//! Out:    [`ServerHandle`]: the doors opened, the counters, a stop within a second.
//! Fails:  [`start`] with the door that cannot be opened, or the certificate that cannot be read or made.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chain::mempool::SharedMempool;
use rustls::ServerConfig;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};

use super::events::{Follows, pass_on};
use super::record::Ended;
use super::session::{self, Guest, Surroundings};
use super::{Config, Env};
use crate::discovery::shell;
use crate::metrics::Metrics;
use crate::priority;
use crate::source::{Event, Source};
use crate::transport::certificate::Identity;
use crate::transport::channel::Layers;
use crate::transport::listen::{Door, Listener, Origin, Place};

/// Pause after the system refuses a connection, for instance because no file handles are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time sessions get to end when the server stops; what is not done then is cut off.
const STOP_TIME: Duration = Duration::from_millis(500);

/// A running server; dropping it stops it.
pub struct ServerHandle {
    env: Arc<Env>,
    doors: Vec<Door>,
    stop: watch::Sender<bool>,
    runtime: Option<Runtime>,
    long: Option<Runtime>,
    events: Option<JoinHandle<()>>,
}

/// Opens every door and serves whoever comes until the handle is stopped.
pub fn start(config: Config, source: Arc<dyn Source>) -> Result<ServerHandle, StartError> {
    let identity = identity(&config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.network_threads)
        .max_blocking_threads(config.work_threads + 1)
        .thread_name("electrum")
        .on_thread_start(|| _ = priority::answer_at_once())
        .enable_all()
        .build()
        .map_err(StartError::Threads)?;
    let mut listeners = Vec::new();
    for door in &config.doors {
        let bound = runtime.block_on(Listener::bind(door.clone()));
        listeners.push(bound.map_err(|error| StartError::Door(door.clone(), error))?);
    }
    let doors = listeners.iter().map(|listener| listener.door().clone()).collect();
    let (stop, stop_receiver) = watch::channel(false);
    let long = long_threads(config.long_threads).map_err(StartError::Threads)?;
    let here = Arc::new(Semaphore::new(config.network_threads.saturating_sub(1)));
    let telling = Arc::new(Semaphore::new((config.network_threads / 2).max(1)));
    let work = Arc::new(Semaphore::new(config.work_threads));
    let env = Arc::new(Env::new(config, source));
    let surroundings =
        Surroundings { env: env.clone(), here, telling, work, long: long.handle().clone(), stop: stop_receiver };
    if let Some(identity) = &identity {
        runtime.spawn(look_at_certificate(identity.clone(), env.clone()));
    }
    if surroundings.env.directory.is_on() {
        runtime.spawn(shell::run(surroundings.env.clone(), surroundings.stop.clone()));
    }
    for listener in listeners {
        let tls = identity.as_ref().filter(|_| listener.door().has_tls).map(|identity| identity.config());
        runtime.spawn(accept(listener, tls, surroundings.clone()));
    }
    Ok(ServerHandle { env, doors, stop, runtime: Some(runtime), long: Some(long), events: None })
}

/// Threads for long answers, which others come before.
fn long_threads(count: usize) -> io::Result<Runtime> {
    let mut threads = tokio::runtime::Builder::new_current_thread();
    threads
        .max_blocking_threads(count.max(1))
        .thread_name("electrum-long")
        .on_thread_start(|| _ = priority::give_way())
        .build()
}

/// Why a server does not start.
#[derive(Debug)]
pub enum StartError {
    /// The door cannot be opened.
    Door(Door, io::Error),
    /// Certificate or key cannot be used.
    Certificate(String),
    /// There are no threads.
    Threads(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Door(door, error) => write!(f, "it cannot listen on {} ({}): {error}", door.place, door.name()),
            StartError::Certificate(why) => f.write_str(why),
            StartError::Threads(error) => write!(f, "it has no threads: {error}"),
        }
    }
}

/// The certificate, where a door needs one.
fn identity(config: &Config) -> Result<Option<Arc<Identity>>, StartError> {
    if !config.doors.iter().any(|door| door.has_tls) {
        return Ok(None);
    }
    let Some(files) = config.certificate.clone() else {
        return Err(StartError::Certificate("a door has TLS, and there is no certificate".to_owned()));
    };
    let names: Vec<String> = config.public_hosts.iter().map(|server| server.host.to_string()).collect();
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Identity::open(files, &names, unix_s).map(|identity| Some(Arc::new(identity))).map_err(StartError::Certificate)
}

/// Shows a new certificate soon after its files have changed.
async fn look_at_certificate(identity: Arc<Identity>, env: Arc<Env>) {
    loop {
        tokio::time::sleep(env.config.certificate_look_time).await;
        match identity.look() {
            Ok(changed) => env.metrics.certificates_read.add(u64::from(changed)),
            Err(why) => env.metrics.note_fault(&format!("the certificate stays as it was: {why}")),
        }
    }
}

impl ServerHandle {
    /// Tells the sessions of `events` and of the mempool's changes from now on; without it nobody is notified. `events` were
    /// subscribed to after the mempool began to follow the writer.
    pub fn follow(&mut self, events: Receiver<Event>, mempool: Option<SharedMempool>) -> io::Result<()> {
        let (env, stop) = (self.env.clone(), self.stop.subscribe());
        let mempool = mempool.map(Follows::new);
        let thread = std::thread::Builder::new().name("electrum-events".into());
        self.events = Some(thread.spawn(move || pass_on(&events, mempool, &env, &stop))?);
        Ok(())
    }

    /// The ways in, with the ports that the system gave for port 0.
    pub fn doors(&self) -> &[Door] {
        &self.doors
    }

    /// The address of the first door that has one.
    pub fn local_address(&self) -> SocketAddr {
        let address = self.doors.iter().find_map(|door| match door.place {
            Place::Tcp(address) => Some(address),
            Place::Unix(_) => None,
        });
        address.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// What it did so far.
    pub fn metrics(&self) -> &Metrics {
        &self.env.metrics
    }

    /// What its sessions share.
    pub fn env(&self) -> &Arc<Env> {
        &self.env
    }

    /// Ends all sessions and waits for them, at most a second.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.block_on(async {
                let deadline = tokio::time::Instant::now() + STOP_TIME;
                while self.env.metrics.sessions_now.get() > 0 && tokio::time::Instant::now() < deadline {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
            runtime.shutdown_timeout(Duration::from_millis(100));
        }
        if let Some(long) = self.long.take() {
            long.shutdown_timeout(Duration::from_millis(100));
        }
        if let Some(events) = self.events.take() {
            // It panics only with the process; there is nothing left to save here.
            let _ = events.join();
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.end();
    }
}

async fn accept(listener: Listener, tls: Option<Arc<ServerConfig>>, surroundings: Surroundings) {
    let mut stop = surroundings.stop.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((reader, writer, origin)) => {
                let behind_balancer = is_balancer(origin, &surroundings.env.config);
                let layers = Layers { behind_balancer, tls: tls.clone(), framing: listener.door().framing };
                let origin = if behind_balancer { Origin::Balancer } else { origin };
                let env = &surroundings.env;
                match env.shares.enter(origin, listener.door().name(), env.now()) {
                    Ok(seat) => open(Guest { reader, writer, layers, seat }, &surroundings),
                    Err(_) => env.metrics.sessions_refused.add(1),
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Only who is listed may say for whom he speaks, and must.
fn is_balancer(origin: Origin, config: &Config) -> bool {
    match origin {
        Origin::Address(address) => config.balancers.iter().any(|subnet| subnet.contains(&address)),
        Origin::Onion | Origin::Unix | Origin::Balancer => false,
    }
}

/// Counts a session out, also where its task is cut off.
struct Counted(Arc<Env>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.metrics.sessions_now.sub(1);
    }
}

fn open(guest: Guest, surroundings: &Surroundings) {
    let metrics = &surroundings.env.metrics;
    metrics.sessions_opened.add(1);
    metrics.sessions_now.add(1);
    let counted = Counted(surroundings.env.clone());
    let surroundings = surroundings.clone();
    tokio::spawn(async move {
        let env = counted.0.clone();
        let (metrics, client) = (&env.metrics, guest.seat.client().clone());
        let ended = session::serve(guest, surroundings).await;
        env.record.ended(&client, ended, env.now());
        match ended {
            Ended::SlowReader => metrics.dropped_slow_reader.add(1),
            Ended::Timeout => metrics.dropped_timeout.add(1),
            Ended::BadInput | Ended::Protocol => metrics.dropped_bad_input.add(1),
            Ended::Fault => metrics.dropped_fault.add(1),
            Ended::Excess => metrics.dropped_excess.add(1),
            Ended::Closed | Ended::Stopped | Ended::Kicked => {}
        }
    });
}
