//! Unconfirmed transactions through JSON-RPC, with the real writer, mempool and file behind.
//!
//! In:     calls.
//! Out:    what a wallet, a miner and an explorer see of a transaction from its sending to its block, and back.
//! Fails:  panics.

use std::fs;

use serde_json::{Value, json};

use crate::world::World;

/// Pays to the key below, and its secret as wallets write it.
const ADDRESS: &str = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
const SECRET: &str = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
/// What a coin of the wallet holds: a block's reward after 150 blocks.
const COIN_SAT: u64 = 2_500_000_000;

/// A world with mature coins of one key.
struct Wallet {
    world: World,
    coins: Vec<String>,
}

fn btc(sat: u64) -> String {
    format!("{}.{:08}", sat / 100_000_000, sat % 100_000_000)
}

impl Wallet {
    fn new(name: &str, coins: usize) -> Wallet {
        let world = World::new(name);
        // The reward halves at block 150 of regtest.
        world
            .call("generatetoaddress", "[20,\"bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry\"]")
            .unwrap();
        let made = world.call("generatetoaddress", &format!("[{coins},\"{ADDRESS}\"]")).unwrap();
        world
            .call("generatetoaddress", "[100,\"bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry\"]")
            .unwrap();
        let coinbase = |hash: &Value| {
            let block = world.call("getblock", &format!("[{hash},1]")).unwrap();
            block["tx"][0].as_str().unwrap().to_owned()
        };
        let coins = made.as_array().unwrap().iter().map(coinbase).collect();
        Wallet { world, coins }
    }

    /// A signed transaction that spends outputs (txid, position, amount) and leaves a fee.
    fn pays(&self, inputs: &[(&str, u32, u64)], outputs_sat: &[u64]) -> (String, String) {
        let spent: Vec<Value> = inputs.iter().map(|(txid, vout, _)| json!({ "txid": txid, "vout": vout })).collect();
        // One address may stand for one output only: the others go to a script.
        let paid: Vec<String> = outputs_sat
            .iter()
            .enumerate()
            .map(|(at, sat)| match at {
                0 => format!("{{\"{ADDRESS}\":{}}}", btc(*sat)),
                _ => format!("{{\"bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry\":{}}}", btc(*sat)),
            })
            .collect();
        let params = format!("[{},[{}]]", json!(spent), paid.join(","));
        let raw = self.world.call("createrawtransaction", &params).unwrap();
        let script = "0014751e76e8199196d454941c45d1b3a323f1433bd6";
        let previous: Vec<String> = inputs
            .iter()
            .map(|(txid, vout, sat)| {
                format!(
                    "{{\"txid\":\"{txid}\",\"vout\":{vout},\"scriptPubKey\":\"{script}\",\"amount\":{}}}",
                    btc(*sat)
                )
            })
            .collect();
        let params = format!("[{raw},[\"{SECRET}\"],[{}]]", previous.join(","));
        let signed = self.world.call("signrawtransactionwithkey", &params).unwrap();
        assert_eq!(signed["complete"], json!(true), "{signed}");
        let hex = signed["hex"].as_str().unwrap().to_owned();
        let decoded = self.world.call("decoderawtransaction", &format!("[\"{hex}\"]")).unwrap();
        (decoded["txid"].as_str().unwrap().to_owned(), hex)
    }

    /// Spends the coin of this number, with that fee.
    fn spends(&self, coin: usize, fee_sat: u64) -> (String, String) {
        self.pays(&[(&self.coins[coin], 0, COIN_SAT)], &[COIN_SAT - fee_sat])
    }

    fn call(&self, method: &str, params: &str) -> Value {
        self.world.call(method, params).unwrap_or_else(|error| panic!("{method} {params}: {error:?}"))
    }

    #[track_caller]
    fn refused(&self, method: &str, params: &str, code: i64, message: &str) {
        assert_eq!(self.world.call(method, params), Err((code, message.to_owned())), "{method}");
    }

    fn send(&self, hex: &str) -> Value {
        self.call("sendrawtransaction", &format!("[\"{hex}\"]"))
    }

    fn txids(&self) -> Vec<String> {
        let txids = self.call("getrawmempool", "[]");
        txids.as_array().unwrap().iter().map(|txid| txid.as_str().unwrap().to_owned()).collect()
    }

    fn mine(&self, count: u32) -> String {
        let made = self.call("generatetoaddress", &format!("[{count},\"{ADDRESS}\"]"));
        made.as_array().unwrap().last().unwrap().as_str().unwrap().to_owned()
    }
}

