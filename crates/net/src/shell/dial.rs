//! Connections we make.
//!
//! In:     a [`Dial`].
//! Out:    a connection, directly or by a proxy, carried until it ends; once more without encryption where the other side has
//!         none.
//! Fails:  never; an attempt that fails is noted in the book.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::config::{Config, Proxy};
use super::connection::carry;
use super::i2p::Lent;
use super::shared::{Opening, Shared};
use super::start::OsEntropy;
use stdx::hex;

use crate::addresses::{Destination, Dial};
use crate::entropy::Entropy as _;
use crate::hosts::is_routable;
use crate::hub::Chain;
use crate::peer::{PeerId, Permissions, Setup};
use crate::proxies::Socks;
use crate::wire::{Endpoint, Host};

/// What a proxy may take: a new circuit of Tor, and its timeouts.
const PROXY_TIMEOUT: Duration = Duration::from_secs(60);

/// A stream that stands.
struct Stood {
    stream: TcpStream,
    remote: Endpoint,
    by_proxy: bool,
    /// The session of I2P it lives in.
    _lent: Option<Lent>,
}

/// Opens and carries one connection.
pub async fn dial<C: Chain>(shared: Arc<Shared<C>>, number: u64, dial: Dial) {
    let mut encrypted = dial.encrypted && shared.config.encrypts;
    loop {
        let connected = connect(&shared, &dial.to).await;
        let Stood { stream, remote, by_proxy, _lent } = match connected {
            Ok(stood) => stood,
            Err(_) => {
                note_attempt(&shared, &dial);
                break;
            }
        };
        note_attempt(&shared, &dial);
        let can_tell = !by_proxy && is_routable(&remote.host) && remote.host.is_ip();
        let setup = Setup {
            id: PeerId(0),
            kind: dial.kind,
            remote,
            told_remote: if can_tell { remote } else { Endpoint::NONE },
            permissions: permissions(&shared.config, &remote.host, false),
            encrypted,
        };
        let added = match &dial.to {
            Destination::Added(text) => Some(text.clone()),
            Destination::Known(_) => None,
        };
        let bound = stream.local_addr().ok();
        let bound = bound.map(|address| Endpoint { host: Host::from(address.ip()), port: address.port() });
        let opened = shared.with(|state, now| {
            state.dialled(number);
            let opening = Opening { setup, bound, port: remote.port, added };
            // The network may have been switched off meanwhile.
            state.active.then(|| state.open(opening, now))
        });
        let Some((id, wake)) = opened else { break };
        let retry_plain = carry(shared.clone(), id, wake, stream).await;
        if !(retry_plain && encrypted) {
            break;
        }
        encrypted = false;
    }
    shared.with(|state, _| state.dialled(number));
}

fn note_attempt<C: Chain>(shared: &Shared<C>, dial: &Dial) {
    if let Destination::Known(endpoint) = &dial.to {
        shared.with(|state, now| state.book.attempt(endpoint, dial.counts, now.unix_s));
    }
}

/// What the whitelist says of a host that connects to us, or that we connect to.
pub fn permissions(config: &Config, host: &Host, inbound: bool) -> Permissions {
    let applies = |inbound_too: bool, outbound_too: bool| if inbound { inbound_too } else { outbound_too };
    let rows = config.whitelist.iter().filter(|row| applies(row.inbound, row.outbound) && row.subnet.contains(host));
    rows.fold(Permissions::NONE, |all, row| all.and(row.permissions.unwrap_or(config.implicit)))
}

