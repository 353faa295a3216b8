//! One node and strangers with headers and blocks: whom it asks for what, whose compact blocks it takes, what it tells of.
//!
//! In:     headers, blocks and compact blocks of made-up chains.
//! Out:    what each stranger hears.
//! Fails:  where a stranger is asked too much, too little or twice.
//! Source: what Bitcoin Core's p2p_sendheaders.py, p2p_compactblocks.py and p2p_headers_sync_with_minchainwork.py found.

use consensus::Work;
use primitives::{Block, BlockHash, Header};

use super::network_tests::{mine, params};
use crate::hub::stranger_tests::{Stage, simple, wtx};
use crate::hub::{Chain, Judgement, Place};
use crate::peer::{ConnectionKind, Permissions};
use crate::wire::{
    BlockBytes, BlockTxs, CompactBlock, Inventory, InventoryKind, Message, SendCompact, Services, TxList,
};

/// Headers and blocks after `from`; `salt` makes another branch.
fn branch(from: &Place, count: u8, salt: u8) -> Vec<(Header, Vec<u8>)> {
    let mut place = *from;
    let mut out = Vec::new();
    for number in 0..count {
        let (header, bytes) = mine(&place, [salt, number, 1, 1], &[]);
        place = Place { hash: header.hash(), header, height: place.height + 1, ..place };
        out.push((header, bytes));
    }
    out
}

fn headers(branch: &[(Header, Vec<u8>)]) -> Message {
    Message::Headers(branch.iter().map(|(header, _)| *header).collect())
}

fn block(bytes: &[u8]) -> Message {
    Message::Block(BlockBytes::new(bytes.to_vec()).unwrap())
}

fn hashes(branch: &[(Header, Vec<u8>)]) -> Vec<[u8; 32]> {
    branch.iter().map(|(header, _)| header.hash().0).collect()
}

impl Stage {
    fn genesis(&self) -> Place {
        self.hub.chain().find(&params().genesis_hash).unwrap()
    }

    /// Our chain gets blocks that no stranger brought.
    fn connect(&mut self, branch: &[(Header, Vec<u8>)]) {
        for (header, bytes) in branch {
            self.hub.chain_mut().take_headers(&[*header]).unwrap();
            assert_eq!(self.hub.chain_mut().add_block(header.hash(), bytes.clone()), Judgement::Good);
            self.hub.chain_changed(self.now);
        }
        self.carry();
    }

    fn asked_blocks(&mut self, who: usize) -> Vec<[u8; 32]> {
        self.asked(who).iter().filter(|entry| entry.kind.is_block()).map(|entry| entry.hash).collect()
    }

    /// First hashes of the locators it was sent.
    fn asked_headers(&mut self, who: usize) -> Vec<BlockHash> {
        self.heard(who, |message| match message {
            Message::GetHeaders(request) => Some(request.locator[0]),
            _ => None,
        })
    }

    fn asked_parts(&mut self, who: usize) -> Vec<Vec<u16>> {
        self.heard(who, |message| match message {
            Message::GetBlockTxs(request) => Some(request.indexes.clone()),
            _ => None,
        })
    }
}

fn told_of(hash: BlockHash) -> Message {
    Message::Inv(vec![Inventory { kind: InventoryKind::Block, hash: hash.0 }])
}

#[test]
fn who_promises_no_blocks_is_asked_for_headers_once_and_for_what_it_tells_of() {
    let mut stage = Stage::new(40);
    let who = stage.join_as(ConnectionKind::Inbound, Permissions::NONE, |local| local.services = Services::WITNESS);
    assert_eq!(stage.asked_headers(who), []);
    stage.say(who, &told_of(BlockHash([1; 32])));
    assert_eq!(stage.asked_headers(who), [params().genesis_hash]);
    stage.say(who, &told_of(BlockHash([2; 32])));
    assert_eq!(stage.asked_headers(who), []);
    let chain = branch(&stage.genesis(), 18, 1);
    stage.say(who, &headers(&chain[..3]));
    assert_eq!(stage.asked_blocks(who), hashes(&chain[..3]), "all at once");
    stage.say(who, &headers(&chain[3..17]));
    assert_eq!(stage.asked_blocks(who), hashes(&chain[3..16]), "sixteen on their way at most");
    stage.say(who, &headers(&chain[17..]));
    assert_eq!(stage.asked_blocks(who), Vec::<[u8; 32]>::new());
}

