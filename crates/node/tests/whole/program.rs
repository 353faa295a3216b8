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
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("assay-program-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn text(&self) -> &str {
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

fn assay(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
    command.args(arguments);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ASSAY_")) {
        command.env_remove(name);
    }
    command
}

fn output(arguments: &[&str]) -> Output {
    assay(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A node on an empty folder, stopped by force if the test fails.
struct Running(Child);

impl Running {
    fn start(datadir: &str, more: &[&str]) -> Running {
        let mut arguments = vec!["run", "--chain", "regtest", "--datadir", datadir, "--electrum-listen", "127.0.0.1:0"];
        arguments.extend(["--memory-mib", "256", "--disk-free-min-mib", "16"]);
        arguments.extend(more);
        let mut command = assay(&arguments);
        Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Asks until the status says what is wanted.
    fn wait_for(&mut self, datadir: &str, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
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

    fn signal(&self, name: &str) {
        let done = Command::new("kill").args(["-s", name, &self.0.id().to_string()]).status().unwrap();
        assert!(done.success());
    }

    /// Waits for the end: exit code, time it took, log.
    fn end(mut self) -> (Option<i32>, Duration, String) {
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
    check(&["--sig-engine", "batch"], "setting \"sig_engine\" (command line): ");
    assert_eq!(fs::read_dir(&folder.0).unwrap().filter(|e| e.as_ref().unwrap().file_name() != "main").count(), 0);

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

#[test]
fn a_first_start_writes_the_settings_file_and_both_signals_end_it() {
    for signal in ["INT", "TERM"] {
        let folder = Folder::new(signal);
        let mut node = Running::start(folder.text(), &[]);
        let report = node.wait_for(folder.text(), |report| report["phase"] == "following");
        assert_eq!((&report["chain"], &report["height"]), (&"regtest".into(), &0.into()));
        assert!(report["electrum"]["listen"].as_str().unwrap().starts_with("127.0.0.1:"), "{report}");

        let settings = fs::read_to_string(folder.0.join("assay.toml")).unwrap();
        assert!(settings.contains("#electrum_listen = \"auto\""), "{settings}");
        assert!(settings.parse::<toml::Table>().unwrap().is_empty(), "nothing is in force");
        assert_private(&folder.0.join("assay.toml"));

        let second = output(&["run", "--chain", "regtest", "--datadir", folder.text()]);
        assert_eq!(second.status.code(), Some(1));
        assert!(stderr(&second).contains("another assay (process "), "{}", stderr(&second));

        node.signal(signal);
        let (code, took, log) = node.end();
        assert_eq!(code, Some(0), "{log}");
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert!(log.lines().all(|line| line.contains(" level=") && line.contains("Z ")), "{log}");
        assert!(log.contains("event=stopped"), "{log}");
        assert!(!folder.0.join("regtest/status.sock").exists());
    }
}

fn assert_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{} can be read by others: {mode:o}", path.display());
}
