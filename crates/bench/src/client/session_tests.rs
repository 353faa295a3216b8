//! The measuring client against a server that says what it is told to.
//!
//! In:     answers, word for word.
//! Out:    one test a promise.
//! Fails:  where a notice counts as an answer, a refusal as a result, or a batch is out of order.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;
use crate::client::Scheme;

/// A server that answers the opening, then each line with the next of these texts.
fn scripted(answers: Vec<&'static str>) -> (Address, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address =
        Address { scheme: Scheme::Tcp, host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
    let thread = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let opening: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        assert_eq!(opening["method"], "server.version");
        let id = &opening["id"];
        writeln!(stream, r#"{{"jsonrpc":"2.0","result":["Server 1","1.4.2"],"id":{id}      }}"#).unwrap();
        let mut heard = Vec::new();
        for answer in answers {
            heard.push(lines.next().unwrap());
            writeln!(stream, "{answer}").unwrap();
        }
        heard
    });
    (address, thread)
}

fn client(answers: Vec<&'static str>) -> (Client, JoinHandle<Vec<String>>) {
    let (address, thread) = scripted(answers);
    (Client::open(&address, Duration::from_secs(5)).unwrap(), thread)
}

const NOTICE: &str = r#"{"jsonrpc":"2.0","method":"blockchain.headers.subscribe","params":[{"height":1}]}"#;

#[test]
fn results_and_refusals_are_told_apart() {
    let (mut client, thread) = client(vec![
        r#"{"jsonrpc": "2.0", "id": 2, "result": {"confirmed": 5}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":"too long"},"id":3}"#,
        r#"{"error":null,"result":null,"id":4}"#,
        "nonsense",
    ]);
    assert_eq!((client.software.as_str(), client.protocol.as_str()), ("Server 1", "1.4.2"));
    assert_eq!(client.call("a", json!([1])), Ok(json!({ "confirmed": 5 })));
    let refused = Failure::Refused { code: 1, message: "too long".to_owned() };
    assert_eq!(client.call("b", json!([])), Err(refused.clone()));
    assert_eq!(client.call("c", json!([])), Ok(Value::Null));
    assert!(matches!(client.call("d", json!([])), Err(Failure::Strange(_))));
    assert_eq!(refused.kind(), "error 1");
    let heard = thread.join().unwrap();
    assert_eq!(heard[0], r#"{"jsonrpc":"2.0","id":3,"method":"a","params":[1]}"#);
    assert!(matches!(client.call("e", json!([])), Err(Failure::Closed(_))));
}

#[test]
fn notices_are_no_answers() {
    let both = concat!(
        r#"{"jsonrpc":"2.0","method":"blockchain.headers.subscribe","params":[{"height":1}]}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":1,"result":"the \"method\" is text here"}"#
    );
    let (mut client, thread) = client(vec![both, both, NOTICE]);
    let text = request(1, "a", &json!([]));
    let took = client.exchange(&text, 1).unwrap();
    assert_eq!((took.bytes, took.has_error), (both.lines().nth(1).unwrap().len(), false));
    assert!(took.time > Duration::ZERO);
    assert_eq!(client.call("b", json!([])), Ok(json!("the \"method\" is text here")));
    client.wire.send("{}").unwrap();
    assert_eq!(client.notice().unwrap().unwrap()["params"][0]["height"], 1);
    thread.join().unwrap();
}

#[test]
fn batches_come_in_the_order_they_were_asked() {
    let answer = r#"[{"id":2,"result":"c"},{"id":0,"result":"a"},{"id":1,"error":{"code":-32601,"message":"none"}}]"#;
    let (mut client, thread) =
        client(vec![answer, r#"{"id":null,"error":{"code":-32600,"message":"too many"}}"#, "[]"]);
    let page = [("m", json!([0])), ("m", json!([1])), ("n", json!([]))];
    let (results, took_s) = client.call_all(&page).unwrap();
    assert!(took_s > 0.0);
    assert_eq!((&results[0], &results[2]), (&Ok(json!("a")), &Ok(json!("c"))));
    assert_eq!(results[1].as_ref().err().map(Failure::kind), Some("error -32601".to_owned()));
    assert_eq!(client.call_all(&page).err().map(|failure| failure.kind()), Some("error -32600".to_owned()));
    assert!(client.call_all(&page).unwrap().0.iter().all(|result| matches!(result, Err(Failure::Strange(_)))));
    let heard = thread.join().unwrap();
    let batch: Vec<Value> = serde_json::from_str(&heard[0]).unwrap();
    assert_eq!((batch.len(), &batch[2]["method"], &batch[2]["id"]), (3, &json!("n"), &json!(2)));
}

#[test]
fn errors_are_seen_wherever_they_are() {
    for (text, want) in [
        (r#"{"id":1,"result":5}"#, false),
        (r#"{"error": null, "id":1,"result":5}"#, false),
        (r#"{"id":1,"error":{"code":2}}"#, true),
        (r#"[{"error":null,"result":1},{"error" : {"code":2}}]"#, true),
    ] {
        assert_eq!(has_error(text.as_bytes()), want, "{text}");
    }
}
