//! The socket of one connection.
//!
//! In:     a socket, and the number its connection has in the hub.
//! Out:    its bytes carried both ways, until either side ends it.
//! Fails:  never; an error of the socket ends the connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::shared::Shared;
use crate::hub::Chain;
use crate::peer::PeerId;

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// What the last bytes of a connection may take to leave.
const LINGER: Duration = Duration::from_millis(200);

/// Carries bytes until the connection is over; true where it should be made again without encryption.
pub async fn carry<C: Chain>(shared: Arc<Shared<C>>, id: PeerId, wake: Arc<Notify>, mut stream: TcpStream) -> bool {
    // Small answers are worth more at once than together.
    let _ = stream.set_nodelay(true);
    let (mut reader, mut writer) = stream.split();
    let mut buffer = vec![0; READ_BYTES];
    while let Some(look) = shared.look(id) {
        let may_read = look.read == Some(Duration::ZERO);
        tokio::select! {
            result = reader.read(&mut buffer), if may_read => match result {
                Ok(count) if count > 0 => {
                    shared.with(|state, now| state.receive(id, &buffer[..count], now));
                    if shared.holds_block() {
                        // The sockets of those who are told of it come first.
                        tokio::task::yield_now().await;
                        shared.with(|state, _| state.hub.hand_over());
                    }
                }
                _ => break,
            },
            result = writer.write(&look.output), if !look.output.is_empty() => match result {
                Ok(count) if count > 0 => shared.with(|state, now| state.sent(id, count, now)),
                _ => break,
            },
            () = wake.notified() => {}
            () = tokio::time::sleep(look.read.unwrap_or_default()), if !may_read && look.read.is_some() => {}
        }
    }
    let retry_plain = shared.with(|state, now| {
        let retry = state.hub.peer(id).is_some_and(crate::peer::Peer::should_retry_plain);
        if retry {
            log::debug!(target: "net", "retrying with v1 transport protocol for peer={}", id.0);
        }
        state.hub.disconnected(id, now);
        retry
    });
    let _ = tokio::time::timeout(LINGER, writer.shutdown()).await;
    retry_plain
}
