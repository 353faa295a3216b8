//! Connections that others make.
//!
//! In:     a listening socket.
//! Out:    connections that were admitted, carried until they end.
//! Fails:  never; an error in accepting is waited out, for it is often a lack of descriptors that passes.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use super::connection::carry;
use super::dial::permissions;
use super::shared::{Opening, Shared};
use crate::hosts::is_routable;
use crate::hub::Chain;
use crate::peer::{ConnectionKind, PeerId, Permissions, Setup};
use crate::wire::{Endpoint, Host};

/// Rest after an error in accepting.
const REST: Duration = Duration::from_millis(500);

/// Accepts until the shell ends; guests of this socket have these permissions beside those of their host.
pub async fn accept<C: Chain + Send + 'static>(shared: Arc<Shared<C>>, listener: TcpListener, guests: Permissions) {
    let port = listener.local_addr().map_or(0, |address| address.port());
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let remote = Endpoint { host: Host::from(address.ip()), port: address.port() };
        let permissions = permissions(&shared.config, &remote.host, true).and(guests);
        let bound =
            stream.local_addr().ok().map(|address| Endpoint { host: Host::from(address.ip()), port: address.port() });
        let setup = Setup {
            id: PeerId(0),
            kind: ConnectionKind::Inbound,
            remote,
            told_remote: if is_routable(&remote.host) { remote } else { Endpoint::NONE },
            permissions,
            encrypted: shared.config.encrypts,
        };
        let admitted = shared.with(|state, now| {
            let is_admitted = state.admit(&remote, permissions, &shared.config, now);
            is_admitted.then(|| state.open(Opening { setup, bound, port, added: None }, now))
        });
        if let Some((id, wake)) = admitted {
            tokio::spawn(carry(shared.clone(), id, wake, stream));
        }
    }
}
