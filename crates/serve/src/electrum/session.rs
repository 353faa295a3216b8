//! One connection: moves bytes between socket and machine, and keeps the timers.
//!
//! In:     a [`Guest`]: a connected socket, and what its channel is made of.
//! Out:    requests for the machine, its answers for the outbox.
//! Fails:  the session ends; [`Ended`] says why, for the counters.
//!
//! What a request wants first is done by the thread that read it, a fifth of a millisecond: no other has to wake for a
//! short answer. One of those threads always only moves bytes, so that no slow disk keeps them all. What takes longer goes on
//! a slice at a time on threads that give way to all others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use super::Env;
use super::answer::Head;
use super::error::Error;
use super::limits::{PORTION_TIME, SLICE_TIME};
use super::machine::{EndReason, Machine, Step, Tally};
use super::outbox::Outbox;
use super::record::Ended;
use super::subscriptions::Mailbox;
use super::version;
use crate::shares::WAIT_MAX;
use crate::shares::cost::Work;
use crate::shares::ledger::{Seat, Standing};
use crate::transport::channel::{Channel, Layers};
use crate::transport::listen::{Origin, Reader, Writer};
use crate::transport::proxy::Behind;
use crate::transport::room::Room;
use crate::transport::{Framing, Refusal};

/// Bytes read from a socket in one go; requests are a few hundred.
const READ_BYTES: usize = 8 * 1024;

/// Subscriptions of a session that ends which the thread that moves its bytes forgets itself: about a millisecond.
const SUBSCRIPTIONS_HERE: usize = 4096;

/// Room for what most requests are answered with.
const ANSWER_BYTES: usize = 512;

/// Time the rest of an answer gets to go out when a session ends from our side.
const FAREWELL_TIME: Duration = Duration::from_millis(500);

/// What a session needs besides its socket.
#[derive(Clone)]
pub struct Surroundings {
    /// What all sessions share.
    pub env: Arc<Env>,
    /// Bounds the threads that move bytes and compute at the moment: one fewer than there are.
    pub here: Arc<Semaphore>,
    /// Bounds the sessions that are told of a block at the moment: thousands may be due, and requests come between.
    pub telling: Arc<Semaphore>,
    /// Bounds the short work done elsewhere while all of those compute.
    pub work: Arc<Semaphore>,
    /// Where long answers are made, on threads that give way to all others.
    pub long: Handle,
    /// Turns true when the server stops.
    pub stop: watch::Receiver<bool>,
}

/// Who has come in.
pub struct Guest {
    /// What he says.
    pub reader: Reader,
    /// What he hears.
    pub writer: Writer,
    /// What lies between socket and messages.
    pub layers: Layers,
    /// His place among all clients.
    pub seat: Seat,
}

/// Serves one connection to its end.
pub async fn serve(guest: Guest, surroundings: Surroundings) -> Ended {
    let env = surroundings.env.clone();
    let room = Room::new(env.metrics.clone(), env.limits.room());
    let Ok(channel) = Channel::new(&guest.layers, room) else { return Ended::Fault };
    let channel = Arc::new(Mutex::new(channel));
    let outbox = Arc::new(Outbox::new(env.clone()));
    let mut writing = tokio::spawn({
        let (outbox, channel, writer) = (outbox.clone(), channel.clone(), guest.writer);
        async move { outbox.write_to(writer, &channel).await }
    });
    let mailbox = Arc::new(Mailbox::default());
    let is_http = guest.layers.framing == Framing::Http;
    let mut session = Session {
        machine: (!is_http)
            .then(|| Box::new(Machine::new(env.clone(), mailbox.clone()).of(guest.seat.client().origin()))),
        mailbox,
        outbox: outbox.clone(),
        channel: channel.clone(),
        is_http,
        has_asked: false,
        reader: guest.reader,
        seat: guest.seat,
        opened: Instant::now(),
        idle_since: Instant::now(),
        line_since: None,
        heard: Instant::now(),
        pinged: None,
        surroundings,
    };
    let mut stop = session.surroundings.stop.clone();
    let client = session.seat.client().clone();
    let ended = tokio::select! {
        ended = session.run() => ended,
        () = client.was_kicked() => Ended::Kicked,
        () = stopped(&mut stop) => Ended::Stopped,
    };
    // The subscriptions go before the farewell, so that a client who reads it finds them gone; many of them go elsewhere.
    if let Some(machine) = session.machine.take_if(|machine| machine.agreed().1 > SUBSCRIPTIONS_HERE) {
        let _ = session.surroundings.long.spawn_blocking(move || drop(machine)).await;
    }
    drop(session);
    let (code, reason) = ended.in_a_websocket();
    lock(&channel).close_with(code, reason);
    let farewell = if ended == Ended::Closed { env.limits.write_time_max } else { FAREWELL_TIME };
    tokio::select! {
        _ = tokio::time::timeout(farewell, outbox.finish()) => {}
        () = stopped(&mut stop), if ended == Ended::Closed => {}
    }
    let slow = outbox.was_slow();
    if tokio::time::timeout(FAREWELL_TIME, &mut writing).await.is_err() {
        writing.abort();
    }
    if slow { Ended::SlowReader } else { ended }
}

