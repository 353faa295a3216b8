//! What a proof of scripts learns that makes the next proof of the same block faster, in about one bit a signature.
//!
//! In:     for each input with ECDSA rows a [`Trace`]: which rows its walk asked, which were proved, and the parity of
//!         y(R) of those.
//! Out:    bytes, one piece for every [`SEGMENT_INPUTS`] inputs of a block; and the traces out of such bytes.
//! Fails:  never: bytes that make no sense give [`Trace::UNKNOWN`] from there to the end of the segment.
//! Source: our own format, docs/formats.md, "hints of a segment".
//!
//! Nothing here is trusted. Inputs that make no ECDSA row (taproot, and what only the interpreter knows) have no place in
//! the bytes: whoever reads them makes the same rows from the same block, and asks once for each input that has some.

use sigs::Hint;
use stdx::bytes::{Reader, put_varint};

use super::multisig::KEYS_MAX;

/// Inputs of one segment, the coinbase's left out; the last one of a block has fewer. Pieces of a block that are whole
/// segments can be proved apart from each other; a segment of single signatures takes 37 bytes.
pub const SEGMENT_INPUTS: usize = 256;

/// Shapes a segment remembers: single, two-of-three in its three forms, unknown, and one more.
const RECENT_MAX: usize = 6;
/// Zeros in front of the longest number written, which is the segment's run.
const ZEROS_MAX: u32 = SEGMENT_INPUTS.ilog2();
const _: () = assert!(KEYS_MAX < SEGMENT_INPUTS && 2 * KEYS_MAX < 63);

/// What is known of the rows that an input's walk asks one after the other; a single signature is a walk of one row.
///
/// Two bits a row below a leading one, the first row highest: 0 not proved, 1 proved, 2 proved with y(R) even, 3 odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trace(u64);

impl Trace {
    /// Nothing is known, or no row has been asked yet.
    pub const UNKNOWN: Trace = Trace(1);
    /// The shape of one proved row whose parity is known: nearly all there is.
    const SINGLE: Trace = Trace(0b110);

    /// The next row was not proved.
    pub fn missed(self) -> Trace {
        self.push(0)
    }

    /// The next row was proved.
    pub fn proved(self, hint: Hint) -> Trace {
        self.push(match hint {
            Hint::Unknown => 1,
            Hint::Even => 2,
            Hint::Odd => 3,
        })
    }

    fn push(self, symbol: u64) -> Trace {
        assert!(self.rows() < KEYS_MAX, "a walk asks each key once");
        Trace(self.0 << 2 | symbol)
    }

    /// Rows asked.
    pub fn rows(self) -> usize {
        (63 - self.0.leading_zeros() as usize) / 2
    }

    /// For each row asked, its hint if it was proved.
    pub fn steps(self) -> impl Iterator<Item = Option<Hint>> {
        (0..self.rows()).rev().map(move |row| match self.0 >> (2 * row) & 3 {
            0 => None,
            1 => Some(Hint::Unknown),
            2 => Some(Hint::Even),
            _ => Some(Hint::Odd),
        })
    }

    /// The only hint, where exactly one row was asked and proved.
    pub fn single(self) -> Hint {
        match self.0 {
            0b110 => Hint::Even,
            0b111 => Hint::Odd,
            _ => Hint::Unknown,
        }
    }

    /// The same steps with these hints of the proved rows.
    pub fn with(self, hints: impl IntoIterator<Item = Hint>) -> Trace {
        let mut hints = hints.into_iter();
        self.steps().fold(Trace::UNKNOWN, |trace, step| match step {
            None => trace.missed(),
            Some(old) => trace.proved(hints.next().unwrap_or(old)),
        })
    }

    /// Proved rows whose parity is known.
    pub fn parities(self) -> u32 {
        (self.shape().0 & EVEN_BITS << 1).count_ones()
    }

    /// The same with every parity even.
    fn shape(self) -> Trace {
        Trace(self.0 & !(self.0 >> 1 & EVEN_BITS & self.0))
    }
}

/// The low bit of each pair.
const EVEN_BITS: u64 = 0x5555_5555_5555_5555;

