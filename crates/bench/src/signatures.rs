//! `assay bench signatures`: what one signature check costs, by each engine and by libsecp256k1 alone.
//!
//! In:     [`SignaturesOptions`].
//! Out:    nanoseconds a check on one thread, ECDSA and BIP 340, in calls of several sizes, and libsecp256k1's time
//!         divided by the engine's beside the ratio that was asked for.
//! Fails:  when a verdict is not the one expected: every row measured is good, and before the measurement one row in a
//!         call is damaged and must be found.
//!
//! Fair or not: both sides read the same rows of bytes, parse key and signature, and verify; random keys, each signing
//! once. The engine's time has its audits (one row in 256 is checked by libsecp256k1 again). ECDSA rows in batches come
//! with the hints that an earlier proof by the lanes learnt, as `assay reindex` has them. Engine and library take turns, a call and
//! [`LIBRARY_ROWS`] rows; of all turns the fastest of each counts, because on a shared machine the same rows take 27 us
//! a check in one second and 48 in the next.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use secp256k1::{Keypair, Message, PublicKey, SecretKey, XOnlyPublicKey, ecdsa, schnorr};
use serde_json::{Value, json};
use sigs::{Check, Engine, EngineError, EngineName, Hint, PublicKeyBytes};
use stdx::random::Random;

use crate::arguments::{Contestant, SignaturesOptions};
use crate::report::{Table, count, least, median};
use crate::{BenchError, machine, report};

/// Rows that libsecp256k1 verifies in its turn: 1 ms.
const LIBRARY_ROWS: usize = 32;
/// Slices of [`library_ns`]: a quarter of a second.
const LIBRARY_SLICES: usize = 250;
/// Rows of a call by engines that have no batches, as `consensus::script` pools them.
const CALL_ROWS: usize = 512;
/// Rows of a call by engines that have batches.
const BATCH_ROWS: [usize; 3] = [256, 1024, 4096];
/// Different signatures of each kind: two of the largest calls.
const SIGNATURES: usize = 2 * BATCH_ROWS[2];

/// One line of the report.
struct Measure {
    contestant: Contestant,
    kind: Kind,
    rows: usize,
    /// The ratio this project set itself.
    asked: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ecdsa,
    Schnorr,
}

/// What was timed, in nanoseconds a check, turn by turn.
struct Times {
    engine_ns: Vec<f64>,
    library_ns: Vec<f64>,
    hinted: usize,
}

/// Measures, prints the table, writes the report.
pub fn bench(options: &SignaturesOptions) -> Result<(), BenchError> {
    if options.slices == 0 || options.seconds.is_nan() || options.seconds < 0.0 {
        return Err(BenchError::Usage("--slices: at least 1; --seconds: at least 0".to_owned()));
    }
    let machine = machine::describe();
    let work = [(Kind::Ecdsa, ecdsa_rows(SIGNATURES)), (Kind::Schnorr, schnorr_rows(SIGNATURES))];
    let headings = ["engine, one thread", "check", "rows a call", "ns", "libsecp256k1 ns", "ratio", "asked", "slices"];
    let mut table = Table::new(&headings);
    let mut measures = Vec::new();
    for contestant in contestants(&options.engines) {
        let engine = engine(contestant).map_err(|error| BenchError::Usage(error.to_string()))?;
        for measure in measures_of(contestant) {
            let rows = &work.iter().find(|(kind, _)| *kind == measure.kind).expect("both kinds are made").1;
            let seconds = Duration::from_secs_f64(options.seconds);
            let times = take_turns(&*engine, rows, measure.rows, options.slices, seconds)?;
            table.row(line(&measure, &*engine, &times));
            measures.push(as_json(&measure, &*engine, &times));
        }
    }
    print!("{}", table.text());
    println!(
        "\nns: the fastest slice; ratio: libsecp256k1's fastest by the engine's fastest, parsing included in both"
    );
    let settings = json!({
        "slices_min": options.slices, "seconds_min": options.seconds, "signatures": SIGNATURES,
        "library_rows": LIBRARY_ROWS, "threads": 1, "keys": "random, each signs once",
        "library": "secp256k1 0.33.1, parse key and signature, verify",
    });
    let report = json!({ "bench": "signatures", "machine": machine, "settings": settings, "measures": measures });
    report::write_json(options.json.as_deref(), &report)
}

/// Time of one ECDSA check by libsecp256k1 on one thread, parsing included, in nanoseconds: a value for each of some hundred
/// slices of [`LIBRARY_ROWS`] rows.
pub fn library_ns() -> Result<Vec<f64>, BenchError> {
    let rows = ecdsa_rows(LIBRARY_ROWS * 16);
    let times = rows.chunks_exact(LIBRARY_ROWS).cycle().take(LIBRARY_SLICES).map(time_of_library);
    times.collect()
}

