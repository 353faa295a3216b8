//! Connections through I2P, asked of its SAM bridge.
//!
//! In:     where the bridge is; endpoints to connect to.
//! Out:    streams; connections of others; the address they find us at among those we tell.
//! Fails:  with the system's error or [`SamError`]; accepting never fails: what went wrong is kept for the log, and tried again
//!         ever more seldom.
//! Source: Bitcoin Core, `src/i2p.cpp`, `CConnman::ThreadI2PAcceptIncoming`.
//!
//! Where others may connect there is one session, under a key that is kept in a file. Otherwise each connection has a session
//! and an address of its own, so that nobody sees that two of them come from one node.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::config::{Config, SamBridge};
use super::connection::carry;
use super::dial::permissions;
use super::shared::{Opening, Shared};
use crate::addresses::SCORE_GIVEN;
use crate::hub::Chain;
use crate::peer::{ConnectionKind, PeerId, Setup};
use crate::proxies::{SAM_LINE_BYTES_MAX, Sam, SamError, SamStep, SamWish, host_of_destination};
use crate::wire::{Endpoint, Host};

/// What the bridge may take for one line: it looks for tunnels and names meanwhile.
const REPLY_TIMEOUT: Duration = Duration::from_secs(180);
/// Sessions that were made for connections that did not come about, kept for the next ones; Core's figure.
const SPARE_MAX: usize = 10;
/// Rest after the first failure, and the longest; Core's.
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(5 * 60);
/// File of the key.
const KEY_FILE: &str = "i2p_private_key";
/// The port of all I2P addresses; Core's `I2P_SAM31_PORT`.
const PORT: u16 = 0;

/// A session, which lives as long as its connection to the bridge.
struct Session {
    id: String,
    host: Host,
    control: TcpStream,
}

