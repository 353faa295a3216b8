//! One connection's layers on top of each other: a balancer's header, TLS, a framing of messages.
//!
//! In:     bytes as the socket hands them over; pieces of answers.
//! Out:    whole messages; bytes for the socket; who is behind a balancer.
//! Fails:  [`Refusal`]; from then on nothing more is read, and what the layers have to say about it waits to be sent.

use std::borrow::Cow;
use std::sync::Arc;

use rustls::ServerConfig;

use super::frames::code;
use super::http::Http;
use super::lines::Lines;
use super::proxy::{Behind, ProxyHeader};
use super::room::Room;
use super::tls::Tls;
use super::websocket::WebSocket;
use super::{Framing, Refusal};

/// What a channel is made of.
#[derive(Clone)]
pub struct Layers {
    /// The connection begins with a balancer's header.
    pub behind_balancer: bool,
    /// TLS, with this configuration.
    pub tls: Option<Arc<ServerConfig>>,
    /// How messages are told apart.
    pub framing: Framing,
}

enum Messages {
    Lines(Lines),
    WebSocket(Box<WebSocket>),
    Http(Box<Http>),
}

/// One connection without its socket.
pub struct Channel {
    proxy: Option<ProxyHeader>,
    behind: Option<Behind>,
    tls: Option<Tls>,
    messages: Messages,
    refused: Option<Refusal>,
    farewell: Option<(u16, &'static str)>,
}

impl Channel {
    /// Nothing read yet.
    pub fn new(layers: &Layers, room: Room) -> Result<Channel, Refusal> {
        Ok(Channel {
            proxy: layers.behind_balancer.then(ProxyHeader::default),
            behind: None,
            tls: layers.tls.clone().map(Tls::new).transpose()?,
            messages: match layers.framing {
                Framing::Lines => Messages::Lines(Lines::new(room)),
                Framing::WebSocket => Messages::WebSocket(Box::new(WebSocket::new(room))),
                Framing::Http => Messages::Http(Box::new(Http::new(room))),
            },
            refused: None,
            farewell: None,
        })
    }

    /// Takes bytes from the socket. What is wrong with them is said by [`Channel::next`], behind the messages before it.
    pub fn receive(&mut self, mut bytes: &[u8]) {
        if self.refused.is_none() && !self.is_closed() {
            let taken = self.through_layers(&mut bytes);
            self.refused = taken.err();
        }
    }

    fn through_layers(&mut self, bytes: &mut &[u8]) -> Result<(), Refusal> {
        if let Some(proxy) = &mut self.proxy {
            let Some(behind) = proxy.take(bytes)? else { return Ok(()) };
            (self.proxy, self.behind) = (None, Some(behind));
        }
        let messages = &mut self.messages;
        match &mut self.tls {
            Some(tls) => tls.receive(bytes, |plain| messages.push(plain)),
            None => messages.push(bytes),
        }
    }

    /// The next whole message; none where more must come first.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        // Messages that came before what is wrong are answered first.
        let next = match &mut self.messages {
            Messages::Lines(lines) => lines.next(),
            Messages::WebSocket(socket) => Ok(socket.next()),
            Messages::Http(http) => http.next(),
        };
        match (next, &self.refused) {
            (Ok(None), Some(refused)) => Err(refused.clone()),
            (next, _) => next,
        }
    }

    /// Who is behind the balancer, once its header was read.
    pub fn behind(&self) -> Option<Behind> {
        self.behind
    }

    /// True once every layer's opening is done, so that only messages are missing.
    pub fn is_open(&self) -> bool {
        let messages_open = match &self.messages {
            Messages::WebSocket(socket) => socket.is_open(),
            Messages::Lines(_) | Messages::Http(_) => true,
        };
        self.proxy.is_none() && self.tls.as_ref().is_none_or(Tls::is_open) && messages_open
    }

    /// True once the client has said, in its layer's words, that no more will come.
    pub fn is_closed(&self) -> bool {
        let messages_closed = match &self.messages {
            Messages::Lines(_) => false,
            Messages::WebSocket(socket) => socket.is_closed(),
            Messages::Http(http) => http.is_closed(),
        };
        messages_closed || self.tls.as_ref().is_some_and(Tls::is_closed)
    }

    /// True while a message has begun and not ended.
    pub fn is_partial(&self) -> bool {
        match &self.messages {
            Messages::Lines(lines) => lines.is_partial(),
            Messages::WebSocket(socket) => socket.is_partial(),
            Messages::Http(http) => http.is_partial(),
        }
    }

    /// True where something besides answers waits to be sent.
    pub fn has_output(&self) -> bool {
        let messages = match &self.messages {
            Messages::Lines(_) => false,
            Messages::WebSocket(socket) => socket.has_output(),
            Messages::Http(http) => http.has_output(),
        };
        messages || self.tls.as_ref().is_some_and(Tls::has_output)
    }

    /// The bytes for the socket that carry a piece of an answer, and whatever else waited. `is_end` says that the answer to
    /// the oldest message ends here.
    pub fn seal<'a>(&mut self, piece: &'a [u8], is_end: bool) -> Cow<'a, [u8]> {
        let framed = match &mut self.messages {
            Messages::Lines(_) => Cow::Borrowed(piece),
            Messages::WebSocket(socket) => {
                let mut out = Vec::new();
                socket.send(piece, &mut out);
                Cow::Owned(out)
            }
            Messages::Http(http) => {
                let mut out = Vec::new();
                http.send(piece, is_end, &mut out);
                Cow::Owned(out)
            }
        };
        match &mut self.tls {
            None => framed,
            Some(tls) => {
                let mut out = Vec::new();
                tls.send(&framed, &mut out);
                Cow::Owned(out)
            }
        }
    }

    /// Remembers with which code and words of a WebSocket to say farewell; the first to know says it.
    pub fn close_with(&mut self, code: u16, reason: &'static str) {
        self.farewell.get_or_insert((code, reason));
    }

    /// The last bytes for the socket.
    pub fn farewell(&mut self) -> Vec<u8> {
        let mut framed = Vec::new();
        let (code, reason) = self.farewell.unwrap_or((code::NORMAL, ""));
        match &mut self.messages {
            Messages::Lines(_) => {}
            Messages::WebSocket(socket) => socket.close(code, reason, &mut framed),
            Messages::Http(http) => http.send(&[], false, &mut framed),
        }
        let Some(tls) = &mut self.tls else { return framed };
        let mut out = Vec::new();
        tls.send(&framed, &mut out);
        tls.close(&mut out);
        out
    }
}

impl Messages {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        match self {
            Messages::Lines(lines) => lines.push(bytes),
            Messages::WebSocket(socket) => return socket.push(bytes),
            Messages::Http(http) => http.push(bytes),
        }
        Ok(())
    }
}
