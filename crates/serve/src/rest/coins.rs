//! Transactions, coins and the mempool.
//!
//! In:     txids and outpoints in paths, or outpoints in a body.
//! Out:    bytes, digits or JSON.
//! Fails:  with Core's statuses and sentences.
//! Source: Bitcoin Core, `src/rest.cpp` (`rest_tx`, `rest_getutxos`, `rest_mempool`); BIP 64.

use primitives::encode::{compact_size, put_compact_size};
use primitives::{OutPoint, Txid};
use stdx::bytes::Reader;
use stdx::hex;

use super::{Answered, Format, Refused, Target, bytes_answer, hash_of, json_answer};
use crate::calls::coins::{FoundCoin, find as find_coin};
use crate::calls::{mempool as pool, transactions};
use crate::decoded::transaction::{Shown, write_members, write_script};
use crate::rpc::call::Call;
use crate::rpc::env::Env;
use crate::rpc::table;

/// Outpoints of one question (Core: `MAX_GETUTXOS_OUTPOINTS`).
const OUTPOINTS_MAX: usize = 15;
/// What BIP 64 gives as the height of a coin in the mempool.
const MEMPOOL_HEIGHT: u32 = 0x7fff_ffff;

pub(super) fn tx(env: &Env, target: &Target<'_>) -> Answered {
    let txid = Txid(hash_of(target.path)?);
    let view = env.view()?;
    let missing = || Refused::missing(format!("{} not found", target.path));
    let found = transactions::find(env, &view, &txid)?.ok_or_else(missing)?;
    let tx = found.transaction.tx();
    match target.format()? {
        Format::Json => json_answer(|json| -> Result<(), Refused> {
            let block_hash = found.place.as_ref().map(|(block, _)| block.hash);
            json.begin_object();
            write_members(&tx, &Shown { block_hash, ..Shown::PLAIN }, &env.params, json);
            json.end_object();
            Ok(())
        }),
        format => bytes_answer(format, tx.raw().to_vec()),
    }
}

pub(super) fn mempool(env: &Env, target: &Target<'_>) -> Answered {
    if !["contents", "info"].contains(&target.path) {
        return Err(Refused::bad("Invalid URI format. Expected /rest/mempool/<info|contents>.json"));
    }
    let mempool = env.mempool.get().ok_or_else(|| Refused::missing("Mempool disabled or instance not found"))?;
    target.json()?;
    if target.path == "info" {
        return json_answer(|json| -> Result<(), Refused> {
            pool::write_totals(&mempool.totals(), json);
            Ok(())
        });
    }
    let flag = |name: &str, default: bool| match target.query(name) {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) => Err(Refused::bad(format!("The \"{name}\" query parameter must be either \"true\" or \"false\"."))),
    };
    let (verbose, sequence) = (flag("verbose", true)?, flag("mempool_sequence", false)?);
    if verbose && sequence {
        let told = "Verbose results cannot contain mempool sequence values. (hint: set \"verbose=false\")";
        return Err(Refused::bad(told));
    }
    json_answer(|json| pool::write_all(&**mempool, verbose, sequence, json))
}

/// The outpoints asked for, and whether the mempool counts.
struct Question {
    outpoints: Vec<OutPoint>,
    mempool: bool,
}

fn question_in_path(path: &str) -> Result<Question, Refused> {
    let mut parts: Vec<&str> = path.split('/').collect();
    let mempool = parts.first() == Some(&"checkmempool");
    if mempool {
        parts.remove(0);
    }
    let mut outpoints = Vec::new();
    for part in parts {
        let wrong = || Refused::bad("Parse error");
        let (txid, vout) = part.split_once('-').ok_or_else(wrong)?;
        let txid = Txid(hash_of(txid).map_err(|_| wrong())?);
        outpoints.push(OutPoint { txid, vout: vout.parse().map_err(|_| wrong())? });
    }
    if outpoints.is_empty() { Err(Refused::bad("Error: empty request")) } else { Ok(Question { outpoints, mempool }) }
}

