//! The address book: what one attacker can reach, what survives, and that its tables always agree.

use super::book::{Book, Reachable};
use super::file::FileError;
use super::*;
use crate::hosts::{Groups, HostKind, is_routable};
use crate::wire::{Endpoint, Host, PeerAddress, Services};
use stdx::random::Random;

const NOW_S: u64 = 1_800_000_000;
const MAGIC: [u8; 4] = [1, 2, 3, 4];

fn v4(n: u32) -> Host {
    Host::V4(n.to_be_bytes())
}

/// An address of 20.0.0.0/6 upward, so that all are routable; seen an hour ago.
fn address(n: u32) -> PeerAddress {
    let endpoint = Endpoint { host: v4((20 << 24) + n), port: 8333 };
    PeerAddress { time_s: (NOW_S - 3_600) as u32, services: Services::NETWORK, endpoint }
}

fn book(seed: u64) -> (Book, Random) {
    let mut random = Random::new(seed);
    (Book::new(&mut random), random)
}

#[test]
fn an_address_is_told_selected_tried_and_told_on() {
    let (mut book, mut random) = book(1);
    assert_eq!(book.select(false, Reachable::ALL, NOW_S, &mut random), None);
    assert_eq!(book.add(&[address(1)], &v4(9 << 24), 0, NOW_S, &mut random), 1);
    assert_eq!(book.add(&[address(1)], &v4(9 << 24), 0, NOW_S, &mut random), 0);
    assert_eq!((book.len(), book.counts(HostKind::V4)), (1, (1, 0)));
    assert_eq!(book.select(true, Reachable::ALL, NOW_S, &mut random), Some((address(1), 0)));
    assert_eq!(book.select(true, Reachable::ALL.without(HostKind::V4), NOW_S, &mut random), None);
    book.attempt(&address(1).endpoint, true, NOW_S);
    assert_eq!(book.select(true, Reachable::ALL, NOW_S, &mut random), Some((address(1), NOW_S)));
    assert!(book.good(&address(1).endpoint, NOW_S));
    assert_eq!(book.counts(HostKind::V4), (0, 1));
    assert_eq!(book.select(true, Reachable::ALL, NOW_S, &mut random), None);
    assert_eq!(book.select(false, Reachable::ALL, NOW_S, &mut random), Some((address(1), NOW_S)));
    // What others say is added, what the peer says replaces.
    let more = PeerAddress { services: Services::WITNESS, ..address(1) };
    book.add(&[more], &v4(9 << 24), 0, NOW_S, &mut random);
    let services = |book: &Book, random: &mut Random| {
        book.select(false, Reachable::ALL, NOW_S, random).expect("there is one").0.services
    };
    assert_eq!(services(&book, &mut random), Services::NETWORK.and(Services::WITNESS));
    book.set_services(&address(1).endpoint, Services::WITNESS);
    assert_eq!(services(&book, &mut random), Services::WITNESS);
    assert_eq!(
        book.add(
            &[PeerAddress { endpoint: Endpoint { host: v4(10 << 24), port: 1 }, ..address(0) }],
            &v4(0),
            0,
            NOW_S,
            &mut random
        ),
        0
    );
    book.check_consistency();
}

#[test]
fn whoever_tells_from_one_group_reaches_a_sixteenth_of_the_table() {
    let (mut book, mut random) = book(2);
    // 300,000 addresses of 300 groups, from all over one /16.
    for n in 0..300_000u32 {
        let told = address((n % 300) << 16 | n / 300);
        book.add(&[told], &v4(9 << 24 | n & 0xffff), 0, NOW_S, &mut random);
    }
    assert!((3_500..=64 * 64).contains(&book.len()), "{}", book.len());
    book.check_consistency();
}

#[test]
fn addresses_of_one_group_reach_eight_buckets_of_those_tried() {
    let (mut book, mut random) = book(3);
    for n in 0..20_000u32 {
        let told = address(n & 0xffff);
        book.add(&[told], &v4((30 + n % 190) << 24), 0, NOW_S, &mut random);
        book.good(&told.endpoint, NOW_S);
    }
    let (_, tried) = book.counts(HostKind::V4);
    assert!((400..=8 * 64).contains(&tried), "{tried}");
    book.check_consistency();
}

#[test]
fn the_book_is_bounded_whatever_is_told() {
    let (mut book, mut random) = book(4);
    for n in 0..250_000u32 {
        let told = address(n.wrapping_mul(2_654_435_761) >> 7);
        book.add(&[told], &v4((30 + n % 190) << 24 | n << 9), 0, NOW_S, &mut random);
        if n % 4 == 0 {
            book.good(&told.endpoint, NOW_S);
        }
    }
    assert!((30_000..=65_536 + 16_384).contains(&book.len()), "{}", book.len());
    book.check_consistency();
}

