//! Block filters against published vectors, a slow second version, and damage.
//!
//! In:     BIP 158's and Bitcoin Core's rows; filter headers of mainnet 0 to 4521 and its blocks, where present.
//! Out:    the same filters and headers, bit for bit.
//! Fails:  naming the row that differs.

use std::collections::{BTreeSet, HashMap};

use index::filter::{self, BadFilter};
use primitives::{Block, BlockHash, OutPoint};
use serde_json::Value;
use stdx::random::Random;
use stdx::{hex, vectors};

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn reversed(digits: &str) -> [u8; 32] {
    let mut bytes: [u8; 32] = hex::decode_array(digits).expect("32 bytes");
    bytes.reverse();
    bytes
}

/// Rows of BIP 158's table: height, hash, block, spent scripts, header before, filter, header, notes.
fn check_rows(json: &str, least: usize) {
    let rows: Vec<Value> = serde_json::from_str(json).expect("JSON");
    let rows: Vec<&Value> = rows.iter().filter(|row| row[0].is_number()).collect();
    assert!(rows.len() >= least, "{} rows", rows.len());
    for row in rows {
        let block = Block::parse(hex::decode(text(&row[2])).unwrap()).expect("a block");
        let hash: BlockHash = text(&row[1]).parse().unwrap();
        let spent: Vec<Vec<u8>> =
            row[3].as_array().unwrap().iter().map(|script| hex::decode(text(script)).unwrap()).collect();
        let built = filter::of_block(&block, &hash, spent.iter().map(Vec::as_slice));
        assert_eq!(hex::encode(&built), text(&row[5]), "{}", row[7]);
        let header = filter::header(&filter::hash(&built), &reversed(text(&row[4])));
        assert_eq!(header, reversed(text(&row[6])), "{}", row[7]);
        for script in spent.iter().filter(|script| !script.is_empty()) {
            assert_eq!(filter::matches_any(&built, &hash, [&script[..]].into_iter()), Ok(true), "{}", row[7]);
        }
        filter::element_count(&built).expect("whole");
    }
}

#[test]
fn rows_of_bip_158_give_their_filters() {
    match vectors::shared("bips/bip-0158/testnet-19.json") {
        Some(path) => check_rows(&std::fs::read_to_string(path).unwrap(), 10),
        None => println!("skipped: ../shared/vectors/bips/bip-0158 is absent"),
    }
}

#[test]
fn rows_of_core_give_their_filters() {
    match vectors::core_source("test/data/blockfilters.json") {
        Some(path) => check_rows(&std::fs::read_to_string(path).unwrap(), 10),
        None => println!("skipped: the sources of libbitcoinkernel-sys are not in cargo's registry"),
    }
}

#[test]
fn filter_headers_of_mainnet_are_those_published() {
    let paths = ["chains/mainnet_0_4521.blk", "filters/filter_headers_mainnet_0_4521.bin"].map(vectors::shared);
    let [Some(blocks), Some(headers)] = paths else {
        return println!("skipped: ../shared/vectors/filters is absent");
    };
    let (bytes, headers) = (std::fs::read(blocks).unwrap(), std::fs::read(headers).unwrap());
    let mut made: HashMap<OutPoint, Vec<u8>> = HashMap::new();
    let (mut left, mut previous, mut spends) = (&bytes[..], [0; 32], 0);
    for (height, want) in headers.chunks_exact(32).enumerate() {
        let length = u32::from_le_bytes(left[4..8].try_into().unwrap()) as usize;
        let block = Block::parse(&left[8..8 + length]).expect("a block");
        left = &left[8 + length..];
        let mut spent = Vec::new();
        for tx in block.txs() {
            let inputs = tx.inputs().filter(|_| tx.index() > 0);
            spent.extend(inputs.map(|input| made.remove(&input.outpoint()).expect("made before")));
            for (vout, output) in tx.outputs().enumerate() {
                made.insert(OutPoint { txid: tx.txid(), vout: vout as u32 }, output.script.to_vec());
            }
        }
        spends += spent.len();
        let built = filter::of_block(&block, &block.header().hash(), spent.iter().map(Vec::as_slice));
        previous = filter::header(&filter::hash(&built), &previous);
        // Carried as they are shown, last byte first, or as they are sent: the first row says which.
        let mut shown = previous;
        shown.reverse();
        assert!(want == previous || want == shown, "height {height}");
    }
    assert_eq!((headers.len(), spends), (4522 * 32, 260));
}

/// The same code as BIP 158 writes it down, one bit at a time.
fn slow_filter(hash: &BlockHash, elements: &BTreeSet<Vec<u8>>) -> Vec<u8> {
    let key = |at: usize| u64::from_le_bytes(hash.0[at..at + 8].try_into().unwrap());
    let range = elements.len() as u128 * 784_931;
    let hash_of = |e: &Vec<u8>| bitcoin_hashes::siphash24::Hash::hash_to_u64_with_keys(key(0), key(8), e);
    let mut values: Vec<u64> =
        elements.iter().map(|element| (u128::from(hash_of(element)) * range >> 64) as u64).collect();
    values.sort();
    let mut bits = String::new();
    let mut last = 0;
    for value in values {
        let (quotient, remainder) = ((value - last) >> 19, (value - last) & 0x7_ffff);
        bits += &"1".repeat(quotient as usize);
        bits += &format!("0{remainder:019b}");
        last = value;
    }
    while !bits.len().is_multiple_of(8) {
        bits.push('0');
    }
    let mut out = Vec::new();
    primitives::encode::put_compact_size(&mut out, elements.len() as u64);
    out.extend((0..bits.len() / 8).map(|byte| u8::from_str_radix(&bits[8 * byte..8 * byte + 8], 2).unwrap()));
    out
}

