//! Strangers that mean harm: each costs himself his connection and us nothing, neither the tip nor the next one's answer.
//!
//! What is here is what comes over a socket, said to a node at work. Beside it stand, without sockets: `wire/limit_tests.rs`
//! (every list at both sides of its limit), `transport/tests.rs` (garbage, packets, frames), `peer/tests.rs` (floods, silence,
//! slow readers, addresses), `sync` (stalling, chains without work), `trials/network_tests.rs` (liars among honest nodes),
//! `hub/stranger_tests.rs` (transactions), `addresses` (a book filled by one attacker, the list of the discouraged).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use net::Message;
use net::shell::Shell;
use net::transport::{Received, Transport};
use net::wire::{
    BlockBytes, BlockTxs, Command, CompactBlock, Endpoint, Host, Inventory, InventoryKind, LocatorRequest, PeerAddress,
    PrefilledTx, SendCompact, Services, TxList,
};
use primitives::{Block, BlockHash, Header};

use super::line::Line;
use super::shells::{height, is_closed, judge, mined, params, quiet, ready, say_hello, start, wait};

/// Blocks of the node's chain.
const BLOCKS: u32 = 5;

/// One stranger's side of a connection.
struct Stranger {
    stream: TcpStream,
    transport: Transport,
    heard: Vec<(Command, Vec<u8>)>,
}

impl Stranger {
    fn new(shell: &Shell<Line>) -> Stranger {
        let mut stream = TcpStream::connect(shell.listening()[0]).unwrap();
        say_hello(&mut stream);
        Stranger { stream, transport: Transport::plain(params().magic), heard: Vec::new() }
    }

    /// Says it; a connection that is closed meanwhile is no failure.
    fn say(&mut self, message: &Message) {
        let mut bytes = Vec::new();
        Transport::plain(params().magic).send(message, &mut bytes);
        let _ = self.stream.write_all(&bytes);
    }

    fn say_any(&mut self, command: Command, payload: &[u8]) {
        let mut bytes = Vec::new();
        Transport::plain(params().magic).send_any(command, payload, &mut bytes);
        let _ = self.stream.write_all(&bytes);
    }

    /// Reads until this message comes; false where the connection ends before.
    fn hears(&mut self, wanted: impl Fn(Command, &[u8]) -> bool) -> bool {
        let mut buffer = vec![0; 65_536];
        loop {
            if let Some(at) = self.heard.iter().position(|(command, payload)| wanted(*command, payload)) {
                self.heard.drain(..=at);
                return true;
            }
            let Ok(count) = self.stream.read(&mut buffer) else { return false };
            let mut received = Vec::new();
            self.transport.receive(&buffer[..count], &mut Vec::new(), &mut received).unwrap();
            self.heard.extend(received.into_iter().filter_map(|frame| match frame {
                Received::Frame { command, payload, .. } => Some((command, payload)),
                Received::Dropped { .. } => None,
            }));
            if count == 0 {
                return false;
            }
        }
    }

    /// True where a ping is answered.
    fn is_heard(&mut self, nonce: u64) -> bool {
        self.say(&Message::Ping(Some(nonce)));
        self.hears(|command, payload| command == Command::PONG && payload == nonce.to_le_bytes())
    }
}

/// A header on this one whose work is right, or is not.
fn header_on(previous: BlockHash, time_s: u32, has_work: bool) -> Header {
    let bits = params().genesis.bits;
    let mut header = Header { version: 4, previous, merkle_root: [7; 32], time_s, bits, nonce: 0 };
    let proves = |header: &Header| consensus::header::check_proof_of_work(&header.hash(), bits, &params()).is_ok();
    while proves(&header) != has_work {
        header.nonce += 1;
    }
    header
}

fn run_on(previous: BlockHash, count: usize) -> Vec<Header> {
    let mut run: Vec<Header> = Vec::new();
    for n in 0..count {
        let previous = run.last().map_or(previous, |last| last.hash());
        run.push(header_on(previous, 1_700_000_000 + n as u32, true));
    }
    run
}

/// A list whose count is true, of entries of zeros.
fn list(count: u16, entry_bytes: usize) -> Vec<u8> {
    let mut payload = vec![0xfd];
    payload.extend(count.to_le_bytes());
    payload.resize(3 + usize::from(count) * entry_bytes, 0);
    payload
}

