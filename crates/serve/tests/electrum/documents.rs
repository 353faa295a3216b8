//! docs/electrum.md says what the code does.
//!
//! In:     the page, the table of methods, the default limits.
//! Out:    one test a table.
//! Fails:  with the row that is missing or wrong.

use serve::discovery::{book, shell};
use serve::electrum::limits::{Limits, PONG_DIGITS_MAX};
use serve::electrum::version::OLDEST;
use serve::shares::ShareLimits;
use serve::transport::frames::FRAMES_OF_MESSAGE_MAX;
use serve::transport::head::HEAD_BYTES_MAX;
use serve::transport::tls::HANDSHAKE_BYTES_MAX;
use serve::wallet::methods::{METHODS, Method};

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/electrum.md")).unwrap()
}

#[test]
fn the_page_lists_every_method_with_its_parameters() {
    let page = page();
    let section = page.split("## Methods").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let mut listed: Vec<(String, String, Vec<String>)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let code = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
            (code(cells[1])[0].clone(), cells[3].to_owned(), code(cells[2]))
        })
        .collect();
    let versions = |method: &Method| match (method.since == OLDEST, method.before) {
        (true, None) => "all".to_owned(),
        (true, Some(before)) => format!("before {before}"),
        (false, None) => format!("{} on", method.since),
        (false, Some(before)) => format!("{}, before {before}", method.since),
    };
    let names = |method: &Method| method.params.iter().map(|name| (*name).to_owned()).collect();
    let mut known: Vec<(String, String, Vec<String>)> =
        METHODS.iter().map(|method| (method.name.to_owned(), versions(method), names(method))).collect();
    listed.sort();
    known.sort();
    assert_eq!(listed, known);
}

#[test]
fn the_page_gives_the_default_limits() {
    let page = page();
    let limits = Limits::default();
    #[track_caller]
    fn check(page: &str, what: &str, want: u64) {
        let row = page.lines().find(|line| line.starts_with(&format!("| {what} |")));
        let row = row.unwrap_or_else(|| panic!("no row {what:?}"));
        assert_eq!(row.split('|').nth(2).unwrap().trim(), want.to_string(), "{row}");
    }
    check(&page, "sessions", limits.sessions_max as u64);
    check(&page, "bytes of a line", limits.line_bytes_max as u64);
    check(&page, "requests in a batch", limits.batch_requests_max as u64);
    check(&page, "subscriptions of a session", limits.subscriptions_session_max as u64);
    check(&page, "subscriptions of all sessions", limits.subscriptions_max as u64);
    check(&page, "bytes waiting for one client", limits.waiting_bytes_max as u64);
    check(&page, "bytes waiting for all clients", limits.waiting_bytes_shared_max as u64);
    check(&page, "seconds without a request, or an answer to a ping", limits.idle_time_max.as_secs());
    check(&page, "seconds for a balancer's header, TLS and a WebSocket to open", limits.opening_time_max.as_secs());
    check(&page, "bytes of TLS before its handshake is done", HANDSHAKE_BYTES_MAX as u64);
    check(&page, "bytes of a head of HTTP", HEAD_BYTES_MAX as u64);
    check(&page, "frames of one WebSocket message", u64::from(FRAMES_OF_MESSAGE_MAX));
    check(&page, "seconds of silence before a ping, from 1.7 on", limits.silence_time_max.as_secs());
    check(&page, "seconds for anything to come after a ping", limits.pong_time_max.as_secs());
    check(&page, "seconds to the greeting", limits.handshake_time_max.as_secs());
    check(&page, "seconds for one line", limits.line_time_max.as_secs());
    check(&page, "seconds for a client to take 64 KiB", limits.write_time_max.as_secs());
    check(&page, "seconds to compute one answer", limits.request_time_max.as_secs());
    check(&page, "lines in a row that are no requests", u64::from(limits.bad_lines_max));
    check(&page, "digits of an answer to a ping", PONG_DIGITS_MAX);
}

#[test]
fn the_page_gives_each_ones_share() {
    let page = page();
    let shares = ShareLimits::default();
    for (what, want) in [
        ("work from which answers wait", format!("{} s", shares.soft.as_secs())),
        ("work at which the session is closed", format!("{} s", shares.hard.as_secs())),
        ("work forgotten each second", format!("{} ms", shares.forgiven_ms_per_s)),
        ("sessions of one address", shares.sessions_address_max.to_string()),
    ] {
        let row = page.lines().find(|line| line.starts_with(&format!("| {what} |")));
        let row = row.unwrap_or_else(|| panic!("no row {what:?}"));
        assert_eq!(row.split('|').nth(2).unwrap().trim(), want, "{row}");
    }
}

#[test]
fn the_page_gives_the_numbers_of_discovery() {
    let page = page();
    let section = page.split("## Discovery").nth(1).unwrap();
    #[track_caller]
    fn check(section: &str, what: &str, want: impl ToString) {
        let row = section.lines().find(|line| line.starts_with(&format!("| {what}")));
        let row = row.unwrap_or_else(|| panic!("no row {what:?}"));
        assert_eq!(row.split('|').nth(2).unwrap().trim(), want.to_string(), "{row}");
    }
    check(section, "seconds for which a verified server is told of", book::FRESH_S);
    assert!(section.contains(&format!("visited again {} s earlier", book::EARLY_S)));
    check(section, "seconds after the first visit that fails", 2 * book::REST_S);
    let two = |[one, other]: [usize; 2]| format!("{one}, {other}");
    check(section, "visits in a row that may fail", two(book::TRIES_MAX.map(|tries| tries as usize)));
    check(section, "servers told of out of one /16", book::TOLD_OF_GROUP);
    check(section, "onion services told of", two([book::ONIONS_TOLD[1], book::ONIONS_TOLD[0]]));
    check(section, "seconds between two announcements", book::ANNOUNCED_S);
    check(section, "seconds between two onion services", book::ONION_ANNOUNCED_S);
    check(section, "servers known, and told of", two([book::KNOWN_MAX, book::TOLD_MAX]));
    check(section, "visits at a time", shell::VISITS_MAX);
}
