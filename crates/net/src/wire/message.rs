//! The messages, all of them.
//!
//! In:     a command and its payload.
//! Out:    [`Message`], and its command and payload again.
//! Fails:  [`WireError`].
//! Source: Bitcoin Core, `src/protocol.h`, `src/net_processing.cpp`.
//!
//! A payload is taken by value: a block's or transaction's bytes stay the one buffer they came in.

use primitives::encode::ParseError;
use primitives::{Header, Transaction};
use stdx::bytes::Reader;

use super::address::{ADDR_ENTRY_BYTES, ADDRV2_ENTRY_BYTES_MIN, PeerAddress};
use super::command::Command;
use super::compact::{BlockTxs, BlockTxsRequest, CompactBlock, SendCompact};
use super::encode::{bytes, count, put_bytes};
use super::error::WireError;
use super::filters::{Filter, FilterCheckpoints, FilterHeaders, FilterRange};
use super::headers::{self, BlockBytes, LocatorRequest};
use super::inventory::{self, Inventory};
use super::limits::{ADDRESSES_MAX, FEATURE_DATA_BYTES_MAX, FEATURE_ID_BYTES_MAX, PAYLOAD_BYTES_MAX};
use super::version::Version;

/// One message of the peer protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Who is there.
    Version(Version),
    /// The version was accepted.
    Verack,
    /// Are you there? Without a nonce from versions before BIP 31, which expect no answer.
    Ping(Option<u64>),
    /// Yes; the nonce of the ping, or nothing from a confused peer.
    Pong(Option<u64>),
    /// Addresses of IPv4 and IPv6.
    Addr(Vec<PeerAddress>),
    /// Addresses of every network (BIP 155); those of unknown networks are left away.
    AddrV2(Vec<PeerAddress>),
    /// Addresses are welcome as addrv2 (BIP 155).
    SendAddrV2,
    /// Addresses are wanted.
    GetAddr,
    /// What there is.
    Inv(Vec<Inventory>),
    /// What is wanted.
    GetData(Vec<Inventory>),
    /// What was wanted and is not there.
    NotFound(Vec<Inventory>),
    /// Block hashes are wanted as inv.
    GetBlocks(LocatorRequest),
    /// Headers are wanted.
    GetHeaders(LocatorRequest),
    /// Headers.
    Headers(Vec<Header>),
    /// A block.
    Block(BlockBytes),
    /// A transaction.
    Tx(Transaction),
    /// The mempool is wanted as inv (BIP 35).
    MemPool,
    /// Transactions below this rate, in satoshi per 1000 virtual bytes, are not wanted (BIP 133).
    FeeFilter(i64),
    /// New blocks are welcome as headers (BIP 130).
    SendHeaders,
    /// New blocks are welcome as compact blocks (BIP 152).
    SendCompact(SendCompact),
    /// A compact block (BIP 152).
    CompactBlock(CompactBlock),
    /// Transactions of a compact block are wanted (BIP 152).
    GetBlockTxs(BlockTxsRequest),
    /// Transactions of a compact block (BIP 152).
    BlockTxs(BlockTxs),
    /// Transactions go by wtxid (BIP 339).
    WtxidRelay,
    /// Transactions could be reconciled (BIP 330); understood and not taken up.
    SendTxReconciliation(SendTxReconciliation),
    /// Filters are wanted (BIP 157).
    GetFilters(FilterRange),
    /// A filter (BIP 157).
    Filter(Filter),
    /// Filter hashes are wanted (BIP 157).
    GetFilterHeaders(FilterRange),
    /// Filter hashes (BIP 157).
    FilterHeaders(FilterHeaders),
    /// Filter headers every 1,000 blocks are wanted (BIP 157): kind of filter and last block.
    GetFilterCheckpoints(u8, primitives::BlockHash),
    /// Filter headers every 1,000 blocks (BIP 157).
    FilterCheckpoints(FilterCheckpoints),
    /// A feature is offered (BIP 434).
    Feature(Feature),
    /// Bloom filters (BIP 37): filterload, filteradd, filterclear or merkleblock; recognised only.
    Bloom(Command, Vec<u8>),
    /// A complaint of an old peer (BIP 61); ignored.
    Reject(Vec<u8>),
    /// Anything else; ignored.
    Unknown(Command, Vec<u8>),
}

/// An offer to reconcile transactions (BIP 330).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendTxReconciliation {
    /// Version of the protocol.
    pub version: u32,
    /// Half of the salt of short identifiers.
    pub salt: u64,
}

/// A feature by name (BIP 434).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub id: Vec<u8>,
    /// What it says.
    pub data: Vec<u8>,
}

