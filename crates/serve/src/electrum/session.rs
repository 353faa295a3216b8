//! One connection: moves bytes between socket and machine, and keeps the timers.
//!
//! In:     a connected socket.
//! Out:    requests for the machine, its answers for the outbox.
//! Fails:  the session ends; [`Ended`] says why, for the counters.
//!
//! Work is done on threads of its own, at most `work_threads` at a time and one slice a turn, so neither a slow disk
//! nor a long answer keeps the bytes of others from moving.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use super::Env;
use super::error::Error;
use super::line::{Lines, TooLong};
use super::machine::{EndReason, Machine, Step};
use super::outbox::Outbox;
use super::subscriptions::Mailbox;

/// Bytes read from a socket in one go; requests are a few hundred.
const READ_BYTES: usize = 8 * 1024;

/// Time the rest of an answer gets to go out when a session ends from our side.
const FAREWELL_TIME: Duration = Duration::from_millis(500);

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client closed, or the connection broke.
    Closed,
    /// The client read too slowly.
    SlowReader,
    /// A timer ran out.
    Timeout,
    /// What came was no request.
    BadInput,
    /// No version in common, or no greeting.
    Protocol,
    /// A fault of ours.
    Fault,
    /// The server stops.
    Stopped,
}

/// What a session needs besides its socket.
#[derive(Clone)]
pub struct Surroundings {
    /// What all sessions share.
    pub env: Arc<Env>,
    /// Bounds the slices of work done at the same time.
    pub work: Arc<Semaphore>,
    /// Turns true when the server stops.
    pub stop: watch::Receiver<bool>,
}

/// Serves one connection to its end.
pub async fn serve(socket: TcpStream, surroundings: Surroundings) -> Ended {
    let env = surroundings.env.clone();
    let (reader, writer) = socket.into_split();
    let outbox = Arc::new(Outbox::new(env.clone()));
    let mut writing = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.write_to(writer).await }
    });
    let mailbox = Arc::new(Mailbox::default());
    let mut session = Session {
        machine: Some(Machine::new(env.clone(), mailbox.clone())),
        mailbox,
        outbox: outbox.clone(),
        lines: Lines::new(env.clone()),
        reader,
        opened: Instant::now(),
        idle_since: Instant::now(),
        line_since: None,
        surroundings,
    };
    let mut stop = session.surroundings.stop.clone();
    let ended = tokio::select! {
        ended = session.run() => ended,
        () = stopped(&mut stop) => Ended::Stopped,
    };
    // The subscriptions go before the farewell, so that a client who reads it finds them gone.
    drop(session);
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

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which is the same.
    let _ = stop.wait_for(|stop| *stop).await;
}

struct Session {
    surroundings: Surroundings,
    /// Away while its work is done on another thread.
    machine: Option<Machine>,
    mailbox: Arc<Mailbox>,
    outbox: Arc<Outbox>,
    lines: Lines,
    reader: OwnedReadHalf,
    opened: Instant,
    /// The last request.
    idle_since: Instant,
    /// The first byte of the line that has not ended yet.
    line_since: Option<Instant>,
}

impl Session {
    async fn run(&mut self) -> Ended {
        let ended = self.turns().await;
        ended.err().unwrap_or(Ended::Closed)
    }

    async fn turns(&mut self) -> Result<(), Ended> {
        let mut buffer = [0; READ_BYTES];
        loop {
            self.answer_lines().await?;
            self.tell().await?;
            let deadline = self.deadline();
            tokio::select! {
                read = self.reader.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => return Ok(()),
                    Ok(count) => {
                        self.surroundings.env.metrics.bytes_in.add(count as u64);
                        self.lines.push(&buffer[..count]);
                    }
                },
                () = self.mailbox.knocked() => {}
                () = self.outbox.broken() => return Err(Ended::Closed),
                () = sleep_until(deadline) => return Err(Ended::Timeout),
            }
        }
    }

    /// Answers every whole line that has arrived.
    async fn answer_lines(&mut self) -> Result<(), Ended> {
        let mut lines = Vec::new();
        let too_long = loop {
            match self.lines.next() {
                Ok(Some(line)) => {
                    self.line_since = None;
                    lines.push(line);
                }
                Ok(None) => break false,
                Err(TooLong) => break true,
            }
        };
        // Blank lines keep nobody connected.
        lines.retain(|line| !line.iter().all(u8::is_ascii_whitespace));
        if !lines.is_empty() {
            self.work(move |machine, _| machine.take_lines(lines)).await?;
            self.idle_since = Instant::now();
        }
        if too_long {
            let max = self.surroundings.env.limits.line_bytes_max;
            self.work(move |machine, out| {
                machine.refuse_line(&Error::LineTooLong { max }, out);
            })
            .await?;
            return Err(Ended::BadInput);
        }
        if self.lines.is_partial() {
            self.line_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    /// The earliest of the timers.
    fn deadline(&self) -> Instant {
        let limits = &self.surroundings.env.limits;
        let greeted = self.machine.as_ref().is_some_and(Machine::greeted);
        let idle = match greeted {
            true => self.idle_since + limits.idle_time_max,
            false => self.opened + limits.handshake_time_max,
        };
        self.line_since.map_or(idle, |since| idle.min(since + limits.line_time_max))
    }

    /// Tells what waits in the mailbox.
    async fn tell(&mut self) -> Result<(), Ended> {
        let letters = self.mailbox.take();
        if letters.is_empty() {
            return Ok(());
        }
        self.work(move |machine, _| machine.take_letters(letters)).await
    }

    /// Has the machine begin something and do all that follows, slice by slice.
    async fn work(&mut self, begin: impl FnOnce(&mut Machine, &mut Vec<u8>) + Send + 'static) -> Result<(), Ended> {
        let mut begin = Some(begin);
        loop {
            self.outbox.room().await.map_err(|_| Ended::Closed)?;
            let permit = self.surroundings.work.clone().acquire_owned().await.map_err(|_| Ended::Stopped)?;
            let mut machine = self.machine.take().expect("it comes back from every slice");
            let begin = begin.take();
            let slice = tokio::task::spawn_blocking(move || {
                let mut out = Vec::new();
                if let Some(begin) = begin {
                    begin(&mut machine, &mut out);
                }
                let step = machine.advance(&mut out);
                drop(permit);
                (machine, out, step)
            });
            // A panic in a slice ends this session only; its subscriptions go with the machine.
            let (machine, out, step) = slice.await.map_err(|_| Ended::Fault)?;
            self.machine = Some(machine);
            self.outbox.push(out);
            match step {
                Step::More => {}
                Step::Done => return Ok(()),
                Step::End(EndReason::BadInput) => return Err(Ended::BadInput),
                Step::End(EndReason::Protocol) => return Err(Ended::Protocol),
                Step::End(EndReason::Fault) => return Err(Ended::Fault),
            }
        }
    }
}
