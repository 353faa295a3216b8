//! Rules about headers.
//!
//! In:     made-up chains of headers.
//! Out:    verdicts and targets on both sides of every bound.
//! Fails:  where one differs.

use consensus::HeaderError;
use consensus::header::{self, Ancestry, check_contextual, check_proof_of_work, median_time_past, next_bits};
use primitives::{BlockHash, Header, Network, Params};

use super::Broken;

/// Genesis copied: `count` headers ten minutes apart, all of `bits`.
fn chain(params: &Params, count: u32, bits: u32) -> Vec<Header> {
    (0..count).map(|n| Header { time_s: 1_000_000_000 + 600 * n, bits, ..params.genesis }).collect()
}

pub fn table(broken: &mut Broken) {
    proof_of_work(broken);
    times(broken);
    time_warps(broken);
    versions(broken);
    let params = Params::of(Network::Main);
    let headers = chain(&params, 100, 0x1d00_ffff);
    for (bits, want) in [(0x1d00_ffff, ""), (0x1d00_fffe, "BadBits"), (0x1c00_ffff, "BadBits")] {
        let one = Header { bits, version: 4, time_s: headers[99].time_s + 600, ..params.genesis };
        let got = check_contextual(&one, 100, &headers, u64::from(one.time_s), &params);
        broken.note("bits", got.err().map(|error| error.rule()), want);
    }
}

fn proof_of_work(broken: &mut Broken) {
    let mut check = |network, bits, hash: [u8; 32], want: &str| {
        let got = check_proof_of_work(&BlockHash(hash), bits, &Params::of(network));
        broken.note(&format!("{network} {bits:08x}"), got.err().map(|error| error.rule()), want);
    };
    // The hash is a little-endian number: the target of 0x1d00ffff is 0xffff at bytes 26 and 27.
    let mut at_target = [0; 32];
    at_target[26..28].fill(0xff);
    let mut above = at_target;
    above[0] = 1;
    check(Network::Main, 0x1d00_ffff, at_target, "");
    check(Network::Main, 0x1d00_ffff, above, "HighHash");
    check(Network::Main, 0x1d00_fffe, at_target, "HighHash");
    for bits in [0, 0x0100_3456, 0x1d80_ffff, 0x2300_ffff, 0x1d01_0000, 0x207f_ffff] {
        check(Network::Main, bits, [0; 32], "HighHash");
    }
    check(Network::Regtest, 0x207f_ffff, [0; 32], "");
    check(Network::Regtest, 0x2100_8000, [0; 32], "HighHash");
    check(Network::Signet, 0x1e03_77ae, [0; 32], "");
    check(Network::Signet, 0x1e03_77af, [0; 32], "HighHash");
}

fn times(broken: &mut Broken) {
    let params = Params::of(Network::Main);
    let mut headers = chain(&params, 100, 0x1d00_ffff);
    // The last eleven times in a mess: their median is the sixth.
    let mess = [5u32, 900, 3, 70, 1, 80, 2, 60, 1_000, 4, 90];
    for (header, late_s) in headers[89..].iter_mut().zip(mess) {
        header.time_s = 2_000_000_000 + late_s;
    }
    let median_s = 2_000_000_060;
    assert_eq!(median_time_past(99, &headers), median_s);
    let mut check = |time_s: u32, now_s: u64, want: &str| {
        let one = Header { version: 4, time_s, ..params.genesis };
        let got = check_contextual(&one, 100, &headers, now_s, &params);
        broken.note(&format!("time {time_s} now {now_s}"), got.err().map(|error| error.rule()), want);
    };
    let now_s = u64::from(median_s);
    check(median_s, now_s, "TimeTooOld");
    check(median_s + 1, now_s, "");
    check(median_s + 7_200, now_s, "");
    check(median_s + 7_201, now_s, "TimeTooNew");
    check(u32::MAX, u64::MAX, "");
    check(0, 0, "TimeTooOld");
    // Fewer than eleven headers: the later middle of an even number.
    let few = chain(&params, 5, 0x1d00_ffff);
    for (height, want) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2)] {
        assert_eq!(median_time_past(height, &few), few[want].time_s, "{height}");
    }
}

fn time_warps(broken: &mut Broken) {
    let mut check = |network, height: u32, early_s: u32, want: &str| {
        let params = Params::of(network);
        let mut headers = chain(&params, height, params.genesis.bits);
        // A parent far ahead of the median, as an attacker would make it.
        let parent_s = headers[height as usize - 2].time_s + 7_000;
        headers[height as usize - 1].time_s = parent_s;
        let time_s = parent_s - early_s;
        let bits = next_bits(height, time_s, &headers, &params);
        let one = Header { version: 4, time_s, bits, ..params.genesis };
        let got = check_contextual(&one, height, &headers, u64::from(parent_s), &params);
        broken.note(&format!("{network} {height} {early_s} s early"), got.err().map(|error| error.rule()), want);
    };
    check(Network::Testnet4, 2_016, 600, "");
    check(Network::Testnet4, 2_016, 601, "TimeWarp");
    check(Network::Testnet4, 2_017, 601, "");
    check(Network::Testnet3, 2_016, 601, "");
    check(Network::Main, 2_016, 601, "");
}

fn versions(broken: &mut Broken) {
    let params = Params { bip34_height: 10, bip66_height: 20, bip65_height: 30, ..Params::of(Network::Main) };
    let headers = chain(&params, 100, 0x1d00_ffff);
    let mut check = |height: u32, version: i32, want: &str| {
        let one = Header { version, time_s: headers[height as usize].time_s, ..params.genesis };
        let got = check_contextual(&one, height, &headers, u64::from(one.time_s), &params);
        broken.note(&format!("version {version} at {height}"), got.err().map(|error| error.rule()), want);
    };
    for (height, least) in [(10, 2), (19, 2), (20, 3), (29, 3), (30, 4), (99, 4)] {
        check(height, least - 1, "BadVersion");
        check(height, i32::MIN, "BadVersion");
        check(height, least, "");
        check(height, i32::MAX, "");
    }
    check(9, i32::MIN, "");
}

