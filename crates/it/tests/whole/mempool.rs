//! The mempool over restarts, kills and damage, asked through `assay cli`.
//!
//! In:     a node on its own blocks, transactions of one key.
//! Out:    what is saved comes back; what is not costs nothing but itself.
//! Fails:  with the node's log.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::node::{Node, assay};
use crate::world::Folder;

const ADDRESS: &str = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
const SECRET: &str = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";

/// A running node and the port of its JSON-RPC.
struct Asked {
    node: Node,
    port: String,
    datadir: String,
}

impl Asked {
    fn start(datadir: &Path, more: &[&str]) -> Asked {
        let mut all = vec!["--p2p", "off"];
        all.extend(more);
        let mut node = Node::start_with(datadir, "own".as_ref(), &all);
        node.wait_for(|status| status["phase"] == "following" && status["mempool"].is_object());
        let log = node.log();
        let line = log.lines().find(|line| line.contains("area=rpc event=listening")).expect("a port");
        let port = line.split("address=127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        Asked { node, port, datadir: datadir.to_str().unwrap().to_owned() }
    }

    /// What `assay cli` prints.
    #[track_caller]
    fn cli(&self, arguments: &[&str]) -> String {
        let (datadir, port) = (format!("-datadir={}", self.datadir), format!("-rpcport={}", self.port));
        let mut all = vec!["cli", "-regtest", &datadir, &port];
        all.extend(arguments);
        let output = assay(&all).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {told}\n{}", self.node.log());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn asked(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.cli(arguments)).unwrap()
    }

    /// Spends the coinbase of a block, leaves this fee, and sends it; its txid.
    fn send(&self, height: u32, fee: &str) -> String {
        let block = self.asked(&["getblock", &self.cli(&["getblockhash", &height.to_string()])]);
        let spent = json!([{ "txid": block["tx"][0], "vout": 0 }]).to_string();
        let paid = format!("[{{\"{ADDRESS}\":{fee}}}]");
        let raw = self.cli(&["createrawtransaction", &spent, &paid]);
        let signed = self.asked(&["signrawtransactionwithkey", &raw, &format!("[\"{SECRET}\"]")]);
        assert_eq!(signed["complete"], json!(true), "{signed}");
        self.cli(&["sendrawtransaction", signed["hex"].as_str().unwrap()])
    }

    fn txids(&self) -> Vec<String> {
        serde_json::from_value(self.asked(&["getrawmempool"])).unwrap()
    }

    fn wait_loaded(&mut self) -> Vec<String> {
        let deadline = std::time::Instant::now() + crate::node::PATIENCE;
        while self.asked(&["getmempoolinfo"])["loaded"] != json!(true) {
            assert!(std::time::Instant::now() < deadline, "{}", self.node.log());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        self.txids()
    }
}

#[test]
fn a_mempool_outlasts_a_stop_and_costs_only_itself_where_it_is_lost() {
    let folder = Folder::new("mempool");
    let data = folder.join("data");
    let file = data.join("regtest/mempool.dat");
    let asked = Asked::start(&data, &[]);
    asked.cli(&["generatetoaddress", "103", ADDRESS]);
    let first = asked.send(1, "49.999");
    asked.cli(&["prioritisetransaction", &first, "0", "1234"]);
    assert_eq!(asked.txids(), [first.clone()]);
    let mut asked = asked;
    let status = asked.node.wait_for(|status| status["mempool"]["transactions"] == 1);
    assert!(status["mempool"]["memory_bytes"].as_u64().unwrap() > 500, "{status}");
    let metrics = assay(&["status", "--metrics", "--chain", "regtest", "--datadir", data.to_str().unwrap()]).output();
    let metrics = String::from_utf8(metrics.unwrap().stdout).unwrap();
    for line in ["bitcoin_mempool_size 1", "bitcoin_mempool_minfee 0.000001", "assay_mempool_transactions 1"] {
        assert!(metrics.lines().any(|have| have == line), "{line}: {metrics}");
    }
    // A clean stop saves it, and its estimates.
    assert_eq!(asked.node.stop().code, Some(0));
    assert!(file.is_file() && data.join("regtest/fee_estimates.dat").is_file());
    let mut asked = Asked::start(&data, &[]);
    assert_eq!(asked.wait_loaded(), [first.clone()]);
    assert_eq!(asked.asked(&["getprioritisedtransactions"])[&first]["fee_delta"], json!(1234));
    // A kill loses what came since.
    let second = asked.send(2, "49.998");
    assert_eq!(asked.txids(), [second, first.clone()]);
    drop(asked);
    let mut asked = Asked::start(&data, &[]);
    assert_eq!(asked.wait_loaded(), [first.clone()]);
    assert_eq!(asked.cli(&["getblockcount"]), "103");
    // What the owner saves outlasts it.
    let second = asked.send(2, "49.998");
    let saved = asked.asked(&["savemempool"]);
    assert_eq!(saved["filename"].as_str(), file.to_str());
    drop(asked);
    let mut asked = Asked::start(&data, &[]);
    assert_eq!(asked.wait_loaded(), [second.clone(), first]);
    assert_eq!(asked.node.stop().code, Some(0));
    // Damage costs what stands behind it, and a line of the log.
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 60]).unwrap();
    fs::write(data.join("regtest/fee_estimates.dat"), "no estimates").unwrap();
    let mut asked = Asked::start(&data, &[]);
    assert!(asked.wait_loaded().contains(&second));
    let log = asked.node.log();
    assert!(log.contains("event=\"loaded in part\"") && log.contains("event=\"fee estimates are not read\""), "{log}");
    // Switched off, the file is neither read nor written.
    assert_eq!(asked.node.stop().code, Some(0));
    let before = fs::read(&file).unwrap();
    let mut asked = Asked::start(&data, &["--mempool-save", "off"]);
    assert_eq!(asked.wait_loaded(), Vec::<String>::new());
    assert_eq!(asked.node.stop().code, Some(0));
    assert_eq!(fs::read(&file).unwrap(), before);
}
