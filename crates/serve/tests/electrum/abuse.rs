//! Hostile and broken clients: each is refused or dropped, and nobody else notices.
//!
//! In:     bytes no wallet sends; limits made small where waiting for the real ones would take minutes.
//! Out:    one test a kind of abuse.
//! Fails:  where the server waits, grows, or stops answering others.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use primitives::ScriptHash;
use serde_json::{Value, json};

use crate::chain::{coinbase, mainnet, next, sample, script};
use crate::client::{Server, hash_of, serve};

/// The server still answers a well-behaved client, and holds nothing of the others.
#[track_caller]
fn is_well(server: &Server) {
    let mut client = server.greet();
    assert_eq!(client.call("server.ping", json!([])), Value::Null);
    drop(client);
    server.wait_for("sessions_now", 0);
    assert_eq!(server.count("line_bytes_now"), 0);
    assert_eq!(server.count("bytes_waiting_now"), 0);
    assert_eq!(server.count("subscriptions_now"), 0);
    assert_eq!(server.count("dropped_fault"), 0);
}

#[test]
fn a_hundred_megabytes_without_a_newline_are_cut_off_after_one() {
    let server = serve(mainnet(), |_| {});
    let mut client = server.greet();
    let piece = vec![b'x'; 1 << 20];
    let mut sent = 0;
    for _ in 0..100 {
        // The server hangs up: some write fails.
        match client.stream.write_all(&piece) {
            Ok(()) => sent += 1,
            Err(_) => break,
        }
    }
    assert!(sent < 100, "all 100 MB were taken");
    drop(client);
    server.wait_for("dropped_bad_input", 1);
    // Read before the line was given up: the line, and what one read takes.
    assert!(server.count("bytes_in") < (1 << 20) + 65_536, "{} bytes read", server.count("bytes_in"));
    is_well(&server);
}

#[test]
fn the_longest_line_is_answered_and_one_byte_more_is_not() {
    let server = serve(mainnet(), |limits| limits.line_bytes_max = 1000);
    let mut client = server.greet();
    let padded = |length: usize| {
        let request = r#"{"id":1,"method":"server.ping"}"#;
        format!("{request}{}", " ".repeat(length - request.len()))
    };
    assert_eq!(client.ask(&padded(1000))["id"], 1);
    let answer = client.ask(&padded(1001));
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
    assert!(client.is_closed());
    is_well(&server);
}

