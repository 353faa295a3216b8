//! What lies between a socket and the messages in it, as machines that get bytes and give bytes.
//!
//! In:     bytes as a socket hands them over, answers as a session makes them.
//! Out:    whole messages; bytes for the socket; the address a balancer speaks for.
//! Fails:  [`Refusal`], with the farewell of that layer already among the bytes for the socket.
//!
//! A [`channel::Channel`] is a stack: the header of a balancer ([`proxy`]), TLS ([`tls`]), and a framing of messages
//! ([`lines`], [`websocket`], [`http`]). None of them has a socket or a clock: the session keeps the timers. [`listen`]
//! and [`certificate`] are the two that know the world.

pub mod room;

pub mod frames;
pub mod head;
pub mod http;
pub mod lines;
pub mod proxy;
pub mod tls;
pub mod websocket;

pub mod channel;

pub mod certificate;
pub mod listen;

use std::fmt;

/// Why a channel takes no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A message is longer than allowed, or all unfinished ones together are.
    TooLong,
    /// What a balancer should have said before anything else is not there, or wrong.
    ProxyHeader(&'static str),
    /// The handshake or a record of TLS is wrong.
    Tls(String),
    /// What was sent is no WebSocket.
    WebSocket(&'static str),
    /// What was sent is no request of HTTP that is served here.
    Http(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TooLong => write!(f, "a message is too long"),
            Refusal::ProxyHeader(why) => write!(f, "PROXY header: {why}"),
            Refusal::Tls(why) => write!(f, "TLS: {why}"),
            Refusal::WebSocket(why) => write!(f, "WebSocket: {why}"),
            Refusal::Http(why) => write!(f, "HTTP: {why}"),
        }
    }
}

/// How messages are told apart in a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// One message a line.
    Lines,
    /// One message a WebSocket message (RFC 6455).
    WebSocket,
    /// One message the body of each POST request.
    Http,
}
