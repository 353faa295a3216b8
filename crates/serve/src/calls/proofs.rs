//! Proofs that transactions are in a block: partial merkle trees.
//!
//! In:     txids, or the bytes of a proof.
//! Out:    the bytes of a proof in hexadecimal digits, or the txids that one proves.
//! Fails:  with Core's sentences; a proof that proves nothing is an empty list.
//! Source: Bitcoin Core, `src/merkleblock.cpp` (`CPartialMerkleTree`), `src/rpc/txoutproof.cpp`; BIP 37.

use primitives::encode::{compact_size, put_compact_size};
use primitives::hash::sha256d_parts;
use primitives::{Header, Txid};
use stdx::bytes::Reader;

use crate::json::Json;
use crate::rpc::call::{Call, hash_of};
use crate::rpc::error::{Outcome, RpcError};
use crate::rpc::located::Located;
use crate::rpc::method::{Arg, Kind, Method};

/// Transactions that fit into a block: none weighs less than 240 (Core: `MIN_TRANSACTION_WEIGHT`).
const TXS_MAX: u32 = 4_000_000 / 240;
/// Bytes of a proof that we look at: every transaction's hash, and flags.
const PROOF_BYTES_MAX: usize = 80 + 4 + 16 + 33 * TXS_MAX as usize;

fn width(count: u32, height: u32) -> u32 {
    (u64::from(count) + (1 << height) - 1 >> height) as u32
}

fn tree_height(count: u32) -> u32 {
    (0..32).find(|height| width(count, *height) <= 1).unwrap_or(0)
}

/// A tree while it is built.
struct Builder<'a> {
    txids: &'a [Txid],
    matched: &'a [bool],
    bits: Vec<bool>,
    hashes: Vec<[u8; 32]>,
}

impl Builder<'_> {
    fn hash(&self, height: u32, place: u32) -> [u8; 32] {
        if height == 0 {
            return self.txids[place as usize].0;
        }
        let left = self.hash(height - 1, place * 2);
        let has_right = place * 2 + 1 < width(self.txids.len() as u32, height - 1);
        let right = if has_right { self.hash(height - 1, place * 2 + 1) } else { left };
        sha256d_parts(&[&left, &right])
    }

    fn build(&mut self, height: u32, place: u32) {
        let count = self.txids.len() as u32;
        let (start, end) = (place << height, ((place + 1) << height).min(count));
        let above_match = self.matched[start as usize..end as usize].contains(&true);
        self.bits.push(above_match);
        if height == 0 || !above_match {
            let hash = self.hash(height, place);
            self.hashes.push(hash);
            return;
        }
        self.build(height - 1, place * 2);
        if place * 2 + 1 < width(count, height - 1) {
            self.build(height - 1, place * 2 + 1);
        }
    }
}

/// The bytes of a proof: header, number of transactions, hashes, flags.
pub fn proof(header: &Header, txids: &[Txid], matched: &[bool]) -> Vec<u8> {
    let mut builder = Builder { txids, matched, bits: Vec::new(), hashes: Vec::new() };
    builder.build(tree_height(txids.len() as u32), 0);
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(&(txids.len() as u32).to_le_bytes());
    put_compact_size(&mut bytes, builder.hashes.len() as u64);
    builder.hashes.iter().for_each(|hash| bytes.extend_from_slice(hash));
    put_compact_size(&mut bytes, builder.bits.len().div_ceil(8) as u64);
    for eight in builder.bits.chunks(8) {
        bytes.push(eight.iter().enumerate().fold(0, |byte, (place, bit)| byte | u8::from(*bit) << place));
    }
    bytes
}

/// A proof as it was read.
struct Proof {
    header: Header,
    count: u32,
    hashes: Vec<[u8; 32]>,
    flags: Vec<u8>,
}

fn read(bytes: &[u8]) -> Option<Proof> {
    let mut reader = Reader::new(bytes);
    let header = Header::decode(&reader.array::<80>().ok()?);
    let count = reader.u32().ok()?;
    let hash_count = compact_size(&mut reader).ok()?;
    let hashes = (0..hash_count).map(|_| reader.array::<32>().ok()).collect::<Option<_>>()?;
    let flag_count = compact_size(&mut reader).ok()?;
    let flags = reader.take(usize::try_from(flag_count).ok()?).ok()?.to_vec();
    Some(Proof { header, count, hashes, flags })
}

/// A tree while it is followed.
struct Walk<'a> {
    proof: &'a Proof,
    bits_used: usize,
    hashes_used: usize,
    matched: Vec<Txid>,
}

impl Walk<'_> {
    fn follow(&mut self, height: u32, place: u32) -> Option<[u8; 32]> {
        let flag = self.proof.flags.get(self.bits_used / 8)? >> (self.bits_used % 8) & 1 == 1;
        self.bits_used += 1;
        if height == 0 || !flag {
            let hash = *self.proof.hashes.get(self.hashes_used)?;
            self.hashes_used += 1;
            if height == 0 && flag {
                self.matched.push(Txid(hash));
            }
            return Some(hash);
        }
        let left = self.follow(height - 1, place * 2)?;
        let mut right = left;
        if place * 2 + 1 < width(self.proof.count, height - 1) {
            right = self.follow(height - 1, place * 2 + 1)?;
            // Two equal branches would let one transaction stand for two (CVE-2012-2459).
            if right == left {
                return None;
            }
        }
        Some(sha256d_parts(&[&left, &right]))
    }
}

