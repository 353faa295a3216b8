//! What the user does to the network: connections, bans, addresses.
//!
//! In:     text of the user, numbers of peers.
//! Out:    reports; connections made and ended, bans kept, addresses learnt.
//! Fails:  [`AddRefusal`] and the like, one variant a reason.
//! Source: Bitcoin Core, `src/rpc/net.cpp` and the functions of `CConnman` and `BanMan` it calls.

use primitives::BlockHash;

use super::files;
use super::report::{NodeReport, PeerReport, Totals};
use super::start::Shell;
use crate::addresses::{Ban, Dial, RawEntry, Targets};
use crate::hosts::{HostKind, Subnet};
use crate::hub::{Chain, FetchRefusal};
use crate::moment::Moment;
use crate::peer::{ConnectionKind, End, PeerId};
use crate::wire::{Command, Endpoint, Host, PeerAddress, Services};

/// Why an address is not in the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddRefusal {
    /// Nobody can reach it, or it is known, or its place is taken.
    NotNew,
    /// It is there, and its place among those that answered is taken.
    NotTried,
}

/// A node the user wants kept, and the connection to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What the user wrote.
    pub text: String,
    /// The other side, and whether it connected to us.
    pub connected: Option<(Endpoint, bool)>,
}

/// A place of the book, with the systems of both hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw {
    /// What stands where.
    pub entry: RawEntry,
    /// The autonomous system of the address; 0 for none.
    pub mapped_as: u32,
    /// That of who told it.
    pub source_mapped_as: u32,
}

