//! Signing transactions with keys that come along.
//!
//! In:     a transaction, private keys, what is known of the coins it spends.
//! Out:    the transaction with signatures, and what is still missing, input by input.
//! Fails:  with Core's sentences for keys and previous outputs that do not fit.
//! Source: Bitcoin Core, `src/rpc/rawtransaction_util.cpp` (`ParsePrevouts`, `SignTransaction`).

use std::collections::HashMap;

use consensus::script::{Interpreter, Sighasher, TxCoins};
use consensus::{Flags, MONEY_SAT_MAX};
use primitives::hash::sha256;
use primitives::script::ScriptType;
use primitives::{Coin, OutPoint, SpentCoins, Transaction, Txid};

use super::coins;
use crate::decoded::asm;
use crate::json::Json;
use crate::keys::descriptor::{pay_to_script_hash, witness_v0};
use crate::keys::draft::{Draft, DraftInput};
use crate::keys::secret::Secret;
use crate::keys::spend::{HashType, Material, Opener, candidates};
use crate::rpc::call::{Call, hash_of, hex_of};
use crate::rpc::error::{Outcome, RpcError};
use crate::rpc::method::{Arg, Kind, Method};
use crate::rpc::value::{Member, Type, Value, member, mismatch};

/// The interpreter's words for an input that left too little on the stack, and for one whose signatures are not enough.
const STACK_ERROR: &str = "Operation not valid with the current stack size";
const NULLFAIL_ERROR: &str = "Signature must be zero for failed CHECK(MULTI)SIG operation";

/// A coin that is spent, and whether its amount was told.
struct Spendable {
    value_sat: Option<u64>,
    script: Vec<u8>,
}

type Spendables = HashMap<OutPoint, Spendable>;

