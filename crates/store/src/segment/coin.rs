//! The bytes of one coin, and of a data block of coins.
//!
//! A body is: varint `height * 2 + coinbase`, varint TxoNum, varint of the compressed amount, then the script: one
//! byte 0 (P2PKH), 1 (P2SH), 2 (P2WPKH) and 20 bytes of hash; 3 (P2WSH), 4 (P2TR) and 32 bytes; 5 (P2PK) and 33 bytes
//! of key; or varint 6 + length and the script itself.
//!
//! A row of a block is: one byte `shared * 4 + operation`, the bytes of the txid behind its first `shared` bytes
//! (which are those of the row before), varint vout, and the body of a live row. The block ends with a checksum of 8
//! bytes. Rows are ordered by txid and vout.
//!
//! In:     coins.
//! Out:    bytes, and coins again.
//! Fails:  [`Short`] for bytes that no encoder wrote.
//! Source: amounts as Bitcoin Core's `compressor.cpp` (`CompressAmount`); the rest is our own, docs/formats.md.

use primitives::{Coin, OutPoint, Txid};
use stdx::bytes::{Reader, Short, put_varint};

use crate::row::Op;
use crate::snapshot::CoinBuf;

/// Bytes of a coin's key: txid, and vout big endian.
pub const COIN_KEY_BYTES: usize = 36;
/// Longest script a body may hold; Core's `MAX_SCRIPT_SIZE` makes longer ones unspendable, the block bounds them.
const SCRIPT_BYTES_MAX: usize = 4_000_000;
/// First script number that means a script as it is.
const SCRIPT_RAW: u64 = 6;

/// Order-preserving key of an outpoint.
#[inline]
pub fn key_of(outpoint: &OutPoint) -> [u8; COIN_KEY_BYTES] {
    let mut key = [0; COIN_KEY_BYTES];
    key[..32].copy_from_slice(&outpoint.txid.0);
    key[32..].copy_from_slice(&outpoint.vout.to_be_bytes());
    key
}

/// The outpoint of a key.
pub fn outpoint_of(key: &[u8; COIN_KEY_BYTES]) -> OutPoint {
    OutPoint {
        txid: Txid(key[..32].try_into().expect("32 bytes")),
        vout: u32::from_be_bytes(key[32..].try_into().expect("four bytes")),
    }
}

/// Core's `CompressAmount`: round amounts become small numbers.
pub fn compress_amount(mut amount: u64) -> u64 {
    if amount == 0 {
        return 0;
    }
    let mut exponent = 0;
    while amount.is_multiple_of(10) && exponent < 9 {
        amount /= 10;
        exponent += 1;
    }
    if exponent < 9 {
        let digit = amount % 10;
        1 + (amount / 10 * 9 + digit - 1) * 10 + exponent
    } else {
        1 + (amount - 1) * 10 + 9
    }
}

/// Core's `DecompressAmount`; None beyond 64 bits.
pub fn decompress_amount(compressed: u64) -> Option<u64> {
    let Some(rest) = compressed.checked_sub(1) else { return Some(0) };
    let (mut rest, exponent) = (rest / 10, rest % 10);
    let amount = if exponent < 9 {
        let digit = rest % 9 + 1;
        rest /= 9;
        rest.checked_mul(10)?.checked_add(digit)?
    } else {
        rest + 1
    };
    amount.checked_mul(10u64.pow(exponent as u32))
}

/// Appends the body of a coin.
pub fn put_body(coin: &Coin<'_>, out: &mut Vec<u8>) {
    put_varint(out, u64::from(coin.height) << 1 | u64::from(coin.coinbase));
    put_varint(out, coin.txo_num);
    put_varint(out, compress_amount(coin.value_sat));
    let (form, payload): (u8, &[u8]) = match coin.script {
        [0x76, 0xa9, 0x14, hash @ .., 0x88, 0xac] if hash.len() == 20 => (0, hash),
        [0xa9, 0x14, hash @ .., 0x87] if hash.len() == 20 => (1, hash),
        [0x00, 0x14, hash @ ..] if hash.len() == 20 => (2, hash),
        [0x00, 0x20, hash @ ..] if hash.len() == 32 => (3, hash),
        [0x51, 0x20, key @ ..] if key.len() == 32 => (4, key),
        [0x21, key @ .., 0xac] if key.len() == 33 => (5, key),
        script => {
            put_varint(out, SCRIPT_RAW + script.len() as u64);
            out.extend_from_slice(script);
            return;
        }
    };
    out.push(form);
    out.extend_from_slice(payload);
}

/// Bytes of a script's payload after its number, by that number.
fn payload_bytes(form: u64) -> Result<usize, Short> {
    match form {
        0..=2 => Ok(20),
        3 | 4 => Ok(32),
        5 => Ok(33),
        raw if raw - SCRIPT_RAW <= SCRIPT_BYTES_MAX as u64 => Ok((raw - SCRIPT_RAW) as usize),
        _ => Err(Short),
    }
}

/// Steps over a body and returns its bytes.
fn take_body<'a>(reader: &mut Reader<'a>, bytes: &'a [u8]) -> Result<&'a [u8], Short> {
    let start = reader.position();
    for _ in 0..3 {
        reader.varint()?;
    }
    let form = reader.varint()?;
    reader.take(payload_bytes(form)?)?;
    Ok(&bytes[start..reader.position()])
}

