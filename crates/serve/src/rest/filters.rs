//! Block filters and their headers.
//!
//! In:     kind of filter, hashes and counts in paths.
//! Out:    bytes, digits or JSON.
//! Fails:  with Core's statuses and sentences.
//! Source: Bitcoin Core, `src/rest.cpp` (`rest_block_filter`, `rest_filter_header`).

use chain::Handle;
use primitives::BlockHash;
use primitives::encode::put_compact_size;

use super::blocks::header_count;
use super::{Answered, Format, Refused, Target, bytes_answer, hash_of, json_answer};
use crate::filters::{BASIC, not_found};
use crate::rpc::env::Env;
use crate::rpc::located::Located;

/// The number of the basic filter in messages.
const BASIC_TYPE: u8 = 0;

fn handle<'a>(env: &'a Env, name: &str) -> Result<&'a Handle, Refused> {
    let handle = env.handle()?;
    match name {
        BASIC if handle.has_filters() => Ok(handle),
        BASIC => Err(Refused::bad(format!("Index is not enabled for filtertype {name}"))),
        _ => Err(Refused::bad(format!("Unknown filtertype {}", super::blocks::safe(name)))),
    }
}

pub(super) fn block_filter(env: &Env, target: &Target<'_>) -> Answered {
    let told = "Invalid URI format. Expected /rest/blockfilter/<filtertype>/<blockhash>";
    let (kind, text) = target.path.split_once('/').ok_or_else(|| Refused::bad(told))?;
    if text.contains('/') {
        return Err(Refused::bad(told));
    }
    let hash = BlockHash(hash_of(text)?);
    let handle = handle(env, kind)?;
    let view = env.view()?;
    let block = Located::find(env, &view, &hash)?.ok_or_else(|| Refused::missing(format!("{text} not found")))?;
    let found = handle.block_filter(&hash)?;
    let filter = found.ok_or_else(|| Refused::missing(not_found(&view, &block).message))?;
    match target.format()? {
        Format::Json => json_answer(|json| -> Result<(), Refused> {
            json.begin_object();
            json.key("filter").hex(&filter.bytes);
            json.end_object();
            Ok(())
        }),
        format => {
            let mut bytes = vec![BASIC_TYPE];
            bytes.extend_from_slice(&hash.0);
            put_compact_size(&mut bytes, filter.bytes.len() as u64);
            bytes.extend_from_slice(&filter.bytes);
            bytes_answer(format, bytes)
        }
    }
}

pub(super) fn filter_headers(env: &Env, target: &Target<'_>) -> Answered {
    let parts: Vec<&str> = target.path.split('/').collect();
    let (kind, count, hash) = match parts[..] {
        [kind, count, hash] => (kind, count, hash),
        [kind, hash] => (kind, target.query("count").unwrap_or("5"), hash),
        _ => {
            let told =
                "Invalid URI format. Expected /rest/blockfilterheaders/<filtertype>/<blockhash>.<ext>?count=<count>";
            return Err(Refused::bad(told));
        }
    };
    let count = header_count(count)?;
    let hash = BlockHash(hash_of(hash)?);
    handle(env, kind)?;
    let view = env.view()?;
    let mut headers = Vec::new();
    if let Some(block) = Located::find(env, &view, &hash)?.filter(Located::is_active) {
        let wanted = count.min((view.tip().height - block.height) as usize + 1);
        headers = view.filter_entries(block.height, wanted as u32)?;
        if headers.len() < wanted {
            let missing = Located::at(&view, block.height + headers.len() as u32)?;
            return Err(Refused::missing(not_found(&view, &missing).message));
        }
    }
    match target.format()? {
        Format::Json => json_answer(|json| -> Result<(), Refused> {
            json.begin_array();
            headers.iter().for_each(|entry| json.hash(&entry.header));
            json.end_array();
            Ok(())
        }),
        format => bytes_answer(format, headers.iter().flat_map(|entry| entry.header).collect()),
    }
}
