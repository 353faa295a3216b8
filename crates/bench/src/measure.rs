//! What the operating system says about a process.
//!
//! In:     `/proc` of this process, or of another one of the same user.
//! Out:    [`Usage`]: time, memory and bytes between two moments.
//! Fails:  with the path that cannot be read.
//! Source: proc(5). CPU time comes in ticks of 10 ms, which is enough for runs of seconds.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::{BenchError, at};

/// Ticks of `/proc/self/stat` in a second; fixed for programs since Linux 2.6.
const TICKS_PER_S: f64 = 100.0;

/// What a piece of work took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Time on the wall, in seconds.
    pub wall_s: f64,
    /// CPU time in the program, all threads, in seconds.
    pub user_s: f64,
    /// CPU time in the operating system, all threads, in seconds.
    pub sys_s: f64,
    /// Most memory the process ever held, in bytes; from its start, not from the work's.
    pub peak_memory_bytes: u64,
    /// Bytes of pages dirtied, which the disk has to write.
    pub disk_written_bytes: u64,
    /// Bytes that had to come from the disk.
    pub disk_read_bytes: u64,
}

impl Usage {
    /// CPU time of all threads, in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.sys_s
    }
}

/// A moment from which work is measured.
pub struct Start {
    at: Instant,
    cpu: (f64, f64),
    written_bytes: u64,
    read_bytes: u64,
}

fn text(path: &str) -> Result<String, BenchError> {
    fs::read_to_string(path).map_err(at(path))
}

/// The number after `name` and its colon.
fn number_after(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// What a process and all below it hold and took.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Time and bytes; of processes below it that have ended only the time counts. No time on the wall, no peak.
    pub usage: Usage,
    /// Memory held now, in bytes; what they share counts for each.
    pub memory_bytes: u64,
}

/// Of a process and all below it, since their start.
pub fn of_tree(id: u32) -> Result<Tree, BenchError> {
    let root = of_process(id)?;
    let ended_s: f64 = times_of_ended(&id.to_string())?;
    let mut tree = Tree { usage: root, memory_bytes: memory_of_process(id)?.0 };
    tree.usage.user_s += ended_s;
    tree.usage.peak_memory_bytes = 0;
    for below in processes_below(id) {
        // One that has ended meanwhile is its parent's time a moment later.
        let (Ok(usage), Ok((memory_bytes, _))) = (of_process(below), memory_of_process(below)) else { continue };
        let ended_s = times_of_ended(&below.to_string()).unwrap_or(0.0);
        tree.usage.user_s += usage.user_s + ended_s;
        tree.usage.sys_s += usage.sys_s;
        tree.usage.disk_read_bytes += usage.disk_read_bytes;
        tree.usage.disk_written_bytes += usage.disk_written_bytes;
        tree.memory_bytes += memory_bytes;
    }
    Ok(tree)
}

/// Processes below this one now.
pub fn processes_below(id: u32) -> Vec<u32> {
    below(id, &parents())
}

/// Every process with its parent.
fn parents() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let with_parent = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        Some((id, stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()?))
    };
    ids.filter_map(with_parent).collect()
}

/// Children, their children, and so on.
fn below(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let (mut found, mut next) = (vec![root], 0);
    while let Some(&id) = found.get(next) {
        let children = parents.iter().filter(|(child, parent)| *parent == id && !found.contains(child));
        let children: Vec<u32> = children.map(|(child, _)| *child).collect();
        found.extend(children);
        next += 1;
    }
    found.split_off(1)
}

/// CPU time of children that have ended and were waited for, in seconds.
fn times_of_ended(process: &str) -> Result<f64, BenchError> {
    let stat = text(&format!("/proc/{process}/stat"))?;
    let fields = stat.rsplit(") ").next().unwrap_or("").split(' ');
    let ticks: f64 = fields.skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_PER_S)
}

/// User and system time of all threads of a process, ended ones included, in seconds.
fn cpu_s(process: &str) -> Result<(f64, f64), BenchError> {
    let stat = text(&format!("/proc/{process}/stat"))?;
    // The second field is the program's name in parentheses and may hold spaces; the times are fields 14 and 15.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) / TICKS_PER_S, ticks(12) / TICKS_PER_S))
}

