//! Blocks, headers, and the state of the chain.
//!
//! In:     hashes and heights in paths.
//! Out:    bytes, digits or JSON.
//! Fails:  with Core's statuses and sentences.
//! Source: Bitcoin Core, `src/rest.cpp` (`rest_block`, `rest_headers`, `rest_spent_txouts`).

use primitives::BlockHash;
use primitives::encode::put_compact_size;

use super::{Answered, Format, Refused, Target, bytes_answer, hash_of, json_answer};
use crate::calls::blocks::{Detail, parsed, spent_by, write_block};
use crate::decoded::transaction::write_script;
use crate::rpc::answer::run;
use crate::rpc::env::Env;
use crate::rpc::located::Located;
use crate::rpc::request::Params;
use crate::rpc::value::Value;

/// Headers of one answer (Core: `MAX_REST_HEADERS_RESULTS`).
const HEADERS_MAX: usize = 2000;

fn located(env: &Env, text: &str) -> Result<(std::sync::Arc<chain::View>, Located), Refused> {
    let hash = BlockHash(hash_of(text)?);
    let view = env.view()?;
    match Located::find(env, &view, &hash)? {
        Some(block) if matches!(block.stale, Some(None)) => {
            Err(Refused::missing(format!("{text} not available (not fully downloaded)")))
        }
        Some(block) => Ok((view, block)),
        None => Err(Refused::missing(format!("{text} not found"))),
    }
}

fn whole(env: &Env, target: &Target<'_>, detail: Detail) -> Answered {
    let (view, block) = located(env, target.path)?;
    match target.format()? {
        Format::Json => json_answer(|json| write_block(env, &view, &block, detail, json)),
        format => bytes_answer(format, block.bytes(&view)?),
    }
}

pub(super) fn block(env: &Env, target: &Target<'_>) -> Answered {
    whole(env, target, Detail::Prevouts)
}

pub(super) fn block_without_details(env: &Env, target: &Target<'_>) -> Answered {
    whole(env, target, Detail::Txids)
}

pub(super) fn block_part(env: &Env, target: &Target<'_>) -> Answered {
    let number = |name: &str| {
        let told = || Refused::bad(format!("Block part {name} missing or invalid"));
        target.query(name).and_then(|text| text.parse::<usize>().ok()).ok_or_else(told)
    };
    let (offset, size) = (number("offset")?, number("size")?);
    let (view, block) = located(env, target.path)?;
    let bytes = block.bytes(&view)?;
    let end = offset.checked_add(size).filter(|end| size > 0 && *end <= bytes.len());
    let Some(end) = end else {
        return Err(Refused::bad(format!("Bad block part offset/size {offset}/{size} for {}", target.path)));
    };
    match target.format()? {
        Format::Json => Err(Refused::bad("JSON output is not supported for this request type")),
        format => bytes_answer(format, bytes[offset..end].to_vec()),
    }
}

/// A number of headers, within the limit.
pub(super) fn header_count(count: &str) -> Result<usize, Refused> {
    let in_range = count.parse::<usize>().ok().filter(|count| (1..=HEADERS_MAX).contains(count));
    let told =
        || Refused::bad(format!("Header count is invalid or out of acceptable range (1-{HEADERS_MAX}): {count}"));
    in_range.ok_or_else(told)
}

pub(super) fn headers(env: &Env, target: &Target<'_>) -> Answered {
    let parts: Vec<&str> = target.path.split('/').collect();
    let (hash, count) = match parts[..] {
        [hash] => (hash, target.query("count").unwrap_or("5")),
        [count, hash] => (hash, count),
        _ => {
            return Err(Refused::bad("Invalid URI format. Expected /rest/headers/<hash>.<ext>?count=<count>"));
        }
    };
    let count = header_count(count)?;
    let hash = BlockHash(hash_of(hash)?);
    let view = env.view()?;
    let first = Located::find(env, &view, &hash)?.filter(Located::is_active).map(|block| block.height);
    match target.format()? {
        Format::Json => json_answer(|json| -> Result<(), Refused> {
            json.begin_array();
            let heights = first.into_iter().flat_map(|first| (first..=view.tip().height).take(count));
            for height in heights {
                json.begin_object();
                Located::at(&view, height)?.write_members(env, &view, json)?;
                json.end_object();
            }
            json.end_array();
            Ok(())
        }),
        format => {
            let bytes = first.map(|first| view.headers(first, count as u32)).transpose()?;
            bytes_answer(format, bytes.unwrap_or_default())
        }
    }
}

