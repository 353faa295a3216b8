//! Signed spends of every kind a template knows, in parts that can be changed.
//!
//! In:     a seed.
//! Out:    [`Spend`]: a transaction whose subject input is valid under all rules, as elements before they are encoded.
//! Fails:  never.
//! Source: BIP 16, 141, 143, 341, 342; messages come from our own `Sighasher`, and the interpreter judges them.

use consensus::script::{Sighasher, TxCoins};
use primitives::hash::{hash160, sha256};
use primitives::{SpentCoins, Transaction};
use secp256k1::{Keypair, Message, Parity, Scalar, SecretKey, ecdsa, schnorr};
use stdx::random::Random;

use crate::published::push;
use crate::raw::{RawInput, RawTx, coins};

/// A script of a taproot tree.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub version: u8,
    pub script: Vec<u8>,
}

/// A taproot output whose leaves hang on a comb: leaf 0 at the top, each next one a level below.
#[derive(Clone, Debug)]
pub struct Tree {
    internal: [u8; 32],
    leaves: Vec<Leaf>,
    odd: bool,
    pub output_key: [u8; 32],
    /// What to sign the key path with.
    pub output_pair: Keypair,
}

fn tagged(tag: &str, parts: &[&[u8]]) -> [u8; 32] {
    let tag = sha256(tag.as_bytes());
    sha256(&[&tag[..], &tag, &parts.concat()].concat())
}

fn branch(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
    tagged("TapBranch", &[&a.min(b), &a.max(b)])
}

impl Leaf {
    pub fn hash(&self) -> [u8; 32] {
        let mut length = Vec::new();
        primitives::encode::put_compact_size(&mut length, self.script.len() as u64);
        tagged("TapLeaf", &[&[self.version], &length, &self.script])
    }
}

impl Tree {
    pub fn new(internal: &SecretKey, leaves: &[Leaf]) -> Tree {
        let pair = Keypair::from_secret_key(internal);
        let key = pair.x_only_public_key().0.to_byte_array();
        let root = leaves
            .split_last()
            .map(|(last, front)| front.iter().rev().fold(last.hash(), |below, leaf| branch(leaf.hash(), below)));
        let tweak = tagged("TapTweak", &[&key, root.as_ref().map_or(&[][..], |root| root)]);
        let output_pair = pair.add_xonly_tweak(&Scalar::from_be_bytes(tweak).unwrap()).unwrap();
        let (output, parity) = output_pair.x_only_public_key();
        let (odd, output_key) = (parity == Parity::Odd, output.to_byte_array());
        Tree { internal: key, leaves: leaves.to_vec(), odd, output_key, output_pair }
    }

    /// The control block of a leaf.
    pub fn control(&self, leaf: usize) -> Vec<u8> {
        let (last, front) = self.leaves.split_last().unwrap();
        let mut control = vec![self.leaves[leaf].version | u8::from(self.odd)];
        control.extend(self.internal);
        // What hangs below the leaf's level, then the leaves above, upwards.
        if leaf < front.len() {
            let below = front[leaf + 1..].iter().rev().fold(last.hash(), |below, leaf| branch(leaf.hash(), below));
            control.extend(below);
        }
        for above in self.leaves[..leaf].iter().rev() {
            control.extend(above.hash());
        }
        control
    }
}

/// The kinds of spends; names are for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    P2pk,
    P2pkh,
    P2wpkh,
    P2shP2wpkh,
    Multisig,
    P2shMultisig,
    P2wshMultisig,
    P2shP2wshMultisig,
    P2wshP2pk,
    P2shP2pkh,
    KeyPath,
    LeafPath,
}

impl Kind {
    pub const ALL: [Kind; 12] = [
        Kind::P2pk,
        Kind::P2pkh,
        Kind::P2wpkh,
        Kind::P2shP2wpkh,
        Kind::Multisig,
        Kind::P2shMultisig,
        Kind::P2wshMultisig,
        Kind::P2shP2wshMultisig,
        Kind::P2wshP2pk,
        Kind::P2shP2pkh,
        Kind::KeyPath,
        Kind::LeafPath,
    ];
}

/// A transaction with one subject input; its other inputs spend `OP_1`.
#[derive(Clone, Debug)]
pub struct Spend {
    pub tx: RawTx,
    pub subject: usize,
    pub value_sat: u64,
    pub script: Vec<u8>,
    /// Elements that the input script pushes.
    pub pushes: Vec<Vec<u8>>,
}

fn secret(random: &mut Random) -> SecretKey {
    SecretKey::from_secret_bytes(random.bytes()).expect("a number above the group order comes once in 2^128")
}

