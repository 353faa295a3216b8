//! One session's state and the work it has to do, in slices; knows no socket and no clock but for the slice's length.
//!
//! In:     lines of requests, notices of new tips and touched scripts.
//! Out:    answers and notifications appended to a buffer, at most about a slice's worth before it is handed back.
//! Fails:  [`Step::End`] says why the session must end; everything else is an answer.
//!
//! Long answers (histories, unspent outputs, statuses) are made a page at a time, so a script with a million entries
//! costs a page of memory, and a long batch gives way after each slice.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Env;
use super::answer::Head;
use super::error::{Error, Fault};
use super::limits::{PAGE_ENTRIES, SLICE_BYTES, SLICE_TIME, STALE_RETRIES_MAX};
use super::notices::{Due, Next, Told, Wishes};
use super::params::Arguments;
use super::request::{self, Line};
use super::subscriptions::{Letters, Mailbox, SessionId, Topic};
use super::version::Version;
use crate::transport::listen::Origin;
use crate::wallet::methods::{self, METHODS, Reply};
use crate::wallet::stream::{Purpose, Stream};

/// What became of a slice of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is left to do.
    Done,
    /// There is more: write out what there is, then go on.
    More,
    /// The session ends after what was written.
    End(EndReason),
}

/// Why a session is ended from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// What the client sends is no request.
    BadInput,
    /// There is no protocol version in common, or the first request was not `server.version`.
    Protocol,
    /// An answer that had begun could not be finished.
    Fault,
}

/// One session.
pub struct Machine {
    pub(crate) env: Arc<Env>,
    pub(crate) id: SessionId,
    pub(crate) version: Option<Version>,
    /// The version is assumed, so that a greeting may still come.
    pub(crate) may_greet: bool,
    /// Notifications are written as the `server.version` request was.
    pub(super) two: bool,
    /// What it wants to hear of.
    pub(crate) wishes: Wishes,
    bad_lines: u32,
    work: Work,
    /// What it did since this was looked at last.
    pub(crate) tally: Tally,
    /// Where the client comes from, as far as it is known.
    pub(crate) origin: Option<Origin>,
    /// Pings sent so far, and whether the last one has no answer yet.
    pings: (u64, bool),
}

/// What a session did.
#[derive(Debug, Default)]
pub struct Tally {
    /// Requests answered.
    pub requests: u64,
    /// Rows of histories and unspent outputs read.
    pub rows: u64,
    /// The client's name, where it greeted just now.
    pub software: Option<String>,
    /// It said a word by which it is exempt.
    pub has_logged_in: bool,
}

/// What is left to do.
#[derive(Default)]
struct Work {
    lines: VecDeque<Vec<u8>>,
    line: Vec<u8>,
    requests: std::vec::IntoIter<Range<usize>>,
    batch: bool,
    batch_answers: usize,
    due: Due,
    stream: Option<Stream>,
}

impl Machine {
    /// A session that has not said anything yet, known to the subscriptions under `mailbox`.
    pub fn new(env: Arc<Env>, mailbox: Arc<Mailbox>) -> Machine {
        let id = env.subscriptions.enter(mailbox);
        Machine {
            env,
            id,
            version: None,
            may_greet: false,
            two: true,
            wishes: Wishes::default(),
            bad_lines: 0,
            work: Work::default(),
            tally: Tally::default(),
            origin: None,
            pings: (0, false),
        }
    }

    /// The same of a client that comes from there.
    pub fn of(mut self, origin: Origin) -> Machine {
        self.origin = Some(origin);
        self
    }

    /// Speaks this version until `server.version` says another; over HTTP there may be no greeting.
    pub fn assume_version(&mut self, version: Version) {
        (self.version, self.may_greet) = (Some(version), true);
    }

    /// What it did since this was asked last.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// The protocol agreed on, and how many subscriptions there are.
    pub fn agreed(&self) -> (Option<Version>, usize) {
        (self.version, self.wishes.count())
    }

    /// True once `server.version` was answered.
    pub fn greeted(&self) -> bool {
        self.version.is_some()
    }

