//! Which autonomous system an address belongs to, by Bitcoin Core's compressed map.
//!
//! The map is a program of bits, the lowest of each byte first, that is run over the 128 bits of an address, the highest first:
//!
//! | bits  | instruction | argument                                                                               |
//! |-------|-------------|----------------------------------------------------------------------------------------|
//! | `0`   | return      | the system                                                                             |
//! | `10`  | jump        | the next bit of the address is 1: skip so many bits of the map                         |
//! | `110` | match       | the next bits of the address, behind a leading 1; where they differ, return the default |
//! | `111` | default     | the system that a failed match returns from now on                                     |
//!
//! A number of a class table `[a, b, ...]` is so many ones as classes are passed over, a zero (not behind the last class), and
//! the place in its class in `a` or `b` bits, the highest first.
//!
//! In:     bytes of a file; an address as 16 bytes, IPv4 behind ::ffff:0:0/96.
//! Out:    the system's number, 0 for none.
//! Fails:  [`AsMapError`] for a map that [`AsMap::new`] would not run to its end on every address.
//! Source: Bitcoin Core, `src/util/asmap.cpp` (`Interpret`, `SanityCheckAsmap`).

use std::fmt;

/// Bits of an address.
const ADDRESS_BITS: u32 = 128;
/// Largest map, in bytes; today's have 2 MB.
pub const MAP_BYTES_MAX: usize = 64 << 20;

/// A table of classes: the least number, the bits of each class.
pub(super) struct Classes {
    pub least: u32,
    pub bits: &'static [u8],
}

pub(super) const KINDS: Classes = Classes { least: 0, bits: &[0, 0, 1] };
pub(super) const SYSTEMS: Classes = Classes { least: 1, bits: &[15, 16, 17, 18, 19, 20, 21, 22, 23, 24] };
pub(super) const MATCHES: Classes = Classes { least: 2, bits: &[1, 2, 3, 4, 5, 6, 7, 8] };
pub(super) const JUMPS: Classes = Classes {
    least: 17,
    bits: &[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30],
};

/// Why a map is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsMapError {
    /// It is larger than [`MAP_BYTES_MAX`].
    TooLarge {
        /// Its bytes.
        got: usize,
    },
    /// It ends within an instruction, or before the last return.
    EndsEarly,
    /// Something follows the last return.
    TrailingBits,
    /// A jump leads into an instruction, beyond the end, or out of a part of another jump.
    WrongJump,
    /// More bits of an address are asked for than it has.
    TooDeep,
    /// An instruction that no writer makes, since a shorter map says the same: the file is not what it says.
    Wasteful,
}

impl fmt::Display for AsMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AsMapError::TooLarge { got } => write!(f, "{got} bytes are more than any map has"),
            AsMapError::EndsEarly => f.write_str("the map ends early"),
            AsMapError::TrailingBits => f.write_str("something follows the map's end"),
            AsMapError::WrongJump => f.write_str("a jump of the map leads astray"),
            AsMapError::TooDeep => f.write_str("the map asks for more bits than an address has"),
            AsMapError::Wasteful => f.write_str("the map says something twice"),
        }
    }
}

impl std::error::Error for AsMapError {}

/// An instruction with its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Return(u32),
    Jump(u32),
    /// How many bits, and which.
    Match(u32, u32),
    Default(u32),
}

/// A map that has been checked.
pub struct AsMap {
    bytes: Vec<u8>,
}

impl fmt::Debug for AsMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsMap({} bytes)", self.bytes.len())
    }
}

/// A place in the bits of a map.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn left(&self) -> usize {
        8 * self.bytes.len() - self.at
    }

    fn bit(&mut self) -> Option<u32> {
        let bit = self.bytes.get(self.at / 8)? >> (self.at % 8) & 1;
        self.at += 1;
        Some(u32::from(bit))
    }

    fn number(&mut self, classes: &Classes) -> Option<u32> {
        let mut number = classes.least;
        for (class, bits) in classes.bits.iter().enumerate() {
            if class + 1 < classes.bits.len() && self.bit()? == 1 {
                number += 1 << bits;
                continue;
            }
            let place = (0..*bits).try_fold(0, |place, _| Some(place << 1 | self.bit()?))?;
            return Some(number + place);
        }
        None
    }

    fn step(&mut self) -> Option<Step> {
        Some(match self.number(&KINDS)? {
            0 => Step::Return(self.number(&SYSTEMS)?),
            1 => Step::Jump(self.number(&JUMPS)?),
            2 => {
                let pattern = self.number(&MATCHES)?;
                let count = pattern.ilog2();
                Step::Match(count, pattern ^ 1 << count)
            }
            _ => Step::Default(self.number(&SYSTEMS)?),
        })
    }
}

