//! A peer that says what it is told to, in plain frames, over a socket.
//!
//! In:     messages to send; what to wait for.
//! Out:    messages that come, with the moment their last byte was read.
//! Fails:  when the node closes the connection, or what is waited for does not come within [`PATIENCE`].

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use net::Message;
use net::transport::{Received, Transport};
use net::wire::{Endpoint, SendCompact, Services, Version};

use crate::{BenchError, at};

/// Longest wait for a message.
const PATIENCE: Duration = Duration::from_secs(120);

/// The peer's side of one connection.
pub struct Scripted {
    stream: TcpStream,
    transport: Transport,
    /// Messages that were read and not asked for yet, oldest first.
    heard: std::collections::VecDeque<(Instant, Message)>,
    buffer: Vec<u8>,
}

impl Scripted {
    /// Connects and shakes hands. It wants compact blocks at once, and knows wtxids.
    pub fn connect(to: SocketAddr, magic: [u8; 4], nonce: u64) -> Result<Scripted, BenchError> {
        let stream = TcpStream::connect(to).map_err(at(to.to_string()))?;
        let options = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
        options.map_err(at(to.to_string()))?;
        let heard = std::collections::VecDeque::new();
        let mut peer = Scripted { stream, transport: Transport::plain(magic), heard, buffer: vec![0; 1 << 18] };
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        peer.send(&Message::Version(Version {
            protocol: 70_016,
            services: Services::NETWORK.and(Services::WITNESS),
            time_s: time_s as i64,
            receiver_services: Services::NONE,
            receiver: Endpoint::NONE,
            nonce,
            user_agent: b"/assay-bench:1/".to_vec(),
            start_height: 0,
            relay: true,
        }))?;
        peer.wait_for("version", |message| matches!(message, Message::Version(_)))?;
        peer.send(&Message::WtxidRelay)?;
        peer.send(&Message::Verack)?;
        peer.wait_for("verack", |message| matches!(message, Message::Verack))?;
        peer.send(&Message::SendCompact(SendCompact { announce: true, version: 2 }))?;
        peer.settle()?;
        Ok(peer)
    }

    /// Waits until the node has read all that was sent, and answers what it asked meanwhile.
    pub fn settle(&mut self) -> Result<(), BenchError> {
        self.send(&Message::Ping(Some(7)))?;
        self.wait_for("pong", |message| matches!(message, Message::Pong(_))).map(drop)
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Message) -> Result<(), BenchError> {
        let mut frame = Vec::new();
        self.transport.send(message, &mut frame);
        self.send_frame(&frame)
    }

    /// The frames of messages, made beforehand.
    pub fn frames<'a>(&mut self, messages: impl IntoIterator<Item = &'a Message>) -> Vec<u8> {
        let mut frames = Vec::new();
        messages.into_iter().for_each(|message| self.transport.send(message, &mut frames));
        frames
    }

    /// Sends frames made beforehand.
    pub fn send_frame(&mut self, frame: &[u8]) -> Result<(), BenchError> {
        self.stream.write_all(frame).map_err(at("a scripted peer"))
    }

    /// The next message that satisfies, and when it was here; others are left away, pings and questions for headers answered.
    pub fn wait_for(
        &mut self,
        what: &str,
        wanted: impl Fn(&Message) -> bool,
    ) -> Result<(Instant, Message), BenchError> {
        let before = Instant::now();
        while before.elapsed() < PATIENCE {
            while let Some((when, message)) = self.heard.pop_front() {
                match message {
                    Message::Ping(Some(nonce)) => self.send(&Message::Pong(Some(nonce)))?,
                    // It has nothing that the node lacks; whoever does not answer is dropped in time.
                    Message::GetHeaders(_) => self.send(&Message::Headers(Vec::new()))?,
                    _ => {}
                }
                if wanted(&message) {
                    return Ok((when, message));
                }
            }
            self.read()?;
        }
        Err(BenchError::Wrong(format!("no {what} came within {} s", PATIENCE.as_secs())))
    }

    fn read(&mut self) -> Result<(), BenchError> {
        let count = self.stream.read(&mut self.buffer).map_err(at("a scripted peer"))?;
        let when = Instant::now();
        if count == 0 {
            return Err(at("a scripted peer")(io::ErrorKind::UnexpectedEof.into()));
        }
        let mut received = Vec::new();
        let taken = self.transport.receive(&self.buffer[..count], &mut Vec::new(), &mut received);
        taken.map_err(|error| BenchError::Wrong(format!("a node sends what is no frame: {error}")))?;
        for frame in received {
            let Received::Frame { command, payload, .. } = frame else { continue };
            // What this kit does not know is not what it waits for.
            if let Ok(message) = Message::parse(command, payload) {
                self.heard.push_back((when, message));
            }
        }
        Ok(())
    }
}
