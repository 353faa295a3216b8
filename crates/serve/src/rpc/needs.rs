//! What calls need beside the confirmed chain: the mempool, the peers, a way in for blocks, and the host they run on.
//!
//! In:     nothing; whoever has one of these implements its trait and hands it to the server.
//! Out:    plain data, in the units that answers use.
//! Fails:  with [`Refusal`]s that carry Core's code and words.
//!
//! Until one is handed over, the calls that need it answer with Core's error for a node without it.

use std::time::Duration;

use primitives::OutPoint;
use primitives::hash::{BlockHash, Txid, Wtxid};

use super::error::RpcError;

/// Why something was not done, with Core's code and words.
pub type Refusal = RpcError;

/// The process and its surroundings.
pub trait Host: Send + Sync {
    /// Asks the node to end cleanly.
    fn stop(&self);
    /// True once the node is ending: calls that wait give up.
    fn stopping(&self) -> bool;
    /// Seconds since the start.
    fn uptime_s(&self) -> u64;
    /// The clock, which tests may have set.
    fn unix_s(&self) -> u64;
    /// Sets the clock; zero lets it run again. False where the clock cannot be set.
    fn set_unix_s(&self, unix_s: u64) -> bool;
    /// Lets time pass for everything that waits. False where it cannot be made to.
    fn pass_time(&self, time: Duration) -> bool;
    /// Where the log goes; empty for standard error.
    fn log_path(&self) -> String;
    /// Bytes of the block files.
    fn block_files_bytes(&self) -> u64;
    /// Sentences that a user should see.
    fn warnings(&self) -> Vec<String>;
}

/// Totals and limits of the mempool; sizes in virtual bytes, rates in satoshi per 1,000 of them.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct MempoolTotals {
    pub loaded: bool,
    pub count: u64,
    pub size_vb: u64,
    pub memory_bytes: u64,
    pub memory_bytes_max: u64,
    pub fee_sat: i64,
    pub floor_sat_per_kvb: i64,
    pub relay_floor_sat_per_kvb: i64,
    pub increment_sat_per_kvb: i64,
    pub unbroadcast_count: u64,
    pub bare_multisig: bool,
    pub data_carrier_bytes_max: u64,
    pub cluster_count_max: u64,
    pub cluster_vb_max: u64,
    pub optimal: bool,
}

/// A transaction of the mempool.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct MempoolEntry {
    pub txid: Txid,
    pub wtxid: Wtxid,
    pub size_vb: u64,
    pub weight: u64,
    pub time_s: u64,
    pub height: u32,
    pub fee_sat: i64,
    /// With what the user added or took off.
    pub modified_fee_sat: i64,
    pub ancestor_count: u64,
    pub ancestor_vb: u64,
    pub ancestor_fee_sat: i64,
    pub descendant_count: u64,
    pub descendant_vb: u64,
    pub descendant_fee_sat: i64,
    pub chunk_weight: u64,
    pub chunk_fee_sat: i64,
    pub parents: Vec<Txid>,
    pub children: Vec<Txid>,
    pub unbroadcast: bool,
}

/// Transactions that are mined together.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Chunk {
    pub fee_sat: i64,
    pub weight: u64,
    pub txids: Vec<Txid>,
}

/// What became of one transaction that was tried.
#[derive(Clone, Debug)]
pub enum Tried {
    /// It is in the mempool now, or would be.
    Accepted {
        /// Its size for fees.
        size_vb: u64,
        /// Its fee.
        fee_sat: i64,
        /// The rate it was judged by, with whose fees.
        effective_sat_per_kvb: i64,
        /// Those whose fees and sizes make that rate.
        effective_with: Vec<Wtxid>,
        /// What it pushed out.
        replaced: Vec<Txid>,
    },
    /// It was there before.
    Known {
        /// Its size for fees.
        size_vb: u64,
        /// Its fee.
        fee_sat: i64,
    },
    /// Another transaction with its txid and another witness is there.
    OtherWitness {
        /// That transaction's.
        wtxid: Wtxid,
    },
    /// It spends what nobody knows.
    MissingInputs,
    /// It breaks a rule.
    Rejected {
        /// Core's reject word.
        reason: String,
        /// The word, and what more there is to say.
        details: String,
    },
    /// Its verdict waits for that on another.
    Unjudged,
}

