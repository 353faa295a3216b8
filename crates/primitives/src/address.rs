//! Addresses: the text wallets show for output scripts.
//!
//! In:     an output script, or text; the network.
//! Out:    text, or an output script.
//! Fails:  [`AddressError`] says what is wrong with the text. Blanks around it are an error, where Core skips them.
//! Source: BIP 13, BIP 173, BIP 350; judged by Core's `key_io_valid.json` and `key_io_invalid.json`.

use std::fmt;

use bech32::{Fe32, Hrp, segwit};

use crate::network::{Network, Params};
use crate::script::{ScriptType, op, witness_program};

/// Longest text looked at, in characters: that of BIP 173.
pub const ADDRESS_CHARACTERS_MAX: usize = 90;

/// Why text is no address of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// Longer than any address.
    TooLong {
        /// Its bytes.
        got: usize,
    },
    /// Neither Base58 nor Bech32, or a checksum that does not fit: most likely a typing error.
    Checksum,
    /// A Base58 payload that is not 20 bytes after the version.
    PayloadLength {
        /// Bytes after the version.
        got: usize,
    },
    /// A Base58 version no network uses for addresses.
    UnknownVersion {
        /// The version byte.
        got: u8,
    },
    /// A well-formed address of another network.
    OtherNetwork {
        /// The network asked for.
        want: Network,
    },
    /// Bech32 text whose version, checksum kind, padding or program length breaks BIP 141 or BIP 350.
    WitnessProgram,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressError::TooLong { got } => write!(f, "{got} characters is longer than any address"),
            AddressError::Checksum => write!(f, "the checksum does not fit: look for a typing error"),
            AddressError::PayloadLength { got } => write!(f, "the address holds {got} bytes where 20 are expected"),
            AddressError::UnknownVersion { got } => write!(f, "version byte {got} belongs to no kind of address"),
            AddressError::OtherNetwork { want } => write!(f, "this is an address of another network, not of {want}"),
            AddressError::WitnessProgram => write!(f, "the address holds no valid witness program"),
        }
    }
}

impl std::error::Error for AddressError {}

/// The address of an output script; `None` for scripts that have none.
pub fn of_script(script: &[u8], params: &Params) -> Option<String> {
    let base58 = |version: u8, hash: &[u8]| Some(base58ck::encode_check(&[&[version], hash].concat()));
    match ScriptType::of(script) {
        ScriptType::PubkeyHash => base58(params.base58_pubkey_hash, &script[3..23]),
        ScriptType::ScriptHash => base58(params.base58_script_hash, &script[2..22]),
        ScriptType::WitnessV0KeyHash
        | ScriptType::WitnessV0ScriptHash
        | ScriptType::WitnessV1Taproot
        | ScriptType::WitnessUnknown
        | ScriptType::Anchor => {
            let (version, program) = witness_program(script)?;
            segwit::encode(Hrp::parse(params.bech32_hrp).ok()?, Fe32::try_from(version).ok()?, program).ok()
        }
        ScriptType::Pubkey | ScriptType::Multisig | ScriptType::NullData | ScriptType::Nonstandard => None,
    }
}

/// The output script that an address stands for.
pub fn to_script(text: &str, params: &Params) -> Result<Vec<u8>, AddressError> {
    if text.len() > ADDRESS_CHARACTERS_MAX {
        return Err(AddressError::TooLong { got: text.len() });
    }
    let prefix_length = params.bech32_hrp.len();
    let has_prefix = text.get(..prefix_length).is_some_and(|head| head.eq_ignore_ascii_case(params.bech32_hrp));
    if let Ok((hrp, version, program)) = segwit::decode(text) {
        if hrp != Hrp::parse(params.bech32_hrp).expect("a constant") {
            return Err(AddressError::OtherNetwork { want: params.network });
        }
        let code = if version.to_u8() == 0 { 0 } else { op::ONE - 1 + version.to_u8() };
        return Ok([&[code, program.len() as u8], &program[..]].concat());
    }
    match base58ck::decode_check(text) {
        Ok(payload) => base58_script(&payload, params),
        Err(_) if has_prefix && bech32::decode(text).is_ok() => Err(AddressError::WitnessProgram),
        Err(_) => Err(AddressError::Checksum),
    }
}

fn base58_script(payload: &[u8], params: &Params) -> Result<Vec<u8>, AddressError> {
    let Some((&version, hash)) = payload.split_first() else { return Err(AddressError::Checksum) };
    let versions = |params: &Params| [params.base58_pubkey_hash, params.base58_script_hash];
    if !versions(params).contains(&version) {
        let elsewhere = Network::ALL.into_iter().any(|network| versions(&Params::of(network)).contains(&version));
        return Err(match elsewhere && hash.len() == 20 {
            true => AddressError::OtherNetwork { want: params.network },
            false => AddressError::UnknownVersion { got: version },
        });
    }
    if hash.len() != 20 {
        return Err(AddressError::PayloadLength { got: hash.len() });
    }
    Ok(if version == params.base58_pubkey_hash {
        [&[op::DUP, op::HASH160, 20], hash, &[op::EQUALVERIFY, op::CHECKSIG]].concat()
    } else {
        [&[op::HASH160, 20], hash, &[op::EQUAL]].concat()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::hex;

    #[test]
    fn mistakes_are_named() {
        #[track_caller]
        fn check(text: &str, network: Network, want: Result<&str, AddressError>) {
            let want = want.map(|script| hex::decode(script).unwrap());
            assert_eq!(to_script(text, &Params::of(network)), want, "{text}");
        }
        let main = Network::Main;
        let other = |want| Err(AddressError::OtherNetwork { want });
        let satoshi = "76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac";
        check("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", main, Ok(satoshi));
        check("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb", main, Err(AddressError::Checksum));
        check("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", Network::Testnet4, other(Network::Testnet4));
        check(" 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", main, Err(AddressError::Checksum));
        check("", main, Err(AddressError::Checksum));
        check(&"1".repeat(91), main, Err(AddressError::TooLong { got: 91 }));
        // BIP 173, in either case, and for another network.
        let program = "0014751e76e8199196d454941c45d1b3a323f1433bd6";
        check("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", main, Ok(program));
        check("BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4", main, Ok(program));
        check("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", Network::Regtest, other(Network::Regtest));
        check("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5", main, Err(AddressError::Checksum));
        // BIP 350: version 1 under the checksum of version 0.
        let old = "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd";
        check(old, main, Err(AddressError::WitnessProgram));
        // A private key in WIF, and a payload that is too short.
        let wif = base58ck::encode_check(&[&[128][..], &[1; 32]].concat());
        check(&wif, main, Err(AddressError::UnknownVersion { got: 128 }));
        check(&base58ck::encode_check(&[0; 20]), main, Err(AddressError::PayloadLength { got: 19 }));
        check(&base58ck::encode_check(&[]), main, Err(AddressError::Checksum));
    }

    #[test]
    fn scripts_without_an_address_have_none() {
        let params = Params::of(Network::Main);
        for script in ["", "6a", "51", "0015000000000000000000000000000000000000000000"] {
            assert_eq!(of_script(&hex::decode(script).unwrap(), &params), None, "{script}");
        }
        // Core shows pay-to-anchor as a witness program of version 1.
        let anchor = hex::decode("51024e73").unwrap();
        assert_eq!(of_script(&anchor, &params).as_deref(), Some("bc1pfeessrawgf"));
        assert_eq!(to_script("bc1pfeessrawgf", &params), Ok(anchor));
    }
}
