//! Output scripts of every type.
//!
//! In:     a [`Lock`]: script type and key number; from it follows the script, and all it needs.
//! Out:    the output script; what opens them is in [`super::sign`].
//! Fails:  never; a lock that needs a sequence or lock time gets it from the planner ([`Lock::needs`]).
//! Source: BIP 11, 16, 65, 112, 141, 143, 341, 342.

use primitives::hash::{hash160, sha256};

use super::keys::{Keyring, Signer};
use super::sighash::tagged;

/// A type of output script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// `<33-byte key> CHECKSIG`.
    P2pk,
    /// `<65-byte key> CHECKSIG`.
    P2pkUncompressed,
    /// `DUP HASH160 <hash> EQUALVERIFY CHECKSIG`.
    P2pkh,
    /// The same for an uncompressed key.
    P2pkhUncompressed,
    /// Bare multisig, 1 of 2.
    Multisig1of2,
    /// Bare multisig, 2 of 3.
    Multisig2of3,
    /// Multisig 2 of 3 in P2SH.
    P2shMultisig,
    /// P2WPKH in P2SH.
    P2shP2wpkh,
    /// Version 0, 20 bytes.
    P2wpkh,
    /// Multisig 2 of 3 in P2WSH.
    P2wshMultisig,
    /// `<key> CHECKSIG` in P2WSH.
    P2wshP2pk,
    /// Multisig 2 of 2 in P2WSH in P2SH.
    P2shP2wsh,
    /// Version 1, key path, no script tree.
    P2trKey,
    /// Key path of an output that has a script tree.
    P2trKeyOverTree,
    /// Script path, `<key> CHECKSIG`, a tree of one or two leaves.
    P2trSingleKey,
    /// Script path, `<key> CHECKSIG <key> CHECKSIGADD 2 NUMEQUAL`.
    P2trMultisig,
    /// Script path, hash lock and key.
    P2trHashLock,
    /// P2SH of `<height> CHECKLOCKTIMEVERIFY DROP <key> CHECKSIG`.
    P2shHeightLock,
    /// P2SH of the same with a time.
    P2shTimeLock,
    /// P2WSH of `<blocks> CHECKSEQUENCEVERIFY DROP <key> CHECKSIG`.
    P2wshBlocksLock,
    /// P2WSH of the same with units of 512 seconds.
    P2wshSecondsLock,
    /// P2WSH of a hash lock with a time-locked way back, as payment channels use.
    P2wshHashLock,
    /// `SHA256 <hash> EQUAL`, bare.
    BareHashLock,
    /// Witness version 16: anyone may spend.
    FutureWitness,
    /// Version 1 with two bytes (pay to anchor): anyone may spend.
    Anchor,
}

impl Kind {
    /// Every type, in the order of their numbers.
    pub const ALL: [Kind; 25] = [
        Kind::P2pk,
        Kind::P2pkUncompressed,
        Kind::P2pkh,
        Kind::P2pkhUncompressed,
        Kind::Multisig1of2,
        Kind::Multisig2of3,
        Kind::P2shMultisig,
        Kind::P2shP2wpkh,
        Kind::P2wpkh,
        Kind::P2wshMultisig,
        Kind::P2wshP2pk,
        Kind::P2shP2wsh,
        Kind::P2trKey,
        Kind::P2trKeyOverTree,
        Kind::P2trSingleKey,
        Kind::P2trMultisig,
        Kind::P2trHashLock,
        Kind::P2shHeightLock,
        Kind::P2shTimeLock,
        Kind::P2wshBlocksLock,
        Kind::P2wshSecondsLock,
        Kind::P2wshHashLock,
        Kind::BareHashLock,
        Kind::FutureWitness,
        Kind::Anchor,
    ];

    /// True where a coin needs no lock time, no sequence and no waiting.
    pub fn is_spendable_at_once(self) -> bool {
        use Kind::*;
        !matches!(self, P2shHeightLock | P2shTimeLock | P2wshBlocksLock | P2wshSecondsLock)
    }

    /// True for outputs of BIP 341.
    pub fn is_taproot(self) -> bool {
        use Kind::*;
        matches!(self, P2trKey | P2trKeyOverTree | P2trSingleKey | P2trMultisig | P2trHashLock)
    }

    /// True where an input that spends it has a witness.
    pub fn has_witness(self) -> bool {
        use Kind::*;
        let version_0 = matches!(self, P2shP2wpkh | P2wpkh | P2wshMultisig | P2wshP2pk | P2shP2wsh)
            || matches!(self, P2wshBlocksLock | P2wshSecondsLock | P2wshHashLock);
        version_0 || self.is_taproot()
    }

