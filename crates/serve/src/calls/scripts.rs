//! Scripts, addresses and descriptors, without any chain.
//!
//! In:     hexadecimal digits, addresses, public keys, descriptors.
//! Out:    objects with Core's members.
//! Fails:  with Core's sentences where it has them, and ours for addresses.
//! Source: Bitcoin Core, `src/rpc/output_script.cpp`, `src/rpc/rawtransaction.cpp` (`decodescript`), `src/rpc/util.cpp`
//!         (`DescribeAddress`, `AddAndGetMultisigDestination`).

use primitives::address::{self, AddressError};
use primitives::hash::{hash160, sha256};
use primitives::script::{Operation, Operations, ScriptType, is_unspendable, witness_program};
use secp256k1::PublicKey;
use stdx::hex;

use crate::decoded::asm;
use crate::decoded::transaction::write_script_members;
use crate::json::Json;
use crate::keys::descriptor::{checksum_text, multisig_script, parse, pay_to_script_hash, witness_v0};
use crate::keys::ranges::range_of;
use crate::rpc::call::Call;
use crate::rpc::error::{Outcome, RpcError};
use crate::rpc::method::{Arg, Kind, Method};

/// Longest item on the stack, and with it longest script behind P2SH; Core's `MAX_SCRIPT_ELEMENT_SIZE`.
const ITEM_BYTES_MAX: usize = 520;
/// Keys of one multisignature; Core's `MAX_PUBKEYS_PER_MULTISIG`.
const KEYS_MAX: usize = 20;
/// The last operation that was ever defined before tapscript; Core's `MAX_OPCODE`.
const OPCODE_MAX: u8 = 0xb9;

/// Operations that only tapscript knows, or leaves open (BIP 342).
fn is_of_tapscript(code: u8) -> bool {
    matches!(code, 80 | 98 | 126..=129 | 131..=134 | 137..=138 | 141..=142 | 149..=153 | 186..=254)
}

/// Keys of a multisignature, or of pay to public key.
fn keys_of(script: &[u8]) -> Vec<&[u8]> {
    Operations::of(script).map(|operation| operation.data).filter(|data| data.len() >= 33).collect()
}

/// True for a script that P2SH may stand for.
fn can_be_wrapped(script: &[u8], kind: ScriptType) -> bool {
    let wrappable = !matches!(
        kind,
        ScriptType::NullData
            | ScriptType::ScriptHash
            | ScriptType::WitnessUnknown
            | ScriptType::WitnessV1Taproot
            | ScriptType::Anchor
    );
    let mut operations = Operations::of(script);
    let fine = operations
        .by_ref()
        .all(|Operation { code, data }| code <= OPCODE_MAX && data.len() <= ITEM_BYTES_MAX && !is_of_tapscript(code));
    wrappable && fine && operations.rest().is_empty() && !is_unspendable(script)
}

/// The witness program that may stand for a script, and the descriptor where it can be told.
fn witness_lock(script: &[u8], kind: ScriptType) -> Option<(Vec<u8>, Option<String>)> {
    let short_keys = || keys_of(script).iter().all(|key| key.len() == 33);
    match kind {
        ScriptType::Pubkey if short_keys() => Some((witness_v0(&hash160(keys_of(script)[0])), None)),
        ScriptType::PubkeyHash => Some((witness_v0(&script[3..23]), None)),
        ScriptType::Multisig if short_keys() => {
            let mut inner = Vec::new();
            crate::decoded::descriptor::push_of_script(
                script,
                kind,
                &primitives::Params::of(primitives::Network::Main),
                &mut inner,
            );
            let inner = String::from_utf8(inner).expect("descriptors are ASCII");
            let body = format!("wsh({})", inner.split('#').next().unwrap_or_default());
            let sum = checksum_text(&body)?;
            Some((witness_v0(&sha256(script)), Some(format!("{body}#{sum}"))))
        }
        ScriptType::Nonstandard => Some((witness_v0(&sha256(script)), None)),
        _ => None,
    }
}

fn decode_script(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let params = call.chain_params();
    let script = if call.text(0)?.is_empty() { Vec::new() } else { call.hex(0, "argument")? };
    let kind = ScriptType::of(&script);
    json.begin_object();
    write_script_members(&script, true, false, params, json);
    if can_be_wrapped(&script, kind) {
        let address_of = |script: &[u8]| address::of_script(script, params).unwrap_or_default();
        json.key("p2sh").text(&address_of(&pay_to_script_hash(&script)));
        if let Some((lock, descriptor)) = witness_lock(&script, kind) {
            json.key("segwit").begin_object();
            match descriptor {
                None => write_script_members(&lock, true, true, params, json),
                Some(descriptor) => {
                    json.key("asm").text(&asm::text(&lock, false));
                    json.key("desc").text(&descriptor);
                    json.key("hex").hex(&lock);
                    json.key("address").text(&address_of(&lock));
                    json.key("type").text(ScriptType::of(&lock).name());
                }
            }
            json.key("p2sh-segwit").text(&address_of(&pay_to_script_hash(&lock)));
            json.end_object();
        }
    }
    json.end_object();
    Ok(())
}

