//! Messages as golden bytes, and both sides of every limit.

use primitives::encode::{ParseError, put_compact_size};
use primitives::{BlockHash, Network, Params, Transaction};
use stdx::hex;
use stdx::random::Random;

use super::*;
use crate::fuzz::fuzz_message;

const TX: &str = "01000000010000000000000000000000000000000000000000000000000000000000000000ffffffff0704ffff001d0104ffffffff010\
                  0f2052a0100000043410496b538e853519c726a2c91e61ec11600ae1390813a627c66fb8be7947be63c52da7589379515d4e0a604f814\
                  1781e62294721166bf621e73a82cbf2342c858eeac00000000";

fn endpoint(last: u8, port: u16) -> Endpoint {
    Endpoint { host: Host::V4([1, 2, 3, last]), port }
}

fn golden() -> Vec<(Message, &'static str)> {
    let hash = BlockHash([0x11; 32]);
    let ones = "1111111111111111111111111111111111111111111111111111111111111111";
    let text = |text: String| -> &'static str { text.leak() };
    let address = PeerAddress { time_s: 0x4966_bc61, services: Services::NETWORK, endpoint: endpoint(4, 0xf1f2) };
    let request = LocatorRequest { protocol: 70016, locator: vec![hash], stop: BlockHash([0; 32]) };
    let range = FilterRange { filter_type: 0, start_height: 5, stop: hash };
    let header = Params::of(Network::Main).genesis;
    let header_text = hex::encode(&header.encode());
    let tx = hex::decode(TX).unwrap();
    let inventory = Inventory { kind: InventoryKind::WitnessBlock, hash: hash.0 };
    vec![
        (Message::Verack, ""),
        (Message::GetAddr, ""),
        (Message::SendAddrV2, ""),
        (Message::SendHeaders, ""),
        (Message::WtxidRelay, ""),
        (Message::MemPool, ""),
        (Message::Ping(Some(0x0807_0605_0403_0201)), "0102030405060708"),
        (Message::Ping(None), ""),
        (Message::Pong(Some(1)), "0100000000000000"),
        (Message::FeeFilter(1000), "e803000000000000"),
        (Message::SendCompact(SendCompact { announce: true, version: 2 }), "010200000000000000"),
        (Message::Addr(vec![address]), "0161bc6649010000000000000000000000000000000000ffff01020304f1f2"),
        (Message::AddrV2(vec![address]), "0161bc66490101040102030 4f1f2"),
        (Message::Inv(vec![inventory]), text(format!("0102000040{ones}"))),
        (Message::GetData(vec![inventory]), text(format!("0102000040{ones}"))),
        (Message::NotFound(vec![]), "00"),
        (Message::GetHeaders(request.clone()), text(format!("8011010001{ones}{}", "00".repeat(32)))),
        (Message::GetBlocks(request), text(format!("8011010001{ones}{}", "00".repeat(32)))),
        (Message::Headers(vec![header]), text(format!("01{header_text}00"))),
        (Message::Block(BlockBytes::new(vec![7; 81]).unwrap()), text("07".repeat(81))),
        (Message::Tx(Transaction::parse(tx.clone()).unwrap()), TX),
        (
            Message::CompactBlock(CompactBlock {
                header,
                nonce: 1,
                short_ids: vec![0x0605_0403_0201, 2],
                prefilled: vec![PrefilledTx { index: 0, tx: tx.clone() }, PrefilledTx { index: 3, tx: tx.clone() }],
            }),
            text(format!("{header_text}01000000000000000201020304050602000000000002 00{TX}02{TX}")),
        ),
        (
            Message::GetBlockTxs(BlockTxsRequest { block: hash, indexes: vec![0, 1, 5, 65535] }),
            text(format!("{ones}04000003fdf9ff")),
        ),
        (
            Message::BlockTxs(BlockTxs { block: hash, txs: TxList::of([&tx[..], &tx[..]]) }),
            text(format!("{ones}02{TX}{TX}")),
        ),
        (Message::SendTxReconciliation(SendTxReconciliation { version: 1, salt: 2 }), "010000000200000000000000"),
        (Message::GetFilters(range), text(format!("0005000000{ones}"))),
        (Message::GetFilterHeaders(range), text(format!("0005000000{ones}"))),
        (
            Message::Filter(Filter { filter_type: 0, block: hash, filter: vec![1, 2, 3] }),
            text(format!("00{ones}03010203")),
        ),
        (
            Message::FilterHeaders(FilterHeaders {
                filter_type: 0,
                stop: hash,
                previous: [0; 32],
                hashes: vec![hash.0],
            }),
            text(format!("00{ones}{}01{ones}", "00".repeat(32))),
        ),
        (Message::GetFilterCheckpoints(0, hash), text(format!("00{ones}"))),
        (
            Message::FilterCheckpoints(FilterCheckpoints { filter_type: 0, stop: hash, headers: vec![[0x11; 32]] }),
            text(format!("00{ones}01{ones}")),
        ),
        (Message::Feature(Feature { id: b"BIP-1".to_vec(), data: vec![9] }), "054249502d310109"),
        (Message::Bloom(Command::FILTERLOAD, vec![1]), "01"),
        (Message::Bloom(Command::FILTERCLEAR, vec![]), ""),
        (Message::Reject(vec![1, 2]), "0102"),
        (Message::Unknown(Command::from_name("nonsense").unwrap(), vec![5]), "05"),
    ]
}

