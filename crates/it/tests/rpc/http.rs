//! One HTTP request over a socket, and the shape of what comes back.
//!
//! In:     bytes to send.
//! Out:    status, headers and body.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serve::keys::base64;
use serve::rpc::Config;

use crate::world::World;

/// Sends bytes, and reads until the server closes or has been silent for a while.
pub fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let _ = stream.write_all(bytes); // a server that has closed answers all the same
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    String::from_utf8_lossy(&got).into_owned()
}

/// A POST that ends its connection.
pub fn post(address: SocketAddr, path: &str, credentials: &str, body: &str) -> String {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Basic {}\r\nContent-Length: {}\r\n\r\n",
        base64::encode(credentials.as_bytes()),
        body.len()
    );
    exchange(address, &[head.as_bytes(), body.as_bytes()].concat())
}

fn status(reply: &str) -> u16 {
    reply.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[test]
fn statuses_are_those_of_core() {
    let world = World::new("http");
    let server = world.serve(|_: &mut Config| {});
    let address = server.local_address();
    let count = r#"{"id":1,"method":"getblockcount"}"#;
    let good = post(address, "/", "u:p", count);
    assert_eq!(status(&good), 200);
    assert!(good.to_lowercase().contains("content-type: application/json"), "{good}");
    assert!(good.ends_with("{\"result\":130,\"error\":null,\"id\":1}\n"), "{good}");
    assert_eq!(status(&post(address, "/wallet/x", "u:p", count)), 200);
    assert_eq!(status(&post(address, "/other", "u:p", count)), 404);
    assert_eq!(status(&post(address, "/", "u:p", "{")), 500);
    assert_eq!(status(&post(address, "/", "u:p", r#"{"id":1}"#)), 400);
    assert_eq!(status(&post(address, "/", "u:p", r#"{"id":1,"method":"x"}"#)), 404);
    assert_eq!(status(&post(address, "/", "u:p", r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#)), 200);
    assert_eq!(status(&post(address, "/", "u:p", r#"{"jsonrpc":"2.0","method":"x"}"#)), 204);
    let started = std::time::Instant::now();
    let wrong = post(address, "/", "u:x", count);
    assert_eq!(status(&wrong), 401);
    assert!(wrong.to_lowercase().contains("www-authenticate: basic realm=\"jsonrpc\""), "{wrong}");
    assert!(started.elapsed() >= Duration::from_millis(250));
    assert_eq!(status(&exchange(address, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")), 401);
    let get = |path: &str| {
        exchange(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
    };
    assert_eq!(status(&get("/")), 405);
    assert_eq!(status(&get("/rest/chaininfo.json")), 200);
    assert_eq!(status(&get("/rest/nosuch")), 404);
    assert_eq!(status(&exchange(address, b"DELETE / HTTP/1.1\r\nHost: x\r\n\r\n")), 405);
    server.stop();
}

#[test]
fn connections_are_kept_and_pipelined_requests_answered_in_order() {
    let world = World::new("keep");
    let server = world.serve(|_: &mut Config| {});
    let body = |id: u32| format!("{{\"id\":{id},\"method\":\"getblockcount\"}}");
    let request = |id: u32, close: bool| {
        let close = if close { "Connection: close\r\n" } else { "" };
        let body = body(id);
        let auth = base64::encode(b"u:p");
        format!(
            "POST / HTTP/1.1\r\nHost: x\r\n{close}Authorization: Basic {auth}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let all: String = (0..20).map(|id| request(id, id == 19)).collect();
    let replies = exchange(server.local_address(), all.as_bytes());
    let ids: Vec<String> = replies.lines().filter(|line| line.starts_with('{')).map(str::to_owned).collect();
    let want: Vec<String> = (0..20).map(|id| format!("{{\"result\":130,\"error\":null,\"id\":{id}}}")).collect();
    assert_eq!(ids, want);
}

#[test]
fn a_node_that_starts_says_so() {
    let world = World::new("start");
    let env = std::sync::Arc::new(serve::rpc::env::Env::new(world.env.params.clone(), world.host.clone()));
    let limits = serve::rpc::answer::AnswerLimits { batch_max: 10, answer_bytes_max: 1 << 20 };
    let ask = |body: &str| {
        let answer = serve::rpc::answer::answer(&env, body.as_bytes(), &serve::rpc::answer::Allowed::All, &limits);
        (answer.status, String::from_utf8(answer.body).unwrap())
    };
    for method in ["getblockcount", "nosuch", "getnetworkinfo"] {
        let (status, text) = ask(&format!("{{\"id\":1,\"method\":\"{method}\"}}"));
        assert!(status == 500 && text.contains("\"code\":-28"), "{method}: {status} {text}");
    }
    assert_eq!(ask(r#"{"id":1,"method":"uptime"}"#).0, 200);
    assert_eq!(serve::rest::answer(&env, "/rest/chaininfo.json", b"").status, 503);
}
