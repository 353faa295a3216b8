//! The rows every engine is given: history and unspent rows shaped like those of an address index.
//!
//! In:     a batch number and the sizes below; the same numbers always give the same rows.
//! Out:    one sorted batch: history puts, unspent puts, unspent deletes; and the answers expected for sampled scripts.
//! Fails:  never.
//! Source: our own table formats. Shares: half of the rows name a new script, 40 % one used before (log-uniform age),
//!         10 % one of a thousand busy scripts (log-uniform rank), so that one script holds about 1 % of all rows.

use std::collections::{BTreeMap, HashMap};

/// Rows of one batch before duplicates are dropped; together 200,000.
pub const HISTORY_ROWS: u64 = 140_000;
pub const UNSPENT_PUTS: u64 = 36_000;
pub const UNSPENT_DELETES: u64 = 24_000;
/// A transaction touches 2.6 scripts on average.
const ROWS_A_TX_TENTHS: u64 = 26;
/// Scripts that hold a tenth of all rows.
const BUSY_SCRIPTS: u64 = 1_000;
/// One script in this many is sampled for the content check.
const SAMPLE_ONE_IN: u64 = 1_024;

/// One history row: script tag and transaction number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HistoryRow {
    pub tag: u64,
    pub tx_num: u32,
}

/// One change of the unspent table; `amount_sat` is `None` where the row is deleted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnspentRow {
    pub tag: u64,
    pub txo_num: u64,
    pub amount_sat: Option<u64>,
}

/// What one commit writes, sorted by key.
pub struct Batch {
    pub number: u32,
    pub history: Vec<HistoryRow>,
    pub unspent: Vec<UnspentRow>,
}

impl Batch {
    pub fn row_count(&self) -> u64 {
        (self.history.len() + self.unspent.len()) as u64
    }
}

/// What the sampled scripts must answer.
#[derive(Default)]
pub struct Expected {
    pub history: BTreeMap<u64, Vec<u32>>,
    pub unspent: BTreeMap<u64, BTreeMap<u64, u64>>,
}

/// Makes batches in order.
pub struct Workload {
    next_batch: u32,
    /// Outputs that can still be spent, by put number.
    live: Vec<u32>,
    pub expected: Expected,
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn random(stream: u64, index: u64) -> u64 {
    mix(mix(stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

/// The script of history row `row`: a number that `tag_of` turns into a tag.
fn script_of(row: u64) -> u64 {
    let draw = random(1, row);
    let share = draw % 10;
    let fraction = unit(random(2, row));
    match share {
        0..=4 => row + BUSY_SCRIPTS,
        5..=8 => row + BUSY_SCRIPTS - (((row + 1) as f64).powf(fraction) as u64).min(row),
        _ => (BUSY_SCRIPTS as f64).powf(fraction) as u64 % BUSY_SCRIPTS,
    }
}

/// The tag of a script number: 64 bits that look random.
pub fn tag_of(script: u64) -> u64 {
    random(3, script)
}

/// The busiest script; about one row in a hundred is its.
pub fn busiest_tag() -> u64 {
    tag_of(1)
}

/// Tags that no row holds.
pub fn absent_tag(index: u64) -> u64 {
    random(9, index)
}

fn sampled(tag: u64) -> bool {
    mix(tag) % SAMPLE_ONE_IN == 0
}

fn put_of(put: u32) -> (u64, u64, u64) {
    let (batch, within) = (u64::from(put) / UNSPENT_PUTS, u64::from(put) % UNSPENT_PUTS);
    let tag = tag_of(script_of(batch * HISTORY_ROWS + within * 3));
    let amount_sat = random(4, u64::from(put)) >> (30 + random(5, u64::from(put)) % 20);
    (tag, u64::from(put) * 3 + 1, amount_sat)
}

impl Workload {
    pub fn new() -> Workload {
        Workload { next_batch: 0, live: Vec::new(), expected: Expected::default() }
    }

    /// The next batch, sorted; `sorted` false leaves the order as it came, to pass over batches quickly.
    pub fn batch(&mut self, sorted: bool) -> Batch {
        let number = self.next_batch;
        self.next_batch += 1;
        let first = u64::from(number) * HISTORY_ROWS;
        let mut history: Vec<HistoryRow> = (first..first + HISTORY_ROWS)
            .map(|row| HistoryRow { tag: tag_of(script_of(row)), tx_num: (row * 10 / ROWS_A_TX_TENTHS) as u32 })
            .collect();
        let mut unspent = self.deletes(number);
        let first_put = number * UNSPENT_PUTS as u32;
        for put in first_put..first_put + UNSPENT_PUTS as u32 {
            let (tag, txo_num, amount_sat) = put_of(put);
            unspent.push(UnspentRow { tag, txo_num, amount_sat: Some(amount_sat) });
            self.live.push(put);
        }
        self.remember(&history, &unspent);
        if sorted {
            history.sort_unstable();
            history.dedup();
            unspent.sort_unstable();
        }
        Batch { number, history, unspent }
    }

    /// Spends outputs of earlier batches, mostly young ones.
    fn deletes(&mut self, batch: u32) -> Vec<UnspentRow> {
        let mut rows = Vec::with_capacity((UNSPENT_PUTS + UNSPENT_DELETES) as usize);
        for index in 0..UNSPENT_DELETES.min(self.live.len() as u64) {
            let fraction = unit(random(6, u64::from(batch) * UNSPENT_DELETES + index));
            let age = (self.live.len() as f64).powf(fraction) as usize;
            let at = self.live.len() - age.clamp(1, self.live.len());
            let (tag, txo_num, _) = put_of(self.live.swap_remove(at));
            rows.push(UnspentRow { tag, txo_num, amount_sat: None });
        }
        rows
    }

    fn remember(&mut self, history: &[HistoryRow], unspent: &[UnspentRow]) {
        for row in history.iter().filter(|row| sampled(row.tag)) {
            let numbers = self.expected.history.entry(row.tag).or_default();
            if numbers.last() != Some(&row.tx_num) {
                numbers.push(row.tx_num);
            }
        }
        for row in unspent.iter().filter(|row| sampled(row.tag)) {
            let rows = self.expected.unspent.entry(row.tag).or_default();
            match row.amount_sat {
                Some(amount_sat) => drop(rows.insert(row.txo_num, amount_sat)),
                None => drop(rows.remove(&row.txo_num).expect("only live outputs are spent")),
            }
        }
    }
}

/// Tags to time lookups with: scripts of rows drawn evenly from the first `batches`, busy ones left out.
pub fn lookup_tags(batches: u32, count: u64, stream: u64) -> Vec<u64> {
    let rows = u64::from(batches) * HISTORY_ROWS;
    let mut seen = HashMap::new();
    (0..)
        .map(|index| script_of(random(stream, index) % rows))
        .filter(|&script| script >= BUSY_SCRIPTS && seen.insert(script, ()).is_none())
        .map(tag_of)
        .take(count as usize)
        .collect()
}
