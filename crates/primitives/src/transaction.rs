//! A transaction as offsets into its bytes.
//!
//! In:     bytes, in the format of BIP 144 or the one before it.
//! Out:    [`Tx`], a view that costs nothing to copy: every field is read in place.
//! Fails:  [`ParseError`], exactly where Core's `UnserializeTransaction` throws.

use std::ops::Range;
use std::sync::Arc;

use stdx::bytes::Reader;

use crate::encode::{ParseError, compact_size};
use crate::hash::{Txid, Wtxid, sha256d, sha256d_parts};

/// Where an output is: transaction and position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutPoint {
    /// The transaction.
    pub txid: Txid,
    /// Position of the output in it, from zero.
    pub vout: u32,
}

impl OutPoint {
    /// What a coinbase input names.
    pub const NULL: OutPoint = OutPoint { txid: Txid([0; 32]), vout: u32::MAX };

    /// Reads the 36 bytes of an outpoint.
    #[inline]
    pub fn decode(bytes: &[u8; 36]) -> OutPoint {
        OutPoint {
            txid: Txid(bytes[..32].try_into().expect("32 bytes")),
            vout: u32::from_le_bytes(bytes[32..].try_into().expect("four bytes")),
        }
    }

    /// The 36 bytes of an outpoint.
    #[inline]
    pub fn encode(&self) -> [u8; 36] {
        let mut bytes = [0; 36];
        bytes[..32].copy_from_slice(&self.txid.0);
        bytes[32..].copy_from_slice(&self.vout.to_le_bytes());
        bytes
    }
}

/// Offsets of one transaction; positions count from the start of the bytes it was parsed from.
#[derive(Clone, Copy, Debug)]
struct TxLayout {
    start: u32,
    end: u32,
    /// Start of the witnesses, or of the lock time where there are none.
    body_end: u32,
    has_witness: bool,
    first_input: u32,
    first_output: u32,
}

#[derive(Clone, Copy, Debug)]
struct InputLayout {
    /// Start of the outpoint.
    start: u32,
    script_start: u32,
    script_length: u32,
    /// Start of the witness stack's count; 0 where the transaction has no witnesses.
    witness_start: u32,
}

#[derive(Clone, Copy, Debug)]
struct OutputLayout {
    /// Start of the value.
    start: u32,
    script_start: u32,
    script_length: u32,
}

/// Offsets of transactions that lie in a row in one piece of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    txs: Vec<TxLayout>,
    inputs: Vec<InputLayout>,
    outputs: Vec<OutputLayout>,
}

impl Layout {
    pub(crate) fn tx_count(&self) -> usize {
        self.txs.len()
    }

    pub(crate) fn input_count(&self) -> usize {
        self.inputs.len()
    }

    pub(crate) fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// Parses one transaction at the reader's position and appends it.
    pub(crate) fn push_tx(&mut self, reader: &mut Reader<'_>) -> Result<(), ParseError> {
        let start = reader.position() as u32;
        let (first_input, first_output) = (self.inputs.len() as u32, self.outputs.len() as u32);
        reader.take(4)?;
        let mut input_count = self.push_inputs(reader)?;
        let mut flags = 0;
        // BIP 144: no inputs, then a flag. Core reads a zero flag as "no outputs either".
        if input_count == 0 {
            let flag = reader.u8()?;
            if flag != 0 {
                flags = flag;
                input_count = self.push_inputs(reader)?;
                self.push_outputs(reader)?;
            }
        } else {
            self.push_outputs(reader)?;
        }
        let body_end = reader.position() as u32;
        let has_witness = flags & 1 != 0;
        if has_witness {
            self.read_witnesses(reader, first_input as usize, input_count)?;
        }
        if flags & !1 != 0 {
            return Err(ParseError::UnknownWitnessFlag);
        }
        reader.take(4)?;
        let end = reader.position() as u32;
        self.txs.push(TxLayout { start, end, body_end, has_witness, first_input, first_output });
        Ok(())
    }

    fn push_inputs(&mut self, reader: &mut Reader<'_>) -> Result<usize, ParseError> {
        let count = compact_size(reader)?;
        for _ in 0..count {
            let start = reader.position() as u32;
            reader.take(36)?;
            let script_length = compact_size(reader)? as u32;
            let script_start = reader.position() as u32;
            reader.take(script_length as usize)?;
            reader.take(4)?;
            self.inputs.push(InputLayout { start, script_start, script_length, witness_start: 0 });
        }
        Ok(count as usize)
    }