    /// Bytes of the output script, and a bound on the weight of an input that spends it (signatures of 73 bytes).
    pub fn sizes(self) -> (u64, u64) {
        use Kind::*;
        // An input without script is 41 bytes, 164 units of weight; a byte of script is four, of witness one.
        let legacy = |script_sig: u64| 164 + 4 * (script_sig + 2);
        let nested = |script_sig: u64, witness: u64| 164 + 4 * script_sig + witness;
        match self {
            P2pk => (35, legacy(74)),
            P2pkUncompressed => (67, legacy(74)),
            P2pkh => (25, legacy(108)),
            P2pkhUncompressed => (25, legacy(140)),
            Multisig1of2 => (71, legacy(75)),
            Multisig2of3 => (105, legacy(149)),
            P2shMultisig => (23, legacy(256)),
            P2shP2wpkh => (23, nested(23, 109)),
            P2wpkh => (22, nested(0, 109)),
            P2wshMultisig => (34, nested(0, 257)),
            P2wshP2pk => (34, nested(0, 112)),
            P2shP2wsh => (23, nested(35, 224)),
            P2trKey | P2trKeyOverTree => (34, nested(0, 67)),
            P2trSingleKey => (34, nested(0, 170)),
            P2trMultisig => (34, nested(0, 270)),
            P2trHashLock => (34, nested(0, 240)),
            P2shHeightLock | P2shTimeLock => (23, legacy(122)),
            P2wshBlocksLock | P2wshSecondsLock => (34, nested(0, 120)),
            P2wshHashLock => (34, nested(0, 240)),
            BareHashLock => (35, legacy(33)),
            FutureWitness => (34, nested(0, 1)),
            Anchor => (4, nested(0, 1)),
        }
    }

    /// Sigop cost of the output, and of spending it (BIP 141; legacy counts four times).
    pub fn sigop_costs(self) -> (u64, u64) {
        use Kind::*;
        match self {
            P2pk | P2pkUncompressed | P2pkh | P2pkhUncompressed => (4, 0),
            // Counted as 20 keys wherever the number is not known from a redeem script.
            Multisig1of2 | Multisig2of3 => (80, 0),
            P2shMultisig => (0, 12),
            P2shHeightLock | P2shTimeLock => (0, 4),
            P2shP2wpkh | P2wpkh | P2wshP2pk | P2wshBlocksLock | P2wshSecondsLock => (0, 1),
            P2wshHashLock | P2shP2wsh => (0, 2),
            P2wshMultisig => (0, 3),
            _ => (0, 0),
        }
    }
}

/// An output script by type and key number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lock {
    /// Its type.
    pub kind: Kind,
    /// Its key; types of several keys use the following ones too.
    pub key: u32,
}

/// What an input must carry besides signatures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Exactly this sequence, in a transaction of version 2, and the coin must be this old.
    pub sequence: Option<u32>,
    /// At least this lock time, of the same sort (height or time), with a sequence that is not final.
    pub lock_time: Option<u32>,
}

/// First time any lock names: the genesis block's, so that all are in the past when the first coin is spent.
pub const TIME_LOCK_FIRST_S: u32 = 1_296_688_602;
/// Bit of a sequence that says the lock counts units of 512 seconds (BIP 68).
pub const SEQUENCE_SECONDS: u32 = 1 << 22;

/// `OP_0`, the empty push.
pub(super) const OP_0: u8 = 0;
const OP_IF: u8 = 0x63;
const OP_ELSE: u8 = 0x67;
const OP_ENDIF: u8 = 0x68;
const OP_DROP: u8 = 0x75;
const OP_DUP: u8 = 0x76;
const OP_EQUAL: u8 = 0x87;
const OP_EQUALVERIFY: u8 = 0x88;
const OP_NUMEQUAL: u8 = 0x9c;
const OP_SHA256: u8 = 0xa8;
const OP_HASH160: u8 = 0xa9;
const OP_CHECKSIG: u8 = 0xac;
const OP_CHECKMULTISIG: u8 = 0xae;
const OP_CHECKLOCKTIMEVERIFY: u8 = 0xb1;
const OP_CHECKSEQUENCEVERIFY: u8 = 0xb2;
const OP_CHECKSIGADD: u8 = 0xba;

/// Appends a push of `data` in its shortest form.
pub fn push(out: &mut Vec<u8>, data: &[u8]) {
    match data.len() {
        0..=75 => out.push(data.len() as u8),
        76..=255 => out.extend_from_slice(&[0x4c, data.len() as u8]),
        length => {
            out.push(0x4d);
            out.extend_from_slice(&(length as u16).to_le_bytes());
        }
    }
    out.extend_from_slice(data);
}

