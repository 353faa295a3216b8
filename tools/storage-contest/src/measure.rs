//! What the operating system says about this process and a folder.
//!
//! In:     nothing, or a folder.
//! Out:    CPU time, peak memory, bytes written, bytes kept; and cold files.
//! Fails:  with a panic: without these figures the contest has no result.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn clock_s(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// CPU time of all threads of this process so far, in seconds.
pub fn process_cpu_s() -> f64 {
    clock_s(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of this thread so far, in seconds.
pub fn thread_cpu_s() -> f64 {
    clock_s(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn field(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).expect("proc is readable");
    let line = text.lines().find(|line| line.starts_with(name)).expect("the field exists");
    line[name.len()..].trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

/// Peak resident memory of this process, in bytes.
pub fn peak_memory_bytes() -> u64 {
    field("/proc/self/status", "VmHWM") * 1024
}

/// Bytes this process caused to be written to the disk (pages dirtied).
pub fn disk_written_bytes() -> u64 {
    field("/proc/self/io", "write_bytes")
}

/// Bytes this process handed to write calls.
pub fn asked_written_bytes() -> u64 {
    field("/proc/self/io", "wchar")
}

/// Bytes this process caused to be read from the disk.
pub fn disk_read_bytes() -> u64 {
    field("/proc/self/io", "read_bytes")
}

fn each_file(dir: &Path, visit: &mut dyn FnMut(&Path, &fs::Metadata)) {
    for entry in fs::read_dir(dir).expect("folder is readable") {
        let path = entry.expect("folder is readable").path();
        // A background thread may remove a file between the listing and here.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            each_file(&path, visit);
        } else {
            visit(&path, &metadata);
        }
    }
}

/// Bytes of disk the folder occupies.
pub fn kept_bytes(dir: &Path) -> u64 {
    let mut total = 0;
    each_file(dir, &mut |_, metadata| total += metadata.blocks() * 512);
    total
}

/// Writes the folder's files back and drops them from the page cache.
pub fn make_cold(dir: &Path) {
    each_file(dir, &mut |path, _| {
        let Ok(file) = fs::File::open(path) else { return };
        file.sync_all().expect("file can be synced");
        // SAFETY: the descriptor is open.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    });
}
