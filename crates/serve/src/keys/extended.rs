//! Extended keys and what is derived from them.
//!
//! In:     text that begins with xpub, xprv, tpub or tprv; steps of a path.
//! Out:    keys further down the path.
//! Fails:  none for text of another network, for hardened steps without a private key, and for the one number in 2^127
//!         that is no key.
//! Source: BIP 32.

use bitcoin_hashes::{Hash as _, HashEngine as _, hmac, sha512};
use primitives::Network;
use primitives::hash::hash160;
use secp256k1::{PublicKey, Scalar, SecretKey};

/// Added to the number of a hardened step.
pub const HARDENED: u32 = 1 << 31;

/// A key with a chain code.
#[derive(Clone)]
pub struct ExtendedKey {
    depth: u8,
    parent: [u8; 4],
    number: u32,
    chain_code: [u8; 32],
    public: PublicKey,
    secret: Option<SecretKey>,
    main: bool,
}

impl std::fmt::Debug for ExtendedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExtendedKey({})", self.public_text())
    }
}

const MAIN: [[u8; 4]; 2] = [[0x04, 0x88, 0xb2, 0x1e], [0x04, 0x88, 0xad, 0xe4]];
const TEST: [[u8; 4]; 2] = [[0x04, 0x35, 0x87, 0xcf], [0x04, 0x35, 0x83, 0x94]];

impl ExtendedKey {
    /// The key that `text` stands for on this network.
    pub fn parse(text: &str, network: Network) -> Option<ExtendedKey> {
        let payload: [u8; 78] = base58ck::decode_check(text).ok()?.try_into().ok()?;
        let main = network == Network::Main;
        let [public_version, secret_version] = if main { MAIN } else { TEST };
        let secret = match <[u8; 4]>::try_from(&payload[..4]).ok()? {
            version if version == secret_version && payload[45] == 0 => {
                Some(SecretKey::from_secret_bytes(payload[46..].try_into().ok()?).ok()?)
            }
            version if version == public_version => None,
            _ => return None,
        };
        let public = match &secret {
            Some(secret) => PublicKey::from_secret_key(secret),
            None => PublicKey::from_slice(&payload[45..]).ok()?,
        };
        Some(ExtendedKey {
            depth: payload[4],
            parent: payload[5..9].try_into().ok()?,
            number: u32::from_be_bytes(payload[9..13].try_into().ok()?),
            chain_code: payload[13..45].try_into().ok()?,
            public,
            secret,
            main,
        })
    }

    /// Its text without the private key.
    pub fn public_text(&self) -> String {
        let mut payload = if self.main { MAIN[0] } else { TEST[0] }.to_vec();
        payload.push(self.depth);
        payload.extend_from_slice(&self.parent);
        payload.extend_from_slice(&self.number.to_be_bytes());
        payload.extend_from_slice(&self.chain_code);
        payload.extend_from_slice(&self.public.serialize());
        base58ck::encode_check(&payload)
    }

    /// The public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The private key, where it is known.
    pub fn secret(&self) -> Option<&SecretKey> {
        self.secret.as_ref()
    }

    /// The first four bytes of HASH160 of the public key.
    pub fn fingerprint(&self) -> [u8; 4] {
        hash160(&self.public.serialize())[..4].try_into().expect("four of twenty bytes")
    }

    /// The key one step down.
    pub fn child(&self, number: u32) -> Option<ExtendedKey> {
        let mut engine = hmac::HmacEngine::<sha512::HashEngine>::new(&self.chain_code);
        match &self.secret {
            Some(secret) if number >= HARDENED => {
                engine.input(&[0]);
                engine.input(&secret.to_secret_bytes());
            }
            None if number >= HARDENED => return None,
            _ => engine.input(&self.public.serialize()),
        }
        engine.input(&number.to_be_bytes());
        let wide: [u8; 64] = engine.finalize().to_byte_array();
        let tweak = Scalar::from_be_bytes(wide[..32].try_into().ok()?).ok()?;
        let secret = self.secret.map(|secret| secret.add_tweak(&tweak)).transpose().ok()?;
        let public = match &secret {
            Some(secret) => PublicKey::from_secret_key(secret),
            None => self.public.add_exp_tweak(&tweak).ok()?,
        };
        Some(ExtendedKey {
            depth: self.depth.checked_add(1)?,
            parent: self.fingerprint(),
            number,
            chain_code: wide[32..].try_into().ok()?,
            public,
            secret,
            main: self.main,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_bip_32() {
        let master = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi";
        let key = ExtendedKey::parse(master, Network::Main).unwrap();
        assert_eq!(
            key.public_text(),
            "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8"
        );
        let hardened = key.child(HARDENED).unwrap();
        assert_eq!(
            hardened.public_text(),
            "xpub68Gmy5EdvgibQVfPdqkBBCHxA5htiqg55crXYuXoQRKfDBFA1WEjWgP6LHhwBZeNK1VTsfTFUHCdrfp1bgwQ9xv5ski8PX9rL2dZXvgGDnw"
        );
        let child = hardened.child(1).unwrap();
        let want = "xpub6ASuArnXKPbfEwhqN6e3mwBcDTgzisQN1wXN9BJcM47sSikHjJf3UFHKkNAWbWMiGj7Wf5uMash7SyYq527Hqck2AxYysAA7xmALppuCkwQ";
        assert_eq!(child.public_text(), want);
        // The same without the private key.
        let public = ExtendedKey::parse(&hardened.public_text(), Network::Main).unwrap();
        assert_eq!(public.child(1).unwrap().public_text(), want);
        assert!(public.child(HARDENED).is_none() && public.secret().is_none());
        assert!(
            ExtendedKey::parse(master, Network::Regtest).is_none()
                && ExtendedKey::parse("xpub", Network::Main).is_none()
        );
    }
}