/// Appends a push of `number` in its shortest form (Core: `CScript::push_int64`).
pub fn push_number(out: &mut Vec<u8>, number: u32) {
    match number {
        0 => out.push(OP_0),
        1..=16 => out.push(0x50 + number as u8),
        _ => {
            let bytes = u64::from(number).to_le_bytes();
            let length = 8 - number.leading_zeros() as usize / 8 - 4;
            let signed = usize::from(bytes[length - 1] >= 0x80);
            push(out, &bytes[..length + signed]);
        }
    }
}

pub(super) fn pushed(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    parts.iter().for_each(|part| push(&mut out, part));
    out
}

fn key_check(key: &[u8]) -> Vec<u8> {
    let mut out = pushed(&[key]);
    out.push(OP_CHECKSIG);
    out
}

pub(super) fn pay_to_hash(key: &[u8]) -> Vec<u8> {
    let mut out = vec![OP_DUP, OP_HASH160];
    push(&mut out, &hash160(key));
    out.extend_from_slice(&[OP_EQUALVERIFY, OP_CHECKSIG]);
    out
}

fn script_hash(redeem: &[u8]) -> Vec<u8> {
    let mut out = vec![OP_HASH160];
    push(&mut out, &hash160(redeem));
    out.push(OP_EQUAL);
    out
}

pub(super) fn witness_program(version_opcode: u8, program: &[u8]) -> Vec<u8> {
    let mut out = vec![version_opcode];
    push(&mut out, program);
    out
}

/// The script leaf of a taproot type and the nodes beside it.
pub(super) struct Leaf {
    pub(super) script: Vec<u8>,
    siblings: Vec<[u8; 32]>,
}

impl Leaf {
    pub(super) fn hash(&self) -> [u8; 32] {
        leaf_hash(&self.script)
    }

    pub(super) fn root(&self) -> [u8; 32] {
        self.siblings.iter().fold(self.hash(), |node, sibling| {
            let (low, high) = if node < *sibling { (&node, sibling) } else { (sibling, &node) };
            tagged("TapBranch", &[low, high])
        })
    }

    pub(super) fn control(&self, internal: &Signer, output: &Signer) -> Vec<u8> {
        let mut control = vec![0xc0 | u8::from(output.odd)];
        control.extend_from_slice(&internal.x);
        self.siblings.iter().for_each(|sibling| control.extend_from_slice(sibling));
        control
    }
}

fn leaf_hash(script: &[u8]) -> [u8; 32] {
    let mut bytes = vec![0xc0];
    primitives::encode::put_compact_size(&mut bytes, script.len() as u64);
    tagged("TapLeaf", &[&bytes, script])
}

impl Lock {
    /// Lock of `kind` under key `key`.
    pub fn new(kind: Kind, key: u32) -> Lock {
        Lock { kind, key }
    }

    /// The bytes whose hash a hash lock names.
    pub(super) fn preimage(&self) -> [u8; 32] {
        sha256(&[b"preimage".as_slice(), &self.key.to_le_bytes()].concat())
    }

    /// What an input that spends it must carry.
    pub fn needs(&self) -> Needs {
        match self.kind {
            Kind::P2shHeightLock => Needs { lock_time: Some(1 + self.key % 90), ..Needs::default() },
            Kind::P2shTimeLock => Needs { lock_time: Some(TIME_LOCK_FIRST_S + self.key % 1000), ..Needs::default() },
            Kind::P2wshBlocksLock => Needs { sequence: Some(1 + self.key % 20), ..Needs::default() },
            Kind::P2wshSecondsLock => {
                Needs { sequence: Some(SEQUENCE_SECONDS | (1 + self.key % 20)), ..Needs::default() }
            }
            _ => Needs::default(),
        }
    }

    fn multisig(&self, needed: u8, of: u8, keys: &Keyring) -> Vec<u8> {
        let mut out = vec![0x50 + needed];
        for index in 0..of {
            push(&mut out, &keys.compressed(self.key.wrapping_add(index.into())));
        }
        out.extend_from_slice(&[0x50 + of, OP_CHECKMULTISIG]);
        out
    }

    pub(super) fn leaf(&self, keys: &Keyring) -> Leaf {
        let key = keys.signer(self.key.wrapping_add(1)).x;
        let mut script = Vec::new();
        match self.kind {
            Kind::P2trMultisig => {
                script = key_check(&key);
                push(&mut script, &keys.signer(self.key.wrapping_add(2)).x);
                script.extend_from_slice(&[OP_CHECKSIGADD, 0x52, OP_NUMEQUAL]);
            }
            Kind::P2trHashLock => {
                script.push(OP_SHA256);
                push(&mut script, &sha256(&self.preimage()));
                script.push(OP_EQUALVERIFY);
                script.extend_from_slice(&key_check(&key));
            }
            _ => script.extend_from_slice(&key_check(&key)),
        }
        // Every other tree has a second leaf, so control blocks of both lengths occur.
        let siblings = if self.key % 2 == 1 { vec![leaf_hash(&[0x51])] } else { Vec::new() };
        Leaf { script, siblings }
    }

