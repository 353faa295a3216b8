//! Blocks made, submitted, refused and left again through JSON-RPC, with the real writer behind.
//!
//! In:     calls.
//! Out:    the chain's answers.

use serde_json::json;
use stdx::hex;

use crate::world::{BLOCKS, World};

#[test]
fn blocks_are_made_left_and_taken_back() {
    let world = World::new("mining");
    let made = world.call("generatetoaddress", "[3,\"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080\"]").unwrap();
    let made = made.as_array().unwrap().clone();
    assert_eq!(made.len(), 3);
    assert_eq!(world.call("getblockcount", "[]").unwrap(), json!(BLOCKS + 3));
    assert_eq!(world.call("getbestblockhash", "[]").unwrap(), made[2]);
    let scan =
        world.call("scantxoutset", "[\"start\",[\"addr(bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080)\"]]").unwrap();
    assert_eq!(scan["unspents"].as_array().unwrap().len(), 3);
    // A block that is not taken, and then is.
    let kept = world.call("generateblock", "[\"raw(51)\",[],false]").unwrap();
    let hex = kept["hex"].to_string();
    assert_eq!(
        world.call("getblocktemplate", &format!("[{{\"mode\":\"proposal\",\"data\":{hex}}}]")).unwrap(),
        json!(null)
    );
    // With a second item in the coinbase's witness it is larger than any block, and the rule it breaks is named all the same; the
    // block itself is not to blame.
    let plain = kept["hex"].as_str().unwrap();
    let (front, lock_time) = plain.split_at(plain.len() - 8);
    let witness = format!("0120{}", "00".repeat(32));
    let body = front.strip_suffix(&witness).expect("one transaction, which commits to no other's witness");
    let bloated = |bytes: u32| {
        let item = format!("0220{}fe{}", "00".repeat(32), hex::encode(&bytes.to_le_bytes()));
        let large = body.to_owned() + &item + &"61".repeat(bytes as usize) + lock_time;
        world.call("submitblock", &format!("[\"{large}\"]"))
    };
    assert_eq!(bloated(5_000_000).unwrap(), json!("bad-witness-nonce-size"));
    assert_eq!(bloated(15_000_000).unwrap(), json!("bad-witness-nonce-size"));
    let (code, message) = bloated((16 << 20) + 1).unwrap_err();
    assert_eq!((code, message.as_str()), (-22, "Block decode failed"));
    assert_eq!(world.call("submitblock", &format!("[{hex}]")).unwrap(), json!(null));
    assert_eq!(world.call("submitblock", &format!("[{hex}]")).unwrap(), json!("duplicate"));
    assert_eq!(world.call("getbestblockhash", "[]").unwrap(), kept["hash"]);
    // Left, shown as it stands, and taken back.
    world.call("invalidateblock", &format!("[{}]", made[1])).unwrap();
    assert_eq!(world.call("getbestblockhash", "[]").unwrap(), made[0]);
    let stale = world.call("getblock", &format!("[{},2]", made[2])).unwrap();
    assert_eq!((&stale["confirmations"], &stale["height"]), (&json!(-1), &json!(BLOCKS + 3)));
    assert!(stale.get("nextblockhash").is_none());
    let tips = world.call("getchaintips", "[]").unwrap();
    let shown: Vec<_> =
        tips.as_array().unwrap().iter().map(|tip| (tip["branchlen"].clone(), tip["status"].clone())).collect();
    assert_eq!(shown, [(json!(3), json!("invalid")), (json!(0), json!("active"))]);
    world.call("reconsiderblock", &format!("[{}]", made[1])).unwrap();
    assert_eq!(world.call("getbestblockhash", "[]").unwrap(), kept["hash"]);
    // Rules are told by Core's words.
    let (code, message) = world
        .call("generateblock", "[\"raw(51)\",[\"{raw}\"]]".replace("{raw}", &"00".repeat(10)).as_str())
        .unwrap_err();
    assert_eq!(code, -22, "{message}");
    let spends_nothing = "02000000012222222222222222222222222222222222222222222222222222222222222222000000000000000000010000000000000000015100000000";
    let (code, message) = world.call("generateblock", &format!("[\"raw(51)\",[\"{spends_nothing}\"]]")).unwrap_err();
    let told =
        "TestBlockValidity failed: bad-txns-inputs-missingorspent, CheckTxInputs: inputs missing/spent in transaction ";
    assert!(code == -25 && message.starts_with(told), "{code} {message}");
}

#[test]
fn a_template_is_what_the_next_block_must_be() {
    let world = World::new("template");
    let template = world.call("getblocktemplate", "[{\"rules\":[\"segwit\"]}]").unwrap();
    assert_eq!(template["previousblockhash"], world.call("getbestblockhash", "[]").unwrap());
    assert_eq!((&template["height"], &template["bits"]), (&json!(BLOCKS + 1), &json!("207fffff")));
    assert_eq!(template["coinbasevalue"], json!(5_000_000_000u64));
    assert_eq!(template["transactions"], json!([]));
    let info = world.call("getmininginfo", "[]").unwrap();
    assert_eq!((&info["blocks"], &info["next"]["height"]), (&json!(BLOCKS), &json!(BLOCKS + 1)));
}