impl Start {
    /// From now on.
    pub fn now() -> Result<Start, BenchError> {
        let io = text("/proc/self/io")?;
        Ok(Start {
            cpu: cpu_s("self")?,
            written_bytes: number_after(&io, "write_bytes"),
            read_bytes: number_after(&io, "read_bytes"),
            at: Instant::now(),
        })
    }

    /// Up to now.
    pub fn usage(&self) -> Result<Usage, BenchError> {
        let wall_s = self.at.elapsed().as_secs_f64();
        let (cpu, io) = (cpu_s("self")?, text("/proc/self/io")?);
        Ok(Usage {
            wall_s,
            user_s: cpu.0 - self.cpu.0,
            sys_s: cpu.1 - self.cpu.1,
            peak_memory_bytes: peak_memory_bytes()?,
            disk_written_bytes: number_after(&io, "write_bytes") - self.written_bytes,
            disk_read_bytes: number_after(&io, "read_bytes") - self.read_bytes,
        })
    }
}

/// Most memory this process ever held, in bytes.
pub fn peak_memory_bytes() -> Result<u64, BenchError> {
    Ok(number_after(&text("/proc/self/status")?, "VmHWM") * 1024)
}

/// Memory another process holds now, and the most it ever held, in bytes.
pub fn memory_of_process(id: u32) -> Result<(u64, u64), BenchError> {
    let status = text(&format!("/proc/{id}/status"))?;
    Ok((number_after(&status, "VmRSS") * 1024, number_after(&status, "VmHWM") * 1024))
}

/// What another process took since its start; the time on the wall is left to the caller.
pub fn of_process(id: u32) -> Result<Usage, BenchError> {
    let process = id.to_string();
    let ((user_s, sys_s), io) = (cpu_s(&process)?, text(&format!("/proc/{id}/io"))?);
    Ok(Usage {
        wall_s: 0.0,
        user_s,
        sys_s,
        peak_memory_bytes: number_after(&text(&format!("/proc/{id}/status"))?, "VmHWM") * 1024,
        disk_written_bytes: number_after(&io, "write_bytes"),
        disk_read_bytes: number_after(&io, "read_bytes"),
    })
}

/// Bytes of the files in a folder and below.
pub fn folder_bytes(folder: &Path) -> Result<u64, BenchError> {
    let mut total = 0;
    for entry in fs::read_dir(folder).map_err(at(folder))?.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        total += if metadata.is_dir() { folder_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen_as_time_and_memory() {
        let start = Start::now().unwrap();
        let mut block = vec![1u8; 64 << 20];
        let mut sum = 0u64;
        while start.at.elapsed().as_millis() < 120 {
            block.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(3));
            sum += u64::from(block[sum as usize % block.len()]);
        }
        let usage = start.usage().unwrap();
        assert!(usage.wall_s >= 0.12, "{usage:?} {sum}");
        assert!(usage.cpu_s() > 0.0 && usage.cpu_s() < 60.0, "{usage:?}");
        assert!(usage.peak_memory_bytes > 64 << 20, "{usage:?}");
    }

    #[test]
    fn a_tree_is_a_process_with_all_below_it() {
        assert_eq!(below(1, &[(2, 1), (3, 2), (4, 9), (5, 3), (1, 0), (9, 9)]), [2, 3, 5]);
        let script = "sh -c 'while :; do :; done' & sh -c 'exit 0'; wait";
        let mut shell = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let mut tree = Tree::default();
        for _ in 0..500 {
            std::thread::sleep(std::time::Duration::from_millis(10));
            tree = of_tree(shell.id()).unwrap();
            if tree.usage.cpu_s() > 0.05 {
                break;
            }
        }
        let alone = of_process(shell.id()).unwrap();
        let children = processes_below(shell.id());
        for child in children {
            let killed = std::process::Command::new("kill").arg(child.to_string()).status().unwrap();
            assert!(killed.success());
        }
        shell.wait().unwrap();
        assert!(tree.usage.cpu_s() > 0.05 && alone.cpu_s() < 0.05, "{tree:?} {alone:?}");
        assert!(tree.memory_bytes > 0);
    }

    #[test]
    fn numbers_are_found_by_their_whole_name() {
        let io = "rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4\ncancelled_write_bytes: 5\n";
        assert_eq!(number_after(io, "write_bytes"), 4);
        assert_eq!(number_after(io, "read_bytes"), 3);
        assert_eq!(number_after(io, "bytes"), 0);
    }
}
