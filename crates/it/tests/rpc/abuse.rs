//! Clients that mean harm: each costs himself his connection and us nothing.
//!
//! In:     bytes that no client of ours would send.
//! Out:    refusals, and a server that answers the next one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serve::keys::base64;
use serve::rpc::auth::Users;

use crate::http::{exchange, post};
use crate::world::World;

const COUNT: &str = r#"{"id":1,"method":"getblockcount"}"#;

#[test]
fn floods_are_refused_and_the_next_client_is_served() {
    let world = World::new("abuse");
    let server = world.serve(|config| {
        config.body_bytes_max = 100_000;
        config.batch_max = 100;
        config.timeout = Duration::from_millis(400);
    });
    let address = server.local_address();
    let auth = base64::encode(b"u:p");
    let starts =
        |reply: &str, status: &str| assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {reply}");
    // A body beyond the limit, told and untold.
    starts(&post(address, "/", "u:p", &"x".repeat(100_001)), "413");
    let huge =
        format!("POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {auth}\r\nContent-Length: 99999999999\r\n\r\n");
    starts(&exchange(address, huge.as_bytes()), "413");
    let chunk = format!("{:x}\r\n{}\r\n", 60_000, "x".repeat(60_000));
    let chunked = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {auth}\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{chunk}"
    );
    starts(&exchange(address, chunked.as_bytes()), "413");
    // Without a password no body is waited for at all.
    let unproved = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n";
    starts(&exchange(address, unproved.as_bytes()), "401");
    // Headers: too long, too many, both lengths at once.
    let long = format!("POST / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(100_000));
    assert!(!exchange(address, long.as_bytes()).contains("200 OK"));
    let many: String = (0..200).map(|n| format!("X{n}: y\r\n")).collect();
    assert!(!exchange(address, format!("POST / HTTP/1.1\r\nHost: x\r\n{many}\r\n").as_bytes()).contains("200 OK"));
    let smuggled = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {auth}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\nGET /rest/chaininfo.json HTTP/1.1\r\n\r\n"
    );
    assert!(!exchange(address, smuggled.as_bytes()).contains("\"chain\""));
    for garbage in [&b"\0\0\0\0"[..], b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"POST / HTTP/9.9\r\n\r\n"] {
        assert!(!exchange(address, garbage).contains("200 OK"));
    }
    // JSON: deep, not UTF-8, a bomb of a batch, an id that would be echoed at length.
    let deep =
        format!("{{\"id\":1,\"method\":\"getblockcount\",\"params\":{}{}}}", "[".repeat(40_000), "]".repeat(40_000));
    starts(&post(address, "/", "u:p", &deep), "500");
    let batch = format!("[{}]", vec!["{}"; 101].join(","));
    starts(&post(address, "/", "u:p", &batch), "400");
    let echoed = format!("{{\"id\":\"{}\",\"method\":\"getblockcount\"}}", "x".repeat(5_000));
    assert!(post(address, "/", "u:p", &echoed).len() < 1_000);
    starts(&post(address, "/", "u:p", COUNT), "200");
}

