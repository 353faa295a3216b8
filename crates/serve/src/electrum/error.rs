//! Errors as clients see them: a number and a sentence.
//!
//! In:     one variant a reason.
//! Out:    the protocol's code and text without anything a client sent us, so nothing can be reflected.
//! Fails:  never.
//! Source: JSON-RPC 2.0 section 5.1; ElectrumX (1 bad request, 2 daemon error); Electrum protocol 1.7 (10001 history too
//!         long); Bitcoin Core's `RPC_IN_WARMUP` (-28) for an index that is not complete yet.

use std::fmt;

use crate::source::{Progress, ViewError};

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The line is no JSON.
    Parse,
    /// The line is not UTF-8; the session ends.
    NotUtf8,
    /// The line is longer than allowed; the session ends.
    LineTooLong {
        /// Most bytes of a line.
        max: usize,
    },
    /// JSON, but not a request.
    InvalidRequest(&'static str),
    /// A batch without requests.
    EmptyBatch,
    /// A batch with too many.
    BatchTooLong {
        /// Most requests of a batch.
        max: usize,
    },
    /// No such method.
    UnknownMethod,
    /// Parameters of the wrong number, name, type or form.
    InvalidParams(String),
    /// Something before `server.version`.
    VersionFirst,
    /// `server.version` again.
    VersionTwice,
    /// No version that both sides speak; the session ends.
    UnsupportedVersion,
    /// A height above the tip.
    HeightOutOfRange {
        /// Height asked for.
        height: u64,
        /// Height of the tip.
        tip: u32,
    },
    /// `cp_height` below the header's height or above the tip.
    CheckpointOutOfRange {
        /// Height asked for.
        height: u64,
        /// Checkpoint asked for.
        cp_height: u64,
        /// Height of the tip.
        tip: u32,
    },
    /// No transaction at that position.
    NoSuchPosition {
        /// Height asked for.
        height: u32,
        /// Position asked for.
        pos: u64,
    },
    /// The transaction is in no block, nor in the mempool.
    UnknownTransaction,
    /// The transaction is not in the block named.
    NotInBlock {
        /// Height asked for.
        height: u64,
    },
    /// The bytes to broadcast are no transaction.
    TransactionDecode,
    /// The node would not take what was to be broadcast: its words.
    Rejected {
        /// "transaction" or "tx package".
        what: &'static str,
        /// Bitcoin Core's sentence.
        why: String,
    },
    /// A transaction that is in no block and not in the mempool either, where one of a block is asked for.
    NotConfirmed,
    /// No block of that hash on the best chain.
    UnknownBlock,
    /// There is no mempool yet.
    NoMempool,
    /// The index does not reach the tip yet.
    Syncing(Progress),
    /// More entries than one answer may have.
    HistoryTooLong {
        /// Most entries.
        max: usize,
    },
    /// The client has had more than its share.
    Excess {
        /// Seconds after which nothing of it slows its answers down; it may come again as soon as it is below the end.
        retry_s: u64,
    },
    /// Too many subscriptions.
    TooManySubscriptions {
        /// Most of them.
        max: usize,
    },
    /// It took too long to compute.
    TooSlow {
        /// Seconds allowed.
        max_s: u64,
    },
    /// Reading failed on our side; the text is for the operator and never sent.
    Internal(String),
}

