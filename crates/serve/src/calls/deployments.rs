//! Which soft forks are in force, and the one deployment that still counts signals: `testdummy` on regtest.
//!
//! In:     a block of the best chain.
//! Out:    objects with Core's members.
//! Fails:  "Block not found".
//! Source: Bitcoin Core, `src/rpc/blockchain.cpp` (`DeploymentInfo`), `src/versionbits.cpp`; BIP 9.

use chain::View;
use consensus::Flags;
use consensus::flags;
use primitives::{Header, Network};

use crate::json::Json;
use crate::rpc::call::Call;
use crate::rpc::error::{Outcome, RpcError};
use crate::rpc::located::Located;
use crate::rpc::method::{Arg, Kind, Method};

/// Flags by the names that Core prints, in its order.
const FLAG_NAMES: [(&str, Flags); 7] = [
    ("CHECKLOCKTIMEVERIFY", Flags::CLTV),
    ("CHECKSEQUENCEVERIFY", Flags::CSV),
    ("DERSIG", Flags::DERSIG),
    ("NULLDUMMY", Flags::NULLDUMMY),
    ("P2SH", Flags::P2SH),
    ("TAPROOT", Flags::TAPROOT),
    ("WITNESS", Flags::WITNESS),
];

/// The bit that `testdummy` is signalled by.
pub const TESTDUMMY_BIT: u32 = 28;
/// Blocks of one period on regtest.
const PERIOD: u32 = 144;
/// Signals in a period that lock it in.
const THRESHOLD: u32 = 108;
/// The top bits of a version that carries signals (BIP 9), and their mask.
pub const VERSION_TOP: u32 = 0x2000_0000;
const VERSION_TOP_MASK: u32 = 0xe000_0000;

/// A stage of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing is counted.
    Defined,
    /// Signals are counted.
    Started,
    /// One more period, then it is in force.
    LockedIn,
    /// In force.
    Active,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::Defined => "defined",
            Stage::Started => "started",
            Stage::LockedIn => "locked_in",
            Stage::Active => "active",
        }
    }

    /// The stage after a period with `signals`; the start lies before every block, and there is no end.
    fn next(self, signals: u32) -> Stage {
        match self {
            Stage::Defined => Stage::Started,
            Stage::Started if signals >= THRESHOLD => Stage::LockedIn,
            Stage::Started => Stage::Started,
            Stage::LockedIn | Stage::Active => Stage::Active,
        }
    }
}

fn signals(version: i32) -> bool {
    let version = version as u32;
    version & VERSION_TOP_MASK == VERSION_TOP && version >> TESTDUMMY_BIT & 1 == 1
}

/// Which blocks of the period that begins at `start` signal, up to the block at `last`.
fn signalling(view: &View, start: u32, last: u32) -> Result<Vec<bool>, RpcError> {
    let headers = view.headers(start, (last + 1).saturating_sub(start).min(PERIOD))?;
    let decode = |bytes: &[u8]| signals(Header::decode(bytes.try_into().expect("80 bytes")).version);
    Ok(headers.chunks_exact(80).map(decode).collect())
}

/// The stage of the block at `height`, and the first height of that stage.
fn stage_at(view: &View, height: u32) -> Result<(Stage, u32), RpcError> {
    let (mut stage, mut since) = (Stage::Defined, 0);
    for start in (PERIOD..=height).step_by(PERIOD as usize) {
        if stage == Stage::Active {
            break;
        }
        let before = start - PERIOD;
        let count = signalling(view, before, start - 1)?.into_iter().filter(|signal| *signal).count() as u32;
        let next = stage.next(count);
        if next != stage {
            (stage, since) = (next, start);
        }
    }
    Ok((stage, since))
}

/// The stage of the next block, where the network has the deployment.
pub fn next_stage(view: &View, network: Network) -> Result<Option<Stage>, RpcError> {
    if network != Network::Regtest {
        return Ok(None);
    }
    Ok(Some(stage_at(view, view.tip().height + 1)?.0))
}

