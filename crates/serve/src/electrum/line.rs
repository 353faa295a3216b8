//! Cutting a stream of bytes into lines, with a bound on what is kept.
//!
//! In:     bytes as they arrive.
//! Out:    whole lines without their newline.
//! Fails:  [`TooLong`] as soon as a line exceeds its bound or all sessions together exceed theirs.

use std::sync::Arc;

use super::Env;

/// The line will not be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Bytes of one session that are no whole line yet.
pub struct Lines {
    env: Arc<Env>,
    bytes: Vec<u8>,
    /// Start of the line under way.
    start: usize,
    /// No newline lies between `start` and here.
    scanned: usize,
    counted: u64,
}

impl Lines {
    /// Nothing read yet.
    pub fn new(env: Arc<Env>) -> Lines {
        Lines { env, bytes: Vec::new(), start: 0, scanned: 0, counted: 0 }
    }

    /// Takes bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
        self.recount();
    }

    /// The next whole line; none where there is only a part of one.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let max = self.env.limits.line_bytes_max;
        let newline = self.bytes[self.scanned..].iter().position(|byte| *byte == b'\n');
        let Some(offset) = newline else {
            self.scanned = self.bytes.len();
            let length = self.bytes.len() - self.start;
            let shared = self.env.metrics.line_bytes_now.get() > self.env.limits.line_bytes_shared_max as u64;
            let too_long = length > max || (shared && length > self.env.limits.line_bytes_own);
            return if too_long { Err(TooLong) } else { Ok(None) };
        };
        let end = self.scanned + offset;
        if end - self.start > max {
            return Err(TooLong);
        }
        let line = self.bytes[self.start..end].to_vec();
        self.start = end + 1;
        self.scanned = self.start;
        if self.start == self.bytes.len() {
            // A long line's room is given back, a short one's kept for the next.
            self.bytes.clear();
            self.bytes.shrink_to(self.env.limits.line_bytes_own);
            (self.start, self.scanned) = (0, 0);
        }
        self.recount();
        Ok(Some(line))
    }

    /// True while a line has begun and not ended.
    pub fn is_partial(&self) -> bool {
        self.bytes.len() > self.start
    }

    /// Counts only what is above each session's own share.
    fn recount(&mut self) {
        let now = self.bytes.capacity().saturating_sub(self.env.limits.line_bytes_own) as u64;
        self.env.metrics.line_bytes_now.add(now);
        self.env.metrics.line_bytes_now.sub(self.counted);
        self.counted = now;
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.env.metrics.line_bytes_now.sub(self.counted);
    }
}
