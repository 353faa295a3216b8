//! Maps made by a slow writer, compared with a plain table of prefixes; and maps that are not whole.

use std::sync::Arc;

use super::asmap::{AsMap, AsMapError, Classes, JUMPS, KINDS, MATCHES, SYSTEMS};
use super::{Groups, Subnet};
use crate::wire::Host;
use stdx::random::Random;

/// A tree of prefixes: a leaf is one system for all below.
enum Tree {
    Leaf(u32),
    Fork(Box<[Tree; 2]>),
}

impl Tree {
    /// The system of the longest prefix of the table, for all addresses below `prefix`.
    fn of(table: &[(u128, u32, u32)], prefix: u128, depth: u32) -> Tree {
        let mask = |bits: u32| if bits == 0 { 0 } else { u128::MAX << (128 - bits) };
        let is_split = table.iter().any(|(first, bits, _)| *bits > depth && first & mask(depth) == prefix);
        if !is_split {
            let covers = table.iter().filter(|(first, bits, _)| *bits <= depth && prefix & mask(*bits) == *first);
            return Tree::Leaf(covers.max_by_key(|(_, bits, _)| *bits).map_or(0, |(_, _, system)| *system));
        }
        let one = prefix | 1 << (127 - depth);
        match (Tree::of(table, prefix, depth + 1), Tree::of(table, one, depth + 1)) {
            (Tree::Leaf(a), Tree::Leaf(b)) if a == b => Tree::Leaf(a),
            (low, high) => Tree::Fork(Box::new([low, high])),
        }
    }
}

fn put(out: &mut Vec<bool>, classes: &Classes, number: u32) {
    let mut place = number - classes.least;
    for (class, bits) in classes.bits.iter().enumerate() {
        let is_last = class + 1 == classes.bits.len();
        if !is_last && place >= 1 << bits {
            out.push(true);
            place -= 1 << bits;
            continue;
        }
        out.extend((!is_last).then_some(false));
        out.extend((0..*bits).rev().map(|bit| place >> bit & 1 == 1));
        return;
    }
    panic!("{number} is in no class");
}

/// Bits of the tree: forks with an empty side become matches, which return 0 where they fail.
fn write(tree: &Tree, out: &mut Vec<bool>) {
    match tree {
        Tree::Leaf(system) => {
            put(out, &KINDS, 0);
            put(out, &SYSTEMS, *system);
        }
        Tree::Fork(sides) => match &**sides {
            [Tree::Leaf(0), _] | [_, Tree::Leaf(0)] => {
                // As many forks as there are with an empty side, eight to an instruction, the odd ones first.
                let (mut path, mut tree) = (Vec::new(), tree);
                while let Tree::Fork(sides) = tree {
                    let side = match &**sides {
                        [Tree::Leaf(0), _] => 1,
                        [_, Tree::Leaf(0)] => 0,
                        _ => break,
                    };
                    path.push(side as u32);
                    tree = &sides[side];
                }
                let odd = path.len() % 8;
                let (first, rest) = path.split_at(odd);
                for part in [first].into_iter().chain(rest.chunks(8)).filter(|part| !part.is_empty()) {
                    put(out, &KINDS, 2);
                    put(out, &MATCHES, part.iter().fold(1, |pattern, bit| pattern << 1 | bit));
                }
                write(tree, out);
            }
            [low, high] => {
                let mut below = Vec::new();
                write(low, &mut below);
                put(out, &KINDS, 1);
                put(out, &JUMPS, below.len() as u32);
                out.append(&mut below);
                write(high, out);
            }
        },
    }
}

fn bytes_of(bits: &[bool]) -> Vec<u8> {
    let byte = |bits: &[bool]| bits.iter().enumerate().map(|(at, bit)| u8::from(*bit) << at).sum();
    bits.chunks(8).map(byte).collect()
}

/// A table of prefixes within 16 bits, so that they meet each other.
fn table(random: &mut Random, count: usize) -> Vec<(u128, u32, u32)> {
    let mut table: Vec<(u128, u32, u32)> = Vec::new();
    while table.len() < count {
        let bits = 1 + random.below(16) as u32;
        let first = (u128::from(random.next_u64() as u16) << 112) & (u128::MAX << (128 - bits));
        if table.iter().all(|(other, length, _)| (*other, *length) != (first, bits)) {
            // Systems of every class.
            let class = 1 + random.below(24);
            let system = 1 + random.below(1 << class);
            table.push((first, bits, system as u32));
        }
    }
    table
}

#[test]
fn maps_say_what_the_table_says() {
    let mut random = Random::new(7);
    for round in 0..200 {
        let table = table(&mut random, 1 + round % 40);
        let tree = Tree::of(&table, 0, 0);
        if matches!(tree, Tree::Leaf(0)) {
            continue;
        }
        let mut bits = Vec::new();
        write(&tree, &mut bits);
        let map = AsMap::new(bytes_of(&bits)).unwrap_or_else(|error| panic!("{error}: {table:?}"));
        for _ in 0..200 {
            let address = u128::from(random.next_u64() as u16) << 112 | u128::from(random.next_u64());
            let covers = table.iter().filter(|(first, bits, _)| address & (u128::MAX << (128 - bits)) == *first);
            let want = covers.max_by_key(|(_, bits, _)| *bits).map_or(0, |(_, _, system)| *system);
            assert_eq!(map.system_of(&address.to_be_bytes()), want, "{address:032x} {table:?}");
        }
    }
}

