//! Transactions: what is announced is asked for, what comes waits to be judged, what was judged is dealt with.
//!
//! In:     inv, tx, notfound; verdicts; blocks that joined or left the chain.
//! Out:    getdata; jobs for whoever judges.
//! Fails:  a peer that sends transactions where none go loses its connection; one whose transactions are refused does not.
//! Source: Bitcoin Core, `ProcessMessage` (`INV`, `TX`, `NOTFOUND`), `ProcessValidTx`, `ProcessInvalidTx`,
//!         `ProcessPackageResult`, `RejectIncomingTxs`.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use chain::mempool::{Accepted, PackageResult, Rejected, Verdict};
use chain::policy::Class;
use primitives::{Block, Transaction, Txid, Wtxid};
use stdx::random::Random;

use super::{Chain, Hub};
use crate::moment::Moment;
use crate::peer::{ConnectionKind, End, PeerId, Permissions};
use crate::relay::{
    Announcer, Backlog, Download, ExtraTxs, FeeSteps, Pool, Rejection, Route, TxJob, TxName, TxQueue, TxVerdict,
};
use crate::wire::limits::GETDATA_SENT_MAX;
use crate::wire::{Inventory, InventoryKind, Message, Services};

/// Entries of a notfound that is read: as many as a peer may have announced, and blocks asked of it; Core's bound.
const NOT_FOUND_MAX: usize = 5_016;
/// How long a peer is not read from while its transactions wait to be judged.
const FULL_WAIT: Duration = Duration::from_millis(50);

/// What the hub has for transactions.
pub(super) struct Txs {
    pub pool: Box<dyn Pool>,
    pub download: Download,
    pub queue: TxQueue,
    pub extra: ExtraTxs,
    pub backlog: Backlog,
    pub steps: FeeSteps,
    /// When peers that connected are told next, by the network they came through: peers of one spy learn nothing from
    /// the differences.
    pub inbound_times: BTreeMap<u8, Moment>,
    /// When transactions that nobody has asked for are told of again.
    pub rebroadcast: Option<Moment>,
}

impl Txs {
    pub fn new(pool: Box<dyn Pool>, random: &mut Random) -> Txs {
        Txs {
            steps: FeeSteps::new(pool.policy_sat_per_kvb().1),
            pool,
            download: Download::new(random),
            queue: TxQueue::default(),
            extra: ExtraTxs::default(),
            backlog: Backlog::default(),
            inbound_times: BTreeMap::new(),
            rebroadcast: None,
        }
    }

    fn leave(&mut self, id: PeerId) {
        self.download.leave(id);
        self.queue.leave(id);
    }
}

/// Core's line about a transaction that breaks a rule.
fn log_refused(tx: &Transaction, from: PeerId, rejected: &Rejected) {
    let (txid, wtxid, reject) = (tx.tx().txid(), tx.tx().wtxid(), &rejected.reject);
    log::debug!(target: "mempoolrej", "{txid} (wtxid={wtxid}) from peer={} was not accepted: {reject}", from.0);
}

impl<C: Chain> Hub<C> {
    /// A handshake is done.
    pub(super) fn begin_txs(&mut self, id: PeerId) {
        let Some(talk) = self.talks.get(&id) else { return };
        let setup = talk.peer.setup();
        let is_chosen = setup.kind.is_outbound() || setup.permissions.has(Permissions::NO_BAN);
        let preferred = is_chosen && setup.kind != ConnectionKind::AddressFetch;
        let unlimited = setup.permissions.has(Permissions::RELAY);
        let wtxid_relay = talk.peer.features().wtxid_relay;
        self.txs.download.join(id, Announcer { preferred, unlimited, wtxid_relay });
    }

    pub(super) fn end_txs(&mut self, id: PeerId) {
        self.txs.leave(id);
    }

    /// True where a peer may not send transactions.
    fn refuses_txs(&self, id: PeerId) -> bool {
        let Some(talk) = self.talks.get(&id) else { return true };
        let setup = talk.peer.setup();
        !setup.kind.relays_txs() || (!self.local.relays_txs && !setup.permissions.has(Permissions::RELAY))
    }

    /// Notes that a peer has a transaction, so that it is not told of it.
    fn note_known_tx(&mut self, id: PeerId, hash: &[u8; 32]) {
        if let Some(talk) = self.talks.get_mut(&id).filter(|talk| talk.peer.relays_txs()) {
            talk.txs.known.insert(hash);
        }
    }