    fn push_outputs(&mut self, reader: &mut Reader<'_>) -> Result<(), ParseError> {
        for _ in 0..compact_size(reader)? {
            let start = reader.position() as u32;
            reader.take(8)?;
            let script_length = compact_size(reader)? as u32;
            let script_start = reader.position() as u32;
            reader.take(script_length as usize)?;
            self.outputs.push(OutputLayout { start, script_start, script_length });
        }
        Ok(())
    }

    fn read_witnesses(&mut self, reader: &mut Reader<'_>, first: usize, count: usize) -> Result<(), ParseError> {
        let mut any = false;
        for input in &mut self.inputs[first..first + count] {
            input.witness_start = reader.position() as u32;
            let items = compact_size(reader)?;
            any |= items > 0;
            for _ in 0..items {
                let length = compact_size(reader)?;
                reader.take(length as usize)?;
            }
        }
        if any { Ok(()) } else { Err(ParseError::SuperfluousWitness) }
    }

    #[inline]
    pub(crate) fn tx<'a>(&'a self, bytes: &'a [u8], index: usize) -> Tx<'a> {
        Tx { layout: self, bytes, index, tx: self.txs[index] }
    }
}

/// One transaction, read in place.
#[derive(Clone, Copy)]
pub struct Tx<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
    index: usize,
    tx: TxLayout,
}

/// One input, read in place.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    bytes: &'a [u8],
    layout: InputLayout,
}

/// One output, read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output<'a> {
    /// Amount in satoshi as written; rules about its range are in `consensus`.
    pub value_sat: i64,
    /// Output script.
    pub script: &'a [u8],
}

impl<'a> Tx<'a> {
    /// Position among the transactions it was parsed with; its position in the block.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Offset of its first byte in the block.
    #[inline]
    pub fn start(&self) -> usize {
        self.tx.start as usize
    }

    /// All its bytes, witnesses included.
    #[inline]
    pub fn raw(&self) -> &'a [u8] {
        &self.bytes[self.tx.start as usize..self.tx.end as usize]
    }

    /// Version, signed as Core keeps it in relative-lock rules: compare as `u32`.
    #[inline]
    pub fn version(&self) -> u32 {
        u32::from_le_bytes(self.raw()[..4].try_into().expect("parsed"))
    }

    /// Lock time.
    #[inline]
    pub fn lock_time(&self) -> u32 {
        let raw = self.raw();
        u32::from_le_bytes(raw[raw.len() - 4..].try_into().expect("parsed"))
    }

    /// True where the bytes carry witnesses.
    #[inline]
    pub fn has_witness(&self) -> bool {
        self.tx.has_witness
    }

    /// Inputs and outputs as serialized, counts included: everything between version (and marker) and witnesses.
    fn body(&self) -> &'a [u8] {
        let skip = if self.tx.has_witness { 6 } else { 4 };
        &self.bytes[self.tx.start as usize + skip..self.tx.body_end as usize]
    }

    /// The outputs as serialized, without their count.
    pub fn outputs_raw(&self) -> &'a [u8] {
        let end = self.tx.body_end as usize;
        let start = self.layout.outputs[self.output_range()].first().map_or(end, |output| output.start as usize);
        &self.bytes[start..end]
    }

    /// Bytes without witnesses.
    #[inline]
    pub fn stripped_length(&self) -> usize {
        4 + self.body().len() + 4
    }

    /// BIP 141 weight.
    #[inline]
    pub fn weight(&self) -> usize {
        3 * self.stripped_length() + self.raw().len()
    }

    /// Appends the bytes without witnesses.
    pub fn write_stripped(&self, out: &mut Vec<u8>) {
        let raw = self.raw();
        out.extend_from_slice(&raw[..4]);
        out.extend_from_slice(self.body());
        out.extend_from_slice(&raw[raw.len() - 4..]);
    }

    /// Double SHA-256 without witnesses; computed at each call.
    pub fn txid(&self) -> Txid {
        let raw = self.raw();
        if !self.tx.has_witness {
            return Txid(sha256d(raw));
        }
        Txid(sha256d_parts(&self.stripped_parts()))
    }

    /// The bytes without witnesses, in the pieces they lie in.
    pub fn stripped_parts(&self) -> [&'a [u8]; 3] {
        let raw = self.raw();
        match self.tx.has_witness {
            true => [&raw[..4], self.body(), &raw[raw.len() - 4..]],
            false => [raw, &[], &[]],
        }
    }

    /// Double SHA-256 with witnesses; computed at each call.
    pub fn wtxid(&self) -> Wtxid {
        Wtxid(sha256d(self.raw()))
    }

    /// Positions of its inputs among those of all transactions it was parsed with.
    #[inline]
    pub fn input_range(&self) -> Range<usize> {
        let end = self.layout.txs.get(self.index + 1).map_or(self.layout.inputs.len(), |tx| tx.first_input as usize);
        self.tx.first_input as usize..end
    }

    /// Positions of its outputs among those of all transactions it was parsed with.
    #[inline]
    pub fn output_range(&self) -> Range<usize> {
        let end = self.layout.txs.get(self.index + 1).map_or(self.layout.outputs.len(), |tx| tx.first_output as usize);
        self.tx.first_output as usize..end
    }

    /// Number of inputs.
    #[inline]
    pub fn input_count(&self) -> usize {
        self.input_range().len()
    }

    /// Number of outputs.
    #[inline]
    pub fn output_count(&self) -> usize {
        self.output_range().len()
    }

    /// The input at `index`; panics beyond the last.
    #[inline]
    pub fn input(&self, index: usize) -> Input<'a> {
        Input { bytes: self.bytes, layout: self.layout.inputs[self.input_range()][index] }
    }

    /// The output at `index`; panics beyond the last.
    #[inline]
    pub fn output(&self, index: usize) -> Output<'a> {
        output(self.bytes, self.layout.outputs[self.output_range()][index])
    }

    /// Inputs in order.
    #[inline]
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = Input<'a>> + Clone + use<'a> {
        let bytes = self.bytes;
        self.layout.inputs[self.input_range()].iter().map(move |&layout| Input { bytes, layout })
    }

    /// Outputs in order.
    #[inline]
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = Output<'a>> + Clone + use<'a> {
        let bytes = self.bytes;
        self.layout.outputs[self.output_range()].iter().map(move |&layout| output(bytes, layout))
    }

    /// One input that names no output (Core: `CTransaction::IsCoinBase`).
    #[inline]
    pub fn is_coinbase(&self) -> bool {
        self.input_count() == 1 && self.input(0).outpoint() == OutPoint::NULL
    }
}