fn question_in_body(body: &[u8]) -> Option<Question> {
    let mut reader = Reader::new(body);
    let mempool = reader.u8().ok()? != 0;
    let count = compact_size(&mut reader).ok()?;
    let outpoint = |_| reader.array::<36>().ok().map(|bytes| OutPoint::decode(&bytes));
    let outpoints = (0..count.min(OUTPOINTS_MAX as u64 + 1)).map(outpoint).collect::<Option<Vec<_>>>()?;
    Some(Question { outpoints, mempool })
}

fn question(target: &Target<'_>, body: &[u8]) -> Result<(Question, Format), Refused> {
    let path = target.path.strip_prefix('/').unwrap_or_default();
    if body.is_empty() && path.is_empty() {
        return Err(Refused::bad("Error: empty request"));
    }
    let format = target.format()?;
    let question = match (path.is_empty(), format) {
        (false, Format::Binary | Format::Hex) if !body.is_empty() => {
            return Err(Refused::bad("Combination of URI scheme inputs and raw post data is not allowed"));
        }
        (false, _) => question_in_path(path)?,
        (true, Format::Json) => return Err(Refused::bad("Error: empty request")),
        (true, Format::Binary) => question_in_body(body).ok_or_else(|| Refused::bad("Parse error"))?,
        (true, Format::Hex) => {
            let text = std::str::from_utf8(body).unwrap_or_default().trim();
            let bytes = hex::decode(text).ok();
            bytes.and_then(|bytes| question_in_body(&bytes)).ok_or_else(|| Refused::bad("Parse error"))?
        }
    };
    let tried = question.outpoints.len();
    if tried > OUTPOINTS_MAX {
        return Err(Refused::bad(format!("Error: max outpoints exceeded (max: {OUTPOINTS_MAX}, tried: {tried})")));
    }
    Ok((question, format))
}

pub(super) fn utxos(env: &Env, target: &Target<'_>, body: &[u8]) -> Answered {
    let (question, format) = question(target, body)?;
    if question.mempool && env.mempool.get().is_none() {
        return Err(Refused::missing("Mempool disabled or instance not found"));
    }
    let view = env.view()?;
    let (_, method) = table::find("gettxout").expect("it is in the table");
    let call = Call { env, method, params: &[] };
    let mut coins: Vec<Option<FoundCoin>> = Vec::new();
    for outpoint in &question.outpoints {
        coins.push(find_coin(&call, &view, outpoint, question.mempool)?);
    }
    let tip = view.tip();
    if format == Format::Json {
        return json_answer(|json| -> Result<(), Refused> {
            json.begin_object();
            json.key("chainHeight").number(tip.height);
            json.key("chaintipHash").hash(&tip.hash.0);
            let bits: String = coins.iter().map(|coin| if coin.is_some() { '1' } else { '0' }).collect();
            json.key("bitmap").text(&bits);
            json.key("utxos").begin_array();
            for coin in coins.iter().flatten() {
                json.begin_object();
                json.key("height").number(coin.height.unwrap_or(MEMPOOL_HEIGHT));
                json.key("value").amount(coin.value_sat as i64);
                json.key("scriptPubKey");
                write_script(&coin.script, true, &env.params, json);
                json.end_object();
            }
            json.end_array();
            json.end_object();
            Ok(())
        });
    }
    let mut bytes = tip.height.to_le_bytes().to_vec();
    bytes.extend_from_slice(&tip.hash.0);
    put_compact_size(&mut bytes, coins.len().div_ceil(8) as u64);
    for eight in coins.chunks(8) {
        bytes.push(eight.iter().enumerate().fold(0, |byte, (at, coin)| byte | u8::from(coin.is_some()) << at));
    }
    let found: Vec<&FoundCoin> = coins.iter().flatten().collect();
    put_compact_size(&mut bytes, found.len() as u64);
    for coin in found {
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&coin.height.unwrap_or(MEMPOOL_HEIGHT).to_le_bytes());
        bytes.extend_from_slice(&coin.value_sat.to_le_bytes());
        put_compact_size(&mut bytes, coin.script.len() as u64);
        bytes.extend_from_slice(&coin.script);
    }
    bytes_answer(format, bytes)
}
