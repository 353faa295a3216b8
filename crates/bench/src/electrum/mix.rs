//! What wallets do with a connection that stays open, as a list of exchanges.
//!
//! In:     what there is to ask for: scripts, transactions, heights; a chance.
//! Out:    one [`Exchange`] after the other, for each [`Wallet`].
//! Fails:  never.
//! Source: the clients' sources. Sparrow sends batches of at most 100 and asks for fees in one; Electrum sends no batches
//!         but many requests at once, and a proof with every transaction; BlueWallet batches 200 balances, 100 histories
//!         and unspent lists, and 45 verbose transactions.

use serde_json::{Value, json};
use stdx::random::Random;

use super::scripts::{Confirmed, Probe};
use crate::client::{batch, request};

/// Whose habits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wallet {
    /// Sparrow.
    Sparrow,
    /// Electrum.
    Electrum,
    /// BlueWallet.
    BlueWallet,
}

impl Wallet {
    /// All of them, as often among the clients.
    pub const ALL: [Wallet; 3] = [Wallet::Sparrow, Wallet::Electrum, Wallet::BlueWallet];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Wallet::Sparrow => "Sparrow",
            Wallet::Electrum => "Electrum",
            Wallet::BlueWallet => "BlueWallet",
        }
    }
}

/// What there is to ask for.
pub struct Material {
    /// Scripts.
    pub probes: Vec<Probe>,
    /// Transactions.
    pub transactions: Vec<Confirmed>,
    /// Height of the tip.
    pub tip: u64,
}

/// Something sent at once, and how many answers follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// What it is, to tell latencies apart.
    pub kind: &'static str,
    /// What is sent; a line each.
    pub text: String,
    /// Messages that come back.
    pub answers: usize,
    /// Requests in it.
    pub requests: usize,
}