#[test]
fn long_lines_of_all_sessions_together_are_bounded() {
    let server = serve(mainnet(), |limits| limits.line_bytes_shared_max = 1 << 20);
    // Eight half lines of 512 KiB are 4 MiB; the bound is one.
    let mut clients: Vec<_> = (0..8).map(|_| server.greet()).collect();
    let half = vec![b' '; 512 * 1024];
    for client in &mut clients {
        let _ = client.stream.write_all(&half); // the later ones are hung up on while they write
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while server.count("dropped_bad_input") < 4 {
        assert!(Instant::now() < deadline, "{} dropped", server.count("dropped_bad_input"));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(server.count("line_bytes_now") <= 3 << 20, "{}", server.count("line_bytes_now"));
    let mut short = server.greet();
    assert_eq!(short.call("server.ping", json!([])), Value::Null, "short lines need nothing of the shared room");
    drop((clients, short));
    is_well(&server);
}

#[test]
fn one_byte_at_a_time_runs_into_the_line_timer() {
    let server = serve(mainnet(), |limits| limits.line_time_max = Duration::from_millis(300));
    let mut client = server.greet();
    let started = Instant::now();
    while client.stream.write_all(b"[").is_ok() && started.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(started.elapsed() < Duration::from_secs(4), "it was never hung up on");
    server.wait_for("dropped_timeout", 1);
    is_well(&server);
}

#[test]
fn the_silent_are_pinged_and_the_dead_hung_up_on() {
    let server = serve(mainnet(), |limits| {
        limits.silence_time_max = Duration::from_millis(300);
        limits.pong_time_max = Duration::from_millis(900);
    });
    let greet = |version: &str| {
        let mut client = server.connect();
        assert_eq!(client.call("server.version", json!(["test", version]))[1], version);
        client
    };
    let (mut old, mut dead, mut alive) = (greet("1.6"), greet("1.7"), greet("1.7"));
    // Any answer is one, even from a client that does not know what a ping is; each is asked for once.
    for (number, answer) in (1..).zip([r#""result":{"data":""}"#, r#""error":{"code":-32601,"message":"what?"}"#]) {
        let ping = alive.json();
        let want =
            json!({"jsonrpc": "2.0", "id": format!("ping-{number}"), "method": "server.ping", "params": [0, ""]});
        assert_eq!(ping, want);
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"ping-{number}\",{answer}}}");
        alive.send_line(&line);
        // A second answer, or one to nothing, is no request.
        assert_eq!(alive.ask(&line)["error"]["code"], -32600);
    }
    assert_eq!(dead.json()["method"], "server.ping");
    assert!(dead.line().is_none(), "nothing came in time");
    server.wait_for("dropped_timeout", 1);
    assert_eq!(alive.json()["id"], "ping-3");
    assert_eq!(alive.call("server.ping", json!([])), json!({"data": ""}), "a request is an answer too");
    assert_eq!(old.call("server.ping", json!([])), json!(null), "1.6 knows no ping of ours, and none came");
}

#[test]
fn who_says_nothing_is_hung_up_on() {
    let server = serve(mainnet(), |limits| {
        limits.handshake_time_max = Duration::from_millis(150);
        limits.idle_time_max = Duration::from_millis(1200);
    });
    let started = Instant::now();
    assert!(server.connect().is_closed());
    assert!(started.elapsed() < Duration::from_millis(1100), "the greeting has its own timer");
    // Blank lines are no greeting.
    let mut blank = server.connect();
    let started = Instant::now();
    while blank.stream.write_all(b"\r\n").is_ok() && started.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(started.elapsed() < Duration::from_secs(3));
    let mut greeted = server.greet();
    std::thread::sleep(Duration::from_millis(600));
    greeted.call("server.ping", json!([]));
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(greeted.call("server.ping", json!([])), Value::Null, "a request starts the idle timer again");
    assert!(greeted.is_closed());
    server.wait_for("dropped_timeout", 3);
    is_well(&server);
}

#[test]
fn bytes_that_are_no_text_end_the_session() {
    let server = serve(mainnet(), |_| {});
    for bytes in
        [&b"\xff\xfe\n"[..], b"{\"id\":1,\"method\":\"\xc3\x28\"}\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\n"]
    {
        let mut client = server.greet();
        client.send(bytes);
        assert_eq!(client.json()["error"]["code"], -32700);
        assert!(client.is_closed());
    }
    // Text that is no JSON is told so, and the session goes on for a while.
    let mut client = server.greet();
    for n in 0..9 {
        let line = ["\u{feff}{}", "\0", "GET / HTTP/1.1", "{\"id\":1", "{'id':1}", "nul", "[1,", "]", "x"][n];
        assert_eq!(client.ask(line)["error"]["code"], -32700, "{line:?}");
    }
    assert_eq!(client.call("server.ping", json!([])), Value::Null);
    for _ in 0..10 {
        client.send_line("x");
    }
    for _ in 0..10 {
        assert_eq!(client.json()["error"]["code"], -32700);
    }
    assert!(client.is_closed(), "ten in a row are enough");
    is_well(&server);
}

#[test]
fn nesting_of_any_depth_is_refused_and_not_followed() {
    let server = serve(mainnet(), |_| {});
    let mut client = server.greet();
    let deep = |open: &str, close: &str, count: usize| open.repeat(count) + &close.repeat(count);
    for count in [10, 127, 128, 129, 100_000] {
        let lists = deep("[", "]", count);
        assert_eq!(client.ask(&lists)[0]["error"]["code"], -32600, "a batch in a batch, {count} deep");
        let params = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"blockchain.block.header","params":[{lists}]}}"#);
        assert_eq!(client.ask(&params)["error"]["code"], -32602, "{count}");
        let version = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"blockchain.estimatefee","params":[1,{lists}]}}"#);
        assert_eq!(client.ask(&version)["error"]["code"], -32602, "{count}");
        let id = format!(r#"{{"jsonrpc":"2.0","id":{lists},"method":"server.ping"}}"#);
        assert_eq!(client.ask(&id)["error"]["code"], -32600, "{count}");
        let objects = deep(r#"{"a":"#, "}", count.min(99_999)).replace(":}", ":1}");
        let params = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server.ping","params":{objects}}}"#);
        assert_eq!(client.ask(&params)["error"]["code"], -32602, "{count}");
    }
    drop(client);
    is_well(&server);
}