#[test]
fn a_transaction_is_sent_seen_mined_left_and_mined_again() {
    let wallet = Wallet::new("sent", 2);
    let (txid, hex) = wallet.spends(0, 10_000);
    assert_eq!(wallet.send(&hex), json!(txid));
    assert_eq!(wallet.send(&hex), json!(txid), "one that is known is taken once more");
    // Seen by every method that looks at the mempool.
    assert_eq!(wallet.txids(), [txid.clone()]);
    let entry = wallet.call("getmempoolentry", &format!("[\"{txid}\"]"));
    assert_eq!((&entry["vsize"], &entry["weight"]), (&json!(110), &json!(437)));
    assert_eq!((&entry["fees"]["base"], &entry["unbroadcast"]), (&json!(0.0001), &json!(true)));
    let info = wallet.call("getmempoolinfo", "[]");
    assert_eq!((&info["loaded"], &info["size"], &info["bytes"]), (&json!(true), &json!(1), &json!(110)));
    assert_eq!((&info["total_fee"], &info["unbroadcastcount"]), (&json!(0.0001), &json!(1)));
    let shown = wallet.call("getrawtransaction", &format!("[\"{txid}\",1]"));
    assert_eq!((&shown["hex"], shown.get("blockhash")), (&json!(hex), None));
    let coin = format!("\"{}\",0", wallet.coins[0]);
    assert_eq!(wallet.call("gettxout", &format!("[{coin}]")), json!(null), "the mempool spends it");
    assert_eq!(wallet.call("gettxout", &format!("[{coin},false]"))["value"], json!(25.0));
    assert_eq!(wallet.call("gettxout", &format!("[\"{txid}\",0]"))["confirmations"], json!(0));
    let spender = wallet.call("gettxspendingprevout", &format!("[[{{\"txid\":\"{}\",\"vout\":0}}]]", wallet.coins[0]));
    assert_eq!(spender[0]["spendingtxid"], json!(txid));
    assert_eq!(wallet.call("getmininginfo", "[]")["pooledtx"], json!(1));
    // Offered to miners with its fee.
    let template = wallet.call("getblocktemplate", "[{\"rules\":[\"segwit\"]}]");
    assert_eq!(template["transactions"][0]["txid"], json!(txid));
    let reward = template["coinbasevalue"].as_u64().unwrap();
    // Mined: gone from the mempool when the call is back.
    let hash = wallet.mine(1);
    assert_eq!(wallet.txids(), Vec::<String>::new());
    let block = wallet.call("getblock", &format!("[\"{hash}\",2]"));
    assert_eq!(block["tx"][1]["txid"], json!(txid));
    assert_eq!(block["tx"][0]["vout"][0]["value"], json!(reward as f64 / 1e8));
    wallet.refused("sendrawtransaction", &format!("[\"{hex}\"]"), -27, "Transaction outputs already in utxo set");
    // The block is left: it comes back, its own child after it, and both are mined again.
    wallet.call("invalidateblock", &format!("[\"{hash}\"]"));
    assert_eq!(wallet.txids(), [txid.clone()]);
    let (child, child_hex) = wallet.pays(&[(&txid, 0, COIN_SAT - 10_000)], &[COIN_SAT - 20_000]);
    wallet.send(&child_hex);
    wallet.call("reconsiderblock", &format!("[\"{hash}\"]"));
    assert_eq!(wallet.txids(), [child.clone()]);
    wallet.call("invalidateblock", &format!("[\"{hash}\"]"));
    assert_eq!(wallet.txids(), [txid.clone(), child.clone()], "the child waits for its parent");
    assert_eq!(wallet.call("getmempoolancestors", &format!("[\"{child}\"]")), json!([txid]));
    // On another branch both are in one block; a conflict in a block takes what it conflicts with along.
    wallet.mine(1);
    assert_eq!(wallet.txids(), Vec::<String>::new());
    let (loser, loser_hex) = wallet.spends(1, 10_000);
    wallet.send(&loser_hex);
    let (_, rival) = wallet.spends(1, 20_000);
    assert_eq!(wallet.txids(), [loser]);
    wallet.call("generateblock", &format!("[\"{ADDRESS}\",[\"{rival}\"]]"));
    assert_eq!(wallet.txids(), Vec::<String>::new());
    wallet.call("syncwithvalidationinterfacequeue", "[]");
}

