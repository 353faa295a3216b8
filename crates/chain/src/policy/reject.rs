//! Why a transaction is not taken into the mempool.
//!
//! In:     the numbers that broke a rule.
//! Out:    one variant a rule, Core's reject word, Core's details, and what the refusal means to a peer.
//! Fails:  never.
//! Source: Bitcoin Core: `validation.cpp` (`MemPoolAccept`), `consensus/validation.h` (`TxValidationResult`), `policy/`.

use std::borrow::Cow;
use std::fmt;

use consensus::script::ScriptError;
use consensus::{BlockError, TxError};
use primitives::{Txid, Wtxid};

use crate::view::ViewError;

/// What a refusal means to whoever sent the transaction; Core's `TxValidationResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// No node would take it in a block.
    Consensus,
    /// What it spends is not standard, whatever its witnesses.
    InputsNotStandard,
    /// It is not standard.
    NotStandard,
    /// Some of what it spends is unknown: an orphan, or spent already.
    MissingInputs,
    /// It may be valid later.
    PrematureSpend,
    /// Its witnesses are not standard, and may not be those its sender made.
    WitnessMutated,
    /// Its witnesses were taken away.
    WitnessStripped,
    /// We have it, or one with the same txid.
    Conflict,
    /// It breaks a limit of this mempool.
    MempoolPolicy,
    /// It pays too little alone and may be taken with a child.
    Reconsiderable,
}

/// The rule that a transaction breaks.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Reject {
    /// A rule of consensus that needs no coins.
    Tx(TxError),
    /// A rule of consensus about amounts and maturity.
    Spend(BlockError),
    Coinbase,
    Version,
    Weight,
    ScriptSigSize,
    ScriptSigNotPushOnly,
    OutputScript,
    DataCarrier,
    BareMultisig,
    /// More dust than one output.
    Dust,
    /// Dust, and a fee: someone might mine it without the child that spends the dust.
    DustWithFee,
    StrippedSize,
    NotFinal,
    AlreadyInMempool,
    SameTxidInMempool,
    /// It conflicts where no replacement is asked for: in a test of several.
    ReplacementDisallowed,
    AlreadyConfirmed,
    MissingInputs,
    RelativeLock,
    /// With Core's words for what is wrong.
    InputsNotStandard(String),
    WitnessNotStandard,
    SigOpCost(u64),
    MempoolMinFee {
        fee_sat: i64,
        least_sat: i64,
    },
    MinRelayFee {
        fee_sat: i64,
        least_sat: i64,
    },
    Truc(String),
    TooManyReplacements {
        clusters: usize,
        sibling: bool,
    },
    /// A replacement that pays less than what it replaces and its own relay.
    InsufficientFee {
        txid: Txid,
        fee_sat: i64,
        least_sat: i64,
        sibling: bool,
    },
    ReplacementFailed,
    TooLargeCluster,
    SpendsConflict {
        txid: Txid,
        ancestor: Txid,
    },
    MaxFeeRate,
    MissingEphemeralSpends {
        txid: Txid,
        wtxid: Wtxid,
    },
    /// An input's script does not allow it, by the rules of mempools.
    Script {
        /// Which input it is and what it spends, in Core's words.
        place: String,
        error: ScriptError,
        stripped: bool,
    },
    MempoolFull,
    /// A member of a package that was given up before its turn.
    NotValidated,
    /// The disk failed under the coins.
    Store(String),
    /// The chain was reorganised, and the mempool stands on the one before still: to be asked again in a moment.
    Stale,
}

impl From<ViewError> for Reject {
    fn from(error: ViewError) -> Reject {
        match error {
            ViewError::Stale => Reject::Stale,
            error => Reject::Store(error.to_string()),
        }
    }
}

