//! Private keys as text.
//!
//! In:     text in the wallet import format; the network.
//! Out:    [`Secret`]: the key, and whether its public key is written short.
//! Fails:  none for text that is no key of the network.
//! Source: Bitcoin Core, `src/key_io.cpp` (`DecodeSecret`).

use primitives::Params;
use primitives::hash::hash160;
use secp256k1::{PublicKey, SecretKey};

/// A private key. Its `Debug` says nothing.
#[derive(Clone)]
pub struct Secret {
    /// The number.
    pub key: SecretKey,
    /// True where the public key is written with 33 bytes.
    pub compressed: bool,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// The key that `text` stands for on this network.
    pub fn parse(text: &str, params: &Params) -> Option<Secret> {
        let payload = base58ck::decode_check(text).ok()?;
        let (&version, rest) = payload.split_first()?;
        let (bytes, compressed) = match rest.len() {
            32 => (rest, false),
            33 if rest[32] == 1 => (&rest[..32], true),
            _ => return None,
        };
        if version != params.base58_secret_key {
            return None;
        }
        let key = SecretKey::from_secret_bytes(bytes.try_into().ok()?).ok()?;
        Some(Secret { key, compressed })
    }

    /// Its text.
    pub fn text(&self, params: &Params) -> String {
        let mut payload = vec![params.base58_secret_key];
        payload.extend_from_slice(&self.key.to_secret_bytes());
        if self.compressed {
            payload.push(1);
        }
        base58ck::encode_check(&payload)
    }

    /// The public key as it is written in scripts.
    pub fn public(&self) -> Vec<u8> {
        written(&PublicKey::from_secret_key(&self.key), self.compressed)
    }

    /// HASH160 of the public key as it is written.
    pub fn id(&self) -> [u8; 20] {
        hash160(&self.public())
    }
}

/// A public key with 33 or 65 bytes.
pub fn written(key: &PublicKey, compressed: bool) -> Vec<u8> {
    if compressed { key.serialize().to_vec() } else { key.serialize_uncompressed().to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Network;

    #[test]
    fn keys_are_those_of_their_text() {
        // Core's key_tests.cpp.
        let params = Params::of(Network::Main);
        for (text, compressed, address) in [
            ("5HxWvvfubhXpYYpS3tJkw6fq9jE9j18THftkZjHHfmFiWtmAbrj", false, "1QFqqMUD55ZV3PJEJZtaKCsQmjLT6JkjvJ"),
            ("Kwr371tjA9u2rFSMZjTNun2PXXP3WPZu2afRHTcta6KxEUdm1vEw", true, "1NoJrossxPBKfCHuJXT4HadJrXRE9Fxiqs"),
        ] {
            let secret = Secret::parse(text, &params).unwrap();
            assert_eq!((secret.compressed, secret.text(&params)), (compressed, text.to_owned()));
            let script = [&[0x76, 0xa9, 20][..], &secret.id(), &[0x88, 0xac]].concat();
            assert_eq!(primitives::address::of_script(&script, &params).as_deref(), Some(address));
        }
        let wrong = "1HV9Lc3sNHZxwj4Zk6fB38tEmBryq2cBiF";
        assert!(Secret::parse(wrong, &params).is_none() && Secret::parse("", &params).is_none());
        let main = "Kwr371tjA9u2rFSMZjTNun2PXXP3WPZu2afRHTcta6KxEUdm1vEw";
        assert!(Secret::parse(main, &Params::of(Network::Regtest)).is_none());
        assert_eq!(format!("{:?}", Secret::parse(main, &params).unwrap()), "Secret(..)");
    }
}
