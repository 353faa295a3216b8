//! From the first message to the last of the handshake.
//!
//! In:     their messages, in order.
//! Out:    what to answer, and what was agreed on: [`Features`].
//! Fails:  [`End`]: obsolete version, ourselves, services missing, a feature after verack.
//! Source: Bitcoin Core, `ProcessMessage`: `VERSION`, `VERACK`, `WTXIDRELAY`, `SENDADDRV2`, `FEATURE`.

use super::end::End;
use super::kind::{ConnectionKind, PeerId};
use super::local::{Local, PROTOCOL};
use crate::moment::Moment;
use crate::wire::{Command, Message, SendCompact, Version};

/// The oldest version we talk to; Core's `MIN_PEER_PROTO_VERSION`.
pub const PROTOCOL_MIN: i32 = 31_800;
/// First version with short identifiers; Core's `SHORT_IDS_BLOCKS_VERSION`.
const PROTOCOL_COMPACT: i32 = 70_014;
/// First version with wtxid relay, and the first of programs that know addrv2.
const PROTOCOL_WTXID: i32 = 70_016;
/// The version of compact blocks with witnesses.
pub const COMPACT_VERSION: u64 = 2;
/// Most satoshi there are: a fee filter above is none (Core: `MoneyRange`).
const MONEY_MAX_SAT: i64 = 2_100_000_000_000_000;

/// What both sides know of each other once they talk.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// Their version message.
    pub version: Option<Version>,
    /// The lower of both protocol versions.
    pub protocol: i32,
    /// Their clock minus ours, in seconds.
    pub time_offset_s: i64,
    /// Transactions go by wtxid (BIP 339).
    pub wtxid_relay: bool,
    /// They understand addrv2 (BIP 155).
    pub addrv2: bool,
    /// They want new blocks as headers (BIP 130).
    pub prefers_headers: bool,
    /// They can send compact blocks with witnesses (BIP 152).
    pub compact_blocks: bool,
    /// They want our new blocks as compact blocks at once.
    pub compact_at_once: bool,
    /// They want no transactions below, in satoshi per 1000 virtual bytes (BIP 133).
    pub fee_filter_sat_per_kvb: i64,
}

impl Features {
    /// True where they want transactions announced.
    pub fn wants_txs(&self) -> bool {
        self.version.as_ref().is_some_and(|version| version.relay)
    }
}

/// Where the handshake stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waiting for version.
    Version,
    /// Waiting for verack.
    Verack,
    /// Done.
    Done,
}

/// What a message meant.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing: it is dealt with.
    Nothing,
    /// It comes at a wrong time and is ignored, as Core does.
    Ignored(Untimely),
    /// These go back.
    Send(Vec<Message>),
    /// The handshake is done; these go back.
    Done(Vec<Message>),
    /// It is none of the handshake's messages, and the handshake is done.
    Other,
}

/// Why a message came at a wrong time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untimely {
    /// A second version.
    SecondVersion,
    /// Anything before the version.
    BeforeVersion,
    /// A second verack.
    SecondVerack,
    /// What belongs behind the handshake, before the verack.
    BeforeVerack,
}

impl Untimely {
    /// Core's line about it.
    pub fn line(self, command: Command, id: PeerId) -> String {
        let id = id.0;
        match self {
            Untimely::SecondVersion => format!("redundant version message from peer={id}"),
            Untimely::BeforeVersion => {
                format!("non-version message before version handshake. Message \"{command}\" from peer={id}")
            }
            Untimely::SecondVerack => format!("ignoring redundant verack message from peer={id}"),
            Untimely::BeforeVerack => format!("Unsupported message \"{command}\" prior to verack from peer={id}"),
        }
    }
}

/// The handshake of one connection.
#[derive(Debug)]
pub struct Handshake {
    kind: ConnectionKind,
    stage: Stage,
    pub features: Features,
}

