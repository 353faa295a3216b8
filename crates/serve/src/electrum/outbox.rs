//! What waits to be written to one client.
//!
//! In:     answers, from the session that makes them.
//! Out:    pieces of at most [`WRITE_BYTES`], to the task that writes them to the socket.
//! Fails:  [`Outbox::room`] says when the client is gone or too slow.
//!
//! The session waits for room before it makes more; nobody else ever waits for a client.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::Env;
use super::limits::WRITE_BYTES;

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Nothing more will come: close when the pieces are written.
    finished: bool,
    /// The socket failed or the client was too slow: nothing more will go.
    broken: bool,
    /// The client was too slow.
    slow: bool,
}

/// Bytes on their way to one client.
pub struct Outbox {
    env: Arc<Env>,
    waiting: Mutex<Waiting>,
    filled: Notify,
    drained: Notify,
}

/// The client is gone or was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl Outbox {
    /// Empty.
    pub fn new(env: Arc<Env>) -> Outbox {
        Outbox { env, waiting: Mutex::default(), filled: Notify::new(), drained: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds bytes; whoever adds has waited for [`Outbox::room`] before.
    pub fn push(&self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let mut waiting = self.lock();
        if !waiting.broken {
            waiting.bytes += bytes.len();
            self.env.metrics.bytes_waiting_now.add(bytes.len() as u64);
            waiting.pieces.push_back(bytes);
            drop(waiting);
            self.filled.notify_one();
        }
    }

    /// Waits until more may be added.
    pub async fn room(&self) -> Result<(), Broken> {
        loop {
            let drained = self.drained.notified();
            {
                let waiting = self.lock();
                if waiting.broken {
                    return Err(Broken);
                }
                let limits = &self.env.limits;
                let shared_left = self.env.metrics.bytes_waiting_now.get() < limits.waiting_bytes_shared_max as u64;
                let own = waiting.bytes < limits.waiting_bytes_own;
                if own || (shared_left && waiting.bytes < limits.waiting_bytes_max) {
                    return Ok(());
                }
            }
            drained.await;
        }
    }

    /// Says that nothing more will come, and waits until everything is written or the client is given up.
    pub async fn finish(&self) {
        self.lock().finished = true;
        self.filled.notify_one();
        loop {
            let drained = self.drained.notified();
            {
                let waiting = self.lock();
                if waiting.broken || waiting.bytes == 0 {
                    return;
                }
            }
            drained.await;
        }
    }

    /// True where the client was dropped for reading too slowly.
    pub fn was_slow(&self) -> bool {
        self.lock().slow
    }

    /// Completes when nothing more can be written.
    pub async fn broken(&self) {
        loop {
            let drained = self.drained.notified();
            if self.lock().broken {
                return;
            }
            drained.await;
        }
    }

    /// Takes the next piece; none when all is written and nothing more will come.
    async fn next(&self) -> Option<Vec<u8>> {
        loop {
            let filled = self.filled.notified();
            {
                let mut waiting = self.lock();
                if let Some(piece) = waiting.pieces.pop_front() {
                    return Some(piece);
                }
                if waiting.finished {
                    return None;
                }
            }
            filled.await;
        }
    }

    fn written(&self, bytes: usize) {
        self.lock().bytes -= bytes;
        self.env.metrics.bytes_waiting_now.sub(bytes as u64);
        self.env.metrics.bytes_out.add(bytes as u64);
        self.drained.notify_waiters();
    }

    fn give_up(&self, slow: bool) {
        let mut waiting = self.lock();
        waiting.broken = true;
        waiting.slow = slow;
        waiting.pieces.clear();
        self.env.metrics.bytes_waiting_now.sub(waiting.bytes as u64);
        waiting.bytes = 0;
        drop(waiting);
        self.drained.notify_waiters();
    }

    /// Writes everything to the socket until the session says it is finished or the client is too slow.
    pub async fn write_to(&self, mut socket: impl AsyncWrite + Unpin) {
        while let Some(bytes) = self.next().await {
            for piece in bytes.chunks(WRITE_BYTES) {
                match tokio::time::timeout(self.env.limits.write_time_max, socket.write_all(piece)).await {
                    Ok(Ok(())) => self.written(piece.len()),
                    Ok(Err(_)) => return self.give_up(false),
                    Err(_) => return self.give_up(true),
                }
            }
        }
        // The client may be gone already; there is nobody left to tell.
        let _ = socket.shutdown().await;
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let bytes = self.lock().bytes as u64;
        self.env.metrics.bytes_waiting_now.sub(bytes);
    }
}
