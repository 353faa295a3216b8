//! A transaction that can be changed.
//!
//! In:     a parsed transaction, or nothing.
//! Out:    fields to set, and bytes.
//! Fails:  never.
//! Source: BIP 144; Bitcoin Core's `CMutableTransaction`.

use primitives::encode::put_compact_size;
use primitives::{OutPoint, Tx};

/// An input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftInput {
    /// What it spends.
    pub outpoint: OutPoint,
    /// Its script.
    pub script_sig: Vec<u8>,
    /// Its sequence.
    pub sequence: u32,
    /// Its witness.
    pub witness: Vec<Vec<u8>>,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Draft {
    /// Its version.
    pub version: u32,
    /// Its inputs.
    pub inputs: Vec<DraftInput>,
    /// Amounts and scripts of its outputs.
    pub outputs: Vec<(i64, Vec<u8>)>,
    /// Its lock time.
    pub lock_time: u32,
}

impl Draft {
    /// The same transaction.
    pub fn of(tx: &Tx<'_>) -> Draft {
        let input = |input: primitives::Input<'_>| DraftInput {
            outpoint: input.outpoint(),
            script_sig: input.script_sig().to_vec(),
            sequence: input.sequence(),
            witness: input.witness().map(<[u8]>::to_vec).collect(),
        };
        Draft {
            version: tx.version(),
            inputs: tx.inputs().map(input).collect(),
            outputs: tx.outputs().map(|output| (output.value_sat, output.script.to_vec())).collect(),
            lock_time: tx.lock_time(),
        }
    }

    /// Its bytes, with witnesses where there are any.
    pub fn bytes(&self) -> Vec<u8> {
        let has_witness = self.inputs.iter().any(|input| !input.witness.is_empty());
        let mut out = self.version.to_le_bytes().to_vec();
        if has_witness {
            out.extend_from_slice(&[0, 1]);
        }
        put_compact_size(&mut out, self.inputs.len() as u64);
        for input in &self.inputs {
            out.extend_from_slice(&input.outpoint.encode());
            push(&mut out, &input.script_sig);
            out.extend_from_slice(&input.sequence.to_le_bytes());
        }
        put_compact_size(&mut out, self.outputs.len() as u64);
        for (value_sat, script) in &self.outputs {
            out.extend_from_slice(&value_sat.to_le_bytes());
            push(&mut out, script);
        }
        if has_witness {
            for input in &self.inputs {
                put_compact_size(&mut out, input.witness.len() as u64);
                input.witness.iter().for_each(|item| push(&mut out, item));
            }
        }
        out.extend_from_slice(&self.lock_time.to_le_bytes());
        out
    }
}

fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    put_compact_size(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a push of data to a script, as short as it can be (Core: `CScript << data`).
pub fn push_data(script: &mut Vec<u8>, data: &[u8]) {
    match data.len() {
        length @ 0..=75 => script.push(length as u8),
        length @ 76..=255 => script.extend_from_slice(&[0x4c, length as u8]),
        length @ 256..=65_535 => {
            script.push(0x4d);
            script.extend_from_slice(&(length as u16).to_le_bytes());
        }
        length => {
            script.push(0x4e);
            script.extend_from_slice(&(length as u32).to_le_bytes());
        }
    }
    script.extend_from_slice(data);
}
