//! The book of servers over days, without a socket or a clock.

use super::*;

fn server(text: &str) -> Server {
    Server::of_settings(text, [None; 4]).unwrap().remove(0)
}

fn book() -> Book {
    Book::new(vec![server("ssl://us.org:1")], false, true, 7)
}

fn good(address: &str) -> Findings {
    Findings {
        address: Some(address.parse().unwrap()),
        ports: [Some(1), Some(2), None, None],
        newest: "1.6".into(),
        others: Vec::new(),
    }
}

/// Visits one that is due, with this outcome.
#[track_caller]
fn visit(book: &mut Book, now_s: u64, outcome: Outcome) -> Host {
    let host = book.next(now_s).expect("somebody to visit").server.host;
    book.ended(&host, outcome, now_s);
    host
}

fn hosts_told(book: &mut Book, now_s: u64) -> Vec<String> {
    let mut hosts: Vec<String> =
        book.told(false, now_s).iter().map(|row| row[1].as_str().unwrap().to_owned()).collect();
    hosts.sort();
    hosts
}

#[test]
fn one_is_told_of_after_a_visit_and_as_long_as_visits_go_well() {
    let (mut book, hour) = (book(), 3600);
    book.seed(&[server("tcp://a.org:50001"), server("tcp://a.org:50001")]);
    assert_eq!(book.told(false, 0), [json!(["us.org", "us.org", ["v1.7", "s1"]])], "ourselves only");
    visit(&mut book, 1_000, Outcome::Good(good("8.8.8.8")));
    let row = json!(["8.8.8.8", "a.org", ["v1.6", "t1", "s2"]]);
    assert!(book.told(false, 1_000).contains(&row), "with the ports of its features");
    assert_eq!(book.next(1_000 + FRESH_S - EARLY_S - 1), None);
    let again = 1_000 + FRESH_S - EARLY_S;
    visit(&mut book, again, Outcome::Unreached("x".into()));
    assert!(book.told(false, 1_000 + FRESH_S - 1).contains(&row), "one visit that fails is not the end");
    assert!(!book.told(false, 1_000 + FRESH_S).contains(&row));
    assert_eq!(book.counts(1_000 + FRESH_S), Counts { stale: 1, ..Counts::default() });
    // Each rest is twice the one before, and after ten it is forgotten.
    let (mut now_s, mut rests) = (again, Vec::new());
    for _ in 1..10 {
        let before = now_s;
        while book.next(now_s).is_none() {
            now_s += 60;
        }
        rests.push((now_s - before) / 60);
        book.ended(&Host::Name("a.org".into()), Outcome::Unreached("x".into()), now_s);
    }
    assert_eq!(rests, [10, 20, 40, 80, 160, 320, 640, 1280, 2560]);
    assert_eq!(book.counts(now_s), Counts::default());
    assert_eq!(book.next(now_s + 1_000 * hour), None);
}

#[test]
fn one_that_lies_is_told_of_no_more_and_soon_forgotten() {
    let mut book = book();
    book.seed(&[server("tcp://a.org:1")]);
    visit(&mut book, 1, Outcome::Good(good("8.8.8.8")));
    visit(&mut book, FRESH_S, Outcome::Bad("another chain".into()));
    assert_eq!(hosts_told(&mut book, FRESH_S), ["us.org"]);
    assert_eq!(book.counts(FRESH_S), Counts { bad: 1, ..Counts::default() });
    assert_eq!(book.text(), "");
    visit(&mut book, 10 * FRESH_S, Outcome::Bad("another chain".into()));
    visit(&mut book, 20 * FRESH_S, Outcome::Bad("another chain".into()));
    assert_eq!(book.counts(0), Counts::default());
}

#[test]
fn announcements_are_limited_and_come_from_where_the_host_is() {
    let mut book = book();
    let from = |text: &str| Some(text.parse().unwrap());
    #[track_caller]
    fn check(book: &mut Book, text: &str, from: Option<IpAddr>, now_s: u64, want: bool) {
        assert_eq!(book.announce(&[server(text)], from, now_s), want, "{text} at {now_s}");
    }
    check(&mut book, "tcp://a.org:1", from("8.8.8.8"), 1_000, true);
    assert_eq!(book.next(1_000).unwrap().announced_from, from("8.8.8.8"));
    check(&mut book, "tcp://a.org:1", from("8.8.8.8"), 1_599, false);
    check(&mut book, "tcp://b.a.org:1", from("8.8.8.8"), 1_599, false);
    check(&mut book, "tcp://a.org:1", from("8.8.8.8"), 1_600, true);
    check(&mut book, "tcp://9.9.9.9:1", from("8.8.8.8"), 0, false);
    check(&mut book, "tcp://9.9.9.10:1", from("9.9.9.10"), 0, true);
    check(&mut book, "tcp://9.9.9.11:1", None, 0, false);
    check(&mut book, "tcp://us.org:1", from("8.8.8.8"), 0, false);
    check(&mut book, "tcp://10.0.0.1:1", from("10.0.0.1"), 0, false);
    check(&mut book, "ws://c.org:1", from("8.8.8.8"), 0, false);
    let onion = |letter: &str| format!("tcp://{}.onion:1", letter.repeat(56));
    check(&mut book, &onion("a"), None, 5_000, true);
    check(&mut book, &onion("b"), None, 5_000, false);
    check(&mut book, &onion("c"), None, 5_000 + ONION_ANNOUNCED_S, true);
    assert!(!book.announce(&[], from("8.8.8.8"), 0));
    let mut without = Book::new(Vec::new(), false, false, 1);
    check(&mut without, &onion("a"), None, 5_000, false);
    // One that is known, and says that its ports are others, is visited again.
    let host = Host::Address("9.9.9.10".parse().unwrap());
    book.next(0);
    book.ended(&host, Outcome::Good(good("9.9.9.10")), 0);
    check(&mut book, "tcp://9.9.9.10:77", from("9.9.9.10"), 700, true);
    assert_eq!(book.next(700).unwrap().server.tcp(), Some(77));
}

