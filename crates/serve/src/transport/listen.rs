//! Where clients come in: ports and sockets in the file system, each with its framing, with TLS or without.
//!
//! In:     a [`Door`].
//! Out:    a [`Listener`] that hands over sockets with their [`Origin`].
//! Fails:  where a port or path cannot be bound; a single connection fails alone.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, UnixListener};

use super::Framing;

/// Longest path of a socket in the file system, in bytes (`sockaddr_un`, without the closing zero).
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Connections that may wait to be accepted: all clients come back at once when a server has started again, and each that
/// finds no room tries again a second later. The system allows 4,096 unless it is told otherwise.
const BACKLOG: u32 = 4096;

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A port; 0 takes a free one.
    Tcp(SocketAddr),
    /// A socket in the file system, for the owner of the node only.
    Unix(PathBuf),
}

/// One way in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// Where.
    pub place: Place,
    /// How messages are told apart.
    pub framing: Framing,
    /// With TLS.
    pub has_tls: bool,
    /// Everybody here comes through Tor, whatever the socket says.
    pub is_onion: bool,
}

impl Door {
    /// Lines over TCP without TLS.
    pub fn plain(address: SocketAddr) -> Door {
        Door { place: Place::Tcp(address), framing: Framing::Lines, has_tls: false, is_onion: false }
    }

    /// The name of the way in, as settings, metrics and `assay clients` call it.
    pub fn name(&self) -> &'static str {
        match (self.framing, self.has_tls, &self.place) {
            _ if self.is_onion => "onion",
            (_, _, Place::Unix(_)) => "unix",
            (Framing::Lines, false, _) => "tcp",
            (Framing::Lines, true, _) => "tls",
            (Framing::WebSocket, false, _) => "ws",
            (Framing::WebSocket, true, _) => "wss",
            (Framing::Http, false, _) => "http",
            (Framing::Http, true, _) => "https",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(address) => write!(f, "{address}"),
            Place::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Where a client comes from, as far as it can be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// An address, an IPv4 one always written as such.
    Address(IpAddr),
    /// Through the onion service: all of them seem to be on this machine.
    Onion,
    /// Through the socket in the file system.
    Unix,
    /// From a balancer that has not said yet for whom it speaks, or speaks for itself.
    Balancer,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Address(address) => write!(f, "{address}"),
            Origin::Onion => write!(f, "onion"),
            Origin::Unix => write!(f, "unix"),
            Origin::Balancer => write!(f, "balancer"),
        }
    }
}

/// The half of a socket that is read.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
/// The half that is written.
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// A door that is open.
pub struct Listener {
    door: Door,
    socket: Bound,
}

enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Binds; must be called within a runtime.
    pub async fn bind(mut door: Door) -> io::Result<Listener> {
        let socket = match &mut door.place {
            Place::Tcp(address) => {
                let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                // As the library's own way to bind: a server that starts again may have its port at once.
                socket.set_reuseaddr(true)?;
                socket.bind(*address)?;
                let listener = socket.listen(BACKLOG)?;
                *address = listener.local_addr()?;
                Bound::Tcp(listener)
            }
            Place::Unix(path) => Bound::Unix(bind_unix(path)?, path.clone()),
        };
        Ok(Listener { door, socket })
    }

    /// The door, with the port that the system gave for port 0.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// The next connection.
    pub async fn accept(&self) -> io::Result<(Reader, Writer, Origin)> {
        match &self.socket {
            Bound::Tcp(listener) => {
                let (socket, from) = listener.accept().await?;
                // Answers are small and waited for: never hold them back to fill a packet. A failure means that the client is
                // gone.
                let _ = socket.set_nodelay(true);
                let (reader, writer) = socket.into_split();
                let origin = if self.door.is_onion { Origin::Onion } else { Origin::Address(from.ip().to_canonical()) };
                Ok((Box::new(reader), Box::new(writer), origin))
            }
            Bound::Unix(listener, _) => {
                let (reader, writer) = listener.accept().await?.0.into_split();
                Ok((Box::new(reader), Box::new(writer), Origin::Unix))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Bound::Unix(_, path) = &self.socket {
            // It may have been removed by hand.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Binds a socket that only its owner may use. One left by a killed process is replaced; any other file is not.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(data) if data.file_type().is_socket() => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another program listens there"));
            }
            std::fs::remove_file(path)?;
        }
        Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
