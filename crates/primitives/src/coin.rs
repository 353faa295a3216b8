//! Coins, and the ordinals that name everything confirmed.
//!
//! In:     outputs of connected blocks.
//! Out:    [`Coin`] views and [`SpentCoins`], the coins one block spends.
//! Fails:  never.

/// Position of a transaction in the chain, counted from the genesis coinbase, which is 0.
pub type TxNum = u32;

/// Position of an output in the chain, counted from the genesis output, which is 0; below 2^40.
pub type TxoNum = u64;

/// An unspent output, read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coin<'a> {
    /// Amount; a coin exists only after `consensus` has checked its range.
    pub value_sat: u64,
    /// Height of the block that made it.
    pub height: u32,
    /// Made by a coinbase.
    pub coinbase: bool,
    /// Its ordinal.
    pub txo_num: TxoNum,
    /// Output script.
    pub script: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
struct Spent {
    value_sat: u64,
    txo_num: TxoNum,
    height: u32,
    coinbase: bool,
    script_start: u32,
    script_length: u32,
}

/// The coins that one block spends, in the order of its inputs, the coinbase's left out.
#[derive(Clone, Debug, Default)]
pub struct SpentCoins {
    coins: Vec<Spent>,
    scripts: Vec<u8>,
}

impl SpentCoins {
    /// Room for `coins` coins.
    pub fn with_capacity(coins: usize) -> SpentCoins {
        SpentCoins { coins: Vec::with_capacity(coins), scripts: Vec::with_capacity(coins * 28) }
    }

    /// Appends a copy of `coin`.
    #[inline]
    pub fn push(&mut self, coin: Coin<'_>) {
        let Coin { value_sat, height, coinbase, txo_num, script } = coin;
        let script_start = u32::try_from(self.scripts.len()).expect("spent scripts of one block stay below 4 GiB");
        let script_length = script.len() as u32;
        self.coins.push(Spent { value_sat, txo_num, height, coinbase, script_start, script_length });
        self.scripts.extend_from_slice(script);
    }

    /// Number of coins.
    #[inline]
    pub fn len(&self) -> usize {
        self.coins.len()
    }

    /// True without coins.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.coins.is_empty()
    }

    /// The coin at `index`; panics beyond the last. Input `i` of a block (coinbase input counted) spends coin `i - 1`.
    #[inline]
    pub fn get(&self, index: usize) -> Coin<'_> {
        let spent = self.coins[index];
        let start = spent.script_start as usize;
        Coin {
            value_sat: spent.value_sat,
            height: spent.height,
            coinbase: spent.coinbase,
            txo_num: spent.txo_num,
            script: &self.scripts[start..start + spent.script_length as usize],
        }
    }

    /// Coins in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Coin<'_>> + Clone {
        (0..self.len()).map(|index| self.get(index))
    }
}
