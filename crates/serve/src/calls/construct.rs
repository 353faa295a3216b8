//! Transactions made out of the arguments of a request.
//!
//! In:     inputs, outputs, lock time; or several versions of one transaction.
//! Out:    bytes in hexadecimal digits.
//! Fails:  with Core's sentences, argument by argument.
//! Source: Bitcoin Core, `src/rpc/rawtransaction_util.cpp` (`ConstructTransaction`), `combinerawtransaction`.

use consensus::script::{Sighasher, TxCoins};
use primitives::{Coin, OutPoint, SpentCoins, Transaction, Txid, address};
use stdx::hex;

use super::coins;
use crate::json::Json;
use crate::keys::draft::{Draft, DraftInput, push_data};
use crate::keys::spend::{HashType, Material, Opener, candidates};
use crate::rpc::call::{Call, hash_of, hex_of, transaction_of};
use crate::rpc::error::{Outcome, RpcError, code};
use crate::rpc::method::{Arg, Kind, Method};
use crate::rpc::value::{Member, Type, Value, member};

/// Sequence that lets a transaction be replaced (BIP 125).
const SEQUENCE_REPLACEABLE: u32 = u32::MAX - 2;
/// Sequence that keeps the lock time in force.
const SEQUENCE_LOCKED: u32 = u32::MAX - 1;
/// Versions that are relayed.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=3;

fn input(value: Value<'_>, replaceable: bool, lock_time: u32) -> Result<DraftInput, RpcError> {
    let members = value.object()?;
    let txid = Txid(hash_of(member(&members, "txid"), "txid")?);
    let vout = member(&members, "vout");
    if vout.kind() != Type::Number {
        return Err(RpcError::parameter("Invalid parameter, missing vout key"));
    }
    let vout: i32 = vout.integer()?;
    let vout = u32::try_from(vout).map_err(|_| RpcError::parameter("Invalid parameter, vout cannot be negative"))?;
    let mut sequence = match (replaceable, lock_time) {
        (true, _) => SEQUENCE_REPLACEABLE,
        (false, 0) => u32::MAX,
        (false, _) => SEQUENCE_LOCKED,
    };
    let given = member(&members, "sequence");
    if given.kind() == Type::Number {
        let number: i64 = given.integer()?;
        let out_of_range = |_| RpcError::parameter("Invalid parameter, sequence number is out of range");
        sequence = u32::try_from(number).map_err(out_of_range)?;
    }
    Ok(DraftInput { outpoint: OutPoint { txid, vout }, script_sig: Vec::new(), sequence, witness: Vec::new() })
}

/// Outputs as pairs of key and value, whatever they came in.
fn pairs<'a>(value: Value<'a>) -> Result<Vec<Member<'a>>, RpcError> {
    if value.is_null() {
        return Err(RpcError::parameter("Invalid parameter, output argument must be non-null"));
    }
    if value.kind() == Type::Object {
        return value.object();
    }
    let mut pairs = Vec::new();
    for element in value.array()? {
        if element.kind() != Type::Object {
            return Err(RpcError::parameter("Invalid parameter, key-value pair not an object as expected"));
        }
        let mut members = element.object()?;
        match members.len() {
            1 => pairs.append(&mut members),
            _ => return Err(RpcError::parameter("Invalid parameter, key-value pair must contain exactly one key")),
        }
    }
    Ok(pairs)
}

fn outputs(call: &Call<'_>, value: Value<'_>) -> Result<Vec<(i64, Vec<u8>)>, RpcError> {
    let mut outputs: Vec<(i64, Vec<u8>)> = Vec::new();
    let mut has_data = false;
    for (key, value) in pairs(value)? {
        if key == "data" {
            if has_data {
                return Err(RpcError::parameter("Invalid parameter, duplicate key: data"));
            }
            has_data = true;
            let mut script = vec![0x6a];
            push_data(&mut script, &hex_of(value, "Data")?);
            outputs.push((0, script));
            continue;
        }
        let script = address::to_script(&key, call.chain_params());
        let amount_sat = value.amount_sat()?;
        let script = script.map_err(|_| RpcError::address_or_key(format!("Invalid Bitcoin address: {key}")))?;
        if outputs.iter().any(|(_, known)| *known == script) {
            return Err(RpcError::parameter(format!("Invalid parameter, duplicated address: {key}")));
        }
        outputs.push((amount_sat, script));
    }
    Ok(outputs)
}

