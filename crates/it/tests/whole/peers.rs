//! Our program beside Bitcoin Core's: blocks and transactions both ways, and changes of branches.
//!
//! In:     bitcoind, where it is installed; plain and encrypted transport, each calling the other.
//! Out:    the same tip and the same mempool on both sides.
//! Fails:  where one side does not follow within a minute.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::bitcoind::{Bitcoind, MINER_ADDRESS, MINER_KEY, call, wait};
use crate::node::Node;
use crate::world::Folder;

/// Blocks after which a coinbase may be spent, and one.
const MATURE: u32 = 101;

/// Our node on blocks of its own, among peers.
struct Ours {
    node: Node,
    datadir: PathBuf,
    rpc: SocketAddr,
    peers: Option<SocketAddr>,
}

impl Ours {
    /// A node with more settings than it needs to stand alone.
    fn start(folder: &Folder, name: &str, more: &[&str]) -> Ours {
        let datadir = folder.join(name);
        let mut arguments = vec!["--p2p", "on"];
        arguments.extend(more);
        let mut node = Node::start_with(&datadir, "own".as_ref(), &arguments);
        let status = node.wait_for(|status| status["phase"] == "following" && !status["peers"].is_null());
        let peers = status["peers"]["listen"].as_str().and_then(|text| text.parse().ok());
        let log = node.log();
        let line =
            log.lines().find(|line| line.contains("area=rpc event=listening")).expect("a line of the RPC's port");
        let rpc = line.split("address=").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
        Ours { node, datadir, rpc: rpc.parse().unwrap(), peers }
    }

    #[track_caller]
    fn call(&self, method: &str, params: Value) -> Value {
        let cookie = fs::read_to_string(self.datadir.join("regtest/.cookie")).unwrap();
        call(self.rpc, &cookie, method, &params)
            .unwrap_or_else(|error| panic!("{method} {params}: {error}\n{}", self.node.log()))
    }

    fn tip(&self) -> Value {
        self.call("getbestblockhash", json!([]))
    }

    fn has_unconfirmed(&self, txid: &Value) -> bool {
        self.call("getrawmempool", json!([])).as_array().is_some_and(|txids| txids.contains(txid))
    }

    #[track_caller]
    fn mine(&self, count: u32) {
        self.call("generatetoaddress", json!([count, MINER_ADDRESS]));
    }

    /// A signed transaction that spends the coinbase at `height`.
    #[track_caller]
    fn spend(&self, height: u32) -> Value {
        let block = self.call("getblock", json!([self.call("getblockhash", json!([height])), 2]));
        let outputs = block["tx"][0]["vout"].as_array().unwrap();
        let paid =
            outputs.iter().find(|output| output["scriptPubKey"]["address"] == MINER_ADDRESS).expect("it pays us");
        let value = paid["value"].as_f64().unwrap();
        let inputs = json!([{"txid": block["tx"][0]["txid"], "vout": paid["n"]}]);
        let outputs = json!([{MINER_ADDRESS: format!("{:.8}", value - 0.0002)}]);
        let raw = self.call("createrawtransaction", json!([inputs, outputs]));
        let signed = self.call("signrawtransactionwithkey", json!([raw, [MINER_KEY]]));
        assert_eq!(signed["complete"], true, "{signed}");
        signed["hex"].clone()
    }
}

#[track_caller]
fn same_tip(ours: &Ours, theirs: &Bitcoind, what: &str) {
    wait(what, || ours.tip() == theirs.tip());
}

/// The life of a pair: who connects to whom is decided by then.
fn live_together(ours: &Ours, theirs: &Bitcoind) {
    theirs.mine(MATURE);
    same_tip(ours, theirs, "their blocks reach us");
    ours.mine(2);
    same_tip(ours, theirs, "our blocks reach them");

    let first = ours.call("sendrawtransaction", json!([ours.spend(1)]));
    wait("our transaction reaches them", || theirs.has_unconfirmed(&first));
    let second = theirs.call("sendrawtransaction", json!([ours.spend(2)]));
    wait("their transaction reaches us", || ours.has_unconfirmed(&second));
    theirs.mine(1);
    same_tip(ours, theirs, "a block of known transactions reaches us");
    wait("the mempool is empty", || ours.call("getrawmempool", json!([])) == json!([]));

    // They leave the block that holds both, and mine a longer branch with neither.
    let left = ours.tip();
    let third = theirs.call("sendrawtransaction", json!([ours.spend(3)]));
    wait("a third transaction reaches us", || ours.has_unconfirmed(&third));
    theirs.call("invalidateblock", json!([left]));
    theirs.mine(2);
    same_tip(ours, theirs, "we follow them to another branch");
    assert_ne!(ours.call("getblockheader", json!([left]))["confirmations"], 1);
    for txid in [&first, &second, &third] {
        // What their new blocks left out is unconfirmed again on both sides; what they took is not.
        wait("mempools agree after the change", || ours.has_unconfirmed(txid) == theirs.has_unconfirmed(txid));
    }
    // And we leave theirs, for whichever of both is the best then: they have to take ours.
    theirs.call("reconsiderblock", json!([left]));
    ours.call("invalidateblock", json!([ours.tip()]));
    ours.mine(3);
    same_tip(ours, theirs, "they follow us to another branch");
}

#[test]
fn bitcoin_core_and_we_follow_each_other() {
    for encrypted in [false, true] {
        let folder = Folder::new("peers");
        // They are called by us.
        let Some(theirs) = Bitcoind::start(encrypted, None) else { return };
        let address = theirs.address();
        let ours = Ours::start(&folder, "calls", &["--p2p-connect", &address, "--p2p-listen", "off"]);
        wait("a connection", || {
            let peers = ours.call("getpeerinfo", json!([]));
            let transport = peers[0]["transport_protocol_type"].as_str();
            transport == Some(if encrypted { "v2" } else { "v1" })
        });
        live_together(&ours, &theirs);
        assert_eq!(ours.node.stop().code, Some(0));

        // They call us.
        let ours = Ours::start(&folder, "called", &["--p2p-listen", "127.0.0.1:0"]);
        ours.mine(5);
        let theirs = Bitcoind::start(encrypted, ours.peers).expect("it started before");
        same_tip(&ours, &theirs, "a node that is new gets our chain");
        live_together(&ours, &theirs);
        assert_eq!(ours.node.stop().code, Some(0));
    }
}
