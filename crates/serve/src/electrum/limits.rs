//! Every limit of the Electrum server, with its unit and where the number comes from.
//!
//! In:     nothing.
//! Out:    [`Limits`]; tests shrink them, the node's options raise some.
//! Fails:  never.
//!
//! Worst memory with the defaults: outgoing 256 MiB shared + 1,000 sessions x (64 KiB + one slice of 128 KiB), unfinished
//! lines 64 MiB shared + 1,000 x 16 KiB, subscriptions 500,000 x about 150 bytes: under 800 MiB with every session
//! hostile, and about 20 KiB a session at rest.

use std::time::Duration;

use crate::transport::room::RoomLimits;

/// Headers in one answer; the protocol says at least 2,016, one retarget period.
pub const HEADERS_MAX: u64 = 2016;

/// Bytes of an `id` we echo. Clients count upwards or send a UUID of 36.
pub const ID_BYTES_MAX: usize = 128;

/// Members of `params` we look at; no method has more than three, `server.version` tolerates more.
pub const PARAMS_MAX: usize = 32;

/// Digits of an answer to a ping: enough to look like any answer but the longest histories.
pub const PONG_DIGITS_MAX: u64 = 65_536;

/// Entries of a history or of unspent outputs read in one go: about a millisecond of a warm disk.
pub const PAGE_ENTRIES: usize = 256;

/// Bytes of answers after which a slice of work ends, so that they go out before more are made.
pub const SLICE_BYTES: usize = 128 * 1024;

/// Time after which a slice of a long answer ends, so that those of others get their turn.
pub const SLICE_TIME: Duration = Duration::from_millis(20);

/// Time that the thread which read a request spends on it before it looks after others: ten short answers. Meanwhile it may
/// be that no thread hears of what comes.
pub const PORTION_TIME: Duration = Duration::from_micros(200);

/// Retries of a request when a reorganisation passed under its view; each takes a newer view.
pub const STALE_RETRIES_MAX: usize = 5;

/// Histories whose hash so far is kept, so that a change of a long one costs only what is new (about 250 bytes each).
pub const STATUS_MEMORY_MAX: usize = 32_768;

/// History length from which its hash is kept; below, the entries of a script are a read or two of a warm disk.
pub const STATUS_MEMORY_ENTRIES_MIN: u64 = 64;

/// Limits of sessions.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open sessions; ElectrumX's default is 1,000.
    pub sessions_max: usize,
    /// Bytes of one line. A 400,000-byte transaction is 800,000 digits, ElectrumX's MAX_RECV is 1 MB.
    pub line_bytes_max: usize,
    /// Bytes of an unfinished line that each session may have; what is above comes out of `line_bytes_shared_max`.
    pub line_bytes_own: usize,
    /// Bytes of unfinished lines above `line_bytes_own`, over all sessions: 64 lines of full length.
    pub line_bytes_shared_max: usize,
    /// Requests in one batch. The largest of known wallets is BlueWallet's 200, Fulcrum allows 345.
    pub batch_requests_max: usize,
    /// Lines in a row that are not requests before we hang up; ElectrumX hangs up after 10 errors.
    pub bad_lines_max: u32,
    /// Scripts, transactions and outpoints one session may subscribe to; the largest wallets reported have 120,000 addresses.
    pub subscriptions_session_max: usize,
    /// Subscriptions over all sessions.
    pub subscriptions_max: usize,
    /// Bytes of answers waiting for one client before its next answer waits too; Fulcrum's `max_buffer` is 8 MB.
    /// One answer may overshoot it: by a verbose transaction of a full block, about 30 MB.
    pub waiting_bytes_max: usize,
    /// Bytes of answers each session may have waiting whatever the others have.
    pub waiting_bytes_own: usize,
    /// Bytes of answers waiting over all sessions; above it each has `waiting_bytes_own`.
    pub waiting_bytes_shared_max: usize,
    /// Time in which a client must take [`WRITE_BYTES`] off us, or is dropped: 2 KiB/s, a tenth of a bad Tor circuit.
    pub write_time_max: Duration,
    /// Time without a request before we hang up; ElectrumX's SESSION_TIMEOUT and Fulcrum's idle time are 600 s.
    pub idle_time_max: Duration,
    /// Silence after which a client that speaks 1.7 is pinged. Electrum's own pings come after at most 300 s.
    pub silence_time_max: Duration,
    /// Time for anything to come after a ping; a circuit of Tor that stands answers in seconds.
    pub pong_time_max: Duration,
    /// Time for the layers below the first message to open: a balancer's header, TLS, a WebSocket's request. Fulcrum
    /// gives TLS 10 s.
    pub opening_time_max: Duration,
    /// Time for the first request, `server.version`.
    pub handshake_time_max: Duration,
    /// Time from a line's first byte to its end: 17 KiB/s for the longest line.
    pub line_time_max: Duration,
    /// Computing time of one request; ElectrumX's REQUEST_TIMEOUT is 30 s.
    pub request_time_max: Duration,
    /// Entries of a history or of unspent outputs in one answer; longer ones are refused with error 10001. None: any.
    pub history_entries_max: Option<usize>,
}

/// Bytes handed to a socket in one go.
pub const WRITE_BYTES: usize = 64 * 1024;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions_max: 1000,
            line_bytes_max: 1024 * 1024,
            line_bytes_own: 16 * 1024,
            line_bytes_shared_max: 64 * 1024 * 1024,
            batch_requests_max: 1000,
            bad_lines_max: 10,
            subscriptions_session_max: 150_000,
            subscriptions_max: 500_000,
            waiting_bytes_max: 8 * 1024 * 1024,
            waiting_bytes_own: 64 * 1024,
            waiting_bytes_shared_max: 256 * 1024 * 1024,
            write_time_max: Duration::from_secs(30),
            idle_time_max: Duration::from_secs(600),
            silence_time_max: Duration::from_secs(120),
            pong_time_max: Duration::from_secs(60),
            opening_time_max: Duration::from_secs(10),
            handshake_time_max: Duration::from_secs(30),
            line_time_max: Duration::from_secs(60),
            request_time_max: Duration::from_secs(30),
            history_entries_max: None,
        }
    }
}

impl Limits {
    /// Those on messages that have not ended.
    pub fn room(&self) -> RoomLimits {
        RoomLimits {
            message_bytes_max: self.line_bytes_max,
            own_bytes: self.line_bytes_own,
            shared_bytes_max: self.line_bytes_shared_max,
        }
    }
}
