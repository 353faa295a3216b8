//! A transaction being made: fields that can still change.
//!
//! In:     inputs, outputs, numbers.
//! Out:    its bytes in BIP 144's format, with and without witnesses, and its txid.
//! Fails:  never; drafts may be invalid on purpose.

use primitives::encode::put_compact_size;
use primitives::hash::sha256d;
use primitives::{OutPoint, Transaction, Txid};

/// An input being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftInput {
    /// What it spends.
    pub outpoint: OutPoint,
    /// Sequence number.
    pub sequence: u32,
    /// Input script.
    pub script_sig: Vec<u8>,
    /// Witness stack.
    pub witness: Vec<Vec<u8>>,
}

/// An output being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftOutput {
    /// Amount; signed, for negative ones are wrong and must be written to be refused.
    pub value_sat: i64,
    /// Output script.
    pub script: Vec<u8>,
}

/// A transaction being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Version.
    pub version: u32,
    /// Inputs.
    pub inputs: Vec<DraftInput>,
    /// Outputs.
    pub outputs: Vec<DraftOutput>,
    /// Lock time.
    pub lock_time: u32,
}

impl DraftInput {
    /// An input without signature.
    pub fn unsigned(outpoint: OutPoint, sequence: u32) -> DraftInput {
        DraftInput { outpoint, sequence, script_sig: Vec::new(), witness: Vec::new() }
    }
}

impl DraftOutput {
    /// Appends its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.value_sat.to_le_bytes());
        put_compact_size(out, self.script.len() as u64);
        out.extend_from_slice(&self.script);
    }
}

impl Draft {
    /// True where some input has a witness.
    pub fn has_witness(&self) -> bool {
        self.inputs.iter().any(|input| !input.witness.is_empty())
    }

    fn write(&self, out: &mut Vec<u8>, with_witness: bool) {
        out.extend_from_slice(&self.version.to_le_bytes());
        if with_witness {
            out.extend_from_slice(&[0, 1]);
        }
        put_compact_size(out, self.inputs.len() as u64);
        for input in &self.inputs {
            out.extend_from_slice(&input.outpoint.encode());
            put_compact_size(out, input.script_sig.len() as u64);
            out.extend_from_slice(&input.script_sig);
            out.extend_from_slice(&input.sequence.to_le_bytes());
        }
        put_compact_size(out, self.outputs.len() as u64);
        for output in &self.outputs {
            output.write(out);
        }
        if with_witness {
            for input in &self.inputs {
                put_compact_size(out, input.witness.len() as u64);
                for item in &input.witness {
                    put_compact_size(out, item.len() as u64);
                    out.extend_from_slice(item);
                }
            }
        }
        out.extend_from_slice(&self.lock_time.to_le_bytes());
    }

    /// All its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 160 * self.inputs.len() + 40 * self.outputs.len());
        self.write(&mut out, self.has_witness());
        out
    }

    /// Its bytes without witnesses.
    pub fn encode_stripped(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 150 * self.inputs.len() + 40 * self.outputs.len());
        self.write(&mut out, false);
        out
    }

    /// Its id.
    pub fn txid(&self) -> Txid {
        Txid(sha256d(&self.encode_stripped()))
    }

    /// Takes a parsed transaction apart.
    pub fn of(tx: &primitives::Tx<'_>) -> Draft {
        Draft {
            version: tx.version(),
            inputs: tx
                .inputs()
                .map(|input| DraftInput {
                    outpoint: input.outpoint(),
                    sequence: input.sequence(),
                    script_sig: input.script_sig().to_vec(),
                    witness: input.witness().map(<[u8]>::to_vec).collect(),
                })
                .collect(),
            outputs: tx
                .outputs()
                .map(|output| DraftOutput { value_sat: output.value_sat, script: output.script.to_vec() })
                .collect(),
            lock_time: tx.lock_time(),
        }
    }

    /// The transaction, parsed.
    pub fn parse(&self) -> Transaction {
        Transaction::parse(self.encode()).expect("a draft with an input and an output parses")
    }
}