#[inline]
fn output(bytes: &[u8], layout: OutputLayout) -> Output<'_> {
    let value: [u8; 8] = bytes[layout.start as usize..layout.start as usize + 8].try_into().expect("parsed");
    let script_start = layout.script_start as usize;
    Output {
        value_sat: i64::from_le_bytes(value),
        script: &bytes[script_start..script_start + layout.script_length as usize],
    }
}

impl<'a> Input<'a> {
    /// The output it spends, as written: 36 bytes.
    #[inline]
    pub fn outpoint_bytes(&self) -> &'a [u8; 36] {
        let start = self.layout.start as usize;
        self.bytes[start..start + 36].try_into().expect("parsed")
    }

    /// The output it spends.
    #[inline]
    pub fn outpoint(&self) -> OutPoint {
        OutPoint::decode(self.outpoint_bytes())
    }

    /// Input script.
    #[inline]
    pub fn script_sig(&self) -> &'a [u8] {
        let start = self.layout.script_start as usize;
        &self.bytes[start..start + self.layout.script_length as usize]
    }

    /// Sequence number.
    #[inline]
    pub fn sequence(&self) -> u32 {
        let start = (self.layout.script_start + self.layout.script_length) as usize;
        u32::from_le_bytes(self.bytes[start..start + 4].try_into().expect("parsed"))
    }

    /// Witness stack; empty where the transaction has none.
    #[inline]
    pub fn witness(&self) -> Witness<'a> {
        match self.layout.witness_start {
            0 => Witness { left: 0, reader: Reader::new(&[]) },
            start => {
                let mut reader = Reader::new(&self.bytes[start as usize..]);
                let left = compact_size(&mut reader).expect("parsed") as usize;
                Witness { left, reader }
            }
        }
    }
}

/// The items of a witness stack, first to last.
#[derive(Clone, Copy, Debug)]
pub struct Witness<'a> {
    left: usize,
    reader: Reader<'a>,
}

