//! Keeping an onion service while the shell runs.
//!
//! In:     where Tor's control port is, and where connections to the service are to arrive.
//! Out:    the service's endpoint among those we tell others; its key in a file, so that it is the same after a restart.
//! Fails:  never; what went wrong is remembered for the log, and tried again ever more seldom.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::config::TorService;
use super::shared::Shared;
use crate::addresses::SCORE_GIVEN;
use crate::entropy;
use crate::hub::Chain;
use crate::proxies::{TOR_LINE_BYTES_MAX, TorControl, TorStep};
use crate::wire::Endpoint;

/// Rest after the first failure; Core's `RECONNECT_TIMEOUT_START`.
const REST: Duration = Duration::from_secs(1);
/// Longest rest; Core's `RECONNECT_TIMEOUT_MAX`.
const REST_MAX: Duration = Duration::from_secs(600);
/// What one reply of Tor may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// File of the service's key.
const KEY_FILE: &str = "onion_v3_private_key";

/// Keeps the service until the shell ends; connections to it go to `target`.
pub async fn keep<C: Chain>(shared: Arc<Shared<C>>, tor: TorService, target: SocketAddr) {
    let path = shared.config.directory.as_ref().map(|directory| directory.join(KEY_FILE));
    let mut key = path.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).map(|text| text.trim().to_owned());
    let mut rest = REST;
    loop {
        let began = shared.now();
        let result = serve(&shared, &tor, target, &mut key, path.as_ref()).await;
        let remark = match result {
            Ok(()) => "Tor closed the control connection".to_owned(),
            Err(error) => error.to_string(),
        };
        shared.with(|state, _| state.remark(format!("onion service: {remark}")));
        // A service that stood for a while begins again quickly.
        rest = if shared.now().since(&began) > REST_MAX { REST } else { rest.mul_f64(1.5).min(REST_MAX) };
        tokio::time::sleep(rest).await;
    }
}

async fn serve<C: Chain>(
    shared: &Shared<C>,
    tor: &TorService,
    target: SocketAddr,
    key: &mut Option<String>,
    path: Option<&PathBuf>,
) -> io::Result<()> {
    let stream = tokio::time::timeout(REPLY_TIMEOUT, TcpStream::connect(tor.control)).await??;
    let mut stream = BufReader::new(stream);
    let nonce = shared.with(|state, _| entropy::bytes(state.entropy()));
    let port = format!("{},{target}", shared.params.default_port);
    let password = tor.password.as_ref().map(|password| password.0.clone());
    let (mut control, first) = TorControl::new(password, key.clone(), port, nonce);
    stream.get_mut().write_all(first.as_bytes()).await?;
    loop {
        let Some(line) = tokio::time::timeout(REPLY_TIMEOUT, read_line(&mut stream)).await?? else { return Ok(()) };
        match control.take(&line, |path| std::fs::read(path).ok()).map_err(io::Error::other)? {
            TorStep::Wait => {}
            TorStep::Send(line) => stream.get_mut().write_all(line.as_bytes()).await?,
            TorStep::Done { host, new_key } => {
                if let Some(new_key) = new_key {
                    if let Some(path) = path {
                        super::files::write_secret(path, new_key.as_bytes())?;
                    }
                    *key = Some(new_key);
                }
                let port = shared.params.default_port;
                shared.with(|state, _| state.gossip.add_own(Endpoint { host, port }, SCORE_GIVEN));
                break;
            }
        }
    }
    // The service ends with this connection; Tor says nothing more that matters.
    while read_line(&mut stream).await?.is_some() {}
    Ok(())
}

/// A line without its end; `None` at the end of the stream.
async fn read_line(stream: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let count = (&mut *stream).take(TOR_LINE_BYTES_MAX as u64).read_until(b'\n', &mut line).await?;
    if count == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let text = String::from_utf8(line).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Some(text.trim_end().to_owned()))
}