#[test]
fn refusals_have_cores_codes_and_words() {
    let wallet = Wallet::new("refused", 2);
    let (txid, hex) = wallet.spends(0, 10_000);
    let missing = wallet.pays(&[(&"ab".repeat(32), 0, 50_000)], &[40_000]).1;
    wallet.refused("sendrawtransaction", &format!("[\"{missing}\"]"), -25, "bad-txns-inputs-missingorspent");
    let (_, free) = wallet.spends(0, 10);
    wallet.refused("sendrawtransaction", &format!("[\"{free}\"]"), -26, "min relay fee not met, 10 < 11");
    let most = "Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)";
    wallet.refused("sendrawtransaction", &format!("[\"{hex}\",0.0009]"), -25, most);
    wallet.refused("sendrawtransaction", "[\"00\"]", -22, "TX decode failed. Make sure the tx has at least one input.");
    let rate = "Fee rates larger than or equal to 1BTC/kvB are not accepted";
    wallet.refused("sendrawtransaction", &format!("[\"{hex}\",1]"), -8, rate);
    assert_eq!(wallet.txids(), Vec::<String>::new());
    // Tests keep nothing, and say each what it would be told.
    let tested = wallet.call("testmempoolaccept", &format!("[[\"{hex}\"]]"));
    assert_eq!(
        (&tested[0]["txid"], &tested[0]["allowed"], &tested[0]["vsize"]),
        (&json!(txid), &json!(true), &json!(110))
    );
    assert_eq!(tested[0]["fees"]["effective-feerate"], json!(0.00090909));
    let tested = wallet.call("testmempoolaccept", &format!("[[\"{missing}\"]]"));
    assert_eq!((&tested[0]["allowed"], &tested[0]["reject-reason"]), (&json!(false), &json!("missing-inputs")));
    let tested = wallet.call("testmempoolaccept", &format!("[[\"{hex}\"],0.0009]"));
    assert_eq!((&tested[0]["allowed"], &tested[0]["reject-reason"]), (&json!(false), &json!("max-fee-exceeded")));
    // A replacement pays for what it replaces and for itself.
    wallet.send(&hex);
    let (_, poor) = wallet.spends(0, 10_001);
    let (code, told) = wallet.world.call("sendrawtransaction", &format!("[\"{poor}\"]")).unwrap_err();
    assert!(code == -26 && told.starts_with("insufficient fee, rejecting replacement "), "{told}");
    let (rich_txid, rich) = wallet.spends(0, 30_000);
    wallet.send(&rich);
    assert_eq!(wallet.txids(), [rich_txid]);
    // Burning is asked for.
    let burning = wallet.call(
        "createrawtransaction",
        &format!("[[{{\"txid\":\"{}\",\"vout\":0}}],[{{\"data\":\"00\"}}]]", wallet.coins[1]),
    );
    let burning = burning.as_str().unwrap().replacen("0000000000000000026a", "0100000000000000026a", 1);
    let burnt = "Unspendable output exceeds maximum configured by user (maxburnamount)";
    wallet.refused("sendrawtransaction", &format!("[\"{burning}\"]"), -25, burnt);
}

#[test]
fn a_child_pays_for_its_parent_in_a_package() {
    let wallet = Wallet::new("package", 3);
    let (parent, parent_hex) = wallet.spends(0, 0);
    let (child, child_hex) = wallet.pays(&[(&parent, 0, COIN_SAT)], &[COIN_SAT - 5_000]);
    let package = format!("[[\"{parent_hex}\",\"{child_hex}\"]]");
    let result = wallet.call("submitpackage", &package);
    assert_eq!(result["package_msg"], json!("success"), "{result}");
    assert_eq!(result["tx-results"].as_object().unwrap().len(), 2);
    assert_eq!(wallet.txids(), [parent.clone(), child.clone()]);
    let cluster = wallet.call("getmempoolcluster", &format!("[\"{child}\"]"));
    assert_eq!((&cluster["txcount"], &cluster["chunks"][0]["txs"]), (&json!(2), &json!([parent, child])));
    assert_eq!(cluster["chunks"][0]["chunkfee"], json!(0.00005));
    // Again: both are known.
    let again = wallet.call("submitpackage", &package);
    assert_eq!(again["package_msg"], json!("success"), "{again}");
    // Too poor together.
    let (poor, poor_hex) = wallet.spends(1, 0);
    let (_, poor_child) = wallet.pays(&[(&poor, 0, COIN_SAT)], &[COIN_SAT - 10]);
    let result = wallet.call("submitpackage", &format!("[[\"{poor_hex}\",\"{poor_child}\"]]"));
    assert_eq!(result["package_msg"], json!("transaction failed"), "{result}");
    let told = "package topology disallowed. not child-with-parents or parents depend on each other.";
    let (_, other) = wallet.spends(2, 5_000);
    wallet.refused("submitpackage", &format!("[[\"{other}\",\"{poor_hex}\"]]"), -25, told);
    // Mined together, although the parent alone would not be.
    let hash = wallet.mine(1);
    assert_eq!(wallet.call("getblock", &format!("[\"{hash}\"]"))["nTx"], json!(3));
}

