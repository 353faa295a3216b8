//! CHECKMULTISIG as a walk over rows.
//!
//! In:     the script `m <key>.. n CHECKMULTISIG`, and m signatures in order.
//! Out:    one row at a time, the next one depending on the verdict of the last; the end is yes or no.
//! Fails:  [`parse`] with `None` for any other script.
//! Source: Core's script/interpreter.cpp, OP_CHECKMULTISIG; signatures and keys are paired from the last to the first.
//!
//! The order of pairs is Core's, so no more rows are asked for than Core computes. If some assignment that keeps the
//! order exists, this walk finds it: a signature takes the last key that fits, which leaves most keys to the others.

use sigs::{Check, PublicKeyBytes};

/// Most keys of one CHECKMULTISIG; Core's `MAX_PUBKEYS_PER_MULTISIG`.
pub(super) const KEYS_MAX: usize = 20;

const OP_CHECKMULTISIG: u8 = 0xae;

/// A script `m <key>.. n CHECKMULTISIG`, with 1 <= m <= n <= 20.
pub(super) struct Script {
    pub required: usize,
    pub keys: Vec<PublicKeyBytes>,
}

/// Reads exactly that script, its keys pushed by the one-byte opcodes and of a form libsecp256k1 looks at.
pub(super) fn parse(script: &[u8]) -> Option<Script> {
    let rest = script.strip_suffix(&[OP_CHECKMULTISIG])?;
    let (required, mut rest) = small_number(rest)?;
    let mut keys = Vec::with_capacity(3);
    while let Some((&length @ (33 | 65), after)) = rest.split_first() {
        let (key, after) = after.split_at_checked(usize::from(length))?;
        keys.push(PublicKeyBytes::new(key)?);
        rest = after;
    }
    let (count, rest) = small_number(rest)?;
    let fits = rest.is_empty() && count == keys.len() && required <= count && count <= KEYS_MAX;
    fits.then_some(Script { required, keys })
}

/// 1 to 16 as their opcodes, 17 to 20 as a push of one byte.
fn small_number(script: &[u8]) -> Option<(usize, &[u8])> {
    match script {
        [opcode @ 0x51..=0x60, rest @ ..] => Some((usize::from(opcode - 0x50), rest)),
        [1, value @ 17..=20, rest @ ..] => Some((usize::from(*value), rest)),
        _ => None,
    }
}

/// A parsed signature and the message of its hash type.
#[derive(Clone, Copy)]
pub(super) struct Signed {
    pub signature: [u8; 64],
    pub message: [u8; 32],
}

/// A walk under way.
pub(super) struct Multisig {
    keys: Vec<PublicKeyBytes>,
    signatures: Vec<Signed>,
}

/// What follows a verdict.
pub(super) enum Step {
    /// This row is needed next.
    Ask(Check),
    /// Every signature has found its key.
    Yes,
    /// More signatures are left than keys.
    No,
}

impl Multisig {
    /// Begins with the last signature and the last key.
    pub fn new(keys: Vec<PublicKeyBytes>, signatures: Vec<Signed>) -> Multisig {
        assert!(!signatures.is_empty() && signatures.len() <= keys.len(), "parse has looked at the numbers");
        Multisig { keys, signatures }
    }

    /// The row to ask for now.
    pub fn ask(&self) -> Step {
        let Some(&Signed { signature, message }) = self.signatures.last() else { return Step::Yes };
        match self.keys.last() {
            Some(&key) if self.signatures.len() <= self.keys.len() => {
                Step::Ask(Check::Ecdsa { key, signature, message })
            }
            _ => Step::No,
        }
    }

    /// Takes the verdict on the row that [`Multisig::ask`] gave.
    pub fn answer(&mut self, fits: bool) {
        self.keys.pop();
        if fits {
            self.signatures.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> PublicKeyBytes {
        PublicKeyBytes::new(&[&[2], &[number; 32][..]].concat()).unwrap()
    }

    fn script(required: &[u8], keys: usize, count: &[u8]) -> Vec<u8> {
        let pushes: Vec<u8> = (0..keys).flat_map(|n| [&[33], key(n as u8).as_slice()].concat()).collect();
        [required, &pushes, count, &[OP_CHECKMULTISIG]].concat()
    }

    #[test]
    fn only_the_exact_script_is_read() {
        #[track_caller]
        fn check(script: &[u8], want: Option<(usize, usize)>) {
            assert_eq!(parse(script).map(|s| (s.required, s.keys.len())), want, "{script:02x?}");
        }
        check(&script(&[0x51], 1, &[0x51]), Some((1, 1)));
        check(&script(&[0x52], 3, &[0x53]), Some((2, 3)));
        check(&script(&[0x60], 16, &[0x60]), Some((16, 16)));
        check(&script(&[1, 20], 20, &[1, 20]), Some((20, 20)));
        check(&script(&[0x51], 20, &[1, 20]), Some((1, 20)));
        check(&script(&[0x51], 21, &[1, 21]), None);
        check(&script(&[0x53], 2, &[0x52]), None);
        check(&script(&[0x00], 1, &[0x51]), None);
        check(&script(&[0x51], 2, &[0x53]), None);
        check(&script(&[0x51], 0, &[0x51]), None);
        check(&script(&[1, 1], 1, &[0x51]), None);
        check(&[&script(&[0x51], 1, &[0x51])[..], &[0x51]].concat(), None);
        check(&[&[0x61], &script(&[0x51], 1, &[0x51])[..]].concat(), None);
        let whole = script(&[0x52], 3, &[0x53]);
        for end in 0..whole.len() {
            check(&whole[..end], None);
        }
        // A key that CPubKey would call invalid: its signature can never fit, but who knows what the script is for.
        let mut odd = whole;
        odd[2] = 5;
        check(&odd, None);
    }

    #[test]
    fn the_walk_finds_an_assignment_wherever_one_exists() {
        // Every relation "signature i fits key j" of up to 3 signatures and 4 keys.
        for count in 1..=4usize {
            for required in 1..=count.min(3) {
                for relation in 0u32..1 << (count * required) {
                    let fits = |signature: usize, key: usize| relation >> (signature * count + key) & 1 == 1;
                    // Dynamic programming, first to last: how many signatures can be placed on the first keys.
                    let mut placed = 0;
                    for key in 0..count {
                        placed += usize::from(placed < required && fits(placed, key));
                    }
                    let signatures =
                        (0..required).map(|n| Signed { signature: [n as u8; 64], message: [0; 32] }).collect();
                    let mut walk = Multisig::new((0..count as u8).map(key).collect(), signatures);
                    let mut asked = 0;
                    let got = loop {
                        match walk.ask() {
                            Step::Ask(Check::Ecdsa { key, signature, .. }) => {
                                asked += 1;
                                walk.answer(fits(signature[0].into(), key.as_slice()[1].into()));
                            }
                            Step::Ask(Check::Schnorr { .. }) => unreachable!("multisig is ECDSA"),
                            Step::Yes => break true,
                            Step::No => break false,
                        }
                    };
                    assert_eq!(got, placed == required, "{required} of {count}, relation {relation:b}");
                    assert!(asked <= count);
                }
            }
        }
    }
}
