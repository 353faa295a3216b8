//! What a row costs on each vector, in a batch without vectors, and by libsecp256k1, in turns: ignored tests that print.
//!
//! In:     nothing; ASSAY_PACE_TURNS says how many turns (default 300).
//! Out:    nanoseconds a row, of all turns the fastest, and the ratio to libsecp256k1 (parse key and signature, verify).
//! Fails:  where a good row is refused.
//! Source: docs/signatures.md, "Figures". `cargo test --release -p assay-sigs --lib pace -- --ignored --nocapture`

use std::time::Instant;

use secp256k1::{Keypair, Message, SecretKey, ecdsa, schnorr};
use stdx::random::Random;

use crate::check::{Check, PublicKeyBytes};
#[cfg(target_arch = "x86_64")]
use crate::engine::Engine;
#[cfg(target_arch = "x86_64")]
use crate::lanes::engine::LanesEngine;
#[cfg(target_arch = "x86_64")]
use crate::lanes::vector::{AvxIfma, Ifma, Twin, Vector};
use crate::scalar::verify_one;

/// Rows of a call of the lanes.
#[cfg(target_arch = "x86_64")]
const ROWS: usize = 256;
/// Rows of libsecp256k1's turn.
pub const LIBRARY_ROWS: usize = 32;

/// Good rows of one kind, no key used twice.
pub fn rows(schnorr: bool, count: usize) -> Vec<Check> {
    let mut random = Random::new(9);
    let mut row = || {
        let pair = Keypair::from_secret_bytes(random.bytes()).expect("above the order once in 2^128");
        let message: [u8; 32] = random.bytes();
        if schnorr {
            let signature = schnorr::sign_no_aux_rand(&message, &pair).to_byte_array();
            return Check::Schnorr { key: pair.x_only_public_key().0.to_byte_array(), signature, message };
        }
        let signature = ecdsa::sign(Message::from_digest(message), &SecretKey::from_keypair(&pair));
        let key = PublicKeyBytes::new(&pair.public_key().serialize()).expect("33 bytes");
        Check::Ecdsa { key, signature: signature.serialize_compact(), message }
    };
    (0..count).map(|_| row()).collect()
}

/// A point in this thread's time on a processor, or on the clock where the system does not tell.
///
/// On a busy machine a batch of 15 ms is always interrupted.
struct Moment {
    on_processor_ns: Option<u64>,
    clock: Instant,
}

impl Moment {
    fn now() -> Moment {
        // The kernel brings its count up to date when a thread offers its place.
        std::thread::yield_now();
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let on_processor_ns = text.split(' ').next().and_then(|number| number.parse().ok());
        Moment { on_processor_ns, clock: Instant::now() }
    }

    fn elapsed_ns(&self) -> f64 {
        let clock_ns = self.clock.elapsed().as_nanos() as u64;
        let now = Moment::now();
        let both = now.on_processor_ns.zip(self.on_processor_ns);
        both.map_or(clock_ns, |(now, then)| now - then) as f64
    }
}

/// Nanoseconds a row of the fastest turn of each contestant.
pub fn fastest(turns: usize, contestants: &mut [(&str, usize, &mut dyn FnMut())]) -> Vec<f64> {
    let mut least = vec![f64::MAX; contestants.len()];
    for _ in 0..turns {
        for ((_, rows, turn), least) in contestants.iter_mut().zip(&mut least) {
            let start = Moment::now();
            turn();
            *least = least.min(start.elapsed_ns() / *rows as f64);
        }
    }
    for ((name, ..), ns) in contestants.iter().zip(&least) {
        println!("{name:40} {ns:9.1} ns {:6.2}", least[0] / ns);
    }
    least
}

/// How many turns.
pub fn turns() -> usize {
    std::env::var("ASSAY_PACE_TURNS").map_or(300, |turns| turns.parse().expect("a number of turns"))
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "a measurement"]
fn pace_of_the_lanes() {
    let mut engines: Vec<(&str, Box<dyn Engine>)> = Vec::new();
    if let Some(seed) = Ifma::detect() {
        engines.push((Ifma::NAME, Box::new(LanesEngine::on(seed).unwrap())));
    }
    if let Some(seed) = AvxIfma::detect() {
        engines.push((AvxIfma::NAME, Box::new(LanesEngine::on(seed).unwrap())));
    }
    if let Some(seed) = Twin::detect() {
        engines.push((Twin::NAME, Box::new(LanesEngine::on(seed).unwrap())));
    }
    for schnorr in [false, true] {
        println!("{}", if schnorr { "BIP 340" } else { "ECDSA" });
        let rows = rows(schnorr, ROWS);
        let mut library = || assert!(rows[..LIBRARY_ROWS].iter().all(verify_one));
        let mut turns_of: Vec<Box<dyn FnMut()>> = Vec::new();
        for (_, engine) in &engines {
            let (rows, mut verdicts) = (&rows, vec![false; ROWS]);
            turns_of.push(Box::new(move || {
                engine.verify(rows, &mut verdicts);
                assert!(verdicts.iter().all(|verdict| *verdict));
            }));
        }
        let mut contestants: Vec<(&str, usize, &mut dyn FnMut())> = vec![("libsecp256k1", LIBRARY_ROWS, &mut library)];
        for ((name, _), turn) in engines.iter().zip(&mut turns_of) {
            contestants.push((name, ROWS, turn));
        }
        fastest(turns(), &mut contestants);
    }
}
