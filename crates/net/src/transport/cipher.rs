//! The ciphers of one encrypted connection.
//!
//! | bytes of a packet   | meaning                                                             |
//! |---------------------|---------------------------------------------------------------------|
//! | 0..3                | length of the contents, little endian, under the length cipher      |
//! | 3                   | header: bit 7 says the packet is a decoy; under the packet cipher   |
//! | 4..4+n              | contents; under the packet cipher                                   |
//! | 4+n..20+n           | tag over header, contents and associated data                       |
//!
//! In:     a secret key, both public keys, the network's magic.
//! Out:    packets, the garbage terminators and the session's number.
//! Fails:  a packet whose tag is wrong is `None`.
//! Source: BIP 324 ("Keys and session ID derivation", `FSChaCha20`, `FSChaCha20Poly1305`).
//!
//! Every 224 packets each cipher changes its key for one that does not lead back to it.

use bitcoin_hashes::{hkdf, sha256};
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};
use secp256k1::SecretKey;
use secp256k1::ellswift::{ElligatorSwift, Party};

use super::Role;

/// Bytes of an encrypted length.
pub const LENGTH_BYTES: usize = 3;
/// Bytes of the header inside a packet.
pub const HEADER_BYTES: usize = 1;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;
/// Bytes of a garbage terminator.
pub const TERMINATOR_BYTES: usize = 16;
/// Header of a packet that is to be ignored.
pub const DECOY: u8 = 0x80;
/// Packets under one key.
const REKEY_INTERVAL: u64 = 224;

/// The stream cipher of lengths (`FSChaCha20`).
struct LengthCipher {
    stream: ChaCha20,
    count: u64,
}

impl LengthCipher {
    fn new(key: [u8; 32]) -> LengthCipher {
        LengthCipher { stream: ChaCha20::new(&key.into(), &[0; 12].into()), count: 0 }
    }

    fn crypt(&mut self, length: &mut [u8; LENGTH_BYTES]) {
        self.stream.apply_keystream(length);
        self.count += 1;
        if self.count.is_multiple_of(REKEY_INTERVAL) {
            let mut key = [0; 32];
            self.stream.apply_keystream(&mut key);
            self.stream = ChaCha20::new(&key.into(), &nonce(0, self.count).into());
        }
    }
}

/// The nonce of a packet: its number under the key, and the number of the key.
fn nonce(low: u32, count: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&low.to_le_bytes());
    nonce[4..].copy_from_slice(&(count / REKEY_INTERVAL).to_le_bytes());
    nonce
}

/// The cipher of packets (`FSChaCha20Poly1305`).
struct PacketCipher {
    cipher: ChaCha20Poly1305,
    count: u64,
}

impl PacketCipher {
    fn new(key: [u8; 32]) -> PacketCipher {
        PacketCipher { cipher: ChaCha20Poly1305::new(&key.into()), count: 0 }
    }

    fn encrypt(&mut self, aad: &[u8], text: &mut [u8]) -> [u8; TAG_BYTES] {
        let nonce = nonce((self.count % REKEY_INTERVAL) as u32, self.count);
        let tag = self.cipher.encrypt_inout_detached(&nonce.into(), aad, text.into());
        self.advance();
        tag.expect("packets are far below 256 GiB").into()
    }

    fn decrypt(&mut self, aad: &[u8], text: &mut [u8], tag: [u8; TAG_BYTES]) -> bool {
        let nonce = nonce((self.count % REKEY_INTERVAL) as u32, self.count);
        let verdict = self.cipher.decrypt_inout_detached(&nonce.into(), aad, text.into(), &tag.into());
        self.advance();
        verdict.is_ok()
    }

    fn advance(&mut self) {
        if (self.count + 1).is_multiple_of(REKEY_INTERVAL) {
            let mut key = [0; 32];
            let encrypted =
                self.cipher.encrypt_inout_detached(&nonce(u32::MAX, self.count).into(), &[], key.as_mut_slice().into());
            encrypted.expect("32 bytes are few");
            self.cipher = ChaCha20Poly1305::new(&key.into());
        }
        self.count += 1;
    }
}