#[test]
fn every_message_has_its_bytes() {
    for (message, want) in golden() {
        let want = hex::decode(&want.replace(' ', "")).unwrap();
        let command = message.command();
        assert_eq!(hex::encode(&message.payload()), hex::encode(&want), "{command}");
        assert_eq!(Message::parse(command, want.clone()).as_ref(), Ok(&message), "{command}");
        // Bytes behind the message are ignored; only where the payload is the value itself, it is another value.
        if !matches!(message, Message::Tx(_) | Message::Block(_) | Message::Bloom(..) | Message::Reject(_))
            && !matches!(message, Message::Unknown(..) | Message::Ping(None))
        {
            let longer = [&want[..], &[0xff]].concat();
            assert_eq!(Message::parse(command, longer), Ok(message), "{command} and one byte");
        }
    }
}

#[test]
fn no_cut_of_a_message_is_that_message() {
    for (message, want) in golden() {
        let bytes = hex::decode(&want.replace(' ', "")).unwrap();
        for end in 0..bytes.len() {
            assert_ne!(Message::parse(message.command(), bytes[..end].to_vec()), Ok(message.clone()), "{end}");
        }
    }
}

#[test]
fn the_published_version_message_reads() {
    // Protocol documentation of the Bitcoin wiki, "version"; of Satoshi:0.7.2, so without the relay byte.
    let text = "62ea0000010000000000000011b2d05000000000010000000000000000000000000000000000ffff00000000000001000000000000000000\
                0000000000000000ffff0000000000003b2eb35d8ce617650f2f5361746f7368693a302e372e322fc03e0300";
    let Ok(Message::Version(version)) = Message::parse(Command::VERSION, hex::decode(text).unwrap()) else {
        panic!("a version message");
    };
    assert_eq!((version.protocol, version.services, version.time_s), (60002, Services::NETWORK, 1_355_854_353));
    assert_eq!(version.nonce, 0x6517_e68c_5db3_2e3b);
    assert_eq!((version.user_agent_text().as_str(), version.start_height), ("/Satoshi:0.7.2/", 212_672));
    assert!(version.relay);
}

#[test]
fn a_version_message_may_end_early_and_gets_core_s_values() {
    let version = Version {
        protocol: 70016,
        services: Services::NETWORK.and(Services::WITNESS),
        time_s: 1_700_000_000,
        receiver_services: Services::NONE,
        receiver: endpoint(9, 8333),
        nonce: 77,
        user_agent: b"/<b>x\x00/".to_vec(),
        start_height: 5,
        relay: false,
    };
    assert_eq!(version.user_agent_text(), "/bx/");
    let bytes = Message::Version(version.clone()).payload();
    #[track_caller]
    fn check(bytes: &[u8], want: Option<Version>) {
        let want = want.map(Message::Version);
        assert_eq!(Message::parse(Command::VERSION, bytes.to_vec()).ok(), want, "{}", bytes.len());
    }
    let (no_relay, no_height) = (bytes.len() - 1, bytes.len() - 5);
    check(&bytes, Some(version.clone()));
    check(&bytes[..no_relay], Some(Version { relay: true, ..version.clone() }));
    check(&bytes[..no_relay - 1], None);
    check(&bytes[..no_height], Some(Version { relay: true, start_height: -1, ..version.clone() }));
    check(&bytes[..80], Some(Version { relay: true, start_height: -1, user_agent: vec![], ..version.clone() }));
    check(&bytes[..79], None);
    let least = Version { relay: true, start_height: -1, user_agent: vec![], nonce: 1, ..version };
    check(&bytes[..46], Some(least));
    check(&bytes[..45], None);
}

