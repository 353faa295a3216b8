//! Every engine against libsecp256k1 on made-up signatures.
//!
//! In:     two seeds; ASSAY_FUZZ_CASES says how many cases each (default 500,000), ASSAY_FUZZ_SEED where they start.
//! Out:    what was compared, printed.
//! Fails:  where an engine's verdict differs, with the row.
//! Source: `sigs::fuzz`; `assay bench fuzz` is the same for 10^8 cases.

use std::sync::Arc;

use sigs::{Check, Engine, EngineError, EngineName, Kind, Report, eager_batch, eager_portable_batch, engine, fuzz};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn lanes() -> Option<Arc<dyn Engine>> {
    match engine(EngineName::Lanes) {
        Ok(engine) => Some(engine),
        Err(error) => {
            assert_eq!(error, EngineError::NoIfma);
            println!("skipped: {error}");
            None
        }
    }
}

/// All engines there are but `auto`, which is one of the others, and `scalar`, which is the judge. The batch engine is the
/// one that no failure puts off: three quarters of the slices are spoilt.
fn engines() -> Vec<Arc<dyn Engine>> {
    [engine(EngineName::Lanes), eager_batch()].into_iter().filter_map(|engine| engine.ok()).collect()
}

#[test]
fn engines_agree_with_libsecp256k1() {
    let engines = engines();
    let engines: Vec<&dyn Engine> = engines.iter().map(|engine| &**engine).collect();
    if engines.is_empty() {
        return println!("skipped: this processor runs no engine but scalar, which is the judge");
    }
    let (cases, seed) = (number("ASSAY_FUZZ_CASES", 500_000), number("ASSAY_FUZZ_SEED", 1));
    let run = |seed| fuzz(&engines, cases, seed).unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
    let mut report = Report::default();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(seed + 1));
        report.add(&run(seed));
        report.add(&other.join().expect("its panic has been printed"));
    });
    println!("{report}");
    for kind in [Kind::Infinity, Kind::OddNonce] {
        assert_eq!(report.good[kind as usize], 0, "{kind:?} is never good");
    }
    for kind in [Kind::Exception, Kind::Ecdsa, Kind::Schnorr, Kind::Small] {
        assert_eq!(report.good[kind as usize], report.cases[kind as usize], "{kind:?} is always good");
    }
    for (proofs, engine) in report.engines.iter().zip(&engines) {
        let counters = engine.counters();
        println!("{counters:?}");
        let spoilt = proofs.sliced_bad as f64 / proofs.slices as f64;
        assert!((0.6..0.9).contains(&spoilt), "{spoilt} bad rows a slice");
        assert!(counters.audits > counters.lanes / 512, "{counters:?}");
    }
    if let Some(number) = report.engines.iter().position(|proofs| proofs.engine == "batch") {
        let counters = engines[number].counters();
        let proved = counters.batches - counters.failed_batches;
        assert!(proved > report.engines[number].slices / 6, "a quarter of the slices is good: {counters:?}");
        assert!(counters.failed_batches > report.engines[number].slices / 3, "{counters:?}");
    }
    if let Some(lanes) = report.engines.iter().find(|proofs| proofs.engine == "lanes") {
        assert_eq!(lanes.ordinary, report.ordinary, "the lanes have no excuse to leave one of these open");
        assert_eq!(lanes.proved[Kind::Exception as usize], 0, "no exception may be accepted by the lanes");
        let good = report.good.iter().sum::<u64>();
        assert!(lanes.proved.iter().sum::<u64>() > good * 9 / 10, "{report}");
    }
}

/// The batches of processors without vectors: what they do not prove costs libsecp256k1, so a tenth of the cases.
#[test]
fn portable_batches_agree_with_libsecp256k1() {
    let learner = eager_batch().expect("batches need no vector");
    let portable = eager_portable_batch().expect("batches need no vector");
    let (cases, seed) = (number("ASSAY_FUZZ_CASES", 500_000) / 10, number("ASSAY_FUZZ_SEED", 1) + 2);
    // The learner is asked first: where it has lanes, its hints make batches of ECDSA rows too.
    let report = fuzz(&[&*learner, &*portable], cases, seed).unwrap_or_else(|difference| panic!("{difference}"));
    println!("{report}");
    let counters = portable.counters();
    println!("{counters:?}");
    assert_eq!(report.engines[1].proved, report.good, "libsecp256k1 is under it, and leaves nothing good open");
    assert!(counters.batches - counters.failed_batches > report.engines[1].slices / 6, "{counters:?}");
    assert!(counters.failed_batches > report.engines[1].slices / 3, "{counters:?}");
}

#[test]
fn one_exception_costs_one_fallback() {
    let Some(engine) = lanes() else { return };
    let made = sigs::fuzz_checks(7, 40_000);
    let of = |wanted: Kind| -> Vec<Check> {
        made.iter().filter(|(kind, _)| *kind == wanted).map(|(_, check)| *check).collect()
    };
    let (exceptions, good) = (of(Kind::Exception), of(Kind::Schnorr));
    assert!(exceptions.len() > 300);
    for (number, exception) in exceptions.iter().take(300).enumerate() {
        let mut rows = good[..256].to_vec();
        rows[number * 37 % 256] = *exception;
        let before = engine.counters();
        let mut verdicts = vec![false; rows.len()];
        engine.verify(&rows, &mut verdicts);
        assert!(verdicts.iter().all(|verdict| *verdict), "all rows are good");
        let after = engine.counters();
        assert_eq!((after.lanes - before.lanes, after.fallbacks - before.fallbacks), (255, 1), "exception {number}");
    }
}
