//! The program as a user starts it: exit codes, one-line errors, the first start, stopping.
//!
//! In:     the built binary, folders below the system's temporary one.
//! Out:    one test a promise.
//! Fails:  with the program's output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest time a promise may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of its own for each test, removed when the test passes.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("assay-program-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// The program, with none of the caller's settings. It listens where the system finds a free port: the usual ones are in
/// the range that systems hand out to connections, so now and then somebody has them.
fn assay(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ASSAY_")) {
        command.env_remove(name);
    }
    command.args(arguments).env("ASSAY_RPC_LISTEN", "127.0.0.1:0").env("ASSAY_ELECTRUM_LISTEN", "127.0.0.1:0");
    command
}

pub fn output(arguments: &[&str]) -> Output {
    assay(arguments).output().unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A node, killed if the test fails.
pub struct Running(Child);

impl Running {
    fn start(datadir: &str, blocks_from: &str) -> Running {
        Running::start_with(datadir, blocks_from, &[])
    }

    pub fn start_with(datadir: &str, blocks_from: &str, more: &[&str]) -> Running {
        let mut command = assay(&["run"]);
        command.args(settings(datadir, blocks_from)).args(more);
        Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Asks until the status says what is wanted.
    pub fn wait_for(&mut self, datadir: &str, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = output(&["status", "--json", "--chain", "regtest", "--datadir", datadir]);
            if let Ok(report) = serde_json::from_slice(&answer.stdout)
                && wanted(&report)
            {
                return report;
            }
            if let Some(code) = self.0.try_wait().unwrap() {
                panic!("the node ended with {code}: {}", self.rest());
            }
            assert!(Instant::now() < deadline, "no such status: {}{}", stdout(&answer), stderr(&answer));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn signal(&self, name: &str) {
        let done = Command::new("kill").args(["-s", name, &self.0.id().to_string()]).status().unwrap();
        assert!(done.success());
    }

    /// Waits for the end: exit code, time it took, log.
    pub fn end(mut self) -> (Option<i32>, Duration, String) {
        let started = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let took = started.elapsed();
        (self.0.wait().unwrap().code(), took, self.rest())
    }

    fn rest(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stream) = self.0.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut stream, &mut text);
        }
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn wrong_settings_end_the_start_with_one_line_and_exit_code_2() {
    let folder = Folder::new("wrong");
    let check = |arguments: &[&str], want: &str| {
        let mut all = vec!["run", "--datadir", folder.text()];
        all.extend(arguments);
        let output = output(&all);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        assert!(text.starts_with("assay: ") && text.contains(want), "{arguments:?}: {text}");
    };
    check(&["--chian", "main"], "the nearest is \"chain\", which takes main, testnet3, testnet4, signet, regtest");
    check(&["--chain", "mainnet"], "setting \"chain\" (command line): \"mainnet\" is none of the choices");
    check(&["--memory-mib", "16777216"], "more than this machine or control group has");
    check(&["--threads", "256", "--memory-mib", "300"], "conflicts with \"memory_mib\"");
    check(&["--sig-engine", "bach"], "setting \"sig_engine\" (command line): ");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "nothing is touched before the settings are accepted");

    fs::write(folder.0.join("assay.toml"), "electrum_bannner = \"x\"\n").unwrap();
    check(&[], "assay.toml line 1); the nearest is \"electrum_banner\"");
    let output = assay(&["config", "--datadir", "/nonexistent"]).env("ASSAY_TREADS", "2").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("\"ASSAY_TREADS\" (environment); the nearest is \"threads\""));
}