fn tip(shell: &Shell<Line>) -> BlockHash {
    use net::hub::Chain;
    shell.with_hub(|hub| hub.chain().best_header().hash)
}

/// What a stranger says after the handshake, and whether that is the end of his connection.
#[track_caller]
fn check(shell: &Shell<Line>, what: &str, ends: bool, act: impl FnOnce(&mut Stranger)) {
    let (before, mut stranger) = (tip(shell), Stranger::new(shell));
    assert!(stranger.is_heard(1), "{what}: the handshake");
    act(&mut stranger);
    let ended = match ends {
        true => is_closed(&mut stranger.stream),
        false => !stranger.is_heard(2),
    };
    assert_eq!(ended, ends, "{what}");
    judge(shell);
    assert_eq!((height(shell), tip(shell)), (BLOCKS, before), "{what}: the chain is what it was");
    assert!(Stranger::new(shell).is_heard(3), "{what}: the next one is served");
}

#[test]
fn frames_that_are_none_end_the_connection() {
    let shell = start(quiet(), mined(BLOCKS));
    let raw = |stranger: &mut Stranger, bytes: &[u8]| {
        let _ = stranger.stream.write_all(bytes);
    };
    let frame = |length: u32, checksum: [u8; 4]| {
        let mut bytes = params().magic.to_vec();
        bytes.extend(b"ping\0\0\0\0\0\0\0\0");
        bytes.extend(length.to_le_bytes());
        bytes.extend(checksum);
        bytes
    };
    check(&shell, "a magic of another network", true, |one| raw(one, &[0xf9; 24]));
    check(&shell, "a length of 32 MB", true, |one| raw(one, &frame(32 << 20, [0; 4])));
    check(&shell, "a length one above the limit", true, |one| raw(one, &frame(4_000_001, [0; 4])));
    check(&shell, "a wrong checksum", false, |one| raw(one, &[&frame(8, [0; 4])[..], &[0; 8]].concat()));
    check(&shell, "a message nobody knows", false, |one| one.say_any(Command::from_name("hello").unwrap(), &[9; 99]));
    check(&shell, "the handshake again", false, |one| say_hello(&mut one.stream));
    check(&shell, "what is negotiated before verack only", true, |one| one.say(&Message::WtxidRelay));
    // An encrypted handshake whose garbage does not end: what can neither be a frame nor a key and its terminator.
    let mut endless = TcpStream::connect(shell.listening()[0]).unwrap();
    endless.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let _ = endless.write_all(&[0x5a; 64 + 4_095 + 16]);
    assert!(is_closed(&mut endless));
    wait(&[], "nobody is left", || ready(&shell).is_empty());
    shell.stop().unwrap();
}

#[test]
fn lists_beyond_their_limits_end_the_connection() {
    let shell = start(quiet(), mined(BLOCKS));
    for (command, entry_bytes, count) in [
        (Command::INV, 36, 50_001),
        (Command::GETDATA, 36, 50_001),
        (Command::NOTFOUND, 36, 50_001),
        (Command::ADDR, 30, 1_001),
        (Command::HEADERS, 81, 2_001),
    ] {
        check(&shell, command.name(), true, |one| one.say_any(command, &list(count, entry_bytes)));
    }
    let unknown = |count: usize, kind| {
        let hash = |n: usize| std::array::from_fn(|at| (n >> (8 * (at % 4))) as u8);
        Message::Inv((0..count).map(|n| Inventory { kind, hash: hash(n) }).collect())
    };
    check(&shell, "50,000 names of transactions, ten times", false, |one| {
        (0..10).for_each(|_| one.say(&unknown(50_000, InventoryKind::Tx)));
    });
    check(&shell, "50,000 names of blocks", false, |one| one.say(&unknown(50_000, InventoryKind::Block)));
    let locator =
        |count| LocatorRequest { protocol: 70_016, locator: vec![BlockHash([1; 32]); count], stop: tip(&shell) };
    check(&shell, "a locator of 101 hashes", false, |one| one.say(&Message::GetHeaders(locator(101))));
    check(&shell, "a locator of 102 hashes", true, |one| one.say(&Message::GetHeaders(locator(102))));
    check(&shell, "a locator of 102 hashes", true, |one| one.say(&Message::GetBlocks(locator(102))));
    shell.stop().unwrap();
}