/// What is wrong with an address, in Core's words.
fn address_fault(text: &str, error: AddressError, hrp: &str) -> &'static str {
    let bech32 = text.len() >= hrp.len() && text[..hrp.len()].eq_ignore_ascii_case(hrp);
    match error {
        AddressError::TooLong { .. } => "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
        AddressError::Checksum if bech32 => "Invalid Bech32 checksum",
        AddressError::Checksum => "Invalid checksum or length of Base58 address (P2PKH or P2SH)",
        AddressError::PayloadLength { .. } => "Invalid length for Base58 address (P2PKH or P2SH)",
        AddressError::UnknownVersion { .. } => "Invalid or unsupported Base58-encoded address.",
        AddressError::OtherNetwork { .. } => "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
        AddressError::WitnessProgram => "Invalid or unsupported prefix, version or length of a Segwit (Bech32) address",
    }
}

fn validate_address(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (text, params) = (call.text(0)?, call.chain_params());
    json.begin_object();
    match address::to_script(&text, params) {
        Err(error) => {
            json.key("isvalid").bool(false);
            json.key("error_locations").begin_array();
            json.end_array();
            let known = text.is_char_boundary(params.bech32_hrp.len().min(text.len()));
            json.key("error").text(address_fault(if known { &text } else { "" }, error, params.bech32_hrp));
        }
        Ok(script) => {
            let kind = ScriptType::of(&script);
            json.key("isvalid").bool(true);
            json.key("address").text(&address::of_script(&script, params).unwrap_or_default());
            json.key("scriptPubKey").hex(&script);
            let is_script = !matches!(kind, ScriptType::PubkeyHash | ScriptType::WitnessV0KeyHash);
            if kind != ScriptType::WitnessUnknown {
                json.key("isscript").bool(is_script);
            }
            let program = witness_program(&script);
            json.key("iswitness").bool(program.is_some());
            if let Some((version, program)) = program {
                json.key("witness_version").number(version);
                json.key("witness_program").hex(program);
            }
        }
    }
    json.end_object();
    Ok(())
}

fn public_key(text: &str) -> Result<Vec<u8>, RpcError> {
    let fail = |told: &str| Err(RpcError::address_or_key(format!("Pubkey \"{text}\" must {told}")));
    let Ok(bytes) = hex::decode(text) else { return fail("be a hex string") };
    if !matches!(text.len(), 66 | 130) {
        return fail("have a length of either 33 or 65 bytes");
    }
    match PublicKey::from_slice(&bytes) {
        Ok(_) => Ok(bytes),
        Err(_) => fail("be cryptographically valid."),
    }
}

fn create_multisig(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let required: i32 = call.integer(0)?;
    let keys = call.arg(1).array()?.into_iter().map(|key| public_key(&key.text()?)).collect::<Result<Vec<_>, _>>()?;
    let kind = call.text(2)?;
    match &*kind {
        "legacy" | "p2sh-segwit" | "bech32" => {}
        "bech32m" => {
            return Err(RpcError::address_or_key("createmultisig cannot create bech32m multisig addresses"));
        }
        other => return Err(RpcError::address_or_key(format!("Unknown address type '{other}'"))),
    }
    let needed = usize::try_from(required).unwrap_or(0);
    let told = match keys.len() {
        _ if needed < 1 => Some("a multisignature address must require at least one key to redeem".to_owned()),
        got if got < needed => {
            Some(format!("not enough keys supplied (got {got} keys, but need at least {needed} to redeem)"))
        }
        got if got > KEYS_MAX => Some(format!(
            "Number of keys involved in the multisignature address creation > {KEYS_MAX}\nReduce the number"
        )),
        _ => None,
    };
    if let Some(told) = told {
        return Err(RpcError::parameter(told));
    }
    let script = multisig_script(needed, &keys);
    let long = keys.iter().any(|key| key.len() == 65);
    let real = if long { "legacy" } else { &kind };
    if real == "legacy" && script.len() > ITEM_BYTES_MAX {
        let told = format!("redeemScript exceeds size limit: {} > {ITEM_BYTES_MAX}", script.len());
        return Err(RpcError::parameter(told));
    }
    let shown: Vec<String> = keys.iter().map(|key| hex::encode(key)).collect();
    let multi = format!("multi({needed},{})", shown.join(","));
    let witness = witness_v0(&sha256(&script));
    let (lock, body) = match real {
        "legacy" => (pay_to_script_hash(&script), format!("sh({multi})")),
        "bech32" => (witness, format!("wsh({multi})")),
        _ => (pay_to_script_hash(&witness), format!("sh(wsh({multi}))")),
    };
    json.begin_object();
    json.key("address").text(&address::of_script(&lock, call.chain_params()).unwrap_or_default());
    json.key("redeemScript").hex(&script);
    json.key("descriptor").text(&format!("{body}#{}", checksum_text(&body).unwrap_or_default()));
    if real != kind {
        json.key("warnings").begin_array();
        json.text("Unable to make chosen address type, please ensure no uncompressed public keys are present.");
        json.end_array();
    }
    json.end_object();
    Ok(())
}

