//! ZeroMQ notifications of real blocks and transactions, heard by a subscriber of our own over real sockets.
//!
//! In:     a node that makes, leaves and takes back blocks, with a mempool that follows it.
//! Out:    Core's messages at every address, in order, numbered without a gap.
//! Fails:  with the message that is another one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use chain::mempool::{Accept, SharedMempool};
use chain::policy::Policy;
use chain::upkeep::Upkeep;
use primitives::{Block, BlockHash, Transaction};
use serve::zmq::{Address, News, Notifier, Publisher, Topic, start};
use stdx::hex;

use crate::world::World;

/// Pays to whoever likes: the hash of a script of one OP_TRUE.
const ANYBODY: &str = "bcrt1qft5p2uhsdcdc3l2ua4ap5qqfg4pjaqlp250x7us7a8qqhrxrxfsqseac85";
const PATIENCE: Duration = Duration::from_secs(60);

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A subscriber: ZMTP 3, written down plainly.
struct Subscriber {
    stream: Box<dyn Stream>,
}

impl Subscriber {
    fn connect(address: &Address, prefixes: &[&str], minor: u8) -> Subscriber {
        let stream: Box<dyn Stream> = match address {
            Address::Tcp(at) => {
                let stream = TcpStream::connect(at).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(stream)
            }
            Address::Ipc(path) => {
                let stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(stream)
            }
        };
        let mut subscriber = Subscriber { stream };
        let mut greeting = [0; 64];
        (greeting[0], greeting[9], greeting[10], greeting[11]) = (0xff, 0x7f, 3, minor);
        greeting[12..16].copy_from_slice(b"NULL");
        subscriber.stream.write_all(&greeting).unwrap();
        let mut theirs = [0; 64];
        subscriber.stream.read_exact(&mut theirs).unwrap();
        assert_eq!((&theirs[..1], &theirs[9..16]), (&[0xff][..], &b"\x7f\x03\x01NULL"[..]));
        subscriber.send(4, b"\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB\x08Identity\x00\x00\x00\x00");
        let (flags, ready) = subscriber.frame();
        assert_eq!((flags, &ready[..]), (4, &b"\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"[..]));
        for prefix in prefixes {
            match minor {
                0 => subscriber.send(0, &[b"\x01", prefix.as_bytes()].concat()),
                _ => subscriber.send(4, &[b"\x09SUBSCRIBE", prefix.as_bytes()].concat()),
            }
        }
        // What was said before a PING has been heard when its PONG is here.
        subscriber.send(4, b"\x04PING\x00\x00now");
        assert_eq!(subscriber.frame(), (4, b"\x04PONGnow".to_vec()));
        subscriber
    }

    fn send(&mut self, flags: u8, body: &[u8]) {
        self.stream.write_all(&[&[flags, body.len() as u8], body].concat()).unwrap();
    }

    fn frame(&mut self) -> (u8, Vec<u8>) {
        let mut flags = [0];
        self.stream.read_exact(&mut flags).unwrap();
        let length = if flags[0] & 2 == 0 {
            let mut length = [0];
            self.stream.read_exact(&mut length).unwrap();
            usize::from(length[0])
        } else {
            let mut length = [0; 8];
            self.stream.read_exact(&mut length).unwrap();
            u64::from_be_bytes(length) as usize
        };
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        (flags[0] & !2, body)
    }

    /// Topic, body and number of the next message.
    fn next(&mut self) -> (String, Vec<u8>, u32) {
        let [topic, body, number] = std::array::from_fn(|part| {
            let (flags, bytes) = self.frame();
            assert_eq!(flags, u8::from(part < 2), "three parts");
            bytes
        });
        (String::from_utf8(topic).unwrap(), body, u32::from_le_bytes(number.try_into().unwrap()))
    }

    #[track_caller]
    fn expect(&mut self, want_topic: &str, want_body: &[u8], want_number: u32) {
        let (topic, body, number) = self.next();
        assert_eq!((&*topic, hex::encode(&body), number), (want_topic, hex::encode(want_body), want_number));
    }
}

