//! Bodies of fuzz targets: anything that can come over a wire, and what must hold whatever came.
//!
//! In:     any bytes.
//! Out:    nothing.
//! Fails:  panics where a promise is broken, which is what a fuzzer looks for.

use std::sync::{Arc, OnceLock};

use primitives::{Block, Network, Params};
use serde_json::Value;

use crate::electrum::machine::{Machine, Step};
use crate::electrum::subscriptions::Mailbox;
use crate::electrum::{Config, Env};
use crate::metrics::Metrics;
use crate::plain::PlainChain;
use crate::transport::channel::{Channel, Layers};
use crate::transport::lines::Lines;
use crate::transport::room::{Room, RoomLimits};
use crate::transport::{Framing, Refusal};

fn env() -> Arc<Env> {
    static ENV: OnceLock<Arc<Env>> = OnceLock::new();
    let make = || {
        let params = Params::of(Network::Main);
        let genesis = Block::parse(params.genesis_block()).expect("a constant");
        let listen = "127.0.0.1:0".parse().expect("a constant");
        Arc::new(Env::new(Config::new(listen, params), Arc::new(PlainChain::of([genesis]))))
    };
    ENV.get_or_init(make).clone()
}

/// Bytes of a connection, before and after the greeting: every line of the answer is JSON, the session ends only for a
/// reason, and nothing is left behind.
pub fn fuzz_line(bytes: &[u8]) {
    let newest = "{\"id\":0,\"method\":\"server.version\",\"params\":[\"\",[\"1.4\",\"1.7\"]]}\n";
    for greeting in ["", "{\"id\":0,\"method\":\"server.version\"}\n", newest] {
        let env = env();
        let mut machine = Machine::new(env.clone(), Arc::new(Mailbox::default()));
        let mut lines = Lines::new(Room::new(env.metrics.clone(), env.limits.room()));
        lines.push(greeting.as_bytes());
        lines.push(bytes);
        lines.push(b"\n");
        let mut whole = Vec::new();
        while let Ok(Some(line)) = lines.next() {
            whole.push(line);
        }
        machine.take_lines(whole);
        let mut out = Vec::new();
        loop {
            let mut slice = Vec::new();
            let step = machine.advance(&mut slice);
            out.extend_from_slice(&slice);
            match step {
                Step::More => {}
                Step::Done => break,
                Step::End(_) => {
                    assert!(!out.is_empty(), "a session that ends says why");
                    break;
                }
            }
        }
        let text = String::from_utf8(out).expect("answers are UTF-8");
        assert!(text.is_empty() || text.ends_with('\n'), "answers end with a newline");
        for line in text.lines() {
            let answer: Value = serde_json::from_str(line).expect("answers are JSON");
            let all = answer.as_array().map_or(std::slice::from_ref(&answer), Vec::as_slice);
            assert!(all.iter().all(|one| one.get("id").is_some()), "every answer has an id");
        }
        drop(machine);
        assert_eq!(env.subscriptions.count(), 0, "a session takes its subscriptions with it");
    }
}

/// Everything a connection of some layers amounts to: its messages, what was refused, whether it ended, who is behind it.
type Read = (Vec<Vec<u8>>, Option<Refusal>, bool, String);

fn read(layers: &Layers, pieces: impl Iterator<Item = Vec<u8>>) -> Read {
    let limits = RoomLimits { message_bytes_max: 512, own_bytes: 256, shared_bytes_max: 1 << 20 };
    let metrics = Arc::new(Metrics::new([]));
    let room = Room::new(metrics.clone(), limits);
    let mut channel = Channel::new(layers, room).expect("without TLS there is nothing to fail");
    let (mut messages, mut refused, mut sent) = (Vec::new(), None, 0);
    for piece in pieces {
        channel.receive(&piece);
        while refused.is_none() {
            match channel.next() {
                Ok(Some(message)) => {
                    assert!(message.len() <= limits.message_bytes_max, "a message within its limit");
                    messages.push(message);
                }
                Ok(None) => break,
                Err(why) => refused = Some(why),
            }
        }
        sent += channel.seal(b"", false).len();
    }
    for _ in &messages {
        sent += channel.seal(b"{}\n", true).len();
    }
    sent += channel.farewell().len();
    assert!(sent < 1_000 + 400 * (messages.len() + 1), "nobody is answered more than he said");
    let told = (messages, refused, channel.is_closed(), format!("{:?}", channel.behind()));
    drop(channel);
    assert_eq!(metrics.line_bytes_now.get(), 0, "what was held is given back");
    told
}

