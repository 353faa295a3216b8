//! Basic block filters: which scripts a block may concern, in a few bits for each.
//!
//! In:     a block and the scripts it spends; later a filter and the scripts somebody looks for.
//! Out:    the filter's bytes, its hash and header; whether any of the scripts may be in the block.
//! Fails:  building never; matching with [`BadFilter`] where the bytes are no filter.
//! Source: BIP 158 (basic filter: P = 19, M = 784931); Bitcoin Core's `GCSFilter`, `BasicFilterElements`.
//!
//! A filter is the number of elements as CompactSize, and their values below N * M in order, each as the difference from
//! the one before in Golomb-Rice code: quotient in ones, a zero, 19 bits; bits of a byte from the top.

use std::fmt;

use bitcoin_hashes::siphash24;
use primitives::encode::{compact_size, put_compact_size};
use primitives::hash::sha256d;
use primitives::{Block, BlockHash};
use stdx::bytes::Reader;

/// Bits of a difference that are written as they are.
const REMAINDER_BITS: u32 = 19;
/// One in so many scripts that are not in a block seems to be.
const FALSE_POSITIVE_RATE: u64 = 784_931;
/// Opcode that makes an output nobody can spend; such outputs are left out.
const OP_RETURN: u8 = 0x6a;

/// The bytes are no filter: they end too early, go on too long, or count more than they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFilter;

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes are no block filter")
    }
}

impl std::error::Error for BadFilter {}

/// The filter of `block`, which spends outputs with the scripts `spent`.
pub fn of_block<'a>(block: &'a Block, hash: &BlockHash, spent: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut elements: Vec<&[u8]> = Vec::with_capacity(block.output_count() + block.input_count());
    for tx in block.txs() {
        let scripts = tx.outputs().map(|output| output.script);
        elements.extend(scripts.filter(|script| script.first().is_some_and(|first| *first != OP_RETURN)));
    }
    elements.extend(spent.filter(|script| !script.is_empty()));
    of_elements(hash, &elements)
}

/// The filter of a set of elements; those that are there twice count once.
fn of_elements(hash: &BlockHash, elements: &[&[u8]]) -> Vec<u8> {
    let key = Key::of(hash);
    let mut hashed: Vec<(u64, &[u8])> = elements.iter().map(|element| (key.hash(element), *element)).collect();
    // Elements of one hash are told apart by their bytes, so that the count is exact. The map below keeps the order.
    hashed.sort_unstable();
    hashed.dedup();
    let range = hashed.len() as u64 * FALSE_POSITIVE_RATE;
    let mut out = Vec::with_capacity(hashed.len() * 21 / 8 + 9);
    put_compact_size(&mut out, hashed.len() as u64);
    let mut bits = BitWriter { out, gathered: 0, count: 0 };
    let mut previous = 0;
    for (hash, _) in hashed {
        let value = reduce(hash, range);
        bits.put_difference(value - previous);
        previous = value;
    }
    bits.finish()
}

/// Hash of a filter, as `cfheaders` carries it.
pub fn hash(filter: &[u8]) -> [u8; 32] {
    sha256d(filter)
}

/// Header of a filter: it commits to the filters of all blocks up to its own.
pub fn header(filter_hash: &[u8; 32], previous: &[u8; 32]) -> [u8; 32] {
    let mut both = [0; 64];
    both[..32].copy_from_slice(filter_hash);
    both[32..].copy_from_slice(previous);
    sha256d(&both)
}

