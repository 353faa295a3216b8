//! Starting and stopping the shell, and reaching into it from other threads.
//!
//! In:     settings and a hub.
//! Out:    [`Shell`].
//! Fails:  where an address cannot be listened at, or the thread not be started.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use primitives::Params;
use stdx::clock::Clock;
use tokio::sync::watch;

use super::config::Config;
use super::shared::{Ended, Shared, State};
use super::{dial, files, i2p, listen, names, onion};
use crate::addresses::{Dialler, Gossip, SCORE_BOUND, SCORE_FOUND, Targets};
use crate::entropy::Entropy;
use crate::hosts::is_routable;
use crate::hub::{Chain, Hub};
use crate::peer::Permissions;
use crate::relay::TxJob;
use crate::wire::{Endpoint, Host};

/// Time between two looks at the clock.
const TICK: Duration = Duration::from_millis(250);
/// Time between two savings of the addresses; Core's `DUMP_PEERS_INTERVAL`.
const SAVE: Duration = Duration::from_secs(15 * 60);
/// Connections begun in one tick.
const DIALS_PER_TICK: usize = 2;

/// Random bytes of the operating system.
#[derive(Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("a system without random bytes cannot talk in secret");
    }
}

/// Sockets at work.
pub struct Shell<C> {
    pub(super) shared: Arc<Shared<C>>,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
    listening: Vec<SocketAddr>,
}

impl<C: Chain + Send + 'static> Shell<C> {
    /// Makes the folder of the files, reads them, begins to listen, and starts the thread.
    pub fn start(
        config: Config,
        params: Params,
        clock: Arc<dyn Clock>,
        hub: Hub<C>,
        mut entropy: Box<dyn Entropy>,
    ) -> io::Result<Shell<C>> {
        let now_s = clock.unix_s();
        if let Some(directory) = &config.directory {
            std::fs::create_dir_all(directory).map_err(|error| {
                io::Error::new(error.kind(), format!("{} cannot be made: {error}", directory.display()))
            })?;
        }
        let mut files = files::read(config.directory.as_deref(), params.magic, &config.groups, now_s, &mut *entropy);
        files.bans.sweep(now_s);
        let dialler = Dialler::new(config.targets, files.anchors, config.reachable, hub.local().required);
        // Without targets the list of the settings is what there is to connect to.
        let listed = if config.targets == Targets::NONE { config.added.len() } else { 0 };
        let mut dialler = dialler.grouped(config.groups.clone()).beside(listed);
        config.added.iter().for_each(|text| {
            dialler.add(text, config.encrypts);
        });
        let mut listeners = listeners(&config)?;
        let listening = listeners.iter().map(|(listener, _)| listener.local_addr()).collect::<io::Result<Vec<_>>>()?;
        let mut gossip = Gossip::new(config.external.clone(), config.reachable, &mut *entropy);
        if config.discovers {
            discover(&listening, &mut gossip);
        }
        let groups = config.groups.clone();
        let mut state = State::new(hub, files.book, files.bans, dialler, gossip, groups, entropy);
        state.inbound_relay_max = config.inbound_relay_max;
        files.remarks.into_iter().for_each(|line| state.remark(line));
        if config.tor.is_some() {
            let listener = bind(&SocketAddr::from(([127, 0, 0, 1], 0)))?;
            state.onion_port = Some(listener.local_addr()?.port());
            listeners.push((listener, Permissions::NONE));
        }
        let shared = Arc::new(Shared::new(config, params, clock, state));
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let inside = shared.clone();
        let run = move || runtime.block_on(run(inside, listeners, stopped));
        let thread = thread::Builder::new().name("net".to_owned()).spawn(run)?;
        Ok(Shell { shared, stop, thread: Mutex::new(Some(thread)), listening })
    }

    /// Where it listens; the port is the system's choice where 0 was asked for.
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// Lines for the log since this was asked last: files that were not used, an onion service that does not stand.
    pub fn take_remarks(&self) -> Vec<String> {
        self.shared.with(|state, _| std::mem::take(&mut state.remarks).into())
    }

    /// Does something with the hub; what follows from it is sent at once.
    pub fn with_hub<R>(&self, act: impl FnOnce(&mut Hub<C>) -> R) -> R {
        self.shared.with(|state, _| act(&mut state.hub))
    }

    /// Transactions to judge, waited for so long at most; the verdicts go to [`Hub::txs_judged`].
    pub fn take_tx_jobs(&self, patience: Duration) -> Vec<TxJob> {
        self.shared.take_tx_jobs(patience)
    }

    /// How much of the time validation waited for blocks on their way.
    pub fn waiting(&self) -> crate::sync::Waiting {
        self.shared.with(|state, _| state.hub.waiting())
    }

    /// Connections that ended since this was asked last; the oldest are forgotten.
    pub fn take_ended(&self) -> Vec<Ended> {
        self.shared.with(|state, _| std::mem::take(&mut state.ended).into())
    }

    /// How many connections to make.
    pub fn set_targets(&self, targets: Targets) {
        self.shared.with(|state, _| state.dialler.set_targets(targets));
    }

    /// Ends all connections, and saves addresses, anchors and bans.
    pub fn stop(&self) -> io::Result<()> {
        self.join();
        save(&self.shared)?;
        match &self.shared.config.directory {
            Some(directory) => {
                let anchors = self.shared.with(|state, _| state.anchors());
                files::write_anchors(directory, self.shared.params.magic, &anchors)
            }
            None => Ok(()),
        }
    }

    fn join(&self) {
        // The receiver is gone where the thread has ended.
        let _ = self.stop.send(true);
        let thread = self.thread.lock().expect("no panic while held").take();
        if let Some(thread) = thread {
            assert!(thread.join().is_ok(), "the thread `net` panicked");
        }
    }
}

