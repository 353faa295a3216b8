//! Bitcoin Core's script interpreter, for every input that is not a template.
//!
//! In:     a transaction, the coins it spends, an input, flags.
//! Out:    Core's verdict; it stands.
//! Fails:  never on an input. A transaction that Core cannot parse although we did is a broken promise: `assert`.
//! Source: Core's `VerifyScript`, out of libbitcoinkernel's library through interpreter.cpp.
//!
//! The library's own call copies the outputs that all inputs spend, at each input: a block of taproot inputs beside
//! coins with long scripts then takes minutes (docs/worst-blocks.md). Through interpreter.cpp nothing is copied.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};
use std::fmt;
use std::ptr::NonNull;

// The library that interpreter.cpp is linked with.
use bitcoinkernel as _;
use primitives::{SpentCoins, Tx};

use super::sighash::TxCoins;
use crate::flags::Flags;

/// The one rule of policy that Core asserts something about.
const CLEANSTACK: Flags = Flags(1 << 8);

unsafe extern "C" {
    fn assay_spending_new(bytes: *const u8, length: usize) -> *mut c_void;
    fn assay_spending_inputs(spending: *const c_void) -> usize;
    fn assay_spending_push(spending: *mut c_void, value: i64, script: *const u8, length: usize);
    fn assay_spending_ready(spending: *mut c_void);
    fn assay_spending_verify(spending: *const c_void, input: c_uint, flags: u32) -> c_int;
    fn assay_spending_delete(spending: *mut c_void);
    fn assay_script_error_text(error: c_int, out: *mut u8, room: usize) -> usize;
}

/// Why Core's interpreter refuses an input: its `ScriptError`, never the zero that stands for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScriptError(pub i32);

impl fmt::Display for ScriptError {
    /// Core's words (`ScriptErrorString`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 128];
        // SAFETY: pointer and length are those of one array, which is only written to.
        let length = unsafe { assay_script_error_text(self.0, text.as_mut_ptr(), text.len()) };
        f.write_str(std::str::from_utf8(&text[..length]).expect("Core's words are ASCII"))
    }
}

/// One transaction and the outputs it spends, as the interpreter holds them.
pub struct Interpreter {
    /// Owned; made by `assay_spending_new`, complete since `assay_spending_ready`.
    spending: NonNull<c_void>,
    inputs: usize,
}

// SAFETY: after `new` the C++ object is only read (`const` throughout), and it belongs to no thread.
unsafe impl Send for Interpreter {}
// SAFETY: as above; concurrent reads of a `const` object with no mutable member are free of races.
unsafe impl Sync for Interpreter {}

impl Interpreter {
    /// Hands over a transaction and the coins of its inputs.
    pub fn new(tx: Tx<'_>, coins: TxCoins<'_>) -> Interpreter {
        let raw = tx.raw();
        // SAFETY: pointer and length are those of one slice; the function copies what it keeps.
        let spending = unsafe { assay_spending_new(raw.as_ptr(), raw.len()) };
        let spending = NonNull::new(spending).expect("both parsers read the same format");
        let this = Interpreter { spending, inputs: tx.input_count() };
        // SAFETY: the object was just made.
        let inputs = unsafe { assay_spending_inputs(spending.as_ptr()) };
        assert!(inputs == this.inputs && coins.len() == inputs, "a coin for each input, in both parsers' eyes");
        for coin in coins.iter() {
            let value_sat = i64::try_from(coin.value_sat).expect("a coin's amount was checked to be at most MAX_MONEY");
            // SAFETY: the object is ours alone; pointer and length are those of one slice, which is copied.
            unsafe { assay_spending_push(spending.as_ptr(), value_sat, coin.script.as_ptr(), coin.script.len()) };
        }
        // SAFETY: once, after a push for every input.
        unsafe { assay_spending_ready(spending.as_ptr()) };
        this
    }

    /// Core's verdict on input `input`.
    pub fn verify(&self, input: usize, flags: Flags) -> bool {
        self.judge(input, flags).is_ok()
    }

    /// Core's verdict on input `input`, with the reason of a no.
    pub fn judge(&self, input: usize, flags: Flags) -> Result<(), ScriptError> {
        assert!(input < self.inputs, "input {input} of {}", self.inputs);
        // Core asserts that the witness rules come with P2SH, and that no unknown bit is set.
        assert!(!flags.has(Flags::WITNESS) || flags.has(Flags::P2SH), "the witness rules need P2SH");
        assert!(!flags.has(CLEANSTACK) || flags.has(Flags::WITNESS), "a clean stack needs the witness rules");
        assert!(Flags::STANDARD.has(flags), "only rules that are known");
        // SAFETY: the object lives as long as `self`, is complete, and has an output for this input.
        match unsafe { assay_spending_verify(self.spending.as_ptr(), input as c_uint, flags.0) } {
            0 => Ok(()),
            error => Err(ScriptError(error)),
        }
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        // SAFETY: made by `assay_spending_new`, deleted only here.
        unsafe { assay_spending_delete(self.spending.as_ptr()) };
    }
}

/// Core's verdict on one input of a transaction whose first input spends `coins[first_coin]`.
///
/// For many inputs of one transaction make an [`Interpreter`].
pub fn verify_input(tx: Tx<'_>, coins: &SpentCoins, first_coin: usize, input: usize, flags: Flags) -> bool {
    Interpreter::new(tx, TxCoins::new(coins, first_coin, tx.input_count())).verify(input, flags)
}
