//! Cases about the header.
//!
//! In:     a block on the bench.
//! Out:    the header bent, or at the edge.
//! Fails:  never.
//! Source: Core's `CheckBlockHeader`, `ContextualCheckBlockHeader`.

use super::{Case, Craft, broken, valid};

/// The table.
pub const CASES: &[Case] = &[
    valid("untouched", |_| Some(())),
    broken("HighHash", "hash above the target", |craft| {
        craft.miss_target = true;
        Some(())
    }),
    broken("HighHash", "target above the network's limit", |craft| bits(craft, 0x2100_ffff)),
    broken("HighHash", "negative target", |craft| bits(craft, 0x20ff_ffff)),
    broken("HighHash", "target zero", |craft| bits(craft, 0x2000_0000)),
    broken("HighHash", "target past 256 bits", |craft| bits(craft, 0xff12_3456)),
    broken("BadBits", "target a little harder", |craft| bits(craft, 0x207f_fffe)),
    broken("BadBits", "target much harder", |craft| bits(craft, 0x200f_ffff)),
    valid("time one second after the median", |craft| time(craft, craft.median_s + 1)),
    broken("TimeTooOld", "time at the median", |craft| time(craft, craft.median_s)),
    broken("TimeTooOld", "time zero", |craft| time(craft, 0)),
    // The exact edge needs the clock as an argument: see the direct calls in `oracle`.
    broken("TimeTooNew", "time in the year 2106", |craft| time(craft, u32::MAX)),
    valid("version 4", |craft| version(craft, 4)),
    valid("version with the highest positive number", |craft| version(craft, i32::MAX)),
    broken("BadVersion", "version 3", |craft| version(craft, 3)),
    broken("BadVersion", "version 1", |craft| version(craft, 1)),
    broken("BadVersion", "negative version", |craft| version(craft, -1)),
    broken("BadVersion", "lowest version", |craft| version(craft, i32::MIN)),
];

fn bits(craft: &mut Craft<'_>, bits: u32) -> Option<()> {
    craft.header.bits = bits;
    Some(())
}

fn time(craft: &mut Craft<'_>, time_s: u32) -> Option<()> {
    craft.header.time_s = time_s;
    Some(())
}

fn version(craft: &mut Craft<'_>, version: i32) -> Option<()> {
    craft.header.version = version;
    Some(())
}