/// Every socket others may connect to, and what they may do.
fn listeners(config: &Config) -> io::Result<Vec<(TcpListener, Permissions)>> {
    let plain = config.listen.iter().map(|address| Ok((bind(address)?, Permissions::NONE)));
    let guests = |permissions: Option<Permissions>| permissions.unwrap_or(config.implicit);
    let white = config.whitebind.iter().map(|bound| Ok((bind(&bound.address)?, guests(bound.permissions))));
    plain.chain(white).collect()
}

/// Addresses of this machine that others can reach where we listen: those listened at, and those that connections leave from.
fn discover(listening: &[SocketAddr], gossip: &mut Gossip) {
    let mut add = |ip: IpAddr, port: u16, score: u32| {
        let host = Host::from(ip);
        if is_routable(&host) {
            gossip.add_own(Endpoint { host, port }, score);
        }
    };
    for address in listening {
        if !address.ip().is_unspecified() {
            add(address.ip(), address.port(), SCORE_BOUND);
            continue;
        }
        // A datagram socket that is given a destination chooses its address, and sends nothing.
        let (from, to) = match address.ip() {
            IpAddr::V4(_) => ("0.0.0.0:0", "192.0.2.1:9"),
            IpAddr::V6(_) => ("[::]:0", "[2001:db8::1]:9"),
        };
        let chosen = UdpSocket::bind(from).and_then(|socket| {
            socket.connect(to)?;
            socket.local_addr()
        });
        if let Ok(chosen) = chosen {
            add(chosen.ip(), address.port(), SCORE_FOUND);
        }
    }
}

fn bind(address: &SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen at {address}: {error}")))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn save<C: Chain>(shared: &Shared<C>) -> io::Result<()> {
    let Some(directory) = &shared.config.directory else { return Ok(()) };
    let magic = shared.params.magic;
    let (book, bans) = shared.with(|state, now| {
        state.bans.sweep(now.unix_s);
        (state.book.encode(magic), state.bans.to_text())
    });
    files::write(directory, &book, &bans)
}

async fn run<C: Chain + Send + 'static>(
    shared: Arc<Shared<C>>,
    listeners: Vec<(TcpListener, Permissions)>,
    mut stopped: watch::Receiver<bool>,
) {
    for (listener, guests) in listeners {
        if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
            tokio::spawn(listen::accept(shared.clone(), listener, guests));
        }
    }
    let onion_port = shared.with(|state, _| state.onion_port);
    if let (Some(tor), Some(port)) = (shared.config.tor.clone(), onion_port) {
        tokio::spawn(onion::keep(shared.clone(), tor, SocketAddr::from(([127, 0, 0, 1], port))));
    }
    if shared.config.sam.is_some_and(|sam| sam.accepts) {
        tokio::spawn(i2p::accept(shared.clone()));
    }
    if shared.config.targets != Targets::NONE {
        tokio::spawn(names::seed(shared.clone()));
    }
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut saved = shared.now();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shared.stir.notified() => {}
            _ = stopped.changed() => return,
        }
        shared.with(|state, now| state.tick(now));
        for _ in 0..DIALS_PER_TICK {
            if let Some((number, next)) = shared.with(|state, now| state.next_dial(now)) {
                tokio::spawn(dial::dial(shared.clone(), number, next));
            }
        }
        if shared.now().since(&saved) > SAVE {
            saved = shared.now();
            // A disk that does not take the addresses takes them next time, or at the stop, which says so.
            let _ = save(&shared);
        }
    }
}
