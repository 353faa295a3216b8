//! Inputs that people have broken servers with, each in a row: what is answered, and that the session goes on.
//!
//! In:     lines and bytes; what other files of this folder have is not repeated here.
//! Out:    one test a subject.
//! Fails:  where an answer is another, or a later request of the same session is not answered.
//! Source: the field's incidents: type confusion (ElectrumX #706), text that is no UTF-8 (electrs #16), broken broadcasts
//!         (electrs #49), CVE-2012-2459's like.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chain::{BIP_143, coinbase, mainnet, next, sample, script};
use crate::client::{Client, hash_of, serve};
use crate::wire::{UPGRADE, folder, frame, post, serve_all};

/// A request, and what is answered: a result, or the code of an error.
#[track_caller]
fn check(client: &mut Client, line: &str, want: Result<Value, i64>) {
    let answer = client.ask(line);
    match want {
        Ok(result) => assert_eq!(answer["result"], result, "{line:.200}"),
        Err(code) => assert_eq!(answer["error"]["code"], code, "{line:.200}: {answer:.200}"),
    }
}

fn call(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"blockchain.{method}","params":{params}}}"#)
}

#[test]
fn white_space_line_ends_and_padding_change_nothing() {
    let server = serve(mainnet(), |_| {});
    let mut client = server.greet();
    let ping = r#"{"id":1,"method":"server.ping"}"#;
    for line in [
        format!("{ping}\r"),
        format!(" \t{ping} \t\r"),
        format!("{ping}{}", " ".repeat(100_000)),
        format!("\r\n\r\n{ping}"),
        "{ \"id\" :\t1 ,\"method\"\r: \"server.ping\" , \"params\" : [ ] }".to_owned(),
        r#"{"id":1,"\u006dethod":"server.\u0070ing"}"#.to_owned(),
    ] {
        check(&mut client, &line, Ok(Value::Null));
    }
    // A NUL is no white space, neither between nor within.
    check(&mut client, &format!("{ping}\0"), Err(-32700));
    check(&mut client, "{\"id\":1,\"method\":\"server.\0ping\"}", Err(-32700));
    check(&mut client, r#"{"id":1,"method":"server.\u0000ping"}"#, Err(-32601));
    check(&mut client, r#"{"id":1,"method":"server.\ud800ping"}"#, Err(-32600));
    check(&mut client, ping, Ok(Value::Null));
}

#[test]
fn identifiers_come_back_as_they_were_written_or_are_refused() {
    let server = serve(mainnet(), |_| {});
    let mut client = server.greet();
    for id in ["0", "-1", "1.5", "1e309", "9007199254740993", "123456789012345678901234567890", "null", r#""\u00e9\"""#]
    {
        client.send_line(&format!(r#"{{"id":{id},"method":"server.ping"}}"#));
        let answer = client.line().unwrap();
        assert!(answer.starts_with(&format!("{{\"id\":{id},")), "{answer}");
    }
    for id in ["{}", "[]", "true", "false", &format!("\"{}\"", "x".repeat(127)), &"9".repeat(129)] {
        check(&mut client, &format!(r#"{{"id":{id},"method":"server.ping"}}"#), Err(-32600));
    }
    // Without one it is a notification, and is not answered.
    client.send_line(r#"{"method":"server.ping"}"#);
    client.send_line(r#"{"method":"no.such.method","params":7}"#);
    check(&mut client, r#"{"id":2,"method":"server.ping"}"#, Ok(Value::Null));
}

#[test]
fn long_names_and_many_members_are_read_and_forgotten() {
    let server = serve(mainnet(), |_| {});
    let mut client = server.greet();
    let long = "k".repeat(900_000);
    check(&mut client, &format!(r#"{{"id":1,"method":"server.ping","{long}":1}}"#), Ok(Value::Null));
    check(&mut client, &format!(r#"{{"id":1,"method":"{long}"}}"#), Err(-32601));
    check(&mut client, &format!(r#"{{"id":1,"method":"server.ping","params":{{"{long}":1}}}}"#), Err(-32602));
    check(&mut client, &call("scripthash.get_balance", &format!("[\"{long}\"]")), Err(-32602));
    let members: Vec<String> = (0..50_000).map(|n| format!("\"{n}\":0")).collect();
    let members = members.join(",");
    check(&mut client, &format!(r#"{{"id":1,"method":"server.ping",{members}}}"#), Ok(Value::Null));
    check(&mut client, &format!(r#"{{"id":1,"method":"server.ping","params":{{{members}}}}}"#), Err(-32602));
    check(&mut client, r#"{"id":1,"method":"server.ping","method":"server.banner"}"#, Err(-32600));
    // Longer than a line may be: a string of ten megabytes is not read to its end.
    let _ = client.stream.write_all(&vec![b'"'; 10 << 20]);
    server.wait_for("dropped_bad_input", 1);
}

#[test]
fn counts_heights_and_hashes_at_their_edges() {
    let server = serve(sample(), |_| {});
    let mut client = server.greet();
    let count =
        |client: &mut Client, params: &str| client.ask(&call("block.headers", params))["result"]["count"].clone();
    // The chain has heights 0 to 10.
    for (params, want) in [
        ("[0,0]", 0),
        ("[0,1]", 1),
        ("[10,1]", 1),
        ("[10,2016]", 1),
        ("[0,2016]", 11),
        ("[0,2017]", 11),
        ("[0,18446744073709551615]", 11),
        ("[10,18446744073709551615]", 1),
        ("[11,1]", 0),
        ("[4294967295,2016]", 0),
        ("[18446744073709551615,18446744073709551615]", 0),
    ] {
        assert_eq!(count(&mut client, params), want, "{params}");
    }
    for (params, code) in
        [("[5,1,4]", 1), ("[5,6,9]", 1), ("[0,1,11]", 1), ("[0,1,18446744073709551615]", 1), ("[0,1,-1]", -32602)]
    {
        check(&mut client, &call("block.headers", params), Err(code));
    }
    check(&mut client, &call("block.header", "[9,8]"), Err(1));
    let known = "0e3e2357e806b6cdb1f70b54c3a3a17b6714ee1f0e68bebb44a74b1efd512098";
    for (params, code) in [
        (format!("[\"{known}\",2]"), 1),
        (format!("[\"{known}\",11]"), 1),
        (format!("[\"{known}\",4294967297]"), 1),
        (format!("[\"{}\",1]", "ab".repeat(32)), 1),
        (format!("[\"{known}\",\"1\"]"), -32602),
    ] {
        let answer = client.ask(&call("transaction.get_merkle", &params));
        let got = answer["error"]["code"].as_i64().unwrap();
        assert!(got == code || got == 2, "{params}: {answer}");
    }
    // Digits may be large or small letters, and nothing else.
    let hash = hash_of(&script(1));
    let balance = client.ask(&call("scripthash.get_balance", &format!("[\"{hash}\"]")))["result"].clone();
    check(&mut client, &call("scripthash.get_balance", &format!("[\"{}\"]", hash.to_uppercase())), Ok(balance));
    for wrong in
        [hash.replacen(|_: char| true, "g", 1), format!(" {}", &hash[1..]), hash.replacen(|_: char| true, "é", 1)]
    {
        check(&mut client, &call("scripthash.get_balance", &format!("[\"{wrong}\"]")), Err(-32602));
    }
}

#[test]
fn broadcasts_that_are_no_transactions_are_refused() {
    let server = serve(sample(), |_| {});
    let mut client = server.greet();
    let whole = BIP_143.replace(char::is_whitespace, "");
    let version = "01000000";
    for (digits, code) in [
        (format!("{whole}00"), 1),                       // trailing bytes
        (whole[..whole.len() - 2].to_owned(), 1),        // cut off
        (whole[..whole.len() - 1].to_owned(), -32602),   // half a byte
        (format!("{version}fd0200{}", &whole[14..]), 1), // a count that is longer than it need be
        (format!("{version}0001{}", "00000000"), 1),     // a witness marker and nothing behind it
        (format!("{version}0000{}", &whole[12..]), 1),   // a marker without its flag
        (format!("{version}0002{}", &whole[12..]), 1),   // a flag that does not exist
        (format!("{version}feffffffff"), 1),             // four thousand million inputs
        (format!("{version}ffffffffffffffffff"), 1),     // more than there are
        ("00".repeat(400_000), 1),
        ("zz".repeat(10), -32602),
        ("é".repeat(8), -32602),
    ] {
        check(&mut client, &call("transaction.broadcast", &format!("[\"{digits}\"]")), Err(code));
    }
    // Four megabytes are longer than a line may be.
    let _ =
        client.stream.write_all(call("transaction.broadcast", &format!("[\"{}\"]", "00".repeat(4_000_000))).as_bytes());
    server.wait_for("dropped_bad_input", 1);
    assert_eq!(server.greet().call("server.ping", json!([])), Value::Null);
}

#[test]
fn one_script_subscribed_to_for_ever_is_one_subscription() {
    let server = serve(sample(), |_| {});
    let mut client = server.greet();
    let hash = hash_of(&script(1));
    let line = format!("[{}]", vec![call("scripthash.subscribe", &format!("[\"{hash}\"]")); 1_000].join(","));
    let first = client.ask(&line);
    for _ in 0..100 {
        assert_eq!(client.ask(&line), first);
    }
    assert_eq!(server.count("subscriptions_now"), 1);
    assert_eq!(server.handle.env().subscriptions.count(), 1);
    server.events.send(server.chain.connect(next(&server.chain, &[coinbase(30, 1)]))).unwrap();
    assert_eq!(client.json()["params"][0], hash, "and one notice");
    check(&mut client, &call("scripthash.unsubscribe", &format!("[\"{hash}\"]")), Ok(json!(true)));
    check(&mut client, &call("scripthash.unsubscribe", &format!("[\"{hash}\"]")), Ok(json!(false)));
    check(&mut client, &call("scripthash.unsubscribe", &format!("[\"{}\"]", "00".repeat(32))), Ok(json!(false)));
    assert_eq!(server.handle.env().subscriptions.count(), 0);
}

#[test]
fn batches_of_right_and_wrong_answer_each() {
    let server = serve(sample(), |_| {});
    let mut client = server.greet();
    let line = r#"[{"id":1,"method":"server.ping"},7,{"method":"server.ping"},[{"id":9,"method":"server.ping"}],
        {"id":2,"method":"no.such"},{"id":{},"method":"server.ping"},{"id":3,"method":"blockchain.block.header","params":["0"]},
        {"id":4,"method":"server.ping"}]"#;
    let answers = client.ask(&line.replace('\n', ""));
    let told: Vec<(Value, Value)> =
        answers.as_array().unwrap().iter().map(|one| (one["id"].clone(), one["error"]["code"].clone())).collect();
    let want = json!([[1, null], [null, -32600], [null, -32600], [2, -32601], [null, -32600], [3, -32602], [4, null]]);
    assert_eq!(json!(told), want);
}

#[test]
fn websockets_survive_floods_of_small_frames_and_pings() {
    let folder = folder();
    let server = serve_all(mainnet(), &folder, |_| {});
    // Pings whose answers nobody reads: the newest is answered, and nothing piles up.
    let mut deaf = server.caller("ws");
    deaf.greet();
    let pings = frame(0x89, &[b'x'; 125]).repeat(1_000);
    for _ in 0..100 {
        deaf.send_raw(&pings);
    }
    assert!(server.count("bytes_waiting_now") < 1 << 20);
    assert_eq!(deaf.call("server.ping", json!([])), Value::Null);
    // A million messages of nothing, and one message of a thousand empty frames too many.
    let mut empty = server.caller("ws");
    empty.greet();
    let messages = frame(0x81, b"").repeat(10_000);
    for _ in 0..100 {
        empty.send_raw(&messages);
    }
    assert_eq!(empty.call("server.ping", json!([])), Value::Null);
    empty.send_raw(&[frame(0x01, b"["), frame(0x00, b"").repeat(2_000)].concat());
    let last = std::iter::from_fn(|| empty.frame()).last().unwrap();
    assert_eq!((last.0, &last.1[..2]), (0x88, &1008u16.to_be_bytes()[..]));
    // A length of eight bytes is refused before the bytes come.
    let mut long = server.tcp("ws");
    long.write_all(UPGRADE.as_bytes()).unwrap();
    long.write_all(&[&[0x81, 0xff][..], &(1u64 << 40).to_be_bytes(), &[0; 4]].concat()).unwrap();
    let mut told = Vec::new();
    let _ = long.read_to_end(&mut told);
    assert!(told.windows(2).any(|pair| pair == 1009u16.to_be_bytes()), "too big");
    drop((deaf, empty));
    server.wait_for("sessions_now", 0);
    assert_eq!((server.count("bytes_waiting_now"), server.count("dropped_fault")), (0, 0));
}

#[test]
fn one_byte_at_a_time_behind_every_layer_runs_into_the_line_timer() {
    let folder = folder();
    let server = serve_all(mainnet(), &folder, |config| config.limits.line_time_max = Duration::from_millis(300));
    let line = [b' '; 100].to_vec();
    let (message, body) = (frame(0x81, &line), post(&" ".repeat(100)).into_bytes());
    for (count, (name, bytes)) in (1..).zip([
        ("tls", &line),
        ("unix", &line),
        ("ws", &message),
        ("wss", &message),
        ("http", &body),
        ("https", &body),
    ]) {
        let mut caller = server.caller(name);
        caller.greet();
        let started = Instant::now();
        for byte in bytes {
            if caller.stream.write_all(&[*byte]).and_then(|()| caller.stream.flush()).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(15));
        }
        server.wait_for("dropped_timeout", count);
        assert!(started.elapsed() < Duration::from_secs(5), "{name}");
    }
}

#[test]
fn heads_of_http_are_bounded_in_bytes_and_in_number() {
    let folder = folder();
    let server = serve_all(mainnet(), &folder, |_| {});
    let ping = r#"{"id":1,"method":"server.ping"}"#;
    let with = |headers: &str| post(ping).replacen("\r\n", &format!("\r\n{headers}"), 1);
    for (request, status) in [
        (with("X: y\r\n"), 200),
        (with(&format!("X: {}\r\n", "y".repeat(1 << 20))), 431),
        (with(&"X: y\r\n".repeat(100_000)), 431),
        (with("Transfer-Encoding: chunked\r\n"), 501),
        (with("Content-Length: 5\r\n"), 400),
        (with("Content-Encoding: gzip\r\n"), 200), // nothing is ever unpacked
        (post(ping).replace("POST / ", "POST /../..%2f%00// "), 200),
        (post(ping).replace("POST", "HEAD"), 405),
        (post(ping).replace("POST", "OPTIONS"), 405),
    ] {
        let mut stream = server.tcp("http");
        // It may hang up while the rest is still written.
        let _ = stream.write_all(request.replace("Host: a", "Host: a\r\nConnection: close").as_bytes());
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
        let told = String::from_utf8_lossy(&told);
        assert!(
            told.is_empty() && status == 431 || told.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request:.80}: {told}"
        );
    }
    server.wait_for("sessions_now", 0);
}