/// True where one of `scripts` may be in the block. Of those that are not, one in 784,931 seems to be.
pub fn matches_any<'a>(
    filter: &[u8],
    block: &BlockHash,
    scripts: impl Iterator<Item = &'a [u8]>,
) -> Result<bool, BadFilter> {
    let mut reader = Reader::new(filter);
    let count = compact_size(&mut reader).map_err(|_| BadFilter)?;
    let mut bits = BitReader { bytes: reader.take(reader.left()).map_err(|_| BadFilter)?, at: 0 };
    let (key, range) = (Key::of(block), count * FALSE_POSITIVE_RATE);
    let mut wanted: Vec<u64> = scripts.map(|script| reduce(key.hash(script), range)).collect();
    wanted.sort_unstable();
    let mut wanted = wanted.into_iter().peekable();
    let mut value = 0u64;
    for _ in 0..count {
        value = value.checked_add(bits.difference()?).ok_or(BadFilter)?;
        while wanted.next_if(|wanted| *wanted < value).is_some() {}
        match wanted.peek() {
            None => return Ok(false),
            Some(wanted) if *wanted == value => return Ok(true),
            Some(_) => {}
        }
    }
    Ok(false)
}

/// Checks that bytes are a whole filter, and says how many elements it has.
pub fn element_count(filter: &[u8]) -> Result<u64, BadFilter> {
    let mut reader = Reader::new(filter);
    let count = compact_size(&mut reader).map_err(|_| BadFilter)?;
    let mut bits = BitReader { bytes: reader.take(reader.left()).map_err(|_| BadFilter)?, at: 0 };
    for _ in 0..count {
        bits.difference()?;
    }
    if bits.at.div_ceil(8) == bits.bytes.len() { Ok(count) } else { Err(BadFilter) }
}

/// Maps a hash evenly onto the numbers below `range`, in order.
#[inline]
fn reduce(hash: u64, range: u64) -> u64 {
    ((u128::from(hash) * u128::from(range)) >> 64) as u64
}

/// The SipHash key of a block: the first 16 bytes of its hash.
struct Key([u64; 2]);

impl Key {
    fn of(hash: &BlockHash) -> Key {
        let half = |at: usize| u64::from_le_bytes(hash.0[at..at + 8].try_into().expect("eight bytes"));
        Key([half(0), half(8)])
    }

    #[inline]
    fn hash(&self, element: &[u8]) -> u64 {
        siphash24::Hash::hash_to_u64_with_keys(self.0[0], self.0[1], element)
    }
}

struct BitWriter {
    out: Vec<u8>,
    /// Bits not yet in `out`, the last one lowest.
    gathered: u64,
    /// How many; below eight between calls.
    count: u32,
}

impl BitWriter {
    fn put(&mut self, bits: u64, count: u32) {
        self.gathered = self.gathered << count | bits;
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            self.out.push((self.gathered >> self.count) as u8);
        }
        self.gathered &= (1 << self.count) - 1;
    }

    fn put_difference(&mut self, difference: u64) {
        let mut ones = difference >> REMAINDER_BITS;
        while ones >= 32 {
            self.put(u64::from(u32::MAX), 32);
            ones -= 32;
        }
        self.put(((1 << ones) - 1) << 1, ones as u32 + 1);
        self.put(difference & ((1 << REMAINDER_BITS) - 1), REMAINDER_BITS);
    }

    /// The last byte is filled up with zeros.
    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
        self.out
    }
}

struct BitReader<'a> {
    bytes: &'a [u8],
    /// The next bit.
    at: usize,
}

impl BitReader<'_> {
    fn bit(&mut self) -> Result<u64, BadFilter> {
        let byte = self.bytes.get(self.at / 8).ok_or(BadFilter)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Ok(bit.into())
    }

    fn difference(&mut self) -> Result<u64, BadFilter> {
        let mut quotient = 0;
        while self.bit()? == 1 {
            quotient += 1;
        }
        let mut remainder = 0;
        let mut left = REMAINDER_BITS;
        while left > 0 {
            let byte = u32::from(*self.bytes.get(self.at / 8).ok_or(BadFilter)?);
            let free = 8 - (self.at % 8) as u32;
            let taken = free.min(left);
            remainder = remainder << taken | u64::from(byte >> (free - taken) & ((1 << taken) - 1));
            self.at += taken as usize;
            left -= taken;
        }
        Ok(quotient << REMAINDER_BITS | remainder)
    }
}