#[test]
fn headers_that_break_a_rule_end_the_connection() {
    let shell = start(quiet(), mined(BLOCKS));
    let best = tip(&shell);
    let mut torn = run_on(best, 3);
    torn.remove(1);
    check(&shell, "headers that do not follow each other", true, |one| one.say(&Message::Headers(torn.clone())));
    let lazy = vec![header_on(best, 1_700_000_000, false)];
    check(&shell, "headers without work", true, |one| one.say(&Message::Headers(lazy)));
    let far = run_on(BlockHash([9; 32]), 3);
    check(&shell, "headers that follow nothing we know, a hundred times", false, |one| {
        (0..100).for_each(|_| one.say(&Message::Headers(far.clone())));
    });
    // A fork from the beginning that is not taken, and is told again and again.
    let fork = run_on(params().genesis_hash, 100);
    check(&shell, "a fork, fifty times", false, |one| {
        (0..50).for_each(|_| one.say(&Message::Headers(fork.clone())));
    });
    shell.stop().unwrap();
}

#[test]
fn compact_blocks_that_are_none_end_the_connection_and_a_second_answer_is_nothing() {
    let shell = start(quiet(), mined(BLOCKS));
    let compact = |has_work: bool, prefilled: Vec<PrefilledTx>, short_ids: Vec<u64>| {
        let header = header_on(tip(&shell), 1_700_000_000, has_work);
        Message::CompactBlock(CompactBlock { header, nonce: 1, short_ids, prefilled })
    };
    check(&shell, "a compact block without work", true, |one| one.say(&compact(false, vec![], vec![1])));
    let unknown = BlockTxs { block: BlockHash([3; 32]), txs: TxList::of([]) };
    check(&shell, "transactions of a block nobody asked for", false, |one| {
        (0..3).for_each(|_| one.say(&Message::BlockTxs(unknown.clone())));
    });
    // Its header becomes the best we know: from here on the tip is what it was, and the best header is not.
    let coinbase = Block::parse(params().genesis_block()).unwrap().tx(0).raw().to_vec();
    let mut one = Stranger::new(&shell);
    assert!(one.is_heard(1));
    let block = header_on(tip(&shell), 1_700_000_000, true).hash();
    one.say(&Message::SendCompact(SendCompact { announce: false, version: 2 }));
    let told = compact(true, vec![PrefilledTx { index: 0, tx: coinbase.clone() }], vec![77, 78]);
    one.say(&told);
    assert!(one.hears(|command, _| command == Command::GETDATA), "nobody asked for it: it is an announcement");
    one.say(&told);
    assert!(one.hears(|command, _| command == Command::GETBLOCKTXN), "what is missing is asked for");
    let answer = |txs: &[&[u8]], block| Message::BlockTxs(BlockTxs { block, txs: TxList::of(txs.iter().copied()) });
    // The right number and the wrong transactions: the block is asked for whole. Then the same again (CVE-2024-35202).
    one.say(&answer(&[&coinbase, &coinbase], block));
    assert!(one.hears(|command, _| command == Command::GETDATA), "the whole block is asked for");
    assert!(one.is_heard(2), "and nobody is blamed for what may be chance");
    one.say(&answer(&[&coinbase, &coinbase], block));
    assert!(is_closed(&mut one.stream), "once");
    assert_eq!(height(&shell), BLOCKS);
    // A wrong number of transactions is nobody's chance.
    let shell = start(quiet(), mined(BLOCKS));
    let mut one = Stranger::new(&shell);
    let header = header_on(tip(&shell), 1_700_000_000, true);
    let prefilled = vec![PrefilledTx { index: 0, tx: coinbase.clone() }];
    let told = Message::CompactBlock(CompactBlock { header, nonce: 1, short_ids: vec![77, 78], prefilled });
    one.say(&Message::SendCompact(SendCompact { announce: false, version: 2 }));
    one.say(&told);
    assert!(one.hears(|command, _| command == Command::GETDATA));
    one.say(&told);
    assert!(one.hears(|command, _| command == Command::GETBLOCKTXN));
    one.say(&answer(&[&coinbase], header.hash()));
    assert!(is_closed(&mut one.stream));
    assert!(Stranger::new(&shell).is_heard(3));
    shell.stop().unwrap();
}