/// A block of one coinbase that pays to these scripts.
fn block_paying(scripts: &[Vec<u8>]) -> Block {
    let mut bytes = vec![0; 80];
    bytes.push(1);
    bytes.extend_from_slice(&[1, 0, 0, 0, 1]);
    bytes.extend_from_slice(&[0; 32]);
    bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    primitives::encode::put_compact_size(&mut bytes, scripts.len() as u64);
    for script in scripts {
        bytes.extend_from_slice(&[0; 8]);
        primitives::encode::put_compact_size(&mut bytes, script.len() as u64);
        bytes.extend_from_slice(script);
    }
    bytes.extend_from_slice(&[0; 4]);
    Block::parse(bytes).expect("a block")
}

#[test]
fn random_blocks_give_the_filters_of_the_slow_version() {
    let mut random = Random::new(158);
    for round in 0..200 {
        let count = [0, 1, 2, 5, 252, 253, 254, 300][round % 8].max(1);
        let mut script = || -> Vec<u8> {
            let length = random.below(40) as usize;
            (0..length).map(|_| if random.below(9) == 0 { 0x6a } else { random.next_u64() as u8 }).collect()
        };
        let (mut paid, mut spent): (Vec<_>, Vec<_>) = (0..count).map(|_| (script(), script())).unzip();
        // Some are there twice, in one list and across both.
        paid.push(paid[0].clone());
        spent.push(paid[0].clone());
        let hash = BlockHash(std::array::from_fn(|_| random.next_u64() as u8));
        let built = filter::of_block(&block_paying(&paid), &hash, spent.iter().map(Vec::as_slice));
        let mut elements: BTreeSet<Vec<u8>> = paid.into_iter().filter(|script| script.first() != Some(&0x6a)).collect();
        elements.extend(spent);
        elements.remove(&Vec::new());
        assert_eq!(built, slow_filter(&hash, &elements), "round {round}");
        assert_eq!(filter::element_count(&built), Ok(elements.len() as u64));
        let all = || elements.iter().map(Vec::as_slice);
        assert!(all().all(|element| filter::matches_any(&built, &hash, [element].into_iter()).unwrap()));
        assert_eq!(filter::matches_any(&built, &hash, all()), Ok(!elements.is_empty()));
        // 400 strangers at one in 784,931: none, but for one seed in 2,000.
        let strangers: Vec<Vec<u8>> = (0..400u32).map(|n| [&n.to_le_bytes()[..], b"stranger"].concat()).collect();
        let any = filter::matches_any(&built, &hash, strangers.iter().map(Vec::as_slice));
        assert_eq!(any, Ok(false), "round {round}");
    }
}

#[test]
fn empty_filters_match_nothing() {
    let hash = BlockHash([7; 32]);
    let built = filter::of_block(&block_paying(&[Vec::new(), vec![0x6a, 1]]), &hash, [&b""[..]].into_iter());
    assert_eq!(built, [0]);
    assert_eq!(filter::matches_any(&built, &hash, [&b"x"[..]].into_iter()), Ok(false));
    assert_eq!(filter::element_count(&built), Ok(0));
}

#[test]
fn damaged_filters_are_refused() {
    let hash = BlockHash([7; 32]);
    let scripts: Vec<Vec<u8>> = (0..50u8).map(|n| vec![n; 20]).collect();
    let built = filter::of_block(&block_paying(&scripts), &hash, std::iter::empty());
    assert_eq!(filter::element_count(&built), Ok(50));
    assert_eq!(filter::element_count(&[]), Err(BadFilter));
    assert_eq!(filter::element_count(&built[..built.len() - 1]), Err(BadFilter), "too short");
    assert_eq!(filter::element_count(&[&built[..], &[0]].concat()), Err(BadFilter), "too long");
    assert_eq!(filter::element_count(&[0xfd, 50, 0]), Err(BadFilter), "a count written too long");
    // A count that the bytes do not hold costs no more than the bytes.
    assert_eq!(filter::element_count(&[0xfe, 0, 0, 0, 2, 0]), Err(BadFilter));
    let far = [0xff; 33];
    assert_eq!(filter::matches_any(&built[..10], &hash, [&far[..]].into_iter()).is_ok(), false, "too short");
    // Ones without end, and whatever else comes: an answer or an error, never a panic.
    let mut random = Random::new(3);
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..random.below(60)).map(|_| (random.next_u64() | random.next_u64()) as u8).collect();
        let _ = filter::element_count(&bytes);
        let _ = filter::matches_any(&bytes, &hash, [&b"script"[..]].into_iter());
    }
}
