//! Bytes gathered until there are as many as were announced.
//!
//! In:     a length within its limit, and pieces of input.
//! Out:    exactly that many bytes.
//! Fails:  never.

/// What is reserved before anything came: one read of a socket.
const RESERVE_BYTES: usize = 64 * 1024;
/// Once so much came, the rest is reserved at once: what was announced has become likely, and copying stops.
const TRUST_BYTES: usize = 256 * 1024;

/// Bytes on their way to a known length.
///
/// Announcing costs the sender nothing, so no more than [`RESERVE_BYTES`] are reserved for an announcement alone.
#[derive(Debug, Default)]
pub struct Gather {
    bytes: Vec<u8>,
    want: usize,
}

impl Gather {
    /// Starts again, for `want` bytes.
    pub fn start(&mut self, want: usize) {
        self.bytes = Vec::with_capacity(want.min(RESERVE_BYTES));
        self.want = want;
    }

    /// Bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Moves what is missing from the front of `input`; true when complete.
    pub fn take(&mut self, input: &mut &[u8]) -> bool {
        let (taken, rest) = input.split_at(input.len().min(self.want - self.bytes.len()));
        if self.bytes.len() >= TRUST_BYTES {
            self.bytes.reserve_exact(self.want - self.bytes.len());
        }
        self.bytes.extend_from_slice(taken);
        *input = rest;
        self.bytes.len() == self.want
    }

    /// Hands out the bytes; the next are gathered after [`Gather::start`].
    pub fn finish(&mut self) -> Vec<u8> {
        self.want = 0;
        std::mem::take(&mut self.bytes)
    }

    /// Memory held, in bytes.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_follows_what_came_and_not_what_was_announced() {
        let mut gather = Gather::default();
        gather.start(4_000_000);
        let piece = vec![7u8; 10_000];
        let mut came = 0;
        while !gather.take(&mut &piece[..]) {
            came += piece.len();
            assert!(gather.memory_bytes() <= RESERVE_BYTES.max(2 * came) || came > TRUST_BYTES, "{came}");
        }
        assert_eq!(gather.finish().len(), 4_000_000);
    }

    #[test]
    fn what_is_behind_stays_in_the_input() {
        let mut gather = Gather::default();
        gather.start(3);
        let mut input = &[1u8, 2, 3, 4, 5][..];
        assert!(gather.take(&mut input));
        assert_eq!((gather.finish(), input), (vec![1, 2, 3], &[4u8, 5][..]));
        gather.start(0);
        assert!(gather.take(&mut input));
        assert_eq!(input, [4, 5]);
    }
}