#[test]
fn wrong_types_and_numbers_are_named_and_refused() {
    let server = serve(sample(), |_| {});
    let mut client = server.greet();
    let script = hash_of(&script(1));
    let mut check = |method: &str, params: &str, want: i64| {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"blockchain.{method}","params":{params}}}"#);
        assert_eq!(client.ask(&line)["error"]["code"], want, "{method} {params}");
    };
    for wrong in ["true", "null", "\"0\"", "-1", "-0", "0.0", "1e2", "1e309", "18446744073709551616", "[]", "{}"] {
        check("block.header", &format!("[{wrong}]"), -32602);
        check("block.header", &format!("[0,{wrong}]"), -32602);
        check("block.headers", &format!("[{wrong},1]"), -32602);
        check("block.headers", &format!("[0,{wrong}]"), -32602);
        check("transaction.id_from_pos", &format!("[0,{wrong}]"), -32602);
        check("estimatefee", &format!("[{wrong}]"), -32602);
    }
    for huge in ["11", "4294967295", "4294967296", "9007199254740993", "18446744073709551615"] {
        check("block.header", &format!("[{huge}]"), 1);
        check("block.header", &format!("[0,{huge}]"), 1);
        check("transaction.id_from_pos", &format!("[{huge},0]"), 1);
        check("transaction.id_from_pos", &format!("[0,{huge}]"), 1);
        check("block.headers", &format!("[0,1,{huge}]"), 1);
    }
    let digits = |count: usize| format!("[\"{}\"]", "a".repeat(count));
    for wrong in [&digits(63), &digits(65), "[\"\"]", "[1]", "[null]", "[[]]", "[]", "{}", "7", "\"x\""] {
        for method in ["get_balance", "get_history", "get_mempool", "listunspent", "subscribe", "unsubscribe"] {
            check(&format!("scripthash.{method}"), wrong, -32602);
        }
        check("transaction.get", wrong, -32602);
    }
    check("scripthash.get_balance", &format!("[\"{script}\",1]"), -32602);
    check("scripthash.get_balance", &format!("{{\"hash\":\"{script}\"}}"), -32602);
    check("scripthash.get_balance", &format!("{{\"scripthash\":\"{script}\",\"scripthash\":\"{script}\"}}"), -32602);
    let txid = "0e3e2357e806b6cdb1f70b54c3a3a17b6714ee1f0e68bebb44a74b1efd512098";
    for wrong in ["1", "0", "null", "\"true\"", "[]"] {
        check("transaction.get", &format!("[\"{txid}\",{wrong}]"), -32602);
    }
    for broadcast in ["[\"0\"]", "[\"zz\"]", "[1]", "[]"] {
        check("transaction.broadcast", broadcast, -32602);
    }
    for broadcast in ["[\"\"]", "[\"00\"]", "[\"0100000000010000000000\"]", "[\"0100000000000000000000\"]"] {
        check("transaction.broadcast", broadcast, 1);
    }
    check("transaction.broadcast", "[\"01000000000000000000\"]", 2);
    check("no_such_method", "[]", -32601);
    assert_eq!(client.call("server.ping", json!([])), Value::Null);
}

