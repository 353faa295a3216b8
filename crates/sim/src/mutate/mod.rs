//! Blocks with one rule broken, or met at its very edge, named after the rule.
//!
//! In:     a [`World`] (a chain, its coins and the keys to them) and a seed.
//! Out:    for each [`Case`] a block that extends the chain, mined and complete but for what the case breaks.
//! Fails:  a case may not be possible in the world as it is (no coin of the right age): then it makes no block.
//! Source: the rules of `consensus::errors`; edges from Core's `validation.cpp`, `tx_verify.cpp`, `interpreter.cpp`.

pub mod block_rules;
pub mod coin_rules;
pub mod craft;
pub mod custom;
pub mod header_rules;
pub mod locks;
pub mod scripts;
pub mod tx_rules;
pub mod world;

pub use craft::Craft;
pub use world::{World, WorldCoin};

/// What must come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Nothing is broken: the other side of an edge.
    Valid,
    /// The rule of this name (`BlockError::rule`) is broken.
    Broken(&'static str),
    /// Bits were flipped at random: only that all judges agree.
    Agreement,
}

/// One way to make a block.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// What must come out.
    pub want: Want,
    /// Makes it; none where the world has not what it takes.
    pub make: fn(&mut Craft<'_>) -> Option<()>,
}

/// A case whose block is valid.
pub const fn valid(name: &'static str, make: fn(&mut Craft<'_>) -> Option<()>) -> Case {
    Case { name, want: Want::Valid, make }
}

/// A case that breaks a rule.
pub const fn broken(rule: &'static str, name: &'static str, make: fn(&mut Craft<'_>) -> Option<()>) -> Case {
    Case { name, want: Want::Broken(rule), make }
}

/// Every case.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    let tables: [&[Case]; 7] = [
        header_rules::CASES,
        block_rules::CASES,
        tx_rules::CASES,
        coin_rules::CASES,
        locks::CASES,
        scripts::CASES,
        custom::CASES,
    ];
    tables.into_iter().flatten()
}

/// Cases whose blocks are of megabytes: a few rounds of them are enough.
pub fn is_heavy(case: &Case) -> bool {
    case.name.starts_with("heavy ")
}

/// Rules that no block on regtest can be the first to break, and why; they are broken by direct calls instead.
pub const NOT_ON_REGTEST: [(&str, &str); 5] = [
    ("TimeWarp", "BIP 94 is in force on testnet4 alone"),
    ("SignetSolution", "regtest has no challenge to solve"),
    ("Oversize", "a block that holds such a transaction is refused for its own length first"),
    ("InputValues", "no chain has coins worth more than 21 million"),
    ("FeeSum", "no chain has coins worth more than 21 million"),
];
