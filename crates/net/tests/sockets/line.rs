//! A chain without forks or rules, which is enough for talking: it takes what builds on its end.

use std::collections::HashMap;

use consensus::Work;
use consensus::header::{check_proof_of_work, work_of};
use net::hub::{Chain, HeadersRefusal, Place};
use net::peer::PeerId;
use primitives::hash::sha256d;
use primitives::{BlockHash, Header, Params};

/// Headers by height, and the blocks that came.
pub struct Line {
    places: Vec<Place>,
    heights: HashMap<BlockHash, usize>,
    blocks: HashMap<BlockHash, Vec<u8>>,
    pub waiting: Vec<(BlockHash, Vec<u8>)>,
}

impl Line {
    pub fn new(params: &Params) -> Line {
        let mut line = Line { places: vec![], heights: HashMap::new(), blocks: HashMap::new(), waiting: vec![] };
        line.push(params.genesis, Work::ZERO);
        line.places[0].has_block = true;
        line.blocks.insert(params.genesis_hash, params.genesis_block());
        line
    }

    fn push(&mut self, header: Header, before: Work) {
        let (hash, height) = (header.hash(), self.places.len() as u32);
        let work = before + work_of(header.bits);
        let median_time_past_s = header.time_s;
        self.heights.insert(hash, self.places.len());
        let place = Place { hash, header, height, work, median_time_past_s, has_block: false, is_invalid: false };
        self.places.push(place);
    }

    /// Adds a block of one coinbase.
    pub fn mine(&mut self, params: &Params) {
        self.mine_sized(params, 1);
    }

    /// Adds a block of one coinbase whose output script has so many bytes.
    pub fn mine_sized(&mut self, params: &Params, script_bytes: u32) {
        let last = *self.places.last().expect("the genesis block is there");
        let mut tx = vec![1, 0, 0, 0, 1];
        tx.extend_from_slice(&[0; 32]);
        tx.extend_from_slice(&[0xff; 4]);
        tx.extend_from_slice(&[5, 4]);
        tx.extend_from_slice(&(last.height + 1).to_le_bytes());
        tx.extend_from_slice(&[0xff; 4]);
        tx.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0]);
        primitives::encode::put_compact_size(&mut tx, u64::from(script_bytes));
        tx.resize(tx.len() + script_bytes as usize, 0x51);
        tx.extend_from_slice(&[0; 4]);
        let (previous, time_s) = (last.hash, last.header.time_s + 1);
        let bits = last.header.bits;
        let mut header = Header { version: 4, previous, merkle_root: sha256d(&tx), time_s, bits, nonce: 0 };
        while check_proof_of_work(&header.hash(), bits, params).is_err() {
            header.nonce += 1;
        }
        self.push(header, last.work);
        let block = [&header.encode()[..], &[1], &tx].concat();
        self.take(header.hash(), block);
    }

    /// Keeps a block.
    pub fn take(&mut self, hash: BlockHash, bytes: Vec<u8>) {
        self.places[self.heights[&hash]].has_block = true;
        self.blocks.insert(hash, bytes);
    }

    fn place(&self, hash: &BlockHash) -> Option<Place> {
        self.heights.get(hash).map(|height| self.places[*height])
    }
}

impl Chain for Line {
    fn find(&self, hash: &BlockHash) -> Option<Place> {
        self.place(hash)
    }
    fn best_header(&self) -> Place {
        *self.places.last().expect("never empty")
    }
    fn tip(&self) -> Place {
        *self.places.iter().take_while(|place| place.has_block).last().expect("the genesis block is there")
    }
    fn connected(&self) -> Place {
        self.tip()
    }
    fn ancestor(&self, hash: &BlockHash, height: u32) -> Option<Place> {
        let place = self.places.get(height as usize).copied();
        place.filter(|_| self.heights.get(hash).is_some_and(|known| *known >= height as usize))
    }
    fn common_height(&self, hash: &BlockHash) -> u32 {
        self.place(hash).map_or(0, |place| place.height)
    }
    fn locator(&self, from: &BlockHash) -> Vec<BlockHash> {
        let height = self.heights[from];
        self.places[..=height].iter().rev().take(10).map(|place| place.hash).chain([self.places[0].hash]).collect()
    }
    fn headers_after(&self, locator: &[BlockHash], _: &BlockHash, count: usize) -> Vec<Header> {
        let from = locator.iter().find_map(|hash| self.heights.get(hash)).map_or(0, |height| *height);
        let here = self.places[from + 1..].iter().take_while(|place| place.has_block);
        here.take(count).map(|place| place.header).collect()
    }
    fn may_serve(&self, _: &BlockHash) -> bool {
        true
    }
    fn block(&self, hash: &BlockHash) -> Option<Vec<u8>> {
        self.blocks.get(hash).cloned()
    }
    fn enough_work(&self) -> Work {
        Work::ZERO
    }
    fn is_initial_download(&self) -> bool {
        false
    }
    fn take_headers(&mut self, headers: &[Header]) -> Result<(), HeadersRefusal> {
        for header in headers {
            let last = self.best_header();
            if self.heights.contains_key(&header.hash()) {
                continue;
            }
            if header.previous != last.hash {
                return Err(HeadersRefusal::UnknownParent);
            }
            self.push(*header, last.work);
        }
        Ok(())
    }
    fn take_block(&mut self, _: PeerId, hash: BlockHash, bytes: Vec<u8>) -> bool {
        self.waiting.push((hash, bytes));
        true
    }
}