#[test]
fn the_tables_agree_after_any_operations() {
    for seed in 0..20 {
        let (mut book, mut random) = book(100 + seed);
        let mut now_s = NOW_S;
        for _ in 0..3_000 {
            now_s += random.below(2_000);
            // Few groups and ports, so that places are fought for.
            let endpoint =
                Endpoint { host: v4((20 << 24) + (random.below(40) as u32)), port: random.below(200) as u16 };
            let time_s = (now_s - random.below(4_000_000)) as u32;
            let told = PeerAddress { time_s, services: Services::NETWORK, endpoint };
            let source = v4((30 + random.below(190) as u32) << 24);
            match random.below(8) {
                0..=3 => drop(book.add(&[told], &source, random.below(7_200), now_s, &mut random)),
                4 => drop(book.good(&endpoint, now_s)),
                5 => book.attempt(&endpoint, random.chance(1, 2), now_s),
                6 => book.resolve_tests(now_s),
                _ => drop((book.to_test(&mut random), book.sample(50, 50, None, now_s, &mut random))),
            }
        }
        book.check_consistency();
        assert!(book.len() > 500, "seed {seed}: {}", book.len());
        let again = Book::decode(&book.encode(MAGIC), MAGIC, Groups::default(), now_s).unwrap();
        again.check_consistency();
        assert!(again.len() * 10 > book.len() * 9, "{} of {} come back", again.len(), book.len());
        assert_eq!(again.counts(HostKind::V4).1, book.counts(HostKind::V4).1, "all that answered come back");
    }
}

#[test]
fn what_is_worth_nothing_is_not_told_on() {
    #[track_caller]
    fn check(seen_s: u64, attempts: u32, success_s: Option<u64>, want: bool) {
        let (mut book, mut random) = book(5);
        let told = PeerAddress { time_s: seen_s as u32, ..address(1) };
        book.add(&[told], &v4(9 << 24), 0, NOW_S, &mut random);
        if let Some(success_s) = success_s {
            book.good(&told.endpoint, success_s);
        }
        for n in 0..attempts {
            // Each failure counts, since something else answered in between.
            book.good(&address(99).endpoint, NOW_S - 10_000 + u64::from(n) * 100 + 1);
            book.attempt(&told.endpoint, true, NOW_S - 10_000 + u64::from(n) * 100 + 2);
        }
        let sample = book.sample(10, 100, None, NOW_S, &mut random);
        assert_eq!(sample.len(), usize::from(want));
    }
    const DAY_S: u64 = 24 * 3600;
    check(NOW_S - 30 * DAY_S, 0, None, true);
    check(NOW_S - 30 * DAY_S - 1, 0, None, false);
    check(NOW_S + 600, 0, None, true);
    check(NOW_S + 601, 0, None, false);
    check(NOW_S, 2, None, true);
    check(NOW_S, 3, None, false);
    check(NOW_S, 9, Some(NOW_S - 8 * DAY_S), true);
    check(NOW_S, 10, Some(NOW_S - 8 * DAY_S), false);
    check(NOW_S, 10, Some(NOW_S - 6 * DAY_S), true);
}

#[test]
fn failures_count_once_for_each_time_anything_worked() {
    let (mut book, mut random) = book(6);
    book.add(&[address(1), address(2)], &v4(9 << 24), 0, NOW_S, &mut random);
    book.good(&address(2).endpoint, NOW_S);
    // Our own line is down: a hundred failures are one.
    for n in 1..=100 {
        book.attempt(&address(1).endpoint, true, NOW_S + n);
    }
    assert_eq!(book.sample(10, 100, None, NOW_S + 200, &mut random).len(), 2);
}

#[test]
fn a_place_among_those_tried_is_given_up_after_a_test_only() {
    // Two addresses that want one place, found by trying.
    let (mut probe, mut random) = book(7);
    let told: Vec<PeerAddress> = (0..60_000).map(address).filter(|one| is_routable(&one.endpoint.host)).collect();
    book_of_all(&mut probe, &told, &mut random);
    let key = probe.key;
    let first = told[0].endpoint;
    let rival = told[1..].iter().find(|one| key.tried_place(&one.endpoint) == key.tried_place(&first));
    let rival = rival.expect("one of 60,000 of one group").endpoint;
    const HOUR_S: u64 = 3600;
    #[track_caller]
    fn check(
        key: [u64; 2],
        first: Endpoint,
        rival: Endpoint,
        then: impl Fn(&mut Book),
        resolve_s: u64,
        want_first: bool,
        want_waiting: bool,
    ) {
        let key = super::buckets::BookKey { secret: key, groups: Groups::default() };
        let (mut book, mut random) = (Book::with_key(key), Random::new(1));
        let tell = |endpoint| PeerAddress { endpoint, ..address(0) };
        book.add(&[tell(first)], &v4(9 << 24), 0, NOW_S, &mut random);
        book.add(&[tell(rival)], &v4(11 << 24), 0, NOW_S, &mut random);
        assert!(book.good(&first, NOW_S));
        assert!(!book.good(&rival, NOW_S + 5 * HOUR_S), "the place is taken");
        assert_eq!(book.to_test(&mut random).map(|(one, _)| one.endpoint), Some(first));
        then(&mut book);
        book.resolve_tests(resolve_s);
        book.check_consistency();
        let tried = book.entries().find(|entry| entry.is_tried).expect("one is").endpoint;
        assert_eq!((tried == first, book.to_test(&mut random).is_some()), (want_first, want_waiting));
        assert_eq!(book.len(), 2, "who lost is told again");
    }
    let at = NOW_S + 5 * HOUR_S;
    check(key.secret, first, rival, |_| (), at + 60, true, true);
    check(key.secret, first, rival, |book| assert!(book.good(&first, at + 30)), at + 60, true, false);
    check(key.secret, first, rival, |book| book.attempt(&first, false, at + 30), at + 90, true, true);
    check(key.secret, first, rival, |book| book.attempt(&first, false, at + 30), at + 91, false, false);
    check(key.secret, first, rival, |_| (), at + 40 * 60, true, true);
    check(key.secret, first, rival, |_| (), at + 40 * 60 + 1, false, false);
}

