//! Serving block filters.
//!
//! In:     getcfilters, getcfheaders, getcfcheckpt.
//! Out:    cfilter for each block, as fast as the peer reads; cfheaders, cfcheckpt.
//! Fails:  a peer that asks for what it was not offered, for blocks we would not serve, or for more than the limits loses its
//!         connection. What was offered and cannot be read after all is not answered.
//! Source: BIP 157; Bitcoin Core, `PrepareBlockFilterRequest`, `ProcessGetCFilters`, `ProcessGetCFHeaders`,
//!         `ProcessGetCFCheckPt`.

use primitives::BlockHash;

use super::{Chain, Hub, Place};
use crate::peer::{End, PeerId};
use crate::wire::limits::{FILTER_HASHES_MAX, FILTERS_MAX, INVENTORY_MAX};
use crate::wire::{Filter, FilterCheckpoints, FilterHeaders, FilterRange, Message, Services};

/// The basic filter of BIP 158.
const BASIC: u8 = 0;
/// Blocks between two headers of cfcheckpt; Core's `CFCHECKPT_INTERVAL`.
pub const CHECKPOINT_INTERVAL: u32 = 1_000;

impl<C: Chain> Hub<C> {
    /// What a new connection is offered: filters once every block has its own.
    pub(super) fn services_now(&self) -> Services {
        let others = self.local.services.without(Services::COMPACT_FILTERS);
        if self.chain.serves_filters() { others.and(Services::COMPACT_FILTERS) } else { others }
    }

    /// The last block of a range that may be asked for; none after the connection was closed.
    fn last_of(&mut self, id: PeerId, kind: u8, first: u32, stop: &BlockHash, count_max: u32) -> Option<Place> {
        let ends = "disconnecting";
        if kind != BASIC || !self.talks.get(&id)?.offers_filters {
            log::debug!(target: "net", "peer requested unsupported block filter type: {kind}, {ends} peer={}", id.0);
            self.end(id, End::ClosedByUs("it asks for a kind of block filter that is not offered"));
            return None;
        }
        let Some(last) = self.chain.find(stop).filter(|place| self.chain.may_serve(&place.hash)) else {
            log::debug!(target: "net", "peer requested invalid block hash: {stop}, {ends} peer={}", id.0);
            self.end(id, End::ClosedByUs("it asks for filters up to an unknown block"));
            return None;
        };
        let count = last.height.checked_sub(first).map(|count| count + 1);
        if count.is_none_or(|count| count > count_max) {
            match (count, last.height) {
                (Some(count), _) => log::debug!(
                    target: "net", "peer requested too many cfilters/cfheaders: {count} / {count_max}, {ends} peer={}", id.0
                ),
                (None, last) => log::debug!(
                    target: "net",
                    "peer sent invalid getcfilters/getcfheaders with start height {first} and stop height {last}, {ends} peer={}",
                    id.0
                ),
            }
            self.end(id, End::ClosedByUs("it asks for a range of filters beyond the limits"));
            return None;
        }
        Some(last)
    }

    pub(super) fn serve_filters(&mut self, id: PeerId, asked: &FilterRange) {
        let first = asked.start_height;
        let Some(last) = self.last_of(id, asked.filter_type, first, &asked.stop, FILTERS_MAX) else { return };
        let Some(heads) = self.chain.filter_heads(first, &last.hash) else { return };
        let Some(talk) = self.talks.get_mut(&id) else { return };
        if talk.filters.len() + heads.len() > INVENTORY_MAX {
            return self.end(id, End::ClosedByUs("it asks for more than it reads"));
        }
        talk.filters.extend(heads.iter().map(|head| head.block));
        self.send_filters(id);
    }

    /// Sends the filters a peer asked for, until its queue is full.
    pub(super) fn send_filters(&mut self, id: PeerId) {
        loop {
            let Some(talk) = self.talks.get_mut(&id).filter(|talk| !talk.peer.is_clogged()) else { return };
            let Some(block) = talk.filters.pop_front() else { return };
            // One that a reorganisation took away is left out.
            let Some(filter) = self.chain.filter(&block) else { continue };
            self.send(id, &Message::Filter(Filter { filter_type: BASIC, block, filter }));
        }
    }

