//! Signed messages.
//!
//! In:     a private key and a message; an address, a signature and a message.
//! Out:    a signature in Base64; whether it fits.
//! Fails:  with Core's sentences for keys, addresses and signatures that are none.
//! Source: Bitcoin Core, `src/rpc/signmessage.cpp`.

use crate::json::Json;
use crate::keys::message::{Verdict, sign, verify};
use crate::keys::secret::Secret;
use crate::rpc::call::Call;
use crate::rpc::error::{Outcome, RpcError};
use crate::rpc::method::{Arg, Kind, Method};

fn verify_message(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let (address, signature, message) = (call.text(0)?, call.text(1)?, call.text(2)?);
    match verify(&address, &signature, &message, call.chain_params()) {
        Verdict::Valid => json.bool(true),
        Verdict::OtherKey => json.bool(false),
        Verdict::InvalidAddress => return Err(RpcError::address_or_key("Invalid address")),
        Verdict::NoKeyAddress => return Err(RpcError::type_error("Address does not refer to key")),
        Verdict::Malformed => return Err(RpcError::type_error("Malformed base64 encoding")),
    }
    Ok(())
}

fn sign_message(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let secret = Secret::parse(&call.text(0)?, call.chain_params());
    let secret = secret.ok_or_else(|| RpcError::address_or_key("Invalid private key"))?;
    json.text(&sign(&secret, &call.text(1)?));
    Ok(())
}

/// The methods of this file.
pub const METHODS: &[Method] = &[
    Method {
        name: "verifymessage",
        category: "util",
        args: &[
            Arg::required("address", Kind::Text, "The address of the key."),
            Arg::required("signature", Kind::Text, "The signature in Base64."),
            Arg::required("message", Kind::Text, "The message."),
        ],
        about: "Whether a message was signed with the key of an address.",
        result: "boolean",
        run: verify_message,
    },
    Method {
        name: "signmessagewithprivkey",
        category: "util",
        args: &[
            Arg::required("privkey", Kind::Text, "The private key in the wallet import format."),
            Arg::required("message", Kind::Text, "The message."),
        ],
        about: "Signs a message.",
        result: "string: the signature in Base64",
        run: sign_message,
    },
];
