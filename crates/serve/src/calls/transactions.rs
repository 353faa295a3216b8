//! Transactions: confirmed ones, those of the mempool, and those in a request.
//!
//! In:     txids, or bytes in hexadecimal digits.
//! Out:    bytes or objects.
//! Fails:  with Core's sentences for what is not found and for bytes that are no transaction.
//! Source: Bitcoin Core, `src/rpc/rawtransaction.cpp` (`getrawtransaction`, `decoderawtransaction`).

use chain::View;
use primitives::{Block, Params, Transaction, Tx, TxNum, Txid};

use crate::decoded::transaction::{Block as InBlock, Shown, write_block, write_members};
use crate::json::Json;
use crate::prevouts;
use crate::rpc::call::{Call, transaction_of};
use crate::rpc::env::Env;
use crate::rpc::error::{Outcome, RpcError};
use crate::rpc::located::Located;
use crate::rpc::method::{Arg, Kind, Method};

/// A transaction that was found.
pub struct Found {
    /// Itself.
    pub transaction: Transaction,
    /// Its block and its ordinal; none in the mempool.
    pub place: Option<(Located, TxNum)>,
}

/// Looks a transaction up, in the mempool first.
pub fn find(env: &Env, view: &View, txid: &Txid) -> Result<Option<Found>, RpcError> {
    let parse = |bytes: Vec<u8>| Transaction::parse(bytes).map_err(|_| RpcError::internal("A transaction is damaged"));
    if let Some(bytes) = env.mempool.get().and_then(|mempool| mempool.transaction(txid)) {
        return Ok(Some(Found { transaction: parse(bytes)?, place: None }));
    }
    let Some(found) = view.transaction(txid)? else { return Ok(None) };
    let place = Some((Located::at(view, found.height)?, found.tx_num));
    Ok(Some(Found { transaction: parse(found.bytes)?, place }))
}

/// A transaction of one block.
fn find_in(block: &Located, view: &View, txid: &Txid) -> Result<Option<Found>, RpcError> {
    let parsed: Block = match &block.stale {
        Some(None) => return Err(RpcError::misc("Block not available")),
        _ => super::blocks::parsed(block, view)?,
    };
    let Some(tx) = parsed.txs().find(|tx| tx.txid() == *txid) else { return Ok(None) };
    let first = if block.is_active() { view.first_tx_num(block.height)? } else { 0 };
    let transaction = Transaction::parse(tx.raw()).map_err(|_| RpcError::internal("A transaction is damaged"))?;
    Ok(Some(Found { transaction, place: Some((block.clone(), first + tx.index() as TxNum)) }))
}

fn raw_transaction(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let txid = call.txid(0, "parameter 1")?;
    if txid.0 == call.chain_params().genesis.merkle_root {
        let told = "The genesis block coinbase is not considered an ordinary transaction and cannot be retrieved";
        return Err(RpcError::address_or_key(told));
    }
    let verbosity = call.verbosity(1)?;
    let view = call.view()?;
    let block = if call.arg(2).is_null() {
        None
    } else {
        let hash = call.block_hash(2, "parameter 3")?;
        let missing = || RpcError::address_or_key("Block hash not found");
        Some(Located::find(call.env, &view, &hash)?.ok_or_else(missing)?)
    };
    let found = match &block {
        Some(block) => find_in(block, &view, &txid)?,
        None => find(call.env, &view, &txid)?,
    };
    let Some(found) = found else {
        let told = match block {
            Some(_) => "No such transaction found in the provided block",
            None => "No such mempool or blockchain transaction",
        };
        return Err(RpcError::address_or_key(format!("{told}. Use gettransaction for wallet transactions.")));
    };
    let tx = found.transaction.tx();
    if verbosity <= 0 {
        json.hex(tx.raw());
        return Ok(());
    }
    json.begin_object();
    if let Some(block) = &block {
        json.key("in_active_chain").bool(block.is_active());
    }
    write(&tx, &found, verbosity > 1, &view, call.chain_params(), json)?;
    json.end_object();
    Ok(())
}

fn write(tx: &Tx<'_>, found: &Found, with_coins: bool, view: &View, params: &Params, json: &mut Json<'_>) -> Outcome {
    let active = found.place.as_ref().filter(|(block, _)| block.is_active());
    let coins = match active.filter(|_| with_coins && !tx.is_coinbase()) {
        Some((_, tx_num)) => Some(prevouts::of_transaction(view, tx, *tx_num)?),
        None => None,
    };
    let coin_of = coins.as_ref().map(|coins| move |input: usize| coins.get(input));
    let shown =
        Shown { coins: coin_of.as_ref().map(|coin_of| coin_of as &dyn Fn(usize) -> _), prevouts: true, ..Shown::PLAIN };
    write_members(tx, &shown, params, json);
    match &found.place {
        Some((block, _)) if block.is_active() => {
            let confirmations = block.confirmations(view) as u32;
            write_block(&InBlock { header: block.header, confirmations }, json);
        }
        Some((block, _)) => {
            json.key("blockhash").hash(&block.hash.0);
            json.key("confirmations").number(0);
        }
        None => {}
    }
    Ok(())
}

fn decode_raw_transaction(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let transaction = match call.optional_bool(1)? {
        // Without witnesses the bytes 0001 behind the version are "no inputs, one output", not a marker.
        Some(false) => transaction_of(&call.text(0)?).filter(|transaction| !transaction.tx().has_witness()),
        _ => transaction_of(&call.text(0)?),
    };
    let transaction = transaction.ok_or_else(|| RpcError::decode("TX decode failed"))?;
    json.begin_object();
    write_members(&transaction.tx(), &Shown { hex: false, ..Shown::PLAIN }, call.chain_params(), json);
    json.end_object();
    Ok(())
}

/// The methods of this file.
pub const METHODS: &[Method] = &[
    Method {
        name: "getrawtransaction",
        category: "rawtransactions",
        args: &[
            Arg::required("txid", Kind::Hex, "The transaction."),
            Arg::default(
                "verbosity|verbose",
                Kind::NumberOrBool,
                "0",
                "0 for its bytes, 1 for an object, 2 with its fee and the coins it spends.",
            ),
            Arg::optional("blockhash", Kind::Hex, "Look in this block only."),
        ],
        about: "A transaction, of the mempool or of any block.",
        result: "string for 0; otherwise an object: in_active_chain, txid, hash, version, size, vsize, weight, locktime, \
                 vin, vout, fee, hex, blockhash, confirmations, time, blocktime",
        run: raw_transaction,
    },
    Method {
        name: "decoderawtransaction",
        category: "rawtransactions",
        args: &[
            Arg::required("hexstring", Kind::Hex, "The transaction's bytes."),
            Arg::hint("iswitness", Kind::Bool, "whatever fits", "Whether the bytes carry witnesses."),
        ],
        about: "What the bytes of a transaction say.",
        result: "object: txid, hash, version, size, vsize, weight, locktime, vin, vout",
        run: decode_raw_transaction,
    },
];
