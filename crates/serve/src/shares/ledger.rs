//! The accounts of all clients, who may come in, and who has had enough.
//!
//! In:     sessions that come and go, work done for them, the time since the server started.
//! Out:    a [`Seat`] for each session, a [`Standing`] after each piece of work, reports for the operator.
//! Fails:  [`Turned`], where somebody may not come in.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use super::budget::Account;
use super::client::{Client, ClientReport};
use super::cost::{CONNECTION, Work};
use super::{ADDRESS_SHARE, GROUP_SHARE, ShareLimits, WAIT_MAX};
use crate::rpc::auth::Subnet;
use crate::transport::listen::Origin;

/// Accounts of addresses and neighbourhoods; above it, those with nothing to remember go, and newcomers have none. About
/// 100 bytes each.
const ACCOUNTS_MAX: usize = 200_000;
/// Bans; more are refused.
const BANS_MAX: usize = 10_000;

/// What an account is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Address(IpAddr),
    Group(IpAddr),
    Onion,
}

/// The neighbourhood of an address: /24 of IPv4, /48 of IPv6.
fn group(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, 0))
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
        }
    }
}

/// The accounts besides its own that a session is charged to, with their share of a session's budget.
fn holders(origin: Origin) -> Vec<(Holder, u32)> {
    match origin {
        Origin::Address(address) => {
            vec![(Holder::Address(address), ADDRESS_SHARE), (Holder::Group(group(address)), GROUP_SHARE)]
        }
        Origin::Onion => vec![(Holder::Onion, GROUP_SHARE)],
        Origin::Unix | Origin::Balancer => Vec::new(),
    }
}

/// How a client stands after a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Go on.
    Fine,
    /// Go on after this time.
    Slow(Duration),
    /// No more; in so many seconds it may come again without being slowed down.
    Over {
        /// Seconds.
        retry_s: u64,
    },
}

/// Why somebody may not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// There are as many sessions as there may be.
    Full,
    /// His address has as many as it may have.
    AddressFull,
    /// His address is banned.
    Banned,
    /// His address has had its share.
    Over {
        /// Seconds after which he may come again.
        retry_s: u64,
    },
}

impl fmt::Display for Turned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Turned::Full => f.write_str("too many sessions"),
            Turned::AddressFull => f.write_str("too many sessions of this address"),
            Turned::Banned => f.write_str("banned"),
            Turned::Over { retry_s } => write!(f, "excessive resource usage; come again in {retry_s} s"),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Entry {
    account: Account,
    sessions: usize,
}

#[derive(Default)]
struct Tables {
    accounts: HashMap<Holder, Entry>,
    clients: HashMap<u64, Arc<Client>>,
    bans: Vec<(Subnet, Option<Duration>)>,
    next: u64,
}

/// All accounts.
pub struct Ledger {
    limits: RwLock<ShareLimits>,
    tables: Mutex<Tables>,
}

/// One session's place; gone with the session.
pub struct Seat {
    ledger: Arc<Ledger>,
    client: Arc<Client>,
}

