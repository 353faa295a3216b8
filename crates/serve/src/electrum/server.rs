//! The listening socket, the thread that passes on events, and the end of it all.
//!
//! In:     a configuration, a source; a receiver of events as soon as there is one.
//! Out:    [`ServerHandle`]: the address bound, the counters, a stop within a second.
//! Fails:  [`start`] with the error of binding, or of starting threads.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use chain::mempool::SharedMempool;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};

use super::events::{Follows, pass_on};
use super::session::{self, Ended, Surroundings};
use super::{Config, Env};
use crate::metrics::Metrics;
use crate::source::{Event, Source};

/// Pause after the system refuses a connection, for instance because no file handles are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time sessions get to end when the server stops; what is not done then is cut off.
const STOP_TIME: Duration = Duration::from_millis(500);

/// A running server; dropping it stops it.
pub struct ServerHandle {
    env: Arc<Env>,
    local_address: SocketAddr,
    stop: watch::Sender<bool>,
    runtime: Option<Runtime>,
    events: Option<JoinHandle<()>>,
}

/// Binds the address and serves it until the handle is stopped.
pub fn start(config: Config, source: Arc<dyn Source>) -> io::Result<ServerHandle> {
    let listen = config.listen;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.network_threads)
        .max_blocking_threads(config.work_threads + 1)
        .thread_name("electrum")
        .enable_all()
        .build()?;
    let listener = runtime.block_on(TcpListener::bind(listen))?;
    let local_address = listener.local_addr()?;
    let (stop, stop_receiver) = watch::channel(false);
    let work = Arc::new(Semaphore::new(config.work_threads));
    let env = Arc::new(Env::new(config, source));
    let surroundings = Surroundings { env: env.clone(), work, stop: stop_receiver };
    runtime.spawn(accept(listener, surroundings));
    Ok(ServerHandle { env, local_address, stop, runtime: Some(runtime), events: None })
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

    /// The address it listens on.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
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

async fn accept(listener: TcpListener, surroundings: Surroundings) {
    let mut stop = surroundings.stop.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((socket, _)) => open(socket, &surroundings),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Counts a session out, also where its task is cut off.
struct Counted(Arc<Env>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.metrics.sessions_now.sub(1);
    }
}

fn open(socket: TcpStream, surroundings: &Surroundings) {
    let metrics = &surroundings.env.metrics;
    if metrics.sessions_now.get() >= surroundings.env.limits.sessions_max as u64 {
        metrics.sessions_refused.add(1);
        return;
    }
    // Answers are small and waited for: never hold them back to fill a packet. A failure means the client is gone.
    let _ = socket.set_nodelay(true);
    metrics.sessions_opened.add(1);
    metrics.sessions_now.add(1);
    let counted = Counted(surroundings.env.clone());
    let surroundings = surroundings.clone();
    tokio::spawn(async move {
        let metrics = &counted.0.metrics;
        match session::serve(socket, surroundings).await {
            Ended::SlowReader => metrics.dropped_slow_reader.add(1),
            Ended::Timeout => metrics.dropped_timeout.add(1),
            Ended::BadInput | Ended::Protocol => metrics.dropped_bad_input.add(1),
            Ended::Fault => metrics.dropped_fault.add(1),
            Ended::Closed | Ended::Stopped => {}
        }
    });
}