/// A public key in one of its forms; only before segwit is every form standard, but every form is valid.
fn key_bytes(random: &mut Random, secret: &SecretKey) -> Vec<u8> {
    let public = secret.public_key();
    let mut long = public.serialize_uncompressed();
    match random.below(6) {
        0 => long.to_vec(),
        1 => {
            long[0] = 6 + (long[64] & 1);
            long.to_vec()
        }
        _ => public.serialize().to_vec(),
    }
}

fn p2pk(key: &[u8]) -> Vec<u8> {
    [&[key.len() as u8], key, &[0xac]].concat()
}

fn p2pkh(key: &[u8]) -> Vec<u8> {
    [&[0x76, 0xa9, 0x14], &hash160(key)[..], &[0x88, 0xac]].concat()
}

fn p2sh(redeem: &[u8]) -> Vec<u8> {
    [&[0xa9, 0x14], &hash160(redeem)[..], &[0x87]].concat()
}

fn p2wsh(script: &[u8]) -> Vec<u8> {
    [&[0x00, 0x20], &sha256(script)[..]].concat()
}

fn number(value: usize) -> Vec<u8> {
    if value <= 16 { vec![0x50 + value as u8] } else { vec![1, value as u8] }
}

/// An m-of-n script, its keys and the positions of those that sign.
fn multisig(random: &mut Random, keys_max: u64) -> (Vec<u8>, Vec<SecretKey>) {
    let count = 1 + random.below(keys_max) as usize;
    let required = 1 + random.below(count as u64) as usize;
    let secrets: Vec<SecretKey> = (0..count).map(|_| secret(random)).collect();
    let mut script = number(required);
    for one in &secrets {
        push(&mut script, &one.public_key().serialize());
    }
    script.extend(number(count));
    script.push(0xae);
    let mut places: Vec<usize> = (0..count).collect();
    random.shuffle(&mut places);
    places.truncate(required);
    places.sort_unstable();
    (script, places.into_iter().map(|place| secrets[place]).collect())
}

impl Spend {
    /// A valid spend of `kind`.
    pub fn new(random: &mut Random, kind: Kind) -> Spend {
        let inputs = 1 + random.below(3) as usize;
        let subject = random.below(inputs as u64) as usize;
        let input = |random: &mut Random| RawInput {
            outpoint: random.bytes(),
            script_sig: vec![],
            sequence: random.next_u64() as u32,
            witness: vec![],
        };
        let output = |random: &mut Random| (random.below(1 << 50) as i64, random.bytes::<22>().to_vec());
        let tx = RawTx {
            version: random.next_u64() as u32,
            inputs: (0..inputs).map(|_| input(random)).collect(),
            outputs: (0..1 + random.below(3)).map(|_| output(random)).collect(),
            lock_time: random.next_u64() as u32,
        };
        let value_sat = random.below(1 << 50);
        let mut spend = Spend { tx, subject, value_sat, script: vec![], pushes: vec![] };
        match kind {
            Kind::KeyPath | Kind::LeafPath => spend.sign_taproot(random, kind),
            _ => spend.sign_ecdsa(random, kind),
        }
        spend
    }

    /// The transaction with its pushes written by the shortest opcodes.
    pub fn transaction(&self) -> Transaction {
        let mut tx = self.tx.clone();
        let mut script_sig = Vec::new();
        self.pushes.iter().for_each(|item| push(&mut script_sig, item));
        tx.inputs[self.subject].script_sig.extend(script_sig);
        tx.parse()
    }

    /// The coins it spends.
    pub fn coins(&self) -> SpentCoins {
        let spent = (0..self.tx.inputs.len()).map(|input| match input == self.subject {
            true => (self.value_sat, &self.script[..]),
            false => (7, &[0x51][..]),
        });
        coins(spent)
    }