#[test]
fn addrv2_reads_core_s_vectors_and_skips_what_nobody_knows() {
    #[track_caller]
    fn check(text: &str, want: Result<&[PeerAddress], WireError>) {
        let got = Message::parse(Command::ADDRV2, hex::decode(&text.replace(' ', "")).unwrap());
        assert_eq!(got, want.map(|list| Message::AddrV2(list.to_vec())), "{text}");
    }
    let local = |port| Endpoint { host: Host::from("::1".parse::<std::net::IpAddr>().unwrap()), port };
    // Bitcoin Core, src/test/net_tests.cpp, `stream_addrv2_hex`.
    check(
        "03 61bc6649 00 02 10 00000000000000000000000000000001 0000 \
         79627683 01 02 10 00000000000000000000000000000001 00f1 \
         ffffffff fd4804 02 10 00000000000000000000000000000001 f1f2",
        Ok(&[
            PeerAddress { time_s: 0x4966_bc61, services: Services::NONE, endpoint: local(0) },
            PeerAddress { time_s: 0x8376_6279, services: Services::NETWORK, endpoint: local(0xf1) },
            PeerAddress { time_s: u32::MAX, services: Services(0x448), endpoint: local(0xf1f2) },
        ]),
    );
    let one = PeerAddress { time_s: 1, services: Services(2), endpoint: endpoint(4, 5) };
    let good = "01000000 02 01 04 01020304 0005";
    let with = |entry: &str| format!("02 {entry} {good}");
    check(&with("01000000 02 01 04 01020304 0005"), Ok(&[one, one]));
    // Unknown network, Tor's second version, IPv4 or Tor hidden in IPv6: left away, the next one is read.
    check(&with("01000000 02 aa 03 010203 0005"), Ok(&[one]));
    check(&with("01000000 02 03 0a 01020304050607080910 0005"), Ok(&[one]));
    check(&with("01000000 02 02 10 00000000000000000000ffff01020304 0005"), Ok(&[one]));
    check(&with("01000000 02 02 10 fd87d87eeb4301020304050607080910 0005"), Ok(&[one]));
    check(&with(&format!("01000000 02 aa fd0002 {} 0005", "00".repeat(512))), Ok(&[one]));
    check(
        &with(&format!("01000000 02 aa fd0102 {} 0005", "00".repeat(513))),
        Err(WireError::AddressTooLong { got: 513 }),
    );
    // Services may need all 64 bits; written longer than needed they are refused.
    let many = PeerAddress { services: Services(u64::MAX), ..one };
    check("01 01000000 ffffffffffffffffff 01 04 01020304 0005", Ok(&[many]));
    check("01 01000000 fd0200 01 04 01020304 0005", Err(WireError::Format(ParseError::NonCanonicalSize)));
    for (network, right) in [(1u8, 4usize), (2, 16), (4, 32), (5, 32), (6, 16)] {
        for length in [right - 1, right, right + 1] {
            let entry = format!("01 01000000 02 {network:02x} {length:02x} {} 0005", "09".repeat(length));
            match length == right {
                true => {
                    let host = Host::from_network(network, &vec![9; length]).unwrap().unwrap();
                    check(&entry, Ok(&[PeerAddress { endpoint: Endpoint { host, port: 5 }, ..one }]));
                }
                false => check(&entry, Err(WireError::AddressWrongLength { network, got: length as u64 })),
            }
        }
    }
}

