//! What transactions look like, by era.
//!
//! In:     how far the chain has come.
//! Out:    the era's shape: inputs and outputs per transaction, and how its outputs divide over script types.
//! Fails:  never.
//! Source: 86 mainnet blocks of 2009 to 2026 (columns txs, inputs, outputs, p2pkh .. op_return of a table of block
//!         shapes computed from public blocks): sums over the blocks of each era. Shares of the chain's transactions
//!         are from the public totals at the eras' bounds (2 million at the end of 2011, 57 at the end of 2014, 250 in
//!         August 2017, 420 in June 2019, 690 in November 2021, 1,100 in October 2024, 1,350 in May 2026). What the
//!         table cannot show (what is inside P2SH, P2WSH and P2TR) is an estimate, marked so below.

use super::lock::Kind;

/// Which years' transactions are forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// All eras one after the other, each with its share; coins are spent at the same ages in all of them.
    History,
    /// The same, and coins are spent at each era's own ages.
    Mainnet,
    /// Only the years before segregated witness.
    Legacy,
    /// Only the years since 2021.
    Recent,
}

impl Mix {
    /// Every choice.
    pub const ALL: [Mix; 4] = [Mix::History, Mix::Mainnet, Mix::Legacy, Mix::Recent];

    /// The name in options.
    pub fn name(self) -> &'static str {
        match self {
            Mix::History => "history",
            Mix::Mainnet => "mainnet",
            Mix::Legacy => "legacy",
            Mix::Recent => "recent",
        }
    }

    /// Of 100 coins spent in an era: made in the same block, in one of the last dozen, before that.
    pub fn ages(self, era: &Era) -> [u64; 3] {
        if self == Mix::Mainnet { era.ages_of_100 } else { [10, 65, 25] }
    }

    fn eras(self) -> &'static [Era] {
        match self {
            Mix::History | Mix::Mainnet => &ERAS,
            Mix::Legacy => &ERAS[..4],
            Mix::Recent => &ERAS[6..],
        }
    }

    /// The era when `done` of `total` inputs have been forged.
    pub fn era(self, done: u64, total: u64) -> &'static Era {
        let eras = self.eras();
        let whole: u64 = eras.iter().map(|era| era.share_permille).sum();
        let mut left = (u128::from(done) * u128::from(whole) / u128::from(total.max(1))) as u64;
        for era in eras {
            if left < era.share_permille {
                return era;
            }
            left -= era.share_permille;
        }
        eras.last().expect("every mix has an era")
    }
}

impl std::str::FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Mix::ALL.into_iter().find(|mix| mix.name() == text);
        known.ok_or_else(|| format!("{text:?} is no mix; known are history, mainnet, legacy, recent"))
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct Era {
    /// First month, for reading.
    pub since: &'static str,
    /// Of 1,000 transactions of the whole chain.
    pub share_permille: u64,
    /// Inputs of 100 transactions.
    pub inputs_per_100_txs: u64,
    /// Outputs of 100 transactions.
    pub outputs_per_100_txs: u64,
    /// Of 10,000 outputs: p2pkh, p2sh, p2wpkh, p2wsh, p2tr, p2pk, bare multisig, op_return.
    pub outputs_of_10_000: [u64; 8],
    /// Of 100 P2SH outputs: multisig, P2WPKH inside, P2WSH inside (estimate).
    pub inside_p2sh: [u64; 3],
    /// Of 10 keys of P2PK and P2PKH, how many are uncompressed (estimate: all of them until 2011, few after 2013).
    pub uncompressed_of_10: u64,
    /// See [`Mix::ages`] (estimate, see docs/forge.md).
    pub ages_of_100: [u64; 3],
}