/// A mempool that follows the writer, and news of both.
struct Following {
    mempool: SharedMempool,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Following {
    fn start(world: &World, publisher: &Arc<Publisher>) -> Following {
        let engine = sigs::engine(sigs::EngineName::Scalar).unwrap();
        let mut upkeep = Upkeep::open(&world.handle, Policy::default(), engine, world.host.clone(), [5; 16]);
        let (mempool, stop) = (upkeep.mempool().clone(), Arc::new(AtomicBool::new(false)));
        let source = mempool.clone();
        let subscribe = Box::new(move || source.write().subscribe());
        let news = News::new(world.handle.clone(), publisher.clone(), Some(subscribe));
        let ends = stop.clone();
        let follow = std::thread::spawn(move || {
            while !ends.load(Ordering::SeqCst) {
                upkeep.step(Duration::from_millis(20));
            }
        });
        let ends = stop.clone();
        let tell = std::thread::spawn(move || news.run(&ends));
        Following { mempool, stop, threads: vec![follow, tell] }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn notifier(topic: Topic, address: &str) -> Notifier {
    Notifier { topic, address: address.parse().unwrap(), high_water_mark: 1000 }
}

fn shown(mut hash: [u8; 32]) -> [u8; 32] {
    hash.reverse();
    hash
}

fn block_of(world: &World, hash: &serde_json::Value) -> Block {
    let hash: BlockHash = hash.as_str().unwrap().parse().unwrap();
    Block::parse(world.handle.block_bytes(&hash).unwrap()).unwrap()
}

/// Spends the coinbase of a block to anybody again.
fn spend(block: &Block) -> Transaction {
    let coinbase = block.tx(0);
    let (value, script) = (coinbase.output(0).value_sat - 10_000, coinbase.output(0).script.to_vec());
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 1];
    bytes.extend_from_slice(&coinbase.txid().0);
    bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0xfd, 0xff, 0xff, 0xff, 1]);
    bytes.extend_from_slice(&value.to_le_bytes());
    bytes.push(script.len() as u8);
    bytes.extend_from_slice(&script);
    bytes.extend_from_slice(&[1, 1, 0x51, 0, 0, 0, 0]);
    Transaction::parse(bytes).unwrap()
}

/// A block's part of `sequence`.
fn sequence_of(block: &Block, label: u8) -> Vec<u8> {
    [&shown(block.header().hash().0)[..], &[label]].concat()
}

#[test]
fn blocks_and_transactions_are_told_in_order() {
    let world = World::new("zmq");
    let folder = std::env::temp_dir().join(format!("assay-it-zmq-{}", std::process::id()));
    let ipc = format!("ipc://{}", folder.display());
    // Blocks and transactions at an address of their own, as LND wants them; three topics at one; one topic at two.
    let publisher = Arc::new(
        start(vec![
            notifier(Topic::RawBlock, "tcp://127.0.0.1:0"),
            notifier(Topic::RawTx, "tcp://127.0.0.2:0"),
            notifier(Topic::HashBlock, &ipc),
            notifier(Topic::HashTx, &ipc),
            notifier(Topic::Sequence, &ipc),
            notifier(Topic::RawTx, &ipc),
        ])
        .unwrap(),
    );
    let _ = world.env.zmq.set(publisher.notifiers().to_vec());
    let address = |at: usize| publisher.notifiers()[at].address.clone();
    let told = world.call("getzmqnotifications", "[]").unwrap();
    assert_eq!(told[1]["type"], "pubrawtx");
    assert_eq!((&told[1]["address"], &told[1]["hwm"]), (&address(1).to_string().into(), &1000.into()));
    assert_eq!(told.as_array().unwrap().len(), 6);
    let mut blocks = Subscriber::connect(&address(0), &["rawblock"], 0);
    let mut txs = Subscriber::connect(&address(1), &["rawtx"], 0);
    let mut all = Subscriber::connect(&address(2), &["hash", "sequence"], 1);
    let following = Following::start(&world, &publisher);

    // A new block: its transactions, the block, the tip.
    let made = world.call("generatetoaddress", &format!("[101,\"{ANYBODY}\"]")).unwrap();
    for (number, hash) in (0..).zip(made.as_array().unwrap()) {
        let block = block_of(&world, hash);
        blocks.expect("rawblock", block.bytes(), number);
        txs.expect("rawtx", block.tx(0).raw(), number);
        all.expect("hashtx", &shown(block.tx(0).txid().0), number);
        all.expect("sequence", &sequence_of(&block, b'C'), number);
        all.expect("hashblock", &shown(block.header().hash().0), number);
    }

    // A transaction comes, and is mined: it leaves the mempool without a word.
    let transaction = spend(&block_of(&world, &made[0]));
    let txid = transaction.tx().txid();
    let sequence = following.mempool.read().sequence();
    following.mempool.accept(&transaction, &Accept::at(2_000_000_000)).unwrap();
    txs.expect("rawtx", transaction.tx().raw(), 101);
    all.expect("hashtx", &shown(txid.0), 101);
    let change = |label: u8, number: u64| [&shown(txid.0)[..], &[label], &number.to_le_bytes()].concat();
    all.expect("sequence", &change(b'A', sequence), 101);
    let raw = hex::encode(transaction.tx().raw());
    let mined = world.call("generateblock", &format!("[\"{ANYBODY}\",[\"{raw}\"]]")).unwrap();
    let block = block_of(&world, &mined["hash"]);
    blocks.expect("rawblock", block.bytes(), 101);
    for (number, tx) in (102..).zip(block.txs()) {
        txs.expect("rawtx", tx.raw(), number);
        all.expect("hashtx", &shown(tx.txid().0), number);
    }
    all.expect("sequence", &sequence_of(&block, b'C'), 102);
    all.expect("hashblock", &shown(block.header().hash().0), 102 - 1);

    // The block is left: nothing is a new tip, and the transaction comes back.
    world.call("invalidateblock", &format!("[{}]", mined["hash"])).unwrap();
    for (number, tx) in (104..).zip(block.txs()) {
        txs.expect("rawtx", tx.raw(), number);
        all.expect("hashtx", &shown(tx.txid().0), number);
    }
    all.expect("sequence", &sequence_of(&block, b'D'), 103);
    txs.expect("rawtx", transaction.tx().raw(), 106);
    all.expect("hashtx", &shown(txid.0), 106);
    let (topic, body, number) = all.next();
    assert_eq!((&*topic, number), ("sequence", 104));
    assert_eq!(body[..33], change(b'A', 0)[..33], "what a reorganisation brings back is added again");
    drop(following);
}

