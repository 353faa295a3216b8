//! Opening the locks of coins with keys and scripts that came along.
//!
//! In:     a transaction, the coins it spends, keys, scripts, a hash type.
//! Out:    input script and witness of one input, as far as the keys reach; signatures that were there are kept.
//! Fails:  [`Opened::complete`] is false where something is missing.
//! Source: Bitcoin Core, `src/script/sign.cpp` (`ProduceSignature`, `SignStep`, `DataFromTransaction`).
//!
//! Known are P2PK, P2PKH, multisignatures, each also in P2SH, P2WSH and both; P2WPKH, also in P2SH; and the key path of
//! P2TR, for keys that are the output's own or its internal one without scripts.

use std::collections::HashMap;

use consensus::script::Sighasher;
use primitives::Tx;
use primitives::hash::{hash160, sha256};
use primitives::script::{Operation, Operations, ScriptType};
use secp256k1::{Keypair, Message, PublicKey, ecdsa, schnorr};

use super::descriptor::taproot_output;
use super::draft::push_data;
use super::secret::Secret;
use crate::decoded::descriptor::small_number;

/// Keys and scripts that came with a request.
#[derive(Debug, Default)]
pub struct Material {
    /// By HASH160 of the public key as it is written.
    keys: HashMap<[u8; 20], Secret>,
    /// By HASH160.
    scripts: HashMap<[u8; 20], Vec<u8>>,
}

/// How signatures are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashType {
    /// Everything: the short form in taproot.
    Default,
    /// This byte.
    Byte(u8),
}

impl HashType {
    fn byte(self) -> u8 {
        match self {
            HashType::Default => 1,
            HashType::Byte(byte) => byte,
        }
    }
}

/// What opens an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Its script.
    pub script_sig: Vec<u8>,
    /// Its witness.
    pub witness: Vec<Vec<u8>>,
    /// True where nothing is missing.
    pub complete: bool,
    /// Signatures, those that were there included.
    pub signatures: usize,
}

/// Which hash a signature is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    BeforeSegwit,
    Segwit,
}

impl Material {
    /// Adds a key.
    pub fn add_key(&mut self, secret: Secret) {
        self.keys.insert(secret.id(), secret);
    }

    /// Adds a script.
    pub fn add_script(&mut self, script: Vec<u8>) {
        self.scripts.insert(hash160(&script), script);
    }

    fn script_of_sha256(&self, program: &[u8]) -> Option<&Vec<u8>> {
        self.scripts.values().find(|script| sha256(script) == program)
    }
}

/// What one input is opened with.
pub struct Opener<'a, 'b> {
    /// Hashes of its transaction.
    pub hasher: &'a mut Sighasher<'b>,
    /// Its position.
    pub input: usize,
    /// Keys and scripts.
    pub material: &'a Material,
    /// How signatures are hashed.
    pub hash_type: HashType,
    /// Signatures that were there.
    pub candidates: Vec<Vec<u8>>,
}

/// What an input script and witness push that may be signatures or scripts.
pub fn candidates(tx: &Tx<'_>, input: usize) -> Vec<Vec<u8>> {
    let input = tx.input(input);
    let pushes = Operations::of(input.script_sig()).map(|operation| operation.data.to_vec());
    pushes.chain(input.witness().map(<[u8]>::to_vec)).filter(|item| !item.is_empty()).collect()
}

/// A stack to put in front of a script, and what it is worth.
struct Solved {
    stack: Vec<Vec<u8>>,
    complete: bool,
    signatures: usize,
}

impl Solved {
    const NOTHING: Solved = Solved { stack: Vec::new(), complete: false, signatures: 0 };

    fn of(stack: Vec<Vec<u8>>, signatures: usize) -> Solved {
        Solved { stack, complete: true, signatures }
    }
}

