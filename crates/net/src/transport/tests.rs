//! Both transports against each other, against BIP 324's vectors, and against everything a peer can do wrong.

use super::cipher::SessionCipher;
use super::*;
use crate::wire::{BlockBytes, Command};
use primitives::hash::sha256d;
use stdx::hex;
use stdx::random::Random;

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

fn array<const N: usize>(text: &str) -> [u8; N] {
    hex::decode_array(text).unwrap()
}

/// Rows of a comma-separated file, by column names.
fn rows(name: &str) -> Option<Vec<std::collections::BTreeMap<String, String>>> {
    let Some(path) = stdx::vectors::shared(&format!("bips/bip-0324/{name}")) else {
        println!("skipped: ../shared/vectors/bips/bip-0324/{name} is not there");
        return None;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = lines.next().unwrap();
    Some(lines.map(|cells| names.iter().cloned().zip(cells).collect()).collect())
}

#[test]
fn packets_are_those_of_bip_324() {
    let Some(rows) = rows("packet_encoding_test_vectors.csv") else { return };
    assert!(rows.len() >= 7);
    for row in rows {
        let role = if row["in_initiating"] == "1" { Role::Initiator } else { Role::Responder };
        let key = secp256k1::SecretKey::from_secret_bytes(array(&row["in_priv_ours"])).unwrap();
        let (ours, theirs) = (array(&row["in_ellswift_ours"]), array(&row["in_ellswift_theirs"]));
        let mut cipher = SessionCipher::new(key, ours, theirs, role, [0xf9, 0xbe, 0xb4, 0xd9]);
        assert_eq!(hex::encode(&cipher.session_id), row["out_session_id"]);
        assert_eq!(hex::encode(&cipher.send_terminator), row["mid_send_garbage_terminator"]);
        assert_eq!(hex::encode(&cipher.receive_terminator), row["mid_recv_garbage_terminator"]);
        for _ in 0..row["in_idx"].parse::<u64>().unwrap() {
            cipher.encrypt(0, &[], &mut Vec::new(), |_| ());
        }
        let contents = hex::decode(&row["in_contents"]).unwrap().repeat(row["in_multiply"].parse().unwrap());
        let header = if row["in_ignore"] == "1" { 0x80 } else { 0 };
        let mut packet = Vec::new();
        cipher.encrypt(header, &hex::decode(&row["in_aad"]).unwrap(), &mut packet, |out| {
            out.extend_from_slice(&contents)
        });
        let packet = hex::encode(&packet);
        match row["out_ciphertext"].as_str() {
            "" => assert!(packet.ends_with(&row["out_ciphertext_endswith"])),
            want => assert_eq!(packet, want),
        }
    }
}

#[test]
fn keys_decode_to_the_points_of_bip_324() {
    let Some(rows) = rows("ellswift_decode_test_vectors.csv") else { return };
    for row in &rows {
        let key = secp256k1::ellswift::ElligatorSwift::from_array(array(&row["ellswift"]));
        let point = secp256k1::PublicKey::from_ellswift(key).serialize();
        assert_eq!(hex::encode(&point[1..]), row["x"], "{}", row["comment"]);
    }
    assert!(rows.len() >= 70);
}

fn secret(seed: u64) -> Secret {
    Secret::draw(&mut Random::new(seed))
}

/// Two sides and the bytes between them, cut into pieces at random.
struct Line {
    sides: [Transport; 2],
    waiting: [Vec<u8>; 2],
    received: [Vec<Received>; 2],
    random: Random,
}

impl Line {
    fn new(seed: u64, initiator: impl FnOnce(&mut Vec<u8>) -> Transport) -> Line {
        let (mut first, mut none) = (Vec::new(), Vec::new());
        let initiator = initiator(&mut first);
        let responder = Transport::encrypted(MAGIC, Role::Responder, secret(seed + 1), &mut none);
        assert!(none.is_empty(), "a responder is silent until it knows who speaks");
        let received = [Vec::new(), Vec::new()];
        Line { sides: [initiator, responder], waiting: [first, none], received, random: Random::new(seed) }
    }

    fn encrypted(seed: u64) -> Line {
        Line::new(seed, |out| Transport::encrypted(MAGIC, Role::Initiator, secret(seed), out))
    }

    /// Carries bytes both ways until none are left.
    fn carry(&mut self) -> Result<(), TransportError> {
        while self.waiting.iter().any(|waiting| !waiting.is_empty()) {
            for from in [0, 1] {
                let count = self.random.below(self.waiting[from].len().min(5_000) as u64 + 1) as usize;
                let piece: Vec<u8> = self.waiting[from].drain(..count).collect();
                let mut answer = Vec::new();
                self.sides[1 - from].receive(&piece, &mut answer, &mut self.received[1 - from])?;
                self.waiting[1 - from].extend_from_slice(&answer);
            }
        }
        Ok(())
    }

    fn send(&mut self, from: usize, message: &Message) {
        self.sides[from].send(message, &mut self.waiting[from]);
    }

    fn messages(&mut self, to: usize) -> Vec<Message> {
        let parse = |received| match received {
            Received::Frame { command, payload, .. } => Message::parse(command, payload).unwrap(),
            Received::Dropped { reason, .. } => panic!("{reason:?}"),
        };
        self.received[to].drain(..).map(parse).collect()
    }
}

#[test]
fn two_sides_agree_and_talk_over_many_rekeyings() {
    for seed in 0..8 {
        let mut line = Line::encrypted(seed);
        assert!(line.sides[0].should_retry_plain());
        line.carry().unwrap();
        assert!(line.sides.iter().all(|side| side.can_send() && side.kind() == TransportKind::V2));
        assert!(line.sides[0].session_id().is_some() && line.sides[0].session_id() == line.sides[1].session_id());
        assert!(!line.sides[0].should_retry_plain());
        let unnamed = Message::Unknown(Command::from_name("nonsense").unwrap(), vec![1; 70_000]);
        let block = Message::Block(BlockBytes::new(vec![seed as u8; 300_000]).unwrap());
        let said = [Message::Verack, unnamed, block, Message::Ping(Some(seed)), Message::GetAddr];
        for _ in 0..if seed == 0 { 150 } else { 3 } {
            for message in &said {
                line.send(0, message);
                line.send(1, message);
            }
            line.carry().unwrap();
            assert_eq!(line.messages(0), said);
            assert_eq!(line.messages(1), said);
        }
    }
}

#[test]
fn a_plain_peer_is_recognised_by_its_first_sixteen_bytes() {
    for seed in 0..5 {
        let mut line = Line::new(seed, |_| Transport::plain(MAGIC));
        let version = Message::Version(crate::wire::Version {
            protocol: 70016,
            services: crate::wire::Services::NETWORK,
            time_s: 1,
            receiver_services: crate::wire::Services::NONE,
            receiver: crate::wire::Endpoint::NONE,
            nonce: 3,
            user_agent: vec![],
            start_height: 0,
            relay: true,
        });
        line.send(0, &version);
        line.carry().unwrap();
        assert_eq!((line.sides[1].kind(), line.sides[1].session_id()), (TransportKind::V1, None));
        assert_eq!(line.messages(1), [version]);
        line.send(1, &Message::Verack);
        line.send(0, &Message::Verack);
        line.carry().unwrap();
        assert_eq!((line.messages(0), line.messages(1)), (vec![Message::Verack], vec![Message::Verack]));
    }
}

#[test]
fn decoys_are_skipped_at_any_time() {
    let mut line = Line::encrypted(5);
    line.carry().unwrap();
    for length in [0, 1, 50_000] {
        let Kind::Encrypted(encrypted) = &mut line.sides[0].kind else { panic!("made so") };
        encrypted.send_decoy(length, &mut line.waiting[0]);
        line.send(0, &Message::Verack);
        line.carry().unwrap();
        assert_eq!(line.messages(1), [Message::Verack]);
    }
}

#[test]
fn any_changed_bit_behind_the_keys_ends_the_connection() {
    let mut ended = 0;
    for seed in 0..40 {
        let mut line = Line::encrypted(100 + seed);
        // The responder's whole handshake is made first, then one bit of it, behind its key, is turned.
        let first = std::mem::take(&mut line.waiting[0]);
        let (mut answer, mut none) = (Vec::new(), Vec::new());
        line.sides[1].receive(&first, &mut answer, &mut none).unwrap();
        let at = 64 + line.random.below(answer.len() as u64 - 64) as usize;
        answer[at] ^= 1 << line.random.below(8);
        // Enough behind it that a length turned large is waited for in vain.
        answer.extend_from_slice(&vec![0; 20_000]);
        let result = line.sides[0].receive(&answer, &mut none_bytes(), &mut none);
        assert!(none.is_empty(), "nothing that was changed is taken for a message");
        ended += usize::from(result.is_err());
        assert_ne!(line.sides[0].kind(), TransportKind::V2, "seed {seed}");
    }
    assert!(ended >= 35, "{ended} of 40; the others wait for a packet longer than what came");
}

fn none_bytes() -> Vec<u8> {
    Vec::new()
}

#[test]
fn garbage_may_have_4095_bytes_and_not_one_more() {
    #[track_caller]
    fn check(garbage_bytes: usize, want: Result<(), TransportError>) {
        let (mut first, mut answer, mut received) = (Vec::new(), Vec::new(), Vec::new());
        let long = Secret { garbage: vec![0x5a; garbage_bytes], ..secret(1) };
        let mut ours = Transport::encrypted(MAGIC, Role::Initiator, long, &mut first);
        let mut theirs = Transport::encrypted(MAGIC, Role::Responder, secret(2), &mut answer);
        theirs.receive(&first, &mut answer, &mut received).unwrap_or_else(|error| panic!("{error}"));
        let mut rest = Vec::new();
        ours.receive(&answer, &mut rest, &mut received).unwrap();
        assert_eq!(theirs.receive(&rest, &mut Vec::new(), &mut received), want, "{garbage_bytes} bytes");
    }
    check(0, Ok(()));
    check(4_095, Ok(()));
    check(4_096, Err(TransportError::NoGarbageTerminator));
    let (mut first, mut none) = (Vec::new(), Vec::new());
    let mut side = Transport::encrypted(MAGIC, Role::Initiator, secret(3), &mut first);
    // A stream that never ends its garbage holds 4,111 bytes of our memory and then its connection no more.
    assert_eq!(side.receive(&[7; 64 + 4_110], &mut first, &mut none), Ok(()));
    assert_eq!(side.receive(&[7], &mut first, &mut none), Err(TransportError::NoGarbageTerminator));
}

#[test]
fn a_plain_peer_of_another_network_is_recognised() {
    let (mut out, mut received) = (Vec::new(), Vec::new());
    let mut side = Transport::encrypted(MAGIC, Role::Responder, secret(3), &mut out);
    let hello = [&[0xf9, 0xbe, 0xb4, 0xd9][..], Command::VERSION.bytes(), &[0; 8]].concat();
    let error = TransportError::OtherNetwork { got: [0xf9, 0xbe, 0xb4, 0xd9] };
    assert_eq!(side.receive(&hello, &mut out, &mut received), Err(error));
}

#[test]
fn packets_end_at_the_largest_message() {
    #[track_caller]
    fn check(contents_bytes: usize, want: Result<(), TransportError>) {
        let mut line = Line::encrypted(9);
        line.carry().unwrap();
        let Kind::Encrypted(encrypted) = &mut line.sides[0].kind else { panic!("made so") };
        encrypted.send_decoy(contents_bytes, &mut line.waiting[0]);
        assert_eq!(line.carry(), want, "{contents_bytes}");
    }
    check(4_000_013, Ok(()));
    check(4_000_014, Err(TransportError::PacketTooLarge { got: 4_000_014 }));
}

fn plain_frame(magic: [u8; 4], command: &[u8; 12], length: u32, payload: &[u8]) -> Vec<u8> {
    let checksum = sha256d(payload);
    [&magic[..], command, &length.to_le_bytes(), &checksum[..4], payload].concat()
}

#[test]
fn plain_frames_are_refused_dropped_or_read() {
    #[track_caller]
    fn check(bytes: Vec<u8>, want: Result<Vec<Received>, TransportError>) {
        // Whole, and byte by byte.
        for piece in [bytes.len(), 1] {
            let (mut side, mut received) = (Transport::plain(MAGIC), Vec::new());
            let result =
                bytes.chunks(piece).try_for_each(|piece| side.receive(piece, &mut none_bytes(), &mut received));
            assert_eq!(result.map(|()| received), want);
        }
    }
    let verack = Command::VERACK.bytes();
    let read = |payload: &[u8]| Received::Frame {
        command: Command::VERACK,
        payload: payload.to_vec(),
        wire_bytes: 24 + payload.len(),
    };
    check(plain_frame(MAGIC, verack, 0, &[]), Ok(vec![read(&[])]));
    let two = [plain_frame(MAGIC, verack, 3, &[1, 2, 3]), plain_frame(MAGIC, verack, 0, &[])].concat();
    check(two, Ok(vec![read(&[1, 2, 3]), read(&[])]));
    check(plain_frame([1, 2, 3, 4], verack, 0, &[]), Err(TransportError::WrongMagic { got: [1, 2, 3, 4] }));
    // 4,000,000 is announced and waited for; one more, or 32 MB, is refused when the header is read.
    check(plain_frame(MAGIC, verack, 4_000_000, &[]), Ok(vec![]));
    check(
        plain_frame(MAGIC, verack, 4_000_001, &[]),
        Err(TransportError::PayloadTooLarge { name: *verack, got: 4_000_001 }),
    );
    check(
        plain_frame(MAGIC, verack, 0x0200_0000, &[]),
        Err(TransportError::PayloadTooLarge { name: *verack, got: 0x0200_0000 }),
    );
    check(
        plain_frame(MAGIC, verack, u32::MAX, &[]),
        Err(TransportError::PayloadTooLarge { name: *verack, got: u32::MAX }),
    );
    let dropped = |reason, wire_bytes| Received::Dropped { reason, wire_bytes };
    let mut wrong = plain_frame(MAGIC, verack, 1, &[1]);
    wrong[20] ^= 1;
    wrong.extend_from_slice(&plain_frame(MAGIC, verack, 0, &[]));
    check(wrong, Ok(vec![dropped(DropReason::WrongChecksum, 25), read(&[])]));
    let unnamed = [plain_frame(MAGIC, &[0xff; 12], 1, &[1]), plain_frame(MAGIC, verack, 0, &[])].concat();
    check(unnamed, Ok(vec![dropped(DropReason::InvalidCommand, 25), read(&[])]));
}

#[test]
fn packets_without_a_known_name_are_dropped() {
    #[track_caller]
    fn check(contents: &[u8], reason: DropReason) {
        let mut line = Line::encrypted(9);
        line.carry().unwrap();
        let Kind::Encrypted(encrypted) = &mut line.sides[0].kind else { panic!("made so") };
        encrypted.send_contents(contents, &mut line.waiting[0]);
        line.send(0, &Message::Verack);
        line.carry().unwrap();
        let dropped = line.received[1].remove(0);
        assert_eq!(dropped, Received::Dropped { reason, wire_bytes: 20 + contents.len() });
        assert_eq!(line.messages(1), [Message::Verack], "the connection goes on");
    }
    check(&[], DropReason::EmptyPacket);
    check(&[29], DropReason::UnknownShortId);
    check(&[255, 1, 2], DropReason::UnknownShortId);
    check(&[0], DropReason::InvalidCommand);
    check(b"\0eleven_byte", DropReason::InvalidCommand);
    check(b"\0wrong\0\0\0\0\0\0x", DropReason::InvalidCommand);
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let mut line = Line::encrypted(9);
    line.carry().unwrap();
    let block = Message::Block(BlockBytes::new(vec![7; 1_500_000]).unwrap());
    let mut least = [f64::INFINITY; 4];
    let mut plain = [Transport::plain(MAGIC), Transport::plain(MAGIC)];
    for _ in 0..20 {
        for (slot, sides) in [(0, &mut line.sides), (2, &mut plain)] {
            let (mut out, mut received) = (Vec::new(), Vec::new());
            let begin = std::time::Instant::now();
            sides[0].send(&block, &mut out);
            least[slot] = least[slot].min(begin.elapsed().as_secs_f64());
            let begin = std::time::Instant::now();
            out.chunks(65_536).for_each(|piece| sides[1].receive(piece, &mut none_bytes(), &mut received).unwrap());
            least[slot + 1] = least[slot + 1].min(begin.elapsed().as_secs_f64());
        }
    }
    let gb = least.map(|seconds| 1.5e-3 / seconds);
    println!("GB/s: v2 send {:.2} receive {:.2}; v1 send {:.2} receive {:.2}", gb[0], gb[1], gb[2], gb[3]);
}
