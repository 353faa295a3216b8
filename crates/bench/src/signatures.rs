//! `assay bench signatures`: what one signature check costs, through our engine and by libsecp256k1 alone.
//!
//! In:     [`SignaturesOptions`].
//! Out:    nanoseconds a check on one thread, ECDSA and BIP 340; the ratio says what rows and parsing cost, or what a
//!         vector engine saves.
//! Fails:  when a verdict is not the one expected; one row in a hundred is damaged.
//!
//! Fair or not: the library gets keys, signatures and messages that are parsed already; the engine gets rows of bytes, as
//! scripts hold them, and parses each. They take turns after every 512 rows, and each such piece counts at its fastest
//! round, because on a shared machine the same piece takes 27 us a check in one second and 48 in the next.

use std::hint::black_box;
use std::time::Instant;

use secp256k1::{Keypair, Message, PublicKey, SecretKey, XOnlyPublicKey, ecdsa, schnorr};
use serde_json::json;
use sigs::{Check, Engine, PublicKeyBytes};
use stdx::random::Random;

use crate::arguments::SignaturesOptions;
use crate::report::Table;
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
        let times = measure(&*engine, &work, options.rounds)?;
        let (ours, library) = (times.least_ns(0), times.least_ns(1));
        table.row(vec![
            name.to_owned(),
            format!("{ours:.0}"),
            format!("{library:.0}"),
            format!("{:.3}", ours / library),
            report::count((1e9 / ours) as u64),
        ]);
        kinds.push(json!({
            "kind": name, "engine_ns": ours, "library_ns": library, "engine_per_library": ours / library,
            "rounds_ns": { "engine": times.rounds_ns(0), "library": times.rounds_ns(1) },
        }));
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

/// Times of engine and library by round and piece, in nanoseconds.
struct Times {
    pieces: Vec<[Vec<u64>; 2]>,
    checks: usize,
}

impl Times {
    /// Nanoseconds a check, each piece at its fastest round: what else the machine did is left out.
    fn least_ns(&self, who: usize) -> f64 {
        let pieces = self.pieces[0][who].len();
        let least = |piece: usize| self.pieces.iter().map(|round| round[who][piece]).min().expect("a round at least");
        (0..pieces).map(least).sum::<u64>() as f64 / self.checks as f64
    }

    /// Nanoseconds a check of every round.
    fn rounds_ns(&self, who: usize) -> Vec<f64> {
        self.pieces.iter().map(|round| round[who].iter().sum::<u64>() as f64 / self.checks as f64).collect()
    }
}

/// Engine and library take turns after every piece of [`CALL_ROWS`] rows.
fn measure(engine: &dyn Engine, work: &Work, rounds: u32) -> Result<Times, BenchError> {
    let mut times = Times { pieces: Vec::new(), checks: work.checks.len() };
    for _ in 0..rounds {
        let mut round = [Vec::new(), Vec::new()];
        let (mut ours, mut library) = (vec![false; work.checks.len()], vec![false; work.checks.len()]);
        let pieces = work.checks.chunks(CALL_ROWS).zip(work.parsed.chunks(CALL_ROWS));
        let verdicts = ours.chunks_mut(CALL_ROWS).zip(library.chunks_mut(CALL_ROWS));
        for ((rows, parsed), (ours, library)) in pieces.zip(verdicts) {
            let before = Instant::now();
            engine.verify(black_box(rows), ours);
            round[0].push(before.elapsed().as_nanos() as u64);
            let before = Instant::now();
            for (row, verdict) in black_box(parsed).iter().zip(library) {
                *verdict = verify(row);
            }
            round[1].push(before.elapsed().as_nanos() as u64);
        }
        expect(&ours, work, engine.name())?;
        expect(&library, work, "libsecp256k1")?;
        times.pieces.push(round);
    }
    Ok(times)
}

fn verify(row: &Parsed) -> bool {
    match row {
        Parsed::Ecdsa(signature, message, key) => ecdsa::verify(signature, *message, key).is_ok(),
        Parsed::Schnorr(signature, message, key) => schnorr::verify(signature, message, key).is_ok(),
    }
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
        let engine = sigs::engine(sigs::EngineName::Scalar).unwrap();
        for mut work in [ecdsa_work(101), schnorr_work(101)] {
            let times = measure(&*engine, &work, 2).unwrap();
            assert!(times.least_ns(0) > 0.0 && times.least_ns(1) <= times.rounds_ns(1)[0]);
            work.want[100] = true;
            assert!(measure(&*engine, &work, 1).err().unwrap().to_string().contains("row 100"));
        }
    }
}
