//! Ranges of descriptors, and descriptors as requests give them.
//!
//! In:     values of a request; the network.
//! Out:    first and last position; the scripts of a descriptor over a range.
//! Fails:  in Core's words for ranges and descriptors that are none.
//! Source: Bitcoin Core, `src/rpc/util.cpp` (`ParseDescriptorRange`, `EvalDescriptorStringOrObject`).

use primitives::Params;

use super::descriptor::parse;
use crate::rpc::error::RpcError;
use crate::rpc::value::{Type, Value, member};

/// Last position of a range that nobody named.
const RANGE_DEFAULT: i64 = 1000;
/// Positions of one range.
const RANGE_MAX: i64 = 1_000_000;

/// First and last position of a range: a last one, or both (Core: `ParseDescriptorRange`).
pub fn range_of(value: Value<'_>) -> Result<(i64, i64), RpcError> {
    let (first, last): (i64, i64) = match value.kind() {
        Type::Number => (0, value.integer()?),
        Type::Array => match value.array()?[..] {
            [first, last] => (first.integer()?, last.integer()?),
            _ => return Err(RpcError::parameter("Range must have exactly two elements: begin and end")),
        },
        _ => return Err(RpcError::parameter("Range must be specified as end or as [begin,end]")),
    };
    let told = match (first, last) {
        (first, _) if first < 0 => "Range should be greater or equal than 0",
        (_, last) if last >> 31 != 0 => "End of range is too high",
        (first, last) if last < first => "Range specified as [begin,end] must not have begin after end",
        (first, last) if last >= first + RANGE_MAX => "Range is too large",
        _ => return Ok((first, last)),
    };
    Err(RpcError::parameter(told))
}

/// The scripts of a descriptor given as text, or as an object with a range.
pub fn scripts_of_object(value: Value<'_>, params: &Params) -> Result<Vec<(Vec<u8>, String)>, RpcError> {
    let (text, range) = match value.kind() {
        Type::Text => (value.text()?, Value::NULL),
        Type::Object => {
            let members = value.object()?;
            let text = member(&members, "desc");
            if text.is_null() {
                return Err(RpcError::parameter("Descriptor needs to be provided in scan object"));
            }
            (text.text()?, member(&members, "range"))
        }
        _ => return Err(RpcError::parameter("Scan object needs to be either a string or an object")),
    };
    let descriptor = parse(&text, params, false).map_err(RpcError::address_or_key)?;
    let (first, last) = match (descriptor.is_range(), range.is_null()) {
        (false, _) => (0, 0),
        (true, true) => (0, RANGE_DEFAULT),
        (true, false) => range_of(range)?,
    };
    let mut scripts = Vec::new();
    for position in first..=last {
        let told = || RpcError::address_or_key(format!("Cannot derive script without private keys: '{text}'"));
        scripts.extend(descriptor.scripts(position as u32, params).ok_or_else(told)?);
    }
    Ok(scripts)
}
