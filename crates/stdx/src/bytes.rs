//! Reading little-endian integers and slices from bytes nobody has checked yet.
//!
//! In:     a slice from a file or a peer.
//! Out:    values in order, or [`Short`] at the first byte that is missing.
//! Fails:  only with [`Short`]; a length is compared with what is left before anything is taken.

/// The bytes ended before the value did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short;

/// A cursor over bytes; `position` counts from the start of the slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Starts at byte 0.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, position: 0 }
    }

    /// Bytes consumed so far.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes not yet consumed.
    #[inline]
    pub fn left(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Takes the next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Short> {
        if count > self.left() {
            return Err(Short);
        }
        let taken = &self.bytes[self.position..self.position + count];
        self.position += count;
        Ok(taken)
    }

    /// Takes the next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        Ok(self.take(N)?.try_into().expect("take returns exactly N bytes"))
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Short> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, little endian.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Short> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, little endian.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Short> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, little endian.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Short> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// An LEB128 number: seven bits a byte, low bits first; at most ten bytes, the last one at most 1.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Short> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            if shift == 63 && byte > 1 {
                return Err(Short);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Short)
    }
}

/// Appends `value` as LEB128, the counterpart of [`Reader::varint`].
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_survives_both_ways_at_every_length() {
        for bits in 0..64 {
            for value in [(1u64 << bits) - 1, 1 << bits, u64::MAX >> (63 - bits)] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(Reader::new(&out).varint(), Ok(value));
                assert_eq!(Reader::new(&out[..out.len() - 1]).varint(), Err(Short));
            }
        }
    }

    #[test]
    fn varint_refuses_more_than_64_bits() {
        let mut eleven = [0xff; 10];
        eleven[9] = 1;
        assert_eq!(Reader::new(&eleven).varint(), Ok(u64::MAX));
        eleven[9] = 2;
        assert_eq!(Reader::new(&eleven).varint(), Err(Short));
    }

    #[test]
    fn take_stops_at_the_end() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u16(), Ok(0x0201));
        assert_eq!(reader.u16(), Err(Short));
        assert_eq!(reader.take(usize::MAX), Err(Short));
        assert_eq!(reader.u8(), Ok(3));
        assert_eq!(reader.left(), 0);
    }
}
