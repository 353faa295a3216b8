//! What waits for one subscriber.
//!
//! In:     subscriptions; messages with their topics and high-water marks.
//! Out:    messages that match, in order.
//! Fails:  never: what comes while too much waits is dropped for this subscriber, as libzmq's PUB sockets do; its numbers
//!         show the gap.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Subscriptions of one subscriber; there are five topics.
pub const SUBSCRIPTIONS_MAX: usize = 100;
/// Bytes that wait for one subscriber, besides its high-water marks: 16 of the largest blocks.
pub const WAITING_BYTES_MAX: usize = 64_000_000;

#[derive(Default)]
struct Inner {
    prefixes: Vec<Vec<u8>>,
    messages: VecDeque<Arc<[u8]>>,
    bytes: usize,
    dropped: u64,
}

/// The queue of one subscriber.
#[derive(Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    came: Notify,
}

impl Queue {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a prefix. False: there are too many.
    pub fn subscribe(&self, prefix: Vec<u8>) -> bool {
        let mut inner = self.inner();
        let room = inner.prefixes.len() < SUBSCRIPTIONS_MAX;
        if room {
            inner.prefixes.push(prefix);
        }
        room
    }

    /// Takes back one subscription to a prefix.
    pub fn cancel(&self, prefix: &[u8]) {
        let mut inner = self.inner();
        if let Some(at) = inner.prefixes.iter().position(|known| known == prefix) {
            inner.prefixes.swap_remove(at);
        }
    }

    /// Appends a message of `topic`, if it is wanted and fewer than `high_water_mark` wait.
    pub fn push(&self, topic: &str, message: &Arc<[u8]>, high_water_mark: usize) {
        let mut inner = self.inner();
        if !inner.prefixes.iter().any(|prefix| topic.as_bytes().starts_with(prefix)) {
            return;
        }
        // A message larger than the limit still goes to a subscriber for whom nothing waits.
        let too_large = inner.bytes > 0 && inner.bytes + message.len() > WAITING_BYTES_MAX;
        if inner.messages.len() >= high_water_mark || too_large {
            inner.dropped += 1;
            return;
        }
        inner.bytes += message.len();
        inner.messages.push_back(message.clone());
        drop(inner);
        self.came.notify_one();
    }

    /// The next message, once there is one.
    pub async fn next(&self) -> Arc<[u8]> {
        loop {
            if let Some(message) = self.try_next() {
                return message;
            }
            self.came.notified().await;
        }
    }

    fn try_next(&self) -> Option<Arc<[u8]>> {
        let mut inner = self.inner();
        let message = inner.messages.pop_front()?;
        inner.bytes -= message.len();
        Some(message)
    }

    /// Messages dropped so far.
    pub fn dropped(&self) -> u64 {
        self.inner().dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> Arc<[u8]> {
        vec![0; length].into()
    }

    #[test]
    fn only_what_is_wanted_waits() {
        let queue = Queue::default();
        queue.push("rawtx", &message(1), 9);
        assert!(queue.try_next().is_none());
        assert!(queue.subscribe(b"raw".to_vec()) && queue.subscribe(b"raw".to_vec()));
        for topic in ["rawtx", "rawblock", "hashtx", "ra"] {
            queue.push(topic, &message(1), 9);
        }
        assert_eq!(std::iter::from_fn(|| queue.try_next()).count(), 2);
        queue.cancel(b"raw");
        queue.cancel(b"other");
        queue.push("rawtx", &message(1), 9);
        assert!(queue.try_next().is_some(), "one of two subscriptions is left");
        queue.cancel(b"raw");
        queue.push("rawtx", &message(1), 9);
        assert!(queue.try_next().is_none());
        assert!(queue.subscribe(Vec::new()));
        queue.push("sequence", &message(1), 9);
        assert!(queue.try_next().is_some(), "the empty prefix wants everything");
        (1..SUBSCRIPTIONS_MAX).for_each(|_| assert!(queue.subscribe(b"x".to_vec())));
        assert!(!queue.subscribe(b"x".to_vec()));
    }

    #[test]
    fn beyond_the_marks_messages_are_dropped() {
        let queue = Queue::default();
        assert!(queue.subscribe(Vec::new()));
        (0..5).for_each(|_| queue.push("hashtx", &message(40), 3));
        assert_eq!(queue.dropped(), 2);
        queue.push("rawtx", &message(40), 4);
        queue.push("hashtx", &message(40), 3);
        assert_eq!((std::iter::from_fn(|| queue.try_next()).count(), queue.dropped()), (4, 3));
        // Bytes count too, but for a first message.
        queue.push("rawblock", &message(WAITING_BYTES_MAX + 1), 9);
        queue.push("hashtx", &message(1), 9);
        assert_eq!(queue.dropped(), 4);
        assert!(queue.try_next().is_some());
        queue.push("rawblock", &message(WAITING_BYTES_MAX - 1), 9);
        queue.push("hashtx", &message(1), 9);
        queue.push("hashtx", &message(1), 9);
        assert_eq!(queue.dropped(), 5);
    }
}