/// The table.
#[rustfmt::skip]
pub const ERAS: [Era; 8] = [
    Era { since: "2009-01", share_permille:   2, inputs_per_100_txs: 121, outputs_per_100_txs: 142, outputs_of_10_000: [1471,    0,    0,   0,    0, 8529,  0,    0], inside_p2sh: [100,  0,  0], uncompressed_of_10: 10, ages_of_100: [0, 20, 80] },
    Era { since: "2010-06", share_permille:   3, inputs_per_100_txs: 132, outputs_per_100_txs: 268, outputs_of_10_000: [9994,    0,    0,   0,    0,    6,  0,    0], inside_p2sh: [100,  0,  0], uncompressed_of_10: 10, ages_of_100: [1, 59, 40] },
    Era { since: "2012-01", share_permille:  40, inputs_per_100_txs: 275, outputs_per_100_txs: 245, outputs_of_10_000: [9947,   12,    0,   0,    0,   26, 11,    4], inside_p2sh: [100,  0,  0], uncompressed_of_10:  4, ages_of_100: [12, 68, 20] },
    Era { since: "2015-01", share_permille: 145, inputs_per_100_txs: 477, outputs_per_100_txs: 242, outputs_of_10_000: [9061,  894,    0,   0,    0,    4, 10,   31], inside_p2sh: [100,  0,  0], uncompressed_of_10:  1, ages_of_100: [16, 66, 18] },
    Era { since: "2017-08", share_permille: 125, inputs_per_100_txs: 256, outputs_per_100_txs: 248, outputs_of_10_000: [6820, 2351,  266,  20,    0,   14,  0,  529], inside_p2sh: [ 70, 25,  5], uncompressed_of_10:  0, ages_of_100: [12, 63, 25] },
    Era { since: "2019-06", share_permille: 200, inputs_per_100_txs: 222, outputs_per_100_txs: 255, outputs_of_10_000: [4222, 4184, 1360, 135,    0,    0,  0,   99], inside_p2sh: [ 45, 40, 15], uncompressed_of_10:  0, ages_of_100: [10, 62, 28] },
    Era { since: "2021-11", share_permille: 300, inputs_per_100_txs: 241, outputs_per_100_txs: 364, outputs_of_10_000: [ 990, 1546, 3952, 220, 3213,    0,  8,   71], inside_p2sh: [ 35, 45, 20], uncompressed_of_10:  0, ages_of_100: [10, 58, 32] },
    Era { since: "2024-10", share_permille: 185, inputs_per_100_txs: 160, outputs_per_100_txs: 210, outputs_of_10_000: [ 188,  200, 3142,  78, 2594,    0,  0, 3798], inside_p2sh: [ 35, 45, 20], uncompressed_of_10:  0, ages_of_100: [16, 50, 34] },
];

/// What an output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// A script of this type.
    Kind(Kind),
    /// Data, unspendable.
    OpReturn,
}

impl Era {
    /// Draws what an output is.
    pub fn draw(&self, random: &mut stdx::random::Random) -> Drawn {
        let total: u64 = self.outputs_of_10_000.iter().sum();
        let column = pick(&self.outputs_of_10_000, random.below(total));
        let uncompressed = self.uncompressed_of_10 > random.below(10);
        let in_100 = random.below(100);
        Drawn::Kind(match column {
            0 if uncompressed => Kind::P2pkhUncompressed,
            0 => Kind::P2pkh,
            1 => [Kind::P2shMultisig, Kind::P2shP2wpkh, Kind::P2shP2wsh][pick(&self.inside_p2sh, in_100)],
            2 => Kind::P2wpkh,
            // Estimates: P2WSH is multisig but for channels and single keys; P2TR is spent by key but for scripts.
            3 => [Kind::P2wshMultisig, Kind::P2wshHashLock, Kind::P2wshP2pk, Kind::P2wshBlocksLock]
                [pick(&[80, 10, 6, 4], in_100)],
            4 => [Kind::P2trKey, Kind::P2trKeyOverTree, Kind::P2trSingleKey, Kind::P2trMultisig, Kind::P2trHashLock]
                [pick(&[84, 4, 8, 2, 2], in_100)],
            5 if uncompressed => Kind::P2pkUncompressed,
            5 => Kind::P2pk,
            6 => [Kind::Multisig1of2, Kind::Multisig2of3][pick(&[60, 40], in_100)],
            _ => return Drawn::OpReturn,
        })
    }
}

/// The index of the weight that holds `at`, counting from the first.
fn pick(weights: &[u64], mut at: u64) -> usize {
    for (index, &weight) in weights.iter().enumerate() {
        if at < weight {
            return index;
        }
        at -= weight;
    }
    unreachable!("the number drawn is below the sum of the weights")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        assert_eq!(ERAS.iter().map(|era| era.share_permille).sum::<u64>(), 1000);
        for era in &ERAS {
            assert_eq!(era.outputs_of_10_000.iter().sum::<u64>(), 10_000, "{}", era.since);
            assert_eq!(era.inside_p2sh.iter().sum::<u64>(), 100, "{}", era.since);
            assert_eq!(era.ages_of_100.iter().sum::<u64>(), 100, "{}", era.since);
        }
    }

    #[test]
    fn eras_follow_each_other() {
        #[track_caller]
        fn check(mix: Mix, done: u64, want: &str) {
            assert_eq!(mix.era(done, 1000).since, want);
        }
        check(Mix::History, 0, "2009-01");
        check(Mix::History, 2, "2010-06");
        check(Mix::History, 999, "2024-10");
        check(Mix::History, 1000, "2024-10");
        check(Mix::Mainnet, 2, "2010-06");
        check(Mix::Legacy, 999, "2015-01");
        check(Mix::Recent, 0, "2021-11");
        check(Mix::Recent, 700, "2024-10");
    }
}