/// The members that must or may have a type (Core: `RPCTypeCheckObj`).
fn check_types(members: &[Member<'_>], wanted: &[(&str, Type)], optional: bool) -> Result<(), RpcError> {
    for (name, want) in wanted {
        let value = member(members, name);
        if value.is_null() && optional {
            continue;
        }
        if value.is_null() {
            return Err(RpcError::type_error(format!("Missing {name}")));
        }
        if value.kind() != *want {
            let told = mismatch(value.kind(), *want).replacen(" is not", &format!(" for field {name} is not"), 1);
            return Err(RpcError::type_error(told));
        }
    }
    Ok(())
}

fn previous_output(value: Value<'_>, coins: &mut Spendables, material: &mut Material) -> Result<(), RpcError> {
    if value.kind() != Type::Object {
        return Err(RpcError::decode("expected object with {\"txid'\",\"vout\",\"scriptPubKey\"}"));
    }
    let members = value.object()?;
    let wanted = [("scriptPubKey", Type::Text), ("txid", Type::Text), ("vout", Type::Number)];
    check_types(&members, &wanted, false)?;
    let txid = Txid(hash_of(member(&members, "txid"), "txid")?);
    let vout: i32 = member(&members, "vout").integer()?;
    let vout = u32::try_from(vout).map_err(|_| RpcError::decode("vout cannot be negative"))?;
    let script = hex_of(member(&members, "scriptPubKey"), "scriptPubKey")?;
    let outpoint = OutPoint { txid, vout };
    if let Some(known) = coins.get(&outpoint).filter(|known| known.script != script) {
        let (ours, theirs) = (asm::text(&known.script, false), asm::text(&script, false));
        return Err(RpcError::decode(format!("Previous output scriptPubKey mismatch:\n{ours}\nvs:\n{theirs}")));
    }
    let amount = member(&members, "amount");
    let value_sat = if amount.is_null() { None } else { Some(amount.amount_sat()? as u64) };
    let kind = ScriptType::of(&script);
    if matches!(kind, ScriptType::ScriptHash | ScriptType::WitnessV0ScriptHash) {
        add_scripts(&members, &script, kind, material)?;
    }
    coins.insert(outpoint, Spendable { value_sat, script });
    Ok(())
}

fn add_scripts(members: &[Member<'_>], lock: &[u8], kind: ScriptType, material: &mut Material) -> Result<(), RpcError> {
    check_types(members, &[("redeemScript", Type::Text), ("witnessScript", Type::Text)], true)?;
    let (redeem, witness) = (member(members, "redeemScript"), member(members, "witnessScript"));
    let script = match (witness.is_null(), redeem.is_null()) {
        (true, true) => return Err(RpcError::parameter("Missing redeemScript/witnessScript")),
        (false, _) => hex_of(witness, "witnessScript")?,
        (true, false) => hex_of(redeem, "redeemScript")?,
    };
    let nested = witness_v0(&sha256(&script));
    if !witness.is_null() && !redeem.is_null() && witness.text()? != redeem.text()? {
        let redeem = hex_of(redeem, "redeemScript")?;
        if redeem != nested {
            return Err(RpcError::parameter("redeemScript does not correspond to witnessScript"));
        }
    }
    let fits = match kind {
        ScriptType::ScriptHash => lock == pay_to_script_hash(&script) || lock == pay_to_script_hash(&nested),
        _ => lock == nested,
    };
    if !fits {
        return Err(RpcError::parameter("redeemScript/witnessScript does not match scriptPubKey"));
    }
    material.add_script(script);
    material.add_script(nested);
    Ok(())
}

/// The hash type of a word (Core: `SighashFromStr`).
pub fn hash_type(word: &str) -> Option<HashType> {
    let words = [
        ("ALL", 1),
        ("ALL|ANYONECANPAY", 0x81),
        ("NONE", 2),
        ("NONE|ANYONECANPAY", 0x82),
        ("SINGLE", 3),
        ("SINGLE|ANYONECANPAY", 0x83),
    ];
    match word {
        "DEFAULT" => Some(HashType::Default),
        word => words.iter().find(|(known, _)| *known == word).map(|(_, byte)| HashType::Byte(*byte)),
    }
}

/// What is told of an input that could not be signed.
struct Failure {
    input: usize,
    told: String,
}

fn sign(draft: &mut Draft, coins: &Spendables, material: &Material, kind: HashType) -> Result<Vec<Failure>, RpcError> {
    let original = Transaction::parse(draft.bytes()).map_err(|_| RpcError::internal("A draft does not parse"))?;
    let tx = original.tx();
    let mut spent = SpentCoins::default();
    for input in &draft.inputs {
        // A coin that is unknown has no amount; signatures that would need it are not made.
        let (value_sat, script) = match coins.get(&input.outpoint) {
            Some(coin) => (coin.value_sat.unwrap_or(MONEY_SAT_MAX), &coin.script[..]),
            None => (0, &[][..]),
        };
        spent.push(Coin { value_sat, height: 1, coinbase: false, txo_num: 0, script });
    }
    let all_known = draft.inputs.iter().all(|input| coins.contains_key(&input.outpoint));
    let mut hasher = Sighasher::new(tx, TxCoins::new(&spent, 0, tx.input_count()));
    let mut known = Vec::new();
    let mut failures = Vec::new();
    for (index, input) in draft.inputs.iter_mut().enumerate() {
        let Some(coin) = coins.get(&input.outpoint) else {
            failures.push(Failure { input: index, told: "Input not found or already spent".to_owned() });
            continue;
        };
        let single_without_output =
            matches!(kind, HashType::Byte(byte) if byte & 0x1f == 3) && index >= tx.output_count();
        let taproot = ScriptType::of(&coin.script) == ScriptType::WitnessV1Taproot;
        if !single_without_output && (all_known || !taproot) {
            let candidates = candidates(&tx, index);
            let mut opener = Opener { hasher: &mut hasher, input: index, material, hash_type: kind, candidates };
            let opened = opener.open(&coin.script);
            if opened.complete
                || opened.signatures > 0
                || (!opened.script_sig.is_empty() && input.script_sig.is_empty())
            {
                (input.script_sig, input.witness) = (opened.script_sig, opened.witness);
            }
        }
        known.push(index);
        if coin.value_sat.is_none() && !input.witness.is_empty() {
            let told = format!("Missing amount for CTxOut(scriptPubKey={})", stdx::hex::encode(&coin.script));
            return Err(RpcError::type_error(told));
        }
    }
    let signed = Transaction::parse(draft.bytes()).map_err(|_| RpcError::internal("A draft does not parse"))?;
    let interpreter = Interpreter::new(signed.tx(), TxCoins::new(&spent, 0, draft.inputs.len()));
    for index in known {
        let Err(error) = interpreter.judge(index, Flags::STANDARD) else { continue };
        let told = match error.to_string() {
            // Core says more of these two, which mean a missing key or a missing signature (`SignTransaction`).
            text if text == STACK_ERROR => "Unable to sign input, invalid stack size (possibly missing key)".to_owned(),
            text if text == NULLFAIL_ERROR => {
                "CHECK(MULTI)SIG failing with non-zero signature (possibly need more signatures)".to_owned()
            }
            text => text,
        };
        failures.push(Failure { input: index, told });
    }
    failures.sort_by_key(|failure| failure.input);
    Ok(failures)
}

fn write_failure(input: &DraftInput, told: &str, json: &mut Json<'_>) {
    json.begin_object();
    json.key("txid").hash(&input.outpoint.txid.0);
    json.key("vout").number(input.outpoint.vout);
    json.key("witness").begin_array();
    input.witness.iter().for_each(|item| json.hex(item));
    json.end_array();
    json.key("scriptSig").hex(&input.script_sig);
    json.key("sequence").number(input.sequence);
    json.key("error").text(told);
    json.end_object();
}

fn sign_with_key(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let transaction = call.transaction(0, "TX decode failed. Make sure the tx has at least one input.")?;
    let mut material = Material::default();
    for value in call.arg(1).array()? {
        let secret = Secret::parse(&value.text()?, call.chain_params());
        material.add_key(secret.ok_or_else(|| RpcError::address_or_key("Invalid private key"))?);
    }
    let view = call.view()?;
    let mut coins = Spendables::new();
    for input in transaction.tx().inputs() {
        if let Some(coin) = coins::find(call, &view, &input.outpoint(), true)? {
            coins.insert(input.outpoint(), Spendable { value_sat: Some(coin.value_sat), script: coin.script });
        }
    }
    if !call.arg(2).is_null() {
        for value in call.arg(2).array()? {
            previous_output(value, &mut coins, &mut material)?;
        }
    }
    let kind = match call.optional_text(3)? {
        None => HashType::Default,
        Some(word) => hash_type(&word)
            .ok_or_else(|| RpcError::parameter(format!("'{word}' is not a valid sighash parameter.")))?,
    };
    let mut draft = Draft::of(&transaction.tx());
    let failures = sign(&mut draft, &coins, &material, kind)?;
    json.begin_object();
    json.key("hex").hex(&draft.bytes());
    json.key("complete").bool(failures.is_empty());
    if !failures.is_empty() {
        json.key("errors").begin_array();
        failures.iter().for_each(|failure| write_failure(&draft.inputs[failure.input], &failure.told, json));
        json.end_array();
    }
    json.end_object();
    Ok(())
}

/// The methods of this file.
pub const METHODS: &[Method] = &[Method {
    name: "signrawtransactionwithkey",
    category: "rawtransactions",
    args: &[
        Arg::required("hexstring", Kind::Text, "The transaction's bytes."),
        Arg::required("privkeys", Kind::Array, "Private keys in the wallet import format; no others are used."),
        Arg::optional(
            "prevtxs",
            Kind::Array,
            "Coins that are in no block yet: objects with txid, vout, scriptPubKey, redeemScript, witnessScript, amount.",
        ),
        Arg::hint(
            "sighashtype",
            Kind::Text,
            "DEFAULT for taproot, ALL otherwise",
            "DEFAULT, ALL, NONE or SINGLE; all but the first also with |ANYONECANPAY behind.",
        ),
    ],
    about: "Signs what the keys can sign.",
    result: "object: hex, complete, errors (objects: txid, vout, witness, scriptSig, sequence, error)",
    run: sign_with_key,
}];