/// What became of transactions that were tried together.
#[derive(Clone, Debug)]
pub struct TriedTogether {
    /// What is wrong with them as a whole.
    pub package_error: Option<String>,
    /// Each, in order; empty where they were not looked at one by one.
    pub each: Vec<Tried>,
}

/// A transaction chosen for the next block.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Chosen {
    pub bytes: Vec<u8>,
    pub fee_sat: i64,
    /// BIP 141 cost of its signature operations.
    pub sigop_cost: u64,
}

/// What a user added to a fee.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Prioritised {
    pub txid: Txid,
    pub delta_sat: i64,
    /// Its fee with the delta, where it is in the mempool.
    pub modified_fee_sat: Option<i64>,
}

/// An estimate of the fee rate.
#[derive(Clone, Copy, Debug)]
pub struct FeeEstimate {
    /// Satoshi per 1,000 virtual bytes; none where too little was observed.
    pub sat_per_kvb: Option<i64>,
    /// Blocks for which it holds.
    pub blocks: u32,
}

/// What a horizon of estimates says about a target.
#[derive(Clone, Copy, Debug)]
pub struct RawEstimate {
    /// The horizon: short, medium or long.
    pub horizon: &'static str,
    /// Satoshi per 1,000 virtual bytes; none where no range of rates is good enough.
    pub sat_per_kvb: Option<i64>,
    /// What is kept of its counts from block to block.
    pub decay: f64,
    /// Blocks that it counts together.
    pub scale: u32,
    /// The lowest range that is good enough.
    pub pass: Option<RateRange>,
    /// The highest range that is not.
    pub fail: Option<RateRange>,
}

/// A range of fee rates, in satoshi per 1,000 virtual bytes, and what became of its transactions.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct RateRange {
    pub start: f64,
    pub end: f64,
    pub within_target: f64,
    pub confirmed: f64,
    pub in_mempool: f64,
    pub left: f64,
}

/// What of a mempool's file counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportWish {
    /// Its transactions are taken to have come now.
    pub current_time: bool,
    /// Its additions to fees count.
    pub deltas: bool,
    /// Those of its owner that no peer has asked for are to be announced.
    pub unbroadcast: bool,
}

/// Unconfirmed transactions, as of the newest chain that anybody was told of.
pub trait Mempool: Send + Sync {
    /// Returns once every block that came before has been dealt with.
    fn settle(&self);
    /// Totals and limits.
    fn totals(&self) -> MempoolTotals;
    /// Grows with every change that is announced.
    fn sequence(&self) -> u64;
    /// Every transaction's identifier.
    fn txids(&self) -> Vec<Txid>;
    /// Every transaction.
    fn entries(&self) -> Vec<MempoolEntry>;
    /// One transaction.
    fn entry(&self, txid: &Txid) -> Option<MempoolEntry>;
    /// Its bytes.
    fn transaction(&self, txid: &Txid) -> Option<Vec<u8>>;
    /// Identifiers of those it descends from; none where it is not there.
    fn ancestors(&self, txid: &Txid) -> Option<Vec<Txid>>;
    /// Identifiers of those that descend from it; none where it is not there.
    fn descendants(&self, txid: &Txid) -> Option<Vec<Txid>>;
    /// The chunks of its cluster in the order of mining; none where it is not there.
    fn cluster(&self, txid: &Txid) -> Option<Vec<Chunk>>;
    /// Weight and fee summed up, chunk by chunk in the order of mining.
    fn feerate_diagram(&self) -> Vec<(u64, i64)>;
    /// Who spends an output.
    fn spender(&self, outpoint: &OutPoint) -> Option<Txid>;
    /// Tries transactions, parents first, and keeps nothing.
    fn test(&self, transactions: &[Vec<u8>]) -> TriedTogether;
    /// Takes one transaction and announces it; a known one is announced again. Fees above the limit are refused.
    fn submit(&self, transaction: &[u8], fee_sat_max: Option<i64>) -> Result<(), Refusal>;
    /// Takes a child with its parents.
    fn submit_package(&self, transactions: &[Vec<u8>], rate_sat_per_kvb_max: Option<i64>) -> TriedTogether;
    /// Adds to the fee that a transaction counts for.
    fn prioritise(&self, txid: &Txid, delta_sat: i64) -> Result<(), Refusal>;
    /// What was added.
    fn prioritised(&self) -> Vec<Prioritised>;
    /// The longest target that estimates are kept for, in blocks.
    fn estimate_blocks_max(&self) -> u32;
    /// The rate at which transactions confirmed within `blocks`.
    fn estimate(&self, blocks: u32, conservative: bool) -> FeeEstimate;
    /// What each horizon that knows the target says of it; `threshold` is the share that must be confirmed in time.
    fn raw_estimates(&self, blocks: u32, threshold: f64) -> Vec<RawEstimate>;
    /// Transactions for the next block, in order, within the limits of its owner.
    fn choose(&self) -> Vec<Chosen>;
    /// The rate below which nothing is chosen.
    fn mining_floor_sat_per_kvb(&self) -> i64;
    /// Writes the mempool to its file, and says where.
    fn save(&self) -> Result<String, Refusal>;
    /// Takes in what a file of a mempool holds.
    fn import(&self, path: &str, wish: ImportWish) -> Result<(), Refusal>;
}

