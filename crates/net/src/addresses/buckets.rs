//! Where an address may stand in the book.
//!
//! In:     an address, who told it, a secret, and what makes groups.
//! Out:    a bucket and a position in it.
//! Fails:  never.
//! Source: Bitcoin Core, `AddrInfo::GetNewBucket`, `GetTriedBucket`, `GetBucketPosition`; the hash here is SipHash.
//!
//! Whoever tells addresses reaches 64 of 1,024 buckets from all of a network group, and addresses of one group reach 8 of 256
//! buckets of those that were tried; where exactly depends on a secret.

use bitcoin_hashes::siphash24;

use crate::hosts::Groups;
use crate::wire::{Endpoint, Host};

/// Places in a bucket; Core's `ADDRMAN_BUCKET_SIZE`.
pub const BUCKET_SIZE: usize = 64;
/// Buckets of addresses that were told; Core's `ADDRMAN_NEW_BUCKET_COUNT`.
pub const NEW_BUCKETS: usize = 1024;
/// Buckets of addresses that answered; Core's `ADDRMAN_TRIED_BUCKET_COUNT`.
pub const TRIED_BUCKETS: usize = 256;
/// Buckets that those who tell, from one group, can reach; Core's `ADDRMAN_NEW_BUCKETS_PER_SOURCE_GROUP`.
pub const NEW_BUCKETS_PER_SOURCE: u64 = 64;
/// Buckets that addresses of one group can reach; Core's `ADDRMAN_TRIED_BUCKETS_PER_GROUP`.
pub const TRIED_BUCKETS_PER_GROUP: u64 = 8;

/// The secret of a book, and what makes groups of hosts for it.
#[derive(Clone, Debug)]
pub struct BookKey {
    pub secret: [u64; 2],
    pub groups: Groups,
}

impl BookKey {
    fn hash(&self, parts: &[&[u8]]) -> u64 {
        // Parts of variable length are preceded by it, so no two lists of parts are one string of bytes.
        let mut bytes = Vec::with_capacity(96);
        for part in parts {
            bytes.push(part.len() as u8);
            bytes.extend_from_slice(part);
        }
        siphash24::Hash::hash_to_u64_with_keys(self.secret[0], self.secret[1], &bytes)
    }

    /// A number for a group that nobody else can compute, for eviction.
    pub fn keyed_group(&self, host: &Host) -> u64 {
        self.hash(&[b"group", self.groups.of(host).bytes()])
    }

    /// The place of an address that `source` told.
    pub fn new_place(&self, endpoint: &Endpoint, source: &Host) -> usize {
        let (group, source) = (self.groups.of(&endpoint.host), self.groups.of(source));
        let first = self.hash(&[b"new1", group.bytes(), source.bytes()]) % NEW_BUCKETS_PER_SOURCE;
        let bucket = self.hash(&[b"new2", source.bytes(), &first.to_le_bytes()]) % NEW_BUCKETS as u64;
        bucket as usize * BUCKET_SIZE + self.position(b"N", bucket, endpoint)
    }

    /// The place of an address that answered.
    pub fn tried_place(&self, endpoint: &Endpoint) -> usize {
        let first = self.hash(&[b"tried1", &key(endpoint)]) % TRIED_BUCKETS_PER_GROUP;
        let group = self.groups.of(&endpoint.host);
        let bucket = self.hash(&[b"tried2", group.bytes(), &first.to_le_bytes()]) % TRIED_BUCKETS as u64;
        bucket as usize * BUCKET_SIZE + self.position(b"K", bucket, endpoint)
    }

    fn position(&self, table: &[u8], bucket: u64, endpoint: &Endpoint) -> usize {
        (self.hash(&[table, &bucket.to_le_bytes(), &key(endpoint)]) % BUCKET_SIZE as u64) as usize
    }
}

fn key(endpoint: &Endpoint) -> Vec<u8> {
    let mut bytes = vec![endpoint.host.network_id()];
    bytes.extend_from_slice(endpoint.host.bytes());
    bytes.extend_from_slice(&endpoint.port.to_be_bytes());
    bytes
}