/// All that both sides derive from their keys.
pub struct SessionCipher {
    send_length: LengthCipher,
    send_packet: PacketCipher,
    receive_length: LengthCipher,
    receive_packet: PacketCipher,
    /// What ends our garbage.
    pub send_terminator: [u8; TERMINATOR_BYTES],
    /// What ends theirs.
    pub receive_terminator: [u8; TERMINATOR_BYTES],
    /// The same for both sides, and for nobody else.
    pub session_id: [u8; 32],
}

impl SessionCipher {
    /// Derives everything from our secret key and both encoded public keys.
    pub fn new(key: SecretKey, ours: [u8; 64], theirs: [u8; 64], role: Role, magic: [u8; 4]) -> SessionCipher {
        let (ours, theirs) = (ElligatorSwift::from_array(ours), ElligatorSwift::from_array(theirs));
        let secret = match role {
            Role::Initiator => ElligatorSwift::shared_secret(ours, theirs, key, Party::Initiator),
            Role::Responder => ElligatorSwift::shared_secret(theirs, ours, key, Party::Responder),
        };
        let salt = [&b"bitcoin_v2_shared_secret"[..], &magic].concat();
        let derived = hkdf::Hkdf::<sha256::HashEngine>::new(&salt, secret.as_secret_bytes());
        let key_of = |info: &str| {
            let mut key = [0; 32];
            derived.expand(info.as_bytes(), &mut key).expect("32 bytes are within the bound of HKDF");
            key
        };
        let initiator = (LengthCipher::new(key_of("initiator_L")), PacketCipher::new(key_of("initiator_P")));
        let responder = (LengthCipher::new(key_of("responder_L")), PacketCipher::new(key_of("responder_P")));
        let terminators = key_of("garbage_terminators");
        let of_initiator = terminators[..16].try_into().expect("half of 32");
        let of_responder = terminators[16..].try_into().expect("half of 32");
        let (send, receive, send_terminator, receive_terminator) = match role {
            Role::Initiator => (initiator, responder, of_initiator, of_responder),
            Role::Responder => (responder, initiator, of_responder, of_initiator),
        };
        SessionCipher {
            send_length: send.0,
            send_packet: send.1,
            receive_length: receive.0,
            receive_packet: receive.1,
            send_terminator,
            receive_terminator,
            session_id: key_of("session_id"),
        }
    }

    /// Appends a packet to `out`; `write` appends the contents.
    pub fn encrypt(&mut self, header: u8, aad: &[u8], out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend_from_slice(&[0, 0, 0, header]);
        write(out);
        let length = out.len() - start - LENGTH_BYTES - HEADER_BYTES;
        assert!(length < 1 << 24, "the length of a packet has three bytes");
        let mut encrypted: [u8; LENGTH_BYTES] = (length as u32).to_le_bytes()[..3].try_into().expect("three of four");
        self.send_length.crypt(&mut encrypted);
        out[start..start + LENGTH_BYTES].copy_from_slice(&encrypted);
        let tag = self.send_packet.encrypt(aad, &mut out[start + LENGTH_BYTES..]);
        out.extend_from_slice(&tag);
    }

    /// The length of the contents of the packet that follows.
    pub fn decrypt_length(&mut self, mut length: [u8; LENGTH_BYTES]) -> usize {
        self.receive_length.crypt(&mut length);
        u32::from_le_bytes([length[0], length[1], length[2], 0]) as usize
    }

    /// Turns header, contents and tag into header and contents, in place; false for a wrong tag.
    #[must_use]
    pub fn decrypt(&mut self, aad: &[u8], packet: &mut Vec<u8>) -> bool {
        let tag_start = packet.len() - TAG_BYTES;
        let tag = packet[tag_start..].try_into().expect("16 bytes");
        packet.truncate(tag_start);
        self.receive_packet.decrypt(aad, packet, tag)
    }
}
