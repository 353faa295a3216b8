//! What a call can fail with: a code of Bitcoin Core's and a sentence.
//!
//! In:     reasons from the calls, from the chain's views, from reading arguments.
//! Out:    [`RpcError`], written as the `error` member of an answer.
//! Fails:  never.
//! Source: Bitcoin Core, `src/rpc/protocol.h`.

use std::fmt;

use crate::json::Json;

/// Core's `RPCErrorCode`, the codes that our calls use.
#[allow(missing_docs)]
pub mod code {
    pub const INVALID_REQUEST: i32 = -32600;
    pub const METHOD_NOT_FOUND: i32 = -32601;
    pub const INVALID_PARAMS: i32 = -32602;
    pub const INTERNAL_ERROR: i32 = -32603;
    pub const PARSE_ERROR: i32 = -32700;
    pub const MISC_ERROR: i32 = -1;
    pub const TYPE_ERROR: i32 = -3;
    pub const INVALID_ADDRESS_OR_KEY: i32 = -5;
    pub const OUT_OF_MEMORY: i32 = -7;
    pub const INVALID_PARAMETER: i32 = -8;
    pub const CLIENT_NOT_CONNECTED: i32 = -9;
    pub const CLIENT_IN_INITIAL_DOWNLOAD: i32 = -10;
    pub const DATABASE_ERROR: i32 = -20;
    pub const DESERIALIZATION_ERROR: i32 = -22;
    pub const CLIENT_NODE_ALREADY_ADDED: i32 = -23;
    pub const CLIENT_NODE_NOT_ADDED: i32 = -24;
    pub const VERIFY_ERROR: i32 = -25;
    pub const VERIFY_REJECTED: i32 = -26;
    pub const VERIFY_ALREADY_IN_UTXO_SET: i32 = -27;
    pub const IN_WARMUP: i32 = -28;
    pub const CLIENT_NODE_NOT_CONNECTED: i32 = -29;
    pub const CLIENT_INVALID_IP_OR_SUBNET: i32 = -30;
    pub const CLIENT_P2P_DISABLED: i32 = -31;
    pub const CLIENT_MEMPOOL_DISABLED: i32 = -33;
    pub const CLIENT_NODE_CAPACITY_REACHED: i32 = -34;
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// One of [`code`].
    pub code: i32,
    /// A sentence for whoever called.
    pub message: String,
    /// True where the fault is ours, so that the operator should hear of it.
    pub fault: bool,
}

/// What a call returns: its result has been written.
pub type Outcome = Result<(), RpcError>;

impl RpcError {
    /// An error with this code.
    pub fn new(code: i32, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), fault: false }
    }

    /// An argument whose value cannot be used.
    pub fn parameter(message: impl Into<String>) -> RpcError {
        RpcError::new(code::INVALID_PARAMETER, message)
    }

    /// Something named that does not exist, or an address or key that is none.
    pub fn address_or_key(message: impl Into<String>) -> RpcError {
        RpcError::new(code::INVALID_ADDRESS_OR_KEY, message)
    }

    /// An argument of the wrong type.
    pub fn type_error(message: impl Into<String>) -> RpcError {
        RpcError::new(code::TYPE_ERROR, message)
    }

    /// Bytes that are not what they should be.
    pub fn decode(message: impl Into<String>) -> RpcError {
        RpcError::new(code::DESERIALIZATION_ERROR, message)
    }

    /// What Core throws as a plain exception.
    pub fn misc(message: impl Into<String>) -> RpcError {
        RpcError::new(code::MISC_ERROR, message)
    }

    /// A fault of ours.
    pub fn internal(message: impl Into<String>) -> RpcError {
        RpcError { code: code::INTERNAL_ERROR, message: message.into(), fault: true }
    }

    /// Writes the object.
    pub fn write(&self, json: &mut Json<'_>) {
        json.begin_object();
        json.key("code").number(self.code);
        json.key("message").text(&self.message);
        json.end_object();
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}

impl From<chain::ViewError> for RpcError {
    fn from(error: chain::ViewError) -> RpcError {
        match error {
            chain::ViewError::Stale => RpcError::new(code::DATABASE_ERROR, "The chain was reorganised, ask again"),
            chain::ViewError::BlockGone { .. } => RpcError::misc("Block not found on disk"),
            error => RpcError::internal(format!("Reading failed: {error}")),
        }
    }
}
