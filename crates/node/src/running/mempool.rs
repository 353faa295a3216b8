//! The mempool of a running node: a thread that keeps it true to the chain, and its files.
//!
//! In:     a [`Handle`] to the writer, the settings, disk, engine and clock.
//! Out:    [`Unconfirmed`], at work until it is stopped; mempool.dat and fee_estimates.dat in the network's folder.
//! Fails:  when the operating system gives no thread or no random numbers. A file that is damaged or cannot be written is
//!         a line of the log and no more.
//! Source: Bitcoin Core, `init.cpp` (`StartupNotify`, `Shutdown`), `policy/fees/block_policy_estimator.cpp` (`Flush`).

use std::fmt::Display;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use chain::Handle;
use chain::estimates::Estimates;
use chain::mempool::SharedMempool;
use chain::upkeep::{Followed, Loaded, MempoolFile, Restore, RestoreWish, SharedEstimates, Upkeep, replace};
use serve::pool::{MiningLimits, Pool};
use serve::rpc::needs::Host;
use sigs::Engine;
use stdx::clock::Clock;
use stdx::disk::{Disk, SystemDisk};

use super::log;
use crate::config::mempool::{MempoolSettings, Save};

/// Longest time between two looks whether to stop.
const STEP: Duration = Duration::from_millis(50);
/// Time between two writes of the estimates; Core's `FEE_FLUSH_INTERVAL`.
const ESTIMATES_INTERVAL: Duration = Duration::from_secs(3_600);
/// Estimates of a file older than this are of another time; Core's `MAX_FILE_AGE`.
const ESTIMATES_AGE_MAX: Duration = Duration::from_secs(60 * 3_600);
/// Largest file of estimates that is read: three tables of 237 buckets have 0.2 MB.
const ESTIMATES_BYTES_MAX: u64 = 4 << 20;

/// Unconfirmed transactions of a running node, and what is learnt from them.
pub struct Unconfirmed {
    mempool: SharedMempool,
    estimates: SharedEstimates,
    followed: Arc<Followed>,
    file: Arc<MempoolFile>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

/// What the thread has.
struct Keeper {
    upkeep: Upkeep,
    handle: Handle,
    clock: Arc<dyn Clock>,
    disk: Arc<dyn Disk>,
    file: Arc<MempoolFile>,
    save: Save,
    /// The file on its way in.
    restore: Option<Restore<'static>>,
    estimates_path: PathBuf,
    estimates_written: Instant,
    stop: Arc<AtomicBool>,
}

impl Unconfirmed {
    /// An empty mempool on the newest view, and the thread that follows the writer and fills it from its file.
    pub fn start(
        settings: &MempoolSettings,
        folder: &Path,
        handle: &Handle,
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
    ) -> Result<Unconfirmed, String> {
        let random = random().map_err(|error| format!("no random numbers from /dev/urandom: {error}"))?;
        let (secret, key) = random.split_first_chunk::<16>().expect("24 bytes");
        let upkeep = Upkeep::open(handle, settings.policy, engine, clock.clone(), *secret);
        let (mempool, estimates) = (upkeep.mempool().clone(), upkeep.estimates().clone());
        let (followed, stop) = (upkeep.followed().clone(), Arc::new(AtomicBool::new(false)));
        let disk: Arc<dyn Disk> = Arc::new(SystemDisk::default());
        let key = u64::from_le_bytes(key.try_into().expect("eight bytes"));
        let key = (settings.save != Save::V1).then_some(key);
        let file = Arc::new(MempoolFile::new(disk.clone(), folder.join("mempool.dat"), mempool.clone(), key));
        let estimates_path = folder.join("fee_estimates.dat");
        read_estimates(&estimates_path, &estimates);
        let keeper = Keeper {
            upkeep,
            handle: handle.clone(),
            clock,
            disk,
            file: file.clone(),
            save: settings.save,
            restore: None,
            estimates_path,
            estimates_written: Instant::now(),
            stop: stop.clone(),
        };
        let thread = std::thread::Builder::new().name("mempool".to_owned()).spawn(move || keeper.run());
        let thread = thread.map_err(|error| format!("no thread for the mempool: {error}"))?;
        Ok(Unconfirmed { mempool, estimates, followed, file, thread: Some(thread), stop })
    }

    /// The mempool.
    pub fn mempool(&self) -> &SharedMempool {
        &self.mempool
    }

