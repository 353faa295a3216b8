//! Keys and what is written with them: private keys, descriptors, signatures.
//!
//! In:     text out of requests; transactions to sign.
//! Out:    keys, scripts, signed inputs, signed messages.
//! Fails:  with what is wrong with the text; a signature that cannot be made is told input by input.
//! Source: BIP 32, 137, 141, 143, 340, 341, 380 to 386; Bitcoin Core, `src/script/sign.cpp`, `src/script/descriptor.cpp`.
//!
//! There is no wallet: keys come with a request and are gone with its answer.

pub mod secret;

pub mod base64;
pub mod descriptor;
pub mod draft;
pub mod extended;
pub mod message;
pub mod ranges;
pub mod spend;