fn create(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let lock_time: i64 = call.integer(2)?;
    let lock_time =
        u32::try_from(lock_time).map_err(|_| RpcError::parameter("Invalid parameter, locktime out of range"))?;
    let replaceable = if call.arg(3).is_null() { None } else { Some(call.bool(3)?) };
    let version: u32 = call.integer(4)?;
    if !VERSIONS.contains(&version) {
        return Err(RpcError::parameter("Invalid parameter, version out of range(1~3)"));
    }
    let given = if call.arg(0).is_null() { Vec::new() } else { call.arg(0).array()? };
    let inputs = given.into_iter().map(|value| input(value, replaceable.unwrap_or(true), lock_time));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let draft = Draft { version, inputs, outputs: outputs(call, call.arg(1))?, lock_time };
    let signals = draft.inputs.iter().any(|input| input.sequence <= SEQUENCE_REPLACEABLE);
    if replaceable == Some(true) && !draft.inputs.is_empty() && !signals {
        let told = "Invalid parameter combination: Sequence number(s) contradict replaceable option";
        return Err(RpcError::parameter(told));
    }
    json.hex(&draft.bytes());
    Ok(())
}

fn stripped(transaction: &Transaction) -> Vec<u8> {
    let mut draft = Draft::of(&transaction.tx());
    for input in &mut draft.inputs {
        (input.script_sig, input.witness) = (Vec::new(), Vec::new());
    }
    draft.bytes()
}

fn combine(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let given = call.arg(0).array()?;
    if given.len() < 2 {
        return Err(RpcError::decode("Missing transactions. At least two transactions required."));
    }
    let mut versions = Vec::new();
    for (number, value) in given.into_iter().enumerate() {
        let told = || format!("TX decode failed for tx {number}. Make sure the tx has at least one input.");
        versions.push(transaction_of(&value.text()?).ok_or_else(|| RpcError::decode(told()))?);
    }
    let first = stripped(&versions[0]);
    if let Some(other) = versions.iter().position(|version| stripped(version) != first) {
        let told = format!("Transaction number {} not compatible with first transaction", other + 1);
        return Err(RpcError::parameter(told));
    }
    let (view, merged) = (call.view()?, versions[0].clone());
    let mut spent = SpentCoins::default();
    for input in merged.tx().inputs() {
        let missing = || RpcError::new(code::VERIFY_ERROR, "Input not found or already spent");
        let coin = coins::find(call, &view, &input.outpoint(), true)?.ok_or_else(missing)?;
        spent.push(Coin {
            value_sat: coin.value_sat,
            height: 1,
            coinbase: coin.coinbase,
            txo_num: 0,
            script: &coin.script,
        });
    }
    let tx = merged.tx();
    let mut hasher = Sighasher::new(tx, TxCoins::new(&spent, 0, tx.input_count()));
    let mut draft = Draft::of(&tx);
    for (index, input) in draft.inputs.iter_mut().enumerate() {
        let candidates = versions.iter().flat_map(|version| candidates(&version.tx(), index)).collect();
        let material = Material::default();
        let hash_type = HashType::Byte(1);
        let mut opener = Opener { hasher: &mut hasher, input: index, material: &material, hash_type, candidates };
        let opened = opener.open(spent.get(index).script);
        if opened.signatures > 0 {
            (input.script_sig, input.witness) = (opened.script_sig, opened.witness);
        }
    }
    json.text(&hex::encode(&draft.bytes()));
    Ok(())
}

/// The methods of this file.
pub const METHODS: &[Method] = &[
    Method {
        name: "createrawtransaction",
        category: "rawtransactions",
        args: &[
            Arg::required("inputs", Kind::Array, "Objects with the members txid, vout and, if wished, sequence."),
            Arg::required(
                "outputs",
                Kind::ArrayOrObject,
                "Objects of one member each: an address with its amount in bitcoin, or data with hexadecimal digits.",
            ),
            Arg::default("locktime", Kind::Number, "0", "The lock time."),
            Arg::hint("replaceable", Kind::Bool, "true", "Whether sequences say that it may be replaced."),
            Arg::default("version", Kind::Number, "2", "The version, 1 to 3."),
        ],
        about: "The bytes of a transaction without signatures. Nothing is kept or sent.",
        result: "string: hexadecimal digits",
        run: create,
    },
    Method {
        name: "combinerawtransaction",
        category: "rawtransactions",
        args: &[Arg::required("txs", Kind::Array, "Versions of one transaction, each with some of its signatures.")],
        about: "One transaction with the signatures of all.",
        result: "string: hexadecimal digits",
        run: combine,
    },
];