impl Ledger {
    /// Nobody is there.
    pub fn new(limits: ShareLimits) -> Ledger {
        Ledger { limits: RwLock::new(limits), tables: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits now.
    pub fn limits(&self) -> RwLockReadGuard<'_, ShareLimits> {
        self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other limits from now on, for those who are there too.
    pub fn change_limits(&self, change: impl FnOnce(&mut ShareLimits)) {
        change(&mut self.limits.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Lets a session in.
    pub fn enter(self: &Arc<Ledger>, origin: Origin, door: &'static str, now: Duration) -> Result<Seat, Turned> {
        let limits = self.limits();
        let mut tables = self.lock();
        if tables.clients.len() >= limits.sessions_max {
            return Err(Turned::Full);
        }
        tables.admit(origin, &limits, now)?;
        let id = tables.next;
        tables.next += 1;
        let client = Arc::new(Client::new(id, door, origin, now));
        tables.clients.insert(id, client.clone());
        Ok(Seat { ledger: self.clone(), client })
    }

    /// Everybody who is there, the oldest first.
    pub fn clients(&self, now: Duration) -> Vec<ClientReport> {
        let forgiven = self.limits().forgiven_ms_per_s;
        let mut clients: Vec<Arc<Client>> = self.lock().clients.values().cloned().collect();
        clients.sort_by_key(|client| client.id);
        clients.iter().map(|client| client.report(now, forgiven)).collect()
    }

    /// Ends the sessions that `chosen` names; says how many.
    pub fn kick(&self, chosen: impl Fn(&Client) -> bool) -> usize {
        let tables = self.lock();
        let kicked = tables.clients.values().filter(|client| chosen(client));
        kicked.map(|client| client.kick()).count()
    }

    /// Bans a subnet until a time after the start, or for as long as the server runs, and ends its sessions; false where
    /// there are too many bans already.
    pub fn ban(&self, subnet: Subnet, until: Option<Duration>) -> bool {
        let mut tables = self.lock();
        tables.bans.retain(|(known, _)| *known != subnet);
        if tables.bans.len() >= BANS_MAX {
            return false;
        }
        tables.bans.push((subnet, until));
        drop(tables);
        self.kick(|client| is_in(&subnet, client.origin()));
        true
    }

    /// Lifts a ban; false where there is none.
    pub fn unban(&self, subnet: Subnet) -> bool {
        let mut tables = self.lock();
        let before = tables.bans.len();
        tables.bans.retain(|(known, _)| *known != subnet);
        tables.bans.len() < before
    }

    /// The bans that hold now, and until when after the start.
    pub fn bans(&self, now: Duration) -> Vec<(Subnet, Option<Duration>)> {
        let tables = self.lock();
        let holding = tables.bans.iter().filter(|(_, until)| until.is_none_or(|until| until > now));
        holding.copied().collect()
    }
}

fn is_in(subnet: &Subnet, origin: Origin) -> bool {
    matches!(origin, Origin::Address(address) if subnet.contains(&address))
}

/// Whoever may use the socket in the file system is the node's own user, or was let in by him; a balancer counts for
/// nobody until it has said for whom it speaks.
fn is_exempt(origin: Origin, limits: &ShareLimits) -> bool {
    matches!(origin, Origin::Unix | Origin::Balancer) || limits.exempt.iter().any(|subnet| is_in(subnet, origin))
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// How an account stands, with `share` times a session's budget.
fn standing(spent_us: u64, share: u32, limits: &ShareLimits) -> Standing {
    let (soft_us, hard_us) = (us(limits.soft * share), us(limits.hard * share));
    if spent_us >= hard_us {
        let retry_s = (spent_us - soft_us.min(spent_us)) / (limits.forgiven_ms_per_s.max(1) * 1000);
        return Standing::Over { retry_s: retry_s.max(1) };
    }
    if spent_us <= soft_us {
        return Standing::Fine;
    }
    Standing::Slow(WAIT_MAX.mul_f64((spent_us - soft_us) as f64 / (hard_us - soft_us) as f64))
}

/// The worse of two.
fn worse(one: Standing, other: Standing) -> Standing {
    match (one, other) {
        (Standing::Over { retry_s: a }, Standing::Over { retry_s: b }) => Standing::Over { retry_s: a.max(b) },
        (over @ Standing::Over { .. }, _) | (_, over @ Standing::Over { .. }) => over,
        (Standing::Slow(a), Standing::Slow(b)) => Standing::Slow(a.max(b)),
        (slow @ Standing::Slow(_), _) | (_, slow) => slow,
    }
}

impl Tables {
    /// Whether somebody from there may come in; counts him where he may.
    fn admit(&mut self, origin: Origin, limits: &ShareLimits, now: Duration) -> Result<(), Turned> {
        if is_exempt(origin, limits) {
            return Ok(());
        }
        self.bans.retain(|(_, until)| until.is_none_or(|until| until > now));
        if self.bans.iter().any(|(subnet, _)| is_in(subnet, origin)) {
            return Err(Turned::Banned);
        }
        if let Origin::Address(address) = origin {
            let sessions = self.accounts.get(&Holder::Address(address)).map_or(0, |entry| entry.sessions);
            if sessions >= limits.sessions_address_max {
                return Err(Turned::AddressFull);
            }
        }
        if let Standing::Over { retry_s } = self.charge(origin, CONNECTION.cost_us(), limits, now) {
            return Err(Turned::Over { retry_s });
        }
        for (holder, _) in holders(origin) {
            if let Some(entry) = self.accounts.get_mut(&holder) {
                entry.sessions += 1;
            }
        }
        Ok(())
    }

    /// Charges the accounts behind an origin.
    fn charge(&mut self, origin: Origin, cost_us: u64, limits: &ShareLimits, now: Duration) -> Standing {
        let forgiven = limits.forgiven_ms_per_s;
        let mut worst = Standing::Fine;
        for (holder, share) in holders(origin) {
            if !self.accounts.contains_key(&holder) && !self.make_room(forgiven, now) {
                continue;
            }
            let entry = self.accounts.entry(holder).or_default();
            entry.account.charge(cost_us, now, forgiven);
            let one = standing(entry.account.spent_us(now, forgiven), share, limits);
            // One client of the onion service must not shut out the others, whom nobody can tell from it.
            let one = match (holder, one) {
                (Holder::Onion, Standing::Over { .. }) => Standing::Slow(WAIT_MAX),
                (_, one) => one,
            };
            worst = worse(worst, one);
        }
        worst
    }

    /// Forgets accounts with nothing to remember; false where there is no room all the same.
    fn make_room(&mut self, forgiven: u64, now: Duration) -> bool {
        if self.accounts.len() >= ACCOUNTS_MAX {
            self.accounts.retain(|_, entry| entry.sessions > 0 || entry.account.spent_us(now, forgiven) > 0);
        }
        self.accounts.len() < ACCOUNTS_MAX
    }

    fn leave(&mut self, origin: Origin, limits: &ShareLimits) {
        if is_exempt(origin, limits) {
            return;
        }
        for (holder, _) in holders(origin) {
            if let Some(entry) = self.accounts.get_mut(&holder) {
                entry.sessions = entry.sessions.saturating_sub(1);
            }
        }
    }
}

impl Seat {
    /// What is known of the session.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// A balancer said where it really comes from.
    pub fn comes_from(&self, origin: Origin, now: Duration) -> Result<(), Turned> {
        let limits = self.ledger.limits();
        let mut tables = self.ledger.lock();
        tables.admit(origin, &limits, now)?;
        let before = std::mem::replace(&mut self.client.known().origin, origin);
        tables.leave(before, &limits);
        Ok(())
    }

    /// Charges work to the session, its address and its neighbourhood.
    pub fn charge(&self, work: Work, now: Duration) -> Standing {
        let cost_us = work.cost_us();
        self.client.bytes_out.fetch_add(work.bytes, Relaxed);
        let limits = self.ledger.limits();
        let (origin, own) = {
            let mut known = self.client.known();
            known.work_us = known.work_us.saturating_add(cost_us);
            known.account.charge(cost_us, now, limits.forgiven_ms_per_s);
            (known.origin, known.account.spent_us(now, limits.forgiven_ms_per_s))
        };
        // What a client that is known costs is not its neighbours' fault either.
        if is_exempt(origin, &limits) || self.client.is_trusted() {
            return Standing::Fine;
        }
        let others = self.ledger.lock().charge(origin, cost_us, &limits, now);
        worse(standing(own, 1, &limits), others)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let limits = self.ledger.limits();
        let mut tables = self.ledger.lock();
        tables.clients.remove(&self.client.id);
        let origin = self.client.origin();
        tables.leave(origin, &limits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> ShareLimits {
        ShareLimits {
            sessions_max: 5,
            sessions_address_max: 2,
            soft: Duration::from_secs(1),
            hard: Duration::from_secs(3),
            forgiven_ms_per_s: 100,
            exempt: vec!["10.9.0.0/16".parse().unwrap()],
        }
    }

    fn at(text: &str) -> Origin {
        Origin::Address(text.parse().unwrap())
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn second() -> Work {
        Work { time: s(1), rows: 0, bytes: 0 }
    }

    #[test]
    fn a_session_is_slowed_down_and_then_closed_and_forgiven_with_time() {
        let ledger = Arc::new(Ledger::new(limits()));
        let seat = ledger.enter(at("192.0.2.1"), "tcp", s(0)).unwrap();
        assert_eq!(seat.charge(second(), s(0)), Standing::Fine, "exactly the soft limit");
        assert_eq!(seat.charge(second(), s(0)), Standing::Slow(WAIT_MAX / 2));
        assert_eq!(seat.charge(second(), s(0)), Standing::Over { retry_s: 20 });
        assert_eq!(seat.charge(Work::default(), s(20)), Standing::Fine);
        let report = &ledger.clients(s(20))[0];
        assert_eq!((report.work_ms, report.counted_ms, report.open_s), (3_000, 1_000, 20));
    }

    #[test]
    fn neighbours_share_and_those_who_come_again_are_remembered() {
        let ledger = Arc::new(Ledger::new(limits()));
        // An address has two sessions' budgets, whatever the sessions do.
        for _ in 0..3 {
            let seat = ledger.enter(at("192.0.2.1"), "tcp", s(0)).unwrap();
            seat.charge(Work { time: s(2), ..Work::default() }, s(0));
        }
        let turned = ledger.enter(at("192.0.2.1"), "tcp", s(0)).err();
        assert!(matches!(turned, Some(Turned::Over { retry_s: 40 })), "{turned:?}");
        let near = ledger.enter(at("192.0.2.200"), "tcp", s(0)).unwrap();
        assert_eq!(near.charge(Work::default(), s(0)), Standing::Fine);
        // The neighbourhood has eight: three of its addresses with six seconds each are nearly all of 24.
        for address in ["192.0.2.2", "192.0.2.3", "192.0.2.4"] {
            for _ in 0..3 {
                let seat = ledger.enter(at(address), "tcp", s(0)).unwrap();
                seat.charge(Work { time: s(2), ..Work::default() }, s(0));
            }
        }
        assert!(matches!(near.charge(Work::default(), s(0)), Standing::Over { .. }));
        let far = ledger.enter(at("192.0.3.1"), "tcp", s(0)).unwrap();
        assert_eq!(far.charge(second(), s(0)), Standing::Fine);
        assert!(ledger.enter(at("192.0.2.1"), "tcp", s(1_000)).is_ok());
        let six = ledger.enter(at("2001:db8:1::1"), "tcp", s(0)).unwrap();
        six.charge(Work { time: s(100), ..Work::default() }, s(0));
        assert!(ledger.enter(at("2001:db8:1:ffff::2"), "tcp", s(0)).is_err(), "/48 of IPv6");
        assert!(ledger.enter(at("2001:db8:2::2"), "tcp", s(0)).is_ok());
    }

    #[test]
    fn some_are_exempt_and_onions_do_not_shut_each_other_out() {
        let ledger = Arc::new(Ledger::new(limits()));
        for origin in [at("10.9.1.1"), Origin::Unix] {
            let seat = ledger.enter(origin, "tcp", s(0)).unwrap();
            assert_eq!(seat.charge(Work { time: s(1_000), ..Work::default() }, s(0)), Standing::Fine);
        }
        let heavy = ledger.enter(Origin::Onion, "onion", s(0)).unwrap();
        assert!(matches!(heavy.charge(Work { time: s(100), ..Work::default() }, s(0)), Standing::Over { .. }));
        let light = ledger.enter(Origin::Onion, "onion", s(0)).unwrap();
        assert_eq!(light.charge(Work::default(), s(0)), Standing::Slow(WAIT_MAX));
    }

    #[test]
    fn one_that_has_logged_in_is_not_limited_and_costs_its_neighbours_nothing() {
        let ledger = Arc::new(Ledger::new(limits()));
        let known = ledger.enter(at("192.0.2.1"), "tcp", s(0)).unwrap();
        known.client().trust();
        for _ in 0..100 {
            assert_eq!(known.charge(Work { time: s(1_000), ..Work::default() }, s(0)), Standing::Fine);
        }
        let stranger = ledger.enter(at("192.0.2.1"), "tcp", s(0)).unwrap();
        assert_eq!(stranger.charge(Work::default(), s(0)), Standing::Fine);
        let reports = ledger.clients(s(0));
        assert_eq!((reports[0].trusted, reports[1].trusted, reports[0].work_ms), (true, false, 100_000_000));
    }

    #[test]
    fn sessions_are_counted_in_and_out() {
        let ledger = Arc::new(Ledger::new(limits()));
        let enter = |address: &str| ledger.enter(at(address), "tcp", s(0));
        let two = [enter("192.0.2.1").unwrap(), enter("192.0.2.1").unwrap()];
        assert_eq!(enter("192.0.2.1").err(), Some(Turned::AddressFull));
        let more = [enter("192.0.2.2").unwrap(), enter("192.0.2.2").unwrap(), enter("192.0.2.3").unwrap()];
        assert_eq!(enter("192.0.2.4").err(), Some(Turned::Full));
        drop(two);
        let proxied = enter("10.9.0.1").unwrap();
        assert_eq!(proxied.comes_from(at("192.0.2.2"), s(0)), Err(Turned::AddressFull));
        drop(more);
        assert_eq!(proxied.comes_from(at("192.0.2.2"), s(0)), Ok(()));
        assert_eq!(ledger.clients(s(0))[0].origin, "192.0.2.2");
        drop(proxied);
        let tables = ledger.lock();
        assert!(tables.clients.is_empty() && tables.accounts.values().all(|entry| entry.sessions == 0));
    }

    #[test]
    fn bans_hold_until_they_end_and_end_the_sessions_there() {
        let ledger = Arc::new(Ledger::new(limits()));
        let subnet: Subnet = "192.0.2.0/24".parse().unwrap();
        let seat = ledger.enter(at("192.0.2.1"), "tcp", s(0)).unwrap();
        assert!(ledger.ban(subnet, Some(s(10))));
        let kicked = async { tokio::time::timeout(s(5), seat.client().was_kicked()).await.is_ok() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        assert!(runtime.block_on(kicked));
        assert_eq!(ledger.enter(at("192.0.2.9"), "tcp", s(9)).err(), Some(Turned::Banned));
        assert_eq!(ledger.bans(s(4)).iter().map(|ban| ban.1).collect::<Vec<_>>(), [Some(s(10))]);
        assert!(ledger.enter(at("192.0.2.9"), "tcp", s(10)).is_ok());
        assert!(ledger.ban(subnet, None) && ledger.unban(subnet) && !ledger.unban(subnet));
        assert!(ledger.enter(at("192.0.2.9"), "tcp", s(11)).is_ok());
    }
}