/// A stream to the destination.
async fn connect<C: Chain>(shared: &Shared<C>, to: &Destination) -> io::Result<Stood> {
    let default_port = shared.params.default_port;
    let endpoint = match to {
        Destination::Known(endpoint) => *endpoint,
        Destination::Added(text) => match Endpoint::parse(text, Some(default_port)) {
            Ok(endpoint) => endpoint,
            Err(_) => return connect_by_name(shared, text).await,
        },
    };
    if let Host::I2p(_) = endpoint.host {
        let (stream, lent) = shared.i2p.connect(shared, &endpoint).await?;
        return Ok(Stood { stream, remote: endpoint, by_proxy: true, _lent: Some(lent) });
    }
    let proxy = match endpoint.host {
        Host::Onion(_) => shared.config.onion_proxy.or(shared.config.proxy),
        _ => shared.config.proxy,
    };
    if let Some(proxy) = proxy {
        let stream = by_proxy(shared, proxy, endpoint.host.to_string(), endpoint.port).await?;
        return Ok(Stood { stream, remote: endpoint, by_proxy: true, _lent: None });
    }
    let address = match endpoint.host {
        Host::V4(bytes) => IpAddr::from(bytes),
        Host::V6(bytes) | Host::Cjdns(bytes) => IpAddr::from(bytes),
        Host::Onion(_) | Host::I2p(_) => return Err(io::ErrorKind::Unsupported.into()),
    };
    let stream = directly(&shared.config, SocketAddr::new(address, endpoint.port)).await?;
    Ok(Stood { stream, remote: endpoint, by_proxy: false, _lent: None })
}

/// A name is looked up here, or by the proxy where there is one.
async fn connect_by_name<C: Chain>(shared: &Shared<C>, text: &str) -> io::Result<Stood> {
    let (name, port) = match text.rsplit_once(':').map(|(name, port)| (name, port.parse())) {
        Some((name, Ok(port))) => (name, port),
        _ => (text, shared.params.default_port),
    };
    // No server of names knows these: the question alone would tell what is sought.
    if [".onion", ".i2p"].iter().any(|ending| name.ends_with(ending)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a damaged onion or I2P name"));
    }
    if let Some(proxy) = shared.config.proxy {
        let stream = by_proxy(shared, proxy, name.to_owned(), port).await?;
        let remote = Endpoint { port, ..Endpoint::NONE };
        return Ok(Stood { stream, remote, by_proxy: true, _lent: None });
    }
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in tokio::net::lookup_host((name, port)).await? {
        match directly(&shared.config, address).await {
            Ok(stream) => {
                let remote = Endpoint { host: Host::from(address.ip()), port };
                return Ok(Stood { stream, remote, by_proxy: false, _lent: None });
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn directly(config: &Config, address: SocketAddr) -> io::Result<TcpStream> {
    tokio::time::timeout(config.connect_timeout, TcpStream::connect(address)).await?
}

async fn by_proxy<C: Chain>(shared: &Shared<C>, proxy: Proxy, host: String, port: u16) -> io::Result<TcpStream> {
    let credentials = proxy.isolates.then(|| shared.with(|state, _| (state.random_text(), state.random_text())));
    tokio::time::timeout(PROXY_TIMEOUT, ask_proxy(proxy, host, port, credentials)).await?
}

/// A connection that a proxy makes, for those who have no peers to talk to.
pub async fn connect_by_proxy(proxy: Proxy, host: String, port: u16) -> io::Result<TcpStream> {
    let random = || {
        let mut bytes = [0; 8];
        OsEntropy.fill(&mut bytes);
        hex::encode(&bytes)
    };
    let credentials = proxy.isolates.then(|| (random(), random()));
    tokio::time::timeout(PROXY_TIMEOUT, ask_proxy(proxy, host, port, credentials)).await?
}

async fn ask_proxy(
    proxy: Proxy,
    host: String,
    port: u16,
    credentials: Option<(String, String)>,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(proxy.address).await?;
    let (mut socks, mut ask) = Socks::new(host, port, credentials).map_err(io::Error::other)?;
    loop {
        stream.write_all(&ask.write).await?;
        if ask.read == 0 {
            return Ok(stream);
        }
        let mut answer = vec![0; ask.read];
        stream.read_exact(&mut answer).await?;
        ask = socks.next(&answer).map_err(io::Error::other)?;
    }
}