/// A connection.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Peer {
    pub id: u64,
    pub address: String,
    pub bound: Option<String>,
    pub local: Option<String>,
    pub network: &'static str,
    /// The autonomous system of its address; 0 for none.
    pub mapped_as: u32,
    pub services: u64,
    pub relays: bool,
    pub last_inv_sequence: u64,
    pub to_announce: u64,
    pub last_send_s: u64,
    pub last_receive_s: u64,
    pub last_transaction_s: u64,
    pub last_block_s: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub connected_s: u64,
    pub time_offset_s: i64,
    pub ping: Option<Duration>,
    pub ping_least: Option<Duration>,
    pub ping_waiting: Option<Duration>,
    pub version: u32,
    pub user_agent: String,
    pub inbound: bool,
    pub high_bandwidth_to: bool,
    pub high_bandwidth_from: bool,
    pub presynced_headers: i64,
    pub synced_headers: i64,
    pub synced_blocks: i64,
    pub in_flight: Vec<u32>,
    pub address_relay: bool,
    pub addresses_processed: u64,
    pub addresses_limited: u64,
    pub permissions: Vec<String>,
    pub fee_filter_sat_per_kvb: i64,
    pub sent_by_message: Vec<(String, u64)>,
    pub received_by_message: Vec<(String, u64)>,
    pub connection_type: &'static str,
    pub transport: &'static str,
    pub session_id: String,
}

/// What we are on the network.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct NetworkState {
    pub services: u64,
    pub relays: bool,
    pub time_offset_s: i64,
    pub active: bool,
    pub inbound: u64,
    pub outbound: u64,
    pub user_agent: String,
    pub protocol_version: u32,
    pub reachable: Vec<Reachable>,
    pub local_addresses: Vec<(String, u16, u32)>,
}

/// A kind of network, and how it is reached.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Reachable {
    pub name: &'static str,
    pub reachable: bool,
    pub proxy: String,
    pub random_credentials: bool,
}

/// Bytes moved, and the limit on uploads.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Traffic {
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub upload_frame_s: u64,
    pub upload_bytes_max: u64,
    pub upload_reached: bool,
    pub serves_old_blocks: bool,
    pub upload_bytes_left: u64,
    pub upload_s_left: u64,
}

/// An address that is kept out.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Ban {
    pub subnet: String,
    pub since_s: u64,
    pub until_s: u64,
}

/// An address in the book.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct KnownAddress {
    pub time_s: u64,
    pub services: u64,
    pub address: String,
    pub port: u16,
    pub network: &'static str,
}

/// A place of the address book that is taken.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct RawAddress {
    pub bucket: usize,
    pub position: usize,
    pub known: KnownAddress,
    /// The autonomous system of the address; 0 for none.
    pub mapped_as: u32,
    pub source: String,
    pub source_network: &'static str,
    /// The autonomous system of who told it; 0 for none.
    pub source_mapped_as: u32,
}

/// A transaction whose parents are unknown.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Orphan {
    pub bytes: Vec<u8>,
    pub peers: Vec<u64>,
}

/// A node that a user added.
#[derive(Clone, Debug)]
pub struct AddedNode {
    /// As it was added.
    pub name: String,
    /// The address connected to, and whether the peer called us.
    pub connected: Option<(String, bool)>,
}

