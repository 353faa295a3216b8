//! The peers' proxies as the Electrum server's discovery asks them for connections.
//!
//! In:     where a SOCKS5 proxy listens.
//! Out:    [`ByProxy`], a way to hosts through it.
//! Fails:  each connection alone, with the proxy's reason.

use std::sync::Arc;

use net::shell::{Proxy, connect_by_proxy};
use serve::discovery::shell::ByProxy;

/// A way through this proxy.
pub fn by_proxy(proxy: Proxy) -> ByProxy {
    ByProxy(Arc::new(move |host, port| Box::pin(connect_by_proxy(proxy, host, port))))
}
