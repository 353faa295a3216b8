//! What a subscription costs in memory, alone in its process so that nothing else is counted.
//!
//! In:     a million subscriptions of ten sessions.
//! Out:    less than 150 bytes each, and all of it given back.
//! Fails:  with the bytes.

use std::sync::Arc;

use primitives::{Block, Network, Params};
use serve::electrum::machine::{Machine, Step};
use serve::electrum::subscriptions::Mailbox;
use serve::electrum::{Config, Env};
use serve::plain::PlainChain;

/// Bytes of this process in memory.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    4096 * text.split(' ').nth(1).expect("the second number").parse::<u64>().expect("a number")
}

fn say(machine: &mut Machine, line: String) -> usize {
    machine.take_lines(vec![line.into_bytes()]);
    let mut out = Vec::new();
    while machine.advance(&mut out) == Step::More {}
    out.windows(13).filter(|window| window == b"\"result\":null").count()
}

#[test]
fn a_subscription_takes_less_than_150_bytes() {
    const SESSIONS: u64 = 10;
    const EACH: u64 = 100_000;
    let params = Params::of(Network::Main);
    let mut config = Config::new("127.0.0.1:0".parse().unwrap(), params.clone());
    config.limits.subscriptions_max = 2_000_000;
    let chain = PlainChain::of([Block::parse(params.genesis_block()).unwrap()]);
    let env = Arc::new(Env::new(config, Arc::new(chain)));
    let greeted = |_| {
        let mut machine = Machine::new(env.clone(), Arc::new(Mailbox::default()));
        say(&mut machine, r#"{"id":0,"method":"server.version","params":["memory","1.4"]}"#.to_owned());
        machine
    };
    let mut machines: Vec<Machine> = (0..SESSIONS).map(greeted).collect();
    let before = resident_bytes();
    for (session, machine) in (0u64..).zip(&mut machines) {
        for batch in 0..EACH / 500 {
            let one = |n: u64| {
                let script = session * EACH + batch * 500 + n;
                format!(r#"{{"id":1,"method":"blockchain.scripthash.subscribe","params":["{script:064x}"]}}"#)
            };
            let requests: Vec<String> = (0..500).map(one).collect();
            assert_eq!(say(machine, format!("[{}]", requests.join(","))), 500);
        }
    }
    let each = (resident_bytes() - before) / (SESSIONS * EACH);
    println!("{each} bytes a subscription");
    assert_eq!(env.subscriptions.count() as u64, SESSIONS * EACH);
    assert!(each < 150, "{each} bytes");
    drop(machines);
    assert_eq!(env.subscriptions.count(), 0);
}
