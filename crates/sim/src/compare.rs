//! Every answer of a view beside the book's.
//!
//! In:     a view, and a book of the same blocks.
//! Out:    nothing, where they agree about each script, transaction, spent output, coin and header.
//! Fails:  with a sentence that names the first difference.

use chain::View;
use primitives::hash::{merkle_root, merkle_root_of_branch};
use primitives::{OutPoint, ScriptHash, Txid};

use crate::book::Book;
use crate::muhash::{MuHash, coin_bytes};

/// Compares everything.
pub fn agree(view: &View, book: &Book) -> Result<(), String> {
    same("tip", || "tip".to_owned(), (view.tip().height, view.tip().hash), (book.height(), book.tip()))?;
    for script in book.scripts() {
        script_agrees(view, book, script)?;
    }
    for entry in book.txs() {
        let found = view.transaction(&entry.txid).map_err(text)?;
        let found = found.map(|tx| (tx.height, tx.position, tx.bytes));
        let bytes = book.block(entry.height).tx(entry.position as usize).raw().to_vec();
        same("transaction", || entry.txid.to_string(), found, Some((entry.height, entry.position, bytes)))?;
    }
    for (outpoint, spender) in book.spenders() {
        let found = view.spender(outpoint).map_err(text)?.map(|found| (found.txid, found.input_index, found.height));
        same("spender", || format!("{outpoint:?}"), found, Some((spender.txid, spender.vin, spender.height)))?;
    }
    coins_agree(view, book)?;
    headers_agree(view, book)
}

fn text(error: chain::ViewError) -> String {
    error.to_string()
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    of: impl FnOnce() -> String,
    found: T,
    want: T,
) -> Result<(), String> {
    if found == want { Ok(()) } else { Err(format!("{what} of {}: {found:?}, the book says {want:?}", of())) }
}

fn script_agrees(view: &View, book: &Book, script: &ScriptHash) -> Result<(), String> {
    let of = || script.to_string();
    let history = view.history(script, 0, usize::MAX).map_err(text)?;
    let history: Vec<(u32, Txid)> = history.iter().map(|entry| (entry.height, entry.txid)).collect();
    same("history", of, history, book.history(script).iter().map(|entry| (entry.height, entry.txid)).collect())?;
    let unspent = view.unspent(script, 0, usize::MAX).map_err(text)?;
    let unspent: Vec<_> = unspent.iter().map(|e| (e.outpoint, e.value_sat, e.height, e.txo_num)).collect();
    let want = book.unspent(script);
    let want: Vec<_> = want.iter().map(|(at, coin)| (*at, coin.value_sat, coin.height, coin.txo_num)).collect();
    same("unspent outputs", of, unspent, want)?;
    same("balance", of, view.balance_sat(script).map_err(text)?, book.balance_sat(script))?;
    same("status", of, view.status(script).map_err(text)?, book.status(script))
}

fn coins_agree(view: &View, book: &Book) -> Result<(), String> {
    let snapshot = view.snapshot();
    for (outpoint, coin) in book.coins() {
        let found = snapshot.coin(outpoint).map_err(|error| error.to_string())?;
        let found = found.map(|found| (found.value_sat, found.height, found.coinbase, found.txo_num, found.script));
        let want = (coin.value_sat, coin.height, coin.coinbase, coin.txo_num, coin.script.clone());
        same("coin", || format!("{outpoint:?}"), found, Some(want))?;
    }
    // Spent outputs and outputs that never were are no coins.
    for (outpoint, _) in book.spenders().take(1000) {
        same("coin", || format!("{outpoint:?}"), snapshot.coin(outpoint).map_err(|e| e.to_string())?.is_some(), false)?;
        let beyond = OutPoint { vout: 1 << 20, ..*outpoint };
        same("coin", || format!("{beyond:?}"), snapshot.coin(&beyond).map_err(|e| e.to_string())?.is_some(), false)?;
    }
    same("hash", || "the coins".to_owned(), muhash(view)?, book.muhash())
}

/// The hash of the view's coins, as `gettxoutsetinfo muhash` gives it.
pub fn muhash(view: &View) -> Result<[u8; 32], String> {
    let mut hash = MuHash::default();
    let each = |outpoint: &OutPoint, coin: &primitives::Coin<'_>| {
        hash.insert(&coin_bytes(outpoint, coin.height, coin.coinbase, coin.value_sat, coin.script));
    };
    chain::Digest::of(view.snapshot(), each).map_err(|error| error.to_string())?;
    Ok(hash.finalize())
}

fn headers_agree(view: &View, book: &Book) -> Result<(), String> {
    for height in 0..=book.height() {
        let of = || format!("height {height}");
        same("header", of, view.header(height).map_err(text)?, Some(book.header(height).encode()))?;
        let leaves: Vec<[u8; 32]> = book.block(height).txs().map(|tx| tx.txid().0).collect();
        let position = height as usize * 7 % leaves.len();
        let branch = view.merkle_branch(height, position as u32).map_err(text)?.unwrap_or_default();
        let root = merkle_root_of_branch(leaves[position], position, &branch);
        same("merkle branch", of, root, merkle_root(&leaves).0)?;
    }
    same("header", || "the next height".to_owned(), view.header(book.height() + 1).map_err(text)?, None)
}
