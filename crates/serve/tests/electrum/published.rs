//! Answers that others have published for the same questions.
//!
//! In:     mainnet's first nine blocks and two published transactions.
//! Out:    our answers equal theirs.
//! Fails:  where they differ.
//! Source: Electrum protocol documentation, examples of `blockchain.block.header`; Bitcoin Core's `getrawtransaction`
//!         of the first payment, as block explorers show it.

use serde_json::json;

use crate::chain::sample;
use crate::client::serve;

#[test]
fn a_header_proof_is_the_one_in_the_protocols_documentation() {
    let server = serve(sample(), |_| {});
    let got = server.greet().call("blockchain.block.header", json!([5, 8]));
    let want = json!({
        "branch": [
            "000000004ebadb55ee9096c9a2f8880e09da59c0d68b1c228da88e48844a1485",
            "96cbbc84783888e4cc971ae8acf86dd3c1a419370336bb3c634c97695a8c5ac9",
            "965ac94082cebbcffe458075651e9cc33ce703ab0115c72d9e8b1a9906b2b636",
            "89e5daa6950b895190716dd26054432b564ccdc2868188ba1da76de8e1dc7591"
        ],
        "header": "0100000085144a84488ea88d221c8bd6c059da090e88f8a2c99690ee55dbba4e00000000e11c48fecdd9e72510ca84f023370c\
                   9a38bf91ac5cae88019bee94d24528526344c36649ffff001d1d03e477",
        "root": "e347b1c43fd9b5415bf0d92708db8284b78daf4d0e24f9c3405f45feb85e25db"
    });
    assert_eq!(got, want);
}

#[test]
fn the_first_payment_reads_as_bitcoin_core_writes_it() {
    let server = serve(sample(), |_| {});
    let txid = "f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16";
    let got = server.greet().call("blockchain.transaction.get", json!([txid, true]));
    assert_eq!(got["txid"], txid);
    assert_eq!(got["hash"], txid);
    assert_eq!((&got["size"], &got["vsize"], &got["weight"]), (&json!(275), &json!(275), &json!(1100)));
    let input = &got["vin"][0];
    assert_eq!(input["txid"], "0437cd7f8525ceed2324359c2d0ba26006d92d856a9c20fa0241106ee5a597c9");
    assert_eq!((&input["vout"], &input["sequence"]), (&json!(0), &json!(4_294_967_295u32)));
    let text = "304402204e45e16932b8af514961a1d3a1a25fdf3f4f7732e9d624c6c61548ab5fb8cd410220181522ec8eca07de4860a4acdd12\
                909d831cc56cbbac4622082221a8768d1d09[ALL]";
    assert_eq!(input["scriptSig"]["asm"], text);
    let output = &got["vout"][1];
    assert_eq!((&output["value"], &output["n"]), (&json!(40.0), &json!(1)));
    let key = "0411db93e1dcdb8a016b49840f8c53bc1eb68a382e97b1482ecad7b148a6909a5cb2e0eaddfb84ccf9744464f82e160bfa9b8b64\
               f9d4c03f999b8643f656b412a3";
    assert_eq!(output["scriptPubKey"]["asm"], format!("{key} OP_CHECKSIG"));
    assert_eq!(output["scriptPubKey"]["type"], "pubkey");
    // Core shows no address for a bare key.
    assert!(output["scriptPubKey"].get("address").is_none());
    assert_eq!((&got["confirmations"], &got["blocktime"]), (&json!(2), &json!(1_231_700_000)));
}