#[test]
fn what_needs_no_node_answers_without_one() {
    let folder = Folder::new("quiet");
    let schema: serde_json::Value = serde_json::from_slice(&output(&["config", "--schema"]).stdout).unwrap();
    assert!(schema["settings"].as_array().unwrap().len() > 10);
    assert!(stdout(&output(&["--version"])).starts_with("assay "));
    let help = stdout(&output(&["--help"]));
    for command in ["run", "demo", "forge", "status", "verify", "reindex", "bench", "config"] {
        assert!(help.contains(command), "--help names {command}");
    }
    let in_force = stdout(&output(&["config", "--datadir", folder.text(), "--threads", "3"]));
    assert!(in_force.contains("threads = 3 # command line"), "{in_force}");
    let status = output(&["status", "--chain", "regtest", "--datadir", folder.text()]);
    assert_eq!(status.status.code(), Some(1));
    assert!(stderr(&status).starts_with("assay: no node runs on "), "{}", stderr(&status));
    assert_eq!(output(&["verify", "--datadir", folder.text()]).status.code(), Some(1));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "asking leaves no trace");
}

/// Settings of every start of a test's node.
fn settings<'a>(datadir: &'a str, blocks_from: &'a str) -> [&'a str; 10] {
    let chain = ["--chain", "regtest", "--datadir", datadir, "--blocks-from", blocks_from];
    let [a, b, c, d, e, f] = chain;
    [a, b, c, d, e, f, "--memory-mib", "256", "--disk-free-min-mib", "16"]
}

/// Runs a command with those settings to its end; its exit code, and what it said.
fn with_settings(command: &str, datadir: &str, blocks_from: &str) -> (Option<i32>, String) {
    let output = assay(&[command]).args(settings(datadir, blocks_from)).output().unwrap();
    (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
}

/// Forges a chain as Bitcoin Core could have left it: XORed, out of order. The hash of its last block.
pub fn forge(folder: &str, blocks: u32, inputs: u32) -> String {
    let (blocks, inputs) = (blocks.to_string(), inputs.to_string());
    let made = output(&[
        "forge",
        "--out",
        folder,
        "--blocks",
        &blocks,
        "--inputs",
        &inputs,
        "--xor",
        "--shuffle-blocks",
        "40",
    ]);
    assert!(made.status.success(), "{}", stderr(&made));
    let text = stdout(&made);
    text.split("tip ").nth(1).unwrap().split(' ').next().unwrap().trim().to_owned()
}

#[test]
fn a_first_start_writes_the_settings_file_and_both_signals_end_it() {
    let chain = Folder::new("signals-blocks");
    let tip = forge(chain.text(), 110, 300);
    for signal in ["INT", "TERM"] {
        let folder = Folder::new(signal);
        let mut node = Running::start(folder.text(), chain.text());
        let report = node.wait_for(folder.text(), |report| report["phase"] == "following");
        assert_eq!((&report["height"], &report["hash"]), (&110.into(), &tip.as_str().into()));
        assert!(report["electrum"]["listen"].as_str().unwrap().starts_with("127.0.0.1:"), "{report}");

        let settings = fs::read_to_string(folder.0.join("assay.toml")).unwrap();
        assert!(settings.contains("#electrum_listen = \"auto\""), "{settings}");
        assert!(settings.parse::<toml::Table>().unwrap().is_empty(), "nothing is in force");
        assert_private(&folder.0.join("assay.toml"));

        let (code, text) = with_settings("run", folder.text(), chain.text());
        assert_eq!(code, Some(1));
        assert!(text.contains("another assay (process "), "{text}");

        node.signal(signal);
        let (code, took, log) = node.end();
        assert_eq!(code, Some(0), "{log}");
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert!(log.lines().all(|line| line.contains(" level=") && line.contains("Z ")), "{log}");
        assert!(log.contains("event=stopped"), "{log}");
        assert!(!folder.0.join("regtest/status.sock").exists());
    }
}

#[test]
fn a_sync_that_is_stopped_and_killed_again_and_again_ends_in_the_same_state() {
    let (chain, folder) = (Folder::new("kill-blocks"), Folder::new("kill"));
    let tip = forge(chain.text(), 200, 8_000);
    for (round, pause_ms) in [30, 400, 90, 700, 200].into_iter().enumerate() {
        let node = Running::start(folder.text(), chain.text());
        std::thread::sleep(Duration::from_millis(pause_ms));
        node.signal(if round % 2 == 0 { "KILL" } else { "TERM" });
        let (code, took, log) = node.end();
        if round % 2 == 1 {
            assert_eq!(code, Some(0), "{log}");
            assert!(took < Duration::from_secs(5), "{took:?}");
        }
    }
    let mut node = Running::start(folder.text(), chain.text());
    let report = node.wait_for(folder.text(), |report| report["phase"] == "following");
    assert_eq!((&report["height"], &report["hash"]), (&200.into(), &tip.as_str().into()));
    node.signal("KILL");
    node.end();

    let started = Instant::now();
    let mut node = Running::start(folder.text(), chain.text());
    let report = node.wait_for(folder.text(), |report| report["phase"] == "following");
    assert_eq!(report["since_start"]["first_height"], 200, "nothing is done twice");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    node.signal("TERM");
    node.end();

    let (code, text) = with_settings("verify", folder.text(), chain.text());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("\nequal, in "), "{text}");
    assert!(!folder.0.join("regtest/verify").exists());
    let (code, text) = with_settings("reindex", folder.text(), chain.text());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("event=reindexed height=200"), "{text}");
}

