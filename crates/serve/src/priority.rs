//! What threads ask of the system's scheduler: some are to be woken at once, others may wait.
//!
//! In:     nothing: it concerns the thread that calls.
//! Out:    a thread whose turns are short and come at once; or one that gets a quarter of a processor that another wants too,
//!         and all of one that nobody wants.
//! Fails:  never; a system that refuses leaves the thread as it was.
//! Source: sched_setattr(2): on Linux a nice value belongs to the thread. A time slice of its own is heard from Linux 6.12 on,
//!         and ignored before.

#![allow(unsafe_code)]

/// The system's greatest.
const NICE_MAX: i32 = 19;
/// Steps behind the process's other threads: a weight of 335 where theirs is 1,024. Not more: on a machine that other programs
/// keep busy (measured: ten of them on two processors) a weight of 110 left a client without a byte for ten seconds.
const NICE: i32 = 5;

/// Turns of this length: the least that there is, about what a short answer takes. The system's own are 2.8 ms.
const TURN_NS: u64 = 100_000;

/// The system's `struct sched_attr`, in its first form.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Lets the calling thread give way to others from now on; false where the system refuses.
pub fn give_way() -> bool {
    // Whichever thread it was started by, its turns have the usual length.
    ask(|attributes| (attributes.nice, attributes.runtime_ns) = ((attributes.nice + NICE).min(NICE_MAX), 0))
}

/// Asks that the calling thread is woken at once, for short turns; its share of a processor stays the same.
pub fn answer_at_once() -> bool {
    ask(|attributes| attributes.runtime_ns = TURN_NS)
}

fn ask(change: impl FnOnce(&mut Attributes)) -> bool {
    let size = size_of::<Attributes>() as u32;
    let mut attributes =
        Attributes { size, policy: 0, flags: 0, nice: 0, priority: 0, runtime_ns: 0, deadline_ns: 0, period_ns: 0 };
    let (thread, flags) = (0, 0);
    // SAFETY: the system writes at most `size` bytes.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut attributes, size, flags) };
    // Another policy is the operator's wish.
    if got != 0 || attributes.policy != libc::SCHED_OTHER as u32 {
        return false;
    }
    change(&mut attributes);
    // SAFETY: the system reads at most as many bytes as `size` says, which lie there.
    unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, flags) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux");
        let fields = stat.rsplit_once(") ").expect("a name in brackets").1;
        fields.split(' ').nth(16).expect("the nineteenth field").parse().expect("a number")
    }

    #[test]
    fn the_thread_gives_way_and_no_other() {
        let before = nice();
        let thread = std::thread::Builder::new().name("test".into()).spawn(move || {
            let short = answer_at_once();
            (short && give_way(), nice())
        });
        assert_eq!(thread.expect("a thread").join().expect("it ends"), (true, (before + NICE).min(NICE_MAX)));
        assert_eq!(nice(), before);
    }

    #[test]
    fn short_turns_leave_the_share_as_it_was() {
        let before = nice();
        let thread = std::thread::Builder::new().name("test".into()).spawn(move || (answer_at_once(), nice()));
        let (heard, after) = thread.expect("a thread").join().expect("it ends");
        assert!(heard, "the system takes the wish, whether or not it follows it");
        assert_eq!(after, before);
    }
}
