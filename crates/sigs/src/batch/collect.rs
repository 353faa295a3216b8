//! Many sums at once, each of any number of points.
//!
//! In:     terms, each for one of many places.
//! Out:    one term for each place that got any: their sum.
//! Fails:  where two points to be added have the same x.
//! Source: docs/signatures.md, "Batches", "Buckets". Who comes second to a place pairs up with who waits there; the pairs of
//!         all places are added in one call, and their sums come to the places in turn.

use super::curve::{Curve, Point, Term};

/// Terms by place.
#[derive(Default)]
pub struct Collector {
    /// Who waits at each place, or [`NOBODY`].
    waiting: Vec<Term>,
    /// The first `count` are pairs; what stands behind them has no meaning.
    pairs: Vec<[Term; 2]>,
    /// The place of each pair.
    places: Vec<u32>,
    count: usize,
}

/// No term: an arena does not get that large.
const NOBODY: Term = Term::LAST;

impl Collector {
    /// Forgets everything and makes so many places.
    pub fn start(&mut self, places: usize) {
        self.waiting.clear();
        self.waiting.resize(places, NOBODY);
        self.count = 0;
    }

    /// Makes room for so many terms more.
    pub fn reserve(&mut self, terms: usize) {
        // One more, because a pair is written before it is known whether it is one.
        let most = self.count + terms + 1;
        if self.pairs.len() < most {
            self.pairs.resize(most, [NOBODY; 2]);
            self.places.resize(most, 0);
        }
    }

    /// One more term for a place. Pre: [`Collector::reserve`] made room.
    ///
    /// Without a branch: whether somebody waits is as good as random, and a wrong guess costs more than all of this.
    #[inline(always)]
    pub fn put(&mut self, place: usize, term: Term) {
        let other = self.waiting[place];
        let meets = other != NOBODY;
        self.pairs[self.count] = [other, term];
        self.places[self.count] = place as u32;
        self.waiting[place] = if meets { NOBODY } else { term };
        self.count += usize::from(meets);
    }

    /// Takes what waits at a place.
    #[inline(always)]
    pub fn take(&mut self, place: usize) -> Option<Term> {
        let term = std::mem::replace(&mut self.waiting[place], NOBODY);
        (term != NOBODY).then_some(term)
    }

    /// Adds the pairs there are and puts the sums to their places, which may make new pairs.
    #[must_use]
    pub fn add<C: Curve>(&mut self, curve: &mut C, points: &mut Vec<Point>) -> bool {
        let (first, count) = (points.len(), self.count);
        if !curve.add_pairs(&self.pairs[..count], points) {
            return false;
        }
        assert_eq!(points.len(), first + count, "a sum for each pair");
        // New pairs are fewer than half of those read so far, so they overwrite none unread.
        self.count = 0;
        for number in 0..count {
            self.put(self.places[number] as usize, Term::new(first + number, false));
        }
        true
    }

    /// Adds until no place has two terms.
    #[must_use]
    pub fn settle<C: Curve>(&mut self, curve: &mut C, points: &mut Vec<Point>) -> bool {
        while self.count > 0 {
            if !self.add(curve, points) {
                return false;
            }
        }
        true
    }
}