/// What `verify` prints of the state: rows, sums, MuHash.
fn state(datadir: &str, blocks_from: &str) -> Vec<String> {
    let (code, text) = with_settings("verify", datadir, blocks_from);
    assert_eq!(code, Some(0), "{text}");
    text.lines().filter(|line| line.starts_with("  ")).map(str::to_owned).collect()
}

#[test]
fn hints_of_an_earlier_validation_change_nothing_but_the_time() {
    let (chain, folder) = (Folder::new("hints-blocks"), Folder::new("hints"));
    forge(chain.text(), 150, 4_000);
    let reindex = || {
        let (code, text) = with_settings("reindex", folder.text(), chain.text());
        assert_eq!(code, Some(0), "{text}");
        let totals = text.lines().find(|line| line.contains("event=reindexed")).unwrap().to_owned();
        let number = |name: &str| {
            let (_, after) = totals.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("{name}: {totals}"));
            after.split(' ').next().unwrap().parse::<u64>().unwrap()
        };
        let learns = !text.contains(" engine=scalar ");
        (learns, number("hinted_signatures"), number("signatures"), number("hints_bytes"))
    };
    let (learns, hinted, signatures, bytes) = reindex();
    assert_eq!(hinted, 0);
    let want = state(folder.text(), chain.text());
    assert!(want.len() >= 7, "{want:?}");
    let (_, hinted, again, same_bytes) = reindex();
    assert_eq!((state(folder.text(), chain.text()), same_bytes), (want.clone(), bytes));
    if learns {
        assert!(hinted * 10 > signatures * 6 && again <= signatures, "{hinted} of {again}, at first {signatures}");
        assert!(bytes < 150 * 80 + signatures / 2, "{bytes} bytes");
    } else {
        assert_eq!(hinted, 0);
        println!("skipped in part: this processor's engine learns no hints");
    }
    // Damaged, they are learnt again; without them nothing is missing.
    let records = folder.0.join("regtest/hints/hints.records");
    let damaged: Vec<u8> = fs::read(&records).unwrap().iter().map(|byte| byte ^ 0x55).collect();
    fs::write(&records, damaged).unwrap();
    assert_eq!((reindex().1, state(folder.text(), chain.text())), (0, want.clone()));
    fs::remove_dir_all(folder.0.join("regtest/hints")).unwrap();
    let off = assay(&["reindex", "--sig-hints", "off"]).args(settings(folder.text(), chain.text())).output().unwrap();
    assert_eq!(off.status.code(), Some(0), "{}", stderr(&off));
    assert!(!folder.0.join("regtest/hints").exists());
    assert_eq!(state(folder.text(), chain.text()), want);
}