/// The coin of a body.
pub fn coin_of_body(body: &[u8]) -> Result<CoinBuf, Short> {
    let mut reader = Reader::new(body);
    let (head, txo_num) = (reader.varint()?, reader.varint()?);
    let value_sat = decompress_amount(reader.varint()?).ok_or(Short)?;
    let form = reader.varint()?;
    let payload = reader.take(payload_bytes(form)?)?;
    let (before, after): (&[u8], &[u8]) = match form {
        0 => (&[0x76, 0xa9, 0x14], &[0x88, 0xac]),
        1 => (&[0xa9, 0x14], &[0x87]),
        2 => (&[0x00, 0x14], &[]),
        3 => (&[0x00, 0x20], &[]),
        4 => (&[0x51, 0x20], &[]),
        5 => (&[0x21], &[0xac]),
        _ => (&[], &[]),
    };
    let script = [before, payload, after].concat();
    Ok(CoinBuf { value_sat, height: (head >> 1) as u32, coinbase: head & 1 == 1, txo_num, script })
}

/// One coin row, its body in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoinRow<'a> {
    /// Ordered key.
    pub key: [u8; COIN_KEY_BYTES],
    /// What the row says.
    pub op: Op,
    /// Empty unless the row is live.
    pub body: &'a [u8],
}

/// Appends `row` to a block whose last row has the key `before`.
pub fn put_row(row: &CoinRow<'_>, before: Option<&[u8; COIN_KEY_BYTES]>, out: &mut Vec<u8>) {
    let same = |before: &[u8; COIN_KEY_BYTES]| (0..32).take_while(|&i| before[i] == row.key[i]).count();
    let shared = before.map_or(0, same);
    out.push((shared << 2) as u8 | row.op as u8);
    out.extend_from_slice(&row.key[shared..32]);
    put_varint(out, u64::from(outpoint_of(&row.key).vout));
    out.extend_from_slice(row.body);
}

/// Reads rows of a block one by one.
#[derive(Clone, Copy, Debug)]
pub struct CoinRows<'a> {
    bytes: &'a [u8],
    reader: Reader<'a>,
    key: [u8; COIN_KEY_BYTES],
}

impl<'a> CoinRows<'a> {
    /// Starts at `position` of a block without its checksum, behind a row with the key `key`.
    pub fn resume(bytes: &'a [u8], position: usize, key: [u8; COIN_KEY_BYTES]) -> Result<CoinRows<'a>, Short> {
        let mut reader = Reader::new(bytes);
        reader.take(position)?;
        Ok(CoinRows { bytes, reader, key })
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.reader.position()
    }

    /// The next row, None at the end.
    pub fn next_row(&mut self) -> Result<Option<CoinRow<'a>>, Short> {
        if self.reader.left() == 0 {
            return Ok(None);
        }
        let first = self.reader.u8()?;
        let (shared, op) = (usize::from(first >> 2), Op::from_bits(first.into()));
        if shared > 32 {
            return Err(Short);
        }
        self.key[shared..32].copy_from_slice(self.reader.take(32 - shared)?);
        let vout = u32::try_from(self.reader.varint()?).map_err(|_| Short)?;
        self.key[32..].copy_from_slice(&vout.to_be_bytes());
        let body = if op.is_live() { take_body(&mut self.reader, self.bytes)? } else { &[] };
        Ok(Some(CoinRow { key: self.key, op, body }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    #[test]
    fn amounts_survive_compression() {
        // Core's compress_tests.cpp: pairs of amount and compressed form.
        for (amount, compressed) in [
            (0, 0x0),
            (1, 0x1),
            (1_000_000, 0x7),
            (100_000_000, 0x9),
            (5_000_000_000, 0x32),
            (2_100_000_000_000_000, 0x140_6f40),
        ] {
            assert_eq!(compress_amount(amount), compressed);
            assert_eq!(decompress_amount(compressed), Some(amount));
        }
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            let amount = random.below(2_100_000_000_000_001) / 10u64.pow(random.below(8) as u32);
            assert_eq!(decompress_amount(compress_amount(amount)), Some(amount));
        }
        assert_eq!(decompress_amount(u64::MAX), None);
    }

    #[test]
    fn scripts_of_every_form_survive_both_ways() {
        #[track_caller]
        fn check(script: &[u8], want_bytes: usize) {
            let coin = Coin { value_sat: 0, height: 7, coinbase: true, txo_num: 9, script };
            let mut body = Vec::new();
            put_body(&coin, &mut body);
            assert_eq!(body.len(), 3 + want_bytes);
            assert_eq!(coin_of_body(&body).expect("own bytes").coin(), coin);
            assert_eq!(take_body(&mut Reader::new(&body), &body), Ok(&body[..]));
            for cut in 0..body.len() {
                assert_eq!(coin_of_body(&body[..cut]), Err(Short));
            }
        }
        let script = |before: &[u8], count: usize, after: &[u8]| [before, &vec![7; count], after].concat();
        check(&script(&[0x76, 0xa9, 0x14], 20, &[0x88, 0xac]), 21);
        check(&script(&[0x76, 0xa9, 0x14], 21, &[0x88, 0xac]), 1 + 26);
        check(&script(&[0xa9, 0x14], 20, &[0x87]), 21);
        check(&script(&[0x00, 0x14], 20, &[]), 21);
        check(&script(&[0x00, 0x20], 32, &[]), 33);
        check(&script(&[0x51, 0x20], 32, &[]), 33);
        check(&script(&[0x21], 33, &[0xac]), 34);
        check(&script(&[0x51, 0x20], 31, &[]), 1 + 33);
        check(&[], 1);
        check(&script(&[], 10_000, &[]), 2 + 10_000);
    }
}
