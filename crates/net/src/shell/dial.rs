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

use super::config::Proxy;
use super::connection::carry;
use super::shared::Shared;
use super::socks::Socks;
use crate::addresses::{Destination, Dial, is_routable};
use crate::hub::Chain;
use crate::peer::{PeerId, Permissions, Setup};
use crate::wire::{Endpoint, Host};

/// What a direct connection may take; Core's `DEFAULT_CONNECT_TIMEOUT`.
const DIRECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What a proxy may take: a new circuit of Tor, and its timeouts.
const PROXY_TIMEOUT: Duration = Duration::from_secs(60);

/// Opens and carries one connection.
pub async fn dial<C: Chain>(shared: Arc<Shared<C>>, number: u64, dial: Dial) {
    let mut encrypted = dial.encrypted && shared.config.encrypts;
    loop {
        let connected = connect(&shared, &dial.to).await;
        let (stream, remote, by_proxy) = match connected {
            Ok(connected) => connected,
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
            permissions: permissions(&shared, &remote.host),
            encrypted,
        };
        let added = match &dial.to {
            Destination::Added(text) => Some(text.clone()),
            Destination::Known(_) => None,
        };
        let (id, wake) = shared.with(|state, now| {
            state.dialled(number);
            state.open(setup, remote.port, added, now)
        });
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

/// What the whitelist says of a host.
pub fn permissions<C>(shared: &Shared<C>, host: &Host) -> Permissions {
    let rows = shared.config.whitelist.iter().filter(|(subnet, _)| subnet.contains(host));
    rows.fold(Permissions::NONE, |all, (_, one)| all.and(*one))
}

/// A stream to the destination, its endpoint, and whether a proxy made it.
async fn connect<C: Chain>(shared: &Shared<C>, to: &Destination) -> io::Result<(TcpStream, Endpoint, bool)> {
    let default_port = shared.params.default_port;
    let endpoint = match to {
        Destination::Known(endpoint) => *endpoint,
        Destination::Added(text) => match Endpoint::parse(text, Some(default_port)) {
            Ok(endpoint) => endpoint,
            Err(_) => return connect_by_name(shared, text).await,
        },
    };
    let proxy = match endpoint.host {
        Host::Onion(_) => shared.config.onion_proxy.or(shared.config.proxy),
        _ => shared.config.proxy,
    };
    if let Some(proxy) = proxy {
        let stream = by_proxy(shared, proxy, endpoint.host.to_string(), endpoint.port).await?;
        return Ok((stream, endpoint, true));
    }
    let address = match endpoint.host {
        Host::V4(bytes) => IpAddr::from(bytes),
        Host::V6(bytes) | Host::Cjdns(bytes) => IpAddr::from(bytes),
        Host::Onion(_) | Host::I2p(_) => return Err(io::ErrorKind::Unsupported.into()),
    };
    let stream = directly(SocketAddr::new(address, endpoint.port)).await?;
    Ok((stream, endpoint, false))
}

/// A name is looked up here, or by the proxy where there is one.
async fn connect_by_name<C: Chain>(shared: &Shared<C>, text: &str) -> io::Result<(TcpStream, Endpoint, bool)> {
    let (name, port) = match text.rsplit_once(':').map(|(name, port)| (name, port.parse())) {
        Some((name, Ok(port))) => (name, port),
        _ => (text, shared.params.default_port),
    };
    if let Some(proxy) = shared.config.proxy {
        let stream = by_proxy(shared, proxy, name.to_owned(), port).await?;
        return Ok((stream, Endpoint { port, ..Endpoint::NONE }, true));
    }
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in tokio::net::lookup_host((name, port)).await? {
        match directly(address).await {
            Ok(stream) => return Ok((stream, Endpoint { host: Host::from(address.ip()), port }, false)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn directly(address: SocketAddr) -> io::Result<TcpStream> {
    tokio::time::timeout(DIRECT_TIMEOUT, TcpStream::connect(address)).await?
}

async fn by_proxy<C: Chain>(shared: &Shared<C>, proxy: Proxy, host: String, port: u16) -> io::Result<TcpStream> {
    let credentials = proxy.isolates.then(|| shared.with(|state, _| (state.random_text(), state.random_text())));
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
