//! The few calls to the operating system that the standard library lacks.
//!
//! In:     paths and numbers.
//! Out:    free disk, peak memory, limits; a mask that keeps our files private.
//! Fails:  answers `None` or does nothing where the system will not say; no caller depends on it for correctness.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Files made from now on can be read by their owner only.
pub fn make_files_private() {
    // SAFETY: umask takes a number and cannot fail.
    unsafe { libc::umask(0o077) };
}

/// Lets the process open as many files and sockets as it is allowed to.
pub fn raise_open_files() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a valid pointer to a structure of the right type.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return None;
        }
        limit.rlim_cur = limit.rlim_max.min(1 << 20); // more is refused by some kernels
        (libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0).then_some(limit.rlim_cur)
    }
}

/// Bytes an unprivileged process may still write to the disk of `path`.
pub fn disk_free_bytes(path: &Path) -> Option<u64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: an all-zero statvfs is a valid value, and the pointers are valid for the call.
    unsafe {
        let mut facts: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut facts) == 0).then(|| facts.f_bavail * facts.f_frsize)
    }
}

/// Memory of this process now and at its highest, in bytes.
pub fn resident_bytes() -> (u64, u64) {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0 kB");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
    };
    (field("VmRSS:"), field("VmHWM:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_answers() {
        assert!(disk_free_bytes(Path::new("/")).is_some());
        assert_eq!(disk_free_bytes(Path::new("/nonexistent/folder")), None);
        let (now, peak) = resident_bytes();
        assert!(now > 0 && peak >= now, "{now} {peak}");
    }
}
