//! Calls of rows that are all good but for one or two, which is what an engine that adds many rows up must notice.
//!
//! In:     judged rows of all kinds.
//! Out:    [`Slice`]s: runs of the good ones; most with one bad row, or with two whose errors cancel in a plain sum, or
//!         with a wrong hint.
//! Fails:  never.
//! Source: docs/signatures.md, "Trials".

use stdx::random::Random;

use super::Case;
use super::cases::small;
use crate::check::{Check, Hint};
use crate::number::order::Scalar;
use crate::scalar::verify_one;

/// Most rows of a slice, one of these for each: below, around and above what engines take at once.
const ROWS_MOST: [u64; 4] = [8, 40, 200, 700];

/// Rows for one call of an engine.
pub struct Slice {
    /// The rows, judged.
    pub cases: Vec<Case>,
    /// Where each stood in the call it comes from; none for a row that was changed.
    origins: Vec<Option<usize>>,
    /// Whose hint is made wrong.
    wrong_hint: Option<usize>,
}

impl Slice {
    /// Cuts the good ones of `cases` into slices, and spoils most.
    pub fn cut(cases: &[Case], random: &mut Random) -> Vec<Slice> {
        let of = |good: bool| -> Vec<usize> { (0..cases.len()).filter(|&row| cases[row].good == good).collect() };
        let (good, bad) = (of(true), of(false));
        let mut slices = Vec::new();
        let mut left = &good[..];
        while !left.is_empty() {
            let most = ROWS_MOST[random.below(ROWS_MOST.len() as u64) as usize];
            let (taken, rest) = left.split_at((1 + random.below(most) as usize).min(left.len()));
            let mut slice = Slice {
                cases: taken.iter().map(|&row| cases[row]).collect(),
                origins: taken.iter().map(|&row| Some(row)).collect(),
                wrong_hint: None,
            };
            slice.spoil(cases, &bad, random);
            slices.push(slice);
            left = rest;
        }
        slices
    }

    fn spoil(&mut self, cases: &[Case], bad: &[usize], random: &mut Random) {
        let place = random.below(self.cases.len() as u64) as usize;
        match random.below(4) {
            0 => {}
            1 => self.wrong_hint = Some(place),
            2 if !bad.is_empty() => {
                let row = bad[random.below(bad.len() as u64) as usize];
                (self.cases[place], self.origins[place]) = (cases[row], Some(row));
            }
            _ => {
                // d G is added to one row's sum and taken from another's: their plain sum stays what it was.
                let other = random.below(self.cases.len() as u64) as usize;
                let d = match random.below(3) {
                    0 => small(1),
                    1 => Scalar::from_bytes_reduced(&random.bytes()),
                    _ => small(random.next_u64() as i64 >> 1),
                };
                self.shift(place, d);
                if other != place {
                    self.shift(other, d.negate());
                }
            }
        }
    }

    /// Adds `d` to u1 of a row.
    fn shift(&mut self, row: usize, d: Scalar) {
        let case = &mut self.cases[row];
        match &mut case.check {
            Check::Ecdsa { signature, message, .. } => {
                let s = Scalar::from_bytes_reduced(signature.last_chunk().expect("64 bytes"));
                *message = Scalar::from_bytes_reduced(message).plus(d.times(s)).to_bytes();
            }
            Check::Schnorr { signature, .. } => {
                let s = signature.last_chunk_mut().expect("64 bytes");
                *s = Scalar::from_bytes_reduced(s).plus(d).to_bytes();
            }
        }
        case.good = verify_one(&case.check);
        self.origins[row] = None;
    }

    /// What an engine that learnt `learnt` about the whole call is told about these rows.
    pub fn hints(&self, learnt: &[Hint]) -> Vec<Hint> {
        let known = |origin: &Option<usize>| origin.map_or(Hint::Unknown, |row| learnt[row]);
        let mut hints: Vec<Hint> = self.origins.iter().map(known).collect();
        if let Some(row) = self.wrong_hint {
            hints[row] = match hints[row] {
                Hint::Odd => Hint::Even,
                Hint::Even | Hint::Unknown => Hint::Odd,
            };
        }
        // A changed row keeps its R: a guess is right for half of them.
        for (row, hint) in hints.iter_mut().enumerate().filter(|(row, _)| self.origins[*row].is_none()) {
            *hint = if row % 2 == 0 { Hint::Even } else { Hint::Odd };
        }
        hints
    }
}
