//! The mempool of a running node: a thread that keeps it true to the chain.
//!
//! In:     a [`Handle`] to the writer, the settings, the engine and the clock.
//! Out:    [`Unconfirmed`], at work until it is stopped.
//! Fails:  when the operating system gives no thread or no random numbers.

use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use chain::Handle;
use chain::mempool::SharedMempool;
use chain::policy::Policy;
use chain::upkeep::{Followed, SharedEstimates, Upkeep};
use sigs::Engine;
use stdx::clock::Clock;

/// Longest time between two looks whether to stop.
const STEP: Duration = Duration::from_millis(50);

/// Unconfirmed transactions of a running node, and what is learnt from them.
pub struct Unconfirmed {
    mempool: SharedMempool,
    estimates: SharedEstimates,
    followed: Arc<Followed>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Unconfirmed {
    /// An empty mempool on the newest view, and the thread that follows the writer.
    pub fn start(
        policy: Policy,
        handle: &Handle,
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
    ) -> Result<Unconfirmed, String> {
        let secret = secret().map_err(|error| format!("no random numbers from /dev/urandom: {error}"))?;
        let mut upkeep = Upkeep::open(handle, policy, engine, clock, secret);
        let (mempool, estimates) = (upkeep.mempool().clone(), upkeep.estimates().clone());
        let (followed, stop) = (upkeep.followed().clone(), Arc::new(AtomicBool::new(false)));
        let ends = stop.clone();
        let run = move || {
            while !ends.load(Ordering::SeqCst) {
                upkeep.step(STEP);
            }
        };
        let thread = std::thread::Builder::new().name("mempool".to_owned()).spawn(run);
        let thread = thread.map_err(|error| format!("no thread for the mempool: {error}"))?;
        Ok(Unconfirmed { mempool, estimates, followed, thread: Some(thread), stop })
    }

    /// The mempool.
    pub fn mempool(&self) -> &SharedMempool {
        &self.mempool
    }

    /// What was learnt about fees.
    pub fn estimates(&self) -> &SharedEstimates {
        &self.estimates
    }

    /// How far the mempool has followed the writer.
    pub fn followed(&self) -> &Arc<Followed> {
        &self.followed
    }

    /// Ends the thread.
    pub fn stop(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic of it has been logged, and ends the node by itself.
            let _ = thread.join();
        }
    }
}

/// The key of the mempool's tables.
fn secret() -> std::io::Result<[u8; 16]> {
    let mut secret = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(secret)
}