/// Nanoseconds a row, of rows that must be accepted.
fn time_of_library(rows: &[Check]) -> Result<f64, BenchError> {
    let before = Instant::now();
    let good = black_box(rows).iter().filter(|check| library_accepts(check)).count();
    let time_ns = before.elapsed().as_nanos() as f64 / rows.len() as f64;
    match rows.len() - good {
        0 => Ok(time_ns),
        refused => Err(BenchError::Wrong(format!("libsecp256k1 refuses {refused} good rows"))),
    }
}

fn engine(contestant: Contestant) -> Result<Arc<dyn Engine>, EngineError> {
    match contestant {
        Contestant::Lanes => sigs::engine(EngineName::Lanes),
        Contestant::Batch => sigs::engine(EngineName::Batch),
        Contestant::PortableBatch => sigs::portable_batch(),
        Contestant::Scalar => sigs::engine(EngineName::Scalar),
    }
}

/// Those asked for, or all that this processor runs.
fn contestants(asked: &[Contestant]) -> Vec<Contestant> {
    match asked.is_empty() {
        true => Contestant::value_variants().iter().copied().filter(|one| engine(*one).is_ok()).collect(),
        false => asked.to_vec(),
    }
}

fn measures_of(contestant: Contestant) -> Vec<Measure> {
    let both = |rows: usize, asked: Option<f64>| {
        [Kind::Ecdsa, Kind::Schnorr].map(|kind| Measure { contestant, kind, rows, asked }).into_iter()
    };
    let batches = |asked: f64| BATCH_ROWS.into_iter().flat_map(move |rows| both(rows, (rows == 1024).then_some(asked)));
    match contestant {
        Contestant::Lanes => both(CALL_ROWS, Some(7.5)).collect(),
        Contestant::Batch => batches(10.0).collect(),
        Contestant::PortableBatch => batches(1.7).collect(),
        Contestant::Scalar => both(CALL_ROWS, None).collect(),
    }
}

fn line(measure: &Measure, engine: &dyn Engine, times: &Times) -> Vec<String> {
    let (engine_ns, library_ns) = (least(&times.engine_ns), least(&times.library_ns));
    vec![
        format!("{} ({})", engine.name(), engine.instructions()),
        measure.kind.name(measure.contestant.is_batch() && times.hinted > 0).to_owned(),
        count(measure.rows as u64),
        format!("{engine_ns:.0}"),
        format!("{library_ns:.0}"),
        format!("{:.2}", library_ns / engine_ns),
        measure.asked.map_or("-".to_owned(), |asked| format!("{asked:.1}")),
        count(times.engine_ns.len() as u64),
    ]
}

fn as_json(measure: &Measure, engine: &dyn Engine, times: &Times) -> Value {
    let spread = |times_ns: &[f64]| {
        let mut sorted = times_ns.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100];
        json!({ "least": at(0), "p25": at(25), "median": median(times_ns), "p75": at(75), "most": at(100) })
    };
    json!({
        "engine": engine.name(), "instructions": engine.instructions(), "check": measure.kind.name(false), "batches": measure.contestant.is_batch(), "rows_a_call": measure.rows,
        "hinted_rows": times.hinted, "slices": times.engine_ns.len(),
        "engine_ns": spread(&times.engine_ns), "library_ns": spread(&times.library_ns),
        "ratio": least(&times.library_ns) / least(&times.engine_ns),
        "ratio_of_medians": median(&times.library_ns) / median(&times.engine_ns),
        "asked": measure.asked,
    })
}

impl Contestant {
    fn is_batch(self) -> bool {
        matches!(self, Contestant::Batch | Contestant::PortableBatch)
    }
}

impl Kind {
    fn name(self, hinted: bool) -> &'static str {
        match (self, hinted) {
            (Kind::Ecdsa, false) => "ECDSA",
            (Kind::Ecdsa, true) => "ECDSA, hinted",
            (Kind::Schnorr, _) => "BIP 340",
        }
    }
}

fn keypair(random: &mut Random) -> Keypair {
    loop {
        // A random number is above the group's order once in 2^128.
        if let Ok(secret) = SecretKey::from_secret_bytes(random.bytes()) {
            return Keypair::from_secret_key(&secret);
        }
    }
}

fn ecdsa_rows(count: usize) -> Vec<Check> {
    let mut random = Random::new(1);
    let row = |_| {
        let (secret, message) = (SecretKey::from_keypair(&keypair(&mut random)), random.bytes());
        let signature = ecdsa::sign(Message::from_digest(message), &secret).serialize_compact();
        let key = PublicKeyBytes::new(&secret.public_key().serialize()).expect("33 bytes");
        Check::Ecdsa { key, signature, message }
    };
    (0..count).map(row).collect()
}

fn schnorr_rows(count: usize) -> Vec<Check> {
    let mut random = Random::new(2);
    let row = |_| {
        let (keypair, message) = (keypair(&mut random), random.bytes::<32>());
        let signature = schnorr::sign_no_aux_rand(&message, &keypair).to_byte_array();
        Check::Schnorr { key: keypair.x_only_public_key().0.to_byte_array(), signature, message }
    };
    (0..count).map(row).collect()
}

