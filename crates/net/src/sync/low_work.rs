//! Headers twice: a chain proves its work before its headers are kept.
//!
//! In:     a peer's headers, from a block we know on, in the order of the chain.
//! Out:    which headers to ask for next; headers of a chain that has been seen to have enough work.
//! Fails:  [`LowWorkError`]: the peer's chain does not connect, breaks a rule, ends too early, or is another one the
//!         second time. The exchange is over then, and nothing of it was kept.
//! Source: Bitcoin Core, `src/headerssync.h` (the reasoning), `headerssync.cpp`, `kernel/chainparams.cpp` (the periods).
//!
//! Headers of low work cost an attacker nothing, and kept ones cost us memory for good. So the first time only one bit in
//! some hundred headers is kept, a keyed hash of the header, and the work is added up. When the sum suffices, the peer is
//! asked for the same headers again; now they are held back in a queue until some twenty bits above each have been found
//! equal, and are then handed out. A peer that shows one chain first and another later is found out with probability 1/2 at
//! each bit, and has filled no more than the queue.

use std::collections::VecDeque;
use std::fmt;

use bitcoin_hashes::siphash24;
use consensus::HeaderError;
use consensus::header::{FUTURE_S_MAX, Work, check_proof_of_work, is_permitted_transition, work_of};
use primitives::{BlockHash, Header, Network, Params};
use stdx::random::Random;

/// Blocks a second that the rule of median time past allows at most, over a long time.
const BLOCKS_PER_S_MAX: u64 = 6;

/// How far apart the bits are, and how many headers are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Periods {
    /// Headers for each bit kept.
    bit_every: u32,
    /// Headers held back the second time.
    queue: usize,
}

impl Periods {
    /// Core computes them from the chain's length, so that an attacker's best strategy leaves him least (see its
    /// `contrib/devtools/headerssync-params.py`); these are the values of Core 31.
    fn of(network: Network) -> Periods {
        let (bit_every, queue) = match network {
            Network::Main => (641, 15_218),
            Network::Testnet3 => (673, 14_460),
            Network::Testnet4 => (606, 16_092),
            Network::Signet => (620, 15_724),
            Network::Regtest => (275, 7_017),
        };
        Periods { bit_every, queue }
    }
}

/// A block of our chain that the peer's headers begin after.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Its height.
    pub height: u32,
    /// Its header.
    pub header: Header,
    /// Work of the chain up to and with it.
    pub work: Work,
    /// Its median time past.
    pub median_time_past_s: u32,
}

/// What a run of headers led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Headers of a chain with enough work, following the ones handed out before; often none.
    pub headers: Vec<Header>,
    /// True where the exchange goes on: ask for what follows [`LowWork::last`].
    pub more: bool,
}

/// Why the exchange is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LowWorkError {
    /// A header does not follow the one before it.
    NotContinuous {
        /// Height the header should have had.
        height: u32,
    },
    /// A header's hash is above its target. Core discourages the peer.
    NoWork(HeaderError),
    /// The target changed by more than the rules allow in one period.
    Transition {
        /// Where.
        height: u32,
    },
    /// More headers than there can be blocks by now.
    TooLong {
        /// Where.
        height: u32,
    },
    /// The chain ended before it had the work asked for.
    NotEnoughWork {
        /// Where.
        height: u32,
    },
    /// The second time the chain was another one.
    Different {
        /// Where that was seen.
        height: u32,
    },
    /// The second time the chain ended earlier.
    Shortened {
        /// Where.
        height: u32,
    },
}

impl fmt::Display for LowWorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LowWorkError::NotContinuous { height } => {
                write!(f, "the header for height {height} does not follow the last")
            }
            LowWorkError::NoWork(error) => write!(f, "{error}"),
            LowWorkError::Transition { height } => write!(f, "the target at height {height} changed too much"),
            LowWorkError::TooLong { height } => write!(f, "no chain can have {height} blocks by now"),
            LowWorkError::NotEnoughWork { height } => {
                write!(f, "the chain ended at height {height} with too little work")
            }
            LowWorkError::Different { height } => write!(f, "another chain than the first time, at height {height}"),
            LowWorkError::Shortened { height } => {
                write!(f, "the chain ended at height {height}, earlier than the first time")
            }
        }
    }
}

impl std::error::Error for LowWorkError {}

/// A header without the hash of the one before, 48 bytes.
#[derive(Clone, Copy)]
struct Compressed {
    version: i32,
    merkle_root: [u8; 32],
    time_s: u32,
    bits: u32,
    nonce: u32,
}