/// The shapes seen last, the latest first.
#[derive(Clone, Copy)]
struct Recent {
    shapes: [Trace; RECENT_MAX],
    count: usize,
    /// Candidates for the next run: two runs in a row differ in their shapes.
    first: usize,
}

impl Recent {
    fn new() -> Recent {
        Recent { shapes: [Trace::SINGLE; RECENT_MAX], count: 1, first: 0 }
    }

    fn candidates(&self) -> &[Trace] {
        &self.shapes[self.first..self.count]
    }

    fn use_shape(&mut self, shape: Trace) {
        let known = self.shapes[..self.count].iter().position(|other| *other == shape);
        self.count = (self.count + usize::from(known.is_none())).min(RECENT_MAX);
        self.shapes[..=known.unwrap_or(self.count - 1)].rotate_right(1);
        self.shapes[0] = shape;
        self.first = 1;
    }
}

/// Bits into bytes, low bits first.
struct BitWriter<'o> {
    out: &'o mut Vec<u8>,
    bits: u32,
}

impl BitWriter<'_> {
    fn put(&mut self, bit: bool) {
        if self.bits % 8 == 0 {
            self.out.push(0);
        }
        *self.out.last_mut().expect("just pushed") |= u8::from(bit) << (self.bits % 8);
        self.bits += 1;
    }

    /// Elias gamma: the width in zeros, a one, and the bits below the highest.
    fn put_number(&mut self, number: u64) {
        let zeros = number.ilog2();
        assert!(zeros <= ZEROS_MAX, "{number} is more than any count here");
        (0..zeros).for_each(|_| self.put(false));
        self.put(true);
        (0..zeros).for_each(|bit| self.put(number >> bit & 1 == 1));
    }

    fn put_shape(&mut self, shape: Trace) {
        self.put_number(shape.rows() as u64 + 1);
        for step in shape.steps() {
            self.put(step.is_some());
            if let Some(hint) = step {
                self.put(hint != Hint::Unknown);
            }
        }
    }
}

/// Appends the bytes of one segment: their number, and the traces of the inputs that have ECDSA rows, in order.
pub(super) fn write_segment(out: &mut Vec<u8>, traces: &[Trace]) {
    assert!(traces.len() <= SEGMENT_INPUTS, "one a input");
    let mut bytes = Vec::with_capacity(64);
    let mut bits = BitWriter { out: &mut bytes, bits: 0 };
    let mut recent = Recent::new();
    for run in traces.chunk_by(|a, b| a.shape() == b.shape()) {
        let shape = run[0].shape();
        bits.put_number(run.len() as u64);
        for candidate in recent.candidates() {
            bits.put(*candidate == shape);
            if *candidate == shape {
                break;
            }
        }
        if !recent.candidates().contains(&shape) {
            bits.put_shape(shape);
        }
        recent.use_shape(shape);
        for trace in run {
            trace.steps().flatten().filter(|hint| *hint != Hint::Unknown).for_each(|hint| bits.put(hint == Hint::Odd));
        }
    }
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(&bytes);
}

/// Traces out of a segment's bytes; allocates nothing.
struct SegmentReader<'a> {
    bytes: &'a [u8],
    bit: usize,
    recent: Recent,
    shape: Trace,
    /// Traces of this shape still to come.
    run: u64,
}

impl<'a> SegmentReader<'a> {
    fn new(bytes: &'a [u8]) -> SegmentReader<'a> {
        SegmentReader { bytes, bit: 0, recent: Recent::new(), shape: Trace::UNKNOWN, run: 0 }
    }

    fn take(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.bit / 8)?;
        let bit = byte >> (self.bit % 8) & 1 == 1;
        self.bit += 1;
        Some(bit)
    }

    fn number(&mut self) -> Option<u64> {
        let mut zeros = 0;
        while !self.take()? {
            zeros += 1;
            if zeros > ZEROS_MAX {
                return None;
            }
        }
        let mut number = 1 << zeros;
        for bit in 0..zeros {
            number |= u64::from(self.take()?) << bit;
        }
        Some(number)
    }

    fn literal(&mut self) -> Option<Trace> {
        let rows = self.number()? - 1;
        if rows > KEYS_MAX as u64 {
            return None;
        }
        let mut shape = Trace::UNKNOWN;
        for _ in 0..rows {
            shape = match self.take()? {
                false => shape.missed(),
                true => shape.proved(if self.take()? { Hint::Even } else { Hint::Unknown }),
            };
        }
        Some(shape)
    }

