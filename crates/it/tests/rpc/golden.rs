//! Recorded request and answer of every method, and of REST paths.
//!
//! In:     `data/golden.txt`: lines that begin with `>` are asked, lines that begin with `<` must come back. `{hash:7}` in a
//!         request is the hash of block 7, `{tx:120:1}` the txid and `{raw:120:1}` the bytes of a transaction.
//! Out:    one test; with `ASSAY_BLESS=1` in the environment the answers are recorded anew, for a person to read.
//! Fails:  with the first answer that differs.

use serve::rest;
use serve::rpc::table;
use stdx::hex;

use crate::unconfirmed::{COIN_SAT, Wallet};
use crate::world::World;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rpc/data/golden.txt");
/// The same for a mempool with transactions in it, whose names stand for them.
const MEMPOOL_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rpc/data/mempool.txt");

/// A request with its places filled in.
fn filled(world: &World, line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("{hash:").into_iter().chain(rest.find("{tx:")).chain(rest.find("{raw:")).min() {
        let end = at + rest[at..].find('}').unwrap();
        text.push_str(&rest[..at]);
        let parts: Vec<&str> = rest[at + 1..end].split(':').collect();
        let block = &world.blocks[parts[1].parse::<usize>().unwrap()];
        let tx = |at: usize| block.tx(parts[at].parse().unwrap());
        text.push_str(&match parts[0] {
            "hash" => block.header().hash().to_string(),
            "tx" => tx(2).txid().to_string(),
            _ => hex::encode(tx(2).raw()),
        });
        rest = &rest[end + 1..];
    }
    text + rest
}

/// Numbers that no two runs have in common become zero.
fn steady(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(start) = text.find("\"filename\":\"") {
        let end = text.find("mempool.dat").expect("the name of the mempool's file");
        text.replace_range(start + 12..end, "");
    }
    for name in ["\"duration\":", "\"disk_size\":"] {
        if let Some(at) = text.find(name) {
            let start = at + name.len();
            let digits = text[start..].bytes().take_while(u8::is_ascii_digit).count();
            text.replace_range(start..start + digits, "0");
        }
    }
    text
}

fn asked(world: &World, request: &str) -> String {
    if let Some(path) = request.strip_prefix("GET ") {
        let answer = rest::answer(&world.env, path, b"");
        let body = match answer.content_type {
            "application/octet-stream" => hex::encode(&answer.body),
            _ => String::from_utf8(answer.body).unwrap().trim_end().to_owned(),
        };
        return format!("{} {} {body}", answer.status, answer.content_type);
    }
    let answer = world.post(request);
    format!("{} {}", answer.status, String::from_utf8(answer.body).unwrap().trim_end())
}

/// Asks what a file asks, and compares what comes back; the file as it was.
fn compare(world: &World, path: &str, filled: impl Fn(&str) -> String) -> String {
    let recorded = std::fs::read_to_string(path).unwrap();
    let mut text = String::new();
    for line in recorded.lines().filter(|line| !line.starts_with('<')) {
        text.push_str(line);
        text.push('\n');
        let Some(request) = line.strip_prefix("> ") else { continue };
        text.push_str(&format!("< {}\n", steady(&asked(world, &filled(request)))));
    }
    if std::env::var_os("ASSAY_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    for (row, (got, want)) in text.lines().zip(recorded.lines()).enumerate() {
        assert_eq!(got, want, "{path}:{}", row + 1);
    }
    assert_eq!(text.lines().count(), recorded.lines().count());
    recorded
}

#[test]
fn answers_about_a_filled_mempool_are_as_recorded() {
    let wallet = Wallet::new("golden-mempool", 3);
    let (parent, parent_raw) = wallet.spends(0, 0);
    let (child, child_raw) = wallet.pays(&[(&parent, 0, COIN_SAT)], &[COIN_SAT - 1_000_000, 990_000]);
    let (grandchild, grandchild_raw) = wallet.pays(&[(&child, 0, COIN_SAT - 1_000_000)], &[COIN_SAT - 1_100_000]);
    let (other, other_raw) = wallet.spends(1, 1_100);
    let (rival, rival_raw) = wallet.spends(1, 2_200);
    let (poor, poor_raw) = wallet.spends(1, 1_150);
    let coin = wallet.coins[0].clone();
    let places = [
        ("{parent}", parent),
        ("{parent.raw}", parent_raw),
        ("{child}", child),
        ("{child.raw}", child_raw),
        ("{grandchild}", grandchild),
        ("{grandchild.raw}", grandchild_raw),
        ("{other}", other),
        ("{other.raw}", other_raw),
        ("{rival}", rival),
        ("{rival.raw}", rival_raw),
        ("{poor}", poor),
        ("{poor.raw}", poor_raw),
        ("{coin}", coin),
    ];
    compare(&wallet.world, MEMPOOL_PATH, |line| {
        places.iter().fold(line.to_owned(), |line, (place, text)| line.replace(place, text))
    });
}

#[test]
fn answers_are_as_recorded() {
    let world = World::new("golden");
    let recorded = compare(&world, PATH, |line| filled(&world, line));
    let named = |name: &str| recorded.contains(&format!("\"method\":\"{name}\""));
    let missing: Vec<&str> = table::all().map(|method| method.name).filter(|name| !named(name)).collect();
    assert!(missing.is_empty(), "methods without a recorded answer: {missing:?}");
}
