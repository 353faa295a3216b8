//! Addresses against Bitcoin Core's `key_io_valid.json` and `key_io_invalid.json`.
//!
//! In:     the vectors that the `libbitcoinkernel-sys` package carries.
//! Out:    every row's verdict as published, on every network.
//! Fails:  where a verdict differs; skipped where the package's sources are absent.

use primitives::{Network, Params, address};
use serde_json::Value;
use stdx::{hex, vectors};

fn rows(name: &str) -> Option<Vec<Value>> {
    let path = vectors::core_source(&format!("test/data/{name}"))?;
    let text = std::fs::read_to_string(path).expect("the vectors can be read");
    Some(serde_json::from_str(&text).expect("the vectors are JSON"))
}

/// Core calls testnet3 "test" and has addresses alike on testnet3, testnet4 and signet.
fn network(chain: &str) -> Network {
    if chain == "test" { Network::Testnet3 } else { chain.parse().expect("a known network") }
}

#[test]
fn valid_addresses_and_scripts_lead_to_each_other() {
    let Some(rows) = rows("key_io_valid.json") else { return println!("skipped: key_io_valid.json is absent") };
    let mut addresses = 0;
    for row in &rows {
        let (text, payload, about) = (row[0].as_str().unwrap(), row[1].as_str().unwrap(), &row[2]);
        let params = Params::of(network(about["chain"].as_str().unwrap()));
        let got = address::to_script(text, &params);
        if about["isPrivkey"].as_bool().unwrap() {
            assert!(got.is_err(), "{text} is a private key");
            continue;
        }
        addresses += 1;
        let script = hex::decode(payload).unwrap();
        assert_eq!(got.as_ref(), Ok(&script), "{text}");
        assert_eq!(address::of_script(&script, &params).as_deref(), Some(text));
        // "tryCaseFlip": the text in the other case is valid for Bech32, invalid for Base58.
        let flip = |c: char| if c.is_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
        let flipped: String = text.chars().map(flip).collect();
        let valid = about["tryCaseFlip"].as_bool().unwrap_or(false);
        assert_eq!(address::to_script(&flipped, &params).is_ok(), valid, "{flipped}");
    }
    assert!(addresses >= 40, "{addresses} rows hold an address");
}

#[test]
fn invalid_addresses_are_refused_everywhere() {
    let Some(rows) = rows("key_io_invalid.json") else { return println!("skipped: key_io_invalid.json is absent") };
    for row in &rows {
        let text = row[0].as_str().unwrap();
        for network in Network::ALL {
            assert!(address::to_script(text, &Params::of(network)).is_err(), "{text} on {network}");
        }
    }
    assert!(rows.len() >= 60, "{} rows", rows.len());
}
