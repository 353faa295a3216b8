//! `assay bench fuzz`: signature engines against libsecp256k1 for as long as one likes.
//!
//! In:     [`FuzzOptions`]: how many cases, the first seed, threads, engines.
//! Out:    one line for each seed done, with the seed to go on from after a stop; at the end what was compared.
//! Fails:  with the first row on which an engine and libsecp256k1 differ; exit code 1.
//!
//! A seed is [`SEED_CASES`] cases, the same ones on every machine and in every run.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use sigs::{Engine, EngineName, Kind, Report};
use stdx::pool::Pool;

use crate::arguments::FuzzOptions;
use crate::report::count;
use crate::{BenchError, machine, report};

/// Cases of one seed: some 25 s of one core.
const SEED_CASES: u64 = 500_000;

/// What all threads share.
struct Run {
    engines: Vec<Arc<dyn Engine>>,
    seeds: std::ops::Range<u64>,
    cases: u64,
    started: Instant,
    /// A thread found a difference: the others begin no more seeds.
    over: AtomicBool,
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    report: Report,
    cases: u64,
    seeds: Vec<u64>,
}

/// Compares, seed by seed.
pub fn bench(options: &FuzzOptions) -> Result<(), BenchError> {
    if options.cases == 0 || options.threads == 0 {
        return Err(BenchError::Usage("--cases and --threads: at least 1".to_owned()));
    }
    let machine = machine::describe();
    let engines = engines(&options.engines)?;
    let last = options.seed.checked_add(options.cases.div_ceil(SEED_CASES));
    let last = last.ok_or_else(|| BenchError::Usage("--seed: too large for so many cases".to_owned()))?;
    let run = Arc::new(Run {
        engines,
        seeds: options.seed..last,
        cases: options.cases,
        started: Instant::now(),
        over: AtomicBool::default(),
        done: Mutex::default(),
    });
    let pool = Pool::new("bench", options.threads);
    let each = run.clone();
    pool.map(run.seeds.clone(), move |seed| each.one(seed)).into_iter().collect::<Result<Vec<()>, BenchError>>()?;
    drop(pool);
    let done = run.done.lock().unwrap_or_else(PoisonError::into_inner);
    println!("\n{}", done.report);
    for engine in &run.engines {
        println!("{}: {:?}", engine.name(), engine.counters());
    }
    let settings = json!({
        "first_seed": options.seed, "next_seed": last, "cases": options.cases, "seed_cases": SEED_CASES,
        "threads": options.threads,
    });
    let report = json!({
        "bench": "fuzz", "machine": machine, "settings": settings, "seconds": run.started.elapsed().as_secs_f64(),
        "differences": 0, "compared": as_json(&done.report),
    });
    report::write_json(options.json.as_deref(), &report)
}

/// The engines asked for; without a wish all but libsecp256k1 itself, which is the judge.
fn engines(names: &[EngineName]) -> Result<Vec<Arc<dyn Engine>>, BenchError> {
    let usage = |error: sigs::EngineError| BenchError::Usage(error.to_string());
    // Most slices are spoilt: the batch engine for trials is not put off by that.
    let engine = |name: &EngineName| match name {
        EngineName::Batch => sigs::eager_batch(),
        name => sigs::engine(*name),
    };
    if !names.is_empty() {
        return names.iter().map(|name| engine(name).map_err(usage)).collect();
    }
    let engines: Vec<_> = [EngineName::Lanes, EngineName::Batch].iter().filter_map(|name| engine(name).ok()).collect();
    match engines.is_empty() {
        true => Err(BenchError::Usage("this processor runs no engine but scalar, which is the judge".to_owned())),
        false => Ok(engines),
    }
}

impl Run {
    fn one(&self, seed: u64) -> Result<(), BenchError> {
        if self.over.load(Relaxed) {
            return Ok(());
        }
        let cases = SEED_CASES.min(self.cases - (seed - self.seeds.start) * SEED_CASES);
        let engines: Vec<&dyn Engine> = self.engines.iter().map(|engine| &**engine).collect();
        let report = sigs::fuzz(&engines, cases, seed).map_err(|difference| {
            self.over.store(true, Relaxed);
            BenchError::Wrong(format!("seed {seed}: {difference}"))
        })?;
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.report.add(&report);
        done.cases += cases;
        done.seeds.push(seed);
        let spent_s = self.started.elapsed().as_secs_f64();
        let left_s = spent_s / done.cases as f64 * (self.cases - done.cases) as f64;
        println!(
            "seed {seed}: {} cases, no difference; {} of {} done, {:.0} us a case, {:.0} min left; after a stop go on \
             with --seed {}",
            count(cases),
            count(done.cases),
            count(self.cases),
            spent_s * 1e6 / done.cases as f64,
            left_s / 60.0,
            first_missing(self.seeds.start, &done.seeds)
        );
        Ok(())
    }
}

/// The lowest seed from `first` on that is not done.
fn first_missing(first: u64, done: &[u64]) -> u64 {
    (first..).find(|seed| !done.contains(seed)).expect("fewer are done than there are numbers")
}

fn as_json(report: &Report) -> Value {
    let by_kind = |numbers: &sigs::ByKind| -> Value {
        Kind::ALL.iter().zip(numbers).map(|(kind, number)| (format!("{kind:?}"), json!(number))).collect()
    };
    let engines: Vec<Value> = report
        .engines
        .iter()
        .map(|proofs| {
            json!({
                "engine": proofs.engine, "proved": by_kind(&proofs.proved), "ordinary_proved": proofs.ordinary,
                "verified": proofs.verified, "slices": proofs.slices, "sliced": proofs.sliced,
                "sliced_bad": proofs.sliced_bad, "sliced_proved": proofs.sliced_proved,
            })
        })
        .collect();
    json!({
        "cases": by_kind(&report.cases), "good": by_kind(&report.good), "ordinary": report.ordinary,
        "engines": engines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_run_goes_on_where_seeds_are_missing() {
        assert_eq!(first_missing(5, &[]), 5);
        assert_eq!(first_missing(5, &[6, 7]), 5);
        assert_eq!(first_missing(5, &[6, 5, 8]), 7);
    }

    #[test]
    fn a_short_run_writes_its_report() {
        let path = std::env::temp_dir().join(format!("assay-fuzz-{}.json", std::process::id()));
        let engines = vec![EngineName::Auto, EngineName::Scalar];
        let options = FuzzOptions { cases: 900, seed: 3, threads: 2, engines, json: Some(path.clone()) };
        bench(&options).unwrap();
        let report: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let sum = |at: &str| -> u64 {
            let numbers = report.pointer(at).and_then(Value::as_object).unwrap();
            numbers.values().filter_map(Value::as_u64).sum()
        };
        assert_eq!(sum("/compared/cases"), 900);
        assert_eq!(sum("/compared/engines/1/proved"), sum("/compared/good"), "scalar proves all that is good");
        assert_eq!(report.pointer("/settings/next_seed"), Some(&json!(4)));
        let none = FuzzOptions { cases: 0, ..options };
        assert!(matches!(bench(&none), Err(BenchError::Usage(_))));
    }
}