impl Error {
    /// The code on the wire.
    pub fn code(&self) -> i32 {
        match self {
            Error::Parse | Error::NotUtf8 => -32700,
            Error::InvalidRequest(_) | Error::EmptyBatch | Error::BatchTooLong { .. } | Error::LineTooLong { .. } => {
                -32600
            }
            Error::UnknownMethod => -32601,
            Error::InvalidParams(_) => -32602,
            Error::Internal(_) => -32603,
            Error::VersionFirst
            | Error::VersionTwice
            | Error::UnsupportedVersion
            | Error::HeightOutOfRange { .. }
            | Error::CheckpointOutOfRange { .. }
            | Error::NoSuchPosition { .. }
            | Error::NotInBlock { .. }
            | Error::TransactionDecode
            | Error::Rejected { .. }
            | Error::NotConfirmed
            | Error::UnknownBlock
            | Error::TooManySubscriptions { .. }
            | Error::TooSlow { .. } => 1,
            Error::UnknownTransaction | Error::NoMempool => 2,
            Error::Syncing(_) => -28,
            Error::HistoryTooLong { .. } => 10_001,
            Error::Excess { .. } => -101,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Parse => f.write_str("parse error: the line is not JSON"),
            Error::NotUtf8 => f.write_str("parse error: the line is not UTF-8"),
            Error::LineTooLong { max } => write!(f, "a line has at most {max} bytes"),
            Error::InvalidRequest(why) => write!(f, "invalid request: {why}"),
            Error::EmptyBatch => f.write_str("invalid request: the batch is empty"),
            Error::BatchTooLong { max } => write!(f, "a batch has at most {max} requests"),
            Error::UnknownMethod => f.write_str("unknown method"),
            Error::InvalidParams(why) => write!(f, "invalid params: {why}"),
            Error::VersionFirst => f.write_str("use server.version to identify client"),
            Error::VersionTwice => f.write_str("server.version already sent"),
            Error::UnsupportedVersion => {
                write!(f, "unsupported protocol version: this server speaks 1.4 to {}", super::version::NEWEST)
            }
            Error::HeightOutOfRange { height, tip } => write!(f, "height {height} is above the tip at {tip}"),
            Error::CheckpointOutOfRange { height, cp_height, tip } => {
                write!(f, "require header height {height} <= cp_height {cp_height} <= chain height {tip}")
            }
            Error::NoSuchPosition { height, pos } => write!(f, "no tx at position {pos} in block at height {height}"),
            Error::UnknownTransaction => f.write_str("No such mempool or blockchain transaction"),
            Error::NotInBlock { height } => write!(f, "the transaction is not in the block at height {height}"),
            Error::TransactionDecode => f.write_str("the bytes are no transaction"),
            // Wallets look for Core's words in the text; the first line is ElectrumX's.
            Error::Rejected { what, why } => write!(f, "the {what} was rejected by network rules.\n\n{why}"),
            Error::NotConfirmed => f.write_str("no confirmed transaction of that hash"),
            Error::UnknownBlock => f.write_str("no block of that hash on the best chain"),
            Error::NoMempool => f.write_str("this server has no mempool yet"),
            Error::Syncing(progress) => {
                write!(f, "syncing: index at height {} of {}", progress.index_height, progress.headers_height)
            }
            Error::HistoryTooLong { max } => {
                write!(f, "history too long: more than {max} entries (the server's electrum_history_entries_max)")
            }
            // ElectrumX's code and words, and when to come again.
            Error::Excess { retry_s } => write!(f, "excessive resource usage: come again in {retry_s} s"),
            Error::TooManySubscriptions { max } => write!(f, "at most {max} subscriptions are allowed"),
            Error::TooSlow { max_s } => write!(f, "the answer takes more than {max_s} seconds to compute"),
            Error::Internal(_) => f.write_str("internal error"),
        }
    }
}

impl std::error::Error for Error {}

/// How one request fails, seen from inside.
#[derive(Debug)]
pub enum Fault {
    /// Tell the client.
    Answer(Error),
    /// Take a newer view and try again.
    Stale,
}

impl Fault {
    /// What the client is told when trying again did not help.
    pub fn last_word(self) -> Error {
        match self {
            Fault::Answer(error) => error,
            Fault::Stale => Error::Internal("reorganisations passed under every view taken".into()),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Answer(error)
    }
}

impl From<ViewError> for Fault {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::Stale => Fault::Stale,
            ViewError::Read(why) => Fault::Answer(Error::Internal(why)),
        }
    }
}