    /// Takes whole lines; the work before them must be done.
    pub fn take_lines(&mut self, lines: Vec<Vec<u8>>) {
        self.work.lines = lines.into();
    }

    fn begin_line(&mut self, line: Vec<u8>, out: &mut Vec<u8>) -> Option<EndReason> {
        match request::split(&line, self.env.limits.batch_requests_max) {
            Ok(Line::Blank) => None,
            Ok(Line::Single) => {
                self.work.requests = vec![0..line.len()].into_iter();
                self.work.line = line;
                None
            }
            Ok(Line::Batch(ranges)) => {
                self.work.requests = ranges.into_iter();
                self.work.line = line;
                self.work.batch = true;
                self.work.batch_answers = 0;
                None
            }
            Err(error) => self.refuse_line(&error, out),
        }
    }

    /// Answers a line that is no request, and ends the session where that happens too often.
    pub fn refuse_line(&mut self, error: &Error, out: &mut Vec<u8>) -> Option<EndReason> {
        self.env.metrics.errors.add(1);
        Head { id: "null".into(), two: true }.refuse(error, out);
        out.push(b'\n');
        self.bad_lines += 1;
        let over = matches!(error, Error::NotUtf8 | Error::LineTooLong { .. });
        (over || self.bad_lines >= self.env.limits.bad_lines_max).then_some(EndReason::BadInput)
    }

    /// Takes what the mailbox held; all that was due before has been told.
    pub fn take_letters(&mut self, letters: Letters) {
        self.work.due = Due::of(letters, &self.wishes);
    }

    /// Does one slice of what is left.
    pub fn advance(&mut self, out: &mut Vec<u8>) -> Step {
        self.advance_for(SLICE_TIME, out)
    }

    /// The same, for so long.
    pub fn advance_for(&mut self, most: Duration, out: &mut Vec<u8>) -> Step {
        let step = self.slice(most, out);
        // What was answered of a batch stays readable; an answer that was cut off cannot be.
        if matches!(step, Step::End(EndReason::BadInput | EndReason::Protocol)) {
            self.close_batch(out);
        }
        step
    }

