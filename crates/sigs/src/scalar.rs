//! libsecp256k1, one signature after the other: the engine of last resort, whose word the others borrow.
//!
//! In:     rows.
//! Out:    the verdict Core's `CPubKey::Verify` or `XOnlyPubKey::VerifySchnorr` gives.
//! Fails:  never; rows that do not parse are `false`.
//! Source: Core's pubkey.cpp. One context a thread, made at its first row by the `secp256k1` crate, none per call.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use secp256k1::{Message, PublicKey, XOnlyPublicKey, ecdsa, schnorr};

use crate::check::Check;
use crate::engine::{Counters, Engine};

/// The scalar engine.
#[derive(Debug, Default)]
pub struct ScalarEngine {
    calls: AtomicU64,
    checks: AtomicU64,
    accepted: AtomicU64,
}

impl Engine for ScalarEngine {
    fn name(&self) -> &'static str {
        "scalar"
    }

    fn verify(&self, checks: &[Check], verdicts: &mut [bool]) {
        assert_eq!(checks.len(), verdicts.len(), "a verdict for each row");
        let mut accepted = 0;
        for (check, verdict) in checks.iter().zip(verdicts) {
            *verdict = verify_one(check);
            accepted += u64::from(*verdict);
        }
        self.calls.fetch_add(1, Relaxed);
        self.checks.fetch_add(checks.len() as u64, Relaxed);
        self.accepted.fetch_add(accepted, Relaxed);
    }

    fn counters(&self) -> Counters {
        let checks = self.checks.load(Relaxed);
        Counters {
            calls: self.calls.load(Relaxed),
            checks,
            accepted: self.accepted.load(Relaxed),
            scalar: checks,
            ..Counters::default()
        }
    }
}

/// The verdict on one row, by libsecp256k1.
pub fn verify_one(check: &Check) -> bool {
    match check {
        Check::Ecdsa { key, signature, message } => verify_ecdsa(key.as_slice(), signature, message),
        Check::Schnorr { key, signature, message } => verify_schnorr(key, signature, message),
    }
}

fn verify_ecdsa(key: &[u8], signature: &[u8; 64], message: &[u8; 32]) -> bool {
    let Ok(key) = PublicKey::from_slice(key) else { return false };
    // r or s at or above the group order: Core sets both to zero, which no key accepts.
    let Ok(mut signature) = ecdsa::Signature::from_compact(signature) else { return false };
    // libsecp256k1 refuses a high S; the chain never did.
    signature.normalize_s();
    ecdsa::verify(&signature, Message::from_digest(*message), &key).is_ok()
}

fn verify_schnorr(key: &[u8; 32], signature: &[u8; 64], message: &[u8; 32]) -> bool {
    let Ok(key) = XOnlyPublicKey::from_byte_array(*key) else { return false };
    schnorr::verify(&schnorr::Signature::from_byte_array(*signature), message, &key).is_ok()
}