    /// Transactions were announced.
    pub(super) fn take_tx_inventory(&mut self, id: PeerId, inventory: &[Inventory]) {
        let Some(features) = self.features(id) else { return };
        // A peer that agreed on wtxids announces by nothing else.
        let other_kind = if features.wtxid_relay { InventoryKind::Tx } else { InventoryKind::Wtx };
        let mut seen = HashSet::new();
        let fits = |entry: &&Inventory| entry.kind.is_tx() && entry.kind != other_kind;
        // With witnesses or without, an identifier is one name.
        let named =
            |entry: &Inventory| TxName::of(entry).filter(|name| seen.insert(*name)).map(|name| (name, entry.kind));
        let names: Vec<(TxName, InventoryKind)> = inventory.iter().filter(fits).filter_map(named).collect();
        if names.is_empty() {
            return;
        }
        if self.refuses_txs(id) {
            let name = Txid(names[0].0.hash());
            log::debug!(
                target: "net",
                "transaction ({name}) inv sent in violation of protocol, disconnecting peer={}", id.0
            );
            return self.end(id, End::ClosedByUs("transaction inv sent in violation of protocol"));
        }
        let is_initial_download = self.chain.is_initial_download();
        for (name, kind) in names {
            let witness = if kind == InventoryKind::WitnessTx { "witness-" } else { "" };
            log::trace!(target: "net", "got inv: {witness}{name} peer={}", id.0);
            self.note_known_tx(id, &name.hash());
            if !is_initial_download {
                self.txs.download.announced(id, name, &*self.txs.pool, self.now.monotonic);
            }
        }
        self.ask_for_txs(id);
    }

    /// Asks a peer for what is to be asked of it now.
    pub(super) fn ask_for_txs(&mut self, id: PeerId) {
        if !self.talks.get(&id).is_some_and(|talk| talk.peer.is_ready()) {
            return;
        }
        let services = self.services_of(id);
        let Txs { pool, download, queue, .. } = &mut self.txs;
        let names = download.ask(id, &**pool, |name| queue.has(name), self.now.monotonic);
        let wanted = |name: &TxName| match name {
            TxName::Txid(txid) if !services.has(Services::WITNESS) => {
                Inventory { kind: InventoryKind::Tx, hash: txid.0 }
            }
            name => name.wanted(),
        };
        for part in names.chunks(GETDATA_SENT_MAX) {
            self.send(id, &Message::GetData(part.iter().map(wanted).collect()));
        }
    }

    pub(super) fn take_txs_not_found(&mut self, id: PeerId, inventory: &[Inventory]) {
        if inventory.len() <= NOT_FOUND_MAX {
            inventory.iter().filter_map(TxName::of).for_each(|name| self.txs.download.not_found(id, &name));
        }
    }

    /// A transaction came.
    pub(super) fn take_tx(&mut self, id: PeerId, tx: Transaction) {
        if self.refuses_txs(id) {
            return self.end(id, End::ClosedByUs("transaction sent in violation of protocol"));
        }
        // Before the chain is here nothing can be judged; nobody is blamed.
        if self.chain.is_initial_download() {
            return;
        }
        let (txid, wtxid) = (tx.tx().txid(), tx.tx().wtxid());
        let by_wtxid = self.features(id).is_some_and(|features| features.wtxid_relay);
        self.note_known_tx(id, if by_wtxid { &wtxid.0 } else { &txid.0 });
        let Txs { pool, download, queue, .. } = &mut self.txs;
        if queue.has(&TxName::Wtxid(wtxid)) {
            // It is being judged: the verdict will say what becomes of it, and this peer need not be asked any more.
            download.not_found(id, &TxName::Wtxid(wtxid));
            return download.not_found(id, &TxName::Txid(txid));
        }
        match download.received(id, &tx, &**pool) {
            Route::Drop => {
                if self.has_permission(id, Permissions::FORCE_RELAY) {
                    let named = format!("{txid} (wtxid={wtxid})");
                    match self.txs.pool.has(&TxName::Txid(txid)) {
                        true => {
                            log::info!(target: "net", "Force relaying tx {named} from peer={}", id.0);
                            self.txs.backlog.push(wtxid);
                        }
                        false => log::info!(
                            target: "net",
                            "Not relaying non-mempool transaction {named} from forcerelay peer={}", id.0
                        ),
                    }
                }
            }
            Route::Judge => {
                queue.push(TxJob::One { tx, from: id, is_orphan: false });
                self.open_txs(id);
            }
            Route::WithChild(child) => {
                queue.push(TxJob::Package { parent: tx, child, from: id });
                self.open_txs(id);
            }
        }
    }

    /// True while something of a peer waits or is being judged.
    pub(super) fn has_txs_of(&self, id: PeerId) -> bool {
        self.txs.queue.has_of(id) || self.txs.download.has_orphan_to_judge(id)
    }

    /// Time until more bytes of a peer are welcome: see [`crate::peer::Peer::input_wait`]. A peer whose transactions wait is
    /// not read from meanwhile.
    pub fn input_wait(&self, id: PeerId, now: Moment) -> Option<Duration> {
        let wait = self.talks.get(&id)?.peer.input_wait(now)?;
        let is_full = self.txs.queue.is_full(id) || self.talks.get(&id)?.order.is_full();
        Some(if is_full { wait.max(FULL_WAIT) } else { wait })
    }