#[test]
fn a_default_is_what_a_failed_match_returns() {
    let mut bits = Vec::new();
    put(&mut bits, &KINDS, 3);
    put(&mut bits, &SYSTEMS, 77);
    put(&mut bits, &KINDS, 2);
    put(&mut bits, &MATCHES, 0b1_0000_0000 | 0x20);
    put(&mut bits, &KINDS, 0);
    put(&mut bits, &SYSTEMS, 16_743_423);
    let map = AsMap::new(bytes_of(&bits)).unwrap();
    let address = |first: u8| std::array::from_fn(|at| if at == 0 { first } else { 0 });
    assert_eq!([map.system_of(&address(0x20)), map.system_of(&address(0x21))], [16_743_423, 77]);
}

#[test]
fn damaged_maps_are_refused() {
    #[track_caller]
    fn check(steps: &[(u32, Option<(&Classes, u32)>)], want: AsMapError) {
        let mut bits = Vec::new();
        for (kind, argument) in steps {
            put(&mut bits, &KINDS, *kind);
            argument.into_iter().for_each(|(classes, number)| put(&mut bits, classes, *number));
        }
        assert_eq!(AsMap::new(bytes_of(&bits)).err(), Some(want));
    }
    let (give, default) = ((0, Some((&SYSTEMS, 1))), (3, Some((&SYSTEMS, 1))));
    let jump = |bits| (1, Some((&JUMPS, bits)));
    assert!(AsMap::new(Vec::new()).is_err_and(|error| error == AsMapError::EndsEarly));
    check(&[(0, None)], AsMapError::EndsEarly);
    check(&[default], AsMapError::EndsEarly);
    check(&[give, give], AsMapError::TrailingBits);
    check(&[default, default, give], AsMapError::Wasteful);
    check(&[default, give], AsMapError::Wasteful);
    let short = (2, Some((&MATCHES, 2)));
    check(&[short, short, give], AsMapError::Wasteful);
    // A return is 17 bits: a jump over it, into it, behind it, beyond the end.
    assert!(
        AsMap::new(bytes_of(&{
            let mut bits = Vec::new();
            put(&mut bits, &KINDS, 1);
            put(&mut bits, &JUMPS, 17);
            (0..2).for_each(|_| {
                put(&mut bits, &KINDS, 0);
                put(&mut bits, &SYSTEMS, 1);
            });
            bits
        }))
        .is_ok()
    );
    check(&[jump(18), give, give], AsMapError::WrongJump);
    check(&[jump(100), give, give], AsMapError::WrongJump);
    check(&[jump(40), jump(40), give, give, give], AsMapError::WrongJump);
    let deep: Vec<_> = (0..17).map(|_| (2, Some((&MATCHES, 256)))).chain([give]).collect();
    check(&deep, AsMapError::TooDeep);
    check(&[&deep[1..], &[give]].concat(), AsMapError::TrailingBits);
}

#[test]
fn every_cut_and_most_flips_of_a_map_are_refused() {
    let mut random = Random::new(9);
    let mut bits = Vec::new();
    write(&Tree::of(&table(&mut random, 40), 0, 0), &mut bits);
    let bytes = bytes_of(&bits);
    for length in 0..bytes.len() {
        assert!(AsMap::new(bytes[..length].to_vec()).is_err(), "cut to {length} bytes");
    }
    for trailing in [0u8, 1] {
        assert!(AsMap::new([&bytes[..], &[trailing]].concat()).is_err());
    }
    let (mut refused, mut addresses) = (0, Random::new(1));
    for at in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        match AsMap::new(damaged) {
            Err(_) => refused += 1,
            // What passes gives an answer for every address.
            Ok(map) => (0..20).for_each(|_| {
                map.system_of(&addresses.bytes());
            }),
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_map_makes_groups_of_what_it_knows() {
    let v4 = |text: &str, system| {
        let subnet: Subnet = text.parse().unwrap();
        (u128::from_be_bytes(subnet.first.to_v6_bytes()), 96 + u32::from(subnet.bits), system)
    };
    let v6 = (0x2001_4860u128 << 96, 32, 15_169);
    let mut bits = Vec::new();
    write(&Tree::of(&[v4("8.8.0.0/16", 15_169), v4("1.2.0.0/15", 7), v4("10.0.0.0/8", 9), v6], 0, 0), &mut bits);
    let groups = Groups::by(Arc::new(AsMap::new(bytes_of(&bits)).unwrap()));
    let of = |text: &str| groups.of(&text.parse::<Host>().unwrap());
    assert_eq!(of("8.8.4.4"), of("2001:4860::1"), "one operator");
    assert_eq!(of("1.2.0.1"), of("1.3.0.1"));
    assert_eq!(of("1.2.0.1"), of("2002:0102:0001::"), "6to4");
    assert_ne!(of("1.3.0.1"), of("1.4.0.1"));
    assert_eq!(of("1.4.0.1"), Groups::default().of(&"1.4.0.1".parse().unwrap()), "not on the map");
    assert_eq!(of("10.1.1.1"), of("192.168.0.1"), "nobody can reach them");
    let mapped = |text: &str| groups.mapped_as(&text.parse().unwrap());
    assert_eq!([mapped("8.8.4.4"), mapped("1.2.0.1"), mapped("1.4.0.1"), mapped("10.0.0.1")], [15_169, 7, 0, 0]);
    let onion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
    assert_eq!(mapped(onion), 0);
}