fn lock(channel: &Mutex<Channel>) -> MutexGuard<'_, Channel> {
    channel.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which is the same.
    let _ = stop.wait_for(|stop| *stop).await;
}

struct Session {
    surroundings: Surroundings,
    /// Away while its work is done, and between the messages of HTTP. In a box, so that what waits for a slice is small.
    machine: Option<Box<Machine>>,
    mailbox: Arc<Mailbox>,
    outbox: Arc<Outbox>,
    channel: Arc<Mutex<Channel>>,
    /// Every message is a world of its own: no greeting, no notifications.
    is_http: bool,
    /// A message has been answered.
    has_asked: bool,
    reader: Reader,
    seat: Seat,
    opened: Instant,
    /// The last request.
    idle_since: Instant,
    /// The first byte of the line that has not ended yet.
    line_since: Option<Instant>,
    /// The last bytes.
    heard: Instant,
    /// When it was pinged, where nothing came since.
    pinged: Option<Instant>,
}

/// Where and when a slice of work is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// By the thread that moves the session's bytes, at once.
    Here,
    /// By the same, behind whatever it has to do meanwhile.
    Again,
    /// The same for notices, of which only some sessions have their turn.
    Notices,
    /// Behind everybody who wants something short.
    Behind,
}

/// A slice of work that was done.
struct Slice {
    machine: Box<Machine>,
    out: Vec<u8>,
    step: Step,
    time: Duration,
}

impl Slice {
    fn of(mut machine: Box<Machine>, begin: Option<impl FnOnce(&mut Machine, &mut Vec<u8>)>, most: Duration) -> Slice {
        let started = std::time::Instant::now();
        let mut out = Vec::with_capacity(ANSWER_BYTES);
        if let Some(begin) = begin {
            begin(&mut machine, &mut out);
        }
        let step = machine.advance_for(most, &mut out);
        Slice { machine, out, step, time: started.elapsed() }
    }
}

impl Session {
    async fn run(&mut self) -> Ended {
        let ended = self.turns().await;
        ended.err().unwrap_or(Ended::Closed)
    }