#[test]
fn batches_that_are_empty_or_giant_are_refused_as_one() {
    let server = serve(mainnet(), |_| {});
    let mut client = server.greet();
    let batch = |count: usize| format!("[{}]", vec![r#"{"id":1,"method":"server.ping"}"#; count].join(","));
    assert_eq!(client.ask("[]")["error"]["code"], -32600);
    for count in [1, 345, 1000] {
        assert_eq!(client.ask(&batch(count)).as_array().unwrap().len(), count);
    }
    assert_eq!(client.ask(&batch(1001))["error"]["code"], -32600);
    assert_eq!(client.ask(&format!("[{}0]", "0,".repeat(500_000)))["error"]["code"], -32600);
    assert_eq!(client.ask(&format!("[{}0]", "0,".repeat(999))).as_array().unwrap().len(), 1000);
    client.send_line(r#"[{"method":"server.ping"},{"method":"server.ping"}]"#);
    assert_eq!(client.call("server.ping", json!([])), Value::Null, "a batch of notifications has no answer");
    // A batch before the greeting: what was answered is whole, and the session ends.
    let mut early = server.connect();
    let answers = early.ask(&batch(3));
    assert_eq!(answers[0]["error"]["code"], 1);
    assert!(early.is_closed());
    drop((client, early));
    is_well(&server);
}

#[test]
fn who_never_reads_is_dropped_and_delays_nobody() {
    let chain = sample();
    let long = ScriptHash([7; 32]);
    chain.pad(long, 1_000_000);
    let server = serve(chain, |limits| limits.write_time_max = Duration::from_secs(2));
    let mut deaf = server.greet();
    deaf.call("blockchain.headers.subscribe", json!([]));
    deaf.call("blockchain.scripthash.subscribe", json!([hash_of(&script(1))]));
    deaf.send_line(&format!(r#"{{"id":1,"method":"blockchain.scripthash.get_history","params":["{long}"]}}"#));
    let mut other = server.greet();
    other.call("blockchain.scripthash.subscribe", json!([hash_of(&script(1))]));
    let mut slowest = Duration::ZERO;
    while server.count("dropped_slow_reader") == 0 {
        let block = next(&server.chain, &[coinbase(server.chain.plain_view().next_tag(), 1)]);
        server.events.send(server.chain.connect(block)).unwrap();
        let asked = Instant::now();
        assert_eq!(other.json()["method"], "blockchain.scripthash.subscribe");
        slowest = slowest.max(asked.elapsed());
        assert!(server.count("bytes_waiting_now") < 9 << 20);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(slowest < Duration::from_millis(1500), "a notice took {slowest:?}");
    drop((deaf, other));
    is_well(&server);
}

#[test]
fn who_reads_slowly_and_asks_on_is_bounded_too() {
    let server = serve(sample(), |limits| {
        limits.waiting_bytes_max = 256 * 1024;
        limits.write_time_max = Duration::from_millis(500);
    });
    let mut client = server.greet();
    // Each answer is forty times the request: without a bound a thousand of them would wait for the reader.
    let line = "{\"id\":1,\"method\":\"blockchain.block.headers\",\"params\":[0,2016]}\n".repeat(1000);
    let mut most = 0;
    let deadline = Instant::now() + Duration::from_secs(10);
    client.stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    while server.count("dropped_slow_reader") == 0 {
        let _ = client.stream.write(line.as_bytes()); // times out once the server has stopped reading
        most = most.max(server.count("bytes_waiting_now"));
        assert!(Instant::now() < deadline, "never dropped; {most} bytes waited at most");
    }
    assert!(most < 1 << 20, "{most} bytes waited");
    drop(client);
    is_well(&server);
}

#[test]
fn sessions_are_limited_and_room_comes_back() {
    let server = serve(mainnet(), |limits| limits.sessions_max = 20);
    let mut clients: Vec<_> = (0..20).map(|_| server.greet()).collect();
    for _ in 0..5 {
        assert!(server.connect().is_closed());
    }
    assert_eq!(server.count("sessions_refused"), 5);
    // ElectrumX #312: full once and one left open, it never accepted again.
    clients.truncate(1);
    server.wait_for("sessions_now", 1);
    for _ in 0..19 {
        clients.push(server.greet());
    }
    assert!(server.connect().is_closed());
    drop(clients);
    server.wait_for("sessions_now", 0);
    is_well(&server);
}

#[test]
fn connecting_and_leaving_leaves_nothing() {
    let server = serve(mainnet(), |_| {});
    for round in 0..400 {
        let mut client = server.connect();
        match round % 4 {
            0 => {}
            1 => client.send("{\"id\":1,\"method\":\"server.version\"}\n"),
            2 => client.send("{\"id\":1,\"method\":\"server.vers"),
            _ => client.stream.shutdown(Shutdown::Write).unwrap(),
        }
    }
    // Connections wait in the listener's queue before they are sessions: count them in before they are counted out.
    server.wait_for("sessions_opened", 400);
    server.wait_for("sessions_now", 0);
    is_well(&server);
}

#[test]
fn the_server_stops_within_a_second_whatever_its_clients_do() {
    let chain = sample();
    let long = ScriptHash([7; 32]);
    chain.pad(long, 1_000_000);
    let server = serve(chain, |_| {});
    let mut clients: Vec<_> = (0..50).map(|_| server.greet()).collect();
    for client in clients.iter_mut().take(10) {
        client.send_line(&format!(r#"{{"id":1,"method":"blockchain.scripthash.get_history","params":["{long}"]}}"#));
    }
    let address = server.handle.local_address();
    let started = Instant::now();
    server.handle.stop();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    let mut rest = Vec::new();
    assert_eq!(clients[40].reader.read_to_end(&mut rest).unwrap_or(0), 0);
    assert!(std::net::TcpStream::connect(address).is_err(), "the port is closed");
}
