//! The stack that a script of pushes leaves, and true or false as the interpreter sees them.
//!
//! In:     an input script, or the witness.
//! Out:    [`Stack`]: the elements first to last, as slices of the block.
//! Fails:  `None` for anything a template has no use for: another opcode, more elements, or larger ones.
//! Source: Core's `GetScriptOp` and `CastToBool`.

use primitives::Witness;

/// Most elements a template looks at: 20 signatures, the extra element of CHECKMULTISIG, a script, and the control
/// block and annex of taproot's.
const STACK_LENGTH_MAX: usize = 24;

/// Largest element of the stack, in bytes; Core's `MAX_SCRIPT_ELEMENT_SIZE`.
pub(super) const ELEMENT_BYTES_MAX: usize = 520;

/// Largest script that is run, in bytes; Core's `MAX_SCRIPT_SIZE`.
const SCRIPT_BYTES_MAX: usize = 10_000;

/// Elements, first to last.
pub(super) struct Stack<'a> {
    items: [&'a [u8]; STACK_LENGTH_MAX],
    length: usize,
}

impl<'a> Stack<'a> {
    /// The elements that `script` pushes, by any of the opcodes that carry data; OP_0 pushes nothing, as an element.
    ///
    /// OP_1NEGATE and OP_1 to OP_16 push too, but nothing a template wants.
    pub fn of_script(script: &'a [u8]) -> Option<Stack<'a>> {
        if script.len() > SCRIPT_BYTES_MAX {
            return None;
        }
        let mut stack = Stack { items: [&[]; STACK_LENGTH_MAX], length: 0 };
        let mut rest = script;
        while let Some((&opcode, after)) = rest.split_first() {
            let (length, after) = match opcode {
                0..=75 => (usize::from(opcode), after),
                76 => little_endian::<1>(after)?,
                77 => little_endian::<2>(after)?,
                78 => little_endian::<4>(after)?,
                _ => return None,
            };
            let (item, after) = after.split_at_checked(length)?;
            stack.push(item).filter(|()| length <= ELEMENT_BYTES_MAX)?;
            rest = after;
        }
        Some(stack)
    }

    /// The elements of a witness; their sizes are for the caller to look at, because scripts may be larger.
    pub fn of_witness(witness: Witness<'a>) -> Option<Stack<'a>> {
        let mut stack = Stack { items: [&[]; STACK_LENGTH_MAX], length: 0 };
        for item in witness {
            stack.push(item)?;
        }
        Some(stack)
    }

    fn push(&mut self, item: &'a [u8]) -> Option<()> {
        *self.items.get_mut(self.length)? = item;
        self.length += 1;
        Some(())
    }

    /// Takes the last element.
    pub fn pop(&mut self) -> Option<&'a [u8]> {
        self.length = self.length.checked_sub(1)?;
        Some(self.items[self.length])
    }

    /// The elements.
    pub fn items(&self) -> &[&'a [u8]] {
        &self.items[..self.length]
    }
}

/// A length of `N` bytes and what follows it.
fn little_endian<const N: usize>(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<N>()?;
    Some((length.iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte)), rest))
}

/// What an element means as a condition: false where all bytes are zero, or all but a sign bit at the end.
pub(super) fn is_true(item: &[u8]) -> bool {
    match item.split_last() {
        None => false,
        Some((last, front)) => front.iter().any(|&byte| byte != 0) || last & 0x7f != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_are_read_by_every_opcode_that_carries_data() {
        #[track_caller]
        fn check(script: &[u8], want: Option<&[&[u8]]>) {
            assert_eq!(Stack::of_script(script).as_ref().map(Stack::items), want, "{script:02x?}");
        }
        check(&[], Some(&[]));
        check(&[0, 1, 9, 76, 1, 9, 77, 1, 0, 9, 78, 1, 0, 0, 0, 9], Some(&[&[], &[9], &[9], &[9], &[9]]));
        check(&[76, 0, 77, 0, 0], Some(&[&[], &[]]));
        for opcode in [79, 80, 81, 96, 97, 172, 255] {
            check(&[opcode], None);
        }
        for cut in
            [&[1][..], &[2, 1], &[76], &[76, 1], &[77, 1], &[77, 1, 0], &[78, 1, 0, 0], &[78, 255, 255, 255, 255]]
        {
            check(cut, None);
        }
        let element = |bytes: usize| [&[77, bytes as u8, (bytes >> 8) as u8][..], &vec![1; bytes]].concat();
        check(&element(520), Some(&[&[1; 520]]));
        check(&element(521), None);
        check(&[0; 24], Some([&[][..]; 24].as_slice()));
        check(&[0; 25], None);
        // 20 elements of 497 bytes are 10,000 bytes of script; one more byte is too many.
        let mut script = element(497).repeat(20);
        assert_eq!(script.len(), 10_000);
        assert!(Stack::of_script(&script).is_some());
        script.push(0);
        check(&script, None);
    }

    #[test]
    fn zero_has_many_forms() {
        for zero in [&[][..], &[0], &[0x80], &[0, 0], &[0, 0x80], &[0; 32]] {
            assert!(!is_true(zero), "{zero:02x?}");
        }
        for one in [&[1][..], &[0x81], &[0x80, 0], &[0, 1], &[0x80, 0x80]] {
            assert!(is_true(one), "{one:02x?}");
        }
    }
}