fn descriptor_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let text = call.text(0)?;
    let descriptor = parse(&text, call.chain_params(), false).map_err(RpcError::address_or_key)?;
    let body = text.split('#').next().unwrap_or_default();
    json.begin_object();
    json.key("descriptor").text(&descriptor.text());
    json.key("checksum").text(&checksum_text(body).unwrap_or_default());
    json.key("isrange").bool(descriptor.is_range());
    json.key("issolvable").bool(descriptor.is_solvable());
    json.key("hasprivatekeys").bool(descriptor.has_secrets());
    json.end_object();
    Ok(())
}

fn derive_addresses(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (text, params) = (call.text(0)?, call.chain_params());
    let range = if call.arg(1).is_null() { None } else { Some(range_of(call.arg(1))?) };
    let descriptor = parse(&text, params, true).map_err(RpcError::address_or_key)?;
    let (first, last) = match (descriptor.is_range(), range) {
        (false, Some(_)) => {
            return Err(RpcError::parameter("Range should not be specified for an un-ranged descriptor"));
        }
        (true, None) => return Err(RpcError::parameter("Range must be specified for a ranged descriptor")),
        (_, range) => range.unwrap_or((0, 0)),
    };
    json.begin_array();
    for position in first..=last {
        let missing = || RpcError::address_or_key("Cannot derive script without private keys");
        let scripts = descriptor.scripts(position as u32, params).ok_or_else(missing)?;
        for (script, _) in &scripts {
            match address::of_script(script, params) {
                Some(address) => json.text(&address),
                // Of the scripts of combo one has no address.
                None if scripts.len() > 1 && ScriptType::of(script) == ScriptType::Pubkey => {}
                None => {
                    return Err(RpcError::address_or_key("Descriptor does not have a corresponding address"));
                }
            }
        }
    }
    json.end_array();
    Ok(())
}

const DESCRIPTOR: Arg = Arg::required("descriptor", Kind::Text, "The descriptor.");

/// The methods of this file.
pub const METHODS: &[Method] = &[
    Method {
        name: "decodescript",
        category: "rawtransactions",
        args: &[Arg::required("hexstring", Kind::Hex, "The script; it may be empty.")],
        about: "What a script says, and the addresses that may stand for it.",
        result: "object: asm, desc, address, type, p2sh, segwit (asm, desc, hex, address, type, p2sh-segwit)",
        run: decode_script,
    },
    Method {
        name: "validateaddress",
        category: "util",
        args: &[Arg::required("address", Kind::Text, "The address.")],
        about: "Whether text is an address of this network, and what it stands for.",
        result: "object: isvalid, address, scriptPubKey, isscript, iswitness, witness_version, witness_program, \
                 error_locations, error",
        run: validate_address,
    },
    Method {
        name: "createmultisig",
        category: "util",
        args: &[
            Arg::required("nrequired", Kind::Number, "Signatures needed."),
            Arg::required("keys", Kind::Array, "Public keys in hexadecimal digits."),
            Arg::default("address_type", Kind::Text, "\"legacy\"", "legacy, p2sh-segwit or bech32."),
        ],
        about: "An address that some of several keys can spend from.",
        result: "object: address, redeemScript, descriptor, warnings",
        run: create_multisig,
    },
    Method {
        name: "getdescriptorinfo",
        category: "util",
        args: &[DESCRIPTOR],
        about: "What a descriptor is, and its checksum.",
        result: "object: descriptor (without private keys), checksum (of the text given), isrange, issolvable, hasprivatekeys",
        run: descriptor_info,
    },
    Method {
        name: "deriveaddresses",
        category: "util",
        args: &[DESCRIPTOR, Arg::optional("range", Kind::Range, "A last position, or a first and a last one.")],
        about: "The addresses of a descriptor, which must carry its checksum.",
        result: "array of addresses",
        run: derive_addresses,
    },
];
