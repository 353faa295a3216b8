//! Engines against libsecp256k1 on made-up signatures, many of them made to be hard.
//!
//! In:     engines, a number of cases, a seed.
//! Out:    what was compared: cases by kind, how many were good, how many each engine proved.
//! Fails:  with the first row on which an engine and libsecp256k1 differ, and how to make it again.
//! Source: docs/signatures.md, "Trials". The same seed gives the same cases, forever.
//!
//! libsecp256k1 judges each case once, 30 us. Each engine then proves the same rows three times over: all kinds in one
//! call, where it learns hints; slices of good rows with one or two spoilt ([`slices`]), with those hints; and, of every
//! sixteenth call, [`Engine::verify`], where it asks libsecp256k1 about the rest itself.

mod cases;
mod meeting;
mod slices;

use std::fmt;

use stdx::random::Random;

use crate::check::{Check, Hint};
use crate::engine::Engine;
use crate::scalar::verify_one;
use cases::Maker;
use slices::Slice;

/// Rows of one call: several chunks of an engine and a part of one.
const CALL_ROWS: u64 = 700;
/// One call of so many is verified too, beside being proved.
const VERIFIED_ONE_IN: u64 = 16;

/// What a case is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A good ECDSA signature: any form of key, either sign of s.
    Ecdsa,
    /// A good BIP 340 signature.
    Schnorr,
    /// One of the two with a bit changed, or a number replaced by one at the edge of its range.
    Corrupted,
    /// u1, u2 and the secret are small: equal points, doubles and infinity come up.
    Small,
    /// x(R) is at or above n, so that r is x(R) - n.
    Wrapped,
    /// R is the point at infinity.
    Infinity,
    /// A key that is no point of the curve, or whose y is another's.
    OffCurve,
    /// BIP 340 with an R whose y is odd.
    OddNonce,
    /// A good signature for which an addition inside the lanes meets an equal or an opposite point.
    Exception,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 9] = [
        Kind::Ecdsa,
        Kind::Schnorr,
        Kind::Corrupted,
        Kind::Small,
        Kind::Wrapped,
        Kind::Infinity,
        Kind::OffCurve,
        Kind::OddNonce,
        Kind::Exception,
    ];

    /// Of 64 cases, how many are of this kind.
    fn share(self) -> u64 {
        match self {
            Kind::Ecdsa | Kind::Schnorr => 14,
            Kind::Corrupted => 20,
            Kind::Small => 6,
            Kind::Wrapped | Kind::Infinity | Kind::OddNonce => 2,
            Kind::OffCurve => 3,
            Kind::Exception => 1,
        }
    }
}

/// Numbers by kind, in the order of [`Kind::ALL`].
pub type ByKind = [u64; Kind::ALL.len()];

/// What was compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Cases of each kind.
    pub cases: ByKind,
    /// How many of them were good signatures.
    pub good: ByKind,
    /// Good rows that a vector engine has no excuse to leave open: of kinds `Ecdsa` and `Schnorr`, no hybrid key.
    pub ordinary: u64,
    /// What each engine did, in the order they were given.
    pub engines: Vec<Proofs>,
}

/// What one engine did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proofs {
    /// Its name.
    pub engine: &'static str,
    /// Cases proved in calls of all kinds.
    pub proved: ByKind,
    /// Of the ordinary ones.
    pub ordinary: u64,
    /// Cases whose verdict was asked for too.
    pub verified: u64,
    /// Calls of good rows but for one or two.
    pub slices: u64,
    /// Rows in them.
    pub sliced: u64,
    /// Bad ones among those.
    pub sliced_bad: u64,
    /// Rows proved there.
    pub sliced_proved: u64,
}

impl Report {
    /// Adds what another seed gave the same engines.
    pub fn add(&mut self, other: &Report) {
        fn sum(mine: &mut ByKind, others: &ByKind) {
            mine.iter_mut().zip(others).for_each(|(mine, other)| *mine += other);
        }
        sum(&mut self.cases, &other.cases);
        sum(&mut self.good, &other.good);
        self.ordinary += other.ordinary;
        self.engines.resize(other.engines.len(), Proofs::default());
        for (mine, other) in self.engines.iter_mut().zip(&other.engines) {
            mine.engine = other.engine;
            sum(&mut mine.proved, &other.proved);
            mine.ordinary += other.ordinary;
            mine.verified += other.verified;
            mine.slices += other.slices;
            mine.sliced += other.sliced;
            mine.sliced_bad += other.sliced_bad;
            mine.sliced_proved += other.sliced_proved;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |numbers: &ByKind| numbers.iter().sum::<u64>();
        write!(f, "cases={} good={} ordinary={}", sum(&self.cases), sum(&self.good), self.ordinary)?;
        for (kind, (cases, good)) in Kind::ALL.iter().zip(self.cases.iter().zip(&self.good)) {
            write!(f, " {kind:?}={good}/{cases}")?;
        }
        for proofs in &self.engines {
            let Proofs { engine, proved, ordinary, verified, slices, sliced, sliced_bad, sliced_proved } = proofs;
            write!(
                f,
                "\nengine={engine} proved={} ordinary={ordinary} verified={verified} slices={slices} sliced={sliced} \
                 sliced_bad={sliced_bad} sliced_proved={sliced_proved}",
                sum(proved)
            )?;
        }
        Ok(())
    }
}

/// The first row on which an engine and libsecp256k1 differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The engine's name.
    pub engine: &'static str,
    /// What was asked of it: `prove`, `verify`, or `slice`, a proof among rows that are nearly all good.
    pub asked: &'static str,
    /// What the case was made for.
    pub kind: Kind,
    /// Its number; the seed makes it again.
    pub case: u64,
    /// The row.
    pub check: Check,
    /// libsecp256k1's verdict; the engine's is the other one.
    pub good: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { engine, asked, kind, case, check, good } = self;
        write!(
            f,
            "case {case} ({kind:?}): libsecp256k1 says {good}, engine {engine} the contrary ({asked}): {check:x?}"
        )
    }
}