type Requests = Vec<(&'static str, Value)>;

/// All kinds, in the order of the tables.
pub const KINDS: [&str; 11] = [
    "subscribe batch",
    "history batch",
    "transactions batch",
    "headers batch",
    "balance batch",
    "unspent batch",
    "verbose transactions batch",
    "subscribe pipelined",
    "history pipelined",
    "transactions and proofs pipelined",
    "small",
];

fn batched(kind: &'static str, requests: Requests) -> Exchange {
    Exchange { kind, text: batch(&requests), answers: 1, requests: requests.len() }
}

fn pipelined(kind: &'static str, requests: Requests) -> Exchange {
    let lines = requests.iter().zip(0..).map(|((method, parameters), id)| request(id, method, parameters));
    Exchange { kind, text: lines.collect::<Vec<_>>().join("\n"), answers: requests.len(), requests: requests.len() }
}

impl Material {
    fn scripts(&self, method: &'static str, count: usize, random: &mut Random) -> Requests {
        // A wallet's addresses are asked for together, so neighbours are.
        let from = random.below(self.probes.len() as u64) as usize;
        let all = (0..count).map(|index| &self.probes[(from + index) % self.probes.len()]);
        all.map(|probe| (method, json!([probe.hash]))).collect()
    }

    fn drawn(&self, count: usize, random: &mut Random) -> Vec<&Confirmed> {
        let mut draw = || self.transactions.get(random.below(self.transactions.len() as u64) as usize);
        (0..count).filter_map(|_| draw()).collect()
    }

    fn raw(&self, count: usize, verbose: bool, random: &mut Random) -> Requests {
        let parameters = |tx: &&Confirmed| if verbose { json!([tx.txid, true]) } else { json!([tx.txid]) };
        self.drawn(count, random).iter().map(|tx| ("blockchain.transaction.get", parameters(tx))).collect()
    }

    /// The next thing a wallet does, by how far it is in its round.
    pub fn next(&self, wallet: Wallet, step: usize, random: &mut Random) -> Exchange {
        match wallet {
            Wallet::Sparrow => self.sparrow(step, random),
            Wallet::Electrum => self.electrum(step, random),
            Wallet::BlueWallet => self.bluewallet(step, random),
        }
    }

    fn sparrow(&self, step: usize, random: &mut Random) -> Exchange {
        match step % 7 {
            0 => batched("subscribe batch", self.scripts("blockchain.scripthash.subscribe", 100, random)),
            1 => batched("history batch", self.scripts("blockchain.scripthash.get_history", 50, random)),
            2 => batched("transactions batch", self.raw(50, false, random)),
            3 => {
                let header = |_| ("blockchain.block.header", json!([random.below(self.tip + 1)]));
                batched("headers batch", (0..50).map(header).collect())
            }
            4 => {
                let targets = [1, 2, 3, 4, 5, 10, 25];
                let estimates = targets.map(|target| ("blockchain.estimatefee", json!([target])));
                batched("small", estimates.to_vec())
            }
            5 => pipelined("small", vec![("mempool.get_fee_histogram", json!([]))]),
            _ => pipelined("small", vec![("server.ping", json!([]))]),
        }
    }

    fn electrum(&self, step: usize, random: &mut Random) -> Exchange {
        match step % 6 {
            0 => pipelined("small", vec![("blockchain.headers.subscribe", json!([]))]),
            1 => pipelined("subscribe pipelined", self.scripts("blockchain.scripthash.subscribe", 20, random)),
            2 => pipelined("history pipelined", self.scripts("blockchain.scripthash.get_history", 10, random)),
            3 => {
                let drawn = self.drawn(10, random);
                let raw = drawn.iter().map(|tx| ("blockchain.transaction.get", json!([tx.txid])));
                let proofs = drawn.iter().map(|tx| ("blockchain.transaction.get_merkle", json!([tx.txid, tx.height])));
                pipelined("transactions and proofs pipelined", raw.chain(proofs).collect())
            }
            4 => {
                let estimates = [2, 5, 10, 25].map(|target| ("blockchain.estimatefee", json!([target])));
                pipelined("small", estimates.to_vec())
            }
            _ => pipelined("small", vec![("mempool.get_fee_histogram", json!([])), ("server.ping", json!([]))]),
        }
    }

    fn bluewallet(&self, step: usize, random: &mut Random) -> Exchange {
        match step % 6 {
            0 => batched("balance batch", self.scripts("blockchain.scripthash.get_balance", 200, random)),
            1 => batched("history batch", self.scripts("blockchain.scripthash.get_history", 100, random)),
            2 => batched("verbose transactions batch", self.raw(45, true, random)),
            3 => batched("unspent batch", self.scripts("blockchain.scripthash.listunspent", 100, random)),
            4 => pipelined("small", vec![("blockchain.headers.subscribe", json!([]))]),
            _ => pipelined("small", vec![("server.ping", json!([]))]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn material() -> Material {
        let probe = |index: u32| Probe { hash: format!("{index:064x}"), entries: 1, unspent: 1 };
        let transactions = vec![Confirmed { txid: "ab".repeat(32), height: 5 }];
        Material { probes: (0..30).map(probe).collect(), transactions, tip: 9 }
    }

    #[test]
    fn every_exchange_has_as_many_answers_as_it_says() {
        let (material, mut random) = (material(), Random::new(1));
        for wallet in Wallet::ALL {
            for step in 0..14 {
                let exchange = material.next(wallet, step, &mut random);
                let lines: Vec<Value> = exchange.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                assert_eq!(lines.len(), exchange.answers, "{wallet:?} {step}");
                let requests: usize = lines.iter().map(|line| line.as_array().map_or(1, Vec::len)).sum();
                assert_eq!(requests, exchange.requests, "{wallet:?} {step}");
                assert!(KINDS.contains(&exchange.kind), "{}", exchange.kind);
            }
        }
    }

    #[test]
    fn sizes_of_batches_are_the_wallets_own() {
        let (material, mut random) = (material(), Random::new(1));
        let of = |wallet, step, random: &mut Random| material.next(wallet, step, random).requests;
        assert_eq!(
            (0..4).map(|step| of(Wallet::BlueWallet, step, &mut random)).collect::<Vec<_>>(),
            [200, 100, 45, 100]
        );
        assert_eq!(of(Wallet::Sparrow, 0, &mut random), 100);
        assert_eq!(of(Wallet::Electrum, 3, &mut random), 20);
    }
}
