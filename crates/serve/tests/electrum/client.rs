//! A server on a loopback port and a client that speaks lines.
//!
//! In:     a chain, limits, requests as text.
//! Out:    answers as text or JSON.
//! Fails:  panics where the server does not answer within ten seconds.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use primitives::{Network, Params, ScriptHash};
use serde_json::{Value, json};
use serve::electrum::limits::Limits;
use serve::electrum::{Config, ServerHandle, start};
use serve::plain::PlainChain;
use serve::source::Event;

/// Longest wait for an answer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A running server over a chain in memory.
pub struct Server {
    pub chain: Arc<PlainChain>,
    pub handle: ServerHandle,
    pub events: Sender<Event>,
}

/// Starts a server with limits changed by `change`.
pub fn serve(chain: PlainChain, change: impl FnOnce(&mut Limits)) -> Server {
    let chain = Arc::new(chain);
    let mut config = Config::new("127.0.0.1:0".parse().unwrap(), Params::of(Network::Main));
    change(&mut config.limits);
    let (events, receiver) = channel();
    let mut handle = start(config, chain.clone()).unwrap();
    handle.follow(receiver, None).unwrap();
    Server { chain, handle, events }
}

impl Server {
    /// A connection that has said nothing.
    pub fn connect(&self) -> Client {
        connect_to(self.handle.local_address())
    }

    /// A connection that has greeted.
    pub fn greet(&self) -> Client {
        greet_at(self.handle.local_address())
    }

    /// A counter by its name.
    #[track_caller]
    pub fn count(&self, name: &str) -> u64 {
        let rows = self.handle.metrics().rows();
        rows.iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("no counter {name}")).2
    }

    /// Waits until a counter has a value.
    #[track_caller]
    pub fn wait_for(&self, name: &str, want: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.count(name) != want {
            assert!(Instant::now() < deadline, "{name} is {} and not {want}", self.count(name));
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn connect_to(address: SocketAddr) -> Client {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    Client { reader: BufReader::new(stream.try_clone().unwrap()), stream, next_id: 0 }
}

/// A connection that has greeted whoever listens there.
pub fn greet_at(address: SocketAddr) -> Client {
    let mut client = connect_to(address);
    assert_eq!(client.call("server.version", json!(["test", "1.4"]))[1], "1.4");
    client
}

/// One connection.
pub struct Client {
    pub stream: TcpStream,
    pub reader: BufReader<TcpStream>,
    next_id: u64,
}

impl Client {
    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends one line.
    pub fn send_line(&mut self, line: &str) {
        self.send([line.as_bytes(), b"\n"].concat());
    }

    /// The next line; none when the server has closed.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// The next line as JSON.
    #[track_caller]
    pub fn json(&mut self) -> Value {
        serde_json::from_str(&self.line().expect("an answer")).expect("JSON")
    }

    /// Sends a line and gives the answer.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> Value {
        self.send_line(line);
        self.json()
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let answer = self.ask(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The result of a request.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.request(method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].take()
    }

    /// Code and message of a request that is refused.
    #[track_caller]
    pub fn refusal(&mut self, method: &str, params: Value) -> (i64, String) {
        let answer = self.request(method, params);
        let error = answer.get("error").unwrap_or_else(|| panic!("not refused: {answer}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// True when the server has closed and sent nothing more.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A script hash as the protocol writes it.
pub fn hash_of(script: &[u8]) -> String {
    ScriptHash::of(script).to_string()
}