    async fn turns(&mut self) -> Result<(), Ended> {
        let mut buffer = [0; READ_BYTES];
        // Set anew where it comes earlier, or was too early: not with every request.
        let mut alarm = pin!(sleep_until(self.deadline()));
        loop {
            self.answer_messages().await?;
            if lock(&self.channel).is_closed() {
                return Ok(());
            }
            self.tell().await?;
            let deadline = self.deadline();
            if deadline < alarm.deadline() {
                alarm.as_mut().reset(deadline);
            }
            tokio::select! {
                read = self.reader.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => return Ok(()),
                    Ok(count) => {
                        self.receive(&buffer[..count])?;
                    }
                },
                () = self.mailbox.knocked() => {}
                () = self.outbox.broken() => return Err(Ended::Closed),
                () = &mut alarm => {
                    if self.deadline_but_pings() <= Instant::now() {
                        return Err(Ended::Timeout);
                    }
                    if self.ping_at().is_some_and(|at| at <= Instant::now()) {
                        self.pinged = Some(Instant::now());
                        self.work(|machine, out| machine.ping(out)).await?;
                    }
                    alarm.as_mut().reset(self.deadline());
                },
            }
        }
    }

    /// When the client is to be pinged: once in a silence, and only where it knows what that is.
    fn ping_at(&self) -> Option<Instant> {
        let speaks_it = self.machine.as_ref().is_some_and(|machine| machine.agreed().0 >= Some(version::V1_7));
        let at = self.heard + self.surroundings.env.limits.silence_time_max;
        (speaks_it && self.pinged.is_none()).then_some(at)
    }

    /// Takes bytes from the socket; as soon as a balancer has said for whom it speaks, that is who is here.
    fn receive(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        let env = &self.surroundings.env;
        env.metrics.bytes_in.add(bytes.len() as u64);
        self.seat.client().bytes_in.fetch_add(bytes.len() as u64, Relaxed);
        (self.heard, self.pinged) = (Instant::now(), None);
        let mut channel = lock(&self.channel);
        channel.receive(bytes);
        match channel.behind() {
            Some(Behind::Client(address)) if self.seat.client().origin() == Origin::Balancer => {
                drop(channel);
                let origin = Origin::Address(address);
                if let Some(machine) = &mut self.machine {
                    machine.origin = Some(origin);
                }
                self.seat.comes_from(origin, env.now()).map_err(|_| {
                    env.metrics.sessions_refused.add(1);
                    Ended::Excess
                })
            }
            _ => Ok(()),
        }
    }

    /// Answers every whole message that has arrived.
    async fn answer_messages(&mut self) -> Result<(), Ended> {
        loop {
            let (messages, refused) = self.take_messages();
            let is_last = messages.is_empty();
            if !is_last {
                self.line_since = None;
                self.answer(messages).await?;
            }
            match refused {
                Some(refused) => return Err(self.refuse(&refused).await),
                None if is_last => break,
                None => {}
            }
        }
        if lock(&self.channel).is_partial() {
            self.line_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    /// Messages that have arrived, one at a time over HTTP, and why no more will be read.
    fn take_messages(&self) -> (Vec<Vec<u8>>, Option<Refusal>) {
        let mut channel = lock(&self.channel);
        let mut messages = Vec::new();
        let refused = loop {
            match channel.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break None,
                Err(refused) => break Some(refused),
            }
            if self.is_http {
                break None;
            }
        };
        if channel.has_output() {
            self.outbox.nudge();
        }
        (messages, refused)
    }

    async fn answer(&mut self, mut messages: Vec<Vec<u8>>) -> Result<(), Ended> {
        if self.is_http {
            self.machine = Some(Box::new(self.machine_for_one_message()));
        } else {
            // Blank lines keep nobody connected.
            messages.retain(|message| !message.iter().all(u8::is_ascii_whitespace));
            if messages.is_empty() {
                return Ok(());
            }
        }
        let worked = self.work(move |machine, _| machine.take_lines(messages)).await;
        (self.idle_since, self.has_asked) = (Instant::now(), true);
        if self.is_http {
            // What it subscribed to goes with it: over HTTP nobody can be told.
            self.machine = None;
        }
        worked
    }

    /// Over HTTP each message stands alone, and speaks the oldest version unless it begins with another greeting.
    fn machine_for_one_message(&self) -> Machine {
        let machine = Machine::new(self.surroundings.env.clone(), Arc::default());
        let mut machine = machine.of(self.seat.client().origin());
        machine.assume_version(version::OLDEST);
        machine
    }

    /// What the channel refused ends the session; whoever sent too much hears of it in the protocol's words.
    async fn refuse(&mut self, refused: &Refusal) -> Ended {
        if *refused == Refusal::TooLong {
            if self.is_http {
                self.machine = Some(Box::new(self.machine_for_one_message()));
            }
            let max = self.surroundings.env.limits.line_bytes_max;
            let said = self.work(move |machine, out| {
                machine.refuse_line(&Error::LineTooLong { max }, out);
            });
            return said.await.err().unwrap_or(Ended::BadInput);
        }
        Ended::BadInput
    }

    /// The earliest of the timers.
    fn deadline(&self) -> Instant {
        let earliest = self.deadline_but_pings();
        self.ping_at().map_or(earliest, |at| earliest.min(at))
    }

    /// The earliest of those at whose end the session ends.
    fn deadline_but_pings(&self) -> Instant {
        let limits = &self.surroundings.env.limits;
        let greeted = match &self.machine {
            Some(machine) => machine.greeted(),
            None => self.has_asked,
        };
        let mut earliest = match greeted {
            true => self.idle_since + limits.idle_time_max,
            false => self.opened + limits.handshake_time_max,
        };
        if let Some(pinged) = self.pinged {
            earliest = earliest.min(pinged + limits.pong_time_max);
        }
        if !lock(&self.channel).is_open() {
            earliest = earliest.min(self.opened + limits.opening_time_max);
        }
        self.line_since.map_or(earliest, |since| earliest.min(since + limits.line_time_max))
    }

    /// Tells what waits in the mailbox.
    async fn tell(&mut self) -> Result<(), Ended> {
        let letters = self.mailbox.take();
        if letters.is_empty() {
            return Ok(());
        }
        self.work_at(Place::Notices, move |machine, _| machine.take_letters(letters)).await
    }

    /// Has the machine begin something and do all that follows, slice by slice.
    async fn work(&mut self, begin: impl FnOnce(&mut Machine, &mut Vec<u8>) + Send + 'static) -> Result<(), Ended> {
        self.work_at(Place::Here, begin).await
    }

    /// The same, beginning in this place.
    async fn work_at(
        &mut self,
        mut place: Place,
        begin: impl FnOnce(&mut Machine, &mut Vec<u8>) + Send + 'static,
    ) -> Result<(), Ended> {
        let mut begin = Some(begin);
        loop {
            self.outbox.room().await.map_err(|_| Ended::Closed)?;
            let machine = self.machine.take().expect("it comes back from every slice");
            let slice = self.slice(machine, begin.take(), place).await?;
            let Slice { mut machine, mut out, step, time } = slice;
            place = match place {
                _ if machine.is_long() => Place::Behind,
                Place::Notices => Place::Notices,
                _ => Place::Again,
            };
            let (standing, cost) = self.account(&mut machine, time, out.len());
            self.machine = Some(machine);
            if let (Standing::Over { retry_s }, Step::Done, false) = (standing, step, self.is_http) {
                Head { id: "null".into(), two: true }.refuse(&Error::Excess { retry_s }, &mut out);
                out.push(b'\n');
            }
            match self.is_http && step != Step::More {
                true => self.outbox.push_end(out),
                false => self.outbox.push(out),
            }
            match step {
                Step::End(EndReason::BadInput) => return Err(Ended::BadInput),
                Step::End(EndReason::Protocol) => return Err(Ended::Protocol),
                Step::End(EndReason::Fault) => return Err(Ended::Fault),
                // Between the slices of one answer, no longer than they took; behind it, all of the wait.
                Step::More => self.wait_its_turn(standing, cost).await?,
                Step::Done => self.wait_its_turn(standing, WAIT_MAX).await?,
            }
            if step == Step::Done {
                return Ok(());
            }
        }
    }

    /// Does one slice where it belongs.
    async fn slice(
        &mut self,
        machine: Box<Machine>,
        begin: Option<impl FnOnce(&mut Machine, &mut Vec<u8>) + Send + 'static>,
        place: Place,
    ) -> Result<Slice, Ended> {
        let Surroundings { here, telling, work, long, .. } = &self.surroundings;
        if place == Place::Behind {
            return long.spawn_blocking(move || Slice::of(machine, begin, SLICE_TIME)).await.map_err(|_| Ended::Fault);
        }
        if place == Place::Again {
            // Whoever has waited meanwhile comes first.
            tokio::task::yield_now().await;
        }
        let _turn = match place {
            Place::Notices => Some(telling.acquire().await.map_err(|_| Ended::Stopped)?),
            _ => None,
        };
        if let Ok(_permit) = here.try_acquire() {
            // A panic in a slice ends this session only; its subscriptions go with the machine.
            let slice = AssertUnwindSafe(|| Slice::of(machine, begin, PORTION_TIME));
            return catch_unwind(slice).map_err(|_| Ended::Fault);
        }
        let permit = work.clone().acquire_owned().await.map_err(|_| Ended::Stopped)?;
        let elsewhere = move || {
            let slice = Slice::of(machine, begin, PORTION_TIME);
            drop(permit);
            slice
        };
        tokio::task::spawn_blocking(elsewhere).await.map_err(|_| Ended::Fault)
    }

    /// Charges a slice to who had it done; says what it cost.
    fn account(&self, machine: &mut Machine, time: Duration, bytes: usize) -> (Standing, Duration) {
        let Tally { requests, rows, software, has_logged_in } = machine.take_tally();
        let client = self.seat.client();
        if has_logged_in {
            client.trust();
        }
        client.requests.fetch_add(requests, Relaxed);
        let (version, subscriptions) = machine.agreed();
        client.subscriptions.store(subscriptions as u64, Relaxed);
        if let (Some(software), Some(version)) = (software, version) {
            client.greeted(&software, version.to_string());
        }
        let work = Work { time, rows, bytes: bytes as u64 };
        (self.seat.charge(work, self.surroundings.env.now()), Duration::from_micros(work.cost_us()))
    }

    /// Who has had much waits before more is done for it, and who has had too much goes.
    async fn wait_its_turn(&mut self, standing: Standing, most: Duration) -> Result<(), Ended> {
        match standing {
            Standing::Fine => Ok(()),
            Standing::Slow(time) => {
                self.surroundings.env.metrics.slowed.add(1);
                tokio::time::sleep(time.min(most)).await;
                Ok(())
            }
            Standing::Over { .. } => Err(Ended::Excess),
        }
    }
}
