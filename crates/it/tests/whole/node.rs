//! The program `assay` as a process.
//!
//! In:     folders, settings, signals.
//! Out:    its Electrum port, its status, its exit.
//! Fails:  panics with the log where something takes longer than a minute.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

/// Longest wait for anything on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program, built when it is not there or older than a source.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // This test is target/release/deps/whole-..., the program target/release/assay.
        let path = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("assay");
        let built = fs::metadata(&path).and_then(|data| data.modified()).ok();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        if built.is_none_or(|built| newest_source(&crates).is_some_and(|source| source > built)) {
            let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
            let built = Command::new(cargo).args(["build", "--release", "-p", "assay"]).current_dir(&crates).status();
            assert!(built.is_ok_and(|status| status.success()), "the program can be built");
        }
        path
    })
}

/// When the newest source of the program was changed.
fn newest_source(folder: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let newest = entries.filter_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            let skipped = path.ends_with("tests") || path.ends_with("it");
            return if skipped { None } else { newest_source(&path) };
        }
        let source = path.extension().is_some_and(|ending| ending == "rs" || ending == "toml");
        if source { entry.metadata().and_then(|data| data.modified()).ok() } else { None }
    });
    newest.max()
}

/// The program with arguments, without the caller's settings.
pub fn assay(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ASSAY_")) {
        command.env_remove(name);
    }
    command
}

/// Settings of a node under test.
pub fn settings<'a>(datadir: &'a str, blocks: &'a str) -> Vec<&'a str> {
    let mut all = vec!["run", "--chain", "regtest", "--datadir", datadir, "--blocks-from", blocks];
    all.extend([
        "--electrum-listen",
        "127.0.0.1:0",
        "--rpc-listen",
        "127.0.0.1:0",
        "--memory-mib",
        "256",
        "--disk-free-min-mib",
        "16",
    ]);
    all
}

/// A running node; killed when it is dropped.
pub struct Node {
    child: Child,
    datadir: PathBuf,
    log: PathBuf,
    started: Instant,
}

/// How a node ended.
#[derive(Debug)]
pub struct Exit {
    /// Exit code; none after a signal.
    pub code: Option<i32>,
    /// Time from the question to the end.
    pub took: Duration,
    /// Everything it logged.
    pub log: String,
}

impl Node {
    /// Starts a node on a data directory.
    pub fn start(datadir: &Path, blocks: &Path) -> Node {
        Node::start_with(datadir, blocks, &[])
    }

    /// Starts a node with more settings.
    pub fn start_with(datadir: &Path, blocks: &Path, more: &[&str]) -> Node {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let log = datadir.with_extension(format!("{}.log", NEXT.fetch_add(1, Ordering::Relaxed)));
        let file = fs::File::create(&log).unwrap();
        let mut arguments = settings(datadir.to_str().unwrap(), blocks.to_str().unwrap());
        arguments.extend(more);
        let started = Instant::now();
        let child = assay(&arguments).stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Node { child, datadir: datadir.to_owned(), log, started }
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Everything it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// What it says about itself; none while it does not answer.
    pub fn status(&self) -> Option<Value> {
        let asked =
            assay(&["status", "--json", "--chain", "regtest", "--datadir", self.datadir.to_str().unwrap()]).output();
        serde_json::from_slice(&asked.unwrap().stdout).ok()
    }

    /// Asks until the status is as wanted.
    #[track_caller]
    pub fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut last = Value::Null;
        loop {
            if let Some(status) = self.status() {
                if wanted(&status) {
                    return status;
                }
                last = status;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the node ended ({ended:?}):\n{}", self.log());
            assert!(Instant::now() < deadline, "no such status; the last was {last:#}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it follows the tip at `height`.
    #[track_caller]
    pub fn wait_height(&mut self, height: u32) -> Value {
        self.wait_for(|status| status["phase"] == "following" && status["committed_height"] == height)
    }

    /// Its Electrum port, from the log, so that it is known within milliseconds.
    #[track_caller]
    pub fn electrum(&mut self) -> SocketAddr {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = self.log();
            if let Some(rest) = log.split("event=listening address=").nth(1)
                && let Some(end) = rest.find([' ', '\n'])
            {
                return rest[..end].parse().unwrap();
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "no Electrum port ({ended:?}):\n{log}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(mut self) -> Exit {
        let asked = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(asked.elapsed() < PATIENCE, "it does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
        Exit { code: self.child.wait().unwrap().code(), took: asked.elapsed(), log: self.log() }
    }

    /// Ends it the way a user does.
    #[track_caller]
    pub fn stop(self) -> Exit {
        self.signal("TERM");
        let exit = self.end();
        assert!(exit.took < Duration::from_secs(5), "a stop took {:?}", exit.took);
        exit
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
