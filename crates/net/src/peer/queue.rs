//! Bytes that wait for the peer to read them.
//!
//! In:     frames; how many bytes the socket took.
//! Out:    the bytes in front.
//! Fails:  says when too many wait, or when they are taken in drops only.
//!
//! A peer whose queue is above [`SEND_PAUSE_BYTES`] is not read from, so what it asks for cannot grow the queue.

use std::time::Duration;

use crate::moment::Moment;

/// Above this nothing more is read from the peer, in bytes; Core's `-maxsendbuffer`.
pub const SEND_PAUSE_BYTES: usize = 1_000_000;
/// Above this the peer is dropped, in bytes: three of the largest messages.
pub const SEND_BYTES_MAX: usize = 12_000_000;
/// A queue that is never empty for so long ...
const SLOW_WINDOW: Duration = Duration::from_secs(5 * 60);
/// ... has to lose at least so many bytes meanwhile: 200 a second, a tenth of what an old modem took.
const SLOW_BYTES: u64 = 60_000;
const _: () = assert!(SEND_PAUSE_BYTES + crate::wire::limits::PAYLOAD_BYTES_MAX < SEND_BYTES_MAX);

/// The queue of one peer.
#[derive(Debug, Default)]
pub struct SendQueue {
    bytes: Vec<u8>,
    /// Bytes in front that were sent already.
    sent: usize,
    /// When the queue began to be watched, and how much was sent since.
    watch: Option<(Moment, u64)>,
}

impl SendQueue {
    /// Where frames are appended.
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What to send next.
    pub fn front(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Takes note that the socket took `count` bytes of the front.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        assert!(self.sent <= self.bytes.len(), "no more is sent than there is");
        if let Some((_, since)) = &mut self.watch {
            *since += count as u64;
        }
        if self.sent == self.bytes.len() {
            // A queue that was long gives its memory back.
            self.bytes = Vec::new();
            (self.sent, self.watch) = (0, None);
        } else if self.sent > SEND_PAUSE_BYTES {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// True where the peer takes less than it must.
    pub fn is_slow(&mut self, now: Moment) -> bool {
        if self.len() == 0 {
            return false;
        }
        match self.watch {
            Some((start, _)) if now.since(&start) < SLOW_WINDOW => false,
            Some((_, sent)) if sent < SLOW_BYTES => true,
            _ => {
                self.watch = Some((now, 0));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_of_drops_is_slow_and_a_modem_is_not() {
        #[track_caller]
        fn check(bytes_per_s: usize, want: bool) {
            let mut queue = SendQueue::default();
            queue.tail().resize(5_000_000, 0);
            let mut was_slow = false;
            for second in 0..700 {
                was_slow |= queue.is_slow(Moment::default().after(Duration::from_secs(second)));
                queue.advance(bytes_per_s);
            }
            assert_eq!(was_slow, want, "{bytes_per_s} bytes a second");
        }
        check(0, true);
        check(199, true);
        check(201, false);
        check(7_000, false);
    }

    #[test]
    fn bytes_leave_in_order_and_memory_is_given_back() {
        let mut queue = SendQueue::default();
        let all: Vec<u8> = (0..3_000_000u32).map(|n| n as u8).collect();
        queue.tail().extend_from_slice(&all);
        let mut got = Vec::new();
        while queue.len() > 0 {
            let count = queue.front().len().min(70_001);
            got.extend_from_slice(&queue.front()[..count]);
            queue.advance(count);
        }
        assert_eq!(got, all);
        assert_eq!(queue.bytes.capacity(), 0);
    }
}
