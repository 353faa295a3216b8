//! Opening locks: input scripts and witnesses with their signatures.
//!
//! In:     a draft, the coins it spends with their locks, keys.
//! Out:    the same draft with every input script and witness in place.
//! Fails:  never.
//! Source: BIP 11, 16, 141, 143, 341, 342.

use primitives::hash::sha256;

use super::draft::Draft;
use super::keys::{Keyring, Signer};
use super::lock::{Kind, Lock, OP_0, pay_to_hash, pushed, witness_program};
use super::sighash::{self, Parts, SignedCoin};

/// A coin, how it opens, and the hash type its signatures use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The coin.
    pub coin: SignedCoin,
    /// Its lock.
    pub lock: Lock,
    /// Hash type; [`sighash::ALL`] becomes [`sighash::DEFAULT`] in taproot.
    pub hash_type: u8,
}

/// Signs every input; `coins` in the order of the inputs. Returns the number of signatures.
pub fn sign(draft: &mut Draft, coins: &[Opening], keys: &Keyring) -> u64 {
    let signed: Vec<SignedCoin> = coins.iter().map(|coin| coin.coin.clone()).collect();
    let parts = Parts::of(draft, &signed);
    let mut signatures = 0;
    for (index, opening) in coins.iter().enumerate() {
        let mut signer = InputSigner { draft, parts: &parts, index, opening, keys, signatures: 0 };
        let (script_sig, witness) = signer.open();
        signatures += signer.signatures;
        draft.inputs[index].script_sig = script_sig;
        draft.inputs[index].witness = witness;
    }
    signatures
}

struct InputSigner<'a> {
    draft: &'a Draft,
    parts: &'a Parts,
    index: usize,
    opening: &'a Opening,
    keys: &'a Keyring,
    signatures: u64,
}

impl InputSigner<'_> {
    fn legacy(&mut self, key: u32, script_code: &[u8]) -> Vec<u8> {
        let digest = sighash::legacy(self.draft, self.index, script_code, self.opening.hash_type);
        self.ecdsa(key, &digest)
    }

    fn version_0(&mut self, key: u32, script_code: &[u8]) -> Vec<u8> {
        let Opening { coin, hash_type, .. } = self.opening;
        let digest = sighash::version_0(self.draft, self.parts, self.index, script_code, coin.value_sat, *hash_type);
        self.ecdsa(key, &digest)
    }

    fn ecdsa(&mut self, key: u32, digest: &[u8; 32]) -> Vec<u8> {
        self.signatures += 1;
        let mut signature = self.keys.ecdsa(&self.keys.secret(key), digest);
        signature.push(self.opening.hash_type);
        signature
    }

    fn taproot(&mut self, signer: &Signer, leaf: Option<[u8; 32]>) -> Vec<u8> {
        self.signatures += 1;
        let plain = self.opening.hash_type == sighash::ALL;
        let hash_type = if plain { sighash::DEFAULT } else { self.opening.hash_type };
        let digest = sighash::taproot(self.draft, self.parts, self.index, &self.opening.coin, hash_type, leaf);
        let mut signature = self.keys.schnorr(signer, &digest).to_vec();
        if !plain {
            signature.push(hash_type);
        }
        signature
    }

    /// Input script and witness.
    fn open(&mut self) -> (Vec<u8>, Vec<Vec<u8>>) {
        use Kind::*;
        let lock = self.opening.lock;
        let (key, second, third) = (lock.key, lock.key.wrapping_add(1), lock.key.wrapping_add(2));
        let script = self.opening.coin.script.clone();
        let stack: Vec<Vec<u8>> = Vec::new();
        match lock.kind {
            P2pk | P2pkUncompressed => (pushed(&[&self.legacy(key, &script)]), stack),
            P2pkh => (pushed(&[&self.legacy(key, &script), &self.keys.compressed(key)]), stack),
            P2pkhUncompressed => (pushed(&[&self.legacy(key, &script), &self.keys.uncompressed(key)]), stack),
            // Which of the keys sign goes by the key number, so every combination occurs.
            Multisig1of2 => (pushed(&[&[], &self.legacy(if key % 2 == 0 { key } else { second }, &script)]), stack),
            Multisig2of3 => {
                let other = if key % 2 == 0 { second } else { third };
                (pushed(&[&[], &self.legacy(key, &script), &self.legacy(other, &script)]), stack)
            }
            P2shMultisig => {
                let inner = lock.inner_script(self.keys);
                let first = if key % 3 == 0 { second } else { key };
                (pushed(&[&[], &self.legacy(first, &inner), &self.legacy(third, &inner), &inner]), stack)
            }
            P2shHeightLock | P2shTimeLock => {
                let inner = lock.inner_script(self.keys);
                (pushed(&[&self.legacy(key, &inner), &inner]), stack)
            }
            P2wpkh | P2shP2wpkh => {
                let public = self.keys.compressed(key);
                let signature = self.version_0(key, &pay_to_hash(&public));
                let nested = lock.kind == P2shP2wpkh;
                let script_sig = if nested { pushed(&[&lock.inner_script(self.keys)]) } else { Vec::new() };
                (script_sig, vec![signature, public.to_vec()])
            }
            P2trKey | P2trKeyOverTree => {
                let root = (lock.kind == P2trKeyOverTree).then(|| lock.leaf(self.keys).root());
                let signer = self.keys.tweaked(key, root);
                (Vec::new(), vec![self.taproot(&signer, None)])
            }
            P2trSingleKey | P2trMultisig | P2trHashLock => (Vec::new(), self.open_leaf()),
            BareHashLock => (pushed(&[&lock.preimage()]), stack),
            FutureWitness | Anchor => (Vec::new(), stack),
            _ => self.open_witness_script(),
        }
    }

    fn open_witness_script(&mut self) -> (Vec<u8>, Vec<Vec<u8>>) {
        let lock = self.opening.lock;
        let inner = lock.inner_script(self.keys);
        let (key, second) = (lock.key, lock.key.wrapping_add(1));
        let signature = self.version_0(key, &inner);
        let witness = match lock.kind {
            Kind::P2wshMultisig | Kind::P2shP2wsh => vec![Vec::new(), signature, self.version_0(second, &inner), inner],
            Kind::P2wshHashLock => vec![signature, lock.preimage().to_vec(), vec![1], inner],
            _ => vec![signature, inner],
        };
        let nested = lock.kind == Kind::P2shP2wsh;
        let program = || witness_program(OP_0, &sha256(&lock.inner_script(self.keys)));
        (if nested { pushed(&[&program()]) } else { Vec::new() }, witness)
    }

    fn open_leaf(&mut self) -> Vec<Vec<u8>> {
        let lock = self.opening.lock;
        let leaf = lock.leaf(self.keys);
        let hash = Some(leaf.hash());
        let first = self.taproot(&self.keys.signer(lock.key.wrapping_add(1)), hash);
        let mut witness = match lock.kind {
            Kind::P2trMultisig => {
                let second = self.taproot(&self.keys.signer(lock.key.wrapping_add(2)), hash);
                vec![second, first]
            }
            Kind::P2trHashLock => vec![first, lock.preimage().to_vec()],
            _ => vec![first],
        };
        let output = self.keys.tweaked(lock.key, Some(leaf.root()));
        witness.push(leaf.script.clone());
        witness.push(leaf.control(&self.keys.signer(lock.key), &output));
        witness
    }
}
