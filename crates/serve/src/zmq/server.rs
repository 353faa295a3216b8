//! The sockets of the publisher.
//!
//! In:     [`Notifier`]s; messages.
//! Out:    [`Publisher`]: each message goes to the subscribers of its topic, at each address of it.
//! Fails:  [`start`], where an address cannot be bound, by name. A subscriber that breaks the protocol, or takes nothing for
//!         [`WRITE_TIMEOUT`], is disconnected; its library connects again.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::queue::Queue;
use super::wire::{self, BadPeer, Peer, Said};
use super::{Address, Notifier, Topic};

/// Subscribers of one address.
pub const SUBSCRIBERS_MAX: usize = 64;
/// A subscriber must have introduced itself by then.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A subscriber must have taken a message by then.
const WRITE_TIMEOUT: Duration = Duration::from_secs(300);
/// Pause after a connection could not be taken: too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// One address and its subscribers.
#[derive(Default)]
struct Socket {
    queues: Mutex<Vec<Weak<Queue>>>,
}

impl Socket {
    /// A queue for a new subscriber; none where there are too many.
    fn admit(&self) -> Option<Arc<Queue>> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| queue.strong_count() > 0);
        if queues.len() >= SUBSCRIBERS_MAX {
            return None;
        }
        let queue = Arc::new(Queue::default());
        queues.push(Arc::downgrade(&queue));
        Some(queue)
    }

    fn push(&self, topic: Topic, message: &Arc<[u8]>, high_water_mark: usize) {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        for queue in queues.iter().filter_map(Weak::upgrade) {
            queue.push(topic.name(), message, high_water_mark);
        }
    }
}

/// A topic at an address.
struct Outlet {
    topic: Topic,
    high_water_mark: usize,
    socket: Arc<Socket>,
    /// Messages so far.
    number: AtomicU32,
}

/// Publishes to all subscribers; dropping it closes their connections.
pub struct Publisher {
    outlets: Vec<Outlet>,
    notifiers: Vec<Notifier>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    /// Sends a body to the subscribers of a topic.
    pub fn publish(&self, topic: Topic, body: &[u8]) {
        for outlet in self.outlets.iter().filter(|outlet| outlet.topic == topic) {
            let number = outlet.number.fetch_add(1, Ordering::Relaxed).to_le_bytes();
            let message = wire::message(&[topic.name().as_bytes(), body, &number]);
            outlet.socket.push(topic, &message.into(), outlet.high_water_mark);
        }
    }

    /// True where somebody may hear of a topic.
    pub fn has(&self, topic: Topic) -> bool {
        self.outlets.iter().any(|outlet| outlet.topic == topic)
    }

