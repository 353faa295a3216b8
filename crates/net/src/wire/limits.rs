//! Limits of messages, each with the rule it comes from.
//!
//! In:     nothing.
//! Out:    constants.
//! Fails:  never.
//! Source: Bitcoin Core 31, the constant named beside each.

/// Largest payload of any message, in bytes; Core's `MAX_PROTOCOL_MESSAGE_LENGTH`.
pub const PAYLOAD_BYTES_MAX: usize = 4_000_000;
/// Most entries of inv, getdata and notfound; Core's `MAX_INV_SZ`.
pub const INVENTORY_MAX: usize = 50_000;
/// Most entries we put into one getdata; Core's `MAX_GETDATA_SZ`.
pub const GETDATA_SENT_MAX: usize = 1_000;
/// Most headers of one message; Core's `MAX_HEADERS_RESULTS`.
pub const HEADERS_MAX: usize = 2_000;
/// Most addresses of one addr or addrv2; Core's `MAX_ADDR_TO_SEND`.
pub const ADDRESSES_MAX: usize = 1_000;
/// Most hashes of a locator; Core's `MAX_LOCATOR_SZ`.
pub const LOCATOR_MAX: usize = 101;
/// Longest address of a network unknown to us, in bytes; BIP 155.
pub const ADDRESS_BYTES_MAX: usize = 512;
/// Longest user agent, in bytes; Core's `MAX_SUBVERSION_LENGTH`.
pub const USER_AGENT_BYTES_MAX: usize = 256;
/// Most transactions of a compact block and of the messages around it: positions have 16 bits (BIP 152).
pub const COMPACT_TXS_MAX: usize = u16::MAX as usize;
/// Most filters one getcfilters may ask for; Core's `MAX_GETCFILTERS_SIZE`.
pub const FILTERS_MAX: u32 = 1_000;
/// Most filter hashes of one cfheaders; Core's `MAX_GETCFHEADERS_SIZE`.
pub const FILTER_HASHES_MAX: usize = 2_000;
/// Most filter headers of one cfcheckpt: one for each 1,000 blocks, enough for the chain's first 1,900 years.
pub const FILTER_CHECKPOINTS_MAX: usize = 100_000;
/// Longest name of a feature, in bytes; BIP 434, Core's `MAX_FEATUREID_LENGTH`.
pub const FEATURE_ID_BYTES_MAX: usize = 80;
/// Longest data of a feature, in bytes; BIP 434, Core's `MAX_FEATUREDATA_LENGTH`.
pub const FEATURE_DATA_BYTES_MAX: usize = 512;

// The largest lists fit into a payload, so no count within its limit is refused for length alone.
const _: () = assert!(INVENTORY_MAX * 36 + 9 <= PAYLOAD_BYTES_MAX);
const _: () = assert!(HEADERS_MAX * 81 + 9 <= PAYLOAD_BYTES_MAX);
const _: () = assert!(FILTER_CHECKPOINTS_MAX * 32 + 64 <= PAYLOAD_BYTES_MAX);
