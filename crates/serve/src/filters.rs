//! Block filters: that of one block, and the blocks that may concern some scripts.
//!
//! In:     a block's hash; descriptors and heights.
//! Out:    filter and header; hashes of blocks.
//! Fails:  with Core's sentences where filters are off, or not built that far.
//! Source: Bitcoin Core, `src/rpc/blockchain.cpp` (`getblockfilter`, `scanblocks`).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use chain::{Handle, View};
use index::filter::matches_any;
use primitives::BlockHash;

use crate::calls::blocks::{parsed, spent_by};
use crate::json::Json;
use crate::keys::ranges::scripts_of_object;
use crate::rpc::call::Call;
use crate::rpc::env::Env;
use crate::rpc::error::{Outcome, RpcError};
use crate::rpc::located::Located;
use crate::rpc::method::{Arg, Kind, Method};
use crate::rpc::value::{Type, member};

/// The kind of filters there are.
pub const BASIC: &str = "basic";
/// Filters that one look at the abort flag is for.
const STEP_BLOCKS: u32 = 100;

/// The scan under way: one at a time, as in Core.
#[derive(Debug, Default)]
pub struct Scan {
    running: AtomicBool,
    abort: AtomicBool,
    first: AtomicU32,
    last: AtomicU32,
    at: AtomicU32,
}

/// Ends the scan, however the call ends.
struct Running<'a>(&'a Scan);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::Release);
    }
}

impl Scan {
    fn begin(&self) -> Result<Running<'_>, RpcError> {
        if self.running.swap(true, Ordering::AcqRel) {
            let told = "Scan already in progress, use action \"abort\" or \"status\"";
            return Err(RpcError::parameter(told));
        }
        self.abort.store(false, Ordering::Release);
        Ok(Running(self))
    }

    fn percent(&self) -> u32 {
        let [first, last, at] = [&self.first, &self.last, &self.at].map(|height| height.load(Ordering::Relaxed));
        let (done, all) = (u64::from(at.saturating_sub(first)), u64::from(last.saturating_sub(first)));
        (100 * done).checked_div(all).unwrap_or(100).min(100) as u32
    }
}

/// The writer's handle, where filters are built and `name` is their kind.
pub fn handle_with_filters<'a>(env: &'a Env, name: &str) -> Result<&'a Handle, RpcError> {
    let handle = env.handle()?;
    match name {
        BASIC if handle.has_filters() => Ok(handle),
        BASIC => Err(RpcError::misc(format!("Index is not enabled for filtertype {name}"))),
        _ => Err(RpcError::address_or_key("Unknown filtertype")),
    }
}

/// Why a block has no filter, with Core's code.
pub fn not_found(view: &View, block: &Located) -> RpcError {
    if !block.is_active() {
        let told = "Filter not found. Block was not connected to active chain.";
        return RpcError::address_or_key(told);
    }
    if block.height >= view.filter_count() {
        return RpcError::misc("Filter not found. Block filters are still in the process of being indexed.");
    }
    RpcError::internal("Filter not found. This error is unexpected and indicates index corruption.")
}

fn block_filter(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let hash = call.block_hash(0, "blockhash")?;
    let handle = handle_with_filters(call.env, &call.text(1)?)?;
    let view = call.view()?;
    let block = Located::find(call.env, &view, &hash)?.ok_or_else(crate::rpc::located::block_not_found)?;
    let filter = handle.block_filter(&hash)?.ok_or_else(|| not_found(&view, &block))?;
    json.begin_object();
    json.key("filter").hex(&filter.bytes);
    json.key("header").hash(&filter.head.header);
    json.end_object();
    Ok(())
}

fn scan_blocks(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let scan = &call.env.filter_scan;
    match &*call.text(0)? {
        "status" if scan.running.load(Ordering::Acquire) => {
            json.begin_object();
            json.key("progress").number(scan.percent());
            json.key("current_height").number(scan.at.load(Ordering::Relaxed));
            json.end_object();
        }
        "status" => json.null(),
        "abort" => {
            let running = scan.running.load(Ordering::Acquire);
            scan.abort.store(true, Ordering::Release);
            json.bool(running);
        }
        "start" => return start(call, scan, json),
        other => return Err(RpcError::parameter(format!("Invalid action '{other}'"))),
    }
    Ok(())
}

/// The height at an argument, where the chain has it.
fn height_of(call: &Call<'_>, index: usize, view: &View) -> Result<Option<Result<u32, ()>>, RpcError> {
    let Some(height) = call.optional_integer::<i32>(index)? else { return Ok(None) };
    Ok(Some(u32::try_from(height).ok().filter(|height| *height <= view.tip().height).ok_or(())))
}