impl<C: Chain + Send + 'static> Shell<C> {
    /// All connections.
    pub fn peers(&self) -> Vec<PeerReport> {
        self.shared.with(|state, _| state.reports())
    }

    /// What we are on the network.
    pub fn node(&self) -> NodeReport {
        self.shared.with(|state, _| state.node_report(&self.shared.config))
    }

    /// What we tell others we can be reached at.
    pub fn own_endpoints(&self) -> Vec<Endpoint> {
        self.node().own.into_iter().map(|own| own.endpoint).collect()
    }

    /// Bytes moved since the start.
    pub fn totals(&self) -> Totals {
        self.shared.with(|state, now| Totals {
            received_bytes: state.received_bytes,
            sent_bytes: state.sent_bytes,
            upload: state.hub.upload().clone(),
            now,
        })
    }

    /// Pings every peer now.
    pub fn ping(&self) {
        self.shared.with(|state, now| {
            state.hub.request_pings();
            state.tick(now);
        });
    }

    /// Makes and takes connections, or ends all of them and does neither.
    pub fn set_active(&self, active: bool) {
        self.shared.with(|state, now| {
            state.active = active;
            if !active {
                state.close_those(|_| true, "the network is switched off", now);
            }
        });
        self.shared.stir.notify_one();
    }

    /// How a text is meant: the endpoint it names, where it names one without asking anybody.
    fn endpoint_of(&self, text: &str) -> Option<Endpoint> {
        Endpoint::parse(text, Some(self.shared.params.default_port)).ok()
    }

    /// Keeps a connection to an endpoint or name; false where it is kept already, however it is written.
    pub fn add_node(&self, text: &str, encrypted: bool) -> bool {
        let endpoint = self.endpoint_of(text);
        let is_new = self.shared.with(|state, _| {
            let is_it = |text: &str| self.endpoint_of(text) == endpoint;
            let is_known = endpoint.is_some() && state.dialler.added().any(is_it);
            !is_known && state.dialler.add(text, encrypted)
        });
        self.shared.stir.notify_one();
        is_new
    }

    /// Keeps it no longer; false where it was not kept. A connection that stands stays.
    pub fn remove_node(&self, text: &str) -> bool {
        self.shared.with(|state, _| state.dialler.remove(text))
    }

    /// Tries a connection once, unless there is one by this name.
    pub fn try_node(&self, text: &str, encrypted: bool) {
        if !self.is_connected(text) {
            self.shared.ask(Dial::by_hand(text, ConnectionKind::Manual, encrypted));
        }
    }

    fn is_connected(&self, name: &str) -> bool {
        self.shared.with(|state, _| state.doors.values().any(|door| door.kind.is_outbound() && door.name() == name))
    }

    /// Opens a connection of one kind, for tests; false where there are as many as there may be.
    pub fn open_connection(&self, text: &str, kind: ConnectionKind, encrypted: bool) -> bool {
        let has_room = self.shared.with(|state, _| {
            let targets = match state.dialler.targets() {
                Targets::NONE => Targets::USUAL,
                targets => targets,
            };
            let standing = state.doors.values().filter(|door| door.kind == kind).count();
            let on_their_way = state.dialling.values().filter(|one| one.kind == kind).count();
            match kind {
                ConnectionKind::OutboundFull => standing + on_their_way < targets.full,
                ConnectionKind::BlocksOnly => standing + on_their_way < targets.blocks_only,
                ConnectionKind::AddressFetch | ConnectionKind::Feeler => true,
                ConnectionKind::Inbound | ConnectionKind::Manual => false,
            }
        });
        if has_room {
            self.shared.ask(Dial::by_hand(text, kind, encrypted));
        }
        has_room
    }

    /// What the user wants kept, and the connections to it.
    pub fn added_nodes(&self) -> Vec<Place> {
        self.shared.with(|state, _| {
            let place = |text: &str| {
                let endpoint = self.endpoint_of(text);
                let is_it = |door: &&super::shared::Door| match endpoint {
                    Some(endpoint) => door.remote == endpoint,
                    None => door.added.as_deref() == Some(text),
                };
                let door = state.doors.values().find(is_it);
                Place { text: text.to_owned(), connected: door.map(|door| (door.remote, !door.kind.is_outbound())) }
            };
            state.dialler.added().map(place).collect()
        })
    }

    /// Ends a connection; false where there is none of this number.
    pub fn disconnect(&self, id: PeerId) -> bool {
        self.shared.with(|state, now| {
            state.hub.close(id, End::ClosedByUs("disconnected by the user"), now);
            state.doors.contains_key(&id)
        })
    }

    /// Ends a connection; false where none has this name.
    pub fn disconnect_name(&self, name: &str) -> bool {
        let id =
            self.shared.with(|state, _| state.doors.iter().find(|(_, door)| door.name() == name).map(|(id, _)| *id));
        id.is_some_and(|id| self.disconnect(id))
    }

    /// The time, as bans count it.
    pub fn now(&self) -> Moment {
        self.shared.now()
    }

    /// How long a ban holds that says nothing else, in seconds.
    pub fn usual_ban_s(&self) -> u64 {
        self.shared.config.ban_s
    }

    /// True while this very subnet is banned; a host is by any subnet that has it.
    pub fn is_banned(&self, subnet: &Subnet, by_any: bool) -> bool {
        self.shared.with(|state, now| match by_any {
            true => state.bans.is_banned(&subnet.first, now.unix_s),
            false => state.bans.iter().any(|(known, ban)| known == subnet && ban.until_s > now.unix_s),
        })
    }

    /// Bans a subnet, and ends its connections.
    pub fn ban(&self, subnet: Subnet, ban: Ban) {
        self.shared.with(|state, now| {
            state.bans.ban(subnet, ban);
            state.close_subnet(&subnet, now);
        });
        self.save_bans();
    }

    /// Lifts a ban; false where there was none.
    pub fn lift_ban(&self, subnet: &Subnet) -> bool {
        let was_there = self.shared.with(|state, _| state.bans.lift(subnet));
        self.save_bans();
        was_there
    }

    /// Lifts all bans.
    pub fn clear_bans(&self) {
        self.shared.with(|state, _| state.bans.clear());
        self.save_bans();
    }

    /// The bans that hold.
    pub fn bans(&self) -> Vec<(Subnet, Ban)> {
        self.shared.with(|state, now| {
            state.bans.sweep(now.unix_s);
            state.bans.iter().map(|(subnet, ban)| (*subnet, *ban)).collect()
        })
    }

    fn save_bans(&self) {
        let Some(directory) = &self.shared.config.directory else { return };
        let text = self.shared.with(|state, _| state.bans.to_text());
        if let Err(error) = files::write_bans(directory, &text) {
            self.shared.with(|state, _| state.remark(format!("the bans cannot be written: {error}")));
        }
    }

    /// Random addresses of the book, of one kind where it is named; all of them for a count of 0.
    pub fn addresses(&self, count: usize, kind: Option<HostKind>) -> Vec<PeerAddress> {
        let count = if count == 0 { usize::MAX } else { count };
        self.shared.with(|state, now| state.sample(count, kind, now))
    }

    /// Puts an address into the book, as if it had told itself.
    pub fn add_address(&self, host: Host, port: u16, tried: bool) -> Result<(), AddRefusal> {
        self.shared.with(|state, now| {
            let endpoint = Endpoint { host, port };
            let services = Services::NETWORK.and(Services::WITNESS);
            let address = PeerAddress { time_s: now.unix_s as u32, services, endpoint };
            if state.add_addresses(&[address], &host, now) == 0 {
                return Err(AddRefusal::NotNew);
            }
            if tried && !state.book.good(&endpoint, now.unix_s) { Err(AddRefusal::NotTried) } else { Ok(()) }
        })
    }

    /// Addresses of each kind: those that were told, those that answered.
    pub fn address_counts(&self) -> Vec<(HostKind, usize, usize)> {
        self.shared.with(|state, _| {
            let counts = |kind| {
                let (new, tried) = state.book.counts(kind);
                (kind, new, tried)
            };
            HostKind::ALL.map(counts).to_vec()
        })
    }

    /// Every place of the book: of addresses told, or of those that answered.
    pub fn raw_addresses(&self, tried: bool) -> Vec<Raw> {
        self.shared.with(|state, _| {
            let groups = &state.groups;
            let raw = |entry: RawEntry| Raw {
                mapped_as: groups.mapped_as(&entry.address.endpoint.host),
                source_mapped_as: groups.mapped_as(&entry.source),
                entry,
            };
            state.book.raw(tried).map(raw).collect()
        })
    }

    /// Transactions whose parents are unknown, as bytes, and who told of each.
    pub fn orphans(&self) -> Vec<(Vec<u8>, Vec<u64>)> {
        self.shared.with(|state, _| {
            let orphans = state.hub.orphans().iter();
            orphans.map(|(transaction, peers)| (transaction.tx().raw().to_vec(), peers)).collect()
        })
    }

    /// Sends any payload under any name, for tests of others; false where there is no such peer.
    pub fn send_any(&self, id: PeerId, command: Command, payload: &[u8]) -> bool {
        self.shared.with(|state, _| state.hub.send_any(id, command, payload))
    }

    /// Asks one peer for a block whose header is known.
    pub fn fetch_block(&self, id: PeerId, hash: BlockHash) -> Result<(), FetchRefusal> {
        self.shared.with(|state, _| state.hub.fetch_block(id, hash))
    }

    /// True where connections are encrypted with those who can.
    pub fn encrypts(&self) -> bool {
        self.shared.config.encrypts
    }
}