impl Reject {
    /// Bitcoin Core's reject word.
    pub fn reject_word(&self) -> Cow<'static, str> {
        let with_sibling = |text: &'static str, sibling: bool| match sibling {
            true => Cow::Owned(format!("{text} (including sibling eviction)")),
            false => Cow::Borrowed(text),
        };
        Cow::Borrowed(match self {
            Reject::Tx(error) => error.reject_word(),
            Reject::Spend(error) => error.reject_word(),
            Reject::Coinbase => "coinbase",
            Reject::Version => "version",
            Reject::Weight => "tx-size",
            Reject::ScriptSigSize => "scriptsig-size",
            Reject::ScriptSigNotPushOnly => "scriptsig-not-pushonly",
            Reject::OutputScript => "scriptpubkey",
            Reject::DataCarrier => "datacarrier",
            Reject::BareMultisig => "bare-multisig",
            Reject::Dust | Reject::DustWithFee => "dust",
            Reject::StrippedSize => "tx-size-small",
            Reject::NotFinal => "non-final",
            Reject::AlreadyInMempool => "txn-already-in-mempool",
            Reject::SameTxidInMempool => "txn-same-nonwitness-data-in-mempool",
            Reject::ReplacementDisallowed => "bip125-replacement-disallowed",
            Reject::AlreadyConfirmed => "txn-already-known",
            Reject::MissingInputs => "bad-txns-inputs-missingorspent",
            Reject::RelativeLock => "non-BIP68-final",
            Reject::InputsNotStandard(_) => "bad-txns-nonstandard-inputs",
            Reject::WitnessNotStandard => "bad-witness-nonstandard",
            Reject::SigOpCost(_) => "bad-txns-too-many-sigops",
            Reject::MempoolMinFee { .. } => "mempool min fee not met",
            Reject::MinRelayFee { .. } => "min relay fee not met",
            Reject::Truc(_) => "TRUC-violation",
            Reject::TooManyReplacements { sibling, .. } => {
                return with_sibling("too many potential replacements", *sibling);
            }
            Reject::InsufficientFee { sibling, .. } => return with_sibling("insufficient fee", *sibling),
            Reject::ReplacementFailed => "replacement-failed",
            Reject::TooLargeCluster => "too-large-cluster",
            Reject::SpendsConflict { .. } => "bad-txns-spends-conflicting-tx",
            Reject::MaxFeeRate => "max feerate exceeded",
            Reject::MissingEphemeralSpends { .. } => "missing-ephemeral-spends",
            Reject::Script { error, .. } => {
                return Cow::Owned(format!("mempool-script-verify-flag-failed ({error})"));
            }
            Reject::MempoolFull => "mempool full",
            Reject::NotValidated => "package-not-validated",
            Reject::Store(_) | Reject::Stale => "store-failed",
        })
    }

    /// Core's details, where it gives some.
    pub fn details(&self) -> String {
        match self {
            Reject::Tx(error) => error.to_string(),
            Reject::Spend(error) => error.to_string(),
            Reject::DustWithFee => "tx with dust output must be 0-fee".to_owned(),
            Reject::InputsNotStandard(text) | Reject::Truc(text) | Reject::Store(text) => text.clone(),
            Reject::SigOpCost(cost) => cost.to_string(),
            Reject::MempoolMinFee { fee_sat, least_sat } | Reject::MinRelayFee { fee_sat, least_sat } => {
                format!("{fee_sat} < {least_sat}")
            }
            Reject::TooManyReplacements { clusters, .. } => {
                format!("too many conflicting clusters ({clusters} > {})", super::REPLACED_CLUSTERS_MAX)
            }
            Reject::InsufficientFee { txid, fee_sat, least_sat, .. } => {
                format!("rejecting replacement {txid}, {fee_sat} sat where at least {least_sat} sat are needed")
            }
            Reject::ReplacementFailed => "insufficient feerate: does not improve feerate diagram".to_owned(),
            Reject::SpendsConflict { txid, ancestor } => format!("{txid} spends conflicting transaction {ancestor}"),
            Reject::MissingEphemeralSpends { txid, wtxid } => {
                format!("tx {txid} (wtxid={wtxid}) did not spend parent's ephemeral dust")
            }
            Reject::Script { place, .. } => place.clone(),
            Reject::Stale => ViewError::Stale.to_string(),
            _ => String::new(),
        }
    }

    /// What it means to whoever sent the transaction.
    pub fn class(&self) -> Class {
        match self {
            Reject::Tx(_) | Reject::Coinbase | Reject::SpendsConflict { .. } => Class::Consensus,
            Reject::Spend(BlockError::PrematureCoinbaseSpend { .. }) => Class::PrematureSpend,
            Reject::Spend(_) => Class::Consensus,
            Reject::NotFinal | Reject::RelativeLock => Class::PrematureSpend,
            Reject::AlreadyInMempool | Reject::SameTxidInMempool | Reject::AlreadyConfirmed => Class::Conflict,
            Reject::MissingInputs => Class::MissingInputs,
            Reject::InputsNotStandard(_) => Class::InputsNotStandard,
            Reject::WitnessNotStandard => Class::WitnessMutated,
            Reject::Script { stripped: true, .. } => Class::WitnessStripped,
            Reject::MempoolMinFee { .. }
            | Reject::MinRelayFee { .. }
            | Reject::InsufficientFee { .. }
            | Reject::ReplacementFailed
            | Reject::MempoolFull => Class::Reconsiderable,
            Reject::ReplacementDisallowed
            | Reject::Truc(_)
            | Reject::TooManyReplacements { .. }
            | Reject::TooLargeCluster
            | Reject::MaxFeeRate
            | Reject::MissingEphemeralSpends { .. }
            | Reject::NotValidated
            | Reject::Store(_)
            | Reject::Stale => Class::MempoolPolicy,
            _ => Class::NotStandard,
        }
    }
}

impl fmt::Display for Reject {
    /// "word, details", as Core's `ValidationState::ToString`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reject_word())?;
        let details = self.details();
        if details.is_empty() { Ok(()) } else { write!(f, ", {details}") }
    }
}

impl std::error::Error for Reject {}