impl Opener<'_, '_> {
    /// Opens the lock `script`.
    pub fn open(&mut self, script: &[u8]) -> Opened {
        match ScriptType::of(script) {
            ScriptType::ScriptHash => self.open_script_hash(script),
            ScriptType::WitnessV0KeyHash | ScriptType::WitnessV0ScriptHash => {
                let solved = self.open_witness(script);
                Opened { script_sig: Vec::new(), witness: solved.stack, ..told(solved.complete, solved.signatures) }
            }
            ScriptType::WitnessV1Taproot => self.open_taproot(script[2..34].try_into().expect("32 bytes")),
            _ => {
                let solved = self.solve(script, Era::BeforeSegwit);
                Opened { script_sig: pushed(&solved.stack), ..told(solved.complete, solved.signatures) }
            }
        }
    }

    /// A script by its hash: one that came along, or one that the input shows already.
    fn known_script(&self, is: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let material = self.material.scripts.values();
        material.chain(&self.candidates).find(|script| is(script)).cloned()
    }

    fn open_script_hash(&mut self, script: &[u8]) -> Opened {
        let hash = &script[2..22];
        let key_program = |secret: &Secret| super::descriptor::witness_v0(&secret.id());
        let nested = self.material.keys.values().filter(|secret| secret.compressed).map(key_program);
        let nested = nested.into_iter().find(|program| hash160(program) == hash);
        let Some(inner) = nested.or_else(|| self.known_script(|script| hash160(script) == hash)) else {
            return Opened::default();
        };
        let kind = ScriptType::of(&inner);
        if matches!(kind, ScriptType::WitnessV0KeyHash | ScriptType::WitnessV0ScriptHash) {
            let solved = self.open_witness(&inner);
            let witness = solved.stack;
            return Opened { script_sig: pushed(&[inner]), witness, ..told(solved.complete, solved.signatures) };
        }
        let mut solved = self.solve(&inner, Era::BeforeSegwit);
        solved.stack.push(inner);
        Opened { script_sig: pushed(&solved.stack), ..told(solved.complete, solved.signatures) }
    }

    fn open_witness(&mut self, script: &[u8]) -> Solved {
        let program = &script[2..];
        if program.len() == 20 {
            let lock = [&[0x76, 0xa9, 20][..], program, &[0x88, 0xac]].concat();
            return self.solve(&lock, Era::Segwit);
        }
        let known = self.material.script_of_sha256(program).cloned();
        let Some(inner) = known.or_else(|| self.known_script(|script| sha256(script) == program)) else {
            return Solved::NOTHING;
        };
        let mut solved = self.solve(&inner, Era::Segwit);
        solved.stack.push(inner);
        solved
    }

    /// The stack for a lock that is no hash of a script.
    fn solve(&mut self, lock: &[u8], era: Era) -> Solved {
        match ScriptType::of(lock) {
            ScriptType::Pubkey => match self.signature(&lock[1..lock.len() - 1], lock, era) {
                Some(signature) => Solved::of(vec![signature], 1),
                None => Solved::NOTHING,
            },
            ScriptType::PubkeyHash => self.solve_key_hash(lock, era),
            ScriptType::Multisig => self.solve_multisig(lock, era),
            _ => Solved::NOTHING,
        }
    }

    fn solve_key_hash(&mut self, lock: &[u8], era: Era) -> Solved {
        let id: [u8; 20] = lock[3..23].try_into().expect("20 bytes");
        let shown = self.candidates.iter().find(|item| hash160(item) == id).cloned();
        let Some(key) = self.material.keys.get(&id).map(Secret::public).or(shown) else { return Solved::NOTHING };
        // A witness program never opens with a long key.
        if era == Era::Segwit && key.len() != 33 {
            return Solved::NOTHING;
        }
        match self.signature(&key, lock, era) {
            Some(signature) => Solved::of(vec![signature, key], 1),
            None => Solved::NOTHING,
        }
    }

