//! Why a payload is not the message its command says.
//!
//! In:     what the codec met.
//! Out:    one variant a rule, with the numbers.
//! Fails:  never.
//! Source: Core drops a message that cannot be read and goes on; a list above its limit it calls misbehaviour.

use std::fmt;

use primitives::encode::ParseError;
use stdx::bytes::Short;

use super::limits;

/// Why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// A value, block header or transaction in it cannot be read.
    Format(ParseError),
    /// More payload than [`limits::PAYLOAD_BYTES_MAX`].
    PayloadTooLarge {
        /// Bytes of payload.
        got: usize,
    },
    /// More entries of inventory than [`limits::INVENTORY_MAX`].
    TooManyInventory {
        /// Entries announced.
        got: u64,
    },
    /// More headers than [`limits::HEADERS_MAX`].
    TooManyHeaders {
        /// Headers announced.
        got: u64,
    },
    /// More addresses than [`limits::ADDRESSES_MAX`].
    TooManyAddresses {
        /// The message: addr or addrv2.
        message: &'static str,
        /// Addresses announced.
        got: u64,
    },
    /// A locator of more than [`limits::LOCATOR_MAX`] hashes.
    LocatorTooLong {
        /// Hashes announced.
        got: u64,
    },
    /// More transactions than [`limits::COMPACT_TXS_MAX`] around a compact block.
    TooManyTransactions {
        /// Transactions announced.
        got: u64,
    },
    /// A position in a block that needs more than 16 bits, as the differences add up (BIP 152).
    IndexOverflow,
    /// A prefilled transaction stands behind the last position its block has.
    PrefilledBeyondBlock {
        /// Position it names.
        index: u64,
    },
    /// A compact block without transactions.
    NoTransactions,
    /// The first byte of sendcmpct is neither 0 nor 1 (BIP 152).
    AnnounceNotBoolean {
        /// What it is.
        got: u8,
    },
    /// More filter hashes than [`limits::FILTER_HASHES_MAX`].
    TooManyFilterHashes {
        /// Hashes announced.
        got: u64,
    },
    /// More filter headers than [`limits::FILTER_CHECKPOINTS_MAX`].
    TooManyFilterCheckpoints {
        /// Headers announced.
        got: u64,
    },
    /// A user agent above [`limits::USER_AGENT_BYTES_MAX`].
    UserAgentTooLong {
        /// Bytes announced.
        got: u64,
    },
    /// An address above [`limits::ADDRESS_BYTES_MAX`] (BIP 155).
    AddressTooLong {
        /// Bytes announced.
        got: u64,
    },
    /// An address of a known network with another network's length (BIP 155).
    AddressWrongLength {
        /// Network as BIP 155 numbers it.
        network: u8,
        /// Bytes announced.
        got: u64,
    },
    /// A feature's name or data is too long (BIP 434).
    FeatureTooLong {
        /// Bytes announced.
        got: u64,
    },
}

impl WireError {
    /// True where Core discourages the sender; elsewhere it drops the message.
    pub fn is_misbehaviour(&self) -> bool {
        match self {
            WireError::TooManyInventory { .. }
            | WireError::TooManyHeaders { .. }
            | WireError::TooManyAddresses { .. }
            | WireError::TooManyTransactions { .. }
            | WireError::PrefilledBeyondBlock { .. }
            | WireError::AnnounceNotBoolean { .. }
            | WireError::NoTransactions => true,
            WireError::Format(_)
            | WireError::PayloadTooLarge { .. }
            | WireError::LocatorTooLong { .. }
            | WireError::IndexOverflow
            | WireError::TooManyFilterHashes { .. }
            | WireError::TooManyFilterCheckpoints { .. }
            | WireError::UserAgentTooLong { .. }
            | WireError::AddressTooLong { .. }
            | WireError::AddressWrongLength { .. }
            | WireError::FeatureTooLong { .. } => false,
        }
    }

    /// True where Core ends the connection without calling it misbehaviour.
    pub fn ends_connection(&self) -> bool {
        matches!(
            self,
            WireError::LocatorTooLong { .. } | WireError::PayloadTooLarge { .. } | WireError::FeatureTooLong { .. }
        )
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Format(error) => f.write_str(error.core_words()),
            WireError::PayloadTooLarge { got } => write!(f, "{got} bytes, at most {}", limits::PAYLOAD_BYTES_MAX),
            WireError::TooManyInventory { got } => {
                write!(f, "inv message size = {got}, at most {}", limits::INVENTORY_MAX)
            }
            WireError::TooManyHeaders { got } => {
                write!(f, "headers message size = {got}, at most {}", limits::HEADERS_MAX)
            }
            WireError::TooManyAddresses { message, got } => {
                write!(f, "{message} message size = {got}, at most {}", limits::ADDRESSES_MAX)
            }
            WireError::LocatorTooLong { got } => write!(f, "locator of {got} hashes, at most {}", limits::LOCATOR_MAX),
            WireError::TooManyTransactions { got } => {
                write!(f, "{got} transactions, at most {}", limits::COMPACT_TXS_MAX)
            }
            WireError::IndexOverflow => f.write_str("a position in a block above 65535"),
            WireError::PrefilledBeyondBlock { index } => write!(f, "prefilled transaction {index} is behind the block"),
            WireError::AnnounceNotBoolean { got } => write!(f, "invalid sendcmpct announce field {got}"),
            WireError::NoTransactions => f.write_str("a compact block without transactions"),
            WireError::TooManyFilterHashes { got } => {
                write!(f, "{got} filter hashes, at most {}", limits::FILTER_HASHES_MAX)
            }
            WireError::TooManyFilterCheckpoints { got } => {
                write!(f, "{got} filter headers, at most {}", limits::FILTER_CHECKPOINTS_MAX)
            }
            WireError::UserAgentTooLong { got } => {
                write!(f, "user agent of {got} bytes, at most {}", limits::USER_AGENT_BYTES_MAX)
            }
            WireError::AddressTooLong { got } => {
                write!(f, "address of {got} bytes, at most {}", limits::ADDRESS_BYTES_MAX)
            }
            WireError::AddressWrongLength { network, got } => {
                write!(f, "address of {got} bytes is not of network {network}")
            }
            WireError::FeatureTooLong { got } => write!(f, "feature field of {got} bytes"),
        }
    }
}

impl std::error::Error for WireError {}

impl From<ParseError> for WireError {
    fn from(error: ParseError) -> Self {
        WireError::Format(error)
    }
}

impl From<Short> for WireError {
    fn from(_: Short) -> Self {
        WireError::Format(ParseError::Short)
    }
}
