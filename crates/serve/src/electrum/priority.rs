//! The priority of threads whose work may wait.
//!
//! In:     nothing: it concerns the thread that calls.
//! Out:    a thread that gets a quarter of a processor that another wants too, and all of one that nobody wants.
//! Fails:  never; a system that refuses leaves the thread as it was.
//! Source: setpriority(2): on Linux a nice value belongs to the thread.

#![allow(unsafe_code)]

/// Its weight is 335 where that of others is 1,024. Not more: on a machine that other programs keep busy (measured: ten of
/// them on two processors) a weight of 110 left a client without a byte for ten seconds.
const NICE: libc::c_int = 5;

/// Lets the calling thread give way to others from now on.
pub(super) fn give_way() {
    // SAFETY: setpriority takes numbers; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_gives_way_and_no_other() {
        let nice = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux");
            let fields = stat.rsplit_once(") ").expect("a name in brackets").1;
            fields.split(' ').nth(16).expect("the nineteenth field").parse::<i32>().expect("a number")
        };
        let before = nice();
        let thread = std::thread::Builder::new().name("test".into()).spawn(move || {
            give_way();
            nice()
        });
        assert_eq!(thread.expect("a thread").join().expect("it ends"), before.max(NICE));
        assert_eq!(nice(), before);
    }
}