#[test]
fn the_owner_moves_fees_and_files() {
    let wallet = Wallet::new("owner", 2);
    let (first, first_hex) = wallet.spends(0, 10_000);
    let (second, second_hex) = wallet.spends(1, 20_000);
    wallet.send(&first_hex);
    wallet.send(&second_hex);
    assert_eq!(wallet.txids(), [second.clone(), first.clone()]);
    assert_eq!(wallet.call("prioritisetransaction", &format!("[\"{first}\",0,15000]")), json!(true));
    assert_eq!(wallet.txids(), [first.clone(), second.clone()]);
    let told = wallet.call("getprioritisedtransactions", "[]");
    assert_eq!(told[&first], json!({ "fee_delta": 15_000, "in_mempool": true, "modified_fee": 25_000 }));
    let diagram = wallet.call("getmempoolfeeratediagram", "[]");
    assert_eq!(diagram[2], json!({ "weight": 874, "fee": 0.00045 }));
    // Saved, taken out by a block, left, taken in again.
    let saved = wallet.call("savemempool", "[]");
    let path = wallet.world.folder().join("mempool.dat");
    assert_eq!(saved["filename"].as_str(), path.to_str());
    let bytes = fs::read(&path).unwrap();
    let copy = wallet.world.folder().join("copy.dat");
    fs::write(&copy, &bytes).unwrap();
    let pool = wallet.world.mempool.clone();
    let (told, count) = (pool.write().subscribe(), pool.read().len());
    assert_eq!(count, 2);
    wallet.call("importmempool", &format!("[{}]", json!(copy)));
    assert!(told.try_iter().next().is_none(), "both were there");
    let failed = "Unable to import mempool file, see debug log for details.";
    fs::write(&copy, &bytes[..bytes.len() - 1]).unwrap();
    wallet.refused("importmempool", &format!("[{}]", json!(copy)), -1, failed);
    wallet.refused("importmempool", "[\"/nonexistent/mempool.dat\"]", -1, failed);
    // REST shows the same.
    let shown = serve::rest::answer(&wallet.world.env, "/rest/mempool/contents.json?verbose=false", b"");
    assert_eq!(serde_json::from_slice::<Value>(&shown.body).unwrap(), json!([first, second]));
    let shown = serve::rest::answer(&wallet.world.env, "/rest/mempool/info.json", b"");
    assert_eq!(serde_json::from_slice::<Value>(&shown.body).unwrap(), wallet.call("getmempoolinfo", "[]"));
}

#[test]
fn fees_are_learnt_from_what_is_confirmed() {
    let wallet = Wallet::new("fees", 40);
    assert_eq!(wallet.call("estimatesmartfee", "[2]")["errors"][0], json!("Insufficient data or no feerate found"));
    let raw = wallet.call("estimaterawfee", "[2]");
    assert_eq!((&raw["short"]["decay"], &raw["long"]["scale"]), (&json!(0.962), &json!(24)));
    assert!(raw["short"]["errors"].is_array() && raw["short"].get("feerate").is_none(), "{raw}");
    for block in 0..8 {
        for coin in 0..5 {
            let (_, hex) = wallet.spends(5 * block + coin, 11_000);
            wallet.send(&hex);
        }
        wallet.mine(1);
    }
    let estimate = wallet.call("estimatesmartfee", "[2]");
    assert_eq!(estimate["feerate"], json!(0.001), "{estimate}");
    let raw = wallet.call("estimaterawfee", "[2,0.5]");
    assert_eq!(raw["short"]["feerate"], json!(0.001), "{raw}");
    assert!(raw["short"]["pass"]["totalconfirmed"].as_f64().unwrap() > 20.0, "{raw}");
    wallet.refused("estimaterawfee", "[2,1.5]", -8, "Invalid threshold");
    wallet.refused("estimaterawfee", "[1009]", -8, "Invalid conf_target, must be between 1 and 1008");
}