/// libsecp256k1's public API, from bytes.
fn library_accepts(check: &Check) -> bool {
    match check {
        Check::Ecdsa { key, signature, message } => {
            let Ok(key) = PublicKey::from_slice(key.as_slice()) else { return false };
            let Ok(signature) = ecdsa::Signature::from_compact(signature) else { return false };
            ecdsa::verify(&signature, Message::from_digest(*message), &key).is_ok()
        }
        Check::Schnorr { key, signature, message } => {
            let Ok(key) = XOnlyPublicKey::from_byte_array(*key) else { return false };
            schnorr::verify(&schnorr::Signature::from_byte_array(*signature), message, &key).is_ok()
        }
    }
}

/// A call of the engine, some rows of the library, and again, until both limits are reached.
fn take_turns(
    engine: &dyn Engine,
    checks: &[Check],
    rows: usize,
    slices: u32,
    least_time: Duration,
) -> Result<Times, BenchError> {
    let hints = learn(engine, checks)?;
    must_find_damage(engine, &checks[..rows], &hints[..rows])?;
    let hinted = hints.iter().filter(|hint| **hint != Hint::Unknown).count();
    let mut times = Times { engine_ns: Vec::new(), library_ns: Vec::new(), hinted };
    let calls = checks.chunks_exact(rows).zip(hints.chunks_exact(rows)).cycle();
    let library = checks.chunks_exact(LIBRARY_ROWS).cycle();
    let started = Instant::now();
    for ((call, hints), library) in calls.zip(library) {
        if times.engine_ns.len() >= slices as usize && started.elapsed() >= least_time {
            break;
        }
        let (mut hints, mut proved) = (hints.to_vec(), vec![false; rows]);
        let before = Instant::now();
        engine.prove(black_box(call), &mut hints, &mut proved);
        times.engine_ns.push(before.elapsed().as_nanos() as f64 / rows as f64);
        expect(engine, &proved, None)?;
        times.library_ns.push(time_of_library(library)?);
    }
    Ok(times)
}

/// The hints of a first proof; by the lanes where there are any, since not every engine learns.
fn learn(engine: &dyn Engine, checks: &[Check]) -> Result<Vec<Hint>, BenchError> {
    let teacher = sigs::engine(EngineName::Lanes).ok();
    let teacher = teacher.as_deref().unwrap_or(engine);
    let (mut hints, mut proved) = (vec![Hint::Unknown; checks.len()], vec![false; checks.len()]);
    teacher.prove(checks, &mut hints, &mut proved);
    expect(teacher, &proved, None)?;
    Ok(hints)
}

/// One damaged row in the middle of a call must be the only one that is refused.
fn must_find_damage(engine: &dyn Engine, checks: &[Check], hints: &[Hint]) -> Result<(), BenchError> {
    let (mut checks, mut hints, damaged) = (checks.to_vec(), hints.to_vec(), checks.len() / 2);
    let (Check::Ecdsa { message, .. } | Check::Schnorr { message, .. }) = &mut checks[damaged];
    message[7] ^= 1;
    let mut proved = vec![false; checks.len()];
    engine.prove(&checks, &mut hints, &mut proved);
    let mut verdicts = vec![false; checks.len()];
    engine.verify(&checks, &mut verdicts);
    if proved[damaged] {
        return Err(BenchError::Wrong(format!("{}: proves row {damaged}, which is damaged", engine.name())));
    }
    expect(engine, &verdicts, Some(damaged))
}

/// All are accepted but the damaged one.
fn expect(engine: &dyn Engine, got: &[bool], damaged: Option<usize>) -> Result<(), BenchError> {
    match (0..got.len()).find(|&row| got[row] == (Some(row) == damaged)) {
        Some(row) => Err(BenchError::Wrong(format!("{}: row {row} must be {}", engine.name(), !got[row]))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn every_engine_is_measured() {
        for contestant in contestants(&[]) {
            let engine = engine(contestant).unwrap();
            for rows in [ecdsa_rows(64), schnorr_rows(64)] {
                let times = take_turns(&*engine, &rows, 32, 3, Duration::ZERO).unwrap();
                assert_eq!((times.engine_ns.len(), times.library_ns.len()), (3, 3));
                assert!(least(&times.engine_ns) > 0.0 && least(&times.library_ns) > 1000.0);
            }
        }
    }

    #[test]
    fn a_wrong_verdict_is_no_result() {
        /// Always says the same.
        struct Constant(AtomicBool);
        impl Engine for Constant {
            fn name(&self) -> &'static str {
                "constant"
            }
            fn verify(&self, _: &[Check], verdicts: &mut [bool]) {
                verdicts.fill(self.0.load(Relaxed));
            }
            fn counters(&self) -> sigs::Counters {
                sigs::Counters::default()
            }
        }
        let rows = schnorr_rows(64);
        for (answer, want) in [(true, "proves row 16, which is damaged"), (false, "row 0 must be true")] {
            let engine = Constant(AtomicBool::new(answer));
            let error = take_turns(&engine, &rows, 32, 1, Duration::ZERO).err().unwrap().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
