//! HTTP around the calls: who may connect, how much they may send, how many are answered at once, and the end of it.
//!
//! In:     a [`Config`], the [`Env`] of the calls; requests from sockets.
//! Out:    [`ServerHandle`]: the address bound, a stop within a second.
//! Fails:  [`start`] with the error of binding, or of starting threads; later a connection fails alone.
//! Source: Bitcoin Core, `src/httpserver.cpp`, `src/httprpc.cpp` (`HTTPReq_JSONRPC`).
//!
//! A password is looked at before a body is read, so nobody without one makes us keep more than a header.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Config;
use super::answer::{AnswerLimits, answer};
use super::env::Env;
use crate::rest;

/// Headers of a request; a browser sends about twenty.
const HEADERS_MAX: usize = 100;
/// Bytes of all headers of a request; Core's `MAX_HEADERS_SIZE`.
const HEADER_BYTES_MAX: usize = 8192;
/// Bytes of a body that comes without a password: outpoints of `/rest/getutxos`.
const REST_BODY_BYTES_MAX: usize = 64 * 1024;
/// How long a wrong password waits for its answer; Core's 250 ms.
const WRONG_PASSWORD_DELAY: Duration = Duration::from_millis(250);
/// Pause after the system refuses a connection, for instance because no file handles are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time that answers under way get when the server stops.
const STOP_TIME: Duration = Duration::from_millis(500);

type Reply = Response<Full<Bytes>>;

/// What all connections share.
struct Shared {
    env: Arc<Env>,
    config: Config,
    work: Semaphore,
    waiting: AtomicUsize,
    connections: AtomicUsize,
}

/// A running server; dropping it stops it.
pub struct ServerHandle {
    shared: Arc<Shared>,
    local_address: SocketAddr,
    stop: watch::Sender<bool>,
    runtime: Option<Runtime>,
}

/// Binds the address and serves it until the handle is stopped.
pub fn start(config: Config, env: Arc<Env>) -> io::Result<ServerHandle> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(config.threads + 1)
        .thread_name("rpc")
        .enable_all()
        .build()?;
    let listener = runtime.block_on(TcpListener::bind(config.listen))?;
    let local_address = listener.local_addr()?;
    let (stop, stopped) = watch::channel(false);
    let shared = Arc::new(Shared {
        work: Semaphore::new(config.threads),
        waiting: AtomicUsize::new(0),
        connections: AtomicUsize::new(0),
        env,
        config,
    });
    runtime.spawn(accept(listener, shared.clone(), stopped));
    Ok(ServerHandle { shared, local_address, stop, runtime: Some(runtime) })
}

impl ServerHandle {
    /// The address it listens on.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// What its calls share.
    pub fn env(&self) -> &Arc<Env> {
        &self.shared.env
    }

    /// Lets answers under way end, at most half a second, and closes every connection.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.block_on(async {
                let deadline = Instant::now() + STOP_TIME;
                while self.shared.connections.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
            runtime.shutdown_timeout(Duration::from_millis(100));
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.end();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        match accepted {
            Ok((socket, peer)) => open(socket, peer.ip(), &shared, &stopped),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Counts a connection out, also where its task is cut off.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
        self.0.env.metrics.sessions_now.sub(1);
    }
}

fn open(socket: TcpStream, peer: IpAddr, shared: &Arc<Shared>, stopped: &watch::Receiver<bool>) {
    let metrics = &shared.env.metrics;
    if shared.connections.load(Ordering::SeqCst) >= shared.config.connections_max {
        metrics.sessions_refused.add(1);
        return;
    }
    shared.connections.fetch_add(1, Ordering::SeqCst);
    metrics.sessions_opened.add(1);
    metrics.sessions_now.add(1);
    let counted = Counted(shared.clone());
    // Answers are waited for: never hold them back to fill a packet. A failure means the client is gone.
    let _ = socket.set_nodelay(true);
    let mut stopped = stopped.clone();
    tokio::spawn(async move {
        let shared = counted.0.clone();
        let timeout = shared.config.timeout;
        let service = service_fn(move |request| {
            let shared = shared.clone();
            async move { Ok::<_, Infallible>(respond(request, peer, &shared).await) }
        });
        let io = Timed { inner: TokioIo::new(socket), timeout, late: None };
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(timeout).max_headers(HEADERS_MAX);
        let connection = builder.max_buf_size(HEADER_BYTES_MAX.max(16 * 1024)).serve_connection(io, service);
        tokio::pin!(connection);
        // How a connection ended is the client's business.
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stopped.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    });
}

fn plain(status: StatusCode, text: &'static str) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *reply.status_mut() = status;
    reply
}

/// A refusal after which the rest of a request is not read.
fn closing(status: StatusCode, text: &'static str) -> Reply {
    let mut reply = plain(status, text);
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

fn unauthorized() -> Reply {
    let mut reply = closing(StatusCode::UNAUTHORIZED, "");
    reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"jsonrpc\""));
    reply
}

fn may_connect(peer: IpAddr, config: &Config) -> bool {
    peer.to_canonical().is_loopback() || config.allow.iter().any(|subnet| subnet.contains(&peer))
}

