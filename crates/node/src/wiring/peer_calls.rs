//! The peers as JSON-RPC asks for them.
//!
//! In:     the shell; text and numbers of users.
//! Out:    [`Network`] for the server's environment.
//! Fails:  with Core's codes and words.
//! Source: Bitcoin Core, `src/rpc/net.cpp`.

use std::sync::Arc;

use net::addresses::Ban as NetBan;
use net::hosts::{HostKind, Subnet};
use net::hub::{Chain, UploadBudget};
use net::peer::{ConnectionKind, PROTOCOL, PeerId};
use net::shell::{AddRefusal, Shell};
use net::wire::{Command, Host};
use primitives::BlockHash;
use serve::rpc::error::code;
use serve::rpc::needs::{
    AddedNode, Ban, KnownAddress, Network, NetworkState, Orphan, Peer, RawAddress, Reachable, Refusal, Traffic,
};

use super::peer_rows;

/// The calls' side of the peers.
pub struct PeerCalls<C> {
    shell: Arc<Shell<C>>,
}

impl<C: Chain + Send + 'static> PeerCalls<C> {
    /// Calls about the peers of this shell.
    pub fn new(shell: Arc<Shell<C>>) -> PeerCalls<C> {
        PeerCalls { shell }
    }

    /// Whether to try the encrypted transport; a wish that the settings do not allow is refused.
    fn encrypts(&self, wish: Option<bool>) -> Result<bool, Refusal> {
        let can = self.shell.encrypts();
        match wish {
            Some(true) if !can => {
                let told = "Error: v2transport requested but not enabled (see -v2transport)";
                Err(Refusal::parameter(told))
            }
            wish => Ok(wish.unwrap_or(can)),
        }
    }
}

fn subnet_of(text: &str) -> Result<Subnet, Refusal> {
    text.parse().map_err(|_| Refusal::new(code::CLIENT_INVALID_IP_OR_SUBNET, "Error: Invalid IP/Subnet"))
}

fn kind_of(name: &str) -> Option<ConnectionKind> {
    use ConnectionKind::{AddressFetch, BlocksOnly, Feeler, OutboundFull};
    [OutboundFull, BlocksOnly, AddressFetch, Feeler].into_iter().find(|kind| kind.name() == name)
}

