//! An onion service for the Electrum server, kept while it runs.
//!
//! In:     where Tor's control port is, the service's port, where connections arrive, the file of its key.
//! Out:    the service's name in the log; the same name after a restart.
//! Fails:  never; what went wrong is logged, and tried again ever more seldom.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::entropy::Entropy;
use net::proxies::{TOR_LINE_BYTES_MAX, TorControl, TorStep};
use net::shell::{OsEntropy, TorService};

use crate::running::log;

/// Rest after the first failure, and the longest; those of the peers' service.
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(600);
/// How often is looked whether the node stops.
const LOOK: Duration = Duration::from_millis(100);
/// What one reply of Tor may take.
const REPLY_TIME_MAX: Duration = Duration::from_secs(60);

/// What an onion service needs.
#[derive(Clone, Debug)]
pub struct OnionWish {
    /// Where Tor is asked.
    pub tor: TorService,
    /// The port others connect to.
    pub port: u16,
    /// The file of its key.
    pub key_file: PathBuf,
}

/// A service that is kept; dropping it ends it.
pub struct Onion {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Onion {
    /// Keeps the service; its connections go to `target`. Its name is told each time it stands.
    pub fn keep(wish: OnionWish, target: SocketAddr, told: impl Fn(&str) + Send + 'static) -> io::Result<Onion> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("electrum-onion".to_owned());
        let thread = thread.spawn(move || keep(&wish, target, &stopped, &told))?;
        Ok(Onion { stop, thread: Some(thread) })
    }
}

impl Drop for Onion {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic of it has been logged, and ends the node by itself.
            let _ = thread.join();
        }
    }
}

fn keep(wish: &OnionWish, target: SocketAddr, stop: &AtomicBool, told: &dyn Fn(&str)) {
    let mut rest = REST;
    while !stop.load(Ordering::SeqCst) {
        let began = Instant::now();
        let why = match serve(wish, target, stop, told) {
            Ok(()) => "Tor closed the control connection".to_owned(),
            Err(error) => error.to_string(),
        };
        if stop.load(Ordering::SeqCst) {
            return;
        }
        log::warn("electrum", "no onion service", &[("why", &why), ("again_in_s", &rest.as_secs())]);
        let until = Instant::now() + rest;
        while Instant::now() < until && !stop.load(Ordering::SeqCst) {
            std::thread::sleep(LOOK);
        }
        // A service that stood for a while begins again quickly.
        rest = if began.elapsed() > REST_MAX { REST } else { rest.mul_f64(1.5).min(REST_MAX) };
    }
}

fn serve(wish: &OnionWish, target: SocketAddr, stop: &AtomicBool, told: &dyn Fn(&str)) -> io::Result<()> {
    let stream = TcpStream::connect_timeout(&wish.tor.control, REPLY_TIME_MAX)?;
    stream.set_read_timeout(Some(LOOK))?;
    let mut lines = Lines { reader: BufReader::new(stream), line: Vec::new() };
    let mut nonce = [0; 32];
    OsEntropy.fill(&mut nonce);
    let key = fs::read_to_string(&wish.key_file).ok().map(|text| text.trim().to_owned());
    let password = wish.tor.password.as_ref().map(|password| password.0.clone());
    let (mut control, first) = TorControl::new(password, key, format!("{},{target}", wish.port), nonce);
    lines.send(&first)?;
    loop {
        let Some(line) = lines.next(Some(REPLY_TIME_MAX), stop)? else { return Ok(()) };
        match control.take(&line, |path| fs::read(path).ok()).map_err(io::Error::other)? {
            TorStep::Wait => {}
            TorStep::Send(line) => lines.send(&line)?,
            TorStep::Done { host, new_key } => {
                if let Some(new_key) = new_key {
                    write_secret(&wish.key_file, &new_key)?;
                }
                log::info("electrum", "onion service", &[("address", &format!("{host}:{}", wish.port))]);
                told(&host.to_string());
                break;
            }
        }
    }
    // The service ends with this connection; Tor says nothing more that matters.
    while lines.next(None, stop)?.is_some() {}
    Ok(())
}

fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Lines from Tor, read a little at a time so that a stop is noticed.
struct Lines {
    reader: BufReader<TcpStream>,
    line: Vec<u8>,
}

impl Lines {
    fn send(&mut self, line: &str) -> io::Result<()> {
        self.reader.get_mut().write_all(line.as_bytes())
    }

    /// The next line without its end; none at the end of the stream or when the node stops.
    fn next(&mut self, patience: Option<Duration>, stop: &AtomicBool) -> io::Result<Option<String>> {
        let began = Instant::now();
        loop {
            let room = TOR_LINE_BYTES_MAX.saturating_sub(self.line.len()) as u64;
            match (&mut self.reader).take(room).read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.last() == Some(&b'\n') => {
                    let line = String::from_utf8(std::mem::take(&mut self.line));
                    let line = line.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
                    return Ok(Some(line.trim_end().to_owned()));
                }
                Ok(_) if self.line.len() >= TOR_LINE_BYTES_MAX => return Err(io::ErrorKind::InvalidData.into()),
                Ok(_) => return Ok(None),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if stop.load(Ordering::SeqCst) {
                        return Ok(None);
                    }
                    if patience.is_some_and(|patience| began.elapsed() > patience) {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Tor's side of a conversation: what must come, and what is said to it.
    fn tor(listener: &TcpListener, add: &str, replies: &[&str]) -> BufReader<TcpStream> {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        for (want, reply) in ["PROTOCOLINFO 1", "AUTHENTICATE", add].iter().zip(replies) {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            assert_eq!(line.trim_end(), *want);
            stream.get_mut().write_all(reply.as_bytes()).unwrap();
        }
        stream
    }

    #[test]
    fn the_service_is_asked_for_again_with_the_same_key_and_ends_at_once() {
        let folder = std::env::temp_dir().join(format!("assay-onion-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tor_service = TorService { control: listener.local_addr().unwrap(), password: None };
        let wish = OnionWish { tor: tor_service, port: 50_001, key_file: folder.join("key") };
        let target: SocketAddr = "127.0.0.1:7".parse().unwrap();
        let (name, names) = std::sync::mpsc::channel();
        let onion = Onion::keep(wish.clone(), target, move |host| name.send(host.to_owned()).unwrap()).unwrap();
        let info = "250-PROTOCOLINFO 1\r\n250-AUTH METHODS=NULL\r\n250 OK\r\n";
        let id = "2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid";
        let new = format!("250-ServiceID={id}\r\n250-PrivateKey=ED25519-V3:secret\r\n250 OK\r\n");
        let first = "ADD_ONION NEW:ED25519-V3 Port=50001,127.0.0.1:7";
        drop(tor(&listener, first, &[info, "250 OK\r\n", &new]));
        let known = format!("250-ServiceID={id}\r\n250 OK\r\n");
        let second = "ADD_ONION ED25519-V3:secret Port=50001,127.0.0.1:7";
        let mut stream = tor(&listener, second, &[info, "250 OK\r\n", &known]);
        let began = Instant::now();
        drop(onion);
        assert_eq!(names.iter().collect::<Vec<_>>(), [format!("{id}.onion"), format!("{id}.onion")]);
        assert!(began.elapsed() < Duration::from_secs(5));
        let mut rest = String::new();
        assert_eq!(stream.read_to_string(&mut rest).unwrap_or(0), 0, "the service ends with the connection");
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&wish.key_file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_dir_all(folder).unwrap();
    }
}
