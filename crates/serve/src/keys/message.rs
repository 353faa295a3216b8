//! Messages signed with the key of an address.
//!
//! In:     a message, and a key or an address with a signature.
//! Out:    65 bytes from which the key can be found again; whether they fit.
//! Fails:  [`Verdict`], one word a reason.
//! Source: Bitcoin Core, `src/common/signmessage.cpp`; BIP 137 describes the first byte.

use primitives::encode::put_compact_size;
use primitives::hash::sha256d;
use primitives::script::ScriptType;
use primitives::{Params, address};
use secp256k1::Message;
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};

use super::base64;
use super::secret::{Secret, written};

/// What stands in front of every message, so that no signature of a message is one of a transaction.
const MAGIC: &str = "Bitcoin Signed Message:\n";

/// What a signature turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The address's key made it.
    Valid,
    /// Another key made it, or none.
    OtherKey,
    /// There is no such address.
    InvalidAddress,
    /// The address is not that of one key.
    NoKeyAddress,
    /// The text is no Base64.
    Malformed,
}

fn digest(message: &str) -> Message {
    let mut bytes = Vec::with_capacity(MAGIC.len() + message.len() + 10);
    for part in [MAGIC, message] {
        put_compact_size(&mut bytes, part.len() as u64);
        bytes.extend_from_slice(part.as_bytes());
    }
    Message::from_digest(sha256d(&bytes))
}

/// The signature as Base64.
pub fn sign(secret: &Secret, message: &str) -> String {
    let signature = RecoverableSignature::sign_ecdsa_recoverable(digest(message), &secret.key);
    let (id, compact) = signature.serialize_compact();
    let mut bytes = vec![27 + id.to_u8() + if secret.compressed { 4 } else { 0 }];
    bytes.extend_from_slice(&compact);
    base64::encode(&bytes)
}

/// Whether the key of `address` signed `message`.
pub fn verify(address: &str, signature: &str, message: &str, params: &Params) -> Verdict {
    let Ok(script) = address::to_script(address, params) else { return Verdict::InvalidAddress };
    if ScriptType::of(&script) != ScriptType::PubkeyHash {
        return Verdict::NoKeyAddress;
    }
    let Some(bytes) = base64::decode(signature) else { return Verdict::Malformed };
    match recover(&bytes, message) {
        Some(id) if id == script[3..23] => Verdict::Valid,
        _ => Verdict::OtherKey,
    }
}

fn recover(bytes: &[u8], message: &str) -> Option<[u8; 20]> {
    let (&first, compact) = bytes.split_first()?;
    if compact.len() != 64 {
        return None;
    }
    let place = first.wrapping_sub(27);
    let signature = RecoverableSignature::from_compact(compact, RecoveryId::from_u8_masked(place)).ok()?;
    let key = signature.recover(digest(message)).ok()?;
    Some(primitives::hash::hash160(&written(&key, place & 4 != 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Network;

    #[test]
    fn signatures_are_those_of_core() {
        // Core's util_tests.cpp, `message_sign` and `message_verify`.
        let params = Params::of(Network::Main);
        let secret = Secret::parse("Kwr371tjA9u2rFSMZjTNun2PXXP3WPZu2afRHTcta6KxEUdm1vEw", &params).unwrap();
        let (address, message) = ("1NoJrossxPBKfCHuJXT4HadJrXRE9Fxiqs", "Trust no one");
        let signature = sign(&secret, message);
        let check = |address: &str, signature: &str, message: &str, want: Verdict| {
            assert_eq!(verify(address, signature, message, &params), want, "{address} {message}");
        };
        check(address, &signature, message, Verdict::Valid);
        check(address, &signature, "Trust everyone", Verdict::OtherKey);
        check("invalid address", &signature, message, Verdict::InvalidAddress);
        check("3B5fQsEXEaV8v6U3ejYc8XaKXAkyQj2MjV", &signature, message, Verdict::NoKeyAddress);
        check(address, "invalid signature, not in base64 encoding", message, Verdict::Malformed);
        check(address, "AAAA", message, Verdict::OtherKey);
        let published = "IPojfrX2dfPnH26UegfbGQQLrdK844DlHq5157/P6h57WyuS/Qsl+h/WSVGDF4MUi4rWSswW38oimDYfNNUBUOk=";
        check("15CRxFdyRpGZLW9w8HnHvVduizdL5jKNbs", published, "Trust no one", Verdict::Valid);
    }
}
