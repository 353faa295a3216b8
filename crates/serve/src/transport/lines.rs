//! Cutting a stream of bytes into lines, with a bound on what is kept.
//!
//! In:     bytes as they arrive.
//! Out:    whole lines without their newline.
//! Fails:  [`Refusal::TooLong`] as soon as a line exceeds its bound or all sessions together exceed theirs.

use super::Refusal;
use super::room::Room;

/// Bytes of one session that are no whole line yet.
pub struct Lines {
    room: Room,
    bytes: Vec<u8>,
    /// Start of the line under way.
    start: usize,
    /// No newline lies between `start` and here.
    scanned: usize,
}

impl Lines {
    /// Nothing read yet.
    pub fn new(room: Room) -> Lines {
        Lines { room, bytes: Vec::new(), start: 0, scanned: 0 }
    }

    /// Takes bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
        self.room.hold(self.bytes.capacity());
    }

    /// The next whole line; none where there is only a part of one.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        let newline = self.bytes[self.scanned..].iter().position(|byte| *byte == b'\n');
        let Some(offset) = newline else {
            self.scanned = self.bytes.len();
            let too_long = self.room.is_too_long(self.bytes.len() - self.start);
            return if too_long { Err(Refusal::TooLong) } else { Ok(None) };
        };
        let end = self.scanned + offset;
        if end - self.start > self.room.limits().message_bytes_max {
            return Err(Refusal::TooLong);
        }
        let line = self.bytes[self.start..end].to_vec();
        self.start = end + 1;
        self.scanned = self.start;
        if self.start == self.bytes.len() {
            // A long line's room is given back, a short one's kept for the next.
            self.bytes.clear();
            self.bytes.shrink_to(self.room.limits().own_bytes);
            (self.start, self.scanned) = (0, 0);
        }
        self.room.hold(self.bytes.capacity());
        Ok(Some(line))
    }

    /// True while a line has begun and not ended.
    pub fn is_partial(&self) -> bool {
        self.bytes.len() > self.start
    }
}
