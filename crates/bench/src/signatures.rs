//! `assay bench signatures`: what one signature check costs, through our engine and by libsecp256k1 alone.
//!
//! In:     [`SignaturesOptions`].
//! Out:    nanoseconds of CPU time a check on one thread, ECDSA and BIP 340; the ratio says what rows and parsing cost, or what a
//!         vector engine saves.
//! Fails:  when a verdict is not the one expected; one row in a hundred is damaged.
//!
//! Fair or not: the library gets keys, signatures and messages that are parsed already; the engine gets rows of bytes, as
//! scripts hold them, and parses each. Contestants take turns, round by round.

use std::hint::black_box;

use secp256k1::{Keypair, Message, PublicKey, SecretKey, XOnlyPublicKey, ecdsa, schnorr};
use serde_json::{Value, json};
use sigs::{Check, Engine, PublicKeyBytes};
use stdx::random::Random;

use crate::arguments::SignaturesOptions;
use crate::measure::thread_cpu_ns;
use crate::report::{Table, least, median};
use crate::{BenchError, machine, report};

/// Rows of one call, as `consensus::script` pools them.
const CALL_ROWS: usize = 512;
/// One row in this many is damaged.
const DAMAGED_ONE_IN: u32 = 100;

enum Parsed {
    Ecdsa(ecdsa::Signature, Message, PublicKey),
    Schnorr(schnorr::Signature, [u8; 32], XOnlyPublicKey),
}

struct Work {
    checks: Vec<Check>,
    parsed: Vec<Parsed>,
    want: Vec<bool>,
}

/// Measures both kinds, prints the table, writes the report.
pub fn bench(options: &SignaturesOptions) -> Result<(), BenchError> {
    if options.signatures == 0 || options.rounds == 0 {
        return Err(BenchError::Usage("--signatures and --rounds: at least 1".to_owned()));
    }
    let machine = machine::describe();
    let engine = sigs::engine(options.engine).map_err(|error| BenchError::Usage(error.to_string()))?;
    let mut table = Table::new(&["check, one thread", "engine ns", "library ns", "engine / library", "checks/s"]);
    let mut kinds = Vec::new();
    for (name, work) in [("ECDSA", ecdsa_work(options.signatures)), ("BIP 340", schnorr_work(options.signatures))] {
        let (mut ours, mut library) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            ours.push(time_engine(&*engine, &work)?);
            library.push(time_library(&work)?);
        }
        let ratio = median(&ours) / median(&library);
        table.row(vec![
            name.to_owned(),
            format!("{:.0}", median(&ours)),
            format!("{:.0}", median(&library)),
            format!("{ratio:.3}"),
            report::count((1e9 / median(&ours)) as u64),
        ]);
        kinds.push(kind(name, &ours, &library));
    }
    println!("engine {}, {} signatures of each kind, {} rounds\n", engine.name(), options.signatures, options.rounds);
    print!("{}", table.text());
    let settings = json!({
        "engine": engine.name(), "signatures": options.signatures, "rounds": options.rounds,
        "call_rows": CALL_ROWS, "damaged_one_in": DAMAGED_ONE_IN, "threads": 1,
    });
    let report = json!({ "bench": "signatures", "machine": machine, "settings": settings, "kinds": kinds });
    report::write_json(options.json.as_deref(), &report)
}

fn kind(name: &str, ours: &[f64], library: &[f64]) -> Value {
    json!({
        "kind": name,
        "engine_ns": { "median": median(ours), "least": least(ours), "runs": ours },
        "library_ns": { "median": median(library), "least": least(library), "runs": library },
        "engine_per_library": median(ours) / median(library),
    })
}

fn keypair(random: &mut Random) -> Keypair {
    loop {
        // A random number is above the group's order once in 2^128.
        if let Ok(secret) = SecretKey::from_secret_bytes(random.bytes()) {
            return Keypair::from_secret_key(&secret);
        }
    }
}

fn ecdsa_work(count: u32) -> Work {
    let mut random = Random::new(1);
    let mut work = Work { checks: Vec::new(), parsed: Vec::new(), want: Vec::new() };
    for index in 0..count {
        let secret = SecretKey::from_keypair(&keypair(&mut random));
        let key = secret.public_key();
        let mut message: [u8; 32] = random.bytes();
        let signature = ecdsa::sign(Message::from_digest(message), &secret);
        let good = index % DAMAGED_ONE_IN != 0;
        message[7] ^= u8::from(!good);
        work.checks.push(Check::Ecdsa {
            key: PublicKeyBytes::new(&key.serialize()).expect("33 bytes"),
            signature: signature.serialize_compact(),
            message,
        });
        work.parsed.push(Parsed::Ecdsa(signature, Message::from_digest(message), key));
        work.want.push(good);
    }
    work
}

fn schnorr_work(count: u32) -> Work {
    let mut random = Random::new(2);
    let mut work = Work { checks: Vec::new(), parsed: Vec::new(), want: Vec::new() };
    for index in 0..count {
        let keypair = keypair(&mut random);
        let (key, _) = keypair.x_only_public_key();
        let mut message: [u8; 32] = random.bytes();
        let signature = schnorr::sign_no_aux_rand(&message, &keypair);
        let good = index % DAMAGED_ONE_IN != 0;
        message[7] ^= u8::from(!good);
        work.checks.push(Check::Schnorr { key: key.to_byte_array(), signature: signature.to_byte_array(), message });
        work.parsed.push(Parsed::Schnorr(signature, message, key));
        work.want.push(good);
    }
    work
}

/// Nanoseconds a check.
fn time_engine(engine: &dyn Engine, work: &Work) -> Result<f64, BenchError> {
    let mut verdicts = vec![false; work.checks.len()];
    let before = thread_cpu_ns()?;
    for (rows, verdicts) in work.checks.chunks(CALL_ROWS).zip(verdicts.chunks_mut(CALL_ROWS)) {
        engine.verify(black_box(rows), verdicts);
    }
    let took_ns = (thread_cpu_ns()? - before) as f64;
    expect(&verdicts, work, engine.name())?;
    Ok(took_ns / work.checks.len() as f64)
}

/// Nanoseconds a check.
fn time_library(work: &Work) -> Result<f64, BenchError> {
    let before = thread_cpu_ns()?;
    let verdicts: Vec<bool> = work
        .parsed
        .iter()
        .map(|row| match black_box(row) {
            Parsed::Ecdsa(signature, message, key) => ecdsa::verify(signature, *message, key).is_ok(),
            Parsed::Schnorr(signature, message, key) => schnorr::verify(signature, message, key).is_ok(),
        })
        .collect();
    let took_ns = (thread_cpu_ns()? - before) as f64;
    expect(&verdicts, work, "libsecp256k1")?;
    Ok(took_ns / work.parsed.len() as f64)
}

fn expect(got: &[bool], work: &Work, who: &str) -> Result<(), BenchError> {
    match got.iter().zip(&work.want).position(|(got, want)| got != want) {
        Some(row) => Err(BenchError::Wrong(format!("{who}: row {row} must be {}", work.want[row]))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_verdict_is_no_result() {
        let mut work = ecdsa_work(101);
        let engine = sigs::engine(sigs::EngineName::Scalar).unwrap();
        assert!(time_engine(&*engine, &work).unwrap() > 0.0);
        assert!(time_library(&work).unwrap() > 0.0);
        work.want[100] = true;
        assert!(time_engine(&*engine, &work).unwrap_err().to_string().contains("row 100"));
        assert!(time_library(&schnorr_work(101)).unwrap() > 0.0);
    }
}
