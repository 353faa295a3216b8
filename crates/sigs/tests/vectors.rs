//! Published signatures through every engine.
//!
//! In:     Wycheproof's ECDSA set for Bitcoin (inside libsecp256k1's sources), BIP 340's table, our own high-S rows.
//! Out:    the published verdict from each engine, all rows in one call.
//! Fails:  says "skipped" where the files are not on this machine.

use std::path::PathBuf;
use std::sync::Arc;

use sigs::{
    Check, Engine, EngineName, PublicKeyBytes, eager_batch, engine, is_strict_der, parse_der_lax, portable_batch,
};
use stdx::hex;

fn engines() -> Vec<Arc<dyn Engine>> {
    let batches = [eager_batch(), portable_batch()];
    EngineName::ALL.into_iter().map(engine).chain(batches).filter_map(|engine| engine.ok()).collect()
}

/// The verdicts on `checks`, asked four times in one call, so that no set is too small for the lanes.
fn verdicts(engine: &Arc<dyn Engine>, checks: &[Check]) -> Vec<bool> {
    const TIMES: usize = 4;
    let repeated = checks.repeat(TIMES);
    let mut verdicts = vec![false; repeated.len()];
    let before = engine.counters().lanes;
    engine.verify(&repeated, &mut verdicts);
    for other in verdicts.chunks(checks.len()) {
        assert_eq!(other, &verdicts[..checks.len()], "{}: the same rows in other lanes", engine.name());
    }
    let by_lanes = engine.counters().lanes - before;
    if engine.name() != "batch" {
        assert_eq!(by_lanes > 0, engine.name() == "lanes", "{by_lanes} rows by lanes");
    }
    verdicts.truncate(checks.len());
    verdicts
}

/// The directory of a package in cargo's registry.
fn package(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
    registries.filter_map(Result::ok).map(|entry| entry.path().join(name)).find(|path| path.is_dir())
}

#[test]
fn wycheproof_ecdsa_for_bitcoin() {
    let Some(package) = package("libbitcoinkernel-sys-0.4.1") else {
        return println!("skipped: the sources of libbitcoinkernel-sys 0.4.1 are not in cargo's registry");
    };
    let path = package.join("bitcoin/src/secp256k1/src/wycheproof/ecdsa_secp256k1_sha256_bitcoin_test.json");
    let file: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut rows = Vec::new();
    for group in file["testGroups"].as_array().unwrap() {
        let key = hex::decode(group["publicKey"]["uncompressed"].as_str().unwrap()).unwrap();
        for test in group["tests"].as_array().unwrap() {
            let signature = hex::decode(test["sig"].as_str().unwrap()).unwrap();
            // The set judges strict DER and low S; high S is valid in blocks and is its own test below.
            let strict = is_strict_der(&[&signature[..], &[1]].concat());
            let malleated = test["flags"].as_array().unwrap().iter().any(|flag| flag == "SignatureMalleabilityBitcoin")
                || test["comment"] == "edge case for signature malleability";
            let Some(signature) = parse_der_lax(&signature).filter(|_| strict) else {
                assert_eq!(test["result"], "invalid", "{test}");
                continue;
            };
            let message = hex::decode(test["msg"].as_str().unwrap()).unwrap();
            let message = bitcoin_hashes::sha256::Hash::hash(&message).to_byte_array();
            let check = Check::Ecdsa { key: PublicKeyBytes::new(&key).unwrap(), signature, message };
            rows.push((check, test["result"] == "valid" || malleated, test.clone()));
        }
    }
    assert_eq!(rows.len(), 238, "rows in strict DER of the 463 in the file");
    let checks: Vec<Check> = rows.iter().map(|row| row.0).collect();
    for engine in engines() {
        for ((_, want, test), got) in rows.iter().zip(verdicts(&engine, &checks)) {
            assert_eq!(got, *want, "{}: {test}", engine.name());
        }
    }
}

#[test]
fn bip_340_table() {
    let shared =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/bips/bip-0340/test-vectors.csv");
    let Ok(text) = std::fs::read_to_string(&shared) else {
        return println!("skipped: {} is not here", shared.display());
    };
    let mut rows = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        // index, secret key, public key, aux_rand, message, signature, result, comment; Bitcoin signs 32 bytes only.
        let Ok(message) = hex::decode_array::<32>(&fields[4].to_lowercase()) else { continue };
        let key = hex::decode_array::<32>(&fields[2].to_lowercase()).unwrap();
        let signature = hex::decode_array::<64>(&fields[5].to_lowercase()).unwrap();
        rows.push((Check::Schnorr { key, signature, message }, fields[6] == "TRUE", line.to_owned()));
    }
    assert_eq!(rows.len(), 15);
    let checks: Vec<Check> = rows.iter().map(|row| row.0).collect();
    for engine in engines() {
        for ((_, want, line), got) in rows.iter().zip(verdicts(&engine, &checks)) {
            assert_eq!(got, *want, "{}: {line}", engine.name());
        }
    }
}

/// n - s, for the group order n.
fn negate(s: &[u8]) -> [u8; 32] {
    let order = hex::decode_array::<32>("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141").unwrap();
    let (mut out, mut borrow) = ([0; 32], 0i16);
    for i in (0..32).rev() {
        let digit = i16::from(order[i]) - i16::from(s[i]) - borrow;
        borrow = i16::from(digit < 0);
        out[i] = digit.rem_euclid(256) as u8;
    }
    out
}

#[test]
fn every_form_of_key_and_both_signs_of_s() {
    use secp256k1::{Message, SecretKey, ecdsa};
    let mut rows: Vec<(Check, bool, String)> = Vec::new();
    for byte in 1..=40u8 {
        let secret = SecretKey::from_secret_bytes([byte; 32]).unwrap();
        let message = [byte ^ 0x5a; 32];
        let low = ecdsa::sign(Message::from_digest(message), &secret).serialize_compact();
        let mut high = low;
        high[32..].copy_from_slice(&negate(&low[32..]));
        let long = secret.public_key().serialize_uncompressed();
        let odd = long[64] & 1;
        let with_first = |first: u8| PublicKeyBytes::new(&[&[first], &long[1..]].concat()).unwrap();
        let short = PublicKeyBytes::new(&secret.public_key().serialize()).unwrap();
        let keys = [
            (short, true),
            (with_first(4), true),
            (with_first(6 + odd), true),
            // A hybrid key's first byte must say the parity its y has.
            (with_first(7 - odd), false),
        ];
        for (key, good) in keys {
            for signature in [low, high] {
                let name = format!("key {key:?} signature {signature:02x?}");
                rows.push((Check::Ecdsa { key, signature, message }, good, name.clone()));
                let mut wrong = message;
                wrong[31] ^= 1;
                rows.push((Check::Ecdsa { key, signature, message: wrong }, false, name));
            }
        }
        for (signature, name) in [([0; 64], "zeros"), ([0xff; 64], "above the group order")] {
            rows.push((Check::Ecdsa { key: short, signature, message }, false, name.into()));
        }
    }
    let checks: Vec<Check> = rows.iter().map(|row| row.0).collect();
    for engine in engines() {
        for ((_, want, name), got) in rows.iter().zip(verdicts(&engine, &checks)) {
            assert_eq!(got, *want, "{}: {name}", engine.name());
        }
    }
}