/// The connections with peers.
pub trait Network: Send + Sync {
    /// What we are.
    fn state(&self) -> NetworkState;
    /// Every connection.
    fn peers(&self) -> Vec<Peer>;
    /// Bytes moved.
    fn traffic(&self) -> Traffic;
    /// Sends a ping to each.
    fn ping(&self);
    /// Stops or allows all connections.
    fn set_active(&self, active: bool);
    /// Adds a node that is kept connected.
    fn add_node(&self, address: &str, v2: Option<bool>) -> Result<(), Refusal>;
    /// Forgets such a node.
    fn remove_node(&self, address: &str) -> Result<(), Refusal>;
    /// Tries a node once.
    fn try_node(&self, address: &str, v2: Option<bool>) -> Result<(), Refusal>;
    /// Nodes that were added.
    fn added_nodes(&self) -> Vec<AddedNode>;
    /// Opens a connection of one type, for tests.
    fn open_connection(&self, address: &str, connection_type: &str, v2: bool) -> Result<(), Refusal>;
    /// Ends a connection by its address. False: there is none.
    fn disconnect_address(&self, address: &str) -> bool;
    /// Ends a connection by its number. False: there is none.
    fn disconnect_id(&self, id: u64) -> bool;
    /// Keeps out an address or subnet, as text: for so many seconds (none for the usual time), or until that second since 1970.
    fn ban(&self, subnet: &str, time_s: i64, absolute: bool) -> Result<(), Refusal>;
    /// Takes that back.
    fn unban(&self, subnet: &str) -> Result<(), Refusal>;
    /// Everything kept out.
    fn bans(&self) -> Vec<Ban>;
    /// Lets everything in again.
    fn clear_bans(&self);
    /// Up to `count` addresses of the book, all for zero, of one network where it is named.
    fn addresses(&self, count: usize, network: Option<&str>) -> Vec<KnownAddress>;
    /// Puts an address into the book, for tests; Core's word where it does not go in.
    fn add_address(&self, address: &str, port: u16, tried: bool) -> Result<Option<&'static str>, Refusal>;
    /// Addresses by network: name, new, tried.
    fn address_counts(&self) -> Vec<(&'static str, u64, u64)>;
    /// Every place of the book that is taken: of addresses that were told, or of those that answered.
    fn raw_addresses(&self, tried: bool) -> Vec<RawAddress>;
    /// Transactions whose parents are unknown.
    fn orphans(&self) -> Vec<Orphan>;
    /// Sends a message with any content to one peer, for tests. False: there is no such peer.
    fn send_message(&self, id: u64, message: &str, payload: &[u8]) -> bool;
    /// Asks one peer for a block.
    fn fetch_block(&self, id: u64, hash: &BlockHash) -> Result<(), Refusal>;
}

/// What a submitted block or header turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It was connected, or is kept on a branch with less work.
    Accepted,
    /// It is known and valid.
    Duplicate,
    /// It is known and invalid.
    DuplicateInvalid,
    /// It is known, and nobody has judged it yet; or it is not on the best chain.
    Inconclusive,
    /// It breaks a rule: Core's reject word, and what more there is to say.
    Invalid {
        /// The word.
        reason: String,
        /// The word with details.
        details: String,
    },
}

/// The end of a branch of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchTip {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
    /// Blocks that are not on the best chain.
    pub branch_length: u32,
    /// One of Core's words: active, valid-fork, valid-headers, headers-only, invalid.
    pub status: &'static str,
}

/// The way in for blocks, and what is known of branches.
pub trait Blocks: Send + Sync {
    /// Takes a block, and returns once it is judged and, where it is the new tip, visible in views.
    fn submit_block(&self, bytes: &[u8]) -> Submitted;
    /// Takes a header.
    fn submit_header(&self, header: &[u8; 80]) -> Submitted;
    /// Judges a block on top of the tip without proof of work, and keeps nothing.
    fn test_block(&self, bytes: &[u8], check_merkle_root: bool) -> Submitted;
    /// Marks a block as invalid. False: it is unknown.
    fn invalidate(&self, hash: &BlockHash) -> Result<bool, Refusal>;
    /// Takes such marks off a block, its ancestors and descendants. False: it is unknown.
    fn reconsider(&self, hash: &BlockHash) -> Result<bool, Refusal>;
    /// Prefers a block to others with as much work. False: it is unknown.
    fn prefer(&self, hash: &BlockHash) -> Result<bool, Refusal>;
    /// The ends of all branches.
    fn tips(&self) -> Vec<BranchTip>;
    /// Returns once everything that came in before has been dealt with.
    fn settle(&self);
}
