//! CHECKMULTISIG as a walk over rows.
//!
//! In:     the script `m <key>.. n CHECKMULTISIG`, and m signatures in order.
//! Out:    one row at a time, the next one depending on the verdict of the last; the end is yes or no.
//! Fails:  [`parse`] with `None` for any other script.
//! Source: Core's script/interpreter.cpp, OP_CHECKMULTISIG; signatures and keys are paired from the last to the first.
//!
//! The order of pairs is Core's, so no more rows are asked for than Core computes. If some assignment that keeps the
//! order exists, this walk finds it: a signature takes the last key that fits, which leaves most keys to the others.
//!
//! The trace of a walk that ended with yes says which pairs fitted. When the same input is judged again these pairs alone
//! are asked, all at once: whether each is proved is found out anew, and the order they keep is the walk's.

use sigs::{Check, Hint, PublicKeyBytes};

use super::hints::Trace;

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
    trace: Trace,
}

/// What follows a verdict.
pub(super) enum Step {
    /// This row is needed next.
    Ask(Check),
    /// Every signature has found its key, in these steps.
    Yes(Trace),
    /// More signatures are left than keys.
    No,
}

impl Multisig {
    /// Begins with the last signature and the last key.
    pub fn new(keys: Vec<PublicKeyBytes>, signatures: Vec<Signed>) -> Multisig {
        assert!(!signatures.is_empty() && signatures.len() <= keys.len(), "parse has looked at the numbers");
        Multisig { keys, signatures, trace: Trace::UNKNOWN }
    }

    /// The pairs that an earlier walk proved, if `trace` is the whole way of such a walk; to be asked before any other.
    pub fn pairs(&self, trace: Trace) -> Option<Vec<(Check, Hint)>> {
        let fitted = trace.steps().flatten().count();
        if fitted != self.signatures.len() || trace.rows() > self.keys.len() {
            return None;
        }
        let mut signatures = self.signatures.iter().rev();
        let steps = trace.steps().zip(self.keys.iter().rev());
        let pairs = steps.filter_map(|(step, &key)| {
            let (hint, &Signed { signature, message }) = (step?, signatures.next()?);
            Some((Check::Ecdsa { key, signature, message }, hint))
        });
        Some(pairs.collect())
    }

    /// The row to ask for now.
    pub fn ask(&self) -> Step {
        let Some(&Signed { signature, message }) = self.signatures.last() else { return Step::Yes(self.trace) };
        match self.keys.last() {
            Some(&key) if self.signatures.len() <= self.keys.len() => {
                Step::Ask(Check::Ecdsa { key, signature, message })
            }
            _ => Step::No,
        }
    }

    /// Takes what was found about the row that [`Multisig::ask`] gave: its hint if it is proved.
    pub fn answer(&mut self, proved: Option<Hint>) {
        self.keys.pop();
        self.trace = match proved {
            Some(hint) => self.trace.proved(hint),
            None => self.trace.missed(),
        };
        if proved.is_some() {
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

    /// Which signature and which key a row of the next test is about.
    fn pair(row: &Check) -> (usize, usize) {
        let Check::Ecdsa { key, signature, .. } = row else { unreachable!("multisig is ECDSA") };
        (signature[0].into(), key.as_slice()[1].into())
    }

    #[test]
    fn a_trace_that_cannot_be_of_this_walk_gives_no_pairs() {
        let signatures = vec![Signed { signature: [0; 64], message: [0; 32] }; 2];
        let walk = Multisig::new((0..3).map(key).collect(), signatures);
        let (hit, miss) = (|trace: Trace| trace.proved(Hint::Odd), Trace::missed);
        let unknown = Trace::UNKNOWN;
        for wrong in [unknown, hit(unknown), hit(miss(unknown)), hit(hit(hit(unknown))), hit(miss(miss(hit(unknown))))]
        {
            assert_eq!(walk.pairs(wrong), None, "{wrong:?}");
        }
        let pairs = walk.pairs(hit(miss(hit(unknown)))).unwrap();
        assert_eq!(pairs.iter().map(|(row, _)| pair(row).1).collect::<Vec<_>>(), [2, 0]);
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
                    let signatures: Vec<Signed> =
                        (0..required).map(|n| Signed { signature: [n as u8; 64], message: [0; 32] }).collect();
                    let begin = || Multisig::new((0..count as u8).map(key).collect(), signatures.clone());
                    let mut walk = begin();
                    let mut asked = Vec::new();
                    let got = loop {
                        match walk.ask() {
                            Step::Ask(row) => {
                                let (signature, key) = pair(&row);
                                // A hint that depends on the pair, so that each is seen to come back at its place.
                                let hint = if (signature + key) % 2 == 0 { Hint::Even } else { Hint::Odd };
                                asked.push((row, fits(signature, key).then_some(hint)));
                                walk.answer(fits(signature, key).then_some(hint));
                            }
                            Step::Yes(trace) => break Some(trace),
                            Step::No => break None,
                        }
                    };
                    assert_eq!(got.is_some(), placed == required, "{required} of {count}, relation {relation:b}");
                    assert!(asked.len() <= count);
                    if let Some(trace) = got {
                        let proved = asked.into_iter().filter_map(|(row, hint)| Some((row, hint?))).collect();
                        assert_eq!(begin().pairs(trace), Some(proved), "the pairs that were proved, and no other");
                    }
                }
            }
        }
    }
}
