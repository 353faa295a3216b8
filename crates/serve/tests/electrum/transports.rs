//! Every transport carries the same protocol, and each keeps its own limits.
//!
//! In:     a server with all its doors open; clients well-behaved and hostile.
//! Out:    one test a promise.
//! Fails:  where a transport answers otherwise than plain TCP, or one client harms another.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use primitives::ScriptHash;
use rustls::StreamOwned;
use rustls::version::{TLS12, TLS13};
use serde_json::{Value, json};
use serve::transport::Framing;
use serve::transport::proxy::SIGNATURE;

use crate::chain::{coinbase, mainnet, next, sample, script};
use crate::client::{PATIENCE, Server, hash_of};
use crate::wire::{Caller, DOORS, UPGRADE, files, folder, frame, post, serve_all, tls_client};

/// The server answers on every door, and holds nothing of those who left.
#[track_caller]
fn is_well(server: &Server) {
    for name in DOORS {
        let mut caller = server.caller(name);
        caller.greet();
        assert_eq!(caller.call("server.ping", json!([])), Value::Null, "{name}");
    }
    server.wait_for("sessions_now", 0);
    for gauge in ["line_bytes_now", "bytes_waiting_now", "subscriptions_now", "dropped_fault"] {
        assert_eq!(server.count(gauge), 0, "{gauge}");
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_door_gives_the_same_answers() {
    let folder = folder();
    let chain = sample();
    let long = ScriptHash([7; 32]);
    chain.pad(long, 20_000);
    let server = serve_all(chain, &folder, |_| {});
    let mut first: Option<Vec<Value>> = None;
    for name in DOORS {
        let mut caller = server.caller(name);
        caller.greet();
        let answers = vec![
            caller.call("blockchain.scripthash.get_history", json!([hash_of(&script(1))])),
            caller.call("blockchain.block.headers", json!([0, 5])),
            caller.call("blockchain.scripthash.get_history", json!([long.to_string()])),
            caller.call("server.banner", json!([])),
        ];
        assert_eq!(answers[2].as_array().unwrap().len(), 20_000, "{name}: more than two slices and many pieces");
        assert_eq!(first.get_or_insert(answers.clone()), &answers, "{name}");
        caller.send(r#"[{"id":1,"method":"server.ping"},{"method":"server.ping"},{"id":2,"method":"none"}]"#);
        let batch = caller.json();
        assert_eq!((&batch[0]["id"], &batch[1]["error"]["code"]), (&json!(1), &json!(-32601)), "{name}");
    }
    is_well(&server);
}

#[test]
fn news_are_pushed_wherever_a_connection_stays() {
    let folder = folder();
    let server = serve_all(sample(), &folder, |_| {});
    let mut callers: Vec<(&str, Caller)> = ["tcp", "tls", "ws", "wss", "unix"]
        .map(|name| {
            let mut caller = server.caller(name);
            caller.greet();
            caller.call("blockchain.headers.subscribe", json!([]));
            caller.call("blockchain.scripthash.subscribe", json!([hash_of(&script(3))]));
            (name, caller)
        })
        .into();
    let mut http = server.caller("http");
    http.call("blockchain.scripthash.subscribe", json!([hash_of(&script(3))]));
    wait_until("what HTTP subscribed to is gone", || server.count("subscriptions_now") == 5);
    let block = next(&server.chain, &[coinbase(11, 3)]);
    server.events.send(server.chain.connect(block)).unwrap();
    for (name, caller) in &mut callers {
        assert_eq!(caller.json()["method"], "blockchain.headers.subscribe", "{name}");
        let notice = caller.json();
        assert_eq!(notice["params"][0], hash_of(&script(3)), "{name}");
    }
    drop((callers, http));
    is_well(&server);
}

#[test]
fn http_stands_alone_in_every_request() {
    let folder = folder();
    let server = serve_all(mainnet(), &folder, |_| {});
    let mut caller = server.caller("http");
    // A greeting may come first, and holds for its own request only.
    caller.send(r#"[{"id":1,"method":"server.version","params":["a","1.6"]},{"id":2,"method":"server.version"}]"#);
    let both = caller.json();
    assert_eq!((&both[0]["result"][1], &both[1]["error"]["code"]), (&json!("1.6"), &json!(1)));
    caller.send(r#"{"id":1,"method":"blockchain.relayfee"}"#);
    assert!(caller.json()["error"].is_null(), "the version of a request without a greeting is 1.4");
    caller.send(r#"{"method":"server.ping"}"#);
    assert!(caller.response().unwrap().0.starts_with("HTTP/1.1 204 "));
    // Two in one packet are answered in order.
    let two = [r#"{"id":7,"method":"server.ping"}"#, r#"{"id":8,"method":"server.ping"}"#].map(post).concat();
    caller.send_raw(two.as_bytes());
    assert_eq!((caller.json()["id"].clone(), caller.json()["id"].clone()), (json!(7), json!(8)));
    drop(caller);
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 405),
        (post("{}").replace("application/json", "text/plain"), 415),
        (post("{}").replace("Content-Length: 2", "Transfer-Encoding: chunked"), 501),
        (post("{}").replace("Content-Length: 2", "Content-Length: 9999999"), 413),
        (format!("GET /{} HTTP/1.1\r\n", "x".repeat(9_000)), 431),
        ("\u{16}\u{3}\u{1}".to_owned(), 400),
    ] {
        let mut caller = server.caller("http");
        caller.send_raw(request.as_bytes());
        let text = String::from_utf8(caller.rest()).unwrap();
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")) && text.contains("Connection: close"), "{text}");
        assert_eq!(status == 413, text.contains("-32600"), "{text}");
    }
    let mut caller = server.caller("http");
    caller.send_raw(
        post(r#"{"id":1,"method":"server.ping"}"#).replace("Host: a", "Host: a\r\nConnection: close").as_bytes(),
    );
    let text = String::from_utf8(caller.rest()).unwrap();
    assert!(text.contains("Connection: close") && text.ends_with("}\n"), "answered, then closed: {text}");
    is_well(&server);
}

#[test]
fn websockets_answer_pings_and_say_why_they_close() {
    let folder = folder();
    let server = serve_all(mainnet(), &folder, |config| config.limits.line_bytes_max = 1_000);
    for name in ["ws", "wss"] {
        let mut caller = server.caller(name);
        caller.greet();
        // A message in parts with a ping between them.
        let request = br#"{"id":1,"method":"server.ping"}"#;
        caller.send_raw(&[frame(0x01, &request[..9]), frame(0x89, b"there?"), frame(0x80, &request[9..])].concat());
        let frames = [caller.frame().unwrap(), caller.frame().unwrap()];
        assert!(frames.contains(&(0x8a, b"there?".to_vec())), "{frames:?}");
        caller.send_raw(&frame(0x88, &[3, 0xe8]));
        assert_eq!(caller.frame(), Some((0x88, vec![3, 0xe8])));
        assert_eq!(caller.frame(), None);
        for (bytes, code) in [
            (frame(0x83, b""), 1002u16),
            (vec![0x81, 1, b'x'], 1002),
            (frame(0x81, &[b' '; 1_001]), 1009),
            (frame(0x81, &[0xff, 0xfe]), 1008),
        ] {
            let mut caller = server.caller(name);
            caller.greet();
            caller.send_raw(&bytes);
            let last = std::iter::from_fn(|| caller.frame()).last().unwrap();
            assert_eq!((last.0, &last.1[..2]), (0x88, &code.to_be_bytes()[..]), "{name} {bytes:?}");
        }
    }
    let mut plain = server.tcp("ws");
    plain.write_all(b"{\"id\":1,\"method\":\"server.version\"}\n").unwrap();
    let mut text = String::new();
    plain.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    is_well(&server);
}

#[test]
fn tls_is_modern_and_refuses_what_is_not() {
    let folder = folder();
    let server = serve_all(mainnet(), &folder, |_| {});
    for version in [&TLS12, &TLS13] {
        let (client, _) = tls_client(&[version]);
        let stream = StreamOwned::new(client, server.tcp("tls"));
        let mut caller = Caller::over(Box::new(stream), Framing::Lines, false);
        caller.greet();
    }
    // TLS 1.1's hello: record 3.1, hello 3.2, a cipher of its time, no extensions.
    let mut hello = vec![22, 3, 1, 0, 47, 1, 0, 0, 43, 3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 4, 0xc0, 0x13, 0, 0x2f, 1, 0]);
    for bytes in [
        hello,
        b"{\"id\":1,\"method\":\"server.version\"}\n".to_vec(),
        vec![0; 500],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ] {
        let mut stream = server.tcp("tls");
        stream.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer.first(), Some(&21), "an alert and no more: {answer:?}");
        assert!(answer.len() <= 14, "{answer:?}");
    }
    is_well(&server);
}

#[test]
fn layers_that_do_not_open_run_into_their_timer() {
    let folder = folder();
    let server = serve_all(mainnet(), &folder, |config| {
        config.limits.opening_time_max = Duration::from_millis(300);
        config.balancers = vec!["127.0.0.2".parse().unwrap()];
    });
    let (mut client, _) = tls_client(rustls::ALL_VERSIONS);
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    for (name, bytes) in [("tls", &hello[..]), ("wss", &hello[..]), ("ws", UPGRADE.as_bytes())] {
        for half in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            let mut stream = server.tcp(name);
            let started = Instant::now();
            stream.write_all(&bytes[..half]).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
            assert!(started.elapsed() < Duration::from_secs(5), "{name} {half}");
        }
        // A byte now and then does not help.
        let mut stream = server.tcp(name);
        let started = Instant::now();
        for byte in bytes.iter().cycle() {
            if stream.write_all(&[*byte]).is_err() || started.elapsed() > Duration::from_secs(5) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{name}");
    }
    assert!(server.count("dropped_timeout") >= 12);
    server.wait_for("sessions_now", 0);
}

#[test]
fn a_new_certificate_is_shown_to_the_next_client() {
    let (folder, other) = (folder(), folder());
    let server = serve_all(mainnet(), &folder, |config| config.certificate_look_time = Duration::from_millis(20));
    let elsewhere = serve_all(mainnet(), &other, |_| {});
    let shown = |server: &Server| {
        let (client, believer) = tls_client(&[&TLS13]);
        let mut stream = StreamOwned::new(client, server.tcp("tls"));
        stream.write_all(b"{\"id\":1,\"method\":\"server.version\"}\n").unwrap();
        stream.read_exact(&mut [0; 1]).unwrap();
        believer.0.lock().unwrap().clone()
    };
    let mut stays = server.caller("tls");
    stays.greet();
    let (old, new) = (shown(&server), shown(&elsewhere));
    assert_ne!(old, new);
    let mode = std::fs::metadata(&files(&folder).key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Half of it first: the pair does not fit, and nothing changes.
    std::fs::copy(files(&other).key, files(&folder).key).unwrap();
    wait_until("the fault is noticed", || server.count("faults") >= 1);
    assert_eq!(shown(&server), old);
    std::fs::copy(files(&other).certificate, files(&folder).certificate).unwrap();
    server.wait_for("certificates_read", 1);
    assert_eq!(shown(&server), new);
    assert_eq!(stays.call("server.ping", json!([])), Value::Null, "those who were there stay");
}

#[test]
fn only_a_listed_balancer_speaks_for_others_and_must() {
    let folder = folder();
    let header = [&SIGNATURE[..], &[0x21, 0x11, 0, 12, 192, 0, 2, 7, 10, 0, 0, 1, 0, 7, 0, 9]].concat();
    let greeting = b"{\"id\":1,\"method\":\"server.version\"}\n";
    let stranger = serve_all(mainnet(), &folder, |_| {});
    let mut stream = stranger.tcp("tcp");
    stream.write_all(&[&header[..], greeting].concat()).unwrap();
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    assert!(!String::from_utf8_lossy(&text).contains("result"), "a stranger's header is no request");
    stranger.wait_for("dropped_bad_input", 1);
    is_well(&stranger);
    drop(stranger);
    let server = serve_all(mainnet(), &folder, |config| config.balancers = vec!["127.0.0.0/8".parse().unwrap()]);
    for (name, framing, has_tls) in [
        ("tcp", Framing::Lines, false),
        ("tls", Framing::Lines, true),
        ("wss", Framing::WebSocket, true),
        ("http", Framing::Http, false),
    ] {
        let mut stream = server.tcp(name);
        for byte in &header {
            stream.write_all(&[*byte]).unwrap();
        }
        Caller::over(Box::new(stream), framing, has_tls).greet();
        let mut bare = server.tcp(name);
        bare.write_all(greeting).unwrap();
        let _ = bare.read_to_end(&mut Vec::new());
    }
    server.wait_for("dropped_bad_input", 4);
    let mut caller = server.caller("unix");
    caller.greet();
}

#[test]
fn the_socket_in_the_file_system_is_its_owners_and_leaves_with_the_server() {
    let folder = folder();
    let path = folder.0.join("electrum.sock");
    // One left by a process that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = serve_all(mainnet(), &folder, |_| {});
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    server.caller("unix").greet();
    let second = std::panic::catch_unwind(|| serve_all(mainnet(), &folder, |_| {}));
    assert!(second.is_err(), "a second server does not take it away");
    server.caller("unix").greet();
    server.handle.stop();
    assert!(!path.exists());
    std::fs::write(&path, "something of somebody").unwrap();
    let third = std::panic::catch_unwind(|| serve_all(mainnet(), &folder, |_| {}));
    assert!(third.is_err() && path.exists(), "what is no socket stays");
}

#[test]
fn one_who_does_not_read_is_dropped_on_every_transport() {
    let folder = folder();
    let chain = mainnet();
    let long = ScriptHash([7; 32]);
    chain.pad(long, 1_000_000);
    let server = serve_all(chain, &folder, |config| config.limits.write_time_max = Duration::from_millis(300));
    let request = format!(r#"{{"id":1,"method":"blockchain.scripthash.get_history","params":["{long}"]}}"#);
    let lazy: Vec<Caller> = ["tls", "ws", "wss", "http", "https", "unix"]
        .map(|name| {
            let mut caller = server.caller(name);
            caller.greet();
            caller.send(&request);
            caller
        })
        .into();
    server.wait_for("dropped_slow_reader", 6);
    drop(lazy);
    is_well(&server);
}

/// Clients that come and leave in every state of every layer.
pub fn churn(server: &Server, rounds: usize) {
    let (mut client, _) = tls_client(rustls::ALL_VERSIONS);
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    for round in 0..rounds {
        let name = DOORS[round % 6];
        let mut stream: TcpStream = server.tcp(name);
        let _ = match round / 6 % 6 {
            0 => Ok(()),
            1 => stream.write_all(&hello[..hello.len() / 2]),
            2 => stream.write_all(&hello),
            3 => stream.write_all(UPGRADE.as_bytes()),
            4 => stream.write_all(post(r#"{"id":1,"method":"server.version"}"#).as_bytes()),
            _ => stream.shutdown(Shutdown::Write),
        };
        if round % 97 == 0 {
            let mut caller = server.caller(DOORS[round % 7]);
            caller.greet();
        }
    }
}

#[test]
fn coming_and_leaving_leaves_nothing() {
    let folder = folder();
    let server = serve_all(mainnet(), &folder, |config| config.limits.sessions_max = 100_000);
    churn(&server, 2_000);
    server.wait_for("sessions_now", 0);
    let before = resident_kib();
    churn(&server, 20_000);
    server.wait_for("sessions_now", 0);
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB for 20,000 connections that are gone");
    is_well(&server);
}

/// Memory of this process; other tests of it take part.
pub fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Figures for the documents: memory of an idle session of the transport that `ASSAY_TRANSPORT` names (in a process that did
/// nothing else before), and 100,000 connections.
#[test]
#[ignore = "measures, half a minute"]
fn measure_memory_and_churn() {
    const SESSIONS: usize = 2_000;
    let folder = folder();
    let server = serve_all(mainnet(), &folder, |config| config.limits.sessions_max = 100_000);
    let name = std::env::var("ASSAY_TRANSPORT").unwrap_or_else(|_| "tls".to_owned());
    let door = server.door(&name);
    let one = || {
        let stream = server.tcp(&name);
        let stays = stream.try_clone().unwrap();
        // The client's half goes, its socket stays: what is left is the server's.
        Caller::over(Box::new(stream), door.framing, door.has_tls).greet();
        stays
    };
    let warm: Vec<TcpStream> = (0..100).map(|_| one()).collect();
    let before = resident_kib();
    let sessions: Vec<TcpStream> = (0..SESSIONS).map(|_| one()).collect();
    assert_eq!(server.count("sessions_now"), (SESSIONS + warm.len()) as u64);
    println!("{name}: {:.1} KiB an idle session", (resident_kib() - before) as f64 / SESSIONS as f64);
    drop((warm, sessions));
    server.wait_for("sessions_now", 0);
    // Twice: what stays behind the first time are the threads' own stores of memory.
    for _ in 0..2 {
        let (before, started) = (resident_kib(), Instant::now());
        churn(&server, 100_000);
        server.wait_for("sessions_now", 0);
        println!("100,000 connections: {:?}, {} KiB more", started.elapsed(), resident_kib().saturating_sub(before));
    }
}
