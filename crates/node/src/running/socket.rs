//! The status socket: whoever connects to `status.sock` in the network's folder and says a line gets one JSON object.
//!
//! In:     a closure that makes the object, from the line that was said, which may be empty; a folder.
//! Out:    a thread `status` that answers; [`ask`], which asks a running node.
//! Fails:  at start, when the socket cannot be made; asking, when nobody answers.
//!
//! The path goes through `/proc/self/fd`, since a socket's address holds 107 bytes and a data directory's name may be longer.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Name of the socket in the network's folder.
const SOCKET_NAME: &str = "status.sock";
/// Longest answer that is read, in bytes; ours has about 1,000, and 300 for each of 10,000 Electrum sessions.
const ANSWER_BYTES_MAX: u64 = 1 << 23;
/// Longest question, in bytes.
const QUESTION_BYTES_MAX: u64 = 1 << 16;
/// How long a side waits for the other.
const PATIENCE: Duration = Duration::from_secs(2);

/// The answering thread; dropping it ends the thread and removes the socket.
pub struct StatusSocket {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StatusSocket {
    /// Starts answering. The folder's lock must be held, as a socket left by a killed process is replaced.
    pub fn start(folder: &Path, answer: impl Fn(&str) -> String + Send + 'static) -> io::Result<StatusSocket> {
        let path = folder.join(SOCKET_NAME);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (_open, short) = short_path(folder)?;
        let listener = UnixListener::bind(short)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("status".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(mut stream) = stream else { continue };
                // One who does not read loses the answer, and nobody waits for it longer than this.
                let _ = stream.set_write_timeout(Some(PATIENCE));
                let _ = stream.set_read_timeout(Some(PATIENCE));
                let mut question = String::new();
                // One who says nothing, or no text, wants to know how we are.
                let _ = BufReader::new((&stream).take(QUESTION_BYTES_MAX)).read_line(&mut question);
                let _ = stream.write_all(answer(question.trim()).as_bytes());
            }
        })?;
        Ok(StatusSocket { path, stop, thread: Some(thread) })
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let woken = self.path.parent().is_some_and(|folder| connect(folder).is_ok());
        if let Some(thread) = self.thread.take()
            && woken
        {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Asks the node that runs on this folder; an empty question is how it is.
pub fn ask(folder: &Path, question: &str) -> io::Result<String> {
    let mut stream = connect(folder)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{question}\n").as_bytes())?;
    let mut text = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn connect(folder: &Path) -> io::Result<UnixStream> {
    let (_open, short) = short_path(folder)?;
    UnixStream::connect(short)
}

fn short_path(folder: &Path) -> io::Result<(File, PathBuf)> {
    let open = File::open(folder)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET_NAME}", open.as_raw_fd()));
    Ok((open, short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_node_is_asked_and_a_stopped_one_is_not_there() {
        let folder = std::env::temp_dir().join(format!("assay-socket-{}-{}", std::process::id(), "x".repeat(120)));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(SOCKET_NAME), "left by a killed process").unwrap();
        let socket = StatusSocket::start(&folder, |asked| format!("{{\"asked\":{asked:?}}}")).unwrap();
        for question in ["", "x", ""] {
            assert_eq!(ask(&folder, question).unwrap(), format!("{{\"asked\":{question:?}}}"));
        }
        // One who only connects and leaves delays nobody for long.
        drop(connect(&folder).unwrap());
        assert!(ask(&folder, "").is_ok());
        drop(socket);
        assert!(ask(&folder, "").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