impl Compressed {
    fn of(header: &Header) -> Compressed {
        let Header { version, merkle_root, time_s, bits, nonce, .. } = *header;
        Compressed { version, merkle_root, time_s, bits, nonce }
    }

    fn after(self, previous: BlockHash) -> Header {
        let Compressed { version, merkle_root, time_s, bits, nonce } = self;
        Header { version, previous, merkle_root, time_s, bits, nonce }
    }
}

/// The last header of a run under way.
#[derive(Clone, Copy)]
struct Place {
    height: u32,
    hash: BlockHash,
    bits: u32,
    work: Work,
}

impl Place {
    fn of(start: &Start) -> Place {
        Place { height: start.height, hash: start.header.hash(), bits: start.header.bits, work: start.work }
    }

    /// The place of a header that follows this one by the rules that need no other header.
    fn next(&self, header: &Header, params: &Params) -> Result<Place, LowWorkError> {
        let height = self.height + 1;
        if header.previous != self.hash {
            return Err(LowWorkError::NotContinuous { height });
        }
        let hash = header.hash();
        check_proof_of_work(&hash, header.bits, params).map_err(LowWorkError::NoWork)?;
        if !is_permitted_transition(height, self.bits, header.bits, params) {
            return Err(LowWorkError::Transition { height });
        }
        Ok(Place { height, hash, bits: header.bits, work: self.work + work_of(header.bits) })
    }
}

/// The headers held back the second time.
struct Second {
    queue: VecDeque<Compressed>,
    /// Hash of the header before the queue's first.
    before: BlockHash,
    /// True once the work has been seen again: everything is handed out.
    proved: bool,
}

/// One exchange with one peer.
pub struct LowWork {
    params: Params,
    periods: Periods,
    start: Place,
    enough: Work,
    /// Which heights have a bit: those that leave this rest.
    offset: u32,
    key: [u64; 2],
    bits: VecDeque<bool>,
    bits_max: u64,
    last: Place,
    second: Option<Second>,
}

impl LowWork {
    /// Begins after `start`; `enough` is the work a chain must have to be kept.
    pub fn new(start: &Start, enough: Work, now_s: u64, params: &Params, random: &mut Random) -> LowWork {
        let periods = Periods::of(params.network);
        let seconds = (now_s + FUTURE_S_MAX).saturating_sub(start.median_time_past_s.into());
        let place = Place::of(start);
        LowWork {
            params: params.clone(),
            periods,
            start: place,
            enough,
            offset: random.below(periods.bit_every.into()) as u32,
            key: [random.next_u64(), random.next_u64()],
            bits: VecDeque::new(),
            bits_max: BLOCKS_PER_S_MAX * seconds / u64::from(periods.bit_every),
            last: place,
            second: None,
        }
    }

    /// The block whose successors are to be asked for; it comes first in the locator, before those of our own chain.
    pub fn last(&self) -> BlockHash {
        self.last.hash
    }

    /// Height of that block, and whether the headers come for the second time.
    pub fn progress(&self) -> (u32, bool) {
        (self.last.height, self.second.is_some())
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        let queue = self.second.as_ref().map_or(0, |second| second.queue.capacity());
        self.bits.capacity() + queue * size_of::<Compressed>()
    }

    /// Takes the headers of one message; `full` says that it had as many as a message can have.
    ///
    /// After an error, or an answer without `more`, the exchange is over.
    pub fn take(&mut self, headers: &[Header], full: bool) -> Result<Taken, LowWorkError> {
        for header in headers {
            let next = self.last.next(header, &self.params)?;
            match self.second {
                None => self.take_first(next)?,
                Some(_) => self.take_second(next, header)?,
            }
            self.last = next;
        }
        let height = self.last.height;
        match &mut self.second {
            None if self.last.work >= self.enough => {
                let before = self.start.hash;
                self.second = Some(Second { queue: VecDeque::new(), before, proved: false });
                self.last = self.start;
                Ok(Taken { headers: Vec::new(), more: true })
            }
            None if full => Ok(Taken { headers: Vec::new(), more: true }),
            None => Err(LowWorkError::NotEnoughWork { height }),
            Some(second) => {
                let ready = hand_out(second, self.periods.queue);
                if !full && !second.proved {
                    return Err(LowWorkError::Shortened { height });
                }
                // With the work seen again, ordinary synchronisation takes over where the headers end.
                Ok(Taken { headers: ready, more: full && !second.proved })
            }
        }
    }

