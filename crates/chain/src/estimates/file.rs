//! What was learnt, as a file of our own.
//!
//! In:     [`Estimates`], or bytes.
//! Out:    bytes, or what they say.
//! Fails:  [`EstimatesError`] where bytes are not a file of this format and these buckets.
//! Source: our own format; what is kept is what Core keeps in fee_estimates.dat.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | "ASSAYFE" and the version, 1 |
//! | 4, 4, 4 | last height seen, first and last height learnt from |
//! | 4 | number of buckets |
//! | each horizon | counts, sums of feerates, then confirmed and failed for each period: 8 for each bucket |
//! | 8 | checksum of everything before, of `stdx::checksum` |
//!
//! Numbers are little endian, averages IEEE doubles. What is watched is not kept.

use std::fmt;

use stdx::bytes::Reader;
use stdx::checksum::checksum;

use super::Estimates;
use super::horizon::Horizon;

const MAGIC: [u8; 8] = *b"ASSAYFE\x01";

/// Why bytes are not what was learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimatesError {
    /// They begin otherwise: another format, or a newer version.
    Unknown,
    /// They end early, are too long, or their checksum differs.
    Damaged,
    /// Heights or averages contradict each other.
    Contradiction,
}

impl fmt::Display for EstimatesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EstimatesError::Unknown => "the file of fee estimates has a format that this version does not know",
            EstimatesError::Damaged => "the file of fee estimates is damaged",
            EstimatesError::Contradiction => "the file of fee estimates contradicts itself",
        })
    }
}

impl std::error::Error for EstimatesError {}

impl Horizon {
    fn rows(&self) -> impl Iterator<Item = &Vec<f64>> {
        [&self.counts, &self.rates].into_iter().chain(&self.confirmed).chain(&self.failed)
    }

    fn rows_mut(&mut self) -> impl Iterator<Item = &mut Vec<f64>> {
        [&mut self.counts, &mut self.rates].into_iter().chain(&mut self.confirmed).chain(&mut self.failed)
    }
}

impl Estimates {
    /// The file. Of this run and an earlier file's the one that has learnt for longer is said to be its history.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let own = self.span_blocks() > self.history_blocks() / 2;
        let (first, last) = if own { (self.first_height, self.best_height) } else { self.history };
        for number in [self.best_height, first, last, self.buckets.len() as u32] {
            out.extend(number.to_le_bytes());
        }
        for value in self.horizons.iter().flat_map(Horizon::rows).flatten() {
            out.extend(value.to_le_bytes());
        }
        let sum = checksum(0, &out);
        out.extend(sum.to_le_bytes());
        out
    }

    /// Reads a file; what was learnt before is gone.
    pub fn decode(bytes: &[u8]) -> Result<Estimates, EstimatesError> {
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(EstimatesError::Unknown);
        }
        let (body, sum) = bytes.split_last_chunk::<8>().ok_or(EstimatesError::Damaged)?;
        if checksum(0, body) != u64::from_le_bytes(*sum) {
            return Err(EstimatesError::Damaged);
        }
        let mut reader = Reader::new(&body[8..]);
        let mut read = || reader.u32().map_err(|_| EstimatesError::Damaged);
        let (best_height, first, last, buckets) = (read()?, read()?, read()?, read()?);
        let mut estimates = Estimates::default();
        if first > last || last > best_height || buckets as usize != estimates.buckets.len() {
            return Err(EstimatesError::Contradiction);
        }
        for value in estimates.horizons.iter_mut().flat_map(Horizon::rows_mut).flatten() {
            *value = f64::from_bits(reader.u64().map_err(|_| EstimatesError::Damaged)?);
            if !value.is_finite() || *value < 0.0 {
                return Err(EstimatesError::Contradiction);
            }
        }
        if reader.left() > 0 {
            return Err(EstimatesError::Damaged);
        }
        (estimates.best_height, estimates.history) = (best_height, (first, last));
        Ok(estimates)
    }
}
