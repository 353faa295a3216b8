//! `assay bench load`: many clients at once, each with a wallet's habits.
//!
//! In:     servers, [`Material`], how many clients, for how long.
//! Out:    [`Slice`]s: every exchange with its moment and time; what each client got done.
//! Fails:  when no client can connect. What fails later is counted by kind, and the client connects again.
//!
//! Servers take turns, a slice of seconds each, all clients at one of them; the first slice of each warms it up and is
//! thrown away. A thread a client: it sends, waits, sends again, without pauses.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::Serialize;
use stdx::random::Random;

use super::arguments::{LoadShape, Server};
use super::mix::{Material, Wallet};
use crate::BenchError;
use crate::client::{Client, Failure};
use crate::measure::Start;

/// One exchange.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Done {
    /// What it was.
    pub kind: &'static str,
    /// When it ended, in seconds since the slice began.
    pub at_s: f64,
    /// How long it took, in microseconds.
    pub us: f64,
    /// Requests answered.
    pub requests: usize,
}

/// What one client did in a slice.
#[derive(Clone, Debug, Default)]
pub struct OfClient {
    /// Whose habits it has.
    pub wallet: usize,
    /// Everything that was answered.
    pub done: Vec<Done>,
    /// What was not, by kind.
    pub errors: BTreeMap<String, u64>,
}

/// All clients at one server for a while.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Which server.
    pub server: usize,
    /// How long it was, in seconds.
    pub seconds: f64,
    /// CPU time of this process meanwhile, in seconds.
    pub own_cpu_s: f64,
    /// Its clients.
    pub clients: Vec<OfClient>,
}

impl Slice {
    /// Requests answered in a second.
    pub fn rate(&self) -> f64 {
        self.requests() as f64 / self.seconds
    }

    /// Requests answered.
    pub fn requests(&self) -> usize {
        self.clients.iter().map(OfClient::requests).sum()
    }

    /// Every exchange of every client.
    pub fn done(&self) -> impl Iterator<Item = &Done> {
        self.clients.iter().flat_map(|client| &client.done)
    }

    /// How equal the clients of one wallet are served: of the wallets the least fair.
    pub fn fairness(&self) -> f64 {
        let of = |wallet: usize| {
            let alike = self.clients.iter().filter(|client| client.wallet == wallet);
            alike.map(|client| client.requests() as f64).collect::<Vec<f64>>()
        };
        (0..Wallet::ALL.len()).map(of).filter(|all| !all.is_empty()).map(|all| jain(&all)).fold(1.0, f64::min)
    }
}

impl OfClient {
    fn requests(&self) -> usize {
        self.done.iter().map(|done| done.requests).sum()
    }
}

/// Jain's index: 1 where all have the same, 1/n where one has everything.
pub fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = (shares.iter().sum::<f64>(), shares.iter().map(|share| share * share).sum::<f64>());
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// Every server in turn, its first slice left out.
pub fn run(
    servers: &[Server],
    material: &Material,
    shape: &LoadShape,
    timeout_s: u64,
) -> Result<Vec<Slice>, BenchError> {
    let mut slices = Vec::new();
    for turn in 0..=shape.slices {
        for server in super::addresses::rotated(servers.len(), turn as usize) {
            let seconds = if turn == 0 { 1 } else { shape.slice_s };
            eprintln!("slice {turn} of {}: {}", shape.slices, servers[server].name);
            let slice = slice(server, &servers[server], material, shape.clients, seconds, timeout_s)?;
            if turn > 0 {
                slices.push(slice);
            }
        }
    }
    Ok(slices)
}

fn slice(
    index: usize,
    server: &Server,
    material: &Material,
    clients: u64,
    seconds: u64,
    timeout_s: u64,
) -> Result<Slice, BenchError> {
    let timeout = Duration::from_secs(timeout_s);
    let gone = |failure: Failure| BenchError::Wrong(format!("{}: {failure}", server.name));
    let open: Vec<Client> =
        (0..clients).map(|_| Client::open(&server.address, timeout)).collect::<Result<_, _>>().map_err(gone)?;
    let (barrier, start) = (Barrier::new(open.len() + 1), Start::now()?);
    let (clients, took) = std::thread::scope(|scope| {
        let threads: Vec<_> = open
            .into_iter()
            .enumerate()
            .map(|(number, client)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    live(client, number, material, Duration::from_secs(seconds))
                })
            })
            .collect();
        barrier.wait();
        let before = Instant::now();
        let clients: Vec<OfClient> =
            threads.into_iter().map(|thread| thread.join().expect("a client's thread does not panic")).collect();
        (clients, before.elapsed())
    });
    let own_cpu_s = start.usage()?.cpu_s();
    // The last answers come after the end: they are counted, and so is the time until they are there.
    Ok(Slice { server: index, seconds: took.as_secs_f64(), own_cpu_s, clients })
}

/// One client until the time is over.
fn live(mut client: Client, number: usize, material: &Material, length: Duration) -> OfClient {
    let wallet = number % Wallet::ALL.len();
    let mut me = OfClient { wallet, ..OfClient::default() };
    let mut random = Random::new(number as u64 + 1);
    let (before, mut step) = (Instant::now(), number);
    while before.elapsed() < length {
        let exchange = material.next(Wallet::ALL[wallet], step, &mut random);
        step += 1;
        match client.exchange(&exchange.text, exchange.answers) {
            Ok(took) if took.has_error => *me.errors.entry(format!("error in {}", exchange.kind)).or_default() += 1,
            Ok(took) => me.done.push(Done {
                kind: exchange.kind,
                at_s: before.elapsed().as_secs_f64(),
                us: took.us(),
                requests: exchange.requests,
            }),
            Err(failure) => {
                *me.errors.entry(failure.kind()).or_default() += 1;
                match client.again() {
                    Ok(fresh) => client = fresh,
                    Err(failure) => {
                        *me.errors.entry(format!("no new connection: {}", failure.kind())).or_default() += 1;
                        return me;
                    }
                }
            }
        }
    }
    me
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_are_fair_and_one_for_all_is_not() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[9.0, 0.0, 0.0]), 1.0 / 3.0);
        assert!((jain(&[1.0, 2.0, 3.0]) - 36.0 / 42.0).abs() < 1e-12);
        assert_eq!(jain(&[0.0, 0.0]), 0.0);
    }

    #[test]
    fn clients_are_compared_with_those_of_the_same_wallet() {
        let client = |wallet, requests| {
            let done = vec![Done { kind: "small", at_s: 0.5, us: 1.0, requests }];
            OfClient { wallet, done, errors: BTreeMap::new() }
        };
        let slice = Slice {
            server: 0,
            seconds: 2.0,
            own_cpu_s: 0.0,
            clients: vec![client(0, 10), client(0, 10), client(1, 3), client(1, 1)],
        };
        assert_eq!((slice.requests(), slice.rate()), (24, 12.0));
        assert_eq!(slice.fairness(), 0.8);
    }
}
