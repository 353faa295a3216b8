//! One call: who asks, with which arguments, and what it may look at.
//!
//! In:     arguments in the order of the method's table, their types checked.
//! Out:    arguments as values of Rust; views of the chain; what stands beside the chain, or Core's error without it.
//! Fails:  [`RpcError`] in Core's words.
//! Source: Bitcoin Core, `src/rpc/util.cpp` (`ParseHashV`, `ParseHexV`, `ParseVerbosity`), `src/rpc/server_util.cpp`.

use std::borrow::Cow;
use std::sync::Arc;

use chain::View;
use primitives::hash::{BlockHash, Txid};
use primitives::{Params, Transaction};
use stdx::hex;

use super::env::Env;
use super::error::{RpcError, code};
use super::method::{Method, Need};
use super::needs::{Blocks, Mempool, Network};
use super::value::{Type, Value};

/// One call.
pub struct Call<'a> {
    /// What calls may look at.
    pub env: &'a Env,
    /// The method.
    pub method: &'static Method,
    /// Arguments in order; those at the end may be missing.
    pub params: &'a [Value<'a>],
}

impl<'a> Call<'a> {
    /// The argument at `index`; [`Value::NULL`] where it was not given.
    pub fn arg(&self, index: usize) -> Value<'a> {
        self.params.get(index).copied().unwrap_or(Value::NULL)
    }

    /// The argument at `index`, or the default in the table; [`Value::NULL`] where there is neither.
    fn arg_or_default(&self, index: usize) -> Value<'a> {
        match (self.arg(index), self.method.args[index].need) {
            (value, Need::Default(default)) if value.is_null() => Value::parse(default).unwrap_or(Value::NULL),
            (value, _) => value,
        }
    }

    /// A string.
    pub fn text(&self, index: usize) -> Result<Cow<'a, str>, RpcError> {
        self.arg_or_default(index).text()
    }

    /// A string, where it was given.
    pub fn optional_text(&self, index: usize) -> Result<Option<Cow<'a, str>>, RpcError> {
        let value = self.arg_or_default(index);
        if value.is_null() { Ok(None) } else { value.text().map(Some) }
    }

    /// A whole number.
    pub fn integer<T: std::str::FromStr>(&self, index: usize) -> Result<T, RpcError> {
        self.arg_or_default(index).integer()
    }

    /// A whole number, where it was given.
    pub fn optional_integer<T: std::str::FromStr>(&self, index: usize) -> Result<Option<T>, RpcError> {
        let value = self.arg_or_default(index);
        if value.is_null() { Ok(None) } else { value.integer().map(Some) }
    }

    /// A number; the table holds its default.
    pub fn float(&self, index: usize) -> Result<f64, RpcError> {
        self.arg_or_default(index).float()
    }

    /// `true` or `false`; the table holds its default.
    pub fn bool(&self, index: usize) -> Result<bool, RpcError> {
        self.arg_or_default(index).bool()
    }

    /// `true` or `false`, where it was given.
    pub fn optional_bool(&self, index: usize) -> Result<Option<bool>, RpcError> {
        let value = self.arg_or_default(index);
        if value.is_null() { Ok(None) } else { value.bool().map(Some) }
    }

    /// An amount, in satoshi; the table holds its default.
    pub fn amount_sat(&self, index: usize) -> Result<i64, RpcError> {
        self.arg_or_default(index).amount_sat()
    }

    /// How much to tell; `true` and `false` are 1 and 0 where the table allows them (Core: `ParseVerbosity`).
    pub fn verbosity(&self, index: usize) -> Result<i32, RpcError> {
        let value = self.arg_or_default(index);
        if value.kind() == Type::Bool { value.bool().map(i32::from) } else { value.integer() }
    }

    /// The block a hash names, from the argument at `index`; `name` is how errors call it.
    pub fn block_hash(&self, index: usize, name: &str) -> Result<BlockHash, RpcError> {
        Ok(BlockHash(hash_of(self.arg(index), name)?))
    }

    /// The transaction a hash names.
    pub fn txid(&self, index: usize, name: &str) -> Result<Txid, RpcError> {
        Ok(Txid(hash_of(self.arg(index), name)?))
    }

    /// Bytes written in hexadecimal digits.
    pub fn hex(&self, index: usize, name: &str) -> Result<Vec<u8>, RpcError> {
        hex_of(self.arg(index), name)
    }

    /// A transaction written in hexadecimal digits; `told` is the error's sentence.
    pub fn transaction(&self, index: usize, told: &str) -> Result<Transaction, RpcError> {
        transaction_of(&self.text(index)?).ok_or_else(|| RpcError::decode(told))
    }

    /// The network's constants.
    pub fn chain_params(&self) -> &'a Params {
        &self.env.params
    }

    /// The newest committed state.
    pub fn view(&self) -> Result<Arc<View>, RpcError> {
        self.env.view()
    }

    /// The pool of unconfirmed transactions.
    pub fn mempool(&self) -> Result<&'a dyn Mempool, RpcError> {
        let missing = || RpcError::new(code::CLIENT_MEMPOOL_DISABLED, "Mempool disabled or instance not found");
        self.env.mempool.get().map(|mempool| &**mempool).ok_or_else(missing)
    }

    /// The connections with peers.
    pub fn network(&self) -> Result<&'a dyn Network, RpcError> {
        let told = "Error: Peer-to-peer functionality missing or disabled";
        let missing = || RpcError::new(code::CLIENT_P2P_DISABLED, told);
        self.env.network.get().map(|network| &**network).ok_or_else(missing)
    }

    /// The way in for blocks.
    pub fn blocks(&self) -> Result<&'a dyn Blocks, RpcError> {
        let missing = || RpcError::internal("This node takes blocks from block files only");
        self.env.blocks.get().map(|blocks| &**blocks).ok_or_else(missing)
    }
}

/// 32 bytes as Core shows them (Core: `ParseHashV`).
pub fn hash_of(value: Value<'_>, name: &str) -> Result<[u8; 32], RpcError> {
    hash_text(&value.text()?, name)
}

/// The same for text.
pub fn hash_text(text: &str, name: &str) -> Result<[u8; 32], RpcError> {
    if let Ok(mut bytes) = hex::decode_array::<32>(text) {
        bytes.reverse();
        return Ok(bytes);
    }
    Err(RpcError::parameter(match text.len() {
        64 => format!("{name} must be hexadecimal string (not '{text}')"),
        length => format!("{name} must be of length 64 (not {length}, for '{text}')"),
    }))
}

/// Bytes in hexadecimal digits, one at least (Core: `ParseHexV`).
pub fn hex_of(value: Value<'_>, name: &str) -> Result<Vec<u8>, RpcError> {
    let text = if value.kind() == Type::Text { value.text()? } else { Cow::Borrowed("") };
    match hex::decode(&text) {
        Ok(bytes) if !bytes.is_empty() => Ok(bytes),
        _ => Err(RpcError::parameter(format!("{name} must be hexadecimal string (not '{text}')"))),
    }
}

/// A transaction in hexadecimal digits, tried with witnesses and without (Core: `DecodeHexTx`).
pub fn transaction_of(text: &str) -> Option<Transaction> {
    let transaction = Transaction::parse(hex::decode(text).ok()?).ok()?;
    (transaction.tx().input_count() > 0 || transaction.tx().output_count() > 0).then_some(transaction)
}
