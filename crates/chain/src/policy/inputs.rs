//! Whether what a transaction spends, and how, has the form that the network uses.
//!
//! In:     a transaction and the coins of its inputs.
//! Out:    nothing; or whether a witness program is among the coins.
//! Fails:  [`Reject`], in Core's order.
//! Source: Bitcoin Core, `policy/policy.cpp` (`ValidateInputsStandardness`, `IsWitnessStandard`,
//!         `SpendsNonAnchorWitnessProg`); the limit of potentially executed signature operations is BIP 54's.

use consensus::script::TxCoins;
use consensus::sigops;
use primitives::script::{
    Operation, Operations, SCRIPT_BYTES_MAX, ScriptType, is_pay_to_script_hash, last_push, op, witness_program,
};
use primitives::{Input, Tx};

use super::Reject;

/// Most signature operations of a redeem script; Core's `MAX_P2SH_SIGOPS`.
const REDEEM_SIGOPS_MAX: u32 = 15;
/// Most signature operations outside witnesses that a transaction may execute; Core's `MAX_TX_LEGACY_SIGOPS`.
const LEGACY_SIGOPS_MAX: u32 = 2_500;
/// Limits of P2WSH: script bytes, elements, bytes of an element.
const WITNESS_SCRIPT_BYTES_MAX: usize = 3_600;
const WITNESS_ITEMS_MAX: usize = 100;
const WITNESS_ITEM_BYTES_MAX: usize = 80;
/// First byte of an annex.
const ANNEX_TAG: u8 = 0x50;
/// Leaf version of tapscript, without the parity bit.
const LEAF_TAPSCRIPT: u8 = 0xc0;
/// Largest element and most elements of the interpreter's stack.
const ELEMENT_BYTES_MAX: usize = 520;
const STACK_LENGTH_MAX: usize = 1_000;

/// Judges what the inputs spend, witnesses left out.
pub fn check_inputs(tx: &Tx<'_>, coins: TxCoins<'_>) -> Result<(), Reject> {
    let refuse = |text: String| Err(Reject::InputsNotStandard(text));
    if !few_legacy_sigops(tx, coins) {
        return refuse("non-witness sigops exceed bip54 limit".to_owned());
    }
    for (index, input) in tx.inputs().enumerate() {
        match ScriptType::of(coins.get(index).script) {
            ScriptType::Nonstandard => return refuse(format!("input {index} script unknown")),
            ScriptType::WitnessUnknown => return refuse(format!("input {index} witness program is undefined")),
            ScriptType::ScriptHash => {
                let redeem = match redeem_script(input) {
                    Ok(Some(redeem)) => redeem,
                    Ok(None) => return refuse(format!("input {index} P2SH redeemscript missing")),
                    Err(error) => return refuse(format!("p2sh scriptsig malformed (input {index}: {error})")),
                };
                let count = sigops::count(redeem, true);
                if count > REDEEM_SIGOPS_MAX {
                    let text = "p2sh redeemscript sigops exceed limit";
                    return refuse(format!("{text} (input {index}: {count} > {REDEEM_SIGOPS_MAX})"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn few_legacy_sigops(tx: &Tx<'_>, coins: TxCoins<'_>) -> bool {
    let mut count = 0;
    tx.inputs().enumerate().all(|(index, input)| {
        let script = coins.get(index).script;
        count += sigops::count(input.script_sig(), true);
        count += match is_pay_to_script_hash(script) {
            true => last_push(input.script_sig()).map_or(0, |redeem| sigops::count(redeem, true)),
            false => sigops::count(script, true),
        };
        count <= LEGACY_SIGOPS_MAX
    })
}

/// What the input script leaves on top of the stack; an error in Core's words where the interpreter would stop.
///
/// A number pushed by its own opcode is given as no bytes: as a script neither means anything.
fn redeem_script(input: Input<'_>) -> Result<Option<&[u8]>, &'static str> {
    let script = input.script_sig();
    if script.len() > SCRIPT_BYTES_MAX {
        return Err("Script is too big");
    }
    let mut operations = Operations::of(script);
    let (mut top, mut length) = (None, 0);
    for Operation { code, data } in &mut operations {
        if code > op::SIXTEEN || code == op::ONE - 1 {
            return Err("Opcode missing or not understood");
        }
        if data.len() > ELEMENT_BYTES_MAX {
            return Err("Push value size limit exceeded");
        }
        length += 1;
        if length > STACK_LENGTH_MAX {
            return Err("Stack size limit exceeded");
        }
        top = Some(data);
    }
    if operations.rest().is_empty() { Ok(top) } else { Err("Opcode missing or not understood") }
}

/// Judges witnesses by the limits of their programs.
pub fn check_witness(tx: &Tx<'_>, coins: TxCoins<'_>) -> Result<(), Reject> {
    let good = tx
        .inputs()
        .enumerate()
        .all(|(index, input)| input.witness().len() == 0 || is_witness_standard(input, coins.get(index).script));
    if good { Ok(()) } else { Err(Reject::WitnessNotStandard) }
}

fn is_witness_standard(input: Input<'_>, spent: &[u8]) -> bool {
    if ScriptType::of(spent) == ScriptType::Anchor {
        return false;
    }
    let nested = is_pay_to_script_hash(spent);
    let script = match nested {
        false => spent,
        true => match redeem_script(input) {
            Ok(Some(redeem)) => redeem,
            _ => return false,
        },
    };
    match witness_program(script) {
        None => false,
        Some((0, program)) if program.len() == 32 => {
            let items = input.witness().len() - 1;
            let script = input.witness().last().expect("a witness that is not empty");
            script.len() <= WITNESS_SCRIPT_BYTES_MAX
                && items <= WITNESS_ITEMS_MAX
                && input.witness().take(items).all(|item| item.len() <= WITNESS_ITEM_BYTES_MAX)
        }
        Some((1, program)) if program.len() == 32 && !nested => is_taproot_standard(input),
        Some(_) => true,
    }
}

/// No annex, and small elements for a tapscript.
fn is_taproot_standard(input: Input<'_>) -> bool {
    let count = input.witness().len();
    if count < 2 {
        return count == 1;
    }
    let control = input.witness().last().expect("two elements at least");
    match control.first() {
        None | Some(&ANNEX_TAG) => false,
        Some(first) if first & 0xfe == LEAF_TAPSCRIPT => {
            input.witness().take(count - 2).all(|item| item.len() <= WITNESS_ITEM_BYTES_MAX)
        }
        Some(_) => true,
    }
}

/// True where a coin asks for a witness: what fails without one may have lost it on the way.
pub fn spends_witness_program(tx: &Tx<'_>, coins: TxCoins<'_>) -> bool {
    tx.inputs().enumerate().any(|(index, input)| {
        let script = coins.get(index).script;
        if witness_program(script).is_some() {
            return ScriptType::of(script) != ScriptType::Anchor;
        }
        let redeem = if is_pay_to_script_hash(script) { redeem_script(input).ok().flatten() } else { None };
        redeem.is_some_and(|redeem| witness_program(redeem).is_some())
    })
}
