//! Rules about headers.
//!
//! In:     a header, its height, the headers before it, the clock, the network.
//! Out:    nothing, or the first rule broken; the target that must come next; median time past; work.
//! Fails:  [`HeaderError`], in Core's order.
//! Source: Bitcoin Core, `validation.cpp` (`CheckBlockHeader`, `ContextualCheckBlockHeader`), `pow.cpp`, BIP 94, 113.

use primitives::{BlockHash, Header, Params};

use crate::errors::HeaderError;
pub use crate::work::{BadCompact, Target, Work};

/// Headers whose times the median is taken of; Core's `nMedianTimeSpan`.
pub const MEDIAN_TIME_SPAN: usize = 11;
/// How far a header's time may be ahead of the clock, in seconds; Core's `MAX_FUTURE_BLOCK_TIME`.
pub const FUTURE_S_MAX: u64 = 2 * 60 * 60;
/// How far the first header of a period may be before its parent, in seconds (BIP 94); Core's `MAX_TIMEWARP`.
pub const TIMEWARP_S_MAX: u32 = 600;

/// The headers before the one that is judged, on its own branch.
pub trait Ancestry {
    /// The ancestor at `height`; asked only for heights below that of the header judged.
    fn header(&self, height: u32) -> Header;
}

/// Headers from height 0 on.
impl Ancestry for [Header] {
    fn header(&self, height: u32) -> Header {
        self[height as usize]
    }
}

/// Headers from height 0 on.
impl Ancestry for Vec<Header> {
    fn header(&self, height: u32) -> Header {
        self[height as usize]
    }
}

/// Judges `header` at `height`; `now_s` is the clock in seconds since 1970. Height 0 has no rules but the hash.
pub fn check(
    header: &Header,
    height: u32,
    ancestry: &dyn Ancestry,
    now_s: u64,
    params: &Params,
) -> Result<(), HeaderError> {
    check_proof_of_work(&header.hash(), header.bits, params)?;
    check_contextual(header, height, ancestry, now_s, params)
}

/// Core's `CheckProofOfWork`: the target is in range, and the hash is not above it.
pub fn check_proof_of_work(hash: &BlockHash, bits: u32, params: &Params) -> Result<(), HeaderError> {
    let limit = Target::from_be_bytes(&params.pow_limit);
    match Target::from_compact(bits) {
        Ok(target) if target <= limit && Target::of_hash(hash) <= target => Ok(()),
        _ => Err(HeaderError::HighHash { hash: *hash, bits }),
    }
}

/// Core's `ContextualCheckBlockHeader`: what follows from the headers before and from the clock.
pub fn check_contextual(
    header: &Header,
    height: u32,
    ancestry: &dyn Ancestry,
    now_s: u64,
    params: &Params,
) -> Result<(), HeaderError> {
    let Some(parent_height) = height.checked_sub(1) else { return Ok(()) };
    let want = next_bits(height, header.time_s, ancestry, params);
    if header.bits != want {
        return Err(HeaderError::BadBits { want, got: header.bits });
    }
    let median_s = median_time_past(parent_height, ancestry);
    if header.time_s <= median_s {
        return Err(HeaderError::TimeTooOld { median_s, got_s: header.time_s });
    }
    if params.bip94 && height.is_multiple_of(params.pow_interval()) {
        let parent_s = ancestry.header(parent_height).time_s;
        if header.time_s < parent_s.saturating_sub(TIMEWARP_S_MAX) {
            return Err(HeaderError::TimeWarp { parent_s, got_s: header.time_s });
        }
    }
    if u64::from(header.time_s) > now_s.saturating_add(FUTURE_S_MAX) {
        return Err(HeaderError::TimeTooNew { now_s, got_s: header.time_s });
    }
    let least = least_version(height, params);
    if header.version < least {
        return Err(HeaderError::BadVersion { least, got: header.version });
    }
    Ok(())
}

/// Least version at `height`: 2 with BIP 34, 3 with BIP 66, 4 with BIP 65; versions are signed, so any below fails.
fn least_version(height: u32, params: &Params) -> i32 {
    let active = [(params.bip65_height, 4), (params.bip66_height, 3), (params.bip34_height, 2)];
    active.into_iter().find(|&(first, _)| height >= first).map_or(i32::MIN, |(_, version)| version)
}

