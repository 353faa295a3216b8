//! From changes of the chain and of the mempool to the mailboxes of those whom they concern.
//!
//! In:     the writer's events and the mempool's.
//! Out:    full mailboxes: of a new tip first, then of what came after it in the mempool.
//! Fails:  never; where news were missed everybody looks at everything again.
//!
//! The writer's events arrive before those of the mempool that follow from them, because this receiver was made after the
//! mempool's own ([`chain::Handle::subscribe`]). So the mempool is waited for, and the writer is heard first. A tip is told
//! of once the mempool has followed it: whoever looks then sees both.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use chain::TipBlock;
use chain::mempool::{Entry, Event as Change, Reason, SharedMempool};
use tokio::sync::watch;

use super::Env;
use super::subscriptions::Touched;
use crate::source::Event;

/// How often it looks whether the server stops.
const WAIT: Duration = Duration::from_millis(100);
/// Changes of the mempool told of together.
const CHANGES_MAX: usize = 4096;

/// The mempool, and its changes from the moment this was made.
pub(super) struct Follows {
    mempool: SharedMempool,
    changes: Receiver<Change>,
}

impl Follows {
    pub fn new(mempool: SharedMempool) -> Follows {
        let changes = mempool.write().subscribe();
        Follows { mempool, changes }
    }
}

/// Passes events on until the server stops or there are no more.
pub(super) fn pass_on(news: &Receiver<Event>, mempool: Option<Follows>, env: &Env, stop: &watch::Receiver<bool>) {
    let Some(Follows { mempool, mut changes }) = mempool else {
        return pass_news_on(news, env, stop);
    };
    while !*stop.borrow() {
        let first = changes.recv_timeout(WAIT);
        // Taken before the news are looked at: no block that they follow from comes later.
        let more: Vec<Change> = changes.try_iter().take(CHANGES_MAX).collect();
        while let Ok(event) = news.try_recv() {
            tell_news(&event, env);
        }
        match first {
            Ok(first) => tell_changes(std::iter::once(first).chain(more), env),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // Too far behind, and taken off the list.
                changes = mempool.write().subscribe();
                env.subscriptions.tell_everything();
            }
        }
    }
}

/// The same without a mempool.
fn pass_news_on(news: &Receiver<Event>, env: &Env, stop: &watch::Receiver<bool>) {
    while !*stop.borrow() {
        match news.recv_timeout(WAIT) {
            Ok(event) => tell_news(&event, env),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn tell_news(event: &Event, env: &Env) {
    let Event::NewTip { number, touched, connected, disconnected, .. } = event else { return };
    env.source.followed(*number);
    if env.subscriptions.count() > 0 {
        // The block's identifiers are put in order once, before everybody needs them. A fault is told to whoever meets it.
        let view = env.source.view();
        let _ = view.merkle_branch(view.tip_height(), 0);
    }
    // Too many scripts to be listed: everybody looks at everything, and is told of what is another.
    let Some(scripts) = touched.clone() else { return env.subscriptions.tell_everything() };
    let mut news = Touched { tip: true, scripts, ..Touched::default() };
    if env.subscriptions.watches_txs() {
        let blocks: Vec<&TipBlock> = connected.iter().chain(disconnected.iter()).collect();
        news.any_tx = blocks.is_empty() || blocks.iter().any(|block| block.block.is_none());
        for block in blocks.iter().filter_map(|block| block.block.as_ref()).filter(|_| !news.any_tx) {
            news.txs.extend(block.txids());
            news.spent.extend(block.block().txs().flat_map(|tx| tx.inputs().map(|input| input.outpoint())));
        }
    }
    env.subscriptions.tell(&news);
}

fn tell_changes(changes: impl Iterator<Item = Change>, env: &Env) {
    let any_subscription = env.subscriptions.count() > 0;
    let (mut scripts, mut touched) = (HashSet::new(), Touched::default());
    let mut note = |entry: &Arc<Entry>| {
        if any_subscription {
            scripts.extend(entry.script_hashes());
            touched.txs.insert(entry.txid);
            touched.spent.extend(entry.tx().inputs().map(|input| input.outpoint()));
        }
    };
    for change in changes {
        match change {
            // What a block took is told of with the block.
            Change::Removed { reason: Reason::Block, .. } | Change::Offered { .. } | Change::Block { .. } => {}
            Change::Added { entry, .. } | Change::Removed { entry, .. } | Change::Shifted { entry } => note(&entry),
        }
    }
    touched.scripts = scripts.into();
    env.subscriptions.tell(&touched);
}