/// Bytes of a connection before and within every framing, behind a balancer or not: however they are cut, the same messages
/// come out and the same is refused.
pub fn fuzz_channel(bytes: &[u8]) {
    for framing in [Framing::Lines, Framing::WebSocket, Framing::Http] {
        for behind_balancer in [false, true] {
            let layers = Layers { behind_balancer, tls: None, framing };
            let whole = read(&layers, std::iter::once(bytes.to_vec()));
            for cut in [1, 7] {
                let parts = read(&layers, bytes.chunks(cut).map(<[u8]>::to_vec));
                assert_eq!(whole, parts, "{framing:?}, cut every {cut}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Random;

    #[test]
    fn mutated_connections_are_read_the_same_however_they_are_cut() {
        let upgrade = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
        let frames =
            [&[0x01, 0x82, 0, 0, 0, 0][..], b"{\"", &[0x89, 0x80, 0, 0, 0, 0, 0x80, 0x81, 1, 0, 0, 0, 0x7c]].concat();
        let close = [0x88, 0x82, 0, 0, 0, 0, 3, 0xe8];
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        let proxy = [&crate::transport::proxy::SIGNATURE[..], &[0x21, 0x11, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 2]]
            .concat();
        let seeds: [Vec<u8>; 6] = [
            [upgrade.as_bytes(), &frames, &frames, &close].concat(),
            [&proxy[..], upgrade.as_bytes(), &frames].concat(),
            [post, post].concat().into_bytes(),
            [&proxy[..], post.as_bytes()].concat(),
            b"{\"id\":1}\n[]\r\n\n".to_vec(),
            [&proxy[..], b"{}\n", &[b' '; 600][..], b"\n"].concat(),
        ];
        let mut random = Random::new(11);
        for round in 0..4_000 {
            let mut bytes = seeds[round % seeds.len()].clone();
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(4) {
                    0 => bytes[at] = random.next_u64() as u8,
                    1 => bytes.truncate(at + 1),
                    2 => bytes.insert(at, b"\r\n: 0,\x81\x89\xfe"[random.below(9) as usize]),
                    _ => drop(bytes.remove(at)),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            fuzz_channel(&bytes);
        }
    }

    /// Requests to begin from; mutations of them reach deeper than random bytes.
    const SEEDS: [&str; 14] = [
        r#"{"jsonrpc":"2.0","id":1,"method":"blockchain.block.headers","params":[0,2016,0]}"#,
        r#"{"id":"x","method":"blockchain.block.header","params":{"height":0,"cp_height":0}}"#,
        r#"[{"id":1,"method":"server.ping"},{"id":2,"method":"server.features"},{"method":"server.ping"}]"#,
        r#"{"id":1,"method":"blockchain.scripthash.subscribe","params":["8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161"]}"#,
        r#"{"id":1,"method":"blockchain.scripthash.get_history","params":["8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161"]}"#,
        r#"{"id":1,"method":"blockchain.transaction.get","params":["4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b",true]}"#,
        r#"{"id":1,"method":"blockchain.transaction.broadcast","params":["010000000001"]}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"server.version","params":["a",["1.4","1.6"]]}"#,
        r#"{"id":1,"method":"blockchain.outpoint.subscribe","params":["4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b",0,"51"]}"#,
        r#"{"id":1,"method":"blockchain.transaction.testmempoolaccept","params":[["00","0100"]]}"#,
        r#"{"id":1,"method":"blockchain.address.get_history","params":["1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",0,-1]}"#,
        r#"{"id":1,"method":"server.ping","params":{"pong_len":7,"data":"abc"}}"#,
        r#"{"id":1,"method":"blockchain.scriptpubkey.subscribe","params":["51"]}"#,
        r#"{"id":1,"method":"blockchain.transaction.subscribe","params":["4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b"]}"#,
    ];

    #[test]
    fn mutated_requests_keep_every_promise() {
        let mut random = Random::new(7);
        for _ in 0..6_000 {
            let mut bytes = SEEDS[random.below(SEEDS.len() as u64) as usize].as_bytes().to_vec();
            for _ in 0..random.below(6) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(5) {
                    0 => bytes[at] = random.next_u64() as u8,
                    1 => bytes.truncate(at + 1),
                    2 => bytes.insert(at, b"[]{}\",:0-.e\n\\"[random.below(13) as usize]),
                    3 => drop(bytes.remove(at)),
                    _ => {
                        let other = SEEDS[random.below(SEEDS.len() as u64) as usize].as_bytes();
                        let from = random.below(other.len() as u64) as usize;
                        bytes.splice(at.., other[from..].iter().copied());
                    }
                }
                if bytes.is_empty() {
                    break;
                }
            }
            fuzz_line(&bytes);
        }
    }
}