#[test]
fn first_rules_broken_are_those_of_core() {
    // Everything is wrong at once; each repair shows the next rule in `ContextualCheckBlockHeader`.
    let params = Params::of(Network::Testnet4);
    let mut headers = chain(&params, 2_016, 0x1d00_ffff);
    headers[2_015].time_s += 1_000_000;
    let wrong = Header { version: 1, time_s: 0, bits: 0x1d00_fffe, ..params.genesis };
    let check =
        |one: &Header, now_s| header::check_contextual(one, 2_016, &headers, now_s, &params).unwrap_err().rule();
    assert_eq!(header::check(&wrong, 2_016, &headers, 0, &params).unwrap_err().rule(), "HighHash");
    assert_eq!(check(&wrong, 0), "BadBits");
    let bits = next_bits(2_016, 0, &headers, &params);
    assert_eq!(check(&Header { bits, ..wrong }, 0), "TimeTooOld");
    let time_s = headers[2_014].time_s;
    assert_eq!(check(&Header { bits, time_s, ..wrong }, 0), "TimeWarp");
    let time_s = headers[2_015].time_s;
    assert_eq!(check(&Header { bits, time_s, ..wrong }, 0), "TimeTooNew");
    assert_eq!(check(&Header { bits, time_s, ..wrong }, u64::from(time_s)), "BadVersion");
}

#[test]
fn targets_follow_the_rules_of_each_network() {
    #[track_caller]
    fn check(network: Network, headers: &[Header], time_s: u32, want: u32) {
        let headers = headers.to_vec();
        let got = next_bits(headers.len() as u32, time_s, &headers, &Params::of(network));
        assert_eq!(got, want, "{network} {}: {got:08x} {want:08x}", headers.len());
    }
    let (easy, hard) = (0x1d00_ffff, 0x1c0f_fff0);
    let of = |network, count, bits| chain(&Params::of(network), count, bits);
    // Within a period mainnet keeps the target however long it takes.
    check(Network::Main, &of(Network::Main, 100, hard), u32::MAX, hard);
    // Test networks: easy after more than twenty minutes, else the last that was not easy, not beyond the period.
    for network in [Network::Testnet3, Network::Testnet4] {
        let mut headers = of(network, 2_020, hard);
        let late = |headers: &[Header], by_s| headers.last().unwrap().time_s + by_s;
        check(network, &headers, late(&headers, 1_200), hard);
        check(network, &headers, late(&headers, 1_201), easy);
        headers[2_017..].iter_mut().for_each(|header| header.bits = easy);
        check(network, &headers, late(&headers, 1_200), hard);
        headers[2_016].bits = easy;
        check(network, &headers, late(&headers, 1_200), easy);
        let first: Vec<Header> = of(network, 10, easy);
        check(network, &first, late(&first, 1), easy);
    }
    // A retarget: two weeks less ten minutes, four times as fast at most, four times as slow at most, the limit.
    let mut headers = of(Network::Main, 2_016, hard);
    check(Network::Main, &headers, 0, 0x1c0f_fde7); // 0xffff0 * 2015 / 2016
    headers[2_015].time_s = headers[0].time_s + 302_399;
    check(Network::Main, &headers, 0, 0x1c03_fffc);
    headers[2_015].time_s = headers[0].time_s - 1;
    check(Network::Main, &headers, 0, 0x1c03_fffc);
    headers[2_015].time_s = headers[0].time_s + 1_209_600;
    check(Network::Main, &headers, 0, hard);
    headers[2_015].time_s = headers[0].time_s + 4 * 1_209_600 + 1;
    check(Network::Main, &headers, 0, 0x1c3f_ffc0);
    headers[2_015].bits = 0x1c7f_ff80;
    check(Network::Main, &headers, 0, easy);
    // BIP 94: the period's first target counts, where mainnet and testnet3 take the last one's.
    let mut headers = of(Network::Testnet4, 2_016, hard);
    headers[2_015] = Header { bits: easy, time_s: headers[0].time_s + 1_209_600, ..headers[2_015] };
    check(Network::Testnet4, &headers, 0, hard);
    check(Network::Testnet3, &headers, 0, easy);
    // Regtest never changes at a period's end, which is every 144 blocks there.
    check(Network::Regtest, &of(Network::Regtest, 144, 0x207f_ffff), u32::MAX, 0x207f_ffff);
    check(Network::Regtest, &of(Network::Regtest, 144, 0x1d00_ffff), u32::MAX, 0x1d00_ffff);
}

#[test]
fn ancestry_is_asked_only_for_what_lies_below() {
    struct Below(u32, Vec<Header>);
    impl Ancestry for Below {
        fn header(&self, height: u32) -> Header {
            assert!(height < self.0, "asked for {height}");
            self.1[height as usize]
        }
    }
    for network in Network::ALL {
        let params = Params::of(network);
        let headers = chain(&params, 2_100, params.genesis.bits);
        for height in (0..30).chain(140..150).chain(2_010..2_020) {
            let one = headers[height as usize];
            let got = check_contextual(&one, height, &Below(height, headers.clone()), u64::MAX, &params);
            let version = matches!(got, Ok(()) | Err(HeaderError::BadVersion { .. } | HeaderError::BadBits { .. }));
            assert!(version, "{network} {height} {got:?}");
        }
    }
}
