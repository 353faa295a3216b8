//! The Electrum wallet itself, through a whole life of a wallet.
//!
//! In:     a program `electrum` in the folders that `FOREIGN_NODES` lists, or on PATH; a world with coins.
//! Out:    restored, history found, received, confirmed, reorganised away, spent, replaced, packed.
//! Fails:  where the wallet's books are not ours. Without the program the test is "skipped".

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clients::folders;
use crate::coins::{
    ADDRESS, COIN_SAT, SECRET, call, coin_of, digits, mine, mine_coins, mine_only, own_script, sign, stranger,
};
use crate::wire::Wire;
use crate::world::World;

/// Longest wait for anything: the program takes seconds to start on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running wallet, and where it listens for commands.
struct Electrum {
    child: Child,
    address: String,
    wallet: PathBuf,
}

impl Drop for Electrum {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Electrum {
    /// Starts the program with our server as its only one; none where it is not installed.
    fn start(folder: &Path, server: u16) -> Option<Electrum> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places = folders().into_iter().chain(std::env::split_paths(&path).collect::<Vec<_>>());
        let program = places.find_map(|place| Some(place.join("electrum")).filter(|program| program.is_file()))?;
        // Free now, and with luck until the program listens there.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let wallets = folder.join("regtest/wallets");
        std::fs::create_dir_all(&wallets).unwrap();
        let settings = json!({
            "rpcuser": "u", "rpcpassword": "p", "rpcport": port, "rpchost": "127.0.0.1", "rpcsock": "tcp",
            "oneserver": true, "auto_connect": false, "server": format!("127.0.0.1:{server}:t"),
            "check_updates": false, "config_version": 3,
        });
        std::fs::write(folder.join("regtest/config"), settings.to_string()).unwrap();
        let mut command = Command::new(program);
        command.args(["--regtest", "-D"]).arg(folder).arg("daemon");
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let electrum = Electrum { child, address: format!("127.0.0.1:{port}"), wallet: wallets.join("default_wallet") };
        electrum.wait("the program answers", |electrum| electrum.try_ask("getinfo", json!({})).is_ok());
        Some(electrum)
    }