fn write_testdummy(view: &View, height: u32, json: &mut Json<'_>) -> Outcome {
    let (stage, since) = stage_at(view, height)?;
    let period_start = height / PERIOD * PERIOD;
    let blocks = signalling(view, period_start, height)?;
    let count = blocks.iter().filter(|signal| **signal).count() as u32;
    let counted = matches!(stage, Stage::Started | Stage::LockedIn);
    // The block after this one is in the next period where this one is the last.
    let next = if (height + 1).is_multiple_of(PERIOD) { stage.next(count) } else { stage };
    let active_since = match (stage, next) {
        (Stage::Active, _) => Some(since),
        (Stage::LockedIn, _) => Some(since + PERIOD),
        _ => None,
    };
    json.key("testdummy").begin_object();
    json.key("type").text("bip9");
    if let Some(since) = active_since {
        json.key("height").number(since);
    }
    json.key("active").bool(active_since.is_some_and(|since| since <= height + 1));
    json.key("bip9").begin_object();
    if counted {
        json.key("bit").number(TESTDUMMY_BIT);
    }
    json.key("start_time").number(0);
    json.key("timeout").number(i64::MAX);
    json.key("min_activation_height").number(0);
    json.key("status").text(stage.name());
    json.key("since").number(since);
    json.key("status_next").text(next.name());
    if counted {
        let elapsed = blocks.len() as u32;
        json.key("statistics").begin_object();
        json.key("period").number(PERIOD);
        json.key("elapsed").number(elapsed);
        json.key("count").number(count);
        if stage == Stage::Started {
            json.key("threshold").number(THRESHOLD);
            json.key("possible").bool(PERIOD - THRESHOLD >= elapsed - count);
        }
        json.end_object();
        let shown: String = blocks.iter().map(|signal| if *signal { '#' } else { '-' }).collect();
        json.key("signalling").text(&shown);
    }
    json.end_object();
    json.end_object();
    Ok(())
}

fn deployment_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (params, view) = (call.chain_params(), call.view()?);
    let block =
        if call.arg(0).is_null() { Located::tip(&view)? } else { Located::of_arg(call, &view, 0, "blockhash")? };
    json.begin_object();
    json.key("hash").hash(&block.hash.0);
    json.key("height").number(block.height);
    json.key("script_flags").begin_array();
    let in_force = flags::at(block.height, &block.hash, params);
    FLAG_NAMES.iter().filter(|(_, flag)| in_force.has(*flag)).for_each(|(name, _)| json.text(name));
    json.end_array();
    json.key("deployments").begin_object();
    let buried = [
        ("bip34", params.bip34_height),
        ("bip66", params.bip66_height),
        ("bip65", params.bip65_height),
        ("csv", params.csv_height),
        ("segwit", params.segwit_height),
    ];
    for (name, height) in buried {
        json.key(name).begin_object();
        json.key("type").text("buried");
        json.key("active").bool(block.height + 1 >= height);
        json.key("height").number(height);
        json.end_object();
    }
    if params.network == Network::Regtest && block.is_active() {
        write_testdummy(&view, block.height, json)?;
    }
    json.end_object();
    json.end_object();
    Ok(())
}

/// The methods of this file.
pub const METHODS: &[Method] = &[Method {
    name: "getdeploymentinfo",
    category: "blockchain",
    args: &[Arg::hint("blockhash", Kind::Hex, "the tip", "The block that is asked about.")],
    about: "Which soft forks are in force at a block. Those in force from the genesis block on are not listed.",
    result: "object: hash, height, script_flags, deployments",
    run: deployment_info,
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_bip_9() {
        assert_eq!(Stage::Defined.next(0), Stage::Started);
        assert_eq!(Stage::Started.next(THRESHOLD - 1), Stage::Started);
        assert_eq!(Stage::Started.next(THRESHOLD), Stage::LockedIn);
        assert_eq!(Stage::LockedIn.next(0), Stage::Active);
        assert_eq!(Stage::Active.next(0), Stage::Active);
    }

    #[test]
    fn signals_need_the_top_bits() {
        assert!(signals(0x3000_0000));
        assert!(!signals(0x2000_0000));
        assert!(!signals(0x1000_0000));
        assert!(!signals(-1));
    }
}
