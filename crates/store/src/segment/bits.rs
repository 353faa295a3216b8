//! Numbers in as few bits as they need.
//!
//! In:     numbers with a width, or Golomb-Rice coded with a parameter.
//! Out:    a stream of bits, low bits first.
//! Fails:  reading stops with [`Short`] at the end of the stream.
//! Source: R. F. Rice, "Some practical universal noiseless coding techniques" (1979).

use stdx::bytes::Short;

/// Bits that `value` needs; 0 for 0.
#[inline]
pub fn width(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// The Rice parameter for `count` numbers with this sum: the bits of `mean * ln 2`, less one.
pub fn rice_parameter(sum: u64, count: u64) -> u32 {
    let mean = sum / count.max(1);
    width((u128::from(mean) * 11 / 16) as u64).saturating_sub(1)
}

/// Appends bits to bytes.
pub struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    word: u64,
    used: u32,
}

impl<'a> BitWriter<'a> {
    /// Begins at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> BitWriter<'a> {
        BitWriter { out, word: 0, used: 0 }
    }

    /// Appends the low `bits` of `value`; the others are zero.
    #[inline]
    pub fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(width(value) <= bits);
        if bits == 0 {
            return;
        }
        self.word |= value << self.used;
        let fits = 64 - self.used;
        if bits < fits {
            self.used += bits;
            return;
        }
        self.out.extend_from_slice(&self.word.to_le_bytes());
        self.word = if fits == 64 { 0 } else { value >> fits };
        self.used = bits - fits;
    }

    /// Appends `value` as `value >> parameter` zeros, a one, and its low `parameter` bits.
    #[inline]
    pub fn put_rice(&mut self, value: u64, parameter: u32) {
        let mut zeros = value >> parameter;
        while zeros >= 32 {
            self.put(0, 32);
            zeros -= 32;
        }
        self.put(1 << zeros, zeros as u32 + 1);
        self.put(value & ((1 << parameter) - 1), parameter);
    }

    /// Writes what is left of the last word.
    pub fn finish(self) {
        let bytes = self.used.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.word.to_le_bytes()[..bytes]);
    }
}

/// Reads bits from bytes.
pub struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
    end: usize,
}

impl<'a> BitReader<'a> {
    /// Reads `bytes` but for the last eight: those let every read load a whole word.
    pub fn new(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader { bytes, position: 0, end: bytes.len().saturating_sub(8) * 8 }
    }

    /// Goes on where another reader of the same bytes stopped.
    pub fn resume(bytes: &'a [u8], position: usize) -> BitReader<'a> {
        BitReader { position, ..BitReader::new(bytes) }
    }

    /// The same bytes at a place that it was at before.
    pub fn back_at(&self, position: usize) -> BitReader<'a> {
        BitReader { position, ..*self }
    }

    /// Passes over `bits` bits.
    #[inline]
    pub fn skip(&mut self, bits: u32) -> Result<(), Short> {
        self.position += bits as usize;
        if self.position > self.end { Err(Short) } else { Ok(()) }
    }

    /// Bits read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// At least 57 bits at the position; what is beyond the stream is noise that the callers' length check refuses.
    #[inline]
    fn load(&self) -> Result<u64, Short> {
        let at = self.position / 8;
        let eight = self.bytes.get(at..at + 8).ok_or(Short)?;
        Ok(u64::from_le_bytes(eight.try_into().expect("eight bytes")) >> (self.position % 8))
    }

    /// The next `bits` bits, at most 64.
    #[inline]
    pub fn get(&mut self, bits: u32) -> Result<u64, Short> {
        if bits > 56 {
            let low = self.get(32)?;
            return Ok(low | self.get(bits - 32)? << 32);
        }
        if self.position + bits as usize > self.end {
            return Err(Short);
        }
        let value = self.load()? & ((1 << bits) - 1);
        self.position += bits as usize;
        Ok(value)
    }

    /// Counterpart of [`BitWriter::put_rice`].
    #[inline]
    pub fn get_rice(&mut self, parameter: u32) -> Result<u64, Short> {
        let word = self.load()?;
        let run = word.trailing_zeros();
        // Nearly always all of it is in one word.
        if run + 1 + parameter <= 56 && self.position + (run + 1 + parameter) as usize <= self.end {
            self.position += (run + 1 + parameter) as usize;
            return Ok(u64::from(run) << parameter | word >> (run + 1) & ((1 << parameter) - 1));
        }
        self.get_long_rice(parameter)
    }

    /// The same where it is longer than a word, or ends the stream.
    fn get_long_rice(&mut self, parameter: u32) -> Result<u64, Short> {
        let mut zeros = 0;
        loop {
            let run = self.load()?.trailing_zeros().min(56);
            self.position += run as usize;
            zeros += u64::from(run);
            if run < 56 {
                break;
            }
        }
        self.position += 1;
        if self.position > self.end || width(zeros) + parameter > 64 {
            return Err(Short);
        }
        Ok(zeros << parameter | self.get(parameter)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    #[test]
    fn every_width_and_parameter_survives_both_ways() {
        let mut random = Random::new(1);
        let mut numbers = Vec::new();
        for _ in 0..20_000 {
            let bits = random.below(65) as u32;
            let value = if bits == 0 { 0 } else { random.next_u64() >> (64 - bits) };
            numbers.push((value, bits, random.below(100), random.below(3) as u32));
        }
        let mut out = Vec::new();
        let mut writer = BitWriter::new(&mut out);
        for &(value, bits, small, parameter) in &numbers {
            writer.put(value, bits);
            writer.put_rice(small, parameter);
            writer.put_rice(value, bits.saturating_sub(3));
        }
        writer.finish();
        let length = out.len();
        out.extend([0xff; 8]);
        let mut reader = BitReader::new(&out);
        for &(value, bits, small, parameter) in &numbers {
            assert_eq!(reader.get(bits), Ok(value));
            assert_eq!(reader.get_rice(parameter), Ok(small));
            assert_eq!(reader.get_rice(bits.saturating_sub(3)), Ok(value));
        }
        assert!(length * 8 - reader.position < 8);
        assert_eq!(reader.get(8), Err(Short));
        assert_eq!(BitReader::new(&[0; 100]).get_rice(3), Err(Short));
        assert_eq!(BitReader::new(&[0; 7]).get(1), Err(Short));
    }
}