    pub(super) fn serve_filter_hashes(&mut self, id: PeerId, asked: &FilterRange) {
        let first = asked.start_height;
        let Some(last) = self.last_of(id, asked.filter_type, first, &asked.stop, FILTER_HASHES_MAX as u32) else {
            return;
        };
        // The header before the range comes with it.
        let Some(heads) = self.chain.filter_heads(first.saturating_sub(1), &last.hash) else { return };
        let (previous, heads) = match heads.split_first() {
            Some((before, rest)) if first > 0 => (before.header, rest),
            _ => ([0; 32], &heads[..]),
        };
        let hashes = heads.iter().map(|head| head.hash).collect();
        let told = FilterHeaders { filter_type: BASIC, stop: last.hash, previous, hashes };
        self.send(id, &Message::FilterHeaders(told));
    }

    pub(super) fn serve_filter_checkpoints(&mut self, id: PeerId, kind: u8, stop: &BlockHash) {
        let Some(last) = self.last_of(id, kind, 0, stop, u32::MAX) else { return };
        let Some(headers) = self.chain.filter_checkpoints(&last.hash, CHECKPOINT_INTERVAL) else { return };
        let told = FilterCheckpoints { filter_type: BASIC, stop: last.hash, headers };
        self.send(id, &Message::FilterCheckpoints(told));
    }
}

#[cfg(test)]
mod tests {
    // Answers, limits on both sides, and a peer that does not read, before a chain of places whose filters say which
    // height they are of.
    use std::collections::HashMap;

    use consensus::Work;
    use primitives::{Header, Network};

    use super::*;
    use crate::hub::*;
    use crate::peer::ConnectionKind;
    use crate::relay::NoPool;
    use crate::wire::limits::INVENTORY_MAX;
    use crate::wire::{Endpoint, FilterRange, Host};

    const HEIGHT_MAX: u32 = 3_050;

    /// Headers that nobody mined, and filters made of their heights.
    struct Toy {
        places: Vec<Place>,
        heights: HashMap<BlockHash, u32>,
        /// A block we know and would not serve.
        hidden: BlockHash,
        serves: bool,
        filter_bytes: usize,
    }

    impl Toy {
        fn new(serves: bool) -> Toy {
            let mut toy = Toy {
                places: Vec::new(),
                heights: HashMap::new(),
                hidden: BlockHash::default(),
                serves,
                filter_bytes: 4,
            };
            let mut previous = BlockHash::default();
            for height in 0..=HEIGHT_MAX + 1 {
                let header =
                    Header { version: 4, previous, merkle_root: [0; 32], time_s: height, bits: 0x207f_ffff, nonce: 0 };
                let hash = header.hash();
                let median_time_past_s = height;
                let work = Work::ZERO;
                let place =
                    Place { hash, header, height, work, median_time_past_s, has_block: true, is_invalid: false };
                toy.heights.insert(hash, height);
                toy.places.push(place);
                previous = hash;
            }
            toy.hidden = previous;
            toy
        }

        fn head(&self, height: u32) -> FilterHead {
            let [hash, header] = [1, 2].map(|kind| std::array::from_fn(|at| (height.to_le_bytes()[at % 4]) ^ kind));
            FilterHead { block: self.places[height as usize].hash, hash, header }
        }
    }

    impl Chain for Toy {
        fn find(&self, hash: &BlockHash) -> Option<Place> {
            self.heights.get(hash).map(|height| self.places[*height as usize])
        }
        fn best_header(&self) -> Place {
            self.tip()
        }
        fn tip(&self) -> Place {
            self.places[HEIGHT_MAX as usize]
        }
        fn connected(&self) -> Place {
            self.tip()
        }
        fn ancestor(&self, _: &BlockHash, height: u32) -> Option<Place> {
            self.places.get(height as usize).copied()
        }
        fn common_height(&self, _: &BlockHash) -> u32 {
            0
        }
        fn locator(&self, from: &BlockHash) -> Vec<BlockHash> {
            vec![*from]
        }
        fn headers_after(&self, _: &[BlockHash], _: &BlockHash, _: usize) -> Vec<Header> {
            Vec::new()
        }
        fn may_serve(&self, hash: &BlockHash) -> bool {
            *hash != self.hidden
        }
        fn block(&self, _: &BlockHash) -> Option<Vec<u8>> {
            None
        }
        fn enough_work(&self) -> Work {
            Work::ZERO
        }
        fn is_initial_download(&self) -> bool {
            false
        }
        fn take_headers(&mut self, _: &[Header]) -> Result<(), HeadersRefusal> {
            Ok(())
        }
        fn take_block(&mut self, _: PeerId, _: BlockHash, _: Vec<u8>) -> bool {
            true
        }
        fn serves_filters(&self) -> bool {
            self.serves
        }
        fn filter_heads(&self, first: u32, stop: &BlockHash) -> Option<Vec<FilterHead>> {
            Some((first..=*self.heights.get(stop)?).map(|height| self.head(height)).collect())
        }
        fn filter_checkpoints(&self, stop: &BlockHash, interval: u32) -> Option<Vec<[u8; 32]>> {
            let heights = (interval..=*self.heights.get(stop)?).step_by(interval as usize);
            Some(heights.map(|height| self.head(height).header).collect())
        }
        fn filter(&self, block: &BlockHash) -> Option<Vec<u8>> {
            let mut filter = self.heights.get(block)?.to_le_bytes().to_vec();
            filter.resize(self.filter_bytes, 0);
            Some(filter)
        }
    }

