//! Addresses for a node that knows none: from names, and from the program itself.
//!
//! In:     the network's seeds.
//! Out:    addresses in the book.
//! Fails:  never; a name that does not answer is passed over.
//! Source: Bitcoin Core, `ThreadDNSAddressSeed`.

use std::sync::Arc;
use std::time::Duration;

use primitives::hash::sha256;

use super::shared::Shared;
use crate::addresses::{Dial, fixed_seeds};
use crate::entropy;
use crate::hosts::HostKind;
use crate::hub::Chain;
use crate::peer::ConnectionKind;
use crate::wire::{Endpoint, Host, PeerAddress, Services};

/// Time in which known addresses may prove enough; Core's `DNSSEEDS_DELAY_FEW_PEERS`.
const WAIT_NAMES: Duration = Duration::from_secs(11);
/// Time after which built-in addresses are taken; Core's minute.
const WAIT_FIXED: Duration = Duration::from_secs(60);
/// Connections that make names unnecessary; Core's two.
const ENOUGH: usize = 2;
/// Addresses taken from one name; Core's `max_ips`.
const ADDRESSES_MAX: usize = 32;

/// Asks names, then the program itself, while too little is known.
pub async fn seed<C: Chain>(shared: Arc<Shared<C>>) {
    let is_empty = shared.with(|state, _| state.book.is_empty());
    if !is_empty {
        tokio::time::sleep(WAIT_NAMES).await;
    }
    let is_enough = || shared.with(|state, _| state.outbound_ready()) >= ENOUGH;
    for name in &shared.config.seed_nodes {
        if is_enough() {
            return;
        }
        shared.ask(Dial::by_hand(name, ConnectionKind::AddressFetch, true));
    }
    for name in shared.params.dns_seeds.iter().filter(|_| shared.config.dns_seeds) {
        if is_enough() {
            return;
        }
        match shared.config.proxy {
            None => ask(&shared, name).await,
            // A question would tell the name's server who asks: the proxy connects to one of the nodes behind the name.
            Some(_) => shared.ask(Dial::by_hand(name, ConnectionKind::AddressFetch, true)),
        }
    }
    tokio::time::sleep(WAIT_FIXED).await;
    if shared.config.fixed_seeds {
        take_fixed(&shared);
    }
}

async fn ask<C: Chain>(shared: &Shared<C>, name: &str) {
    let services = Services::NETWORK.and(Services::WITNESS);
    // A seed that can filter is asked for nodes with these services.
    let asked = format!("x{:x}.{name}", services.0);
    let Ok(found) = tokio::net::lookup_host((asked, shared.params.default_port)).await else { return };
    let source = source_of(name);
    shared.with(|state, now| {
        let addresses: Vec<PeerAddress> = found
            .take(ADDRESSES_MAX)
            .map(|address| {
                // Seen three to seven days ago, as Core says.
                let age_s = 3 * 86_400 + entropy::below(state.entropy(), 4 * 86_400);
                PeerAddress {
                    time_s: now.unix_s.saturating_sub(age_s) as u32,
                    services,
                    endpoint: Endpoint { host: Host::from(address.ip()), port: address.port() },
                }
            })
            .collect();
        state.add_addresses(&addresses, &source, now);
    });
}

/// A host that stands for a name where somebody has to have told an address.
fn source_of(name: &str) -> Host {
    Host::I2p(sha256(name.as_bytes()))
}

/// Built-in addresses of the kinds of which none is known.
fn take_fixed<C: Chain>(shared: &Shared<C>) {
    shared.with(|state, now| {
        let is_unknown = |kind: HostKind| state.book.counts(kind) == (0, 0) && shared.config.reachable.has(kind);
        let seeds: Vec<PeerAddress> = fixed_seeds(&shared.params, now.unix_s)
            .into_iter()
            .filter(|seed| is_unknown(HostKind::of(&seed.endpoint.host)))
            .collect();
        state.add_addresses(&seeds, &source_of("fixed seeds"), now);
    });
}
