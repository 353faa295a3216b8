//! Chains for the tests: mainnet's first nine blocks, and made-up ones on top.
//!
//! In:     outputs and spends, named by small numbers.
//! Out:    parsed blocks with true merkle roots; their proof of work is not looked at.
//! Fails:  panics; the inputs are constants.

use primitives::encode::put_compact_size;
use primitives::hash::merkle_root;
use primitives::{Block, BlockHash, Header, Network, OutPoint, Params, Transaction, Txid};
use serve::plain::PlainChain;
use serve::source::View;
use stdx::hex;

/// The first payment between two people, of block 170; its input is not in our chain.
pub const FIRST_PAYMENT: &str = "0100000001c997a5e56e104102fa209c6a852dd90660a20b2d9c352423edce25857fcd3704000000004847304402\
    204e45e16932b8af514961a1d3a1a25fdf3f4f7732e9d624c6c61548ab5fb8cd410220181522ec8eca07de4860a4acdd12909d831cc56cbbac46220\
    82221a8768d1d0901ffffffff0200ca9a3b00000000434104ae1a62fe09c5f51b13905f07f06b99a2f7159b2225f374cd378d71302fa28414e7aab3\
    7397f554a7df5f142c21c1b7303b8a0626f1baded5c72a704f7e6cd84cac00286bee0000000043410411db93e1dcdb8a016b49840f8c53bc1eb68a3\
    82e97b1482ecad7b148a6909a5cb2e0eaddfb84ccf9744464f82e160bfa9b8b64f9d4c03f999b8643f656b412a3ac00000000";

/// The signed P2WPKH example of BIP 143.
pub const BIP_143: &str = "01000000000102fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f000000004948304502\
    21008b9d1dc26ba6a9cb62127b02742fa9d754cd3bebf337f7a55d114c8e5cdd30be022040529b194ba3f9281a99f2b1c0a19c0489bc22ede944ccf\
    4ecbab4cc618ef3ed01eeffffffef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a0100000000ffffffff02202cb206\
    000000001976a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d000000001976a9143bde42dbee7e4dbe6a21b2d50ce2f0167fa\
    a815988ac000247304402203609e17b84f6a7d30c80bfa610b5b4542f32a8a0d5447a12fb1366d7f01cc44a0220573a954c4518331561406f90300e\
    8f3358f51928d43c212a8caed02de67eebee0121025476c2e83188368da1ff3e292e7acafcdb3566bb0ad253f62fc70f07aeee635711000000";

/// A made-up script that no real one equals: OP_n, OP_DROP, OP_TRUE, n from 1 to 16.
pub fn script(n: u8) -> Vec<u8> {
    vec![0x50 + n, 0x75, 0x51]
}

/// The parts of a transaction.
pub struct Draft {
    /// Outputs it spends; none makes a coinbase.
    pub spends: Vec<OutPoint>,
    /// Amounts and scripts.
    pub pays: Vec<(i64, Vec<u8>)>,
    /// Makes otherwise equal transactions differ.
    pub tag: u8,
}

impl Draft {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut tx = vec![1, 0, 0, 0];
        let spends = if self.spends.is_empty() { vec![OutPoint::NULL] } else { self.spends.clone() };
        put_compact_size(&mut tx, spends.len() as u64);
        for outpoint in spends {
            tx.extend_from_slice(&outpoint.encode());
            tx.extend_from_slice(&[2, 1, self.tag]);
            tx.extend_from_slice(&[0xff; 4]);
        }
        put_compact_size(&mut tx, self.pays.len() as u64);
        for (value_sat, script) in &self.pays {
            tx.extend_from_slice(&value_sat.to_le_bytes());
            put_compact_size(&mut tx, script.len() as u64);
            tx.extend_from_slice(script);
        }
        tx.extend_from_slice(&[0; 4]);
        tx
    }

    /// Its identifier.
    pub fn txid(&self) -> Txid {
        Transaction::parse(self.bytes()).unwrap().tx().txid()
    }
}

/// A coinbase that pays to script `n`.
pub fn coinbase(tag: u8, n: u8) -> Draft {
    Draft { spends: Vec::new(), pays: vec![(5_000_000_000, script(n))], tag }
}

/// A block of `transactions` on `previous`.
pub fn block(previous: BlockHash, time_s: u32, transactions: &[Vec<u8>]) -> Block {
    let txids: Vec<[u8; 32]> =
        transactions.iter().map(|bytes| Transaction::parse(bytes.clone()).unwrap().tx().txid().0).collect();
    let merkle_root = merkle_root(&txids).0;
    let header = Header { version: 1, previous, merkle_root, time_s, bits: 0x1d00_ffff, nonce: 0 };
    let mut bytes = header.encode().to_vec();
    put_compact_size(&mut bytes, transactions.len() as u64);
    bytes.extend(transactions.concat());
    Block::parse(bytes).unwrap()
}

/// Hash of the tip.
pub fn tip_hash(chain: &PlainChain) -> BlockHash {
    let view = chain.plain_view();
    Header::decode(&view.header(view.tip_height()).unwrap().unwrap()).hash()
}

/// A block on the tip whose transactions are those drafted.
pub fn next(chain: &PlainChain, drafts: &[Draft]) -> Block {
    let height = chain.plain_view().tip_height();
    let bytes: Vec<Vec<u8>> = drafts.iter().map(Draft::bytes).collect();
    block(tip_hash(chain), 1_231_700_000 + 600 * height, &bytes)
}

/// Mainnet 0 to 8.
pub fn mainnet() -> PlainChain {
    let genesis = Params::of(Network::Main).genesis_block();
    let others = include_str!("../data/mainnet_1_8.hex").lines().map(|line| hex::decode(line).unwrap());
    PlainChain::of(std::iter::once(genesis).chain(others).map(|bytes| Block::parse(bytes).unwrap()))
}

/// Hash of a mainnet block we have.
pub fn mainnet_hash(height: u32) -> BlockHash {
    Header::decode(&mainnet().plain_view().header(height).unwrap().unwrap()).hash()
}

/// Mainnet 0 to 8, then a block of every kind of transaction, then one that spends some of it.
///
/// Script 1: paid twice in block 9 and once in 10, one of them spent. Script 2: paid and spent in block 9, paid in 10.
pub fn sample() -> PlainChain {
    let chain = mainnet();
    let first = coinbase(9, 1);
    let both = Draft {
        spends: vec![OutPoint { txid: first.txid(), vout: 0 }],
        pays: vec![(3_000_000_000, script(1)), (1_999_990_000, script(2)), (0, vec![0x6a, 2, 0xca, 0xfe])],
        tag: 1,
    };
    let after = Draft { spends: vec![OutPoint { txid: both.txid(), vout: 1 }], pays: vec![(1, script(3))], tag: 2 };
    let real = [FIRST_PAYMENT, BIP_143].map(|text| hex::decode(text).unwrap());
    let [payment, witness] = real;
    let nine = block(tip_hash(&chain), 1_231_700_000, &[first.bytes(), payment, both.bytes(), witness, after.bytes()]);
    chain.connect(nine);
    let last = Draft {
        spends: vec![OutPoint { txid: both.txid(), vout: 0 }],
        pays: vec![(1_000_000_000, script(1)), (2_000_000_000, script(2))],
        tag: 3,
    };
    let ten = next(&chain, &[coinbase(10, 4), last]);
    chain.connect(ten);
    chain
}
