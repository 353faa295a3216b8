//! The bound on bytes of messages that have begun and not ended, over all sessions.
//!
//! In:     how much one session holds.
//! Out:    whether that is too much.
//! Fails:  never.

use std::sync::Arc;

use crate::metrics::Metrics;

/// Bounds on unfinished messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomLimits {
    /// Bytes of one message.
    pub message_bytes_max: usize,
    /// Bytes that each session may hold whatever the others do.
    pub own_bytes: usize,
    /// Bytes above that, over all sessions.
    pub shared_bytes_max: usize,
}

/// What one session holds of it.
pub struct Room {
    metrics: Arc<Metrics>,
    limits: RoomLimits,
    counted: u64,
}

impl Room {
    /// Holding nothing.
    pub fn new(metrics: Arc<Metrics>, limits: RoomLimits) -> Room {
        Room { metrics, limits, counted: 0 }
    }

    /// The bounds.
    pub fn limits(&self) -> &RoomLimits {
        &self.limits
    }

    /// The session holds buffers of this size now; counts what is above its own share.
    pub fn hold(&mut self, capacity: usize) {
        let now = capacity.saturating_sub(self.limits.own_bytes) as u64;
        if now != self.counted {
            self.metrics.line_bytes_now.add(now);
            self.metrics.line_bytes_now.sub(self.counted);
            self.counted = now;
        }
    }

    /// True where an unfinished message of this length will not be read to its end.
    pub fn is_too_long(&self, length: usize) -> bool {
        let crowded = self.metrics.line_bytes_now.get() > self.limits.shared_bytes_max as u64;
        length > self.limits.message_bytes_max || (crowded && length > self.limits.own_bytes)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.metrics.line_bytes_now.sub(self.counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_share_and_all_together_the_other() {
        let metrics = Arc::new(Metrics::new([]));
        let limits = RoomLimits { message_bytes_max: 100, own_bytes: 10, shared_bytes_max: 50 };
        let (mut one, mut two) = (Room::new(metrics.clone(), limits), Room::new(metrics.clone(), limits));
        one.hold(10);
        assert_eq!(metrics.line_bytes_now.get(), 0);
        one.hold(60);
        assert!(!one.is_too_long(100) && one.is_too_long(101));
        two.hold(11);
        assert_eq!(metrics.line_bytes_now.get(), 51);
        assert!(!two.is_too_long(10) && two.is_too_long(11), "one byte above what all may have");
        drop(one);
        assert!(!two.is_too_long(11));
        drop(two);
        assert_eq!(metrics.line_bytes_now.get(), 0);
    }
}