#[test]
fn questions_without_reading_the_answers_cost_no_memory() {
    let shell = start(quiet(), mined(BLOCKS));
    let known = tip(&shell);
    let ask = |kind| Message::GetData(vec![Inventory { kind, hash: known.0 }; 50_000]);
    let mut greedy = Stranger::new(&shell);
    assert!(greedy.is_heard(1));
    greedy.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    // Fifty thousand blocks, and as many again, and again: what is not read is neither written nor listened to.
    (0..3).for_each(|_| greedy.say(&ask(InventoryKind::WitnessBlock)));
    wait(&[], "it is answered for a while", || shell.totals().sent_bytes > 100_000);
    for _ in 0..20 {
        let waiting = shell.with_hub(|hub| hub.peers().map(|peer| peer.output().len()).max());
        assert!(waiting.is_none_or(|bytes| bytes < net::peer::SEND_PAUSE_BYTES + 10_000), "{waiting:?} bytes wait");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Stranger::new(&shell).is_heard(3), "the next one is served meanwhile");
    drop(greedy);
    check(&shell, "a kind nobody knows, fifty thousand times", false, |one| {
        one.say(&ask(InventoryKind::from_number(0x1234)));
    });
    let indexes = |index: u16| {
        let request = net::wire::BlockTxsRequest { block: known, indexes: vec![index] };
        Message::GetBlockTxs(request)
    };
    check(&shell, "a transaction of a block that it has", false, |one| one.say(&indexes(0)));
    check(&shell, "a transaction of a block that it does not have", true, |one| one.say(&indexes(1)));
    shell.stop().unwrap();
}

#[test]
fn times_and_addresses_are_taken_for_what_they_are() {
    let shell = start(quiet(), mined(BLOCKS));
    // A clock at either end of time (CVE-2024-52912) moves nothing of ours.
    let strangers: Vec<TcpStream> = [i64::MIN, -1, 0, i64::MAX, i64::MAX - 1, i64::MIN + 1]
        .into_iter()
        .map(|time_s| {
            let mut stream = TcpStream::connect(shell.listening()[0]).unwrap();
            let mut random = stdx::random::Random::new(3);
            let local = net::peer::Local::new(params().magic, &mut random);
            let now = net::Moment { monotonic: Duration::ZERO, unix_s: 1 };
            let kind = net::peer::ConnectionKind::OutboundFull;
            let mut version = local.version(kind, Endpoint::NONE, 9, now);
            version.time_s = time_s;
            let (mut bytes, mut transport) = (Vec::new(), Transport::plain(params().magic));
            transport.send(&Message::Version(version), &mut bytes);
            transport.send(&Message::Verack, &mut bytes);
            stream.write_all(&bytes).unwrap();
            stream
        })
        .collect();
    wait(&[], "all are connected", || ready(&shell).len() == strangers.len());
    assert_eq!(shell.node().time_offset_s, 0, "who connected to us has no say");
    drop(strangers);
    // A thousand addresses in a message: one is taken, the rest counts as what it is (CVE-2024-52919).
    let address = |n: u32| PeerAddress {
        time_s: 1_700_000_000,
        services: Services::NETWORK,
        endpoint: Endpoint { host: Host::V4(((20 << 24) + n).to_be_bytes()), port: 8333 },
    };
    let addresses = |from: u32| Message::Addr((from..from + 1_000).map(address).collect());
    let mut one = Stranger::new(&shell);
    (0..50).for_each(|n| one.say(&addresses(1_000 * n)));
    assert!(one.is_heard(1));
    let peers = ready(&shell);
    let peer = peers.iter().find(|peer| peer.statistics.addresses_limited > 0).expect("it is counted");
    assert!(peer.statistics.addresses_processed < 50, "{:?}", peer.statistics);
    let known: usize = shell.address_counts().iter().map(|(_, new, tried)| new + tried).sum();
    assert!(known < 50, "{known} addresses of a flood are in the book");
    // A block nobody asked for that follows nothing we know is forgotten.
    let mut alone = header_on(BlockHash([5; 32]), 1_700_000_000, true).encode().to_vec();
    alone.push(1);
    alone.extend(Block::parse(params().genesis_block()).unwrap().tx(0).raw());
    check(&shell, "a block without a parent", false, |one| {
        (0..20).for_each(|_| one.say(&Message::Block(BlockBytes::new(alone.clone()).unwrap())));
    });
    shell.stop().unwrap();
}
