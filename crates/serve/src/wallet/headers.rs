//! Headers, alone, in a row and with proofs; the tip; statistics of a block.
//!
//! In:     a session's state and checked arguments.
//! Out:    the result appended to a buffer whose answer is already open.
//! Fails:  [`Fault`].
//! Source: Electrum protocol 1.4 to 1.7, docs/protocol-methods.rst; where it is silent, ElectrumX; Sparrow's own server
//!         (Frigate) for statistics, which are those of Bitcoin Core's `getblockstats`.

use consensus::connect::subsidy_sat;
use consensus::header::{MEDIAN_TIME_SPAN, median};
use primitives::Header;

use super::methods::{Reply, require_ready, write};
use crate::calls::blocks::{StatsOf, all_stats};
use crate::electrum::answer;
use crate::electrum::error::{Error, Fault};
use crate::electrum::limits::HEADERS_MAX;
use crate::electrum::machine::Machine;
use crate::electrum::params::Arguments;
use crate::electrum::version::V1_6;
use crate::json::Json;
use crate::source::View;

pub(super) fn subscribe(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    // Wanted before it is read, so that no tip falls between the two.
    let new = machine.wishes.tip.is_none();
    if new {
        machine.env.subscriptions.add_headers(machine.id);
    }
    match machine.newest_tip() {
        Ok(tip) => {
            machine.wishes.tip = Some(tip);
            answer::tip(tip.0, &tip.1, out);
            Ok(Reply::Written)
        }
        Err(fault) => {
            if new {
                machine.env.subscriptions.remove_headers(machine.id);
            }
            Err(fault)
        }
    }
}

pub(super) fn unsubscribe(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    machine.env.subscriptions.remove_headers(machine.id);
    let known = machine.wishes.tip.take().is_some();
    write(out, if known { "true" } else { "false" })
}

pub(super) fn get_tip(machine: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let (height, header) = machine.newest_tip()?;
    answer::tip(height, &header, out);
    Ok(Reply::Written)
}

/// The header of a block by its hash, or by its height.
pub(super) fn get(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let view = machine.env.source.view();
    let height = match arguments.block_hash(0) {
        Ok(hash) => {
            let height = machine.env.source.height_of(&hash).ok_or(Error::UnknownBlock)?;
            let header = view.header(height)?.filter(|header| Header::decode(header).hash() == hash);
            header.map(|_| height).ok_or(Error::UnknownBlock)?
        }
        Err(_) => known_height(arguments.number(0, None)?, &*view)?,
    };
    let header = view.header(height)?.ok_or(Fault::Stale)?;
    answer::tip(height, &header, out);
    Ok(Reply::Written)
}

/// A height that is not above the tip.
pub(super) fn known_height(height: u64, view: &dyn View) -> Result<u32, Error> {
    let tip = view.tip_height();
    match u32::try_from(height) {
        Ok(known) if known <= tip => Ok(known),
        _ => Err(Error::HeightOutOfRange { height, tip }),
    }
}

pub(super) fn write_proof(height: u32, cp_height: u64, view: &dyn View, out: &mut Vec<u8>) -> Result<(), Fault> {
    let tip = view.tip_height();
    let cp = u32::try_from(cp_height).ok().filter(|cp| height <= *cp && *cp <= tip);
    let cp = cp.ok_or(Error::CheckpointOutOfRange { height: u64::from(height), cp_height, tip })?;
    let (branch, root) = view.header_proof(height, cp)?;
    out.extend_from_slice(b",\"branch\":");
    answer::hashes(&branch, out);
    out.extend_from_slice(b",\"root\":");
    answer::hash_string(&root, out);
    Ok(())
}

pub(super) fn block_header(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let (height, cp_height) = (arguments.number(0, None)?, arguments.number(1, Some(0))?);
    let view = machine.env.source.view();
    let height = known_height(height, &*view)?;
    let header = view.header(height)?.ok_or(Fault::Stale)?;
    if cp_height == 0 {
        answer::hex_string(&header, out);
        return Ok(Reply::Written);
    }
    out.extend_from_slice(b"{\"header\":");
    answer::hex_string(&header, out);
    write_proof(height, cp_height, &*view, out)?;
    write(out, "}")
}

pub(super) fn block_headers(
    machine: &mut Machine,
    arguments: &Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Reply, Fault> {
    let (start, count) = (arguments.number(0, None)?, arguments.number(1, None)?);
    let cp_height = arguments.number(2, Some(0))?;
    let view = machine.env.source.view();
    // A start above the tip is no error: there are no headers there yet.
    let headers = match u32::try_from(start) {
        Ok(start) if start <= view.tip_height() => view.headers(start, count.min(HEADERS_MAX) as u32)?,
        _ => Vec::new(),
    };
    let count = headers.len() / 80;
    out.extend_from_slice(format!("{{\"count\":{count},").as_bytes());
    if machine.version.is_some_and(|version| version >= V1_6) {
        out.extend_from_slice(b"\"headers\":[");
        for (index, header) in headers.chunks_exact(80).enumerate() {
            out.extend_from_slice(if index > 0 { b"," } else { b"" });
            answer::hex_string(header, out);
        }
        out.push(b']');
    } else {
        out.extend_from_slice(b"\"hex\":");
        answer::hex_string(&headers, out);
    }
    out.extend_from_slice(format!(",\"max\":{HEADERS_MAX}").as_bytes());
    if cp_height > 0 && count > 0 {
        write_proof((start + count as u64 - 1) as u32, cp_height, &*view, out)?;
    }
    write(out, "}")
}

/// All that Bitcoin Core's `getblockstats` says of a block on the best chain.
pub(super) fn block_stats(machine: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    let asked = arguments.number(0, None)?;
    require_ready(machine)?;
    let view = machine.env.source.view();
    let height = known_height(asked, &*view)?;
    let first = (height + 1).saturating_sub(MEDIAN_TIME_SPAN as u32);
    let bytes = view.headers(first, height - first + 1)?;
    let headers: Vec<Header> = bytes.as_chunks().0.iter().map(Header::decode).collect();
    let last = headers.last().ok_or(Fault::Stale)?;
    let mut times_s: Vec<u32> = headers.iter().map(|header| header.time_s).collect();
    let Some((block, spent)) = view.block_and_spent(height)? else { return Err(Fault::Stale) };
    let subject = StatsOf {
        height,
        hash: last.hash(),
        time_s: last.time_s,
        median_time_s: median(&mut times_s),
        subsidy_sat: subsidy_sat(height, &machine.env.config.params),
    };
    // The block read is the one whose header was: a reorganisation between the two makes the view stale.
    if block.header().hash() != subject.hash {
        return Err(Fault::Stale);
    }
    machine.tally.rows += block.txs().map(|tx| tx.input_count() as u64).sum::<u64>();
    let mut json = Json::new(out);
    json.begin_object();
    all_stats(&subject, &block, &spent).iter().for_each(|(name, value)| json.key(name).raw(value.as_bytes()));
    json.end_object();
    Ok(Reply::Written)
}
