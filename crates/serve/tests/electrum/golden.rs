//! Recorded requests and answers over a chain without a mempool; those of every method in every version are recorded where
//! there is one (`it`, tests/electrum).
//!
//! In:     `tests/data/golden.txt`: lines that begin with `>` are sent, lines that begin with `<` must come back.
//! Out:    one test; with `ASSAY_BLESS=1` in the environment the answers are recorded anew, for a person to read.
//! Fails:  with the first answer that differs.

use std::sync::Arc;

use primitives::{Network, Params};
use serve::discovery::server::Server;
use serve::electrum::machine::{Machine, Step};
use serve::electrum::subscriptions::Mailbox;
use serve::electrum::{Config, Env};

use crate::chain::sample;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/golden.txt");

#[test]
fn answers_are_as_recorded() {
    let mut config = Config::new("127.0.0.1:0".parse().unwrap(), Params::of(Network::Main));
    config.server_name = "ElectrumX-compatible/Assay 0.0.0".into();
    config.banner = "A \"banner\"".into();
    config.donation_address = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa".into();
    let services = "tcp://electrum.example.org:50001 ssl://electrum.example.org:50002 ws://electrum.example.org:50003 \
        wss://electrum.example.org:50004 tcp://[2a00::1]:50001";
    config.public_hosts = Server::of_settings(services, [None; 4]).unwrap();
    let env = Arc::new(Env::new(config, Arc::new(sample())));
    let mut machine = Machine::new(env.clone(), Arc::new(Mailbox::default()));

    let recorded = std::fs::read_to_string(PATH).unwrap();
    let mut text = String::new();
    for line in recorded.lines().filter(|line| !line.starts_with('<')) {
        text.push_str(line);
        text.push('\n');
        let Some(request) = line.strip_prefix("> ") else { continue };
        machine.take_lines(vec![request.as_bytes().to_vec()]);
        let mut out = Vec::new();
        while machine.advance(&mut out) == Step::More {}
        for answer in String::from_utf8(out).unwrap().lines() {
            text.push_str(&format!("< {answer}\n"));
        }
    }
    if std::env::var_os("ASSAY_BLESS").is_some() {
        std::fs::write(PATH, &text).unwrap();
    }
    for (row, (got, want)) in text.lines().zip(recorded.lines()).enumerate() {
        assert_eq!(got, want, "tests/data/golden.txt:{}", row + 1);
    }
    assert_eq!(text.lines().count(), recorded.lines().count());
}
