//! A line of a given rate: a proxy on loopback that lets so many bytes a second through to whoever connects.
//!
//! In:     where to connect on; bytes a second.
//! Out:    an address to connect to.
//! Fails:  at start, when no port is free; a connection that breaks is closed on both sides.
//!
//! Requests go through as they come; only answers are held to the rate, a few milliseconds' worth at a time.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::{BenchError, at};

/// Most bytes read at once.
const PIECE_BYTES_MAX: usize = 64 * 1024;
/// The time one piece may take on the line; what is longer is cut into pieces.
const PIECE: Duration = Duration::from_millis(10);

/// The proxy; dropping it closes the port and every connection.
pub struct Line {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Line {
    /// Begins to listen.
    pub fn start(to: SocketAddr, bytes_per_s: u64) -> Result<Line, BenchError> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(at("127.0.0.1"))?;
        let address = listener.local_addr().map_err(at("127.0.0.1"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let accept = move || {
            let mut carriers = Vec::new();
            for client in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(server) = TcpStream::connect(to) else { continue };
                carriers.extend(carry(client, server, bytes_per_s, &stopped));
            }
            // Both ends of every connection were shut by now or will be by its carriers, which look at the flag.
            carriers.into_iter().for_each(|carrier| drop(carrier.join()));
        };
        let accepting = std::thread::Builder::new().name("bench".to_owned()).spawn(accept).map_err(at("thread"))?;
        Ok(Line { address, stop, accepting: Some(accepting) })
    }

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let woken = TcpStream::connect(self.address).is_ok();
        if let (true, Some(accepting)) = (woken, self.accepting.take()) {
            let _ = accepting.join();
        }
    }
}

/// Two threads, one for each direction.
fn carry(client: TcpStream, server: TcpStream, bytes_per_s: u64, stop: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let (Ok(client_again), Ok(server_again)) = (client.try_clone(), server.try_clone()) else { return Vec::new() };
    let (there, here) = (stop.clone(), stop.clone());
    let spawn = |work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().name("bench".to_owned()).spawn(work);
    let questions = spawn(Box::new(move || copy(client, server, None, &there)));
    let answers = spawn(Box::new(move || copy(server_again, client_again, Some(bytes_per_s), &here)));
    [questions, answers].into_iter().flatten().collect()
}

/// Copies until either side ends, or the proxy does.
fn copy(mut from: TcpStream, mut to: TcpStream, bytes_per_s: Option<u64>, stop: &AtomicBool) {
    let _ = (to.set_nodelay(true), from.set_read_timeout(Some(Duration::from_millis(50))));
    let piece = bytes_per_s.map_or(PIECE_BYTES_MAX, piece_bytes);
    let mut buffer = vec![0; piece];
    let mut free = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => break,
        };
        if let Some(rate) = bytes_per_s {
            // The line is free again when these bytes have left it; an idle line saves nothing up.
            free = free.max(Instant::now()) + Duration::from_secs_f64(count as f64 / rate as f64);
            sleep(free.saturating_duration_since(Instant::now()));
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// How much of the rate fits into [`PIECE`].
fn piece_bytes(bytes_per_s: u64) -> usize {
    ((bytes_per_s as f64 * PIECE.as_secs_f64()) as usize).clamp(1, PIECE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_short_on_slow_lines_and_bounded_on_fast_ones() {
        assert_eq!(piece_bytes(1), 1);
        assert_eq!(piece_bytes(10_000), 100);
        assert_eq!(piece_bytes(1_000_000), 10_000);
        assert_eq!(piece_bytes(1_000_000_000), PIECE_BYTES_MAX);
    }

    #[test]
    fn answers_come_whole_and_no_faster_than_the_rate() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let answer: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        let expected = answer.clone();
        let serve = std::thread::Builder::new().name("bench".to_owned()).spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 5];
            stream.read_exact(&mut question).unwrap();
            assert_eq!(&question, b"hello");
            stream.write_all(&answer).unwrap();
        });
        let line = Line::start(to, 400_000).unwrap();
        let mut stream = TcpStream::connect(line.address()).unwrap();
        let before = Instant::now();
        stream.write_all(b"hello").unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert_eq!(got, expected);
        // A busy machine makes it slower, and nothing makes it faster.
        assert!(before.elapsed() >= Duration::from_millis(240), "{:?}", before.elapsed());
        serve.unwrap().join().unwrap();
    }
}
