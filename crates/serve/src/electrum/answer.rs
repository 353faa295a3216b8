//! Writing answers and notifications as text.
//!
//! In:     an `id` as the client wrote it, results as numbers, hashes and strings.
//! Out:    JSON appended to a buffer; a line ends with its newline only where the caller puts it.
//! Fails:  never.
//! Source: JSON-RPC 2.0 section 5; 1.0 answers carry `result` and `error` both, one of them null.

use std::io::Write as _;

use primitives::Txid;

use super::error::Error;
use crate::wallet::moment::Shown;

/// Which request an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The `id` as it was written.
    pub id: String,
    /// JSON-RPC 2.0.
    pub two: bool,
}

impl Head {
    /// Everything before the result.
    pub fn open(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.two { b"{\"jsonrpc\":\"2.0\",\"id\":" } else { b"{\"id\":" });
        out.extend_from_slice(self.id.as_bytes());
        out.extend_from_slice(b",\"result\":");
    }

    /// Everything after the result.
    pub fn close(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.two { b"}" } else { b",\"error\":null}" });
    }

    /// The whole of an answer that is an error.
    pub fn refuse(&self, error: &Error, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.two { b"{\"jsonrpc\":\"2.0\",\"id\":" } else { b"{\"id\":" });
        out.extend_from_slice(self.id.as_bytes());
        out.extend_from_slice(if self.two {
            b",\"error\":{\"code\":"
        } else {
            b",\"result\":null,\"error\":{\"code\":"
        });
        number(i64::from(error.code()), out);
        out.extend_from_slice(b",\"message\":");
        string(&error.to_string(), out);
        out.extend_from_slice(b"}}");
    }
}

/// The start of a notification, up to and including the bracket that opens `params`.
pub fn open_notification(two: bool, method: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(if two { b"{\"jsonrpc\":\"2.0\",\"method\":" } else { b"{\"id\":null,\"method\":" });
    string(method, out);
    out.extend_from_slice(b",\"params\":[");
}

/// A whole number.
pub fn number(value: i64, out: &mut Vec<u8>) {
    write!(out, "{value}").expect("writing to memory");
}

/// A string with its quotes.
pub fn string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing to memory");
}

/// Bytes as hexadecimal digits, without quotes.
pub fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 * bytes.len());
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Bytes as a string of hexadecimal digits.
pub fn hex_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    hex(bytes, out);
    out.push(b'"');
}

/// A hash as identifiers are shown: reversed, as a string.
pub fn hash_string(hash: &[u8; 32], out: &mut Vec<u8>) {
    let mut shown = *hash;
    shown.reverse();
    hex_string(&shown, out);
}

/// A list of hashes.
pub fn hashes(list: &[[u8; 32]], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, hash) in list.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        hash_string(hash, out);
    }
    out.push(b']');
}

/// A header's notice: `{"height":..,"hex":".."}`.
pub fn tip(height: u32, header: &[u8], out: &mut Vec<u8>) {
    write!(out, "{{\"height\":{height},\"hex\":").expect("writing to memory");
    hex_string(header, out);
    out.push(b'}');
}

/// One entry of a history.
pub fn history_entry(height: u32, txid: &Txid, out: &mut Vec<u8>) {
    write!(out, "{{\"height\":{height},\"tx_hash\":").expect("writing to memory");
    hash_string(&txid.0, out);
    out.push(b'}');
}

/// One unconfirmed entry of a history.
pub fn unconfirmed_entry(shown: &Shown, out: &mut Vec<u8>) {
    let Shown { txid, height, fee_sat } = shown;
    write!(out, "{{\"fee\":{fee_sat},\"height\":{height},\"tx_hash\":").expect("writing to memory");
    hash_string(&txid.0, out);
    out.push(b'}');
}

/// One unspent output; height 0 stands for the mempool.
pub fn unspent_entry(height: u32, txid: &Txid, vout: u32, value_sat: u64, out: &mut Vec<u8>) {
    write!(out, "{{\"height\":{height},\"tx_pos\":{vout},\"value\":{value_sat},\"tx_hash\":")
        .expect("writing to memory");
    hash_string(&txid.0, out);
    out.push(b'}');
}

/// A script's status: 64 digits in the hash's own order, or null.
pub fn status(status: Option<[u8; 32]>, out: &mut Vec<u8>) {
    match status {
        Some(hash) => hex_string(&hash, out),
        None => out.extend_from_slice(b"null"),
    }
}

/// A whole notification of a script's status: the script as `named`, JSON, in what `method` speaks of.
pub fn script_notification(two: bool, method: &str, named: &[u8], changed: Option<[u8; 32]>, out: &mut Vec<u8>) {
    open_notification(two, method, out);
    out.extend_from_slice(named);
    out.push(b',');
    status(changed, out);
    out.extend_from_slice(b"]}\n");
}
