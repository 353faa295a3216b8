//! What the figures were measured on.
//!
//! In:     `/proc/cpuinfo`, `/proc/meminfo`, `/proc/mounts`, `/sys/block`, the kernel's version.
//! Out:    [`Machine`], which goes into every report.
//! Fails:  never; what cannot be found out is null.

use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Instructions that decide how fast hashing and signatures are.
const FLAGS: [&str; 5] = ["sha_ni", "avx2", "avx512f", "avx512ifma", "adx"];

/// Processor, cores, memory, system, disk, and this program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: Option<String>,
    /// Cores that this process may use.
    pub cores: Option<usize>,
    /// Those of [`FLAGS`] that it has.
    pub instructions: Vec<String>,
    /// Memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// The kernel's version.
    pub system: Option<String>,
    /// File system and kind of the disk that temporary files lie on.
    pub disk: Option<String>,
    /// Load average of the last minute.
    pub load_before: Option<f64>,
    /// This program's version.
    pub program: String,
    /// That of the library measured beside us.
    pub libbitcoinkernel: String,
    /// When this was found out, in seconds since 1970.
    pub time_unix_s: Option<u64>,
}

/// This machine, now.
pub fn describe() -> Machine {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        cpu.lines().find(|line| line.starts_with(name)).and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
    };
    let flags = field("flags").unwrap_or_default();
    let has = |flag: &&&str| flags.split(' ').any(|have| have == **flag);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_kib = memory.lines().next().and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Machine {
        processor: field("model name"),
        cores: available_parallelism().map(usize::from).ok(),
        instructions: FLAGS.iter().filter(has).map(|&flag| flag.to_owned()).collect(),
        memory_bytes: memory_kib.map(|kib| kib * 1024),
        system: fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
        disk: disk(&std::env::temp_dir()),
        load_before: load.split(' ').next().and_then(|text| text.parse::<f64>().ok()),
        program: concat!("assay ", env!("CARGO_PKG_VERSION")).to_owned(),
        libbitcoinkernel: "bitcoinkernel 0.3.2 (Bitcoin Core 31.99.0, commit 70d9ec7f3d4)".to_owned(),
        time_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs()).ok(),
    }
}

/// The disk that holds this path: `ext4 on /dev/vda (rotating)`, or the name of its maker.
pub fn disk(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let (device, kind) = mount_of(&fs::read_to_string("/proc/mounts").ok()?, &path)?;
    let name = device.rsplit('/').next().unwrap_or_default();
    // A partition lies in the folder of its disk.
    let whole = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('p');
    let about = |file: &str| {
        let found = [name, whole].iter().find_map(|name| fs::read_to_string(format!("/sys/block/{name}/{file}")).ok());
        found.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let model = about("device/model");
    let rotates = about("queue/rotational").map(|flag| if flag == "1" { "says it rotates" } else { "does not rotate" });
    let more: Vec<String> = model.into_iter().chain(rotates.map(str::to_owned)).collect();
    Some(match more.is_empty() {
        true => format!("{kind} on {device}"),
        false => format!("{kind} on {device} ({})", more.join(", ")),
    })
}

/// Device and file system of the longest mount point above `path`.
fn mount_of(mounts: &str, path: &Path) -> Option<(String, String)> {
    let rows = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let above = rows.filter(|row| row.len() > 2 && path.starts_with(row[1]));
    let row = above.max_by_key(|row| row[1].len())?;
    Some((row[0].to_owned(), row[2].to_owned()))
}

/// Cores of this machine.
pub fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_on_the_longest_mount_above_it() {
        let mounts = "/dev/sda1 / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/sdb /tmpfiles xfs rw 0 0\n";
        let check = |path: &str, want: (&str, &str)| {
            assert_eq!(mount_of(mounts, Path::new(path)), Some((want.0.to_owned(), want.1.to_owned())), "{path}");
        };
        check("/home/a", ("/dev/sda1", "ext4"));
        check("/tmp/b", ("tmpfs", "tmpfs"));
        check("/tmpfiles/b", ("/dev/sdb", "xfs"));
        assert_eq!(mount_of("", Path::new("/")), None);
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let machine = describe();
        assert!(machine.cores.unwrap() >= 1 && machine.memory_bytes.unwrap() > 1 << 28, "{machine:?}");
        let text = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), machine);
    }
}
