//! What users ask of the hub: what it knows of a peer, and things done to one by hand.
//!
//! In:     a peer's number.
//! Out:    [`TalkReport`]; pings, blocks and messages on their way.
//! Fails:  [`FetchRefusal`] where a block is not asked for.
//! Source: Bitcoin Core, `GetNodeStateStats`, `SendPings`, `FetchBlock`.

use std::fmt;
use std::time::Duration;

use primitives::BlockHash;

use super::talk::Asking;
use super::{Chain, Hub, UploadBudget};
use crate::moment::Moment;
use crate::peer::PeerId;
use crate::wire::{Command, Services};

/// Blocks outside the window that have not come; one more takes the place of another.
const FETCHING_MAX: usize = 64;
/// How long such a block may be on its way before another peer is asked for it.
const FETCH_TIME_MAX: Duration = Duration::from_secs(60);

/// Most bytes sent by hand: what ends the connection anyway, and below what an encrypted packet can say.
const SENT_BYTES_MAX: usize = crate::peer::SEND_BYTES_MAX;

/// What is known of a peer beyond its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TalkReport {
    /// It was asked to announce its blocks as compact ones at once.
    pub announces_compact: bool,
    /// Height up to which its headers have shown their work the first time, while they do.
    pub presynced_headers: Option<u32>,
    /// Height of the best header it has shown.
    pub synced_headers: Option<u32>,
    /// Height of the last block of its chain that is here.
    pub synced_blocks: Option<u32>,
    /// Heights of blocks on order from it.
    pub in_flight: Vec<u32>,
    /// The mempool's sequence when it was last told of transactions; 0 where it is not.
    pub told_sequence: u64,
    /// Transactions it is to be told of.
    pub to_tell: usize,
}

/// Why a block is not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchRefusal {
    /// Nobody has this number.
    NoPeer,
    /// The peer serves blocks without witnesses.
    NoWitness,
    /// It is asked for already.
    AskedBefore,
    /// The handshake is not done.
    NotReady,
}

impl fmt::Display for FetchRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FetchRefusal::NoPeer => "Peer does not exist",
            FetchRefusal::NoWitness => "Pre-SegWit peer",
            FetchRefusal::AskedBefore => "Already requested from this peer",
            FetchRefusal::NotReady => "Peer not fully connected",
        })
    }
}

impl<C: Chain> Hub<C> {
    /// What is known of a peer.
    pub fn report(&self, id: PeerId) -> TalkReport {
        let Some(talk) = self.talks.get(&id) else { return TalkReport::default() };
        let known = talk.known.and_then(|known| self.chain.find(&known));
        let common = known.map(|known| self.chain.common_height(&known.hash));
        let presynced_headers = match &talk.asking {
            Asking::LowWork(exchange, _) => {
                Some(exchange.progress()).filter(|(_, again)| !again).map(|(height, _)| height)
            }
            _ => None,
        };
        let fetched = self.fetching.iter().filter(|(_, (by, _))| *by == id).map(|(hash, _)| hash);
        let fetched = fetched.filter_map(|hash| Some(self.chain.find(hash)?.height));
        TalkReport {
            announces_compact: self.announcers.contains(&id),
            presynced_headers,
            synced_headers: known.map(|known| known.height),
            synced_blocks: common.map(|common| common.min(self.chain.connected().height)),
            told_sequence: if talk.peer.relays_txs() { talk.txs.told_sequence } else { 0 },
            to_tell: talk.txs.to_tell.len(),
            in_flight: self.window.heights_of(id.0).into_iter().chain(fetched).collect(),
        }
    }

    /// What may be sent in a day.
    pub fn upload(&self) -> &UploadBudget {
        &self.upload
    }

    /// Pings every peer at the next tick.
    pub fn request_pings(&mut self) {
        self.talks.values_mut().for_each(|talk| talk.peer.request_ping());
    }

    /// Sends a peer any payload under any name; false where there is no such peer, or its handshake is not done.
    pub fn send_any(&mut self, id: PeerId, command: Command, payload: &[u8]) -> bool {
        payload.len() <= SENT_BYTES_MAX
            && self.talks.get_mut(&id).is_some_and(|talk| talk.peer.send_any(command, payload))
    }

    /// Asks one peer for a block whose header is known, whether it is of the best chain or not.
    pub fn fetch_block(&mut self, id: PeerId, hash: BlockHash) -> Result<(), FetchRefusal> {
        let talk = self.talks.get(&id).ok_or(FetchRefusal::NoPeer)?;
        if !self.services_of(id).has(Services::WITNESS) {
            return Err(FetchRefusal::NoWitness);
        }
        if self.is_fetched_from(&hash, id) {
            return Err(FetchRefusal::AskedBefore);
        }
        if !talk.peer.is_ready() {
            return Err(FetchRefusal::NotReady);
        }
        self.note_fetching(hash, id);
        self.request(id, &[hash]);
        Ok(())
    }

    /// A block outside the window is asked of a peer; the oldest such request may be forgotten for it.
    pub(super) fn note_fetching(&mut self, hash: BlockHash, id: PeerId) {
        if self.fetching.len() >= FETCHING_MAX
            && let Some(other) = self.fetching.keys().next().copied()
        {
            self.fetching.remove(&other);
        }
        self.fetching.insert(hash, (id, self.now));
    }

    /// True for a block beside the window that is on its way, and not late, or is being looked at.
    pub(super) fn is_fetched(&self, hash: &BlockHash) -> bool {
        let is_fresh = |(_, since): &(PeerId, Moment)| self.now.since(since) <= FETCH_TIME_MAX;
        self.judging.contains_key(hash) || self.fetching.get(hash).is_some_and(is_fresh)
    }

    /// True for a block beside the window that this peer was asked for last.
    pub(super) fn is_fetched_from(&self, hash: &BlockHash, id: PeerId) -> bool {
        self.fetching.get(hash).is_some_and(|(by, _)| *by == id)
    }
}
