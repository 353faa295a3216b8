//! What we say about ourselves.
//!
//! In:     settings, and a secret for recognising ourselves.
//! Out:    version messages.
//! Fails:  never.

use bitcoin_hashes::siphash24;

use super::kind::ConnectionKind;
use crate::entropy::{self, Entropy};
use crate::moment::Moment;
use crate::wire::{Endpoint, Services, Version};

/// The protocol version we speak: the one with wtxid relay (BIP 339).
pub const PROTOCOL: i32 = 70_016;

/// What all connections of a node have in common.
#[derive(Clone, Debug)]
pub struct Local {
    /// First bytes of every plain frame.
    pub magic: [u8; 4],
    /// What we offer.
    pub services: Services,
    /// What a peer we chose ourselves has to offer.
    pub required: Services,
    /// Peers that have the last blocks only will do, too: ours are not far behind.
    pub takes_pruned: bool,
    /// Name and version of the program, between slashes (BIP 14).
    pub user_agent: String,
    /// Height of our best block.
    pub start_height: i32,
    /// False where we want no transactions from anybody.
    pub relays_txs: bool,
    /// Anybody may ask for the names of all our transactions (BIP 35), while there is upload left.
    pub tells_mempool: bool,
    /// How long a peer may take for its handshake, in seconds; Core's `-peertimeout`.
    pub handshake_timeout_s: u64,
    nonce_key: [u64; 2],
}

impl Local {
    /// What a peer that we choose must offer, which offers `services` (Core: `GetDesirableServiceFlags`).
    pub fn wanted_of(&self, services: Services) -> Services {
        match self.takes_pruned && services.has(Services::NETWORK_LIMITED) {
            true => self.required.without(Services::NETWORK).and(Services::NETWORK_LIMITED),
            false => self.required,
        }
    }

    /// Settings that a test or the program changes as it likes.
    pub fn new(magic: [u8; 4], entropy: &mut dyn Entropy) -> Local {
        Local {
            magic,
            services: Services::NETWORK.and(Services::NETWORK_LIMITED).and(Services::WITNESS).and(Services::P2P_V2),
            required: Services::NETWORK.and(Services::WITNESS),
            takes_pruned: false,
            user_agent: format!("/Assay:{}/", env!("CARGO_PKG_VERSION")),
            start_height: 0,
            relays_txs: true,
            tells_mempool: false,
            handshake_timeout_s: 60,
            nonce_key: [entropy::number(entropy), entropy::number(entropy)],
        }
    }

    /// A number that only this node knows to be its own.
    ///
    /// Its upper half is a keyed hash of the lower: so no list of numbers in use is kept, and a stranger's number is taken for
    /// ours once in 2^32 connections.
    pub fn draw_nonce(&self, entropy: &mut dyn Entropy) -> u64 {
        let low = entropy::number(entropy) as u32;
        u64::from(low) | u64::from(self.nonce_tag(low)) << 32
    }

    /// True for a number of [`Local::draw_nonce`].
    pub fn is_own_nonce(&self, nonce: u64) -> bool {
        self.nonce_tag(nonce as u32) == (nonce >> 32) as u32
    }

    fn nonce_tag(&self, low: u32) -> u32 {
        siphash24::Hash::hash_to_u64_with_keys(self.nonce_key[0], self.nonce_key[1], &low.to_le_bytes()) as u32
    }

    /// Our version message.
    pub fn version(&self, kind: ConnectionKind, receiver: Endpoint, nonce: u64, now: Moment) -> Version {
        Version {
            protocol: PROTOCOL,
            services: self.services,
            time_s: now.unix_s as i64,
            receiver_services: Services::NONE,
            receiver,
            nonce,
            user_agent: self.user_agent.clone().into_bytes(),
            start_height: self.start_height,
            relay: self.relays_txs && kind.relays_txs(),
        }
    }
}