    fn next(&mut self) -> Option<Trace> {
        if self.run == 0 {
            self.run = self.number()?;
            let mut known = None;
            for index in 0..self.recent.candidates().len() {
                if self.take()? {
                    known = Some(self.recent.candidates()[index]);
                    break;
                }
            }
            self.shape = match known {
                Some(shape) => shape,
                None => self.literal()?,
            };
            self.recent.use_shape(self.shape);
        }
        self.run -= 1;
        let mut trace = Trace::UNKNOWN;
        for step in self.shape.steps() {
            trace = match step {
                None => trace.missed(),
                Some(Hint::Unknown) => trace.proved(Hint::Unknown),
                Some(_) => trace.proved(if self.take()? { Hint::Odd } else { Hint::Even }),
            };
        }
        Some(trace)
    }
}

/// Traces of consecutive segments of a block.
pub(super) struct KeptTraces<'a> {
    rest: Reader<'a>,
    segment: SegmentReader<'a>,
}

impl<'a> KeptTraces<'a> {
    /// The traces from segment `first` on, out of the bytes kept for the block; none of them need make sense.
    pub fn new(bytes: &'a [u8], first: usize) -> KeptTraces<'a> {
        let mut traces = KeptTraces { rest: Reader::new(bytes), segment: SegmentReader::new(&[]) };
        (0..first).for_each(|_| traces.next_segment());
        traces.segment = SegmentReader::new(&[]);
        traces
    }

    /// Goes on with the next segment.
    pub fn next_segment(&mut self) {
        let taken = self.rest.varint().and_then(|length| self.rest.take(usize::try_from(length).unwrap_or(usize::MAX)));
        if taken.is_err() {
            self.rest = Reader::new(&[]);
        }
        self.segment = SegmentReader::new(taken.unwrap_or(&[]));
    }

    /// The trace of the next input with ECDSA rows.
    pub fn next(&mut self) -> Trace {
        self.segment.next().unwrap_or_else(|| {
            self.segment = SegmentReader::new(&[]);
            Trace::UNKNOWN
        })
    }
}

/// Reads any bytes as the hints of a block, for fuzzing: ends, takes no memory, and what was read is written and read
/// again as the same.
pub fn fuzz_hints(bytes: &[u8]) {
    let mut kept = KeptTraces::new(bytes, 0);
    // More segments than a block has inputs for.
    for _ in 0..128 {
        kept.next_segment();
        let traces: Vec<Trace> = (0..SEGMENT_INPUTS).map(|_| kept.next()).collect();
        let mut written = Vec::new();
        write_segment(&mut written, &traces);
        let mut again = KeptTraces::new(&written, 0);
        again.next_segment();
        assert!(traces.iter().all(|trace| again.next() == *trace), "{traces:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    fn trace(text: &str) -> Trace {
        text.bytes().fold(Trace::UNKNOWN, |trace, step| match step {
            b'-' => trace.missed(),
            b'?' => trace.proved(Hint::Unknown),
            b'e' => trace.proved(Hint::Even),
            _ => trace.proved(Hint::Odd),
        })
    }

    #[test]
    fn a_trace_says_what_was_put_in() {
        #[track_caller]
        fn check(text: &str, parities: u32, shape: &str) {
            let trace = trace(text);
            assert_eq!((trace.rows(), trace.parities()), (text.len(), parities), "{text}");
            assert_eq!(trace.shape(), super::tests::trace(shape), "{text}");
            let steps = trace.steps().map(|step| match step {
                None => '-',
                Some(Hint::Unknown) => '?',
                Some(Hint::Even) => 'e',
                Some(Hint::Odd) => 'o',
            });
            assert_eq!(steps.collect::<String>(), text);
        }
        check("", 0, "");
        check("e", 1, "e");
        check("o", 1, "e");
        check("?", 0, "?");
        check("-", 0, "-");
        check("-oeo-", 3, "-eee-");
        check("o?-oooooooooooo-ooo?", 16, "e?-eeeeeeeeeeee-eee?");
        assert_eq!((trace("e").single(), trace("o").single()), (Hint::Even, Hint::Odd));
        for other in ["", "?", "-", "oo", "-e"] {
            assert_eq!(trace(other).single(), Hint::Unknown, "{other}");
        }
    }

    fn segment(traces: &[Trace]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_segment(&mut bytes, traces);
        bytes
    }

    fn read(bytes: &[u8], count: usize) -> Vec<Trace> {
        let mut kept = KeptTraces::new(bytes, 0);
        kept.next_segment();
        (0..count).map(|_| kept.next()).collect()
    }

    /// Traces of `count` inputs, drawn from `kinds` in runs of `run` on average.
    fn drawn(random: &mut Random, kinds: &[&str], count: usize, run: u64) -> Vec<Trace> {
        let mut kind = kinds[0];
        let each = (0..count).map(|_| {
            if random.chance(1, run) {
                kind = kinds[random.below(kinds.len() as u64) as usize];
            }
            let odd = |step| if step == 'e' && random.chance(1, 2) { 'o' } else { step };
            trace(&kind.chars().map(odd).collect::<String>())
        });
        each.collect()
    }

    #[test]
    fn segments_come_back_and_take_few_bits() {
        #[track_caller]
        fn check(kinds: &[&str], run: u64, bits_per_parity_max: f64) {
            let mut random = Random::new(7);
            let (mut bits, mut parities) = (0, 0);
            for round in 0..40 {
                let count = if round < 8 { round } else { SEGMENT_INPUTS };
                let traces = drawn(&mut random, kinds, count, run);
                let bytes = segment(&traces);
                assert_eq!(read(&bytes, count), traces);
                if count == SEGMENT_INPUTS {
                    bits += bytes.len() * 8;
                    parities += traces.iter().map(|trace| trace.parities()).sum::<u32>();
                }
            }
            let each = bits as f64 / f64::from(parities);
            assert!(each <= bits_per_parity_max && each >= 1.0, "{kinds:?}: {each:.3} bits a signature");
        }
        check(&["e"], 1, 1.16);
        check(&["e", "ee"], 1, 2.2);
        check(&["e", "ee", "-ee", "e-e"], 5, 1.7);
        check(&["ee", "-ee", "e-e"], 1, 2.2);
        check(&["ee"], 1, 1.15);
        check(&["e", "", "?", "-e-eee?-eeeeeeeee-ee", "e", "e"], 3, 2.5);
        assert_eq!(segment(&vec![trace("o"); SEGMENT_INPUTS]).len(), 37 - 1);
        assert_eq!(segment(&[]), [0]);
    }

    #[test]
    fn bytes_of_no_sense_give_nothing_and_end() {
        let traces = drawn(&mut Random::new(3), &["e", "ee", "-e-e", ""], SEGMENT_INPUTS, 2);
        let whole = segment(&traces);
        for end in 0..whole.len() {
            // Too short for its own length: the whole segment is unknown.
            assert!(read(&whole[..end], SEGMENT_INPUTS).iter().all(|trace| *trace == Trace::UNKNOWN), "{end}");
        }
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fuzz_hints(&flipped);
        }
        let mut random = Random::new(11);
        for length in 0..200 {
            let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            fuzz_hints(&bytes);
            fuzz_hints(&[&[length as u8], &bytes[..]].concat());
        }
        fuzz_hints(&[0xff; 300]);
    }

    #[test]
    fn a_block_is_read_from_any_segment_on() {
        let parts = [vec![trace("e"); 3], vec![], vec![trace("-oe")], vec![trace("o"); SEGMENT_INPUTS]];
        let bytes: Vec<u8> = parts.iter().flat_map(|part| segment(part)).collect();
        for first in 0..6 {
            let mut kept = KeptTraces::new(&bytes, first);
            assert_eq!(kept.next(), Trace::UNKNOWN, "a segment has to be begun");
            for part in parts.iter().skip(first) {
                kept.next_segment();
                assert!(part.iter().all(|trace| kept.next() == *trace));
                // More inputs with rows than there were: nothing is known of them.
                assert_eq!(kept.next(), Trace::UNKNOWN);
            }
            kept.next_segment();
            assert_eq!(kept.next(), Trace::UNKNOWN);
        }
    }
}