    /// A hub and one peer that called it.
    struct Pair {
        hub: Hub<Toy>,
        client: Peer,
        random: Random,
        now: Moment,
    }

    const ID: PeerId = PeerId(1);

    impl Pair {
        fn new(toy: Toy) -> Pair {
            let mut random = Random::new(157);
            let params = Arc::new(Params::of(Network::Regtest));
            let now = Moment { monotonic: std::time::Duration::from_secs(1_000), unix_s: 1_700_000_000 };
            let remote = Endpoint { host: Host::V4([9, 8, 7, 6]), port: 8333 };
            let setup = |kind| Setup {
                id: ID,
                kind,
                remote,
                told_remote: remote,
                permissions: Permissions::NONE,
                encrypted: false,
            };
            let local = |random: &mut Random| Arc::new(Local::new(params.magic, random));
            let (ours, theirs) = (local(&mut random), local(&mut random));
            let mut hub = Hub::new(
                toy,
                params.clone(),
                ours,
                Limits::default(),
                UploadBudget::new(None),
                Box::new(NoPool),
                &mut random,
            );
            hub.connect(setup(ConnectionKind::Inbound), now, &mut random);
            let client = Peer::new(setup(ConnectionKind::OutboundFull), theirs, now, &mut random);
            let mut pair = Pair { hub, client, random, now };
            pair.pump(usize::MAX);
            pair
        }

        /// Carries bytes both ways; the client reads no more than `read_max` of them. Messages that came to it.
        fn pump(&mut self, read_max: usize) -> Vec<Message> {
            let (mut messages, mut left) = (Vec::new(), read_max);
            loop {
                let up = self.client.output().to_vec();
                self.client.sent(up.len(), self.now);
                if !up.is_empty() {
                    self.hub.receive(ID, &up, self.now, &mut self.random);
                }
                let down = self.hub.output(ID).to_vec();
                let taken = down.len().min(left);
                left -= taken;
                if taken > 0 {
                    let mut events = Vec::new();
                    self.client.receive(&down[..taken], self.now, &mut self.random, &mut events);
                    self.hub.sent(ID, taken, self.now);
                    messages.extend(events.into_iter().filter_map(|event| match event {
                        Event::Message(message) => Some(message),
                        _ => None,
                    }));
                }
                if up.is_empty() && taken == 0 {
                    return messages;
                }
            }
        }

        fn hash(&self, height: u32) -> BlockHash {
            self.hub.chain().places[height as usize].hash
        }

        fn ask(&mut self, message: &Message) -> Vec<Message> {
            self.client.send(message);
            let told = self.pump(usize::MAX);
            told.into_iter()
                .filter(|m| matches!(m, Message::Filter(_) | Message::FilterHeaders(_) | Message::FilterCheckpoints(_)))
                .collect()
        }
    }

    fn range(start_height: u32, stop: BlockHash) -> FilterRange {
        FilterRange { filter_type: 0, start_height, stop }
    }

    #[test]
    fn ranges_within_the_limits_are_answered() {
        let mut pair = Pair::new(Toy::new(true));
        assert!(pair.client.features().version.as_ref().unwrap().services.has(Services::COMPACT_FILTERS));
        for (first, last) in [(0, 0), (7, 7), (0, 999), (1_000, 1_999), (HEIGHT_MAX - 3, HEIGHT_MAX)] {
            let stop = pair.hash(last);
            let got = pair.ask(&Message::GetFilters(range(first, stop)));
            assert_eq!(got.len() as u32, last - first + 1);
            for (height, message) in (first..).zip(&got) {
                let Message::Filter(filter) = message else { panic!("{message:?}") };
                assert_eq!((filter.block, &filter.filter[..]), (pair.hash(height), &height.to_le_bytes()[..]));
            }
        }
        for (first, last) in [(0, 0), (1, 1), (0, 1_999), (1, 2_000), (HEIGHT_MAX, HEIGHT_MAX)] {
            let stop = pair.hash(last);
            let got = pair.ask(&Message::GetFilterHeaders(range(first, stop)));
            let [Message::FilterHeaders(told)] = &got[..] else { panic!("{got:?}") };
            let toy = pair.hub.chain();
            let previous = first.checked_sub(1).map_or([0; 32], |before| toy.head(before).header);
            assert_eq!((told.stop, told.previous), (stop, previous));
            assert_eq!(told.hashes, (first..=last).map(|height| toy.head(height).hash).collect::<Vec<_>>());
        }
        for (last, want) in [(999, 0), (1_000, 1), (HEIGHT_MAX, 3)] {
            let stop = pair.hash(last);
            let got = pair.ask(&Message::GetFilterCheckpoints(0, stop));
            let [Message::FilterCheckpoints(told)] = &got[..] else { panic!("{got:?}") };
            let toy = pair.hub.chain();
            assert_eq!(told.headers, (1..=want).map(|n| toy.head(n * 1_000).header).collect::<Vec<_>>());
        }
        assert!(pair.hub.take_gone().is_empty());
    }