#[test]
fn a_branch_is_a_tip_only_where_it_is_better() {
    let world = World::new("zmq-branch");
    let publisher = Arc::new(
        start(vec![notifier(Topic::HashBlock, "tcp://127.0.0.1:0"), notifier(Topic::Sequence, "tcp://127.0.0.1:0")])
            .unwrap(),
    );
    let mut heard = Subscriber::connect(&publisher.notifiers()[0].address, &[""], 1);
    // Without a mempool blocks are told all the same.
    let stop = Arc::new(AtomicBool::new(false));
    let (news, ends) = (News::new(world.handle.clone(), publisher.clone(), None), stop.clone());
    let tell = std::thread::spawn(move || news.run(&ends));
    let old = world.call("generatetoaddress", &format!("[2,\"{ANYBODY}\"]")).unwrap();
    let old: Vec<Block> = old.as_array().unwrap().iter().map(|hash| block_of(&world, hash)).collect();
    for (number, block) in (0..).zip(&old) {
        heard.expect("sequence", &sequence_of(block, b'C'), number);
        heard.expect("hashblock", &shown(block.header().hash().0), number);
    }
    let first = old[0].header().hash();
    world.call("invalidateblock", &format!("[\"{first}\"]")).unwrap();
    heard.expect("sequence", &sequence_of(&old[1], b'D'), 2);
    heard.expect("sequence", &sequence_of(&old[0], b'D'), 3);
    let new = world.call("generatetoaddress", "[1,\"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080\"]").unwrap();
    let new = block_of(&world, &new[0]);
    heard.expect("sequence", &sequence_of(&new, b'C'), 4);
    heard.expect("hashblock", &shown(new.header().hash().0), 2);
    // Both come back: the new branch is left, and only the block above it makes the chain better than it was.
    world.call("reconsiderblock", &format!("[\"{first}\"]")).unwrap();
    heard.expect("sequence", &sequence_of(&new, b'D'), 5);
    heard.expect("sequence", &sequence_of(&old[0], b'C'), 6);
    heard.expect("sequence", &sequence_of(&old[1], b'C'), 7);
    heard.expect("hashblock", &shown(old[1].header().hash().0), 3);
    stop.store(true, Ordering::SeqCst);
    tell.join().unwrap();
}

#[test]
fn a_slow_subscriber_loses_messages_and_nobody_else_does() {
    let low = Notifier { high_water_mark: 3, ..notifier(Topic::RawTx, "tcp://127.0.0.1:0") };
    let publisher = start(vec![low]).unwrap();
    let address = publisher.notifiers()[0].address.clone();
    let mut slow = Subscriber::connect(&address, &["rawtx"], 1);
    let mut quick = Subscriber::connect(&address, &["rawtx"], 0);
    // 320 MB in all are more than a socket takes.
    let body = vec![7; 8_000_000];
    for number in 0..40 {
        publisher.publish(Topic::RawTx, &body);
        let (topic, got, got_number) = quick.next();
        assert_eq!((&*topic, got.len(), got_number), ("rawtx", body.len(), number));
    }
    // As it reads, there is room again.
    let mut numbers = Vec::new();
    loop {
        publisher.publish(Topic::RawTx, b"late");
        assert_eq!(quick.next().1, b"late");
        let (_, got, number) = slow.next();
        numbers.push(number);
        if got == b"late" {
            break;
        }
    }
    assert!(numbers.is_sorted() && numbers[0] == 0, "{numbers:?}");
    let (received, last) = (numbers.len() as u32, *numbers.last().unwrap());
    assert!(received < 20 && last >= 40, "{numbers:?}");
}

#[test]
fn strangers_are_shown_out() {
    let publisher = start(vec![notifier(Topic::RawTx, "tcp://127.0.0.1:0")]).unwrap();
    let Address::Tcp(address) = publisher.notifiers()[0].address else { panic!("tcp") };
    for hello in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[0xff; 80]] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(hello).unwrap();
        let mut rest = Vec::new();
        // Our greeting, and the end; or a reset where unread bytes were left.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() <= 64, "{} bytes", rest.len());
    }
    // An address that is taken is an error with its setting.
    let again = start(vec![notifier(Topic::RawBlock, &format!("tcp://{address}"))]);
    let told = again.err().expect("the port is taken");
    assert!(told.contains("zmq_pub_rawblock"), "{told}");
}