impl Session {
    fn is_alive(&self) -> bool {
        // The bridge says nothing here, or closes.
        matches!(self.control.try_read(&mut [0; 64]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Held as long as a connection is: its own session, where it has one.
pub struct Lent(Option<Session>);

impl Lent {
    fn id(&self) -> Option<&str> {
        self.0.as_ref().map(|session| session.id.as_str())
    }
}

/// The way into I2P.
pub struct I2p {
    bridge: Option<SamBridge>,
    /// The session under the address that stays.
    lasting: Mutex<Option<Session>>,
    spare: Mutex<Vec<Session>>,
}

impl I2p {
    pub fn new(bridge: Option<SamBridge>) -> I2p {
        I2p { bridge, lasting: Mutex::new(None), spare: Mutex::new(Vec::new()) }
    }

    /// A stream to an endpoint, and what has to be kept as long as it is used.
    pub async fn connect<C: Chain>(&self, shared: &Shared<C>, to: &Endpoint) -> io::Result<(TcpStream, Lent)> {
        let bridge = self.bridge.ok_or(io::ErrorKind::Unsupported)?;
        // The bridge knows no ports: another one would be a lie about whom we speak with.
        if to.port != PORT {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "I2P addresses have the port 0"));
        }
        let mut lent = Lent(None);
        let id = match bridge.accepts {
            true => self.lasting_id(shared, bridge).await?.0,
            false => {
                lent = Lent(Some(self.session_for_one(shared, bridge).await?));
                lent.id().expect("just put there").to_owned()
            }
        };
        match talk(bridge.address, SamWish::Connect { id, name: to.host.to_string() }).await {
            Ok((stream, _)) => Ok((stream, lent)),
            Err(error) => {
                self.after_failure(&error, lent).await;
                Err(error)
            }
        }
    }

    /// The identifier and address of the session that stays, made anew where it is gone.
    async fn lasting_id<C: Chain>(&self, shared: &Shared<C>, bridge: SamBridge) -> io::Result<(String, Host)> {
        let mut lasting = self.lasting.lock().await;
        if let Some(session) = lasting.as_ref().filter(|session| session.is_alive()) {
            return Ok((session.id.clone(), session.host));
        }
        *lasting = None;
        let key = read_key(&shared.config)?;
        let id = shared.with(|state, _| state.random_text())[..10].to_owned();
        let wish = SamWish::Session { id: id.clone(), key: key.clone() };
        let (control, SamStep::Session { host, key: used }) = talk(bridge.address, wish).await? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if key.is_none() {
            write_key(&shared.config, &used)?;
        }
        *lasting = Some(Session { id: id.clone(), host, control });
        Ok((id, host))
    }

    async fn session_for_one<C: Chain>(&self, shared: &Shared<C>, bridge: SamBridge) -> io::Result<Session> {
        while let Some(session) = self.spare.lock().await.pop() {
            if session.is_alive() {
                return Ok(session);
            }
        }
        let id = shared.with(|state, _| state.random_text())[..10].to_owned();
        match talk(bridge.address, SamWish::TransientSession { id: id.clone() }).await? {
            (control, SamStep::Session { host, .. }) => Ok(Session { id, host, control }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// A session the bridge does not know is made anew next time; one that was not used up serves the next connection.
    async fn after_failure(&self, error: &io::Error, lent: Lent) {
        let of_bridge = error.get_ref().and_then(|inner| inner.downcast_ref::<SamError>());
        let is_over = of_bridge.is_some_and(SamError::ends_session);
        match lent.0 {
            Some(session) if !is_over => {
                let mut spare = self.spare.lock().await;
                if spare.len() < SPARE_MAX {
                    spare.push(session);
                }
            }
            Some(_) => {}
            None if is_over => *self.lasting.lock().await = None,
            None => {}
        }
    }

    /// Waits for the next one who connects; `told` gets our address once others can.
    async fn next_guest<C: Chain>(
        &self,
        shared: &Shared<C>,
        bridge: SamBridge,
        told: impl FnOnce(Host),
    ) -> io::Result<(TcpStream, Host)> {
        let (id, own) = self.lasting_id(shared, bridge).await?;
        let result = async {
            let (mut stream, _) = talk(bridge.address, SamWish::Accept { id }).await?;
            told(own);
            // Somebody comes within a second or within a year.
            let line = read_line(&mut stream, None).await?;
            let host = host_of_destination(&line).map_err(io::Error::other)?;
            Ok((stream, host))
        };
        let result = result.await;
        if let Err(error) = &result {
            self.after_failure(error, Lent(None)).await;
        }
        result
    }
}

/// Takes connections of others until the shell ends.
pub async fn accept<C: Chain + Send + 'static>(shared: Arc<Shared<C>>) {
    let Some(bridge) = shared.config.sam else { return };
    let mut rest = REST;
    let mut own = None;
    loop {
        let tell = |host| {
            let endpoint = Endpoint { host, port: PORT };
            shared.with(|state, _| state.gossip.add_own(endpoint, SCORE_GIVEN));
            own = Some(endpoint);
        };
        match shared.i2p.next_guest(&shared, bridge, tell).await {
            Ok((stream, host)) => {
                rest = REST;
                welcome(&shared, stream, host);
            }
            Err(error) => {
                shared.with(|state, _| {
                    state.remark(format!("I2P: {error}"));
                    own.take().inspect(|own| state.gossip.remove_own(own));
                });
                tokio::time::sleep(rest).await;
                rest = (2 * rest).min(REST_MAX);
            }
        }
    }
}

fn welcome<C: Chain + Send + 'static>(shared: &Arc<Shared<C>>, stream: TcpStream, host: Host) {
    let remote = Endpoint { host, port: PORT };
    let permissions = permissions(&shared.config, &host, true);
    let setup = Setup {
        id: PeerId(0),
        kind: ConnectionKind::Inbound,
        remote,
        told_remote: Endpoint::NONE,
        permissions,
        encrypted: shared.config.encrypts,
    };
    let opened = shared.with(|state, now| {
        let is_admitted = state.admit(&remote, permissions, &shared.config, now);
        let opening = Opening { setup, bound: None, port: PORT, added: None };
        is_admitted.then(|| state.open(opening, now))
    });
    if let Some((id, wake)) = opened {
        tokio::spawn(carry(shared.clone(), id, wake, stream));
    }
}

/// One conversation with the bridge, to its end.
async fn talk(bridge: SocketAddr, wish: SamWish) -> io::Result<(TcpStream, SamStep)> {
    let mut stream = tokio::time::timeout(REPLY_TIMEOUT, TcpStream::connect(bridge)).await??;
    let (mut sam, first) = Sam::new(wish);
    stream.write_all(first.as_bytes()).await?;
    loop {
        let line = read_line(&mut stream, Some(REPLY_TIMEOUT)).await?;
        match sam.take(&line).map_err(io::Error::other)? {
            SamStep::Send(line) => stream.write_all(line.as_bytes()).await?,
            done => return Ok((stream, done)),
        }
    }
}

/// A line without its end, and not a byte more: what follows may be the peer's.
async fn read_line(stream: &mut TcpStream, limit: Option<Duration>) -> io::Result<String> {
    let read = async {
        let mut line = Vec::new();
        loop {
            match stream.read_u8().await? {
                b'\n' => break,
                _ if line.len() == SAM_LINE_BYTES_MAX => return Err(io::ErrorKind::InvalidData.into()),
                byte => line.push(byte),
            }
        }
        String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into())
    };
    match limit {
        Some(limit) => tokio::time::timeout(limit, read).await?,
        None => read.await,
    }
}

/// The key of the file; none where there is no file yet.
fn read_key(config: &Config) -> io::Result<Option<Vec<u8>>> {
    let Some(directory) = &config.directory else { return Ok(None) };
    match std::fs::read(directory.join(KEY_FILE)) {
        Ok(key) => Ok(Some(key)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_key(config: &Config, key: &[u8]) -> io::Result<()> {
    match &config.directory {
        Some(directory) => super::files::write_secret(&directory.join(KEY_FILE), key),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn a_line_is_read_to_its_end_and_not_beyond_and_not_for_ever() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut near, _) = listener.accept().await.unwrap();
            far.write_all(b"one\ntwo\nrest").await.unwrap();
            assert_eq!(read_line(&mut near, Some(REPLY_TIMEOUT)).await.unwrap(), "one");
            assert_eq!(read_line(&mut near, None).await.unwrap(), "two");
            let mut rest = [0; 4];
            near.read_exact(&mut rest).await.unwrap();
            assert_eq!(&rest, b"rest", "what follows is the peer's");
            let silence = read_line(&mut near, Some(Duration::from_millis(20))).await.unwrap_err();
            assert_eq!(silence.kind(), io::ErrorKind::TimedOut);
            far.write_all(b"\xff\xfe\n").await.unwrap();
            assert_eq!(read_line(&mut near, None).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
            let feed = async {
                let mut line = vec![b'x'; SAM_LINE_BYTES_MAX];
                line.extend(b"\nx");
                far.write_all(&line).await.unwrap();
                far.write_all(&line[..SAM_LINE_BYTES_MAX]).await.unwrap();
                drop(far);
            };
            let read = async {
                let longest = read_line(&mut near, None).await.unwrap();
                (longest.len(), read_line(&mut near, None).await.unwrap_err().kind())
            };
            let ((), got) = tokio::join!(feed, read);
            assert_eq!(got, (SAM_LINE_BYTES_MAX, io::ErrorKind::InvalidData), "both sides of the limit");
        });
    }
}