/// `count` entries of `entry`, behind `before` and the count.
fn list(before: &[u8], count: usize, entry: &[u8], after: &[u8]) -> Vec<u8> {
    let mut bytes = before.to_vec();
    put_compact_size(&mut bytes, count as u64);
    for _ in 0..count {
        bytes.extend_from_slice(entry);
    }
    bytes.extend_from_slice(after);
    bytes
}

#[test]
fn lists_end_at_their_limits() {
    #[track_caller]
    fn check(command: Command, bytes: Vec<u8>, want: Option<WireError>) {
        assert_eq!(Message::parse(command, bytes).err(), want, "{command}");
    }
    for command in [Command::INV, Command::GETDATA, Command::NOTFOUND] {
        check(command, list(&[], 50_000, &[1; 36], &[]), None);
        check(command, list(&[], 50_001, &[1; 36], &[]), Some(WireError::TooManyInventory { got: 50_001 }));
    }
    check(Command::HEADERS, list(&[], 2_000, &[0; 81], &[]), None);
    check(Command::HEADERS, list(&[], 2_001, &[0; 81], &[]), Some(WireError::TooManyHeaders { got: 2_001 }));
    check(Command::ADDR, list(&[], 1_000, &[1; 30], &[]), None);
    check(
        Command::ADDR,
        list(&[], 1_001, &[1; 30], &[]),
        Some(WireError::TooManyAddresses { message: "addr", got: 1_001 }),
    );
    let entry = [1, 0, 0, 0, 2, 1, 4, 1, 2, 3, 4, 0, 5];
    check(Command::ADDRV2, list(&[], 1_000, &entry, &[]), None);
    check(
        Command::ADDRV2,
        list(&[], 1_001, &entry, &[]),
        Some(WireError::TooManyAddresses { message: "addrv2", got: 1_001 }),
    );
    for command in [Command::GETHEADERS, Command::GETBLOCKS] {
        check(command, list(&[0; 4], 101, &[1; 32], &[0; 32]), None);
        check(command, list(&[0; 4], 102, &[1; 32], &[0; 32]), Some(WireError::LocatorTooLong { got: 102 }));
    }
    check(Command::CFHEADERS, list(&[0; 65], 2_000, &[1; 32], &[]), None);
    check(
        Command::CFHEADERS,
        list(&[0; 65], 2_001, &[1; 32], &[]),
        Some(WireError::TooManyFilterHashes { got: 2_001 }),
    );
    check(Command::CFCHECKPT, list(&[0; 33], 100_000, &[1; 32], &[]), None);
    check(
        Command::CFCHECKPT,
        list(&[0; 33], 100_001, &[1; 32], &[]),
        Some(WireError::TooManyFilterCheckpoints { got: 100_001 }),
    );
    check(Command::FEATURE, list(&list(&[], 80, b"a", &[]), 512, b"b", &[]), None);
    check(Command::FEATURE, list(&[], 81, b"a", &[0]), Some(WireError::FeatureTooLong { got: 81 }));
    check(
        Command::FEATURE,
        list(&list(&[], 80, b"a", &[]), 513, b"b", &[]),
        Some(WireError::FeatureTooLong { got: 513 }),
    );
    let version = [&[0; 80][..], &[]].concat();
    check(Command::VERSION, list(&version, 256, b"a", &[]), None);
    check(Command::VERSION, list(&version, 257, b"a", &[]), Some(WireError::UserAgentTooLong { got: 257 }));
    let unknown = Command::from_name("blob").unwrap();
    check(unknown, vec![0; 4_000_000], None);
    check(unknown, vec![0; 4_000_001], Some(WireError::PayloadTooLarge { got: 4_000_001 }));
    check(Command::SENDCMPCT, vec![1; 9], None);
    check(Command::SENDCMPCT, vec![2; 9], Some(WireError::AnnounceNotBoolean { got: 2 }));
    check(Command::BLOCK, vec![0; 80], Some(WireError::Format(ParseError::Short)));
    check(Command::BLOCK, vec![0; 81], None);
}

