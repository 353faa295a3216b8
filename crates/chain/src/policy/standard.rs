//! Whether a transaction, without the coins it spends, has the form that the network uses.
//!
//! In:     a transaction and the [`Policy`].
//! Out:    nothing, or which outputs are dust.
//! Fails:  [`Reject`], in Core's order.
//! Source: Bitcoin Core, `policy/policy.cpp` (`IsStandardTx`, `GetDustThreshold`, `GetDust`).

use primitives::encode::compact_size_length;
use primitives::script::{Operations, ScriptType, is_unspendable, last_push, witness_program};
use primitives::{Output, Tx};

use super::{DUST_OUTPUTS_MAX, FeeRate, Policy, Reject, TX_WEIGHT_MAX};

/// Versions we take.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=3;
/// Largest input script; Core's `MAX_STANDARD_SCRIPTSIG_SIZE`, a 15-of-15 P2SH multisig.
const SCRIPT_SIG_BYTES_MAX: usize = 1_650;
/// Most keys of a bare multisig output.
const BARE_MULTISIG_KEYS_MAX: usize = 3;
/// What spending an output costs: outpoint, script length, sequence, and 107 bytes of signature and key.
const SPEND_BYTES: u32 = 32 + 4 + 1 + 107 + 4;
/// The same with signature and key in the witness.
const WITNESS_SPEND_BYTES: u32 = 32 + 4 + 1 + 107 / 4 + 4;

/// Judges a transaction on its own.
pub fn check_standard(tx: &Tx<'_>, policy: &Policy) -> Result<(), Reject> {
    if !VERSIONS.contains(&tx.version()) {
        return Err(Reject::Version);
    }
    if tx.weight() > TX_WEIGHT_MAX {
        return Err(Reject::Weight);
    }
    for input in tx.inputs() {
        let script = input.script_sig();
        if script.len() > SCRIPT_SIG_BYTES_MAX {
            return Err(Reject::ScriptSigSize);
        }
        if last_push(script).is_none() {
            return Err(Reject::ScriptSigNotPushOnly);
        }
    }
    let mut datacarrier_bytes_left = policy.datacarrier_bytes_max.unwrap_or(0);
    for output in tx.outputs() {
        check_output(output.script, policy, &mut datacarrier_bytes_left)?;
    }
    if dust_outputs(tx, policy.dust_relay).count() > DUST_OUTPUTS_MAX {
        return Err(Reject::Dust);
    }
    Ok(())
}

fn check_output(script: &[u8], policy: &Policy, datacarrier_bytes_left: &mut usize) -> Result<(), Reject> {
    match ScriptType::of(script) {
        ScriptType::Nonstandard => Err(Reject::OutputScript),
        ScriptType::Multisig if multisig_keys(script) > BARE_MULTISIG_KEYS_MAX => Err(Reject::OutputScript),
        ScriptType::Multisig if !policy.bare_multisig => Err(Reject::BareMultisig),
        ScriptType::NullData => {
            *datacarrier_bytes_left = datacarrier_bytes_left.checked_sub(script.len()).ok_or(Reject::DataCarrier)?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Keys of a script whose shape is known: the pushes of 33 and 65 bytes.
fn multisig_keys(script: &[u8]) -> usize {
    Operations::of(script).filter(|operation| operation.data.len() > 1).count()
}

/// Least value at which spending an output leaves something of it.
pub fn dust_threshold_sat(script: &[u8], dust_relay: FeeRate) -> i64 {
    if is_unspendable(script) {
        return 0;
    }
    let own_bytes = (8 + compact_size_length(script.len() as u64) + script.len()) as u32;
    let spend_bytes = if witness_program(script).is_some() { WITNESS_SPEND_BYTES } else { SPEND_BYTES };
    dust_relay.fee_sat(own_bytes + spend_bytes)
}

/// True for an output that costs more to spend than it holds.
pub fn is_dust(output: &Output<'_>, dust_relay: FeeRate) -> bool {
    output.value_sat < dust_threshold_sat(output.script, dust_relay)
}

/// Positions of the outputs that are dust.
pub fn dust_outputs<'a>(tx: &Tx<'a>, dust_relay: FeeRate) -> impl Iterator<Item = u32> + use<'a> {
    let outputs = tx.outputs().enumerate();
    outputs.filter(move |(_, output)| is_dust(output, dust_relay)).map(|(vout, _)| vout as u32)
}
