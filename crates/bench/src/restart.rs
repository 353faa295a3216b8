//! `assay bench restart`: kill -9 of a running node, and the time until it serves again.
//!
//! In:     [`RestartOptions`].
//! Out:    for kills in the middle of an import and one at the tip: milliseconds from the start of the program to the
//!         first answer over its Electrum port, the height it stands at then, and seconds until it is back at the tip.
//! Fails:  when the node does not start again, or answers nothing within [`PATIENCE`].
//!
//! The node is this very program, `assay run`, with its own settings and a real socket.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use crate::arguments::RestartOptions;
use crate::report::{self, Table, count};
use crate::sample::{Blocks, Scratch};
use crate::{BenchError, at, machine};

/// Longest wait for an answer or the tip.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Time between two attempts to reach the node.
const POLL: Duration = Duration::from_millis(2);

/// One kill and what followed.
#[derive(Clone, Debug, Serialize)]
struct Kill {
    /// Height the node answered with last before it was killed.
    killed_at_height: u64,
    /// From the program's start to the first answer, in milliseconds.
    first_answer_ms: f64,
    /// Height in that answer: what the kill left.
    height: u64,
    /// From the program's start until it stood at the tip again, in seconds.
    tip_s: f64,
}

/// Kills, starts again, prints, writes.
pub fn bench(options: &RestartOptions) -> Result<(), BenchError> {
    let machine = machine::describe();
    let blocks = Blocks::of(&options.source)?;
    let scratch = Scratch::new(&options.source.scratch, "restart")?;
    let run = |name: &str| Node::start(options, &blocks, &scratch.path().join(name));
    let mut node = run("whole")?;
    let tip = node.wait_for_tip()?;
    let whole_s = node.started.elapsed().as_secs_f64();
    eprintln!("import of {} blocks without a kill: {whole_s:.2} s", count(tip));
    let mut kills = Vec::new();
    let height = node.kill()?;
    kills.push(come_back(run("whole")?, height, tip)?);
    for index in 0..options.kills {
        let name = format!("kill-{index}");
        let mut node = run(&name)?;
        node.height()?;
        sleep(Duration::from_secs_f64(whole_s * f64::from(index + 1) / f64::from(options.kills + 1)));
        let height = node.kill()?;
        kills.push(come_back(run(&name)?, height, tip)?);
    }
    let mut table = Table::new(&["killed at height", "first answer ms", "with height", "at the tip after s"]);
    for kill in &kills {
        table.row(vec![
            count(kill.killed_at_height),
            format!("{:.1}", kill.first_answer_ms),
            count(kill.height),
            format!("{:.2}", kill.tip_s),
        ]);
    }
    print!("{}", table.text());
    let settings = json!({
        "chain": options.source.chain.name(), "blocks_from": options.source.blocks_from,
        "threads": options.crew.threads, "memory_mib": options.crew.memory,
    });
    let report = json!({
        "bench": "restart", "machine": machine, "settings": settings, "tip_height": tip,
        "import_without_kill_s": whole_s, "kills": kills,
    });
    report::write_json(options.json.as_deref(), &report)
}

fn come_back(mut node: Node, killed_at_height: u64, tip: u64) -> Result<Kill, BenchError> {
    let height = node.height()?;
    let first_answer_ms = node.started.elapsed().as_secs_f64() * 1e3;
    let reached = node.wait_for_tip()?;
    let tip_s = node.started.elapsed().as_secs_f64();
    node.kill()?;
    if reached != tip {
        return Err(BenchError::Wrong(format!("after the kill the tip is block {reached}, before it was {tip}")));
    }
    Ok(Kill { killed_at_height, first_answer_ms, height, tip_s })
}

/// A running `assay run`.
struct Node {
    process: Child,
    address: SocketAddr,
    started: Instant,
    wire: Option<BufReader<TcpStream>>,
    last_height: u64,
}

impl Node {
    fn start(options: &RestartOptions, blocks: &Blocks, datadir: &Path) -> Result<Node, BenchError> {
        // A port that was free a moment ago.
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = address.map_err(at("127.0.0.1"))?;
        let program = env::current_exe().map_err(at("own program"))?;
        let started = Instant::now();
        let process = Command::new(&program)
            .args(["run", "--chain", options.source.chain.name(), "--log-level", "warn"])
            .args(["--threads", &options.crew.threads.to_string(), "--memory-mib", &options.crew.memory.to_string()])
            .args([
                "--sig-engine",
                options.crew.engine.as_str(),
                "--electrum-listen",
                &address.to_string(),
                "--rpc-listen",
                "off",
            ])
            .arg("--datadir")
            .arg(datadir)
            .arg("--blocks-from")
            .arg(blocks.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(at(program))?;
        Ok(Node { process, address, started, wire: None, last_height: 0 })
    }

    /// Asks once; none while the port is closed.
    fn ask(&mut self, method: &str, parameters: Value) -> Option<Value> {
        if self.wire.is_none() {
            let wire = TcpStream::connect(self.address).ok()?;
            wire.set_nodelay(true).ok()?;
            self.wire = Some(BufReader::new(wire));
            self.ask("server.version", json!(["assay bench", "1.4"]))?;
        }
        let wire = self.wire.as_mut()?;
        let question = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": parameters });
        wire.get_mut().write_all(format!("{question}\n").as_bytes()).ok()?;
        loop {
            let mut line = String::new();
            wire.read_line(&mut line).ok().filter(|&bytes| bytes > 0)?;
            let answer: Value = serde_json::from_str(&line).ok()?;
            // Notifications of new tips come on the same wire and have no id.
            if answer["id"] == 1 {
                return Some(answer);
            }
        }
    }

    /// Height of the node's tip, as soon as it answers.
    fn height(&mut self) -> Result<u64, BenchError> {
        let fail = |text: String| Err(BenchError::Child { name: "assay run".to_owned(), text });
        while self.started.elapsed() < PATIENCE {
            if let Some(status) = self.process.try_wait().map_err(at("assay run"))? {
                return fail(status.to_string());
            }
            let Some(answer) = self.ask("blockchain.headers.subscribe", json!([])) else {
                self.wire = None;
                sleep(POLL);
                continue;
            };
            let Some(height) = answer["result"]["height"].as_u64() else { return fail(format!("answers {answer}")) };
            self.last_height = height;
            return Ok(height);
        }
        fail(format!("no answer within {} s", PATIENCE.as_secs()))
    }

    /// Waits until the height does not grow and the node serves address queries.
    fn wait_for_tip(&mut self) -> Result<u64, BenchError> {
        loop {
            let height = self.height()?;
            if self.serves_addresses() {
                return Ok(height.max(self.height()?));
            }
            if self.started.elapsed() > PATIENCE {
                let text = format!("at height {height} after {} s", PATIENCE.as_secs());
                return Err(BenchError::Child { name: "assay run".to_owned(), text });
            }
            sleep(POLL);
        }
    }

    /// While it syncs, a question about a script gets an error; at the tip, an answer.
    fn serves_addresses(&mut self) -> bool {
        let answer = self.ask("blockchain.scripthash.get_balance", json!(["00".repeat(32)]));
        answer.is_some_and(|answer| !answer["result"].is_null())
    }

    /// SIGKILL; the last height it answered with.
    fn kill(mut self) -> Result<u64, BenchError> {
        if self.wire.is_some() {
            let _ = self.height()?;
        }
        self.process.kill().map_err(at("assay run"))?;
        self.process.wait().map_err(at("assay run"))?;
        Ok(self.last_height)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // After `kill` both do nothing; on an early return no node may be left running.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
