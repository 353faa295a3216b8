//! Addresses: the text wallets show for output scripts.
//!
//! In:     an output script, or text.
//! Out:    text, or an output script.
//! Fails:  [`AddressError`] says what is wrong with the text.
//! Source: BIP 13, BIP 173, BIP 350; judged by Core's `key_io_valid.json` and `key_io_invalid.json`.