impl<'a> Iterator for Witness<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let length = compact_size(&mut self.reader).expect("parsed") as usize;
        Some(self.reader.take(length).expect("parsed"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Witness<'_> {}

/// A transaction that owns its bytes.
#[derive(Clone)]
pub struct Transaction {
    bytes: Arc<Vec<u8>>,
    layout: Arc<Layout>,
}

impl Transaction {
    /// Parses exactly one transaction; bytes after it are an error.
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Result<Transaction, ParseError> {
        let bytes = Arc::new(bytes.into());
        if bytes.len() > crate::block::BLOCK_BYTES_MAX {
            return Err(ParseError::TooLarge);
        }
        let mut layout = Layout::default();
        let mut reader = Reader::new(&bytes);
        layout.push_tx(&mut reader)?;
        if reader.left() > 0 {
            return Err(ParseError::TrailingBytes);
        }
        Ok(Transaction { bytes, layout: Arc::new(layout) })
    }

    /// The view.
    pub fn tx(&self) -> Tx<'_> {
        self.layout.tx(&self.bytes, 0)
    }
}

/// All its bytes.
impl AsRef<[u8]> for Transaction {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Equal bytes.
impl PartialEq for Transaction {
    fn eq(&self, other: &Transaction) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Transaction {}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.tx().txid(), self.bytes.len())
    }
}

/// Length of the transaction that begins `bytes`, found by parsing it.
pub fn length_of_first(bytes: &[u8]) -> Result<usize, ParseError> {
    let mut reader = Reader::new(bytes);
    Layout::default().push_tx(&mut reader)?;
    Ok(reader.position())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::hex;

    /// A segwit transaction of BIP 143 (native P2WPKH, signed): two inputs, the second with a witness.
    const BIP143: &str = "01000000000102fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f00000000494830450\
        221008b9d1dc26ba6a9cb62127b02742fa9d754cd3bebf337f7a55d114c8e5cdd30be022040529b194ba3f9281a99f2b1c0a19c0489bc22ede9\
        44ccf4ecbab4cc618ef3ed01eeffffffef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a0100000000ffffffff0\
        2202cb206000000001976a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d000000001976a9143bde42dbee7e4dbe6a21b2d\
        50ce2f0167faa815988ac000247304402203609e17b84f6a7d30c80bfa610b5b4542f32a8a0d5447a12fb1366d7f01cc44a0220573a954c45183\
        31561406f90300e8f3358f51928d43c212a8caed02de67eebee0121025476c2e83188368da1ff3e292e7acafcdb3566bb0ad253f62fc70f07aee\
        e635711000000";

    #[test]
    fn fields_are_where_bip_143_says() {
        let parsed = Transaction::parse(hex::decode(BIP143).unwrap()).unwrap();
        let tx = parsed.tx();
        assert_eq!((tx.version(), tx.lock_time(), tx.input_count(), tx.output_count()), (1, 17, 2, 2));
        assert_eq!(tx.input(0).witness().count(), 0);
        assert_eq!(tx.input(1).witness().map(<[u8]>::len).collect::<Vec<_>>(), [71, 33]);
        assert_eq!(tx.input(0).sequence(), 0xffff_ffee);
        assert_eq!(tx.output(0).value_sat, 112_340_000);
        let mut stripped = Vec::new();
        tx.write_stripped(&mut stripped);
        assert_eq!(sha256d(&stripped), tx.txid().0);
        assert_eq!(stripped.len(), tx.stripped_length());
        assert!(!tx.is_coinbase());
    }

    #[test]
    fn every_cut_is_refused() {
        let bytes = hex::decode(BIP143).unwrap();
        for end in 0..bytes.len() {
            assert!(Transaction::parse(&bytes[..end]).is_err(), "{end}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Transaction::parse(longer).err(), Some(ParseError::TrailingBytes));
    }

    #[test]
    fn marker_tricks_are_refused_as_core_refuses_them() {
        #[track_caller]
        fn check(text: &str, want: Result<(usize, usize), ParseError>) {
            let got = Transaction::parse(hex::decode(text).unwrap());
            assert_eq!(got.map(|t| (t.tx().input_count(), t.tx().output_count())), want);
        }
        check("01000000000000000000", Ok((0, 0)));
        check("010000000002", Err(ParseError::Short));
        // Flags nobody knows are found behind the witnesses, where there are any.
        check("0100000000020000ffffffff", Err(ParseError::UnknownWitnessFlag));
        check("0100000000030000ffffffff", Err(ParseError::SuperfluousWitness));
        // Flag 1, no inputs, no outputs: the witness announced is empty.
        check("0100000000010000ffffffff", Err(ParseError::SuperfluousWitness));
    }
}