#[test]
fn a_chain_is_downloaded_from_a_peer_whatever_moment_the_node_is_killed_at() {
    let (chain, served) = (Folder::new("peer-blocks"), Folder::new("peer-served"));
    let tip = forge(chain.text(), 200, 8_000);
    let mut server = Running::start_with(served.text(), chain.text(), &["--p2p", "on", "--p2p-listen", "127.0.0.1:0"]);
    let report = server.wait_for(served.text(), |report| report["height"] == 200 && !report["peers"].is_null());
    let address = report["peers"]["listen"].as_str().unwrap().to_owned();

    let folder = Folder::new("peer");
    let peers = ["--p2p-connect", address.as_str(), "--p2p-listen", "off"];
    for (name, pause_ms) in [("KILL", 150), ("TERM", 300), ("KILL", 450)] {
        let node = Running::start_with(folder.text(), "own", &peers);
        std::thread::sleep(Duration::from_millis(pause_ms));
        node.signal(name);
        let (code, took, log) = node.end();
        assert!(name == "KILL" || (code == Some(0) && took < Duration::from_secs(5)), "{code:?} {took:?} {log}");
    }
    let mut node = Running::start_with(folder.text(), "own", &peers);
    // The chain may have been there before the peer is.
    let done = |report: &serde_json::Value| report["committed_height"] == 200 && report["peers"]["outbound"] == 1;
    let report = node.wait_for(folder.text(), done);
    assert_eq!(report["hash"], tip.as_str());
    assert_eq!(report["peers"]["connections"][0]["encrypted"], true);
    node.signal("TERM");
    assert_eq!(node.end().0, Some(0));
    server.signal("TERM");
    assert_eq!(server.end().0, Some(0));
    assert_eq!(state(folder.text(), "own"), state(served.text(), chain.text()));
}

#[test]
fn the_demo_asks_a_wallets_questions_and_ends_when_told_to() {
    let folder = Folder::new("demo");
    let small = ["--blocks", "120", "--inputs", "1500", "--memory-mib", "256", "--disk-free-min-mib", "16"];
    let shown = assay(&["demo", "--exit", "--datadir", folder.text()]).args(small).output().unwrap();
    let text = stdout(&shown);
    assert_eq!(shown.status.code(), Some(0), "{text}{}", stderr(&shown));
    for part in [
        "forged 121 blocks",
        "signatures",
        "peak memory",
        "witness_v1_taproot: ",
        "pubkeyhash: ",
        "proved by",
        "50 answers",
    ] {
        assert!(text.contains(part), "{part} is shown: {text}");
    }
    let other = Folder::new("demo-other");
    fs::write(other.0.join("precious"), "").unwrap();
    let refused = output(&["demo", "--exit", "--datadir", other.text()]);
    assert!(stderr(&refused).contains("is in use and not by a demo"), "{}", stderr(&refused));
    let refused = output(&["demo", "--exit", "--datadir", folder.text(), "--chain", "main"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
}

#[test]
fn a_start_that_cannot_be_says_why() {
    let (chain, folder, empty) = (Folder::new("odd-blocks"), Folder::new("odd"), Folder::new("empty"));
    let (code, text) = with_settings("run", folder.text(), empty.text());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("check `blocks_from`"), "{text}");
    forge(chain.text(), 103, 100);
    let low = assay(&["run", "--disk-free-min-mib", "1073741824", "--electrum-listen", "off", "--chain", "regtest"]);
    let low = { low }.args(["--datadir", folder.text(), "--blocks-from", chain.text()]).output().unwrap();
    assert_eq!(low.status.code(), Some(1), "{}", stderr(&low));
    assert!(stderr(&low).contains("disk space is low: "), "{}", stderr(&low));
    let again = output(&["forge", "--out", chain.text()]);
    assert!(stderr(&again).contains("has block files already"), "{}", stderr(&again));
}

pub fn assert_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{} can be read by others: {mode:o}", path.display());
}