    fn close_batch(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.work.batch) && self.work.batch_answers > 0 {
            out.extend_from_slice(b"]\n");
        }
    }

    /// True where what is left may wait for what is short: more requests, or an answer beyond its first page. Notices may not:
    /// they are owed to everybody whom a block concerns at once, and each is short but for the rare one.
    pub fn is_long(&self) -> bool {
        let Work { lines, requests, batch, stream, .. } = &self.work;
        let long_stream = stream.as_ref().is_some_and(|stream| stream.entries() >= PAGE_ENTRIES as u64);
        long_stream || *batch || !lines.is_empty() || requests.len() > 0
    }

    fn slice(&mut self, most: Duration, out: &mut Vec<u8>) -> Step {
        let started = Instant::now();
        loop {
            if out.len() >= SLICE_BYTES || started.elapsed() >= most {
                return Step::More;
            }
            if let Some(stream) = self.work.stream.take() {
                if let Some(end) = self.page(stream, out) {
                    return Step::End(end);
                }
            } else if let Some(range) = self.work.requests.next() {
                let line = std::mem::take(&mut self.work.line);
                let end = self.request(&line[range], out);
                self.work.line = line;
                if let Some(end) = end {
                    return Step::End(end);
                }
            } else if self.work.batch {
                self.close_batch(out);
            } else if let Some(line) = self.work.lines.pop_front() {
                if let Some(end) = self.begin_line(line, out) {
                    return Step::End(end);
                }
            } else {
                let mut due = std::mem::take(&mut self.work.due);
                let next = self.tell_next(&mut due, out);
                self.work.due = due;
                match next {
                    Ok(Next::Script(script)) => self.work.stream = Some(Stream::new(script, Purpose::Notify)),
                    Ok(Next::Told) => {}
                    Ok(Next::Nothing) => {
                        self.work.line = Vec::new();
                        return Step::Done;
                    }
                    Err(end) => return Step::End(end),
                }
            }
        }
    }

    /// Writes what separates an answer from the one before.
    fn before_answer(&mut self, out: &mut Vec<u8>) {
        if self.work.batch {
            out.push(if self.work.batch_answers == 0 { b'[' } else { b',' });
            self.work.batch_answers += 1;
        }
    }

    fn after_answer(&self, out: &mut Vec<u8>) {
        if !self.work.batch {
            out.push(b'\n');
        }
    }

    fn refuse(&mut self, head: &Head, error: &Error, out: &mut Vec<u8>) {
        self.env.metrics.errors.add(1);
        if let Error::Internal(why) = error {
            self.env.metrics.note_fault(why);
        }
        self.before_answer(out);
        head.refuse(error, out);
        self.after_answer(out);
    }

    fn request(&mut self, text: &[u8], out: &mut Vec<u8>) -> Option<EndReason> {
        let text = std::str::from_utf8(text).expect("the whole line is UTF-8 and requests are cut at ASCII");
        let request = match request::parse(text) {
            Ok(request) => request,
            Err(_) if self.is_pong(text) => return None,
            Err(refused) => {
                let head = Head { id: refused.id.unwrap_or("null").into(), two: refused.two };
                self.refuse(&head, &refused.error, out);
                self.bad_lines += u32::from(refused.error == Error::Parse);
                return (self.bad_lines >= self.env.limits.bad_lines_max).then_some(EndReason::BadInput);
            }
        };
        self.bad_lines = 0;
        // A notification has no answer, and none of the methods does anything without one.
        let head = Head { id: request.id?.into(), two: request.two };
        let Some(index) = methods::find(&request.method, self.version) else {
            self.env.metrics.unknown_methods.add(1);
            if self.version.is_none() {
                self.refuse(&head, &Error::VersionFirst, out);
                return Some(EndReason::Protocol);
            }
            self.refuse(&head, &Error::UnknownMethod, out);
            return None;
        };
        self.call(head, index, &request.params, out)
    }

    /// Asks the client whether it is still there, where its version of the protocol has an answer to that.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        self.pings = (self.pings.0 + 1, true);
        let request = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"{}\",\"method\":\"server.ping\",\"params\":[0,\"\"]}}\n",
            self.ping_id()
        );
        out.extend_from_slice(request.as_bytes());
        self.env.metrics.pings.add(1);
    }

    fn ping_id(&self) -> String {
        format!("ping-{}", self.pings.0)
    }

    /// True for the first answer to the last ping, even one that says that nobody knows what a ping is.
    fn is_pong(&mut self, text: &str) -> bool {
        let is_one =
            self.pings.1 && request::response_id(text).is_some_and(|id| id.trim_matches('"') == self.ping_id());
        self.pings.1 &= !is_one;
        is_one
    }

    fn call(&mut self, head: Head, index: usize, params: &request::Params<'_>, out: &mut Vec<u8>) -> Option<EndReason> {
        let started = Instant::now();
        let method = &METHODS[index];
        if self.version.is_none() && method.name != methods::VERSION {
            self.refuse(&head, &Error::VersionFirst, out);
            return Some(EndReason::Protocol);
        }
        let first = self.version.is_none();
        let mark = out.len();
        let answers = self.work.batch_answers;
        self.before_answer(out);
        let body = out.len();
        let mut retries = 0;
        let reply = Arguments::of(params, method.params, method.extra).map_err(Fault::Answer).and_then(|arguments| {
            loop {
                out.truncate(body);
                head.open(out);
                match (method.call)(self, &arguments, out) {
                    Err(Fault::Stale) if retries < STALE_RETRIES_MAX => {
                        self.env.source.catch_up();
                        retries += 1;
                    }
                    reply => return reply,
                }
            }
        });
        let end = match reply {
            Ok(Reply::Written) => {
                head.close(out);
                self.after_answer(out);
                if first {
                    self.two = head.two;
                }
                None
            }
            Ok(Reply::Stream(stream)) => {
                out.truncate(mark);
                self.work.batch_answers = answers;
                self.work.stream = Some(stream.answering(head, index));
                None
            }
            Err(fault) => {
                out.truncate(mark);
                self.work.batch_answers = answers;
                let error = fault.last_word();
                self.refuse(&head, &error, out);
                (error == Error::UnsupportedVersion).then_some(EndReason::Protocol)
            }
        };
        self.tally.requests += 1;
        let counters = &self.env.metrics.methods[index];
        counters.requests.add(1);
        if self.work.stream.is_none() {
            counters.answered((out.len() - mark) as u64, started.elapsed());
        }
        counters.spent_ns.add(started.elapsed().as_nanos() as u64);
        end
    }

    /// Does one page of a long answer.
    fn page(&mut self, mut stream: Stream, out: &mut Vec<u8>) -> Option<EndReason> {
        let started = Instant::now();
        // The separator belongs to the first page; a stream that fails before it has written anything is an error.
        if !stream.begun() && stream.has_head() {
            self.before_answer(out);
        }
        let rows = stream.entries();
        let before = out.len();
        let result = stream.page(&self.env, out);
        stream.bytes += (out.len() - before) as u64;
        self.tally.rows += stream.entries() - rows;
        stream.spent += started.elapsed();
        if let Some(method) = stream.method() {
            self.env.metrics.methods[method].spent_ns.add(started.elapsed().as_nanos() as u64);
        }
        match result {
            Ok(false) => {
                self.keep(stream, out);
                None
            }
            Ok(true) => {
                if let Some(method) = stream.method() {
                    self.env.metrics.methods[method].answered(stream.bytes, stream.spent);
                }
                self.finished(stream, out)
            }
            Err(fault) if stream.begun() => {
                self.env.metrics.note_fault(&format!("a long answer was cut off: {fault:?}"));
                Some(EndReason::Fault)
            }
            Err(fault) => self.failed(stream, fault, out),
        }
    }

    /// A stream with more pages to come. One that wrote nothing yet takes its separator back.
    fn keep(&mut self, stream: Stream, out: &mut Vec<u8>) {
        if !stream.begun() && stream.has_head() {
            self.take_back_separator(out);
        }
        self.work.stream = Some(stream);
    }

    fn take_back_separator(&mut self, out: &mut Vec<u8>) {
        if self.work.batch {
            self.work.batch_answers -= 1;
            out.pop();
        }
    }

    fn finished(&mut self, stream: Stream, out: &mut Vec<u8>) -> Option<EndReason> {
        match stream.purpose() {
            Purpose::Notify => return self.tell_script(stream.script(), stream.result(), out).err(),
            Purpose::History | Purpose::Mempool | Purpose::Unspent | Purpose::Status => self.after_answer(out),
            Purpose::Subscribe => {
                if let Some(told) = self.wishes.scripts.get_mut(stream.script()) {
                    *told = Told::of(stream.result());
                }
                self.after_answer(out);
            }
        }
        None
    }

    fn failed(&mut self, mut stream: Stream, fault: Fault, out: &mut Vec<u8>) -> Option<EndReason> {
        if stream.has_head() {
            self.take_back_separator(out);
        }
        let error = match fault {
            Fault::Stale if stream.start_again(&self.env) => {
                self.work.stream = Some(stream);
                return None;
            }
            fault => fault.last_word(),
        };
        if stream.purpose() == Purpose::Subscribe && self.wishes.scripts.get(stream.script()) == Some(&Told::NOTHING) {
            self.forget(&Topic::Script(*stream.script()));
        }
        match stream.into_head() {
            Some(head) => {
                self.refuse(&head, &error, out);
                None
            }
            // A notification that cannot be computed: the client would go on believing the old status.
            None => {
                self.env.metrics.note_fault(&error.to_string());
                Some(EndReason::Fault)
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.env.subscriptions.leave(self.id, self.wishes.topics());
        self.env.metrics.subscriptions_now.sub(self.wishes.count() as u64);
    }
}
