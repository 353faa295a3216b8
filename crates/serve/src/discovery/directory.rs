//! The book of servers as sessions and visits share it.
//!
//! In:     what the settings wish, sessions' questions and announcements, what came of visits.
//! Out:    rows for clients, the next visit, the file.
//! Fails:  where the file cannot be written.

use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::Wish;
use super::book::{Book, Counts, Outcome, Visitee};
use super::server::{Host, Server};
use crate::kept;
use crate::transport::listen::Origin;

/// What is known of other servers; empty where no part is taken in discovery.
pub struct Directory {
    wish: Option<Wish>,
    book: Mutex<Book>,
    nothing: Wish,
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Directory {
    /// With the seeds of the wish, and what its file remembers; `ours` are told of as ourselves.
    pub fn new(wish: Option<Wish>, ours: Vec<Server>, seed: u64) -> Directory {
        let (accepts_local, takes_onions) =
            wish.as_ref().map_or((false, false), |wish| (wish.accepts_local, wish.onion_proxy.is_some()));
        let mut book = Book::new(ours, accepts_local, takes_onions, seed);
        if let Some(wish) = &wish {
            book.seed(&wish.seeds);
            // One that cannot be read is as good as none: the seeds are asked again.
            let text = wish.file.as_ref().and_then(|path| kept::read(path).ok().flatten());
            book.read(&text.unwrap_or_default(), now_s());
        }
        Directory { wish, book: Mutex::new(book), nothing: Wish::default() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True where part is taken in discovery.
    pub fn is_on(&self) -> bool {
        self.wish.is_some()
    }

    /// What part is taken.
    pub fn wish(&self) -> &Wish {
        self.wish.as_ref().unwrap_or(&self.nothing)
    }

    /// Ourselves.
    pub fn ours(&self) -> Vec<Server> {
        self.book().ours().to_vec()
    }

    /// One more way to ourselves, which was not known at the start.
    pub fn also_ours(&self, server: Server) {
        self.book().also_ours(server);
    }

    /// Rows for whoever asks for servers.
    pub fn told(&self, origin: Option<Origin>) -> Vec<Value> {
        match self.is_on() {
            true => self.book().told(origin == Some(Origin::Onion), now_s()),
            false => Vec::new(),
        }
    }

    /// A server announces itself; true where it will be visited.
    pub fn announce(&self, servers: &[Server], origin: Option<Origin>) -> bool {
        let from: Option<IpAddr> = match origin {
            Some(Origin::Address(address)) => Some(address),
            _ => None,
        };
        self.is_on() && self.book().announce(servers, from, now_s())
    }

    /// Whom to visit now.
    pub fn next(&self) -> Option<Visitee> {
        self.book().next(now_s())
    }

    /// What came of a visit; true where the file is to be written.
    pub fn ended(&self, host: &Host, outcome: Outcome) -> bool {
        self.book().ended(host, outcome, now_s())
    }

    /// How many are known of each kind.
    pub fn counts(&self) -> Counts {
        self.book().counts(now_s())
    }

    /// Writes the file.
    pub fn save(&self) -> io::Result<()> {
        let Some(path) = self.wish().file.as_ref() else { return Ok(()) };
        let text = self.book().text();
        kept::write_whole(path, text.as_bytes(), 0o600)
    }
}
