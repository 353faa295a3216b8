//! The sockets of discovery: names looked up, servers connected to, the book kept in its file.
//!
//! In:     what all sessions share, the directory among it.
//! Out:    visits, four at a time, for as long as the server runs.
//! Fails:  never; what went wrong with one server is in the book, what went wrong with the file in the log.

use std::fmt;
use std::future::Future;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use stdx::hex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::book::{Outcome, Visitee};
use super::server::{Host, is_public};
use super::visit::{LINE_BYTES_MAX, Step, Visit, Visitor};
use crate::electrum::Env;
use crate::transport::listen::{Door, Place};

/// How often is looked whether a visit is due.
const LOOK: Duration = Duration::from_secs(1);
/// Visits under way at the same time.
pub const VISITS_MAX: usize = 4;
/// Longest wait for a connection, and for a whole visit.
const CONNECT_TIME: Duration = Duration::from_secs(10);
const VISIT_TIME: Duration = Duration::from_secs(60);
/// The same through a proxy: a circuit of Tor takes that long.
const BY_PROXY: u32 = 4;
/// Bytes read in one go.
const READ_BYTES: usize = 8 * 1024;

/// A connection that a proxy makes.
pub type Dialled = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// A proxy, asked for a connection to a host and a port.
#[derive(Clone)]
pub struct ByProxy(pub Arc<dyn Fn(String, u16) -> Dialled + Send + Sync>);

impl fmt::Debug for ByProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByProxy")
    }
}

/// Visits whoever is due until the server stops.
pub(crate) async fn run(env: Arc<Env>, mut stop: watch::Receiver<bool>) {
    let Some(tls) = tls() else {
        return env.metrics.note_fault("discovery: TLS cannot be set up for visits");
    };
    let places = Arc::new(Semaphore::new(VISITS_MAX));
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        // Before the store is open nobody can be compared with us.
        while env.source.progress().ready {
            let Ok(place) = places.clone().try_acquire_owned() else { break };
            let Some(visitee) = env.directory.next() else { break };
            let (env, tls) = (env.clone(), tls.clone());
            tokio::spawn(async move {
                let outcome = call_on(&env, &visitee, tls).await;
                env.metrics.servers_visited.add(1);
                env.metrics.servers_refused.add(u64::from(matches!(outcome, Outcome::Bad(_))));
                if env.directory.ended(&visitee.server.host, outcome) {
                    keep(&env).await;
                }
                drop(place);
            });
        }
    }
}

async fn keep(env: &Arc<Env>) {
    let kept = env.clone();
    // A panic of it would have ended the node already.
    if let Ok(Err(error)) = tokio::task::spawn_blocking(move || kept.directory.save()).await {
        env.metrics.note_fault(&format!("discovery: the file of servers is not written: {error}"));
    }
}

/// One visit: over TLS where the server has it, without where that does not work.
async fn call_on(env: &Arc<Env>, visitee: &Visitee, tls: Arc<ClientConfig>) -> Outcome {
    let wish = env.directory.wish();
    let host = &visitee.server.host;
    let proxy = if host.is_onion() { wish.onion_proxy.as_ref() } else { wish.proxy.as_ref() };
    let patience = if proxy.is_some() { BY_PROXY } else { 1 };
    let addresses = match found(visitee, proxy.is_some(), wish.accepts_local).await {
        Ok(addresses) => addresses,
        Err(outcome) => return outcome,
    };
    let ways = [(visitee.server.ssl(), true), (visitee.server.tcp(), false)];
    let mut last = Outcome::Unreached("it has no port for lines".to_owned());
    for (port, has_tls) in ways.into_iter().filter_map(|(port, has_tls)| Some((port?, has_tls))) {
        let attempt = async {
            let connect = async {
                match proxy {
                    Some(ByProxy(dial)) => dial(host.to_string(), port).await,
                    None => connected(env, &addresses, port).await,
                }
            };
            let stream = tokio::time::timeout(CONNECT_TIME * patience, connect).await??;
            let at = stream.peer_addr().ok().map(|at| at.ip().to_canonical()).filter(|_| proxy.is_none());
            let outcome = converse(Line::new(stream, host, has_tls.then(|| tls.clone()))?, env, host.clone()).await?;
            Ok::<Outcome, io::Error>(match outcome {
                Outcome::Good(findings) => Outcome::Good(super::book::Findings { address: at, ..findings }),
                other => other,
            })
        };
        last = match tokio::time::timeout(VISIT_TIME * patience, attempt).await {
            Ok(Ok(Outcome::Unreached(why))) => Outcome::Unreached(why),
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(error)) => Outcome::Unreached(error.to_string()),
            Err(_) => Outcome::Unreached("the visit took too long".to_owned()),
        };
    }
    last
}