#[test]
fn a_pruned_peer_is_asked_for_its_last_blocks_only() {
    let mut stage = Stage::new(41);
    let services = Services::NETWORK_LIMITED.and(Services::WITNESS);
    let who = stage.join_as(ConnectionKind::Inbound, Permissions::NONE, |local| local.services = services);
    let mut chain = branch(&stage.genesis(), 250, 1);
    stage.say(who, &headers(&chain));
    stage.asked_blocks(who);
    let last = stage.hub.chain().find(&chain[249].0.hash()).unwrap();
    chain.extend(branch(&last, 50, 2));
    let other = stage.join_as(ConnectionKind::Inbound, Permissions::NONE, |local| local.services = services);
    stage.say(other, &headers(&chain));
    assert!(stage.asked_blocks(who).iter().all(|hash| hashes(&chain[..250]).contains(hash)));
    let asked = stage.asked_blocks(other);
    // 300 blocks: the lowest it has for sure is 286 from the end, as Core counts.
    assert!(!asked.is_empty() && asked.iter().all(|hash| hashes(&chain[14..]).contains(hash)), "{}", asked.len());
}

#[test]
fn headers_that_follow_nothing_are_asked_about_once_and_from_our_best() {
    let mut stage = Stage::new(42);
    let who = stage.join(ConnectionKind::Inbound);
    let ours = branch(&stage.genesis(), 2, 1);
    stage.connect(&ours);
    stage.asked_headers(who);
    let theirs = branch(&stage.genesis(), 9, 2);
    stage.answers_for_headers = false;
    for at in [3, 5, 7] {
        stage.say(who, &headers(&theirs[at..at + 1]));
    }
    assert_eq!(stage.asked_headers(who), [ours[1].0.hash()]);
    stage.say(who, &Message::Headers(Vec::new()));
    stage.say(who, &headers(&theirs[8..]));
    assert_eq!(stage.asked_headers(who), [ours[1].0.hash()], "the answer before was empty");
}

#[test]
fn who_is_trusted_need_not_show_work_first() {
    let mut stage = Stage::new(43);
    stage.hub.chain_mut().least = Work([0, 0, 0, 1_000]);
    let trusted = stage.join_with(ConnectionKind::Inbound, Permissions::NO_BAN);
    let stranger = stage.join(ConnectionKind::Inbound);
    let (one, other) = (branch(&stage.genesis(), 3, 1), branch(&stage.genesis(), 3, 2));
    stage.say(stranger, &headers(&one));
    stage.say(trusted, &headers(&other));
    let has = |stage: &Stage, branch: &[(Header, Vec<u8>)]| stage.hub.chain().find(&branch[2].0.hash()).is_some();
    assert!(!has(&stage, &one) && has(&stage, &other));
    assert!(stage.is_here(stranger), "and nobody is blamed");
}

#[test]
fn what_is_on_its_way_as_a_branch_is_not_asked_for_again_when_it_is_the_best() {
    let mut stage = Stage::new(44);
    let who = stage.join(ConnectionKind::Inbound);
    let ours = branch(&stage.genesis(), 1, 1);
    stage.connect(&ours);
    let theirs = branch(&stage.genesis(), 2, 2);
    stage.asked_blocks(who);
    stage.say(who, &headers(&theirs[..1]));
    assert_eq!(stage.asked_blocks(who), hashes(&theirs[..1]));
    stage.say(who, &headers(&theirs[1..]));
    assert_eq!(stage.asked_blocks(who), hashes(&theirs[1..]));
    stage.say(who, &block(&theirs[0].1));
    stage.say(who, &block(&theirs[1].1));
    assert_eq!(stage.hub.chain().waiting.len(), 2);
}

#[test]
fn compact_blocks_are_taken_from_those_who_were_asked() {
    let mut stage = Stage::new(45);
    let who = stage.join(ConnectionKind::Inbound);
    let unknown = simple(7);
    let (header, bytes) = mine(&stage.genesis(), [9, 9, 9, 9], &[unknown.clone()]);
    let compact = Message::CompactBlock(CompactBlock::of(&Block::parse(bytes.clone()).unwrap(), 3));
    stage.strangers[who].heard.clear();
    stage.say(who, &compact);
    let heard = std::mem::take(&mut stage.strangers[who].heard);
    assert!(!heard.iter().any(|message| matches!(message, Message::GetBlockTxs(_))), "nobody asked for it");
    let asks = |message: &Message| matches!(message, Message::GetData(list) if list[0].hash == header.hash().0);
    assert!(heard.iter().any(asks), "its header is as good an announcement as any");
    stage.say(who, &compact);
    assert_eq!(stage.asked_parts(who), [[1]]);
    stage.say(who, &compact);
    assert_eq!(stage.asked_parts(who), [[]; 0], "once is enough");
    let txs = TxList::of([unknown.tx().raw()]);
    stage.say(who, &Message::BlockTxs(BlockTxs { block: header.hash(), txs }));
    assert_eq!(stage.hub.chain().waiting.len(), 1);
}

