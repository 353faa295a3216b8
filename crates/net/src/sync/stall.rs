//! Whether one peer holds up the whole window, and for how long it may.
//!
//! In:     who was asked first for the block that everything waits for, where nothing else can be asked for; blocks that are
//!         connected; the time.
//! Out:    the peer to part with.
//! Fails:  never.
//! Source: Bitcoin Core, `FindNextBlocksToDownload` (`nodeStaller`), `SendMessages` (`m_stalling_since`), `BlockConnected`.
//!
//! A late block is asked of others anyway, so a window stands still only where they fail too. Each parting doubles the
//! patience, or a line that is slow itself would cost all peers one after the other; each block connected takes some back.

use super::window::PeerId;

/// Seconds a window may stand still; Core's `BLOCK_STALLING_TIMEOUT_DEFAULT` and `BLOCK_STALLING_TIMEOUT_MAX`.
const PATIENCE_S_MIN: u64 = 2;
const PATIENCE_S_MAX: u64 = 64;

/// The judge of stallers.
pub(super) struct Stall {
    patience_s: u64,
    /// Who holds up the window, and since when.
    staller: Option<(PeerId, u64)>,
}

impl Default for Stall {
    fn default() -> Stall {
        Stall { patience_s: PATIENCE_S_MIN, staller: None }
    }
}

impl Stall {
    /// Who holds up the window now, none where it moves; `heard_ms` is when a block of his came last. Says who has done so for
    /// too long, and for how many milliseconds.
    pub fn note(&mut self, holder: Option<(PeerId, u64)>, now_ms: u64) -> Option<(PeerId, u64)> {
        let Some((peer, heard_ms)) = holder else {
            self.staller = None;
            return None;
        };
        let before = self.staller.filter(|(staller, since_ms)| *staller == peer && heard_ms <= *since_ms);
        let Some((_, since_ms)) = before else {
            self.staller = Some((peer, now_ms));
            log::debug!(target: "net", "Stall started peer={peer}");
            return None;
        };
        let ms = now_ms.saturating_sub(since_ms);
        if ms <= self.patience_s * 1_000 {
            return None;
        }
        self.staller = None;
        let patience_s = (2 * self.patience_s).min(PATIENCE_S_MAX);
        if patience_s != self.patience_s {
            log::debug!(target: "net", "Increased stalling timeout temporarily to {patience_s} seconds");
            self.patience_s = patience_s;
        }
        Some((peer, ms))
    }

    /// A block was connected.
    pub fn connected(&mut self) {
        if self.patience_s > PATIENCE_S_MIN {
            self.patience_s = (self.patience_s * 85 / 100).max(PATIENCE_S_MIN);
            log::debug!(target: "net", "Decreased stalling timeout to {} seconds", self.patience_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_doubles_with_each_staller_and_comes_back_block_by_block() {
        let mut stall = Stall::default();
        let mut now_ms = 10_000;
        for (peer, patience_ms) in
            [(1, 2_000), (2, 4_000), (3, 8_000), (4, 16_000), (5, 32_000), (6, 64_000), (7, 64_000)]
        {
            let holder = Some((peer, 10_000));
            assert_eq!(stall.note(holder, now_ms), None);
            assert_eq!(stall.note(holder, now_ms + patience_ms), None, "peer {peer}");
            assert_eq!(stall.note(holder, now_ms + patience_ms + 1), Some((peer, patience_ms + 1)));
            now_ms += patience_ms + 1;
        }
        let patience = |stall: &mut Stall| {
            stall.connected();
            stall.patience_s
        };
        let fading: Vec<u64> = (0..20).map(|_| patience(&mut stall)).collect();
        assert_eq!(fading[..6], [54, 45, 38, 32, 27, 22]);
        assert_eq!(fading[13..], [4, 3, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn a_window_that_moves_or_a_peer_that_delivers_begins_anew() {
        let mut stall = Stall::default();
        assert_eq!(stall.note(Some((1, 0)), 1_000), None);
        assert_eq!(stall.note(None, 2_500), None);
        assert_eq!(stall.note(Some((1, 0)), 3_500), None);
        assert_eq!(stall.note(Some((1, 4_000)), 5_600), None, "another block of his came");
        assert_eq!(stall.note(Some((2, 0)), 7_000), None);
        assert_eq!(stall.note(Some((1, 4_000)), 9_100), None, "it was another one meanwhile");
        assert_eq!(stall.note(Some((1, 4_000)), 11_101), Some((1, 2_001)));
    }
}
