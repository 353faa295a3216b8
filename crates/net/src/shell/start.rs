//! Starting and stopping the shell, and reaching into it from other threads.
//!
//! In:     settings and a hub.
//! Out:    [`Shell`].
//! Fails:  where an address cannot be listened at, or the thread not be started.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use primitives::Params;
use stdx::clock::Clock;
use tokio::sync::watch;

use super::config::Config;
use super::shared::{Ended, PeerReport, Shared, State};
use super::{dial, files, listen, names, onion};
use crate::addresses::{Ban, Dialler, Gossip, Subnet, Targets};
use crate::entropy::Entropy;
use crate::hub::{Chain, Hub};
use crate::peer::{End, PeerId};
use crate::wire::Endpoint;

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
    shared: Arc<Shared<C>>,
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
        let mut files = files::read(config.directory.as_deref(), params.magic, now_s, &mut *entropy);
        files.bans.sweep(now_s);
        let mut dialler = Dialler::new(config.targets, files.anchors, config.reachable, hub.local().required);
        config.added.iter().for_each(|text| {
            dialler.add(text);
        });
        let listeners = config.listen.iter().map(bind).collect::<io::Result<Vec<TcpListener>>>()?;
        let mut listeners = listeners;
        let listening = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
        let gossip = Gossip::new(config.external.clone(), config.reachable, &mut *entropy);
        let mut state = State::new(hub, files.book, files.bans, dialler, gossip, entropy);
        files.remarks.into_iter().for_each(|line| state.remark(line));
        if config.tor.is_some() {
            let listener = bind(&SocketAddr::from(([127, 0, 0, 1], 0)))?;
            state.onion_port = Some(listener.local_addr()?.port());
            listeners.push(listener);
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

    /// What we tell others we can be reached at.
    pub fn own_endpoints(&self) -> Vec<Endpoint> {
        self.shared.with(|state, _| state.gossip.own().to_vec())
    }

    /// Does something with the hub; what follows from it is sent at once.
    pub fn with_hub<R>(&self, act: impl FnOnce(&mut Hub<C>) -> R) -> R {
        self.shared.with(|state, _| act(&mut state.hub))
    }

    /// All connections.
    pub fn peers(&self) -> Vec<PeerReport> {
        self.shared.with(|state, _| state.reports())
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

    /// Keeps a connection to an endpoint or name; false where it is kept already.
    pub fn add_node(&self, text: &str) -> bool {
        self.shared.with(|state, _| state.dialler.add(text))
    }

    /// Keeps it no longer; false where it was not kept.
    pub fn remove_node(&self, text: &str) -> bool {
        self.shared.with(|state, _| state.dialler.remove(text))
    }

    /// Ends a connection.
    pub fn disconnect(&self, id: PeerId) {
        self.shared.with(|state, now| state.hub.close(id, End::ClosedByUs("disconnected by the user"), now));
    }

    /// Bans a subnet, and ends its connections.
    pub fn ban(&self, subnet: Subnet, ban: Ban) {
        self.shared.with(|state, now| {
            state.bans.ban(subnet, ban);
            state.close_subnet(&subnet, now);
        });
    }

    /// Lifts a ban; false where there was none.
    pub fn lift_ban(&self, subnet: &Subnet) -> bool {
        self.shared.with(|state, _| state.bans.lift(subnet))
    }

    /// The bans.
    pub fn bans(&self) -> Vec<(Subnet, Ban)> {
        self.shared.with(|state, _| state.bans.iter().map(|(subnet, ban)| (*subnet, *ban)).collect())
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
    listeners: Vec<TcpListener>,
    mut stopped: watch::Receiver<bool>,
) {
    for listener in listeners {
        if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
            tokio::spawn(listen::accept(shared.clone(), listener));
        }
    }
    let onion_port = shared.with(|state, _| state.onion_port);
    if let (Some(tor), Some(port)) = (shared.config.tor.clone(), onion_port) {
        tokio::spawn(onion::keep(shared.clone(), tor, SocketAddr::from(([127, 0, 0, 1], port))));
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