#[test]
fn parts_that_made_no_block_end_the_connection_when_they_come_again() {
    let mut stage = Stage::new(46);
    let who = stage.join(ConnectionKind::Inbound);
    let (one, other) = (simple(7), simple(8));
    let (header, bytes) = mine(&stage.genesis(), [9, 9, 9, 9], &[one.clone(), other.clone()]);
    stage.say(who, &Message::Headers(vec![header]));
    stage.say(who, &Message::CompactBlock(CompactBlock::of(&Block::parse(bytes.clone()).unwrap(), 3)));
    assert_eq!(stage.asked_parts(who), [[1, 2]]);
    let swapped = || TxList::of([other.tx().raw(), one.tx().raw()]);
    stage.say(who, &Message::BlockTxs(BlockTxs { block: header.hash(), txs: swapped() }));
    let whole = Inventory { kind: InventoryKind::WitnessBlock, hash: header.hash().0 };
    assert_eq!(stage.asked(who), [whole], "an identifier may stand for two transactions");
    stage.say(who, &Message::BlockTxs(BlockTxs { block: header.hash(), txs: swapped() }));
    assert!(!stage.is_here(who));
}

#[test]
fn a_compact_block_beside_best_headers_that_are_held_back_is_taken() {
    let mut stage = Stage::new(47);
    let (holder, honest) = (stage.join(ConnectionKind::Inbound), stage.join(ConnectionKind::Inbound));
    let held = branch(&stage.genesis(), 1, 1);
    stage.say(holder, &headers(&held));
    let unknown = simple(7);
    let (header, bytes) = mine(&stage.genesis(), [9, 9, 9, 9], &[unknown.clone()]);
    stage.say(honest, &Message::Headers(vec![header]));
    stage.say(honest, &Message::CompactBlock(CompactBlock::of(&Block::parse(bytes.clone()).unwrap(), 3)));
    assert_eq!(stage.asked_parts(honest), [[1]]);
    let txs = TxList::of([unknown.tx().raw()]);
    stage.say(honest, &Message::BlockTxs(BlockTxs { block: header.hash(), txs }));
    assert_eq!(stage.hub.chain().waiting[0].0, header.hash());
}

#[test]
fn a_hash_alone_does_not_say_that_a_block_is_known() {
    let mut stage = Stage::new(48);
    let who = stage.join(ConnectionKind::Inbound);
    stage.say(who, &Message::SendHeaders);
    stage.say(who, &Message::SendCompact(SendCompact { announce: false, version: 2 }));
    let chain = branch(&stage.genesis(), 3, 1);
    let told = |stage: &mut Stage| {
        stage.heard(0, |message| match message {
            Message::Inv(list) => Some((true, list.len())),
            Message::Headers(list) => Some((false, list.len())),
            _ => None,
        })
    };
    told(&mut stage);
    stage.connect(&chain[..1]);
    assert_eq!(told(&mut stage), [(true, 1)]);
    stage.connect(&chain[1..2]);
    assert_eq!(told(&mut stage), [(true, 1)], "it did not ask for what the first hash was");
    stage.say(who, &told_of(chain[1].0.hash()));
    stage.connect(&chain[2..]);
    assert_eq!(told(&mut stage), [(false, 1)]);
}

#[test]
fn a_pong_waits_for_the_last_of_many_blocks() {
    let mut stage = Stage::new(49);
    let who = stage.join(ConnectionKind::Inbound);
    let chain = branch(&stage.genesis(), 40, 1);
    stage.say(who, &headers(&chain));
    chain.iter().for_each(|(_, bytes)| stage.say(who, &block(bytes)));
    assert_eq!(stage.hub.chain().waiting.len(), 40);
    stage.strangers[who].heard.clear();
    stage.say(who, &Message::MemPool); // nothing is answered before its turn
    let waits = |stage: &Stage| stage.hub.peer(stage.strangers[0].id).is_some();
    for (header, _) in &chain[..39] {
        stage.hub.judged(&header.hash(), Judgement::Tried, stage.now);
    }
    stage.carry();
    assert!(waits(&stage), "the question for the mempool, which ends the connection, was not heard");
    stage.hub.judged(&chain[39].0.hash(), Judgement::Tried, stage.now);
    stage.carry();
    assert!(!waits(&stage));
}

#[test]
fn what_is_due_goes_out_before_the_answer() {
    let mut stage = Stage::new(50);
    let who = stage.join(ConnectionKind::Inbound);
    let tx = simple(3);
    stage.announce(who, &[&tx]);
    assert_eq!(stage.asked(who), []);
    // Those who connected to us are asked two seconds later; nobody looked at the clock meanwhile.
    stage.now = stage.now.after(std::time::Duration::from_millis(2_100));
    stage.say(who, &Message::GetAddr);
    assert_eq!(stage.asked(who), [wtx(&tx)]);
}
