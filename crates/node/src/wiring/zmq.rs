//! ZeroMQ of a node: addresses bound at the start, news published once the store is open.
//!
//! In:     the settings; later a [`Handle`] to the writer, and the mempool.
//! Out:    [`Zmq`], at work until it is dropped.
//! Fails:  when an address cannot be bound or the operating system gives no thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use chain::Handle;
use chain::mempool::SharedMempool;
use serve::zmq::{Address, News, Notifier, Publisher, start};

use crate::running::log;

/// Notifications of a running node.
pub struct Zmq {
    publisher: Arc<Publisher>,
    news: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Zmq {
    /// Binds every address; nothing is published yet. `None` where the settings want nothing.
    pub fn start(notifiers: &[Notifier]) -> Result<Option<Zmq>, String> {
        if notifiers.is_empty() {
            return Ok(None);
        }
        let publisher = Arc::new(start(notifiers.to_vec())?);
        for notifier in publisher.notifiers() {
            log::info("zmq", "listening", &[("topic", &notifier.topic.name()), ("address", &notifier.address)]);
            if let Address::Tcp(address) = &notifier.address
                && !address.ip().is_loopback()
            {
                log::warn("zmq", "not loopback: anybody who connects may listen", &[("address", address)]);
            }
        }
        Ok(Some(Zmq { publisher, news: None, stop: Arc::default() }))
    }

    /// What is published where.
    pub fn notifiers(&self) -> &[Notifier] {
        self.publisher.notifiers()
    }

    /// Publishes from now on.
    pub fn open(&mut self, handle: &Handle, mempool: SharedMempool) -> Result<(), String> {
        let subscribe = Box::new(move || mempool.write().subscribe());
        let news = News::new(handle.clone(), self.publisher.clone(), Some(subscribe));
        let stop = self.stop.clone();
        let thread = std::thread::Builder::new().name("zmq-news".to_owned()).spawn(move || news.run(&stop));
        self.news = Some(thread.map_err(|error| format!("no thread for ZeroMQ's news: {error}"))?);
        Ok(())
    }
}

impl Drop for Zmq {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(news) = self.news.take() {
            // A panic of it has been logged, and ends the node by itself.
            let _ = news.join();
        }
    }
}
