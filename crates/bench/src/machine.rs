//! What the figures were measured on.
//!
//! In:     `/proc/cpuinfo`, `/proc/meminfo`, the kernel's version.
//! Out:    a JSON object that goes into every report.
//! Fails:  never; what cannot be found out is null.

use std::fs;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Instructions that decide how fast hashing and signatures are.
const FLAGS: [&str; 5] = ["sha_ni", "avx2", "avx512f", "avx512ifma", "adx"];

/// Processor, cores, memory, system, and this program.
pub fn describe() -> Value {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        cpu.lines().find(|line| line.starts_with(name)).and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
    };
    let flags = field("flags").unwrap_or_default();
    let has = |flag: &&str| flags.split(' ').any(|have| have == *flag);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_kib = memory.lines().next().and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    json!({
        "processor": field("model name"),
        "cores": available_parallelism().map(usize::from).ok(),
        "instructions": FLAGS.iter().filter(|flag| has(flag)).collect::<Vec<_>>(),
        "memory_bytes": memory_kib.map(|kib| kib * 1024),
        "system": fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
        "load_before": load.split(' ').next().and_then(|text| text.parse::<f64>().ok()),
        "program": concat!("assay ", env!("CARGO_PKG_VERSION")),
        "libbitcoinkernel": "bitcoinkernel 0.3.2 (Bitcoin Core 31.99.0, commit 70d9ec7f3d4)",
        "time_unix_s": SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs()).ok(),
    })
}

/// Cores of this machine.
pub fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}
