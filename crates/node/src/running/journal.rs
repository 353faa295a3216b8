//! What is worth a line of the log: changes of the writer's status since the last look.
//!
//! In:     the status, many times a second.
//! Out:    lines: a new phase, a new tip while following, a refused block, an odd block file.
//! Fails:  never.

use chain::{Phase, Status};
use primitives::hash::BlockHash;

use super::log;

/// What has been said already.
#[derive(Debug, Default)]
pub struct Journal {
    phase: Option<Phase>,
    tip: Option<BlockHash>,
    refused: Option<BlockHash>,
    notes: usize,
    hints_off: bool,
    filters_off: bool,
    disconnected: u64,
    commits: u64,
}

impl Journal {
    /// Says what is new.
    pub fn look(&mut self, status: &Status) {
        if self.phase != Some(status.phase) {
            self.phase = Some(status.phase);
            let fields: log::Fields = &[("height", &status.height), ("headers", &status.headers_height)];
            log::info("chain", status.phase.name(), fields);
        }
        if status.commits != self.commits {
            self.commits = status.commits;
            let fields: log::Fields = &[("height", &status.committed_height), ("stored_bytes", &status.stored_bytes)];
            log::debug("chain", "commit", fields);
        }
        if status.disconnected > self.disconnected {
            let blocks = status.disconnected - self.disconnected;
            log::warn("chain", "reorganised", &[("blocks_disconnected", &blocks), ("height", &status.height)]);
            self.disconnected = status.disconnected;
        }
        if status.phase == Phase::Following && self.tip != Some(status.hash) {
            self.tip = Some(status.hash);
            log::info(
                "chain",
                "tip",
                &[("height", &status.height), ("hash", &status.hash), ("time_s", &status.time_s)],
            );
        }
        if let Some((height, hash, why)) = &status.refused
            && self.refused != Some(*hash)
        {
            self.refused = Some(*hash);
            log::warn("chain", "refused", &[("height", height), ("hash", hash), ("why", why)]);
        }
        if let Some(why) = &status.hints_off
            && !std::mem::replace(&mut self.hints_off, true)
        {
            log::warn("chain", "hints are not kept", &[("why", why)]);
        }
        if let Some(why) = &status.filters.problem
            && !std::mem::replace(&mut self.filters_off, true)
        {
            log::warn("chain", "block filters are not built", &[("why", why)]);
        }
        for note in status.notes.iter().skip(self.notes) {
            log::warn("chain", "block files", &[("note", note)]);
        }
        self.notes = self.notes.max(status.notes.len());
    }
}