fn start(call: &Call<'_>, scan: &Scan, json: &mut Json<'_>) -> Outcome {
    let _running = scan.begin()?;
    if call.arg(1).is_null() {
        return Err(RpcError::misc("scanobjects argument is required for the start action"));
    }
    handle_with_filters(call.env, &call.text(4)?)?;
    let exact = match call.arg(5).kind() {
        Type::Object => member(&call.arg(5).object()?, "filter_false_positives"),
        _ => call.arg(5),
    };
    let exact = if exact.is_null() { false } else { exact.bool()? };
    let view = call.view()?;
    let invalid = |name: &str| RpcError::misc(format!("Invalid {name}"));
    let first = height_of(call, 2, &view)?.unwrap_or(Ok(0)).map_err(|()| invalid("start_height"))?;
    let last = height_of(call, 3, &view)?.unwrap_or(Ok(view.tip().height)).ok();
    let last = last.filter(|last| *last >= first).ok_or_else(|| invalid("stop_height"))?;
    let mut scripts: Vec<Vec<u8>> = Vec::new();
    for object in call.arg(1).array()? {
        scripts.extend(scripts_of_object(object, call.chain_params())?.into_iter().map(|(script, _)| script));
    }
    scripts.sort_unstable();
    scripts.dedup();
    scan.first.store(first, Ordering::Relaxed);
    scan.last.store(last, Ordering::Relaxed);
    scan.at.store(first, Ordering::Relaxed);
    let (mut blocks, mut completed, mut at) = (Vec::new(), true, first);
    loop {
        if scan.abort.load(Ordering::Acquire) || call.env.host.stopping() {
            completed = false;
            break;
        }
        let end = last.min(at.saturating_add(STEP_BLOCKS - 1));
        for height in at..=end {
            let Some(block) = matching(&view, height, &scripts, exact)? else { continue };
            blocks.push(block);
        }
        scan.at.store(end, Ordering::Relaxed);
        if end == last {
            break;
        }
        at = end + 1;
    }
    json.begin_object();
    json.key("from_height").number(first);
    json.key("to_height").number(scan.at.load(Ordering::Relaxed));
    json.key("relevant_blocks").begin_array();
    blocks.iter().for_each(|hash| json.hash(&hash.0));
    json.end_array();
    json.key("completed").bool(completed);
    json.end_object();
    Ok(())
}

/// The block at a height, where its filter says that one of the scripts may be in it; with `exact`, where one is.
fn matching(view: &View, height: u32, scripts: &[Vec<u8>], exact: bool) -> Result<Option<BlockHash>, RpcError> {
    let block = Located::at(view, height)?;
    let Some((_, filter)) = view.filter(height)? else { return Err(not_found(view, &block)) };
    let told = |_| RpcError::internal(format!("The filter of block {height} cannot be read; run `assay reindex`"));
    let matches = matches_any(&filter, &block.hash, scripts.iter().map(Vec::as_slice)).map_err(told)?;
    let is_there = matches && (!exact || has_script(view, &block, scripts)?);
    Ok(is_there.then_some(block.hash))
}

/// True where a block pays to or spends from one of the scripts, which are sorted.
fn has_script(view: &View, found: &Located, scripts: &[Vec<u8>]) -> Result<bool, RpcError> {
    let is_wanted = |script: &[u8]| scripts.binary_search_by(|wanted| wanted.as_slice().cmp(script)).is_ok();
    let block = parsed(found, view)?;
    for tx in block.txs() {
        if tx.outputs().any(|output| is_wanted(output.script)) {
            return Ok(true);
        }
    }
    let spent = spent_by(found, &block, view)?;
    Ok(spent.is_some_and(|spent| spent.iter().any(|coin| is_wanted(coin.script))))
}

const FILTER_TYPE: Arg = Arg::default("filtertype", Kind::Text, "\"basic\"", "The kind of filter: basic.");

/// The methods of this file.
pub const METHODS: &[Method] = &[
    Method {
        name: "getblockfilter",
        category: "blockchain",
        args: &[Arg::required("blockhash", Kind::Hex, "The block's hash."), FILTER_TYPE],
        about: "The filter of a block (BIP 158), where filters are built.",
        result: "object: filter, header",
        run: block_filter,
    },
    Method {
        name: "scanblocks",
        category: "blockchain",
        args: &[
            Arg::required("action", Kind::Text, "start, status or abort."),
            Arg::optional(
                "scanobjects",
                Kind::Array,
                "Descriptors, or objects with the members desc and range (a last index, or a first and a last one).",
            ),
            Arg::default("start_height", Kind::Number, "0", "The first block."),
            Arg::hint("stop_height", Kind::Number, "the tip", "The last block."),
            FILTER_TYPE,
            Arg::optional(
                "options",
                Kind::Options(&[Arg::default(
                    "filter_false_positives",
                    Kind::Bool,
                    "false",
                    "Read the blocks that match, and leave out those that only seem to.",
                )]),
                "How to scan.",
            ),
        ],
        about: "Blocks whose filters say that a script may be in them.",
        result: "object: from_height, to_height, relevant_blocks, completed; status: null, or an object: progress, current_height; abort: boolean",
        run: scan_blocks,
    },
];
