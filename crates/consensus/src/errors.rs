//! Every rule a header, transaction or block can break.
//!
//! In:     the numbers that broke it.
//! Out:    one variant a rule, Core's reject word, a sentence for people.
//! Fails:  never.
//! Source: Bitcoin Core: `validation.cpp`, `consensus/tx_check.cpp`, `consensus/tx_verify.cpp`.

use std::fmt;

use primitives::{BlockHash, OutPoint, Txid};

use crate::script::{ScriptError, ScriptFailure};

/// Declares an error enum: errors it wraps, its own rules with fields, reject word and sentence, and the list of rules.
macro_rules! rules {
    ($(#[$doc:meta])* $name:ident
        wraps { $(
            $(#[$wrap_doc:meta])* $wrap:ident { $(#[$error_doc:meta])* error: $inner:ty
                $(, $(#[$at_doc:meta])* $at:ident: $at_type:ty)* };
        )* }
        rules { $(
            $(#[$rule_doc:meta])* $rule:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* }
                $word:literal, $text:literal;
        )* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $( $(#[$wrap_doc])* $wrap { $(#[$error_doc])* error: $inner $(, $(#[$at_doc])* $at: $at_type)* }, )*
            $( $(#[$rule_doc])* $rule { $($(#[$field_doc])* $field: $type),* } ),*
        }

        impl $name {
            /// Bitcoin Core's reject word.
            pub fn reject_word(&self) -> &'static str {
                match self {
                    $( $name::$wrap { error, .. } => error.reject_word(), )*
                    $( $name::$rule { .. } => $word ),*
                }
            }

            /// The rule's name: one for each rule, while two rules may share a reject word.
            pub fn rule(&self) -> &'static str {
                match self {
                    $( $name::$wrap { error, .. } => error.rule(), )*
                    $( $name::$rule { .. } => stringify!($rule) ),*
                }
            }

            /// The rules of this kind as pairs of name and reject word, wrapped kinds left out.
            pub const RULES: &'static [(&'static str, &'static str)] = &[ $( (stringify!($rule), $word) ),* ];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( $name::$wrap { error $(, $at)* } => {
                        write!(f, "{error}")?;
                        $( write!(f, " ({} {})", stringify!($at), $at)?; )*
                        Ok(())
                    } )*
                    $( $name::$rule { $($field),* } => {
                        f.write_str(concat!($word, ": "))?;
                        write!(f, $text)
                    } ),*
                }
            }
        }

        impl std::error::Error for $name {}
    };
}

rules! {
    /// A rule about headers.
    HeaderError wraps {} rules {
        /// The hash is above the target, or the target is no number the network allows.
        HighHash { /** Hash of the header. */ hash: BlockHash, /** Its target. */ bits: u32 }
            "high-hash", "hash {hash} does not meet target {bits:08x}";
        /// The target is not the one that follows from the headers before.
        BadBits { /** What must be there. */ want: u32, /** What is there. */ got: u32 }
            "bad-diffbits", "target {got:08x} where {want:08x} follows from the headers before";
        /// Time is not after the median of the previous 11 headers.
        TimeTooOld { /** That median. */ median_s: u32, /** The header's time. */ got_s: u32 }
            "time-too-old", "time {got_s} is not after the median time past {median_s}";
        /// First header of a retarget period, more than 600 s before its parent (BIP 94).
        TimeWarp { /** Time of the parent. */ parent_s: u32, /** The header's time. */ got_s: u32 }
            "time-timewarp-attack", "time {got_s} is more than 600 s before the parent's {parent_s}";
        /// Time is more than two hours ahead of the clock.
        TimeTooNew { /** The clock. */ now_s: u64, /** The header's time. */ got_s: u32 }
            "time-too-new", "time {got_s} is more than two hours after {now_s}";
        /// The version is too low for the height (BIP 34, 66, 65).
        BadVersion { /** Least version at this height. */ least: i32, /** The header's version. */ got: i32 }
            "bad-version", "version {got:#010x} where at least {least} is required";
    }
}

rules! {
    /// A rule about one transaction that needs no chain state (Core: `CheckTransaction`).
    TxError wraps {} rules {
        /// No inputs.
        NoInputs {} "bad-txns-vin-empty", "no inputs";
        /// No outputs.
        NoOutputs {} "bad-txns-vout-empty", "no outputs";
        /// Four times the size without witnesses is above the block weight limit.
        Oversize { /** Bytes without witnesses. */ stripped_bytes: usize }
            "bad-txns-oversize", "{stripped_bytes} bytes without witnesses";
        /// An amount below zero.
        NegativeOutput { /** Position of the output. */ vout: usize, /** Its amount. */ value_sat: i64 }
            "bad-txns-vout-negative", "output {vout} has {value_sat} sat";
        /// An amount above 21 million coins.
        OutputTooLarge { /** Position of the output. */ vout: usize, /** Its amount. */ value_sat: i64 }
            "bad-txns-vout-toolarge", "output {vout} has {value_sat} sat";
        /// The amounts add up to more than 21 million coins.
        OutputSumTooLarge { /** Sum up to the output that passed the limit. */ sum_sat: u64 }
            "bad-txns-txouttotal-toolarge", "outputs sum to {sum_sat} sat";
        /// Two inputs spend the same output (CVE-2018-17144).
        DuplicateInput { /** Position of the second. */ vin: usize }
            "bad-txns-inputs-duplicate", "input {vin} spends what an earlier one spends";
        /// A coinbase script outside 2 to 100 bytes.
        CoinbaseScriptLength { /** Its length. */ got_bytes: usize }
            "bad-cb-length", "coinbase script of {got_bytes} bytes; 2 to 100 are allowed";
        /// An input that names no output, outside a coinbase.
        NullInput { /** Position of the input. */ vin: usize }
            "bad-txns-prevout-null", "input {vin} names no output";
    }
}

rules! {
    /// A rule about a block; those about its header and its transactions one by one are wrapped.
    BlockError wraps {
        /// A rule about the header.
        Header { /** Which. */ error: HeaderError };
        /// A rule about one transaction.
        Tx { /** Which. */ error: TxError, /** Position of the transaction. */ tx_index: usize };
    } rules {
        /// The signet solution is missing, malformed or does not satisfy the challenge (BIP 325).
        SignetSolution {} "bad-signet-blksig", "the block's signature is missing or wrong";
        /// The header's merkle root is not that of the transactions.
        MerkleRoot { /** Root in the header. */ header: Txid, /** Root of the transactions. */ computed: Txid }
            "bad-txnmrklroot", "header has root {header}, transactions have {computed}";
        /// Transactions repeat so that the root does not change (CVE-2012-2459).
        MerkleMutated {} "bad-txns-duplicate", "equal neighbours in the merkle tree";
        /// No transactions, or more bytes without witnesses than a quarter of the weight limit.
        Length { /** Transactions. */ txs: usize, /** Bytes without witnesses. */ stripped_bytes: usize }
            "bad-blk-length", "{txs} transactions in {stripped_bytes} bytes without witnesses";
        /// The first transaction is no coinbase.
        CoinbaseMissing {} "bad-cb-missing", "the first transaction is no coinbase";
        /// A coinbase after the first transaction.
        CoinbaseMultiple { /** Position of the transaction. */ tx_index: usize }
            "bad-cb-multiple", "transaction {tx_index} is a coinbase too";
        /// Signature operations outside witnesses and redeem scripts, times four, pass 80,000.
        LegacySigOps { /** Cost so far. */ cost: u64 } "bad-blk-sigops", "out-of-bounds SigOpCount, {cost}";
        /// A transaction's lock time is not reached (BIP 113).
        NonFinal { /** Position of the transaction. */ tx_index: usize, /** Its lock time. */ lock_time: u32 }
            "bad-txns-nonfinal", "transaction {tx_index} is locked until {lock_time}";
        /// The coinbase script does not begin with the height (BIP 34).
        CoinbaseHeight { /** Height of the block. */ height: u32 }
            "bad-cb-height", "the coinbase does not begin with height {height}";
        /// The coinbase witness is not one item of 32 bytes (BIP 141).
        WitnessNonce {} "bad-witness-nonce-size", "the coinbase witness is not one item of 32 bytes";
        /// The commitment is not that of the witnesses (BIP 141).
        WitnessCommitment {} "bad-witness-merkle-match", "the witnesses are not those committed to";
        /// Witnesses in a block that commits to none (BIP 141).
        UnexpectedWitness { /** Position of the transaction. */ tx_index: usize }
            "unexpected-witness", "transaction {tx_index} has witnesses the block does not commit to";
        /// Weight above 4,000,000 (BIP 141).
        Weight { /** The block's weight. */ got: usize } "bad-blk-weight", "weight {got}";
        /// An output with the same transaction and position is unspent (BIP 30).
        Bip30 { /** The output. */ outpoint: OutPoint } "bad-txns-BIP30", "{outpoint:?} exists and is unspent";
        /// An input spends what does not exist, or no longer.
        MissingInput { /** Position of the transaction. */ tx_index: usize, /** What it spends. */ outpoint: OutPoint }
            "bad-txns-inputs-missingorspent", "transaction {tx_index} spends {outpoint:?}, which is missing or spent";
        /// A coinbase's output spent before 100 blocks passed.
        PrematureCoinbaseSpend { /** Position of the transaction. */ tx_index: usize, /** Blocks passed. */ depth: u32 }
            "bad-txns-premature-spend-of-coinbase", "transaction {tx_index} spends a coinbase at depth {depth}";
        /// Amounts of the coins spent, one or their sum, above 21 million coins.
        InputValues { /** Position of the transaction. */ tx_index: usize }
            "bad-txns-inputvalues-outofrange", "transaction {tx_index} spends more than there can be";
        /// A transaction pays out more than it spends.
        InBelowOut {
            /** Position of the transaction. */ tx_index: usize, /** Sum spent. */ in_sat: u64, /** Sum paid. */ out_sat: u64
        } "bad-txns-in-belowout", "transaction {tx_index} spends {in_sat} sat and pays {out_sat} sat";
        /// Fees of the block add up to more than 21 million coins.
        FeeSum { /** Their sum. */ fees_sat: u64 } "bad-txns-accumulated-fee-outofrange", "fees sum to {fees_sat} sat";
        /// A relative lock is not reached (BIP 68).
        SequenceLock { /** Position of the transaction. */ tx_index: usize }
            "bad-txns-nonfinal", "transaction {tx_index} has a relative lock that is not reached";
        /// Signature operation cost above 80,000 (BIP 141).
        SigOpCost { /** Cost so far. */ cost: u64 } "bad-blk-sigops", "signature operations cost {cost}";
        /// The coinbase pays more than subsidy and fees.
        CoinbaseAmount { /** What it pays. */ got_sat: u64, /** What it may. */ limit_sat: u64 }
            "bad-cb-amount", "the coinbase pays {got_sat} sat; {limit_sat} sat are allowed";
        /// An input's scripts fail.
        Script {
            /** Position of the transaction. */ tx_index: usize, /** Position of the input. */ input_index: usize,
            /** Why, in Core's interpreter's eyes. */ error: ScriptError
        } "block-script-verify-flag-failed", "input {input_index} of transaction {tx_index}: {error}";
    }
}

impl HeaderError {
    /// The reject word of [`HeaderError::TimeTooNew`], the one rule that a header may keep later.
    pub const TIME_TOO_NEW: &'static str = "time-too-new";
}

impl From<HeaderError> for BlockError {
    fn from(error: HeaderError) -> BlockError {
        BlockError::Header { error }
    }
}

impl From<ScriptFailure> for BlockError {
    fn from(failure: ScriptFailure) -> BlockError {
        let ScriptFailure { tx_index, input_index, error } = failure;
        BlockError::Script { tx_index, input_index, error }
    }
}

impl BlockError {
    /// Every rule of this crate as name and reject word: headers, transactions, blocks.
    pub fn all_rules() -> impl Iterator<Item = (&'static str, &'static str)> {
        [HeaderError::RULES, TxError::RULES, BlockError::RULES].into_iter().flatten().copied()
    }

    /// Core's reject reason: the reject word, and for some rules what it says beside (`BlockValidationState`,
    /// `GetRejectReason`).
    pub fn reject_reason(&self) -> String {
        match self {
            BlockError::Header { error: HeaderError::BadVersion { got, .. } } => format!("bad-version({got:#010x})"),
            BlockError::Script { error, .. } => format!("{} ({error})", self.reject_word()),
            _ => self.reject_word().to_owned(),
        }
    }

    /// What there is to say beside the reason: Core's debug message in Core's words where tools read it, ours elsewhere.
    pub fn detail(&self) -> String {
        let text = self.to_string();
        text.split_once(": ").map_or(text.clone(), |(_, detail)| detail.to_owned())
    }

    /// True where another block with the same header may still be valid, so that the header must not be marked invalid
    /// (Core: `BlockValidationResult::BLOCK_MUTATED`).
    pub fn is_mutation(&self) -> bool {
        matches!(
            self,
            BlockError::MerkleRoot { .. }
                | BlockError::MerkleMutated {}
                | BlockError::WitnessNonce {}
                | BlockError::WitnessCommitment {}
                | BlockError::UnexpectedWitness { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_names_of_their_own_and_words() {
        let rules: Vec<_> = BlockError::all_rules().collect();
        let names: std::collections::BTreeSet<_> = rules.iter().map(|rule| rule.0).collect();
        assert_eq!(names.len(), rules.len());
        assert_eq!(rules.len(), 6 + 9 + 23);
        // The two words that stand for two rules each.
        let words: std::collections::BTreeSet<_> = rules.iter().map(|rule| rule.1).collect();
        assert_eq!(words.len(), rules.len() - 2);
    }

    #[test]
    fn wrapped_rules_speak_for_themselves() {
        let error = BlockError::Tx { error: TxError::NoInputs {}, tx_index: 3 };
        assert_eq!((error.reject_word(), error.rule()), ("bad-txns-vin-empty", "NoInputs"));
        assert_eq!(error.to_string(), "bad-txns-vin-empty: no inputs (tx_index 3)");
        let error = BlockError::from(HeaderError::TimeTooOld { median_s: 7, got_s: 7 });
        assert_eq!(error.to_string(), "time-too-old: time 7 is not after the median time past 7");
        assert!(!error.is_mutation() && BlockError::MerkleMutated {}.is_mutation());
        assert_eq!(
            (error.reject_reason(), error.detail()),
            ("time-too-old".into(), "time 7 is not after the median time past 7".into())
        );
    }

    #[test]
    fn reasons_are_those_of_core() {
        #[track_caller]
        fn check(error: BlockError, want: &str) {
            assert_eq!(error.reject_reason(), want);
        }
        check(HeaderError::BadVersion { least: 3, got: 2 }.into(), "bad-version(0x00000002)");
        check(HeaderError::BadVersion { least: 2, got: -1 }.into(), "bad-version(0xffffffff)");
        let error = BlockError::Script { tx_index: 1, input_index: 0, error: ScriptError(1) };
        check(error, "block-script-verify-flag-failed (unknown error)");
        check(BlockError::CoinbaseMissing {}, "bad-cb-missing");
        assert!(BlockError::LegacySigOps { cost: 80_004 }.detail().starts_with("out-of-bounds SigOpCount"));
    }
}
