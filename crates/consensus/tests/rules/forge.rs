//! Blocks made to order on regtest.
//!
//! In:     transactions, and what to break.
//! Out:    a parsed block with a merkle root, a witness commitment where asked for, and proof of work.
//! Fails:  never.

use primitives::encode::put_compact_size;
use primitives::hash::{merkle_root, sha256d, sha256d_parts};
use primitives::{Block, BlockHash, Header, Network, OutPoint, Params, Transaction, Txid};

use consensus::header::check_proof_of_work;

/// Height at which forged blocks are judged.
pub const HEIGHT: u32 = 1_000;
/// Median time past of their parent.
pub const MEDIAN_S: u32 = 1_700_000_000;

#[derive(Clone)]
pub struct ForgedInput {
    pub outpoint: OutPoint,
    pub script_sig: Vec<u8>,
    pub sequence: u32,
    pub witness: Vec<Vec<u8>>,
}

#[derive(Clone)]
pub struct ForgedTx {
    pub version: u32,
    pub inputs: Vec<ForgedInput>,
    pub outputs: Vec<(i64, Vec<u8>)>,
    pub lock_time: u32,
}

/// The output of a made-up transaction.
pub fn outpoint(number: u32) -> OutPoint {
    OutPoint { txid: Txid(sha256d(&number.to_le_bytes())), vout: number }
}

pub fn input(number: u32) -> ForgedInput {
    ForgedInput { outpoint: outpoint(number), script_sig: Vec::new(), sequence: u32::MAX, witness: Vec::new() }
}

impl ForgedTx {
    /// Pays nothing; its script is as short as BIP 34 lets it be.
    pub fn coinbase() -> ForgedTx {
        let mut script_sig = consensus::block::height_push(HEIGHT);
        script_sig.push(0);
        let input = ForgedInput { outpoint: OutPoint::NULL, script_sig, ..input(0) };
        ForgedTx { version: 2, inputs: vec![input], outputs: vec![(0, vec![0x51])], lock_time: 0 }
    }

    /// Spends the made-up outputs of these numbers, and pays nothing to anyone.
    pub fn spending(numbers: impl IntoIterator<Item = u32>) -> ForgedTx {
        let inputs = numbers.into_iter().map(input).collect();
        ForgedTx { version: 2, inputs, outputs: vec![(0, vec![0x51])], lock_time: 0 }
    }

    pub fn paying(mut self, value_sat: i64) -> ForgedTx {
        self.outputs = vec![(value_sat, vec![0x51])];
        self
    }

    pub fn with_witness(mut self, item: Vec<u8>) -> ForgedTx {
        self.inputs[0].witness.push(item);
        self
    }

    pub fn bytes(&self, with_witness: bool) -> Vec<u8> {
        let with_witness = with_witness && self.inputs.iter().any(|input| !input.witness.is_empty());
        let mut out = self.version.to_le_bytes().to_vec();
        if with_witness {
            out.extend_from_slice(&[0, 1]);
        }
        let put = |out: &mut Vec<u8>, bytes: &[u8]| {
            put_compact_size(out, bytes.len() as u64);
            out.extend_from_slice(bytes);
        };
        put_compact_size(&mut out, self.inputs.len() as u64);
        for input in &self.inputs {
            out.extend_from_slice(&input.outpoint.encode());
            put(&mut out, &input.script_sig);
            out.extend_from_slice(&input.sequence.to_le_bytes());
        }
        put_compact_size(&mut out, self.outputs.len() as u64);
        for (value_sat, script) in &self.outputs {
            out.extend_from_slice(&value_sat.to_le_bytes());
            put(&mut out, script);
        }
        for input in self.inputs.iter().filter(|_| with_witness) {
            put_compact_size(&mut out, input.witness.len() as u64);
            input.witness.iter().for_each(|item| put(&mut out, item));
        }
        out.extend_from_slice(&self.lock_time.to_le_bytes());
        out
    }

    pub fn parse(&self) -> Transaction {
        Transaction::parse(self.bytes(true)).expect("forged transactions parse")
    }
}

#[derive(Clone)]
pub struct ForgedBlock {
    pub txs: Vec<ForgedTx>,
    pub bits: u32,
    pub root: Option<[u8; 32]>,
}

impl ForgedBlock {
    /// A coinbase, then these.
    pub fn of(txs: impl IntoIterator<Item = ForgedTx>) -> ForgedBlock {
        let txs = std::iter::once(ForgedTx::coinbase()).chain(txs).collect();
        ForgedBlock { txs, bits: 0x207f_ffff, root: None }
    }

    pub fn with_coinbase(mut self, change: impl FnOnce(&mut ForgedTx)) -> ForgedBlock {
        change(&mut self.txs[0]);
        self
    }

    /// Commits to the witnesses (BIP 141).
    pub fn committed(mut self) -> ForgedBlock {
        self.txs[0].inputs[0].witness = vec![vec![7; 32]];
        let mut leaves = vec![[0; 32]];
        leaves.extend(self.txs[1..].iter().map(|tx| sha256d(&tx.bytes(true))));
        let commitment = sha256d_parts(&[&merkle_root(&leaves).0, &[7; 32]]);
        let script = [&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed], &commitment[..]].concat();
        self.txs[0].outputs.push((0, script));
        self
    }

    pub fn seal(&self) -> Block {
        let params = Params::of(Network::Regtest);
        let txids: Vec<[u8; 32]> = self.txs.iter().map(|tx| sha256d(&tx.bytes(false))).collect();
        let merkle_root = self.root.unwrap_or_else(|| merkle_root(&txids).0);
        let previous = BlockHash([1; 32]);
        let mut header =
            Header { version: 0x2000_0000, previous, merkle_root, time_s: MEDIAN_S + 600, bits: self.bits, nonce: 0 };
        // One of two nonces will do on regtest; with other bits none does, and none is looked for.
        while self.bits == 0x207f_ffff && check_proof_of_work(&header.hash(), header.bits, &params).is_err() {
            header.nonce += 1;
        }
        let mut bytes = header.encode().to_vec();
        put_compact_size(&mut bytes, self.txs.len() as u64);
        self.txs.iter().for_each(|tx| bytes.extend_from_slice(&tx.bytes(true)));
        Block::parse(bytes).expect("forged blocks parse")
    }
}