#[test]
fn neither_a_neighbourhood_nor_one_server_can_fill_the_list() {
    let mut book = book();
    let names: Vec<Server> = (0..30).map(|n| server(&format!("tcp://h{n}.org:1"))).collect();
    book.seed(&names);
    for n in 0..10 {
        visit(&mut book, 1, Outcome::Good(good(&format!("8.8.{n}.1"))));
    }
    assert_eq!(hosts_told(&mut book, 1).len(), 1 + TOLD_OF_GROUP);
    visit(&mut book, 1, Outcome::Good(good("8.8.0.1")));
    assert_eq!(book.counts(1).bad, 1, "the same address under another name");
    for n in 0..5 {
        visit(&mut book, 1, Outcome::Good(good(&format!("2a00:0:0:{n}00::1"))));
    }
    assert_eq!(hosts_told(&mut book, 1).len(), 1 + TOLD_OF_GROUP + 5);
    let others: Vec<Server> = (0..100).map(|n| server(&format!("tcp://other{n}.org:1"))).collect();
    let never = book.counts(1).never;
    visit(&mut book, 1, Outcome::Good(Findings { others, ..good("9.1.1.1") }));
    assert_eq!(book.counts(1).never, never - 1 + NOTED_OF_ONE);
    let many: Vec<Server> = (0..2 * KNOWN_MAX).map(|n| server(&format!("tcp://m{n}.org:1"))).collect();
    book.seed(&many);
    assert_eq!(book.known.len(), KNOWN_MAX);
    // Onion services are at most ten of a short list, and more for whoever comes by Tor.
    let mut tor = Book::new(Vec::new(), false, true, 3);
    let letters = |n: usize| [char::from(b'a' + (n / 26) as u8), char::from(b'a' + (n % 26) as u8)];
    for n in 0..60 {
        tor.seed(&[server(&format!("tcp://{}{}.onion:1", letters(n).iter().collect::<String>(), "a".repeat(54)))]);
        visit(&mut tor, 1, Outcome::Good(Findings { address: None, ..good("8.8.8.8") }));
    }
    assert_eq!((tor.told(false, 1).len(), tor.told(true, 1).len()), (10, 50));
}

#[test]
fn what_is_kept_is_not_told_of_before_it_was_visited_again() {
    let mut book = book();
    book.seed(&[server("tcp://a.org:1"), server("tcp://b.org:1"), server("tcp://c.org:1")]);
    for address in ["8.1.1.1", "8.2.1.1"] {
        visit(&mut book, 100_000, Outcome::Good(good(address)));
    }
    let text = book.text();
    assert_eq!(text.lines().count(), 2);
    let mut later = Book::new(Vec::new(), false, true, 9);
    let odd = format!("no line\n{{\"hosts\":{{\"10.0.0.1\":{{\"tcp_port\":1}}}}}}\n{{}}\n{text}{text}");
    later.read(&odd, 100_001);
    assert_eq!(
        (later.counts(100_001), later.told(false, 100_001).len()),
        (Counts { stale: 2, ..Counts::default() }, 0)
    );
    visit(&mut later, 100_001, Outcome::Good(good("8.1.1.1")));
    assert_eq!(later.told(false, 100_001).len(), 1);
    // Those that were good once have ten tries.
    for n in 1..10 {
        assert!(later.next(n * 10_000_000).is_some());
        later.ended(&Host::Name("b.org".into()), Outcome::Unreached("x".into()), n * 10_000_000);
        later.next(n * 10_000_000);
        later.ended(&Host::Name("a.org".into()), Outcome::Unreached("x".into()), n * 10_000_000);
    }
    assert_eq!(later.counts(0).stale + later.counts(0).good, 2);
}