    /// The redeem or witness script, for types that have one.
    pub fn inner_script(&self, keys: &Keyring) -> Vec<u8> {
        let needs = self.needs();
        let key = keys.compressed(self.key);
        let mut out = Vec::new();
        match self.kind {
            Kind::P2shMultisig | Kind::P2wshMultisig => return self.multisig(2, 3, keys),
            Kind::P2shP2wsh => return self.multisig(2, 2, keys),
            Kind::P2shP2wpkh => return witness_program(OP_0, &hash160(&key)),
            Kind::P2wshP2pk => return key_check(&key),
            Kind::P2shHeightLock | Kind::P2shTimeLock => {
                push_number(&mut out, needs.lock_time.expect("these types have one"));
                out.push(OP_CHECKLOCKTIMEVERIFY);
            }
            Kind::P2wshBlocksLock | Kind::P2wshSecondsLock => {
                push_number(&mut out, needs.sequence.expect("these types have one"));
                out.push(OP_CHECKSEQUENCEVERIFY);
            }
            Kind::P2wshHashLock => {
                out.extend_from_slice(&[OP_IF, OP_SHA256]);
                push(&mut out, &sha256(&self.preimage()));
                out.push(OP_EQUALVERIFY);
                push(&mut out, &key);
                out.push(OP_ELSE);
                push_number(&mut out, 1 + self.key % 90);
                out.extend_from_slice(&[OP_CHECKLOCKTIMEVERIFY, OP_DROP]);
                push(&mut out, &keys.compressed(self.key.wrapping_add(1)));
                out.extend_from_slice(&[OP_ENDIF, OP_CHECKSIG]);
                return out;
            }
            _ => return out,
        }
        out.push(OP_DROP);
        out.extend_from_slice(&key_check(&key));
        out
    }

    /// The output script.
    pub fn script(&self, keys: &Keyring) -> Vec<u8> {
        use Kind::*;
        match self.kind {
            P2pk => key_check(&keys.compressed(self.key)),
            P2pkUncompressed => key_check(&keys.uncompressed(self.key)),
            P2pkh => pay_to_hash(&keys.compressed(self.key)),
            P2pkhUncompressed => pay_to_hash(&keys.uncompressed(self.key)),
            Multisig1of2 => self.multisig(1, 2, keys),
            Multisig2of3 => self.multisig(2, 3, keys),
            P2shMultisig | P2shP2wpkh | P2shHeightLock | P2shTimeLock => script_hash(&self.inner_script(keys)),
            P2wpkh => witness_program(OP_0, &hash160(&keys.compressed(self.key))),
            P2wshMultisig | P2wshP2pk | P2wshBlocksLock | P2wshSecondsLock | P2wshHashLock => {
                witness_program(OP_0, &sha256(&self.inner_script(keys)))
            }
            P2shP2wsh => script_hash(&witness_program(OP_0, &sha256(&self.inner_script(keys)))),
            P2trKey => witness_program(0x51, &keys.tweaked(self.key, None).x),
            P2trKeyOverTree | P2trSingleKey | P2trMultisig | P2trHashLock => {
                witness_program(0x51, &keys.tweaked(self.key, Some(self.leaf(keys).root())).x)
            }
            BareHashLock => {
                let mut out = vec![OP_SHA256];
                push(&mut out, &sha256(&self.preimage()));
                out.push(OP_EQUAL);
                out
            }
            FutureWitness => witness_program(0x60, &self.preimage()),
            Anchor => vec![0x51, 0x02, 0x4e, 0x73],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_pushed_in_their_shortest_form() {
        #[track_caller]
        fn check(number: u32, want: &[u8]) {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(out, want, "{number}");
        }
        check(0, &[0]);
        check(1, &[0x51]);
        check(16, &[0x60]);
        check(17, &[1, 17]);
        check(127, &[1, 127]);
        check(128, &[2, 128, 0]);
        check(255, &[2, 255, 0]);
        check(256, &[2, 0, 1]);
        check(32_768, &[3, 0, 0x80, 0]);
        check(1 << 22, &[3, 0, 0, 0x40]);
        check(0x8000_0000, &[5, 0, 0, 0, 0x80, 0]);
    }

    #[test]
    fn every_type_has_its_number() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }

    #[test]
    fn output_scripts_have_the_length_the_planner_counts_with() {
        let keys = Keyring::new(1, 64, &stdx::pool::Pool::new("test", 1));
        for kind in Kind::ALL {
            for key in 0..4 {
                assert_eq!(Lock::new(kind, key).script(&keys).len() as u64, kind.sizes().0, "{kind:?}");
            }
        }
    }
}
