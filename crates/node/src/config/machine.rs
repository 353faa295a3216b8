//! What this machine has: memory within its control group, and processors.
//!
//! In:     /proc/meminfo, /proc/self/cgroup, /sys/fs/cgroup.
//! Out:    bytes of memory this process can ever have, and a share of it to use by default.
//! Fails:  never: what cannot be read sets no bound.

use std::fs;
use std::path::{Path, PathBuf};

/// Memory that `auto` takes at most: the coins of the largest chain and room, in MiB.
const AUTO_MEMORY_MIB_MAX: u64 = 16_384;
/// Memory that `auto` takes at least, in MiB; the least the setting accepts.
const AUTO_MEMORY_MIB_MIN: u64 = 256;

/// Memory this process can have, in MiB: the machine's, or the control group's where that is less.
pub fn memory_mib() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_bytes(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| group_limit_bytes(&text, read_limit));
    [machine, group].into_iter().flatten().min().unwrap_or(u64::MAX) >> 20
}

/// What `memory_mib = "auto"` means on a machine with this much.
pub fn auto_memory_mib(machine_mib: u64) -> u64 {
    (machine_mib / 2).clamp(AUTO_MEMORY_MIB_MIN, AUTO_MEMORY_MIB_MAX)
}

/// Processors this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

/// Least limit of this process's control groups and their parents, versions 1 and 2 (Linux, cgroups(7)).
fn group_limit_bytes(own_groups: &str, limit_of: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
    let mut limits = Vec::new();
    for line in own_groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let mut folder = PathBuf::from(root);
        limits.extend(limit_of(&folder.join(file)));
        for part in path.split('/').filter(|part| !part.is_empty() && *part != "..") {
            folder.push(part);
            limits.extend(limit_of(&folder.join(file)));
        }
    }
    limits.into_iter().min()
}

fn read_limit(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok() // "max" is no number and no limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_machine_is_read() {
        assert_eq!(total_bytes("MemFree: 1 kB\nMemTotal:       16384 kB\n"), Some(16 << 20));
        assert_eq!(total_bytes("MemTotal: many\n"), None);
        assert!(memory_mib() > 64);
    }

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let limit_of = |path: &Path| match path.to_str().unwrap() {
            "/sys/fs/cgroup/memory.max" => None,
            "/sys/fs/cgroup/a/memory.max" => Some(500),
            "/sys/fs/cgroup/a/b/memory.max" => Some(700),
            "/sys/fs/cgroup/memory/c/memory.limit_in_bytes" => Some(400),
            _ => None,
        };
        assert_eq!(group_limit_bytes("0::/a/b\n", limit_of), Some(500));
        assert_eq!(group_limit_bytes("0::/a\n5:cpu,memory:/c\n", limit_of), Some(400));
        assert_eq!(group_limit_bytes("0::/\n", limit_of), None);
        assert_eq!(group_limit_bytes("nonsense\n", limit_of), None);
    }

    #[test]
    fn the_automatic_share() {
        for (machine, want) in [(100, 256), (1_024, 512), (8_192, 4_096), (1 << 20, 16_384)] {
            assert_eq!(auto_memory_mib(machine), want, "machine of {machine} MiB");
        }
    }
}
