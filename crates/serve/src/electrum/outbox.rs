//! What waits to be written to one client.
//!
//! In:     answers, from the session that makes them; a nudge where the channel has something to say by itself.
//! Out:    pieces of at most [`WRITE_BYTES`], through the channel, to the task that writes them to the socket.
//! Fails:  [`Outbox::room`] says when the client is gone or too slow.
//!
//! The session waits for room before it makes more; nobody else ever waits for a client.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use super::Env;
use super::limits::WRITE_BYTES;
use crate::transport::channel::Channel;
use crate::transport::listen::Writer;

/// What a piece costs besides its bytes, so that empty ones are bounded too.
const PIECE_COST_BYTES: usize = 64;

/// A piece of an answer.
struct Piece {
    bytes: Vec<u8>,
    /// The answer to a message ends with it.
    is_end: bool,
}

impl Piece {
    /// What it counts for.
    fn cost(&self) -> usize {
        self.bytes.len() + if self.is_end { PIECE_COST_BYTES } else { 0 }
    }
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// The channel has something to send, whatever the pieces are.
    nudged: bool,
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
    ended: Notify,
}

/// The client is gone or was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl Outbox {
    /// Empty.
    pub fn new(env: Arc<Env>) -> Outbox {
        Outbox { env, waiting: Mutex::default(), filled: Notify::new(), drained: Notify::new(), ended: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds bytes; whoever adds has waited for [`Outbox::room`] before.
    pub fn push(&self, bytes: Vec<u8>) {
        self.push_piece(Piece { bytes, is_end: false });
    }

    /// Adds the last bytes of the answer to a message; they may be none.
    pub fn push_end(&self, bytes: Vec<u8>) {
        self.push_piece(Piece { bytes, is_end: true });
    }

    fn push_piece(&self, piece: Piece) {
        if piece.cost() == 0 {
            return;
        }
        let mut waiting = self.lock();
        if !waiting.broken {
            waiting.bytes += piece.cost();
            self.env.metrics.bytes_waiting_now.add(piece.cost() as u64);
            match waiting.pieces.back_mut() {
                // What waits leaves in one write.
                Some(last) if !last.is_end && last.bytes.len() + piece.bytes.len() <= WRITE_BYTES => {
                    last.bytes.extend_from_slice(&piece.bytes);
                    last.is_end = piece.is_end;
                }
                _ => waiting.pieces.push_back(piece),
            }
            drop(waiting);
            self.filled.notify_one();
        }
    }

    /// The channel has something to send by itself.
    pub fn nudge(&self) {
        self.lock().nudged = true;
        self.filled.notify_one();
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

    /// Completes when nothing more can be written. It is not woken by what was written.
    pub async fn broken(&self) {
        loop {
            let ended = self.ended.notified();
            if self.lock().broken {
                return;
            }
            ended.await;
        }
    }

    /// Takes the next piece, an empty one for a nudge; none when all is written and nothing more will come.
    async fn next(&self) -> Option<Piece> {
        loop {
            let filled = self.filled.notified();
            {
                let mut waiting = self.lock();
                let nudged = std::mem::take(&mut waiting.nudged);
                if let Some(piece) = waiting.pieces.pop_front() {
                    return Some(piece);
                }
                if nudged {
                    return Some(Piece { bytes: Vec::new(), is_end: false });
                }
                if waiting.finished {
                    return None;
                }
            }
            filled.await;
        }
    }

    /// What was waiting is on its way: its cost, and the bytes the socket took for it.
    fn written(&self, cost: usize, sent: usize) {
        self.lock().bytes -= cost;
        self.env.metrics.bytes_waiting_now.sub(cost as u64);
        self.env.metrics.bytes_out.add(sent as u64);
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
        self.ended.notify_waiters();
    }

    /// Writes everything to the socket until the session says it is finished or the client is too slow.
    pub async fn write_to(&self, mut socket: Writer, channel: &Mutex<Channel>) {
        let lock = || channel.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(Piece { bytes, is_end }) = self.next().await {
            let mut left = &bytes[..];
            loop {
                let (now, later) = left.split_at(left.len().min(WRITE_BYTES));
                let is_last = later.is_empty();
                let sealed = lock().seal(now, is_end && is_last);
                let cost = Piece { bytes: Vec::new(), is_end: is_end && is_last }.cost() + now.len();
                match tokio::time::timeout(self.env.limits.write_time_max, socket.write_all(&sealed)).await {
                    Ok(Ok(())) => self.written(cost, sealed.len()),
                    Ok(Err(_)) => return self.give_up(false),
                    Err(_) => return self.give_up(true),
                }
                left = later;
                if is_last {
                    break;
                }
            }
        }
        let farewell = lock().farewell();
        // The client may be gone already; there is nobody left to tell.
        let _ = tokio::time::timeout(self.env.limits.write_time_max, socket.write_all(&farewell)).await;
        let _ = socket.shutdown().await;
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let bytes = self.lock().bytes as u64;
        self.env.metrics.bytes_waiting_now.sub(bytes);
    }
}