impl<C: Chain + Send + 'static> Network for PeerCalls<C> {
    fn state(&self) -> NetworkState {
        let node = self.shell.node();
        let network = |(kind, reachable, proxy): (HostKind, bool, Option<net::shell::Proxy>)| Reachable {
            name: kind.name(),
            reachable,
            proxy: proxy.map(|proxy| proxy.address.to_string()).unwrap_or_default(),
            random_credentials: proxy.is_some_and(|proxy| proxy.isolates),
        };
        let own = node.own.iter().map(|own| (own.endpoint.host.to_string(), own.endpoint.port, own.score));
        NetworkState {
            services: node.services.0,
            relays: node.relays_txs,
            time_offset_s: node.time_offset_s,
            active: node.is_active,
            inbound: node.connections.0 as u64,
            outbound: node.connections.1 as u64,
            user_agent: node.user_agent,
            protocol_version: PROTOCOL as u32,
            local_addresses: own.collect(),
            reachable: node.networks.into_iter().map(network).collect(),
        }
    }

    fn peers(&self) -> Vec<Peer> {
        let now = self.shell.now();
        self.shell.peers().iter().map(|report| peer_rows::peer(report, now)).collect()
    }

    fn traffic(&self) -> Traffic {
        let totals = self.shell.totals();
        let (upload, now): (&UploadBudget, _) = (&totals.upload, totals.now);
        Traffic {
            received_bytes: totals.received_bytes,
            sent_bytes: totals.sent_bytes,
            upload_frame_s: totals.period().as_secs(),
            upload_bytes_max: upload.bytes_max().unwrap_or(0),
            upload_reached: upload.is_spent(now),
            serves_old_blocks: !upload.is_spent_for_history(now),
            upload_bytes_left: upload.bytes_left(now),
            upload_s_left: upload.time_left(now).as_secs(),
        }
    }

    fn ping(&self) {
        self.shell.ping();
    }

    fn set_active(&self, active: bool) {
        self.shell.set_active(active);
    }

    fn add_node(&self, address: &str, v2: Option<bool>) -> Result<(), Refusal> {
        match self.shell.add_node(address, self.encrypts(v2)?) {
            true => Ok(()),
            false => Err(Refusal::new(code::CLIENT_NODE_ALREADY_ADDED, "Error: Node already added")),
        }
    }

    fn remove_node(&self, address: &str) -> Result<(), Refusal> {
        let told = "Error: Node could not be removed. It has not been added previously.";
        match self.shell.remove_node(address) {
            true => Ok(()),
            false => Err(Refusal::new(code::CLIENT_NODE_NOT_ADDED, told)),
        }
    }

    fn try_node(&self, address: &str, v2: Option<bool>) -> Result<(), Refusal> {
        self.shell.try_node(address, self.encrypts(v2)?);
        Ok(())
    }

    fn added_nodes(&self) -> Vec<AddedNode> {
        let connected = |place: net::shell::Place| AddedNode {
            name: place.text,
            connected: place.connected.map(|(endpoint, inbound)| (endpoint.to_string(), inbound)),
        };
        self.shell.added_nodes().into_iter().map(connected).collect()
    }

    fn open_connection(&self, address: &str, connection_type: &str, v2: bool) -> Result<(), Refusal> {
        if v2 && !self.shell.encrypts() {
            let told = "Error: Adding v2transport connections requires -v2transport init flag to be set.";
            return Err(Refusal::parameter(told));
        }
        let kind = kind_of(connection_type).ok_or_else(|| Refusal::parameter("Unknown connection type"))?;
        match self.shell.open_connection(address, kind, v2) {
            true => Ok(()),
            false => {
                let told = "Error: Already at capacity for specified connection type.";
                Err(Refusal::new(code::CLIENT_NODE_CAPACITY_REACHED, told))
            }
        }
    }

    fn disconnect_address(&self, address: &str) -> bool {
        self.shell.disconnect_name(address)
    }

    fn disconnect_id(&self, id: u64) -> bool {
        self.shell.disconnect(PeerId(id))
    }

    fn ban(&self, subnet: &str, time_s: i64, absolute: bool) -> Result<(), Refusal> {
        let is_host = !subnet.contains('/');
        let subnet = subnet_of(subnet)?;
        if self.shell.is_banned(&subnet, is_host) {
            return Err(Refusal::new(code::CLIENT_NODE_ALREADY_ADDED, "Error: IP/Subnet already banned"));
        }
        let created_s = self.shell.now().unix_s;
        let wanted_s = u64::try_from(time_s).unwrap_or(0);
        if absolute && wanted_s < created_s {
            return Err(Refusal::parameter("Error: Absolute timestamp is in the past"));
        }
        let until_s = match wanted_s {
            0 => created_s + self.shell.usual_ban_s(),
            wanted_s if absolute => wanted_s,
            wanted_s => created_s.saturating_add(wanted_s),
        };
        self.shell.ban(subnet, NetBan { created_s, until_s });
        Ok(())
    }

    fn unban(&self, subnet: &str) -> Result<(), Refusal> {
        match self.shell.lift_ban(&subnet_of(subnet)?) {
            true => Ok(()),
            false => {
                let told = "Error: Unban failed. Requested address/subnet was not previously manually banned.";
                Err(Refusal::new(code::CLIENT_INVALID_IP_OR_SUBNET, told))
            }
        }
    }

    fn bans(&self) -> Vec<Ban> {
        let row = |(subnet, ban): (Subnet, NetBan)| Ban {
            subnet: subnet.to_string(),
            since_s: ban.created_s,
            until_s: ban.until_s,
        };
        self.shell.bans().into_iter().map(row).collect()
    }

    fn clear_bans(&self) {
        self.shell.clear_bans();
    }

    fn addresses(&self, count: usize, network: Option<&str>) -> Vec<KnownAddress> {
        let kind = network.and_then(HostKind::of_name);
        self.shell.addresses(count, kind).iter().map(peer_rows::known).collect()
    }

    fn add_address(&self, address: &str, port: u16, tried: bool) -> Result<Option<&'static str>, Refusal> {
        let invalid = |_| Refusal::new(code::CLIENT_INVALID_IP_OR_SUBNET, "Invalid IP address");
        let host: Host = address.parse().map_err(invalid)?;
        Ok(self.shell.add_address(host, port, tried).err().map(|refusal| match refusal {
            AddRefusal::NotNew => "failed-adding-to-new",
            AddRefusal::NotTried => "failed-adding-to-tried",
        }))
    }

    fn address_counts(&self) -> Vec<(&'static str, u64, u64)> {
        let row = |(kind, new, tried): (HostKind, usize, usize)| (kind.name(), new as u64, tried as u64);
        self.shell.address_counts().into_iter().map(row).collect()
    }

    fn raw_addresses(&self, tried: bool) -> Vec<RawAddress> {
        self.shell.raw_addresses(tried).iter().map(peer_rows::raw).collect()
    }

    fn orphans(&self) -> Vec<Orphan> {
        self.shell.orphans().into_iter().map(|(bytes, peers)| Orphan { bytes, peers }).collect()
    }

    fn send_message(&self, id: u64, message: &str, payload: &[u8]) -> bool {
        let command = Command::from_name(message);
        command.is_some_and(|command| self.shell.send_any(PeerId(id), command, payload))
    }

    fn fetch_block(&self, id: u64, hash: &BlockHash) -> Result<(), Refusal> {
        self.shell.fetch_block(PeerId(id), *hash).map_err(|refusal| Refusal::misc(refusal.to_string()))
    }
}