async fn respond(request: Request<Incoming>, peer: IpAddr, shared: &Arc<Shared>) -> Reply {
    if !may_connect(peer, &shared.config) {
        return closing(StatusCode::FORBIDDEN, "");
    }
    if !matches!(*request.method(), Method::GET | Method::POST | Method::HEAD | Method::PUT) {
        return closing(StatusCode::METHOD_NOT_ALLOWED, "");
    }
    let path = request.uri().path();
    if shared.config.rest && path.starts_with(rest::PREFIX) {
        return serve_rest(request, shared).await;
    }
    if path != "/" && !path.starts_with("/wallet/") {
        return closing(StatusCode::NOT_FOUND, "");
    }
    if request.method() != Method::POST {
        return closing(StatusCode::METHOD_NOT_ALLOWED, "JSONRPC server handles only POST requests");
    }
    serve_rpc(request, shared).await
}

/// The whole body, within its limit and its time.
async fn read_body(request: Request<Incoming>, bytes_max: usize, timeout: Duration) -> Result<Bytes, Reply> {
    let told = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|length| length > bytes_max as u64) {
        return Err(closing(StatusCode::PAYLOAD_TOO_LARGE, ""));
    }
    match tokio::time::timeout(timeout, Limited::new(request.into_body(), bytes_max).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(closing(StatusCode::PAYLOAD_TOO_LARGE, ""))
        }
        Ok(Err(_)) => Err(closing(StatusCode::BAD_REQUEST, "")),
        Err(_) => Err(closing(StatusCode::REQUEST_TIMEOUT, "")),
    }
}

async fn serve_rpc(request: Request<Incoming>, shared: &Arc<Shared>) -> Reply {
    let Some(header) = request.headers().get(AUTHORIZATION) else { return unauthorized() };
    let user = header.to_str().ok().and_then(|header| shared.config.users.user(header));
    let Some(user) = user else {
        // Whoever tries passwords waits for each.
        tokio::time::sleep(WRONG_PASSWORD_DELAY).await;
        return unauthorized();
    };
    if shared.config.users.allowed(&user).is_none() {
        return closing(StatusCode::FORBIDDEN, "");
    }
    let body = match read_body(request, shared.config.body_bytes_max, shared.config.timeout).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    shared.env.metrics.bytes_in.add(body.len() as u64);
    let at_work = shared.clone();
    let done = in_queue(shared, move || {
        let Config { batch_max, batch_answer_bytes_max: answer_bytes_max, .. } = at_work.config;
        let limits = AnswerLimits { batch_max, answer_bytes_max };
        let allowed = at_work.config.users.allowed(&user)?;
        Some(answer(&at_work.env, &body, &allowed, &limits))
    });
    match done.await {
        Err(refusal) => refusal,
        Ok(None) => closing(StatusCode::FORBIDDEN, ""),
        Ok(Some(answer)) => {
            shared.env.metrics.bytes_out.add(answer.body.len() as u64);
            let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let typed = !answer.body.is_empty();
            let mut reply = Response::new(Full::new(Bytes::from(answer.body)));
            *reply.status_mut() = status;
            if typed {
                reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            reply
        }
    }
}

async fn serve_rest(request: Request<Incoming>, shared: &Arc<Shared>) -> Reply {
    let target = request.uri().path_and_query().map_or(String::new(), |target| target.as_str().to_owned());
    let body = match read_body(request, REST_BODY_BYTES_MAX, shared.config.timeout).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let env = shared.env.clone();
    match in_queue(shared, move || rest::answer(&env, &target, &body)).await {
        Err(refusal) => refusal,
        Ok(answer) => {
            shared.env.metrics.bytes_out.add(answer.body.len() as u64);
            let mut reply = Response::new(Full::new(Bytes::from(answer.body)));
            *reply.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
            reply
        }
    }
}

/// Gives a place in the queue back, whatever becomes of the call.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs work on a thread of its own once one is free; refuses it where too much waits already.
async fn in_queue<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Reply> {
    let failed = || plain(StatusCode::INTERNAL_SERVER_ERROR, "");
    let permit = match shared.work.try_acquire() {
        Ok(permit) => permit,
        Err(_) => {
            if shared.waiting.fetch_add(1, Ordering::SeqCst) >= shared.config.queue_max {
                shared.waiting.fetch_sub(1, Ordering::SeqCst);
                return Err(plain(StatusCode::SERVICE_UNAVAILABLE, "Work queue depth exceeded"));
            }
            let _waiting = Waiting(&shared.waiting);
            shared.work.acquire().await.map_err(|_| failed())?
        }
    };
    // A call that panics is a fault of ours: its client hears of it, and the others go on.
    let result = tokio::task::spawn_blocking(work).await.map_err(|_| failed());
    drop(permit);
    result
}

/// A socket whose peer must take what we write, or is dropped.
struct Timed {
    inner: TokioIo<TcpStream>,
    timeout: Duration,
    /// Set while a write waits.
    late: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    /// `poll`, or an error once it has waited too long.
    fn within<T>(&mut self, poll: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.late = None;
            return poll;
        }
        let deadline = Instant::now() + self.timeout;
        let late = self.late.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        match late.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Read for Timed {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, to)
    }
}

impl Write for Timed {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.within(poll, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(context);
        self.within(poll, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_shutdown(context);
        self.within(poll, context)
    }
}