    /// What is published where; a port that was left to the system is the one it gave.
    pub fn notifiers(&self) -> &[Notifier] {
        &self.notifiers
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of it has been logged, and ends the node by itself.
            let _ = thread.join();
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    Ipc(UnixListener),
}

fn bind(address: &Address) -> io::Result<(Listener, Address)> {
    match address {
        Address::Tcp(at) => {
            let listener = std::net::TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            let at = listener.local_addr()?;
            Ok((Listener::Tcp(TcpListener::from_std(listener)?), Address::Tcp(at)))
        }
        Address::Ipc(path) => {
            // A socket that an earlier run left is nobody's; anything else of that name stays.
            use std::os::unix::fs::FileTypeExt;
            if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
                && std::os::unix::net::UnixStream::connect(path).is_err()
            {
                std::fs::remove_file(path)?;
            }
            Ok((Listener::Ipc(UnixListener::bind(path)?), address.clone()))
        }
    }
}

/// Binds every address and serves subscribers on a thread of its own, named `zmq`.
pub fn start(mut notifiers: Vec<Notifier>) -> Result<Publisher, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no ZeroMQ: {error}"))?;
    let mut sockets: HashMap<Address, (Arc<Socket>, Address)> = HashMap::new();
    let mut outlets = Vec::new();
    for notifier in &mut notifiers {
        let (socket, bound) = match sockets.get(&notifier.address) {
            Some(known) => known.clone(),
            None => {
                let _inside = runtime.enter();
                let (listener, bound) = bind(&notifier.address).map_err(|error| {
                    format!(
                        "ZeroMQ cannot listen at {} (setting zmq_pub_{}): {error}",
                        notifier.address,
                        notifier.topic.name()
                    )
                })?;
                let socket = Arc::new(Socket::default());
                runtime.spawn(accept(listener, socket.clone()));
                sockets.entry(notifier.address.clone()).or_insert((socket, bound)).clone()
            }
        };
        notifier.address = bound;
        let (topic, high_water_mark) = (notifier.topic, notifier.high_water_mark);
        outlets.push(Outlet { topic, high_water_mark, socket, number: AtomicU32::new(0) });
    }
    let (stop, stopped) = oneshot::channel::<()>();
    let run = move || {
        // The sender is dropped, never used.
        let _ = runtime.block_on(stopped);
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name("zmq".to_owned()).spawn(run);
    let thread = thread.map_err(|error| format!("no thread for ZeroMQ: {error}"))?;
    Ok(Publisher { outlets, notifiers, stop: Some(stop), thread: Some(thread) })
}

async fn accept(listener: Listener, socket: Arc<Socket>) {
    loop {
        let accepted = match &listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                let _ = stream.set_nodelay(true); // slower without, and no worse
                let (reader, writer) = stream.into_split();
                spawn(reader, writer, &socket);
            }),
            Listener::Ipc(listener) => listener.accept().await.map(|(stream, _)| {
                let (reader, writer) = stream.into_split();
                spawn(reader, writer, &socket);
            }),
        };
        if accepted.is_err() {
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

fn spawn<R, W>(reader: R, writer: W, socket: &Socket)
where
    R: AsyncReadExt + Unpin + Send + 'static,
    W: AsyncWriteExt + Unpin + Send + 'static,
{
    if let Some(queue) = socket.admit() {
        tokio::spawn(async move {
            // Whatever ends it, the subscriber is gone, and hears nothing more.
            let _ = Session { reader, writer, queue, peer: Peer::default() }.run().await;
        });
    }
}

/// Why a session ended.
enum Ended {
    Io,
    Peer(#[allow(dead_code)] BadPeer),
    Slow,
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Ended {
        Ended::Io
    }
}

impl From<BadPeer> for Ended {
    fn from(bad: BadPeer) -> Ended {
        Ended::Peer(bad)
    }
}

/// One subscriber.
struct Session<R, W> {
    reader: R,
    writer: W,
    queue: Arc<Queue>,
    peer: Peer,
}

impl<R: AsyncReadExt + Unpin, W: AsyncWriteExt + Unpin> Session<R, W> {
    async fn run(mut self) -> Result<(), Ended> {
        self.writer.write_all(&wire::greeting()).await?;
        let introduced = async {
            while !self.peer.is_open() {
                self.read().await?;
            }
            Ok(())
        };
        timeout(HANDSHAKE_TIMEOUT, introduced)
            .await
            .map_err(|_| Ended::Slow)
            .and_then(|done: Result<(), Ended>| done)?;
        let mut bytes = [0; 1024];
        loop {
            let message = tokio::select! {
                read = self.reader.read(&mut bytes) => {
                    let count = read?;
                    self.take(&bytes[..count]).await?;
                    continue;
                }
                message = self.queue.next() => message,
            };
            self.write(&message).await?;
        }
    }

    async fn read(&mut self) -> Result<(), Ended> {
        let mut bytes = [0; 1024];
        let count = self.reader.read(&mut bytes).await?;
        self.take(&bytes[..count]).await
    }

    /// Deals with what came; nothing means that the other side has closed.
    async fn take(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        if bytes.is_empty() {
            return Err(Ended::Io);
        }
        self.peer.feed(bytes);
        while let Some(said) = self.peer.next()? {
            match said {
                Said::Greeting => self.write(&wire::ready()).await?,
                Said::Subscribe(prefix) => {
                    if !self.queue.subscribe(prefix) {
                        return Err(BadPeer("too many subscriptions").into());
                    }
                }
                Said::Cancel(prefix) => self.queue.cancel(&prefix),
                Said::Ping(context) => self.write(&wire::pong(&context)).await?,
                Said::Ready | Said::Nothing => {}
            }
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        Ok(timeout(WRITE_TIMEOUT, self.writer.write_all(bytes)).await.map_err(|_| Ended::Slow)??)
    }
}
