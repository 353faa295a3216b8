//! When to stop: SIGINT, SIGTERM, a full disk, a panic on any of the node's own threads.
//!
//! In:     signals and panics of this process.
//! Out:    [`StopFlag`], asked by the main thread many times a second.
//! Fails:  at start, when the operating system refuses a handler.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::log;

/// Exit code when a second signal arrives before the clean stop is done; nothing is lost by it.
const SECOND_SIGNAL_EXIT: i32 = 1;

/// Says that the process should end, and whether a panic is the reason.
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    signalled: Arc<AtomicBool>,
    panicked: Arc<AtomicBool>,
}

impl StopFlag {
    /// Sets handlers and the panic hook.
    pub fn install() -> io::Result<StopFlag> {
        let stop = StopFlag::default();
        for signal in [SIGINT, SIGTERM] {
            // Order matters: the shutdown handler sees the flag as the signal before left it.
            flag::register_conditional_shutdown(signal, SECOND_SIGNAL_EXIT, stop.signalled.clone())?;
            flag::register(signal, stop.signalled.clone())?;
        }
        let panicked = stop.panicked.clone();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("unnamed").to_owned();
            let place = panic.location().map_or(String::new(), ToString::to_string);
            let backtrace = std::backtrace::Backtrace::capture();
            let why = panic.payload_as_str().unwrap_or("no text");
            log::error("node", "panic", &[("thread", &name), ("place", &place), ("why", &why)]);
            if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
                eprintln!("{backtrace}");
            }
            // A session's task and a call end alone; anywhere else a broken promise ends the node.
            if !name.starts_with("electrum") && !name.starts_with("rpc") {
                panicked.store(true, Ordering::SeqCst);
            }
        }));
        Ok(stop)
    }

    /// Asks for the end as a signal does.
    pub fn request(&self) {
        self.signalled.store(true, Ordering::SeqCst);
    }

    /// A signal came.
    pub fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::SeqCst)
    }

    /// A thread of the node panicked.
    pub fn is_panicked(&self) -> bool {
        self.panicked.load(Ordering::SeqCst)
    }
}