pub(super) fn block_hash_by_height(env: &Env, target: &Target<'_>) -> Answered {
    let height: Option<u32> = target.path.parse().ok().filter(|height| *height <= i32::MAX as u32);
    let height = height.ok_or_else(|| Refused::bad(format!("Invalid height: {}", safe(target.path))))?;
    let view = env.view()?;
    if height > view.tip().height {
        return Err(Refused::missing("Block height out of range"));
    }
    let hash = Located::at(&view, height)?.hash;
    match target.format()? {
        Format::Binary => bytes_answer(Format::Binary, hash.0.to_vec()),
        Format::Hex => {
            let mut shown = hash.0;
            shown.reverse();
            bytes_answer(Format::Hex, shown.to_vec())
        }
        Format::Json => json_answer(|json| -> Result<(), Refused> {
            json.begin_object();
            json.key("blockhash").hash(&hash.0);
            json.end_object();
            Ok(())
        }),
    }
}

/// Text of a client without what could be more than text.
pub(super) fn safe(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.~/".contains(*c)).take(80).collect()
}

pub(super) fn spent_tx_outs(env: &Env, target: &Target<'_>) -> Answered {
    if target.path.contains('/') {
        return Err(Refused::bad("Invalid URI format. Expected /rest/spenttxouts/<hash>.<ext>"));
    }
    let (view, found) = located(env, target.path)?;
    let block = parsed(&found, &view)?;
    let spent = spent_by(&found, &block, &view)?;
    let spent = spent.ok_or_else(|| Refused::missing(format!("{} undo not available", target.path)))?;
    let mut first = 0;
    let mut of_each = block.txs().map(|tx| {
        let count = if tx.index() == 0 { 0 } else { tx.input_count() };
        first += count;
        (first - count)..first
    });
    match target.format()? {
        Format::Json => json_answer(|json| -> Result<(), Refused> {
            json.begin_array();
            for coins in of_each.by_ref() {
                json.begin_array();
                for coin in coins.map(|at| spent.get(at)) {
                    json.begin_object();
                    json.key("value").amount(coin.value_sat as i64);
                    json.key("scriptPubKey");
                    write_script(coin.script, true, &env.params, json);
                    json.end_object();
                }
                json.end_array();
            }
            json.end_array();
            Ok(())
        }),
        format => {
            let mut bytes = Vec::new();
            put_compact_size(&mut bytes, block.tx_count() as u64);
            for coins in of_each.by_ref() {
                put_compact_size(&mut bytes, coins.len() as u64);
                for coin in coins.map(|at| spent.get(at)) {
                    bytes.extend_from_slice(&coin.value_sat.to_le_bytes());
                    put_compact_size(&mut bytes, coin.script.len() as u64);
                    bytes.extend_from_slice(coin.script);
                }
            }
            bytes_answer(format, bytes)
        }
    }
}

pub(super) fn chain_info(env: &Env, target: &Target<'_>) -> Answered {
    target.json()?;
    json_answer(|json| called(env, "getblockchaininfo", None, json))
}

pub(super) fn deployment_info(env: &Env, target: &Target<'_>) -> Answered {
    target.json()?;
    if target.path.is_empty() {
        return json_answer(|json| called(env, "getdeploymentinfo", None, json));
    }
    let hash = BlockHash(hash_of(target.path)?);
    let view = env.view()?;
    if Located::find(env, &view, &hash)?.is_none() {
        return Err(Refused::bad("Block not found"));
    }
    json_answer(|json| called(env, "getdeploymentinfo", Some(&format!("\"{}\"", target.path)), json))
}

/// The result of a call, with one argument or none.
fn called(env: &Env, method: &str, arg: Option<&str>, json: &mut crate::json::Json<'_>) -> Result<(), Refused> {
    let values = arg.and_then(Value::parse).into_iter().collect();
    let mut result = Ok(());
    json.with(|out| result = run(env, method, &Params::List(values), out));
    Ok(result?)
}