    fn try_ask(&self, method: &str, params: Value) -> Result<Value, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(&self.address).map_err(failed)?;
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let head = "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic dTpw\r\nConnection: close\r\n";
        let request = format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(failed)?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let mut answer: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {answer}"))?;
        match answer.get("error").filter(|error| !error.is_null()) {
            Some(error) => Err(error.to_string()),
            None => Ok(answer["result"].take()),
        }
    }

    /// The result of a command, about the wallet of the usual name.
    #[track_caller]
    fn ask(&self, method: &str, params: Value) -> Value {
        self.try_ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    #[track_caller]
    fn wait(&self, what: &str, mut done: impl FnMut(&Electrum) -> bool) {
        let begin = Instant::now();
        while !done(self) {
            assert!(begin.elapsed() < PATIENCE, "{what} does not come about");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until its history has these transactions at these heights, and its chain ends where ours does.
    #[track_caller]
    fn knows(&self, world: &World, want: &[(String, i64)]) {
        let mut want = want.to_vec();
        want.sort();
        let tip = call(world, "getbestblockhash", json!([]));
        let height = call(world, "getblockheader", json!([tip]))["height"].clone();
        let mut last = Vec::new();
        let begin = Instant::now();
        loop {
            let history = self.ask("onchain_history", json!({}));
            let row = |row: &Value| (row["txid"].as_str().unwrap().to_owned(), row["height"].as_i64().unwrap().max(0));
            // Before version 4.6 the list is a part of an object.
            let rows = history.get("transactions").unwrap_or(&history).as_array().unwrap();
            let mut got: Vec<(String, i64)> = rows.iter().map(row).collect();
            got.sort();
            let chain = self.try_ask("getinfo", json!({})).unwrap();
            if got == want && chain["blockchain_height"] == height {
                return;
            }
            if got != last {
                last = got;
            }
            assert!(begin.elapsed() < PATIENCE, "at {height}: {last:?}\nnot {want:?}\n{chain}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn the_electrum_wallet_lives_through_a_payment() {
    let world = World::new("electrum-program");
    let coins = mine_coins(&world, 2);
    let wire = Wire::new(&world);
    let Some(electrum) = Electrum::start(&world.folder().join("wallet"), wire.handle.local_address().port()) else {
        return println!("skipped: no electrum on PATH or in FOREIGN_NODES");
    };
    let restored = json!({"text": format!("p2wpkh:{SECRET}"), "wallet_path": electrum.wallet, "encrypt_file": false});
    electrum.try_ask("restore", restored).unwrap();
    electrum.try_ask("load_wallet", json!({"wallet_path": electrum.wallet})).unwrap();
    assert_eq!(electrum.ask("listaddresses", json!({})), json!([ADDRESS]));
    let height = || call(&world, "getblockcount", json!([])).as_i64().unwrap();
    let name = |transaction: &primitives::Transaction| transaction.tx().txid().to_string();
    let broadcast = |digits: &str| electrum.try_ask("broadcast", json!({"tx": digits})).unwrap();

    // The history that was there before.
    let first_at = height() - 101;
    let found = [(coins[0].outpoint.txid.to_string(), first_at), (coins[1].outpoint.txid.to_string(), first_at + 1)];
    electrum.knows(&world, &found);
    assert_eq!(electrum.ask("getbalance", json!({}))["confirmed"], "50");

    // Received from elsewhere, confirmed (the wallet checks the proof), reorganised away.
    let change = coins[0].value_sat - 1_001_000;
    let received = sign(&world, &coins[..1], &[(1_000_000, own_script()), (change, own_script())]);
    call(&world, "sendrawtransaction", json!([digits(&received)]));
    let with = |more: &[(String, i64)]| [&found[..], more].concat();
    electrum.knows(&world, &with(&[(name(&received), 0)]));
    mine(&world);
    electrum.knows(&world, &with(&[(name(&received), height())]));
    call(&world, "invalidateblock", json!([call(&world, "getbestblockhash", json!([]))]));
    mine_only(&world, 1, &[]);
    mine_only(&world, 2, &[]);
    electrum.knows(&world, &with(&[(name(&received), 0)]));

    // The wallet spends by itself: it signs, we take what it sends.
    let address = primitives::address::of_script(&stranger(1), &primitives::Params::of(primitives::Network::Regtest));
    let wish = json!({"destination": address, "amount": "0.2", "fee": "0.0001", "rbf": true});
    let spent = electrum.ask("payto", wish);
    let sent = broadcast(spent.as_str().unwrap()).as_str().unwrap().to_owned();
    electrum.knows(&world, &with(&[(name(&received), 0), (sent.clone(), 0)]));

    // Another copy of the wallet replaces it: the first disappears.
    let inputs = call(&world, "decoderawtransaction", json!([spent]))["vin"].clone();
    let coin = coins[1];
    let spends = |input: &Value| input["txid"] == coin.outpoint.txid.to_string();
    let own = if inputs.as_array().unwrap().iter().any(spends) { coin } else { coin_of(&received, 1) };
    let second = sign(&world, &[own], &[(500_000, stranger(1)), (own.value_sat - 600_000, own_script())]);
    assert_eq!(broadcast(&digits(&second)), name(&second));
    electrum.knows(&world, &with(&[(name(&received), 0), (name(&second), 0)]));
    assert!(electrum.try_ask("broadcast", json!({"tx": spent})).is_err(), "it pays less than what replaced it");

    // A package that somebody sent, then all of it confirmed.
    let parent = sign(&world, &[coin_of(&second, 1)], &[(own.value_sat - 600_000, own_script())]);
    let child = sign(&world, &[coin_of(&parent, 0)], &[(own.value_sat - 700_000, own_script())]);
    call(&world, "submitpackage", json!([[digits(&parent), digits(&child)]]));
    let all = [&received, &second, &parent, &child];
    electrum.knows(&world, &with(&all.map(|one| (name(one), 0))));
    mine(&world);
    electrum.knows(&world, &with(&all.map(|one| (name(one), height()))));
    let left = 2 * COIN_SAT - 1_000 - 600_000 - 100_000;
    let shown = format!("{}.{:08}", left / 100_000_000, left % 100_000_000);
    assert_eq!(electrum.ask("getbalance", json!({}))["confirmed"], shown.trim_end_matches('0'));
}