    fn sign_ecdsa(&mut self, random: &mut Random, kind: Kind) {
        let single = secret(random);
        let key = key_bytes(random, &single);
        let keys_max = if kind == Kind::P2shMultisig { 15 } else { 20 };
        let (inner, signers) = match kind {
            Kind::P2pk | Kind::P2wshP2pk => (p2pk(&key), vec![single]),
            Kind::P2pkh | Kind::P2wpkh | Kind::P2shP2wpkh | Kind::P2shP2pkh => (p2pkh(&key), vec![single]),
            _ => multisig(random, keys_max.min(1 + random.clone().below(keys_max))),
        };
        let segwit = matches!(
            kind,
            Kind::P2wpkh | Kind::P2shP2wpkh | Kind::P2wshMultisig | Kind::P2shP2wshMultisig | Kind::P2wshP2pk
        );
        let is_multisig = inner.ends_with(&[0xae]);
        let mut stack: Vec<Vec<u8>> = if is_multisig { vec![vec![]] } else { vec![] };
        for signer in &signers {
            stack.push(self.ecdsa(random, signer, &inner, segwit));
        }
        if inner.starts_with(&[0x76]) {
            stack.push(key.clone());
        }
        let program = [&[0x00, 0x14], &hash160(&key)[..]].concat();
        match kind {
            Kind::P2pk | Kind::P2pkh | Kind::Multisig => (self.script, self.pushes) = (inner, stack),
            Kind::P2shMultisig | Kind::P2shP2pkh => {
                self.script = p2sh(&inner);
                stack.push(inner);
                self.pushes = stack;
            }
            Kind::P2wpkh => (self.script, self.tx.inputs[self.subject].witness) = (program, stack),
            Kind::P2shP2wpkh => {
                (self.script, self.pushes) = (p2sh(&program), vec![program]);
                self.tx.inputs[self.subject].witness = stack;
            }
            _ => {
                let program = p2wsh(&inner);
                stack.push(inner);
                self.tx.inputs[self.subject].witness = stack;
                if kind == Kind::P2shP2wshMultisig {
                    (self.script, self.pushes) = (p2sh(&program), vec![program]);
                } else {
                    self.script = program;
                }
            }
        }
    }

    /// A signature with any hash type, defined or not.
    fn ecdsa(&self, random: &mut Random, signer: &SecretKey, code: &[u8], segwit: bool) -> Vec<u8> {
        let hash_type = match random.below(8) {
            0 => random.next_u64() as u8,
            n => [1, 1, 1, 2, 3, 0x81, 0x83][n as usize - 1],
        };
        let (transaction, coins) = (self.tx.parse(), self.coins());
        let mut hasher = Sighasher::new(transaction.tx(), TxCoins::new(&coins, 0, coins.len()));
        let message = match segwit {
            true => hasher.segwit_v0(self.subject, code, hash_type.into()),
            false => hasher.legacy(self.subject, code, hash_type.into()),
        };
        let mut signature = ecdsa::sign(Message::from_digest(message), signer).serialize_der().to_vec();
        signature.push(hash_type);
        signature
    }

    fn sign_taproot(&mut self, random: &mut Random, kind: Kind) {
        let (internal, signer) = (secret(random), Keypair::from_secret_key(&secret(random)));
        let key = signer.x_only_public_key().0.to_byte_array();
        let script = [&[0x20], &key[..], &[0xac]].concat();
        let mut leaves: Vec<Leaf> =
            (0..random.below(4)).map(|_| Leaf { version: 0xc0, script: random.bytes::<9>().to_vec() }).collect();
        let place = random.below(leaves.len() as u64 + 1) as usize;
        leaves.insert(place, Leaf { version: 0xc0, script: script.clone() });
        let tree = Tree::new(&internal, &leaves);
        self.script = [&[0x51, 0x20], &tree.output_key[..]].concat();

        let hash_type = *[0, 0, 0, 1, 2, 0x81, 0x82].get(random.below(9) as usize).unwrap_or(&3);
        // SIGHASH_SINGLE needs an output at the input's position.
        let hash_type = if hash_type == 3 && self.subject >= self.tx.outputs.len() { 1 } else { hash_type };
        let annex = random.chance(1, 4).then(|| [&[0x50], &random.bytes::<5>()[..]].concat());
        let annex_hash = annex.as_ref().map(|annex| sha256(&[&[annex.len() as u8], &annex[..]].concat()));
        let (transaction, coins) = (self.tx.parse(), self.coins());
        let mut hasher = Sighasher::new(transaction.tx(), TxCoins::new(&coins, 0, coins.len()));
        let (pair, leaf) = match kind {
            Kind::LeafPath => (&signer, Some(leaves[place].hash())),
            _ => (&tree.output_pair, None),
        };
        let message = hasher.taproot(self.subject, hash_type, annex_hash.as_ref(), leaf.as_ref()).unwrap();
        let mut signature = schnorr::sign_no_aux_rand(&message, pair).to_byte_array().to_vec();
        if hash_type != 0 {
            signature.push(hash_type);
        }
        let witness = &mut self.tx.inputs[self.subject].witness;
        witness.push(signature);
        if kind == Kind::LeafPath {
            witness.extend([script, tree.control(place)]);
        }
        witness.extend(annex);
    }
}
