//! Every engine against libsecp256k1 on made-up signatures.
//!
//! In:     two seeds; ASSAY_FUZZ_CASES says how many cases each (default 150,000), ASSAY_FUZZ_SEED where they start.
//! Out:    nothing.
//! Fails:  where an engine's verdict differs, with the row.
//! Source: `sigs::fuzz`.

use std::sync::Arc;

use sigs::{Check, Engine, EngineError, EngineName, Kind, engine, fuzz};

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

#[test]
fn lanes_agree_with_libsecp256k1() {
    let Some(engine) = lanes() else { return };
    let (cases, seed) = (number("ASSAY_FUZZ_CASES", 150_000), number("ASSAY_FUZZ_SEED", 1));
    let run = |seed| fuzz(&*engine, cases, seed).unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
    let reports = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(seed + 1));
        [run(seed), other.join().expect("its panic has been printed")]
    });
    let counters = engine.counters();
    let of = |kind: Kind| reports.iter().map(|report| report.good[kind as usize]).sum::<u64>();
    println!("{}\n{}\n{counters:?}", reports[0], reports[1]);
    // Every good row is accepted by the lanes but those with a forced exception and the hybrid keys, an eighth.
    let good: u64 = reports.iter().flat_map(|report| report.good).sum();
    assert!(counters.lanes <= good - of(Kind::Exception), "no exception may be accepted by the lanes");
    assert!(counters.lanes + of(Kind::Exception) + of(Kind::Ecdsa) / 6 + of(Kind::Corrupted) >= good);
    assert_eq!(counters.accepted, good);
    assert!(counters.audits > counters.lanes / 512 && counters.audits < counters.lanes / 128);
    for kind in [Kind::Infinity, Kind::OddNonce] {
        assert_eq!(of(kind), 0, "{kind:?} is never good");
    }
    for kind in [Kind::Exception, Kind::Ecdsa, Kind::Schnorr, Kind::Small] {
        let cases: u64 = reports.iter().map(|report| report.cases[kind as usize]).sum();
        assert_eq!(of(kind), cases, "{kind:?} is always good");
    }
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