#[test]
fn positions_in_a_compact_block_end_with_the_block() {
    #[track_caller]
    fn check(command: Command, bytes: Vec<u8>, want: Option<WireError>) {
        assert_eq!(Message::parse(command, bytes).err(), want, "{command}");
    }
    let compact = |short_count: usize, prefilled: &[u64]| {
        let mut bytes = list(&[0; 88], short_count, &[1; 6], &[]);
        put_compact_size(&mut bytes, prefilled.len() as u64);
        for difference in prefilled {
            put_compact_size(&mut bytes, *difference);
            bytes.extend_from_slice(&hex::decode(TX).unwrap());
        }
        bytes
    };
    let beyond = |index| Some(WireError::PrefilledBeyondBlock { index });
    check(Command::CMPCTBLOCK, compact(0, &[]), Some(WireError::NoTransactions));
    check(Command::CMPCTBLOCK, compact(1, &[]), None);
    check(Command::CMPCTBLOCK, compact(0, &[0]), None);
    check(Command::CMPCTBLOCK, compact(0, &[1]), beyond(1));
    check(Command::CMPCTBLOCK, compact(2, &[2]), None);
    check(Command::CMPCTBLOCK, compact(2, &[3]), beyond(3));
    check(Command::CMPCTBLOCK, compact(2, &[0, 2]), None);
    check(Command::CMPCTBLOCK, compact(2, &[0, 3]), beyond(4));
    check(Command::CMPCTBLOCK, compact(2, &[0x0200_0000]), beyond(0x0200_0000));
    let too_many = |got| Some(WireError::TooManyTransactions { got });
    check(Command::CMPCTBLOCK, compact(65_534, &[0]), None);
    check(Command::CMPCTBLOCK, compact(65_535, &[0]), too_many(65_536));
    check(Command::CMPCTBLOCK, compact(65_536, &[]), too_many(65_536));
    // BIP 152 positions of a request: 16 bits, however the differences add up.
    check(Command::GETBLOCKTXN, list(&[0; 32], 65_535, &[0], &[]), None);
    check(Command::GETBLOCKTXN, list(&[0; 32], 65_536, &[0], &[]), too_many(65_536));
    check(Command::GETBLOCKTXN, list(&[0; 32], 1, &[0xfd, 0xff, 0xff], &[]), None);
    check(Command::GETBLOCKTXN, list(&[0; 32], 2, &[0xfd, 0xff, 0xff], &[]), Some(WireError::IndexOverflow));
    check(Command::GETBLOCKTXN, list(&[0; 32], 1, &[0xfe, 0, 0, 1, 0], &[]), Some(WireError::IndexOverflow));
    check(Command::BLOCKTXN, list(&[0; 32], 65_536, &[0; 10], &[]), too_many(65_536));
}

#[test]
fn a_count_alone_reserves_nothing() {
    // The lists of CVE-2024-52915 (inv) and 2015-3641: counts without what they count.
    for command in [Command::INV, Command::HEADERS, Command::ADDR, Command::ADDRV2, Command::BLOCKTXN] {
        let mut bytes = if command == Command::BLOCKTXN { vec![0; 32] } else { vec![] };
        put_compact_size(&mut bytes, 1_000);
        assert_eq!(Message::parse(command, bytes), Err(WireError::Format(ParseError::Short)), "{command}");
    }
}

#[test]
fn short_identifiers_are_siphash_over_the_wtxid() {
    let header = Params::of(Network::Main).genesis;
    let keys = ShortIdKeys::of(&header, 7);
    // From a plain SipHash-2-4 in another language, itself checked against its authors' vector.
    assert_eq!(keys.short_id(&primitives::Wtxid(header.merkle_root)), 0x82514c4db522);
}

#[test]
fn arbitrary_payloads_are_read_or_refused() {
    let mut random = Random::new(4);
    let golden = golden();
    for _ in 0..20_000 {
        let (message, _) = &golden[random.below(golden.len() as u64) as usize];
        let mut bytes = message.command().bytes().to_vec();
        let mut payload = message.payload();
        for _ in 0..random.below(4) {
            match random.below(3) {
                0 if !payload.is_empty() => {
                    let at = random.below(payload.len() as u64) as usize;
                    payload[at] = random.next_u64() as u8;
                }
                1 => payload.truncate(random.below(payload.len() as u64 + 1) as usize),
                _ => payload.extend_from_slice(&random.bytes::<5>()),
            }
        }
        bytes.extend_from_slice(&payload);
        fuzz_message(&bytes);
    }
}