/// The target, in compact form, that a header at `height` with `time_s` must have; `height` is above 0.
///
/// Core: `GetNextWorkRequired`.
pub fn next_bits(height: u32, time_s: u32, ancestry: &dyn Ancestry, params: &Params) -> u32 {
    let interval = params.pow_interval();
    let parent = ancestry.header(height - 1);
    if height.is_multiple_of(interval) {
        return retarget(height, &parent, ancestry, params);
    }
    if !params.pow_allow_min_difficulty {
        return parent.bits;
    }
    let easiest = Target::from_be_bytes(&params.pow_limit).to_compact();
    // Test networks: twenty minutes without a block make the next one easy.
    if u64::from(time_s) > u64::from(parent.time_s) + 2 * u64::from(params.pow_spacing_s) {
        return easiest;
    }
    // Otherwise the target is that of the last block that was not easy, or of the period's first.
    let (mut at, mut bits) = (height - 1, parent.bits);
    while at > 0 && !at.is_multiple_of(interval) && bits == easiest {
        at -= 1;
        bits = ancestry.header(at).bits;
    }
    bits
}

/// The target of a new period from the time the last one took; Core: `CalculateNextWorkRequired`.
///
/// The time is that of 2,015 blocks and not of 2,016, a slip of the first version that is a rule by now.
fn retarget(height: u32, parent: &Header, ancestry: &dyn Ancestry, params: &Params) -> u32 {
    if params.pow_no_retargeting {
        return parent.bits;
    }
    let first = ancestry.header(height - params.pow_interval());
    let wanted_s = i64::from(params.pow_timespan_s);
    let took_s = (i64::from(parent.time_s) - i64::from(first.time_s)).clamp(wanted_s / 4, wanted_s * 4);
    // BIP 94 starts from the period's first block, which cannot be an easy one.
    let from = if params.bip94 { first.bits } else { parent.bits };
    let limit = Target::from_be_bytes(&params.pow_limit);
    let old = Target::from_compact(from).unwrap_or_default();
    old.scaled(took_s as u32, params.pow_timespan_s).min(limit).to_compact()
}

/// Whether a header at `height` may have the target `bits` after one with `parent_bits`, for any times at all.
///
/// Weaker than [`next_bits`], and needs no header before: what can be asked of headers that are not kept.
/// Core: `PermittedDifficultyTransition`.
pub fn is_permitted_transition(height: u32, parent_bits: u32, bits: u32, params: &Params) -> bool {
    if params.pow_allow_min_difficulty {
        return true;
    }
    if !height.is_multiple_of(params.pow_interval()) {
        return parent_bits == bits;
    }
    let limit = Target::from_be_bytes(&params.pow_limit);
    let (old, new) = (Target::from_compact(parent_bits), Target::from_compact(bits));
    let (Ok(old), Ok(new)) = (old, new) else { return false };
    let timespan_s = params.pow_timespan_s;
    // Through the compact form, as the rule itself rounds.
    let bound = |took_s: u32| {
        let bits = old.scaled(took_s, timespan_s).min(limit).to_compact();
        Target::from_compact(bits).unwrap_or_default()
    };
    bound(timespan_s / 4) <= new && new <= bound(timespan_s * 4)
}

/// Median of the times of the header at `height` and up to ten before it; Core: `GetMedianTimePast`.
pub fn median_time_past(height: u32, ancestry: &dyn Ancestry) -> u32 {
    let mut times = [0; MEDIAN_TIME_SPAN];
    let count = MEDIAN_TIME_SPAN.min(height as usize + 1);
    for (back, time_s) in times[..count].iter_mut().enumerate() {
        *time_s = ancestry.header(height - back as u32).time_s;
    }
    median(&mut times[..count])
}

/// The middle of some times, the later one where their number is even. Panics on none.
pub fn median(times_s: &mut [u32]) -> u32 {
    times_s.sort_unstable();
    times_s[times_s.len() / 2]
}

/// Work of a header with these bits; none where the bits are no target (Core: `GetBlockProof`).
pub fn work_of(bits: u32) -> Work {
    Target::from_compact(bits).map_or(Work::ZERO, Target::work)
}