/// Where a host is, as far as we look ourselves: nowhere that a stranger's word should lead us.
async fn found(visitee: &Visitee, by_proxy: bool, accepts_local: bool) -> Result<Vec<IpAddr>, Outcome> {
    let mut addresses: Vec<IpAddr> = match &visitee.server.host {
        Host::Onion(_) => return Ok(Vec::new()),
        // Where there is a proxy, nothing is looked up beside it; then nobody knows whether an announcement came from there.
        Host::Name(_) if by_proxy && visitee.announced_from.is_none() => return Ok(Vec::new()),
        Host::Name(_) if by_proxy => {
            return Err(Outcome::Unreached(
                "a name that announced itself is not looked up beside the proxy".to_owned(),
            ));
        }
        Host::Address(address) => vec![*address],
        Host::Name(name) => match tokio::time::timeout(CONNECT_TIME, tokio::net::lookup_host((name.as_str(), 0))).await
        {
            Ok(Ok(found)) => found.map(|at| at.ip().to_canonical()).collect(),
            Ok(Err(error)) => return Err(Outcome::Unreached(error.to_string())),
            Err(_) => return Err(Outcome::Unreached("its name is not found in time".to_owned())),
        },
    };
    addresses.retain(|address| accepts_local || is_public(*address));
    match visitee.announced_from {
        Some(from) if !addresses.contains(&from.to_canonical()) => {
            Err(Outcome::Bad("its host is not where it announced itself from".to_owned()))
        }
        Some(from) => Ok(vec![from.to_canonical()]),
        None if addresses.is_empty() => Err(Outcome::Unreached("its host is nowhere that anybody reaches".to_owned())),
        None => Ok(addresses),
    }
}

async fn connected(env: &Env, found: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in found {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        let own = source(&env.config.doors, *address);
        let bound = own.map_or(Ok(()), |own| socket.bind(SocketAddr::new(own, 0)));
        match bound.map(|()| socket.connect(SocketAddr::new(*address, port))) {
            Ok(connect) => match connect.await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            },
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The address that others know us by, where we listen at one only: an announcement must come from there.
fn source(doors: &[Door], to: IpAddr) -> Option<IpAddr> {
    let mut addresses = doors.iter().filter_map(|door| match door.place {
        Place::Tcp(address) if !door.is_onion => Some(address.ip()),
        _ => None,
    });
    let fits =
        |own: &IpAddr| !own.is_unspecified() && own.is_ipv4() == to.is_ipv4() && own.is_loopback() == to.is_loopback();
    addresses.find(fits)
}

async fn converse(mut line: Line, env: &Arc<Env>, host: Host) -> io::Result<Outcome> {
    let (mut visit, first) = Visit::new(host, visitor(env));
    line.send(first.as_bytes()).await?;
    loop {
        match visit.take(&line.next().await?) {
            Step::Send(text) => line.send(text.as_bytes()).await?,
            Step::Wait => {}
            Step::Done(outcome) => return Ok(outcome),
        }
    }
}

fn visitor(env: &Env) -> Visitor {
    let view = env.source.view();
    let height = view.tip_height();
    let header = move |height: u32| view.header(height).ok().flatten().map(|header| hex::encode(&header));
    Visitor {
        name: env.config.server_name.clone(),
        genesis_hash: env.config.params.genesis_hash.to_string(),
        height,
        header: Box::new(header),
        usual_ports: env.config.usual_ports,
        ours: if env.directory.wish().announces { env.directory.ours() } else { Vec::new() },
    }
}

/// A connection that lines go over.
struct Line {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    received: Vec<u8>,
}

impl Line {
    fn new(stream: TcpStream, host: &Host, tls: Option<Arc<ClientConfig>>) -> io::Result<Line> {
        let connection = |config| {
            let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
            ClientConnection::new(config, name).map(Box::new).map_err(io::Error::other)
        };
        Ok(Line { stream, tls: tls.map(connection).transpose()?, received: Vec::new() })
    }

    async fn send(&mut self, plain: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.stream.write_all(plain).await,
            Some(tls) => {
                tls.writer().write_all(plain)?;
                self.flush().await
            }
        }
    }

    /// Sends the records that wait.
    async fn flush(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(&mut out)?;
            }
        }
        self.stream.write_all(&out).await
    }

    /// The next line, without its newline.
    async fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut scanned = 0;
        loop {
            if let Some(at) = self.received[scanned..].iter().position(|byte| *byte == b'\n') {
                let rest = self.received.split_off(scanned + at + 1);
                return Ok(std::mem::replace(&mut self.received, rest));
            }
            scanned = self.received.len();
            if scanned > LINE_BYTES_MAX {
                return Err(io::Error::other("a line of more than 1 MiB"));
            }
            let mut buffer = [0; READ_BYTES];
            let count = self.stream.read(&mut buffer).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.receive(&buffer[..count])?;
            self.flush().await?;
        }
    }

    fn receive(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            self.received.extend_from_slice(bytes);
            return Ok(());
        };
        while !bytes.is_empty() {
            tls.read_tls(&mut bytes)?;
            let state = tls.process_new_packets().map_err(io::Error::other)?;
            let before = self.received.len();
            self.received.resize(before + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut self.received[before..])?;
        }
        Ok(())
    }
}

/// Certificates of servers are their own: what is checked is who they are by their chain and their hosts, and the
/// connection only carries what everybody may read.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn tls() -> Option<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().ok()?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)));
    Some(Arc::new(builder.with_no_client_auth()))
}
