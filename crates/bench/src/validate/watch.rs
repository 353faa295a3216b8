//! A node on its way to the tip.
//!
//! In:     a running node, the chain's tip, the peer it downloads from and who else is still connected with that.
//! Out:    [`Outcome`]: samples over time, and what it took until it stood at the tip and until it had ended.
//! Fails:  when the node ends early, stands at another tip, or not at the tip within the patience.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::ChainFacts;
use super::contestant::Running;
use crate::BenchError;
use crate::measure::{self, Usage};
use crate::nodes::Assay;

/// Time between two samples, at least.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest time a node may take to end, once asked to.
const END_PATIENCE: Duration = Duration::from_secs(120);

/// A moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Since the start, in seconds.
    pub at_s: f64,
    /// CPU time of the process and all below it, in seconds.
    pub cpu_s: f64,
    /// Memory they hold, in bytes.
    pub memory_bytes: u64,
    /// Bytes that came from the disk.
    pub read_bytes: u64,
    /// Bytes that go to the disk.
    pub written_bytes: u64,
    /// Bytes the peer has sent.
    pub received_bytes: u64,
    /// Its height, where it tells.
    pub height: Option<u64>,
}

/// What one run took.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Time until it stood at the tip, in seconds.
    pub tip_s: f64,
    /// Time until it had ended, everything on the disk, in seconds.
    pub ended_s: f64,
    /// CPU time of the peer meanwhile, in seconds.
    pub peer_cpu_s: f64,
    /// What was seen, the last sample at the tip; of a node that ends by itself, shortly before.
    pub samples: Vec<Sample>,
    /// Bytes written in all, what it wrote while ending included as far as it was seen.
    pub written_bytes: u64,
}

impl Outcome {
    /// At the tip.
    pub fn last(&self) -> &Sample {
        self.samples.last().expect("a run has a sample")
    }

    /// Most memory of any sample.
    pub fn peak_memory_bytes(&self) -> u64 {
        self.samples.iter().map(|sample| sample.memory_bytes).max().unwrap_or(0)
    }
}

/// Watches it until its tip is the chain's, asks it to end, and watches that too.
pub fn until_tip(
    running: &mut Running,
    facts: &ChainFacts,
    peer: &Assay,
    others: &[Value],
    patience_s: u64,
) -> Result<Outcome, BenchError> {
    let peer_before_s = peer.process.usage()?.cpu_s();
    let started = running.process.started;
    let mut samples: Vec<Sample> = Vec::new();
    let tip_s = loop {
        let tip = running.tip(facts)?;
        let at_s = started.elapsed().as_secs_f64();
        if let Ok(tree) = measure::of_tree(running.process.id()) {
            // A connection that has ended is no longer listed.
            let before = samples.last().map_or(0, |last| last.received_bytes);
            let received_bytes = sent_bytes(peer, others).max(before);
            samples.push(sample(at_s, &tree, received_bytes, tip.height));
        }
        if tip.is_reached {
            break at_s;
        }
        if started.elapsed().as_secs() > patience_s {
            let at = tip.height.map_or(String::new(), |height| format!("; it stands at {height} of {}", facts.height));
            return Err(running.process.failed(format!("not at the tip within {patience_s} s{at}")));
        }
        std::thread::sleep(PAUSE);
    };
    if samples.is_empty() {
        return Err(running.process.failed("ended before anything could be seen of it"));
    }
    let peer_cpu_s = peer.process.usage()?.cpu_s() - peer_before_s;
    let mut written_bytes = samples.last().map_or(0, |last| last.written_bytes);
    running.process.ask_to_end()?;
    let asked = Instant::now();
    while running.process.is_running()? {
        if let Ok(tree) = measure::of_tree(running.process.id()) {
            written_bytes = written_bytes.max(tree.usage.disk_written_bytes);
        }
        if asked.elapsed() > END_PATIENCE {
            return Err(running.process.failed(format!("has not ended after {} s", END_PATIENCE.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Outcome { tip_s, ended_s: started.elapsed().as_secs_f64(), peer_cpu_s, samples, written_bytes })
}

/// Whom the peer is connected with, by their numbers.
pub fn connected(peer: &Assay) -> Vec<Value> {
    connections(peer).iter().map(|connection| connection["id"].clone()).collect()
}

fn connections(peer: &Assay) -> Vec<Value> {
    let mut report = peer.report().unwrap_or_default();
    match report["peers"]["connections"].take() {
        Value::Array(list) => list,
        _ => Vec::new(),
    }
}

/// Bytes that the peer has sent to all but `others`, which is the node and nobody else.
fn sent_bytes(peer: &Assay, others: &[Value]) -> u64 {
    let own = connections(peer).into_iter().filter(|connection| !others.contains(&connection["id"]));
    own.filter_map(|connection| connection["sent_bytes"].as_u64()).sum()
}

fn sample(at_s: f64, tree: &measure::Tree, received_bytes: u64, height: Option<u64>) -> Sample {
    let Usage { disk_read_bytes, disk_written_bytes, .. } = tree.usage;
    Sample {
        at_s,
        cpu_s: tree.usage.cpu_s(),
        memory_bytes: tree.memory_bytes,
        read_bytes: disk_read_bytes,
        written_bytes: disk_written_bytes,
        received_bytes,
        height,
    }
}