#[test]
fn a_slow_client_loses_his_connection() {
    let world = World::new("slow");
    let server = world.serve(|config| config.timeout = Duration::from_millis(300));
    let started = Instant::now();
    // One byte of a header at a time.
    let mut stream = TcpStream::connect(server.local_address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut closed = false;
    for byte in b"POST / HTTP/1.1\r\nHost: abcdefghijklmnopqrstuvwxyz\r\n".iter().cycle() {
        closed = stream.write_all(&[*byte]).is_err() || matches!(stream.read(&mut [0; 64]), Ok(0));
        if closed || started.elapsed() > Duration::from_secs(4) {
            break;
        }
    }
    assert!(closed, "still open after {:?}", started.elapsed());
    // A body that does not come.
    let auth = base64::encode(b"u:p");
    let head = format!("POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {auth}\r\nContent-Length: 50\r\n\r\n{{");
    let reply = exchange(server.local_address(), head.as_bytes());
    assert!(reply.starts_with("HTTP/1.1 408"), "{reply}");
}

#[test]
fn too_many_connections_and_calls_are_refused() {
    let world = World::new("many");
    let server = world.serve(|config| {
        config.connections_max = 12;
        config.threads = 1;
        config.queue_max = 2;
    });
    let address = server.local_address();
    let waiting = r#"{"id":1,"method":"waitforblockheight","params":[1000,900]}"#;
    let clients: Vec<_> = (0..6).map(|_| std::thread::spawn(move || post(address, "/", "u:p", waiting))).collect();
    let replies: Vec<String> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    let full = replies.iter().filter(|reply| reply.contains("Work queue depth exceeded")).count();
    assert_eq!(full, 3, "{replies:?}");
    assert!(replies.iter().filter(|reply| reply.starts_with("HTTP/1.1 200")).count() == 3);
    // Idle connections up to the limit; those beyond are closed at once.
    let idle: Vec<TcpStream> = (0..12).map(|_| TcpStream::connect(address).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(post(address, "/", "u:p", COUNT), "");
    drop(idle);
    let deadline = Instant::now() + Duration::from_secs(4);
    while !post(address, "/", "u:p", COUNT).starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < deadline, "served again once they are gone");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn methods_are_limited_by_user() {
    let world = World::new("limited");
    let mut users = Users::default();
    users.add_plain("u", "p", &[1; 16]);
    users.add_plain("v", "p", &[2; 16]);
    users.limit("u:getblockcount");
    let server = world.serve(|config| config.users = users);
    let address = server.local_address();
    let status =
        |user: &str, body: &str| post(address, "/", user, body).split(' ').nth(1).unwrap_or_default().to_owned();
    assert_eq!(status("u:p", COUNT), "200");
    assert_eq!(status("u:p", r#"{"id":1,"method":"stop"}"#), "403");
    assert_eq!(status("u:p", r#"[{"id":1,"method":"getblockcount"},{"id":1,"method":"stop"}]"#), "403");
    assert_eq!(status("v:p", COUNT), "403");
    assert!(!world.host.stopped.load(std::sync::atomic::Ordering::SeqCst));
}

#[test]
fn odd_requests_get_their_refusal_and_nothing_of_another_site() {
    let world = World::new("odd");
    let server = world.serve(|config| config.timeout = Duration::from_millis(400));
    let address = server.local_address();
    let auth = base64::encode(b"u:p");
    let status = |reply: &str| reply.split(' ').nth(1).unwrap_or_default().to_owned();
    let ask = |head: &str, body: &str| {
        let length = body.len();
        exchange(address, format!("{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes())
    };
    // Another site's page in a browser of this machine has no password, and is told nothing it may read.
    for head in [
        "OPTIONS / HTTP/1.1\r\nHost: x\r\nOrigin: null\r\nAccess-Control-Request-Method: POST",
        "DELETE / HTTP/1.1\r\nHost: x",
        "GET / HTTP/1.1\r\nHost: rebound.example",
        "HEAD / HTTP/1.1\r\nHost: x",
    ] {
        let reply = ask(head, "");
        assert_eq!(status(&reply), "405", "{head}: {reply}");
        assert!(!reply.to_lowercase().contains("access-control"), "{reply}");
    }
    assert_eq!(status(&ask("POST / HTTP/1.1\r\nHost: rebound.example\r\nOrigin: http://evil", COUNT)), "401");
    for credentials in ["Basic", "Basic !!!", "Bearer x", "Basic dQ==", "Basic Og=="] {
        let reply = ask(&format!("POST / HTTP/1.1\r\nHost: x\r\nAuthorization: {credentials}"), COUNT);
        assert_eq!(status(&reply), "401", "{credentials}");
    }
    // Paths of files that are none, and of blocks that are none.
    for path in [
        "/rest/..%2f..%2fetc/passwd",
        "/rest/block/%00.json",
        "//rest//chaininfo.json",
        "/rest/headers/2000/zz.json",
        "/rest/block/0000.json/../../..",
        "/wallet/../../x",
    ] {
        let reply = ask(&format!("GET {path} HTTP/1.1\r\nHost: x"), "");
        assert!(["400", "404", "405"].contains(&status(&reply).as_str()), "{path}: {reply}");
    }
    // A packed body is not unpacked.
    let packed = "POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nAuthorization: Basic ".to_owned() + &auth;
    assert_eq!(status(&ask(&packed, "\u{1f}\u{8b}\u{8}\u{0}\u{0}")), "500");
    // What is asked for in one breath is answered in order; what is announced is waited for only so long.
    let one = |id: u8| {
        let body = format!("{{\"id\":{id},\"method\":\"getblockcount\"}}");
        format!(
            "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {auth}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let replies = exchange(address, (one(1) + &one(2) + &one(3)).as_bytes());
    let places: Vec<Option<usize>> = (1..=3).map(|id| replies.find(&format!("\"id\":{id}}}"))).collect();
    assert!(places[0].is_some() && places.is_sorted(), "{replies}");
    let waits = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nAuthorization: Basic {auth}\r\nContent-Length: 30\r\n\r\n"
    );
    assert!(exchange(address, waits.as_bytes()).contains(" 408 "));
    // An id comes back as what it was, in an answer no browser takes for a page.
    let script = ask(
        &format!("POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {auth}"),
        r#"{"id":"<script>alert(1)</script>","method":"getblockcount"}"#,
    );
    assert!(script.to_lowercase().contains("content-type: application/json"), "{script}");
    assert_eq!(status(&post(address, "/", "u:p", COUNT)), "200");
}