fn book_of_all(book: &mut Book, told: &[PeerAddress], random: &mut Random) {
    book.add(told, &v4(9 << 24), 0, NOW_S, random);
    assert!(!book.is_empty());
}

#[test]
fn recent_failures_are_chosen_seldom() {
    let (mut book, mut random) = book(8);
    book.add(&[address(1), address(0x10_0000)], &v4(9 << 24), 0, NOW_S, &mut random);
    book.attempt(&address(1).endpoint, true, NOW_S);
    let mut chosen = 0;
    for _ in 0..2_000 {
        let (one, _) = book.select(true, Reachable::ALL, NOW_S + 60, &mut random).unwrap();
        chosen += usize::from(one == address(1));
    }
    assert!((1..400).contains(&chosen), "{chosen} of 2,000");
}

#[test]
fn a_part_of_the_book_is_told_and_the_same_for_a_day() {
    let (mut book, mut random) = book(9);
    for n in 0..2_000 {
        book.add(&[address(n << 12)], &v4((30 + n % 190) << 24), 0, NOW_S, &mut random);
    }
    let count = book.len();
    let mut answers = Answers::default();
    let first = answers.answer(&mut book, HostKind::V4, 8333, NOW_S, &mut random).to_vec();
    assert_eq!(first.len(), count * 23 / 100);
    book.check_consistency();
    assert_eq!(answers.answer(&mut book, HostKind::V4, 8333, NOW_S + 20 * 3600, &mut random), first);
    assert_ne!(answers.answer(&mut book, HostKind::Onion, 8334, NOW_S, &mut random), first);
    assert_ne!(answers.answer(&mut book, HostKind::V4, 8333, NOW_S + 27 * 3600, &mut random), first);
    assert_eq!(book.sample(1_000, 100, Some(HostKind::Onion), NOW_S, &mut random), []);
    assert_eq!(book.sample(7, 100, None, NOW_S, &mut random).len(), 7);
}

#[test]
fn files_come_back_and_damage_is_seen() {
    let (mut book, mut random) = book(10);
    let onion = Endpoint { host: Host::Onion([7; 32]), port: 8333 };
    book.add(&[address(1), PeerAddress { endpoint: onion, ..address(1) }], &v4(9 << 24), 0, NOW_S, &mut random);
    book.good(&onion, NOW_S);
    let bytes = book.encode(MAGIC);
    let again = Book::decode(&bytes, MAGIC, Groups::default(), NOW_S).unwrap();
    let sorted = |book: &Book| {
        let mut entries: Vec<String> = book.entries().map(|entry| format!("{:?}", entry.endpoint)).collect();
        entries.sort();
        (entries, book.counts(HostKind::V4), book.counts(HostKind::Onion), book.key.secret)
    };
    assert_eq!(sorted(&again), sorted(&book));
    assert_eq!(Book::decode(&bytes, [9; 4], Groups::default(), NOW_S).err(), Some(FileError::OtherNetwork));
    for end in 0..bytes.len() {
        assert!(Book::decode(&bytes[..end], MAGIC, Groups::default(), NOW_S).is_err(), "{end}");
    }
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        assert!(Book::decode(&flipped, MAGIC, Groups::default(), NOW_S).is_err(), "{at}");
    }
    let anchors = [address(1), address(2), address(3)];
    let bytes = encode_anchors(&anchors, MAGIC);
    assert_eq!(decode_anchors(&bytes, MAGIC).as_deref(), Ok(&anchors[..2]));
    assert_eq!(decode_anchors(&book.encode(MAGIC), MAGIC), Err(FileError::NotOurs));
    let mut newer = bytes;
    newer[4] = 2;
    assert_eq!(decode_anchors(&newer, MAGIC), Err(FileError::NewerVersion { got: 2 }));
}