impl Message {
    /// Reads the payload of a command.
    pub fn parse(command: Command, payload: Vec<u8>) -> Result<Message, WireError> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(WireError::PayloadTooLarge { got: payload.len() });
        }
        match command {
            Command::BLOCK => Ok(Message::Block(BlockBytes::new(payload)?)),
            Command::TX => Ok(Message::Tx(parse_tx(payload)?)),
            Command::BLOCKTXN => Ok(Message::BlockTxs(BlockTxs::decode(payload)?)),
            Command::FILTERLOAD | Command::FILTERADD | Command::FILTERCLEAR | Command::MERKLEBLOCK => {
                Ok(Message::Bloom(command, payload))
            }
            Command::REJECT => Ok(Message::Reject(payload)),
            _ => match parse_small(command, &payload)? {
                Some(message) => Ok(message),
                None => Ok(Message::Unknown(command, payload)),
            },
        }
    }

    /// Its name.
    pub fn command(&self) -> Command {
        match self {
            Message::Version(_) => Command::VERSION,
            Message::Verack => Command::VERACK,
            Message::Ping(_) => Command::PING,
            Message::Pong(_) => Command::PONG,
            Message::Addr(_) => Command::ADDR,
            Message::AddrV2(_) => Command::ADDRV2,
            Message::SendAddrV2 => Command::SENDADDRV2,
            Message::GetAddr => Command::GETADDR,
            Message::Inv(_) => Command::INV,
            Message::GetData(_) => Command::GETDATA,
            Message::NotFound(_) => Command::NOTFOUND,
            Message::GetBlocks(_) => Command::GETBLOCKS,
            Message::GetHeaders(_) => Command::GETHEADERS,
            Message::Headers(_) => Command::HEADERS,
            Message::Block(_) => Command::BLOCK,
            Message::Tx(_) => Command::TX,
            Message::MemPool => Command::MEMPOOL,
            Message::FeeFilter(_) => Command::FEEFILTER,
            Message::SendHeaders => Command::SENDHEADERS,
            Message::SendCompact(_) => Command::SENDCMPCT,
            Message::CompactBlock(_) => Command::CMPCTBLOCK,
            Message::GetBlockTxs(_) => Command::GETBLOCKTXN,
            Message::BlockTxs(_) => Command::BLOCKTXN,
            Message::WtxidRelay => Command::WTXIDRELAY,
            Message::SendTxReconciliation(_) => Command::SENDTXRCNCL,
            Message::GetFilters(_) => Command::GETCFILTERS,
            Message::Filter(_) => Command::CFILTER,
            Message::GetFilterHeaders(_) => Command::GETCFHEADERS,
            Message::FilterHeaders(_) => Command::CFHEADERS,
            Message::GetFilterCheckpoints(..) => Command::GETCFCHECKPT,
            Message::FilterCheckpoints(_) => Command::CFCHECKPT,
            Message::Feature(_) => Command::FEATURE,
            Message::Reject(_) => Command::REJECT,
            Message::Bloom(command, _) | Message::Unknown(command, _) => *command,
        }
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Message::Version(version) => version.encode(out),
            Message::Verack | Message::SendAddrV2 | Message::GetAddr | Message::MemPool => {}
            Message::SendHeaders | Message::WtxidRelay => {}
            Message::Ping(nonce) | Message::Pong(nonce) => {
                nonce.iter().for_each(|nonce| out.extend_from_slice(&nonce.to_le_bytes()));
            }
            Message::Addr(addresses) => put_addresses(out, addresses, PeerAddress::encode),
            Message::AddrV2(addresses) => put_addresses(out, addresses, PeerAddress::encode_v2),
            Message::Inv(entries) | Message::GetData(entries) | Message::NotFound(entries) => {
                inventory::encode(entries, out);
            }
            Message::GetBlocks(request) | Message::GetHeaders(request) => request.encode(out),
            Message::Headers(list) => headers::encode(list, out),
            Message::Block(block) => out.extend_from_slice(block.bytes()),
            Message::Tx(tx) => out.extend_from_slice(tx.tx().raw()),
            Message::FeeFilter(rate_sat_per_kvb) => out.extend_from_slice(&rate_sat_per_kvb.to_le_bytes()),
            Message::SendCompact(wish) => wish.encode(out),
            Message::CompactBlock(compact) => compact.encode(out),
            Message::GetBlockTxs(request) => request.encode(out),
            Message::BlockTxs(txs) => txs.encode(out),
            Message::SendTxReconciliation(offer) => {
                out.extend_from_slice(&offer.version.to_le_bytes());
                out.extend_from_slice(&offer.salt.to_le_bytes());
            }
            Message::GetFilters(range) | Message::GetFilterHeaders(range) => range.encode(out),
            Message::Filter(filter) => filter.encode(out),
            Message::FilterHeaders(filter_headers) => filter_headers.encode(out),
            Message::GetFilterCheckpoints(filter_type, stop) => {
                out.push(*filter_type);
                out.extend_from_slice(&stop.0);
            }
            Message::FilterCheckpoints(checkpoints) => checkpoints.encode(out),
            Message::Feature(feature) => {
                put_bytes(out, &feature.id);
                put_bytes(out, &feature.data);
            }
            Message::Bloom(_, payload) | Message::Reject(payload) | Message::Unknown(_, payload) => {
                out.extend_from_slice(payload);
            }
        }
    }

    /// The payload.
    pub fn payload(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

/// Messages whose bytes are not kept; `None` for a command nobody knows.
fn parse_small(command: Command, payload: &[u8]) -> Result<Option<Message>, WireError> {
    let reader = &mut Reader::new(payload);
    Ok(Some(match command {
        Command::VERSION => Message::Version(Version::decode(reader)?),
        Command::VERACK => Message::Verack,
        Command::PING => Message::Ping(parse_nonce(reader)?),
        Command::PONG => Message::Pong(reader.u64().ok()),
        Command::ADDR => Message::Addr(parse_addr(reader)?),
        Command::ADDRV2 => Message::AddrV2(parse_addrv2(reader)?),
        Command::SENDADDRV2 => Message::SendAddrV2,
        Command::GETADDR => Message::GetAddr,
        Command::INV => Message::Inv(inventory::decode(reader)?),
        Command::GETDATA => Message::GetData(inventory::decode(reader)?),
        Command::NOTFOUND => Message::NotFound(inventory::decode(reader)?),
        Command::GETBLOCKS => Message::GetBlocks(LocatorRequest::decode(reader)?),
        Command::GETHEADERS => Message::GetHeaders(LocatorRequest::decode(reader)?),
        Command::HEADERS => Message::Headers(headers::decode(reader)?),
        Command::MEMPOOL => Message::MemPool,
        Command::FEEFILTER => Message::FeeFilter(reader.u64()? as i64),
        Command::SENDHEADERS => Message::SendHeaders,
        Command::SENDCMPCT => Message::SendCompact(SendCompact::decode(reader)?),
        Command::CMPCTBLOCK => Message::CompactBlock(CompactBlock::decode(reader)?),
        Command::GETBLOCKTXN => Message::GetBlockTxs(BlockTxsRequest::decode(reader)?),
        Command::WTXIDRELAY => Message::WtxidRelay,
        Command::SENDTXRCNCL => {
            Message::SendTxReconciliation(SendTxReconciliation { version: reader.u32()?, salt: reader.u64()? })
        }
        Command::GETCFILTERS => Message::GetFilters(FilterRange::decode(reader)?),
        Command::CFILTER => Message::Filter(Filter::decode(reader)?),
        Command::GETCFHEADERS => Message::GetFilterHeaders(FilterRange::decode(reader)?),
        Command::CFHEADERS => Message::FilterHeaders(FilterHeaders::decode(reader)?),
        Command::GETCFCHECKPT => Message::GetFilterCheckpoints(reader.u8()?, primitives::BlockHash(reader.array()?)),
        Command::CFCHECKPT => Message::FilterCheckpoints(FilterCheckpoints::decode(reader)?),
        Command::FEATURE => Message::Feature(parse_feature(reader)?),
        _ => return Ok(None),
    }))
}

fn parse_tx(payload: Vec<u8>) -> Result<Transaction, ParseError> {
    Transaction::parse(payload)
}

/// An empty ping is one of before BIP 31; half a nonce is an error.
fn parse_nonce(reader: &mut Reader<'_>) -> Result<Option<u64>, WireError> {
    match reader.left() {
        0 => Ok(None),
        _ => Ok(Some(reader.u64()?)),
    }
}

fn parse_addr(reader: &mut Reader<'_>) -> Result<Vec<PeerAddress>, WireError> {
    let count =
        count(reader, ADDRESSES_MAX, ADDR_ENTRY_BYTES, |got| WireError::TooManyAddresses { message: "addr", got })?;
    (0..count).map(|_| PeerAddress::decode(reader)).collect()
}

fn parse_addrv2(reader: &mut Reader<'_>) -> Result<Vec<PeerAddress>, WireError> {
    let count = count(reader, ADDRESSES_MAX, ADDRV2_ENTRY_BYTES_MIN, |got| WireError::TooManyAddresses {
        message: "addrv2",
        got,
    })?;
    (0..count).filter_map(|_| PeerAddress::decode_v2(reader).transpose()).collect()
}

fn parse_feature(reader: &mut Reader<'_>) -> Result<Feature, WireError> {
    let id = bytes(reader, FEATURE_ID_BYTES_MAX, |got| WireError::FeatureTooLong { got })?.to_vec();
    let data = bytes(reader, FEATURE_DATA_BYTES_MAX, |got| WireError::FeatureTooLong { got })?.to_vec();
    Ok(Feature { id, data })
}

fn put_addresses(out: &mut Vec<u8>, addresses: &[PeerAddress], put: impl Fn(&PeerAddress, &mut Vec<u8>)) {
    primitives::encode::put_compact_size(out, addresses.len() as u64);
    addresses.iter().for_each(|address| put(address, out));
}