impl Handshake {
    pub fn new(kind: ConnectionKind) -> Handshake {
        Handshake { kind, stage: Stage::Version, features: Features::default() }
    }

    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Takes a message; `own_version` makes our version message, for the side that speaks second.
    pub fn take(
        &mut self,
        message: &Message,
        local: &Local,
        now: Moment,
        own_version: impl FnOnce() -> Message,
    ) -> Result<Answer, End> {
        match (message, self.stage) {
            (Message::Version(version), Stage::Version) => self.take_version(version, local, now, own_version),
            // A second version is ignored, and so is everything before the first.
            (Message::Version(_), _) => Ok(Answer::Ignored(Untimely::SecondVersion)),
            (_, Stage::Version) => Ok(Answer::Ignored(Untimely::BeforeVersion)),
            (Message::Verack, Stage::Verack) => {
                self.stage = Stage::Done;
                let wish = SendCompact { announce: false, version: COMPACT_VERSION };
                let is_known = self.features.protocol >= PROTOCOL_COMPACT;
                Ok(Answer::Done(is_known.then_some(Message::SendCompact(wish)).into_iter().collect()))
            }
            (Message::Verack, _) => Ok(Answer::Ignored(Untimely::SecondVerack)),
            (Message::WtxidRelay | Message::SendAddrV2 | Message::Feature(_), Stage::Done) => {
                Err(End::LateNegotiation(message.command()))
            }
            // BIP 434 begins with 70017, which we do not speak: no feature may be offered to us.
            (Message::Feature(_), _) => Err(End::LateNegotiation(Command::FEATURE)),
            _ if self.take_wish(message) => Ok(Answer::Nothing),
            (_, Stage::Verack) => Ok(Answer::Ignored(Untimely::BeforeVerack)),
            (_, Stage::Done) => Ok(Answer::Other),
        }
    }

    fn take_version(
        &mut self,
        version: &Version,
        local: &Local,
        now: Moment,
        own_version: impl FnOnce() -> Message,
    ) -> Result<Answer, End> {
        let wanted = local.wanted_of(version.services);
        if self.kind.expects_services() && !version.services.has(wanted) {
            return Err(End::ServicesMissing { offered: version.services, wanted });
        }
        if version.protocol < PROTOCOL_MIN {
            return Err(End::ObsoleteVersion { protocol: version.protocol });
        }
        if self.kind == ConnectionKind::Inbound && local.is_own_nonce(version.nonce) {
            return Err(End::ConnectedToSelf);
        }
        self.features.protocol = version.protocol.min(PROTOCOL);
        self.features.time_offset_s = version.time_s.saturating_sub(now.unix_s as i64);
        self.features.version = Some(version.clone());
        if self.kind == ConnectionKind::Feeler {
            return Err(End::FeelerDone);
        }
        self.stage = Stage::Verack;
        let mut answer = Vec::new();
        if self.kind == ConnectionKind::Inbound {
            answer.push(own_version());
        }
        if self.features.protocol >= PROTOCOL_WTXID {
            answer.extend([Message::WtxidRelay, Message::SendAddrV2]);
        }
        answer.push(Message::Verack);
        Ok(Answer::Send(answer))
    }

    /// Takes what says how they want things; true for such a message.
    fn take_wish(&mut self, message: &Message) -> bool {
        match message {
            Message::WtxidRelay => self.features.wtxid_relay |= self.features.protocol >= PROTOCOL_WTXID,
            Message::SendAddrV2 => self.features.addrv2 = true,
            Message::SendTxReconciliation(_) => {}
            Message::SendHeaders => self.features.prefers_headers = true,
            Message::SendCompact(wish) if wish.version == COMPACT_VERSION => {
                self.features.compact_blocks = true;
                self.features.compact_at_once = wish.announce;
            }
            Message::SendCompact(_) => {}
            Message::FeeFilter(rate_sat_per_kvb) if self.stage == Stage::Done => {
                if (0..=MONEY_MAX_SAT).contains(rate_sat_per_kvb) {
                    self.features.fee_filter_sat_per_kvb = *rate_sat_per_kvb;
                }
            }
            _ => return false,
        }
        true
    }
}