    fn take_first(&mut self, next: Place) -> Result<(), LowWorkError> {
        if next.height % self.periods.bit_every == self.offset {
            self.bits.push_back(self.bit_of(&next.hash));
            if self.bits.len() as u64 > self.bits_max {
                return Err(LowWorkError::TooLong { height: next.height });
            }
        }
        Ok(())
    }

    fn take_second(&mut self, next: Place, header: &Header) -> Result<(), LowWorkError> {
        let has_bit = next.height % self.periods.bit_every == self.offset;
        let bit = self.bit_of(&next.hash);
        let second = self.second.as_mut().expect("asked for by the second time only");
        second.proved |= next.work >= self.enough;
        if has_bit && !second.proved && self.bits.pop_front() != Some(bit) {
            return Err(LowWorkError::Different { height: next.height });
        }
        second.queue.push_back(Compressed::of(header));
        Ok(())
    }

    fn bit_of(&self, hash: &BlockHash) -> bool {
        siphash24::Hash::hash_to_u64_with_keys(self.key[0], self.key[1], &hash.0) & 1 == 1
    }
}

/// Headers that have enough equal bits above them, or all once the work has been seen again.
fn hand_out(second: &mut Second, held_back: usize) -> Vec<Header> {
    let stay = if second.proved { 0 } else { held_back };
    let count = second.queue.len().saturating_sub(stay);
    let mut out = Vec::with_capacity(count);
    for compressed in second.queue.drain(..count) {
        let header = compressed.after(second.before);
        second.before = header.hash();
        out.push(header);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers on top of regtest's genesis; `salt` makes another chain.
    fn mine(count: u32, salt: u8) -> Vec<Header> {
        extend(&Params::of(Network::Regtest).genesis, count, salt)
    }

    fn extend(from: &Header, count: u32, salt: u8) -> Vec<Header> {
        let params = Params::of(Network::Regtest);
        let (mut out, mut previous, mut time_s) = (Vec::new(), from.hash(), from.time_s);
        for _ in 0..count {
            time_s += 1;
            let mut header =
                Header { version: 4, previous, merkle_root: [salt; 32], time_s, bits: from.bits, nonce: 0 };
            while check_proof_of_work(&header.hash(), header.bits, &params).is_err() {
                header.nonce += 1;
            }
            previous = header.hash();
            out.push(header);
        }
        out
    }

    fn start() -> Start {
        let header = Params::of(Network::Regtest).genesis;
        Start { height: 0, header, work: work_of(header.bits), median_time_past_s: header.time_s }
    }

    /// Work of regtest's genesis and `count` headers after it.
    fn work(count: u32) -> Work {
        (0..=count).map(|_| work_of(start().header.bits)).sum()
    }

    fn exchange(enough: u32) -> LowWork {
        let now_s = u64::from(start().header.time_s) + 1_000_000;
        LowWork::new(&start(), work(enough), now_s, &Params::of(Network::Regtest), &mut Random::new(7))
    }

    /// Serves the headers after `last` by messages of 2,000: first those of one chain, the second time those of another.
    fn serve(exchange: &mut LowWork, chains: [&[Header]; 2]) -> (Vec<Header>, Result<(), LowWorkError>, usize) {
        let (mut got, mut bytes) = (Vec::new(), 0);
        loop {
            let (height, second) = exchange.progress();
            let (chain, known) = (chains[usize::from(second)], height as usize);
            assert!(known == 0 || exchange.last() == chain[known - 1].hash() || second, "no header is asked for twice");
            let message = &chain[known..chain.len().min(known + 2000)];
            match exchange.take(message, message.len() == 2000) {
                Ok(taken) => {
                    got.extend(taken.headers);
                    bytes = bytes.max(exchange.bytes());
                    if !taken.more {
                        return (got, Ok(()), bytes);
                    }
                }
                Err(error) => return (got, Err(error), bytes),
            }
        }
    }

    #[test]
    fn a_chain_with_enough_work_is_handed_out_whole_and_in_order() {
        let chain = mine(9_000, 1);
        for enough in [1, 1_999, 2_000, 2_001, 8_999, 9_000] {
            let (got, result, _) = serve(&mut exchange(enough), [&chain, &chain]);
            assert_eq!(result, Ok(()), "{enough}");
            // What comes after the message that proved the work is left to ordinary synchronisation.
            let want = (enough as usize).next_multiple_of(2000).min(chain.len());
            assert!(got == chain[..want], "{enough}: {} headers", got.len());
        }
    }

    #[test]
    fn too_little_work_hands_out_nothing() {
        let chain = mine(4_100, 1);
        let (got, result, bytes) = serve(&mut exchange(4_101), [&chain, &chain]);
        assert_eq!((got.len(), result), (0, Err(LowWorkError::NotEnoughWork { height: 4_100 })));
        assert!(bytes < 100, "a bit in 275 headers, and not {bytes} bytes");
        // An empty answer says the chain ends here.
        assert_eq!(exchange(1).take(&[], false), Err(LowWorkError::NotEnoughWork { height: 0 }));
    }

    #[test]
    fn another_chain_the_second_time_is_found_out_before_anything_is_handed_out() {
        let (first, second) = (mine(12_000, 1), mine(12_000, 2));
        let (got, result, _) = serve(&mut exchange(12_000), [&first, &second]);
        assert!(matches!(result, Err(LowWorkError::Different { .. })), "{result:?}");
        assert_eq!(got.len(), 0);
        // The same chain up to some height: nothing above that height is handed out.
        let fork = [&first[..6_000], &extend(&first[5_999], 6_000, 3)[..]].concat();
        let (got, result, bytes) = serve(&mut exchange(12_000), [&first, &fork]);
        assert!(matches!(result, Err(LowWorkError::Different { .. })), "{result:?}");
        assert!(got.len() <= 6_000 && got == first[..got.len()]);
        assert!(bytes <= 16_384 * size_of::<Compressed>() + 64, "{bytes} bytes");
    }

    #[test]
    fn a_chain_that_ends_earlier_the_second_time_is_given_up() {
        let chain = mine(9_000, 1);
        let (got, result, _) = serve(&mut exchange(8_500), [&chain, &chain[..8_100]]);
        assert_eq!(result, Err(LowWorkError::Shortened { height: 8_100 }));
        assert!(got == chain[..got.len()] && got.len() == 8_000 - 7_017);
    }

    #[test]
    fn broken_headers_end_the_exchange() {
        let chain = mine(10, 1);
        let mut skipped = chain.clone();
        skipped.remove(4);
        assert_eq!(exchange(50).take(&skipped, true), Err(LowWorkError::NotContinuous { height: 5 }));
        let mut worthless = chain.clone();
        let params = Params::of(Network::Regtest);
        while check_proof_of_work(&worthless[9].hash(), worthless[9].bits, &params).is_ok() {
            worthless[9].nonce += 1;
        }
        assert!(matches!(exchange(50).take(&worthless, true), Err(LowWorkError::NoWork(_))));
    }

    #[test]
    fn a_chain_longer_than_time_allows_is_refused() {
        // Ten seconds and two hours since the start allow 43,260 blocks, which are 157 bits.
        let params = Params::of(Network::Regtest);
        let now_s = u64::from(start().header.time_s) + 10;
        let mut exchange = LowWork::new(&start(), Work([u64::MAX; 4]), now_s, &params, &mut Random::new(7));
        assert_eq!(exchange.bits_max, 157);
        exchange.bits_max = 3;
        let chain = mine(1_300, 1);
        let error = exchange.take(&chain, true).unwrap_err();
        assert_eq!(error, LowWorkError::TooLong { height: exchange.offset + 3 * 275 });
    }

    #[test]
    fn targets_may_change_by_a_factor_of_four_a_period_where_they_are_ruled() {
        let main = Params::of(Network::Main);
        #[track_caller]
        fn check(params: &Params, height: u32, old: u32, new: u32, want: bool) {
            assert_eq!(is_permitted_transition(height, old, new, params), want, "{height}: {old:08x} to {new:08x}");
        }
        check(&main, 2017, 0x1c00_ffff, 0x1c00_ffff, true);
        check(&main, 2017, 0x1c00_ffff, 0x1c00_fffe, false);
        check(&main, 2016, 0x1c00_ffff, 0x1c03_fffc, true);
        check(&main, 2016, 0x1c00_ffff, 0x1c03_fffd, false);
        check(&main, 2016, 0x1c04_0000, 0x1c01_0000, true);
        check(&main, 2016, 0x1c04_0000, 0x1c00_ffff, false);
        // Never easier than the limit.
        check(&main, 2016, 0x1d00_ffff, 0x1d00_ffff, true);
        check(&main, 2016, 0x1d00_ffff, 0x1d01_0000, false);
        check(&Params::of(Network::Regtest), 7, 0x207f_ffff, 0x1d00_ffff, true);
    }
}
