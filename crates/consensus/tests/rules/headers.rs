//! Real runs of headers, on four networks.
//!
//! In:     `headers/*.hdr` and the first and last header of every mainnet period.
//! Out:    every header passes; every retarget is the published one.
//! Fails:  at the first header or retarget that differs.

use consensus::HeaderError;
use consensus::header::{self, Ancestry, Work, work_of};
use primitives::{Header, Network, Params};
use stdx::hex;

use crate::support;

/// A run that begins at `start`; nothing below is known.
struct Run {
    start: u32,
    headers: Vec<Header>,
}

impl Ancestry for Run {
    fn header(&self, height: u32) -> Header {
        self.headers[(height - self.start) as usize]
    }
}

#[derive(Default, Debug, PartialEq)]
struct Seen {
    retargets: u32,
    work: Work,
}

/// Checks every header from `first` on; the clock stands at each header's own time.
#[track_caller]
fn check(name: &str, network: Network, start: u32, first: u32) -> Option<Seen> {
    let params = Params::of(network);
    let run = Run { start, headers: support::headers(name)? };
    let mut seen = Seen::default();
    for (offset, one) in run.headers.iter().enumerate() {
        let height = start + offset as u32;
        seen.work += work_of(one.bits);
        if height < first {
            continue;
        }
        let verdict = header::check(one, height, &run, u64::from(one.time_s), &params);
        assert_eq!(verdict, Ok(()), "{name} {height}");
        if height > 0 && height.is_multiple_of(params.pow_interval()) {
            seen.retargets += 1;
        }
        if height > 0 {
            assert_eq!(one.previous, run.header(height - 1).hash(), "{name} {height}");
            let wrong = Header { bits: one.bits ^ 1, ..*one };
            let verdict = header::check_contextual(&wrong, height, &run, u64::from(one.time_s), &params);
            assert_eq!(verdict, Err(HeaderError::BadBits { want: one.bits, got: one.bits ^ 1 }), "{name} {height}");
        }
    }
    Some(seen)
}

#[test]
fn real_headers_pass() {
    if let Some(seen) = check("mainnet_0_32260.hdr", Network::Main, 0, 0) {
        assert_eq!(seen.retargets, 16);
    }
    // 822,527 ends a period: the first retarget whose period is whole is 824,544.
    if let Some(seen) = check("mainnet_822527_830592.hdr", Network::Main, 822_527, 822_538) {
        assert_eq!(seen.retargets, 4);
    }
    if let Some(seen) = check("testnet3_0_35141.hdr", Network::Testnet3, 0, 0) {
        assert_eq!(seen.retargets, 17);
    }
    if let Some(seen) = check("signet_0_2015.hdr", Network::Signet, 0, 0) {
        assert_eq!(seen.retargets, 0);
    }
    check("testnet4_0_100.hdr", Network::Testnet4, 0, 0);
}

#[test]
fn easy_blocks_of_testnet3_are_the_published_number() {
    let Some(headers) = support::headers("testnet3_0_35141.hdr") else { return };
    let params = Params::of(Network::Testnet3);
    // More than twenty minutes after the parent, and not the first of a period.
    let easy = (1..headers.len()).filter(|height| {
        let late = headers[*height].time_s > headers[height - 1].time_s.saturating_add(1_200);
        late && height % 2_016 != 0 && headers[*height].bits == params.genesis.bits
    });
    assert_eq!(easy.count(), 5_264);
}

/// Headers known only at some heights.
struct Sparse(std::collections::BTreeMap<u32, Header>);

impl Ancestry for Sparse {
    fn header(&self, height: u32) -> Header {
        self.0[&height]
    }
}

#[test]
fn every_mainnet_retarget_is_the_published_one() {
    let Some(path) = support::path("headers/mainnet_retarget_pairs.csv") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| {
        let (height, header) = line.split_once(',')?;
        Some((height.parse().ok()?, Header::decode(&hex::decode_array(header.trim()).ok()?)))
    });
    let known = Sparse(rows.collect());
    let params = Params::of(Network::Main);
    let mut retargets = 0;
    for (&height, header) in known.0.iter().filter(|&(height, _)| *height > 0 && height % 2016 == 0) {
        assert_eq!(header::next_bits(height, header.time_s, &known, &params), header.bits, "{height}");
        assert_eq!(header::check_proof_of_work(&header.hash(), header.bits, &params), Ok(()), "{height}");
        retargets += 1;
    }
    assert_eq!(retargets, 413);
}
