//! What to pay, and what others offer.
//!
//! In:     a session's state and checked arguments.
//! Out:    the result appended to a buffer whose answer is already open.
//! Fails:  [`Fault`].
//! Source: Electrum protocol 1.4.3, docs/protocol-methods.rst; where it is silent, ElectrumX.

use super::methods::{Reply, write};
use crate::electrum::error::{Error, Fault};
use crate::electrum::machine::Machine;
use crate::electrum::params::Arguments;

/// -1 is the protocol's word for "no estimate": there is no mempool to make one from.
pub(super) fn estimatefee(_: &mut Machine, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    arguments.number(0, None)?;
    if let Some(mode) = arguments.value(1)?
        && !(mode.is_string() || mode.is_null())
    {
        return Err(Error::InvalidParams("mode is a string".into()).into());
    }
    write(out, "-1")
}

/// In BTC per 1000 virtual bytes: what all nodes relayed until Core 29.1 (`DEFAULT_MIN_RELAY_TX_FEE`, 1000 sat/kvB).
pub(super) fn relayfee(_: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    write(out, "0.00001")
}

pub(super) fn fee_histogram(_: &mut Machine, _: &Arguments<'_>, out: &mut Vec<u8>) -> Result<Reply, Fault> {
    write(out, "[]")
}
