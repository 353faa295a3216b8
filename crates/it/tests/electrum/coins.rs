//! Coins of one key, and transactions that spend them.
//!
//! In:     a world, outpoints, amounts.
//! Out:    signed transactions as hexadecimal digits.
//! Fails:  panics.

use primitives::encode::put_compact_size;
use primitives::{Block, Network, OutPoint, Params, Transaction, address};
use serde_json::{Value, json};
use stdx::hex;

use crate::world::World;

/// Pays to the key below.
pub const ADDRESS: &str = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
/// The key as wallets write it.
pub const SECRET: &str = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
/// Takes the rewards that nobody here spends.
pub const ELSEWHERE: &str = "bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry";
/// What a coin holds: a block's reward after 150 blocks of regtest.
pub const COIN_SAT: u64 = 2_500_000_000;

/// The script of the key.
pub fn own_script() -> Vec<u8> {
    address::to_script(ADDRESS, &Params::of(Network::Regtest)).unwrap()
}

/// A script that nobody here can spend.
pub fn stranger(n: u8) -> Vec<u8> {
    [&[0, 20][..], &[n; 20]].concat()
}

/// An output that the key can spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coin {
    pub outpoint: OutPoint,
    pub value_sat: u64,
}

/// Mines `count` coins to the key and as many blocks on top as make them spendable.
pub fn mine_coins(world: &World, count: usize) -> Vec<Coin> {
    call(world, "generatetoaddress", json!([20, ELSEWHERE]));
    let made = call(world, "generatetoaddress", json!([count, ADDRESS]));
    call(world, "generatetoaddress", json!([100, ELSEWHERE]));
    let coinbase = |hash: &Value| {
        let txid = block(world, hash).tx(0).txid();
        Coin { outpoint: OutPoint { txid, vout: 0 }, value_sat: COIN_SAT }
    };
    made.as_array().unwrap().iter().map(coinbase).collect()
}

/// The result of a JSON-RPC call.
#[track_caller]
pub fn call(world: &World, method: &str, params: Value) -> Value {
    world.call(method, &params.to_string()).unwrap_or_else(|error| panic!("{method} {params}: {error:?}"))
}

/// A block by its hash.
pub fn block(world: &World, hash: &Value) -> Block {
    let bytes = call(world, "getblock", json!([hash, 0]));
    Block::parse(hex::decode(bytes.as_str().unwrap()).unwrap()).unwrap()
}

/// Mines a block, with all that the mempool has for it.
pub fn mine(world: &World) {
    call(world, "generatetoaddress", json!([1, ELSEWHERE]));
}

/// The address of a miner: blocks of two miners differ, whatever else is the same.
fn miner(number: u32) -> String {
    let script = [&[0, 20][..], &[0xee; 16], &number.to_be_bytes()].concat();
    address::of_script(&script, &Params::of(Network::Regtest)).unwrap()
}

/// A miner's block, with all that the mempool has for it.
pub fn mine_as(world: &World, number: u32) {
    call(world, "generatetoaddress", json!([1, miner(number)]));
}

/// A miner's block with exactly these transactions: txids of the mempool, or bytes.
pub fn mine_only(world: &World, number: u32, transactions: &[String]) {
    call(world, "generateblock", json!([miner(number), transactions]));
}

/// A signed transaction that spends `coins` of the key and pays `outputs`.
pub fn sign(world: &World, coins: &[Coin], outputs: &[(u64, Vec<u8>)]) -> Transaction {
    let mut bytes = vec![2, 0, 0, 0];
    put_compact_size(&mut bytes, coins.len() as u64);
    for coin in coins {
        bytes.extend_from_slice(&coin.outpoint.encode());
        bytes.push(0);
        bytes.extend_from_slice(&0xffff_fffd_u32.to_le_bytes());
    }
    put_compact_size(&mut bytes, outputs.len() as u64);
    for (value_sat, script) in outputs {
        bytes.extend_from_slice(&value_sat.to_le_bytes());
        put_compact_size(&mut bytes, script.len() as u64);
        bytes.extend_from_slice(script);
    }
    bytes.extend_from_slice(&[0; 4]);
    let script = hex::encode(&own_script());
    let previous = coins.iter().map(|coin| {
        let amount = format!("{}.{:08}", coin.value_sat / 100_000_000, coin.value_sat % 100_000_000);
        let amount: Value = serde_json::from_str(&amount).unwrap();
        json!({"txid": coin.outpoint.txid.to_string(), "vout": coin.outpoint.vout, "scriptPubKey": script, "amount": amount})
    });
    let previous: Vec<Value> = previous.collect();
    let signed = call(world, "signrawtransactionwithkey", json!([hex::encode(&bytes), [SECRET], previous]));
    assert_eq!(signed["complete"], json!(true), "{signed}");
    Transaction::parse(hex::decode(signed["hex"].as_str().unwrap()).unwrap()).unwrap()
}

/// The bytes of a transaction as digits.
pub fn digits(transaction: &Transaction) -> String {
    hex::encode(transaction.tx().raw())
}

/// An output of a transaction as a coin of the key.
pub fn coin_of(transaction: &Transaction, vout: u32) -> Coin {
    let tx = transaction.tx();
    let output = tx.outputs().nth(vout as usize).unwrap();
    assert_eq!(output.script, own_script());
    Coin { outpoint: OutPoint { txid: tx.txid(), vout }, value_sat: output.value_sat as u64 }
}
