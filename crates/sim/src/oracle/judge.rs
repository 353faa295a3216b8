//! Our rules as a judge, over plain maps and without the node's pipeline.
//!
//! In:     blocks that extend its tip.
//! Out:    verdicts with the rule that was broken; the coins stay in a [`Book`].
//! Fails:  [`Refusal`] names the rule.
//! Source: the order in which Core judges: `ProcessNewBlock`, `AcceptBlock`, `ConnectBlock`.

use std::collections::HashMap;
use std::sync::Arc;

use consensus::connect::{self, Context, bip30_applies};
use consensus::header::{self, Ancestry};
use consensus::script::{self, Counters, Job};
use consensus::{BlockError, CheckedBlock, block, flags};
use primitives::encode::ParseError;
use primitives::script::is_unspendable;
use primitives::{Block, Coin, Header, OutPoint, Params, SpentCoins};
use sigs::Engine;

use crate::book::{Book, BookCoin};

/// Why a block is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its bytes are no block.
    Parse(ParseError),
    /// It does not extend the tip.
    Orphan,
    /// It breaks a rule.
    Rule(BlockError),
}

impl Refusal {
    /// Core's reject word.
    pub fn word(&self) -> &'static str {
        match self {
            Refusal::Parse(_) => "parse",
            Refusal::Orphan => "prev-blk-not-found",
            Refusal::Rule(error) => error.reject_word(),
        }
    }
}

impl From<BlockError> for Refusal {
    fn from(error: BlockError) -> Self {
        Refusal::Rule(error)
    }
}

/// Our side.
pub struct Judge {
    params: Params,
    book: Book,
    engine: Arc<dyn Engine>,
    counters: Counters,
    now_s: u64,
}

struct BookHeaders<'a>(&'a Book);

impl Ancestry for BookHeaders<'_> {
    fn header(&self, height: u32) -> Header {
        self.0.header(height)
    }
}

impl Judge {
    /// Stands at the genesis block of `params`; the clock shows `now_s`.
    pub fn new(params: Params, engine: Arc<dyn Engine>, now_s: u64) -> Judge {
        let book = Book::new(Block::parse(params.genesis_block()).expect("a constant"));
        Judge { params, book, engine, counters: Counters::default(), now_s }
    }

    /// The chain so far.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// What the script verifier has done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The network.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Median time past of the block at `height`.
    pub fn median_time_past_s(&self, height: u32) -> u32 {
        header::median_time_past(height, &BookHeaders(&self.book))
    }

    /// Judges a block that extends the tip, and takes it where it is valid.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let checked = self.judge(bytes)?;
        self.book.connect(checked.block().clone());
        Ok(())
    }

    /// Judges a block that extends the tip.
    pub fn judge(&self, bytes: &[u8]) -> Result<Arc<CheckedBlock>, Refusal> {
        let block = Block::parse(bytes).map_err(Refusal::Parse)?;
        let height = self.book.height() + 1;
        // Core looks at the block before its header's place.
        let checked = Arc::new(block::check(block, &self.params)?);
        if checked.header().previous != self.book.tip() {
            return Err(Refusal::Orphan);
        }
        let headers = BookHeaders(&self.book);
        header::check(checked.header(), height, &headers, self.now_s, &self.params).map_err(BlockError::from)?;
        let median_time_past_s = header::median_time_past(height - 1, &headers);
        block::check_contextual(&checked, height, median_time_past_s, &self.params)?;
        let spent = Arc::new(self.find_spent(&checked, height)?);
        let context = Context {
            height,
            block_hash: *checked.hash(),
            median_time_past_s,
            mtp_of: &|height| header::median_time_past(height, &headers),
            params: &self.params,
            flags: flags::at(height, checked.hash(), &self.params),
        };
        connect::check(&checked, &spent, &context)?;
        self.check_scripts(&checked, spent, &context)?;
        Ok(checked)
    }

    fn check_scripts(
        &self,
        checked: &Arc<CheckedBlock>,
        spent: Arc<SpentCoins>,
        context: &Context<'_>,
    ) -> Result<(), BlockError> {
        let inputs = 0..checked.block().input_count();
        let job = Job { block: checked.clone(), spent, flags: context.flags, inputs };
        let verdicts = script::verify(&[job], &*self.engine, &self.counters);
        verdicts.into_iter().next().expect("one job, one verdict").map_err(BlockError::from)
    }

    /// The coins the block spends, from the book or from the block itself; BIP 30 and missing coins are found here.
    fn find_spent(&self, checked: &CheckedBlock, height: u32) -> Result<SpentCoins, BlockError> {
        let block = checked.block();
        let bip34 = self.params.bip34_height;
        let ancestor = (bip34 < height).then(|| self.book.header(bip34).hash());
        let bip30 = bip30_applies(height, checked.hash(), ancestor, &self.params);
        let outpoints = |index: usize| {
            let txid = checked.txids()[index];
            (0..block.tx(index).output_count() as u32).map(move |vout| OutPoint { txid, vout })
        };
        if bip30 {
            let repeated = (0..block.tx_count()).flat_map(outpoints).find(|at| self.book.coin(at).is_some());
            if let Some(outpoint) = repeated {
                return Err(BlockError::Bip30 { outpoint });
            }
        }
        let mut spent = SpentCoins::default();
        // None: made in this block and spent in it, or spent from the book.
        let mut here: HashMap<OutPoint, Option<BookCoin>> = HashMap::new();
        for tx in block.txs() {
            for input in tx.inputs().filter(|_| tx.index() > 0) {
                let outpoint = input.outpoint();
                let coin = match here.get(&outpoint) {
                    Some(known) => known.clone(),
                    None => self.book.coin(&outpoint).cloned(),
                };
                let missing = BlockError::MissingInput { tx_index: tx.index(), outpoint };
                let coin = coin.ok_or(missing)?;
                here.insert(outpoint, None);
                spent.push(Coin {
                    value_sat: coin.value_sat,
                    height: coin.height,
                    coinbase: coin.coinbase,
                    txo_num: coin.txo_num,
                    script: &coin.script,
                });
            }
            for (outpoint, output) in outpoints(tx.index()).zip(tx.outputs()) {
                if !is_unspendable(output.script) {
                    let (value_sat, coinbase) = (output.value_sat as u64, tx.index() == 0);
                    let coin = BookCoin { value_sat, height, coinbase, txo_num: 0, script: output.script.to_vec() };
                    here.insert(outpoint, Some(coin));
                }
            }
        }
        Ok(spent)
    }
}