impl Proof {
    /// The root it leads to, and what it proves; none where it breaks its own rules.
    fn matches(&self) -> Option<([u8; 32], Vec<Txid>)> {
        let shaped = (1..=TXS_MAX).contains(&self.count)
            && self.hashes.len() <= self.count as usize
            && self.flags.len() * 8 >= self.hashes.len();
        if !shaped {
            return None;
        }
        let mut walk = Walk { proof: self, bits_used: 0, hashes_used: 0, matched: Vec::new() };
        let root = walk.follow(tree_height(self.count), 0)?;
        let all_used = walk.bits_used.div_ceil(8) == self.flags.len() && walk.hashes_used == self.hashes.len();
        all_used.then_some((root, walk.matched))
    }
}

fn tx_out_proof(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let mut wanted: Vec<Txid> = Vec::new();
    let list = call.arg(0).array()?;
    if list.is_empty() {
        return Err(RpcError::parameter("Parameter 'txids' cannot be empty"));
    }
    for value in list {
        let txid = Txid(hash_of(value, "txid")?);
        if wanted.contains(&txid) {
            return Err(RpcError::parameter(format!("Invalid parameter, duplicated txid: {txid}")));
        }
        wanted.push(txid);
    }
    let view = call.view()?;
    let block = if call.arg(1).is_null() {
        let place = wanted.iter().find_map(|txid| view.transaction(txid).transpose()).transpose()?;
        let place = place.ok_or_else(|| RpcError::address_or_key("Transaction not yet in block"))?;
        Located::at(&view, place.height)?
    } else {
        Located::of_arg(call, &view, 1, "blockhash")?
    };
    let txids: Vec<Txid> = super::blocks::parsed(&block, &view)?.txs().map(|tx| tx.txid()).collect();
    let matched: Vec<bool> = txids.iter().map(|txid| wanted.contains(txid)).collect();
    if matched.iter().filter(|matched| **matched).count() != wanted.len() {
        return Err(RpcError::address_or_key("Not all transactions found in specified or retrieved block"));
    }
    json.hex(&proof(&block.header, &txids, &matched));
    Ok(())
}

fn verify_tx_out_proof(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let bytes = call.hex(0, "proof")?;
    let proof = Some(&bytes).filter(|bytes| bytes.len() <= PROOF_BYTES_MAX).and_then(|bytes| read(bytes));
    let proof = proof.ok_or_else(|| RpcError::misc("The proof ends too early"))?;
    let matches = proof.matches().filter(|(root, _)| *root == proof.header.merkle_root);
    json.begin_array();
    if let Some((_, txids)) = matches {
        let view = call.view()?;
        let block = Located::find(call.env, &view, &proof.header.hash())?.filter(Located::is_active);
        let block = block.ok_or_else(|| RpcError::address_or_key("Block not found in chain"))?;
        if block.tx_count(&view)? == proof.count {
            txids.iter().for_each(|txid| json.hash(&txid.0));
        }
    }
    json.end_array();
    Ok(())
}

/// The methods of this file.
pub const METHODS: &[Method] = &[
    Method {
        name: "gettxoutproof",
        category: "blockchain",
        args: &[
            Arg::required("txids", Kind::Array, "Identifiers of transactions of one block."),
            Arg::optional("blockhash", Kind::Hex, "Their block; found through the index where it is left out."),
        ],
        about: "A proof that transactions are in a block.",
        result: "string: hexadecimal digits",
        run: tx_out_proof,
    },
    Method {
        name: "verifytxoutproof",
        category: "blockchain",
        args: &[Arg::required("proof", Kind::Hex, "What gettxoutproof gave.")],
        about: "Which transactions a proof proves to be in a block of the best chain.",
        result: "array of txids, empty where the proof is not valid",
        run: verify_tx_out_proof,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hash::{merkle_root, sha256};

    #[test]
    fn proofs_prove_what_was_asked_and_nothing_else() {
        for count in [1u32, 2, 3, 4, 7, 17, 56] {
            let txids: Vec<Txid> = (0..count).map(|n| Txid(sha256(&n.to_le_bytes()))).collect();
            let leaves: Vec<[u8; 32]> = txids.iter().map(|txid| txid.0).collect();
            let mut header = primitives::Params::of(primitives::Network::Regtest).genesis;
            header.merkle_root = merkle_root(&leaves).0;
            for pattern in 0..count.min(16) {
                let matched: Vec<bool> = (0..count).map(|n| n % 16 == pattern || pattern == 15).collect();
                let bytes = proof(&header, &txids, &matched);
                let read = read(&bytes).unwrap();
                let (root, proved) = read.matches().unwrap();
                assert_eq!(root, header.merkle_root);
                let want: Vec<Txid> = txids.iter().zip(&matched).filter(|(_, m)| **m).map(|(txid, _)| *txid).collect();
                assert_eq!(proved, want);
                // One bit of one hash changed leads elsewhere; a hash too many is refused.
                let mut wrong = super::read(&bytes).unwrap();
                wrong.hashes[0][0] ^= 1;
                assert_ne!(wrong.matches().map(|found| found.0), Some(header.merkle_root));
                wrong.hashes.push([0; 32]);
                assert_eq!(wrong.matches(), None);
            }
        }
        assert!(super::read(&[0; 83]).is_none());
    }
}