    #[test]
    fn whoever_asks_for_what_was_not_offered_is_gone() {
        #[track_caller]
        fn check(serves: bool, ask: impl Fn(&Pair) -> Message, why: &str) {
            let mut pair = Pair::new(Toy::new(serves));
            let message = ask(&pair);
            assert_eq!(pair.ask(&message), []);
            let gone = pair.hub.take_gone();
            let [one] = &gone[..] else { panic!("{message:?}: {gone:?}") };
            assert!(one.end.to_string().contains(why) && !one.discourage, "{message:?}: {}", one.end);
        }
        let unknown = BlockHash([7; 32]);
        let kind = "not offered";
        check(false, |pair| Message::GetFilters(range(0, pair.hash(5))), kind);
        check(false, |pair| Message::GetFilterHeaders(range(0, pair.hash(5))), kind);
        check(false, |pair| Message::GetFilterCheckpoints(0, pair.hash(5)), kind);
        check(true, |pair| Message::GetFilters(FilterRange { filter_type: 1, ..range(0, pair.hash(5)) }), kind);
        check(true, |pair| Message::GetFilterHeaders(FilterRange { filter_type: 255, ..range(0, pair.hash(5)) }), kind);
        check(true, |pair| Message::GetFilterCheckpoints(1, pair.hash(5)), kind);
        check(true, |_| Message::GetFilters(range(0, unknown)), "unknown block");
        check(true, |_| Message::GetFilterCheckpoints(0, unknown), "unknown block");
        check(true, |pair| Message::GetFilterHeaders(range(0, pair.hub.chain().hidden)), "unknown block");
        check(true, |pair| Message::GetFilters(range(6, pair.hash(5))), "limits");
        check(true, |pair| Message::GetFilters(range(u32::MAX, pair.hash(5))), "limits");
        check(true, |pair| Message::GetFilters(range(0, pair.hash(1_000))), "limits");
        check(true, |pair| Message::GetFilterHeaders(range(0, pair.hash(2_000))), "limits");
        check(true, |pair| Message::GetFilterHeaders(range(6, pair.hash(5))), "limits");
    }

    #[test]
    fn a_peer_that_does_not_read_is_read_nothing_from_disk_for() {
        let mut toy = Toy::new(true);
        toy.filter_bytes = 10_000;
        let mut pair = Pair::new(toy);
        let stop = pair.hash(999);
        // 10 MB are wanted; what waits for it in memory is one queue.
        pair.client.send(&Message::GetFilters(range(0, stop)));
        assert_eq!(pair.pump(0).len(), 0);
        assert!(pair.hub.output(ID).len() < 2_000_000, "{} bytes wait", pair.hub.output(ID).len());
        let got = pair.pump(usize::MAX);
        assert_eq!(got.iter().filter(|message| matches!(message, Message::Filter(_))).count(), 1_000);
        pair.hub.chain_mut().filter_bytes = 2_000;
        // Nor does it help to ask again and again without reading.
        for _ in 0..50 {
            pair.client.send(&Message::GetFilters(range(0, stop)));
        }
        pair.pump(0);
        assert!(pair.hub.talks[&ID].filters.len() <= INVENTORY_MAX);
        let got = pair.pump(usize::MAX);
        assert_eq!(got.iter().filter(|message| matches!(message, Message::Filter(_))).count(), 50_000);
        for _ in 0..53 {
            pair.client.send(&Message::GetFilters(range(0, stop)));
        }
        pair.pump(0);
        let gone = pair.hub.take_gone();
        assert!(gone[0].end.to_string().contains("more than it reads"), "{gone:?}");
    }
}