    fn solve_multisig(&mut self, lock: &[u8], era: Era) -> Solved {
        let mut operations = Operations::of(lock);
        let required = operations.next().map_or(0, |first| small_number(&first)) as usize;
        let keys: Vec<&[u8]> =
            operations.map_while(|Operation { data, .. }| (data.len() >= 33).then_some(data)).collect();
        // CHECKMULTISIG takes one element more than it looks at.
        let mut stack = vec![Vec::new()];
        for key in keys {
            if stack.len() <= required
                && let Some(signature) = self.signature(key, lock, era)
            {
                stack.push(signature);
            }
        }
        let signatures = stack.len() - 1;
        stack.resize(required + 1, Vec::new());
        Solved { stack, complete: signatures == required, signatures }
    }

    fn digest(&mut self, lock: &[u8], era: Era, hash_type: u8) -> [u8; 32] {
        match era {
            Era::BeforeSegwit => self.hasher.legacy(self.input, lock, hash_type.into()),
            Era::Segwit => self.hasher.segwit_v0(self.input, lock, hash_type.into()),
        }
    }

    /// A signature by `key`: a new one, or one that was there.
    fn signature(&mut self, key: &[u8], lock: &[u8], era: Era) -> Option<Vec<u8>> {
        if let Some(secret) = self.material.keys.get(&hash160(key)) {
            let hash_type = self.hash_type.byte();
            let digest = self.digest(lock, era, hash_type);
            let mut signature = ecdsa::sign_low_r(Message::from_digest(digest), &secret.key).serialize_der().to_vec();
            signature.push(hash_type);
            return Some(signature);
        }
        let key = PublicKey::from_slice(key).ok()?;
        for candidate in self.candidates.clone() {
            let (&hash_type, der) = candidate.split_last()?;
            let Ok(signature) = ecdsa::Signature::from_der(der) else { continue };
            let digest = self.digest(lock, era, hash_type);
            if ecdsa::verify(&signature, Message::from_digest(digest), &key).is_ok() {
                return Some(candidate);
            }
        }
        None
    }

    fn open_taproot(&mut self, output: [u8; 32]) -> Opened {
        let hash_type = match self.hash_type {
            HashType::Default => 0,
            HashType::Byte(byte) => byte,
        };
        let Some(digest) = self.hasher.taproot(self.input, hash_type, None, None) else { return Opened::default() };
        let pair = self.material.keys.values().find_map(|secret| output_pair(secret, &output));
        let signature = match pair {
            Some(pair) => {
                let mut signature = schnorr::sign_with_aux_rand(&digest, &pair, &[0; 32]).to_byte_array().to_vec();
                if hash_type != 0 {
                    signature.push(hash_type);
                }
                signature
            }
            // A signature of 64 or 65 bytes that was there stays; the interpreter judges it.
            None => match self.candidates.first().filter(|item| matches!(item.len(), 64 | 65)) {
                Some(signature) => signature.clone(),
                None => return Opened::default(),
            },
        };
        Opened { witness: vec![signature], ..told(true, 1) }
    }
}

/// The key pair that signs for a taproot output: the key itself, or the key as internal key without scripts.
fn output_pair(secret: &Secret, output: &[u8; 32]) -> Option<Keypair> {
    let pair = Keypair::from_secret_key(&secret.key);
    let internal = pair.x_only_public_key().0.to_byte_array();
    if internal == *output {
        return Some(pair);
    }
    if taproot_output(&internal)? != *output {
        return None;
    }
    let tag = sha256(b"TapTweak");
    let tweak = secp256k1::Scalar::from_be_bytes(sha256(&[&tag[..], &tag, &internal].concat())).ok()?;
    pair.add_xonly_tweak(&tweak).ok()
}

fn told(complete: bool, signatures: usize) -> Opened {
    Opened { complete, signatures, ..Opened::default() }
}

fn pushed(stack: &[Vec<u8>]) -> Vec<u8> {
    let mut script = Vec::new();
    stack.iter().for_each(|item| push_data(&mut script, item));
    script
}
