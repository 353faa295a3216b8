//! The identifier of serialized bytes, without keeping where anything is.
//!
//! In:     the bytes of one transaction.
//! Out:    its txid, or the pieces that the txid is the hash of; nothing is allocated.
//! Fails:  [`ParseError`], exactly where `Transaction::parse` fails.
//! Source: BIP 144.
//!
//! A history of 100,000 entries reads as many transactions only to name them. Beside the hashing the gain is small (1.05 to
//! 1.3 times, transactions of 1.5 KB); what counts is that many can be hashed at once out of one piece of bytes.

use stdx::bytes::Reader;

use crate::block::BLOCK_BYTES_MAX;
use crate::encode::{ParseError, compact_size};
use crate::hash::{Txid, sha256d_parts};
use crate::sha256::Parts;

/// The txid of one serialized transaction; bytes behind it are an error.
pub fn txid_of(bytes: &[u8]) -> Result<Txid, ParseError> {
    Ok(Txid(sha256d_parts(&stripped_parts_of(bytes)?)))
}

/// The bytes without marker, flag and witnesses, in the pieces they lie in.
pub fn stripped_parts_of(bytes: &[u8]) -> Result<Parts<'_>, ParseError> {
    if bytes.len() > BLOCK_BYTES_MAX {
        return Err(ParseError::TooLarge);
    }
    let mut reader = Reader::new(bytes);
    reader.take(4)?;
    let mut input_count = skip_inputs(&mut reader)?;
    let has_marker = input_count == 0;
    let flags = if has_marker { reader.u8()? } else { 0 };
    if flags != 0 {
        input_count = skip_inputs(&mut reader)?;
    }
    let has_witness = flags & 1 != 0;
    if flags != 0 || !has_marker {
        skip_outputs(&mut reader)?;
    }
    let body_end = reader.position();
    if has_witness {
        skip_witnesses(&mut reader, input_count)?;
    }
    if flags & !1 != 0 {
        return Err(ParseError::UnknownWitnessFlag);
    }
    reader.take(4)?;
    if reader.left() > 0 {
        return Err(ParseError::TrailingBytes);
    }
    Ok(match has_witness {
        true => [&bytes[..4], &bytes[6..body_end], &bytes[bytes.len() - 4..]],
        false => [bytes, &[], &[]],
    })
}

fn skip_inputs(reader: &mut Reader<'_>) -> Result<u64, ParseError> {
    let count = compact_size(reader)?;
    for _ in 0..count {
        reader.take(36)?;
        skip_bytes(reader)?;
        reader.take(4)?;
    }
    Ok(count)
}

fn skip_outputs(reader: &mut Reader<'_>) -> Result<(), ParseError> {
    for _ in 0..compact_size(reader)? {
        reader.take(8)?;
        skip_bytes(reader)?;
    }
    Ok(())
}

fn skip_witnesses(reader: &mut Reader<'_>, input_count: u64) -> Result<(), ParseError> {
    let mut any = false;
    for _ in 0..input_count {
        let items = compact_size(reader)?;
        any |= items > 0;
        for _ in 0..items {
            skip_bytes(reader)?;
        }
    }
    if any { Ok(()) } else { Err(ParseError::SuperfluousWitness) }
}

/// A length, and as many bytes.
#[inline]
fn skip_bytes(reader: &mut Reader<'_>) -> Result<(), ParseError> {
    let length = compact_size(reader)?;
    reader.take(length as usize)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::Transaction;
    use stdx::random::Random;

    /// The same answer as parsing gives, or the same refusal.
    fn check(bytes: &[u8]) {
        let want = Transaction::parse(bytes).map(|parsed| parsed.tx().txid());
        assert_eq!(txid_of(bytes), want, "{}", stdx::hex::encode(bytes));
    }

    /// A transaction of random counts and lengths.
    fn invent(random: &mut Random, witness: bool) -> Vec<u8> {
        let some = |random: &mut Random, out: &mut Vec<u8>| {
            let length = [0, 22, 107, 252, 253, 300][random.below(6) as usize];
            crate::encode::put_compact_size(out, length);
            out.extend((0..length).map(|_| random.next_u64() as u8));
        };
        let mut out = random.bytes::<4>().to_vec();
        let (inputs, outputs) = (1 + random.below(4), random.below(4));
        out.extend_from_slice(if witness { &[0, 1] } else { &[] });
        out.push(inputs as u8);
        for _ in 0..inputs {
            out.extend(random.bytes::<36>());
            some(random, &mut out);
            out.extend(random.bytes::<4>());
        }
        out.push(outputs as u8);
        for _ in 0..outputs {
            out.extend(random.bytes::<8>());
            some(random, &mut out);
        }
        for _ in 0..if witness { inputs } else { 0 } {
            let items = random.below(3);
            out.push(items as u8);
            (0..items).for_each(|_| some(random, &mut out));
        }
        out.extend(random.bytes::<4>());
        out
    }

    #[test]
    fn equals_the_txid_of_the_parsed_transaction_or_its_refusal() {
        let mut random = Random::new(144);
        let mut good = 0;
        for round in 0..2_000 {
            let mut bytes = invent(&mut random, round % 2 == 0);
            check(&bytes);
            good += usize::from(txid_of(&bytes).is_ok());
            // One bit, one byte less, one byte more.
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
            check(&bytes);
            check(&bytes[..bytes.len() - 1]);
            bytes.push(0);
            check(&bytes);
        }
        assert!(good > 1_500, "{good}");
    }

    #[test]
    fn marker_tricks_are_refused_alike() {
        for text in ["01000000000000000000", "010000000002", "0100000000010000ffffffff", "01000000000100", ""] {
            check(&stdx::hex::decode(text).unwrap());
        }
    }

    #[test]
    fn a_real_blocks_transactions_have_the_same_txids() {
        let Some(folder) = stdx::vectors::shared("blocks") else {
            println!("skipped: ../shared/vectors/blocks is not here");
            return;
        };
        let mut transactions = 0;
        for file in std::fs::read_dir(folder).unwrap().flatten().map(|file| file.path()) {
            if file.extension().is_none_or(|extension| extension != "blk") {
                continue;
            }
            let block = crate::Block::parse(std::fs::read(&file).unwrap()).unwrap();
            block.txs().for_each(|tx| assert_eq!(txid_of(tx.raw()), Ok(tx.txid())));
            transactions += block.tx_count();
        }
        assert!(transactions > 1_000, "{transactions}");
    }

    #[test]
    #[ignore = "a measurement"]
    fn speed() {
        let mut random = Random::new(7);
        let transactions: Vec<Vec<u8>> = (0..100_000).map(|round| invent(&mut random, round % 2 == 0)).collect();
        let time = |name: &str, run: &dyn Fn(&[u8]) -> Option<Txid>| {
            let start = std::time::Instant::now();
            let found = transactions.iter().filter_map(|bytes| run(bytes)).count();
            println!("{name}: {:.0} ns each, {found}", start.elapsed().as_nanos() as f64 / 100_000.0);
        };
        for _ in 0..3 {
            time("parse, then txid", &|bytes| Some(Transaction::parse(bytes).ok()?.tx().txid()));
            time("txid_of", &|bytes| txid_of(bytes).ok());
        }
    }
}