impl std::error::Error for Difference {}

/// A row that libsecp256k1 has judged.
#[derive(Clone, Copy)]
struct Case {
    number: u64,
    kind: Kind,
    check: Check,
    good: bool,
}

impl Case {
    fn is_ordinary(&self) -> bool {
        let hybrid = matches!(&self.check, Check::Ecdsa { key, .. } if matches!(key.as_slice()[0], 6 | 7));
        self.good && matches!(self.kind, Kind::Ecdsa | Kind::Schnorr) && !hybrid
    }

    fn differs(&self, engine: &dyn Engine, asked: &'static str) -> Difference {
        let Case { number, kind, check, good } = *self;
        Difference { engine: engine.name(), asked, kind, case: number, check, good }
    }
}

/// Compares `engines` with libsecp256k1 on `cases` rows of all kinds.
pub fn fuzz(engines: &[&dyn Engine], cases: u64, seed: u64) -> Result<Report, Difference> {
    let mut maker = Maker::new(seed);
    // A stream of its own: how rows are cut into slices may change, the cases may not.
    let mut arranger = Random::new(!seed);
    let mut report = Report::default();
    let proofs = |engine: &&dyn Engine| Proofs { engine: engine.name(), ..Proofs::default() };
    report.engines = engines.iter().map(proofs).collect();
    for (call, first) in (0..cases).step_by(CALL_ROWS as usize).enumerate() {
        let rows: Vec<Case> = (first..cases.min(first + CALL_ROWS)).map(|number| judged(&mut maker, number)).collect();
        for case in &rows {
            report.cases[case.kind as usize] += 1;
            report.good[case.kind as usize] += u64::from(case.good);
            report.ordinary += u64::from(case.is_ordinary());
        }
        let slices = Slice::cut(&rows, &mut arranger);
        // What one engine learns, those after it are told: not every engine learns.
        let mut learnt = vec![Hint::Unknown; rows.len()];
        for (engine, proofs) in engines.iter().zip(&mut report.engines) {
            compare_proof(*engine, &rows, &mut learnt, proofs)?;
            for slice in &slices {
                compare_slice(*engine, slice, &learnt, proofs)?;
            }
            if call as u64 % VERIFIED_ONE_IN == 0 {
                compare_verdicts(*engine, &rows, proofs)?;
            }
        }
    }
    Ok(report)
}

fn judged(maker: &mut Maker, number: u64) -> Case {
    let kind = maker.kind();
    let check = maker.check(kind);
    Case { number, kind, check, good: verify_one(&check) }
}

fn checks_of(cases: &[Case]) -> Vec<Check> {
    cases.iter().map(|case| case.check).collect()
}

/// Proves rows of all kinds; adds the hints learnt.
fn compare_proof(
    engine: &dyn Engine,
    cases: &[Case],
    learnt: &mut [Hint],
    proofs: &mut Proofs,
) -> Result<(), Difference> {
    let (mut hints, mut proved) = (vec![Hint::Unknown; cases.len()], vec![false; cases.len()]);
    engine.prove(&checks_of(cases), &mut hints, &mut proved);
    for (case, _) in cases.iter().zip(proved).filter(|(_, proved)| *proved) {
        if !case.good {
            return Err(case.differs(engine, "prove"));
        }
        proofs.proved[case.kind as usize] += 1;
        proofs.ordinary += u64::from(case.is_ordinary());
    }
    for (known, hint) in learnt.iter_mut().zip(hints).filter(|(_, hint)| *hint != Hint::Unknown) {
        *known = hint;
    }
    Ok(())
}

fn compare_slice(engine: &dyn Engine, slice: &Slice, learnt: &[Hint], proofs: &mut Proofs) -> Result<(), Difference> {
    let (mut hints, mut proved) = (slice.hints(learnt), vec![false; slice.cases.len()]);
    engine.prove(&checks_of(&slice.cases), &mut hints, &mut proved);
    proofs.slices += 1;
    for (case, proved) in slice.cases.iter().zip(proved) {
        if proved && !case.good {
            return Err(case.differs(engine, "slice"));
        }
        proofs.sliced += 1;
        proofs.sliced_bad += u64::from(!case.good);
        proofs.sliced_proved += u64::from(proved);
    }
    Ok(())
}

fn compare_verdicts(engine: &dyn Engine, cases: &[Case], proofs: &mut Proofs) -> Result<(), Difference> {
    let mut verdicts = vec![false; cases.len()];
    engine.verify(&checks_of(cases), &mut verdicts);
    proofs.verified += cases.len() as u64;
    match cases.iter().zip(verdicts).find(|(case, verdict)| case.good != *verdict) {
        Some((case, _)) => Err(case.differs(engine, "verify")),
        None => Ok(()),
    }
}

/// The first `count` cases of a seed.
pub fn fuzz_checks(seed: u64, count: u64) -> Vec<(Kind, Check)> {
    let mut maker = Maker::new(seed);
    let case = |_| {
        let kind = maker.kind();
        (kind, maker.check(kind))
    };
    (0..count).map(case).collect()
}
