//! An Electrum server over a world, and clients that remember what they were told.
//!
//! In:     a world, requests.
//! Out:    answers; notices in the order in which they came.
//! Fails:  panics where the server does not answer within a minute.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use primitives::{Network, Params};
use serde_json::{Value, json};
use serve::confirmed::{Confirmed, Waiting};
use serve::electrum::{Config, Env, ServerHandle, start};

use crate::world::World;

/// Longest wait for an answer, on a machine that does other things besides.
const PATIENCE: Duration = Duration::from_secs(60);

/// A source over the world's writer and mempool.
pub fn source(world: &World) -> Arc<Confirmed> {
    let source = Arc::new(Confirmed::new(&Params::of(Network::Regtest)));
    let pool = world.env.mempool.get().unwrap().clone();
    let (mempool, followed) = (world.mempool.clone(), world.followed.clone());
    source.open(world.handle.clone(), Waiting { mempool, followed, pool });
    source
}

/// What the server says of itself, the same in every build.
pub fn config() -> Config {
    let mut config = Config::new("127.0.0.1:0".parse().unwrap(), Params::of(Network::Regtest));
    config.server_name = "ElectrumX-compatible/Assay 0.0.0".into();
    config.banner = "A banner".into();
    config
}

/// What sessions share, without sockets.
pub fn env(world: &World) -> Arc<Env> {
    Arc::new(Env::new(config(), source(world)))
}

/// A running server.
pub struct Wire {
    pub handle: ServerHandle,
}

impl Wire {
    /// Serves a world.
    pub fn new(world: &World) -> Wire {
        let mut handle = start(config(), source(world)).unwrap();
        handle.follow(world.handle.subscribe(), Some(world.mempool.clone())).unwrap();
        Wire { handle }
    }

    /// A client that speaks this version.
    pub fn greet(&self, version: &str) -> Client {
        let stream = TcpStream::connect(self.handle.local_address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        let mut client = Client { stream, reader, next_id: 0, notices: VecDeque::new() };
        assert_eq!(client.call("server.version", json!(["test", version]))[1], version);
        client
    }
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    next_id: u64,
    notices: VecDeque<Value>,
}

impl Client {
    fn line(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.reader.read_line(&mut line).unwrap() > 0, "the server has closed");
        serde_json::from_str(&line).unwrap()
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        loop {
            let line = self.line();
            if line.get("id").is_some_and(|answered| *answered == id) {
                return line;
            }
            assert!(line.get("method").is_some(), "{line}");
            self.notices.push_back(line);
        }
    }

    /// The result of a request.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.request(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Code and message of a request that is refused.
    #[track_caller]
    pub fn refusal(&mut self, method: &str, params: Value) -> (i64, String) {
        let answer = self.request(method, params);
        let error = answer.get("error").unwrap_or_else(|| panic!("not refused: {answer}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// The result of a request, or none where it is refused.
    pub fn try_call(&mut self, method: &str, params: Value) -> Option<Value> {
        self.request(method, params).get_mut("result").map(Value::take)
    }

    /// Notices that came before the answers read so far: method and parameters.
    pub fn told(&mut self) -> Vec<(String, Value)> {
        let of = |mut notice: Value| (notice["method"].as_str().unwrap().to_owned(), notice["params"].take());
        self.notices.drain(..).map(of).collect()
    }

    /// The next notice, waited for.
    #[track_caller]
    pub fn next_notice(&mut self) -> (String, Value) {
        let mut notice = match self.notices.pop_front() {
            Some(notice) => notice,
            None => self.line(),
        };
        (notice["method"].as_str().expect("a notice").to_owned(), notice["params"].take())
    }
}