    /// All of it, as servers ask for it.
    pub fn pool(&self, mining: MiningLimits, host: Arc<dyn Host>) -> Arc<Pool> {
        Arc::new(Pool {
            mempool: self.mempool.clone(),
            estimates: self.estimates.clone(),
            followed: self.followed.clone(),
            file: self.file.clone(),
            mining,
            host,
        })
    }

    /// Ends the thread, which saves both files, or leaves them as they were where that takes longer than until `deadline`.
    pub fn stop(mut self, deadline: Instant) {
        self.stop.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.take() else { return };
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        match thread.is_finished() {
            // A panic of it has been logged, and ends the node by itself.
            true => drop(thread.join()),
            false => log::warn("mempool", "stopped before it was saved; the file of the last time stays", &[]),
        }
    }
}

impl Keeper {
    fn run(mut self) {
        while !self.stop.load(Ordering::SeqCst) {
            let busy = self.restore.is_some();
            self.upkeep.step(if busy { Duration::ZERO } else { STEP });
            self.restore();
            if self.estimates_written.elapsed() >= ESTIMATES_INTERVAL {
                self.save_estimates();
            }
        }
        self.finish();
    }

    /// Takes a part of the file in. It is opened once all blocks that are here have been tried: what it spends must be there.
    fn restore(&mut self) {
        if self.file.is_loaded() {
            return;
        }
        if self.restore.is_none() {
            if !self.handle.status().has_tried_all {
                return;
            }
            let opened = (self.save != Save::Off).then(|| self.file.open(self.file.path(), RestoreWish::ALL)).flatten();
            match opened {
                None => return self.file.set_loaded(),
                Some(Ok(restore)) => self.restore = Some(restore),
                Some(Err(error)) => return self.end_restore(Some(error.to_string()), Loaded::default()),
            }
        }
        let Some(restore) = &mut self.restore else { return };
        let outcome = restore.step(self.upkeep.mempool(), self.clock.unix_s());
        let loaded = restore.loaded();
        match outcome {
            Ok(true) => {}
            Ok(false) => self.end_restore(None, loaded),
            Err(error) => self.end_restore(Some(error.to_string()), loaded),
        }
    }

    fn end_restore(&mut self, damage: Option<String>, loaded: Loaded) {
        self.restore = None;
        self.file.set_loaded();
        let Loaded { taken, expired, known, refused, unbroadcast } = loaded;
        let counts: [(&str, &dyn Display); 5] = [
            ("taken", &taken),
            ("expired", &expired),
            ("known", &known),
            ("refused", &refused),
            ("unbroadcast", &unbroadcast),
        ];
        match damage {
            None => log::info("mempool", "loaded", &counts),
            Some(why) => {
                let path = self.file.path().display();
                let damage: [(&str, &dyn Display); 2] = [("why", &why), ("file", &path)];
                log::warn("mempool", "loaded in part", &[&damage[..], &counts].concat());
            }
        }
    }

    fn finish(mut self) {
        // What was not read yet would be lost by writing what there is.
        if self.file.is_loaded() && self.save != Save::Off {
            match self.file.save() {
                Ok(count) => log::info("mempool", "saved", &[("transactions", &count)]),
                Err(error) => log::warn("mempool", "not saved", &[("why", &error)]),
            }
        }
        self.upkeep.estimates().lock().unwatch_all();
        self.save_estimates();
    }

    fn save_estimates(&mut self) {
        self.estimates_written = Instant::now();
        let bytes = self.upkeep.estimates().lock().encode();
        if let Err(error) = replace(&*self.disk, &self.estimates_path, |put| put(&bytes)) {
            log::warn("mempool", "fee estimates not saved", &[("why", &error)]);
        }
    }
}

/// What an earlier run has learnt, unless it is of another time.
fn read_estimates(path: &Path, estimates: &SharedEstimates) {
    let Ok(about) = fs::metadata(path) else { return };
    let age = about.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok()).unwrap_or_default();
    if age > ESTIMATES_AGE_MAX {
        return log::info("mempool", "fee estimates are too old", &[("age_h", &(age.as_secs() / 3_600))]);
    }
    let whole = || match about.len() <= ESTIMATES_BYTES_MAX {
        true => Estimates::decode(&fs::read(path).map_err(|error| error.to_string())?).map_err(|e| e.to_string()),
        false => Err(format!("{} bytes are too many", about.len())),
    };
    match whole() {
        Ok(learnt) => *estimates.lock() = learnt,
        Err(why) => log::warn("mempool", "fee estimates are not read", &[("why", &why), ("file", &path.display())]),
    }
}

/// The key of the mempool's tables, and that of its file.
fn random() -> std::io::Result<[u8; 24]> {
    let mut bytes = [0; 24];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