impl AsMap {
    /// The map of a file.
    pub fn new(bytes: Vec<u8>) -> Result<AsMap, AsMapError> {
        if bytes.len() > MAP_BYTES_MAX {
            return Err(AsMapError::TooLarge { got: bytes.len() });
        }
        check(&bytes)?;
        Ok(AsMap { bytes })
    }

    /// The system of an address, IPv4 behind ::ffff:0:0/96; 0 for none.
    pub fn system_of(&self, address: &[u8; 16]) -> u32 {
        let mut bits = Bits { bytes: &self.bytes, at: 0 };
        let (address, mut used, mut default) = (u128::from_be_bytes(*address), 0, 0);
        let mut next = |count: u32| {
            used += count;
            assert!(used <= ADDRESS_BITS, "the check saw every way through the map");
            (address >> (ADDRESS_BITS - used)) as u32 & ((1 << count) - 1)
        };
        loop {
            match bits.step().expect("the check saw every way through the map") {
                Step::Return(system) => return system,
                Step::Default(system) => default = system,
                Step::Match(count, pattern) if next(count) != pattern => return default,
                Step::Match(..) => {}
                Step::Jump(skip) if next(1) == 1 => bits.at += skip as usize,
                Step::Jump(_) => {}
            }
        }
    }
}

/// Follows every way through the map once, as Core's `SanityCheckAsmap` does.
fn check(bytes: &[u8]) -> Result<(), AsMapError> {
    let mut bits = Bits { bytes, at: 0 };
    // Where jumps lead, the nearest last, and how many bits of an address are left there. A jump takes a bit: so 128 at most.
    let mut jumps: Vec<(usize, u32)> = Vec::new();
    let mut left = ADDRESS_BITS;
    let mut before = Step::Jump(0);
    let mut short_match = false;
    loop {
        if jumps.last().is_some_and(|(target, _)| bits.at >= *target) {
            return Err(AsMapError::WrongJump);
        }
        let step = bits.step().ok_or(AsMapError::EndsEarly)?;
        match step {
            Step::Return(_) | Step::Default(_) if matches!(before, Step::Default(_)) => {
                return Err(AsMapError::Wasteful);
            }
            Step::Default(_) => {}
            Step::Return(_) => match jumps.pop() {
                None => return check_padding(&mut bits),
                Some((target, _)) if target != bits.at => return Err(AsMapError::WrongJump),
                Some((_, there)) => left = there,
            },
            Step::Jump(skip) => {
                let target = bits.at + skip as usize;
                if skip as usize > bits.left() || jumps.last().is_some_and(|(outer, _)| target >= *outer) {
                    return Err(AsMapError::WrongJump);
                }
                left = left.checked_sub(1).ok_or(AsMapError::TooDeep)?;
                jumps.push((target, left));
            }
            Step::Match(count, _) => {
                short_match &= matches!(before, Step::Match(..));
                if count < 8 && short_match {
                    return Err(AsMapError::Wasteful);
                }
                short_match = count < 8;
                left = left.checked_sub(count).ok_or(AsMapError::TooDeep)?;
            }
        }
        // Behind a return the way goes on where a jump led.
        before = if matches!(step, Step::Return(_)) { Step::Jump(0) } else { step };
    }
}

/// Fewer than eight bits may follow, all zero.
fn check_padding(bits: &mut Bits<'_>) -> Result<(), AsMapError> {
    if bits.left() > 7 {
        return Err(AsMapError::TrailingBits);
    }
    while let Some(bit) = bits.bit() {
        if bit == 1 {
            return Err(AsMapError::TrailingBits);
        }
    }
    Ok(())
}