    /// True where something waits to be judged.
    pub fn has_tx_jobs(&self) -> bool {
        let download = &self.txs.download;
        let has_orphan = || self.talks.keys().any(|id| download.has_orphan_to_judge(*id));
        !self.txs.queue.is_empty() || (!download.orphans().is_empty() && has_orphan())
    }

    /// The next lot to judge, every peer's share the same; to be judged away from here, by [`crate::relay::judge`].
    pub fn take_tx_jobs(&mut self) -> Vec<TxJob> {
        let Txs { download, queue, .. } = &mut self.txs;
        let with_orphans =
            self.talks.keys().copied().filter(|id| download.has_orphan_to_judge(*id)).collect::<Vec<_>>();
        queue.next_lot(with_orphans.into_iter(), |id| download.orphan_to_judge(id))
    }

    /// What [`Hub::take_tx_jobs`] gave was judged.
    pub fn txs_judged(&mut self, verdicts: Vec<(TxJob, TxVerdict)>, now: Moment) {
        self.now = now;
        let mut senders: Vec<PeerId> = verdicts.iter().map(|(job, _)| job.from()).collect();
        for (job, verdict) in verdicts {
            self.txs.queue.done(&job);
            match (job, verdict) {
                (TxJob::One { tx, from, is_orphan }, TxVerdict::One(Ok(accepted))) => {
                    self.tx_accepted(&tx, &accepted);
                    if let Some(talk) = self.talks.get_mut(&from).filter(|_| !is_orphan) {
                        talk.peer.earned_tx(now);
                    }
                }
                (TxJob::One { tx, from, is_orphan }, TxVerdict::One(Err(rejected))) => {
                    let class = rejected.reject.class();
                    log_refused(&tx, from, &rejected);
                    // An orphan that still lacks a parent goes on waiting.
                    if !is_orphan || class != Class::MissingInputs {
                        self.tx_refused(&tx, class, from, !is_orphan);
                    }
                }
                (TxJob::Package { parent, child, from }, TxVerdict::Package(result)) => {
                    self.package_judged(&parent, &child, from, &result);
                }
                _ => unreachable!("a verdict is of the kind of its job"),
            }
        }
        senders.sort_unstable();
        senders.dedup();
        senders.into_iter().for_each(|id| self.ask_for_txs(id));
        self.release();
    }

    fn tx_accepted(&mut self, tx: &Transaction, accepted: &Accepted) {
        self.txs.download.accepted(tx);
        accepted.replaced.iter().for_each(|entry| self.txs.extra.add(entry.transaction.clone()));
    }

    fn tx_refused(&mut self, tx: &Transaction, class: Class, from: PeerId, is_first: bool) {
        let Txs { pool, download, .. } = &mut self.txs;
        let rejection = download.rejected(tx, class, from, is_first, &**pool, self.now.monotonic);
        let Rejection { is_extra, parents, child } = rejection;
        if is_extra {
            self.txs.extra.add(tx.clone());
        }
        // Whoever sends a child has its parents.
        parents.iter().for_each(|txid| self.note_known_tx(from, &txid.0));
        if let Some(child) = child {
            self.txs.queue.push(TxJob::Package { parent: tx.clone(), child, from });
        }
    }

    fn package_judged(&mut self, parent: &Transaction, child: &Transaction, from: PeerId, result: &PackageResult) {
        if result.reject.is_some() {
            self.txs.download.package_rejected(parent, child);
        }
        // The child first: it leaves the orphans before its parent would call it up again.
        for tx in [child, parent] {
            let wtxid = tx.tx().wtxid();
            let verdict = result.txs.iter().find(|(judged, _)| *judged == wtxid).map(|(_, verdict)| verdict);
            match verdict {
                Some(Verdict::Valid(accepted)) => self.tx_accepted(tx, accepted),
                Some(Verdict::Invalid(rejected)) => {
                    log_refused(tx, from, rejected);
                    self.tx_refused(tx, rejected.reject.class(), from, false)
                }
                Some(Verdict::DifferentWitness { .. }) => self.tx_refused(tx, Class::Conflict, from, false),
                Some(Verdict::InMempool { .. }) | None => {}
            }
        }
    }

    /// A block joined the chain; `ids` are those of its transactions, in order.
    pub fn block_connected(&mut self, block: &Block, ids: &[(Txid, Wtxid)], now: Moment) {
        self.now = now;
        self.txs.download.block_connected(block, ids);
    }

    /// A block left the chain.
    pub fn block_disconnected(&mut self, now: Moment) {
        self.now = now;
        self.txs.download.block_disconnected();
    }

    /// Transactions whose parents are missing.
    pub fn orphans(&self) -> &chain::orphans::Orphans {
        self.txs.download.orphans()
    }
}
