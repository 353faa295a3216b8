//! The store against a plain book: random chains, reorganisations, merges, reopening, and damage to every byte.
//!
//! In:     seeds.
//! Out:    the store's answers equal the book's.
//! Fails:  with the seed and step in the message.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use primitives::hash::sha256d;
use primitives::{BlockHash, Coin, Network, OutPoint, Params, Txid};
use stdx::disk::{Disk, DiskFile, Open};
use stdx::pool::Pool;
use stdx::random::Random;

use crate::blockfiles::{Found, Position};
use crate::*;

/// Files in memory.
#[derive(Default)]
pub(crate) struct MemoryDisk {
    files: Mutex<BTreeMap<PathBuf, Arc<MemoryFile>>>,
}

#[derive(Default)]
struct MemoryFile(Mutex<Vec<u8>>);

impl MemoryDisk {
    /// A copy of every file's bytes.
    pub(crate) fn copy(&self) -> Arc<MemoryDisk> {
        let files = self.files.lock().expect("no panic");
        let copy = |file: &Arc<MemoryFile>| Arc::new(MemoryFile(Mutex::new(file.0.lock().expect("no panic").clone())));
        let files = files.iter().map(|(path, file)| (path.clone(), copy(file))).collect();
        Arc::new(MemoryDisk { files: Mutex::new(files) })
    }

    pub(crate) fn lengths(&self) -> Vec<(PathBuf, usize)> {
        let files = self.files.lock().expect("no panic");
        files.iter().map(|(path, file)| (path.clone(), file.0.lock().expect("no panic").len())).collect()
    }

    pub(crate) fn change(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.files.lock().expect("no panic")[path].0.lock().expect("no panic"));
    }

    pub(crate) fn bytes(&self, path: &Path) -> Vec<u8> {
        self.files.lock().expect("no panic")[path].0.lock().expect("no panic").clone()
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        let file = Arc::new(MemoryFile(Mutex::new(bytes.to_vec())));
        self.files.lock().expect("no panic").insert(path.into(), file);
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut files = self.files.lock().expect("no panic");
        if matches!(how, Open::Create | Open::Truncate) {
            files.entry(path.into()).or_default();
        }
        let file = files.get(path).ok_or(io::ErrorKind::NotFound)?.clone();
        if how == Open::Truncate {
            file.0.lock().expect("no panic").clear();
        }
        Ok(file)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.lock().expect("no panic");
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.into(), file);
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.files.lock().expect("no panic").remove(path);
        removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let files = self.files.lock().expect("no panic");
        if files.contains_key(path) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(files.keys().filter(|file| file.parent() == Some(path)).cloned().collect())
    }
}

impl DiskFile for MemoryFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = self.0.lock().expect("no panic");
        let from = bytes.get(offset as usize..offset as usize + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(from);
        Ok(())
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut file = self.0.lock().expect("no panic");
        let end = offset as usize + bytes.len();
        let length = file.len().max(end);
        file.resize(length, 0);
        file[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.lock().expect("no panic").len() as u64)
    }
    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.lock().expect("no panic").resize(length as usize, 0);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq)]
struct BookCoin {
    coin: CoinBuf,
    tag: u64,
}

/// What one block did, so that it can be undone.
#[derive(Clone, Default)]
struct BookBlock {
    header: Vec<u8>,
    first_tx: u32,
    first_txo: u64,
    txs: Vec<TxEntry>,
    outputs: u32,
    history: Vec<(u64, u32)>,
    txid: Vec<(u64, u32)>,
    spender: Vec<(u64, u32)>,
    made: Vec<(OutPoint, BookCoin)>,
    spent: Vec<(OutPoint, BookCoin)>,
}

/// The plain book.
#[derive(Clone, Default)]
struct Book {
    blocks: Vec<BookBlock>,
    coins: BTreeMap<OutPoint, BookCoin>,
}

/// Any bytes will do for a filter: none, or up to 400.
fn filter_of(header: &[u8]) -> Vec<u8> {
    header.repeat(usize::from(header[0] % 6))
}

fn tag_of(script: &[u8]) -> u64 {
    stdx::checksum::checksum(77, script)
}

pub(crate) fn tagger() -> Tagger {
    Arc::new(|script: &[u8]| tag_of(script))
}

impl Book {
    fn tx_count(&self) -> u32 {
        self.blocks.last().map_or(0, |block| block.first_tx + block.txs.len() as u32)
    }

    fn txo_count(&self) -> u64 {
        self.blocks.last().map_or(0, |block| block.first_txo + u64::from(block.outputs))
    }

    /// Invents a block on top.
    fn forge(&self, random: &mut Random) -> BookBlock {
        let (mut coins, height) = (self.coins.clone(), self.blocks.len() as u32);
        let mut block = BookBlock { first_tx: self.tx_count(), first_txo: self.txo_count(), ..Default::default() };
        block.header = random.bytes::<80>().to_vec();
        for index in 0..1 + random.below(12) as u32 {
            let (tx_num, txid) = (block.first_tx + index, Txid(random.bytes()));
            block.txs.push(TxEntry { offset: 81 + index * 300, first_output: block.outputs });
            block.txid.push((u64::from_be_bytes(txid.0[..8].try_into().unwrap()) >> 24, tx_num));
            let mut tags = BTreeSet::new();
            for _ in 0..if index == 0 { 0 } else { random.below(4) } {
                let from = OutPoint { txid: Txid(random.bytes()), vout: 0 };
                let Some((outpoint, coin)) = coins.range(from..).next().map(|(o, c)| (*o, c.clone())) else { continue };
                coins.remove(&outpoint);
                block.spender.push((coin.coin.txo_num, tx_num));
                tags.insert(coin.tag);
                block.spent.push((outpoint, coin));
            }
            for vout in 0..1 + random.below(4) as u32 {
                let length = [22, 25, 34, 67, 300][random.below(5) as usize];
                let script = match random.below(4) {
                    0 => vec![9; 30],
                    _ => random.bytes::<300>()[..length].to_vec(),
                };
                let tag = tag_of(&script);
                tags.insert(tag);
                let txo_num = block.first_txo + u64::from(block.outputs);
                block.outputs += 1;
                let coin = CoinBuf { value_sat: random.below(1 << 50), height, coinbase: index == 0, txo_num, script };
                coins.insert(OutPoint { txid, vout }, BookCoin { coin: coin.clone(), tag });
                block.made.push((OutPoint { txid, vout }, BookCoin { coin, tag }));
            }
            block.history.extend(tags.into_iter().map(|tag| (tag, tx_num)));
        }
        block
    }
}

/// Store, coins and book side by side.
struct World {
    disk: Arc<MemoryDisk>,
    store: Store,
    coins: Coins,
    batch: Batch,
    book: Book,
    /// Blocks of the last commit.
    committed: usize,
    found: u32,
    pool: Pool,
}

fn params() -> Params {
    Params::of(Network::Regtest)
}

fn open(disk: &Arc<MemoryDisk>) -> Result<Store, StoreError> {
    Store::open(disk.clone(), Path::new("/data"), &params(), &Options { tag_key_seed: [7; 16] })
}

fn coins_of(store: &Store) -> Coins {
    Coins::new(store.snapshot(), tagger(), &CoinsOptions { bytes_max: 1 << 20, hash_key: [3, 4] })
}

impl World {
    fn new() -> World {
        let disk = Arc::new(MemoryDisk::default());
        let store = open(&disk).unwrap();
        let coins = coins_of(&store);
        let (batch, book) = Default::default();
        World { disk, store, coins, batch, book, committed: 0, found: 0, pool: Pool::new("test", 2) }
    }

    fn forge_and_connect(&mut self, random: &mut Random) {
        let block = self.book.forge(random);
        let outpoints: Vec<OutPoint> = block.spent.iter().map(|(outpoint, _)| *outpoint).collect();
        let fetch = self.coins.fetch(&self.pool, &outpoints);
        self.coins.load(fetch).unwrap();
        for (outpoint, coin) in &block.made {
            assert!(!self.coins.exists(outpoint).unwrap());
            self.coins.create(outpoint, coin.coin.coin(), coin.tag).unwrap();
            assert_eq!(self.coins.get(outpoint).unwrap().as_ref(), Some(&coin.coin));
            self.book.coins.insert(*outpoint, coin.clone());
        }
        for (outpoint, coin) in &block.spent {
            let spent = self.coins.spend(outpoint).unwrap().expect("the coin is there");
            assert_eq!((spent.coin, spent.tag), (coin.coin.coin(), coin.tag));
            assert!(self.coins.spend(outpoint).unwrap().is_none());
            self.book.coins.remove(outpoint);
        }
        self.batch.history.extend(&block.history);
        self.batch.txid.extend(&block.txid);
        self.batch.spender.extend(&block.spender);
        let position = Position { file: 1, offset: block.first_tx, size: 9 };
        self.store.push_block(&block.header[..].try_into().unwrap(), position, &block.txs, block.outputs);
        let filter = filter_of(&block.header);
        self.store.push_filter(&filter, sha256d(&filter), [block.header[1]; 32]).unwrap();
        self.book.blocks.push(block);
    }

    fn disconnect_to(&mut self, blocks: usize) {
        while self.book.blocks.len() > blocks {
            let block = self.book.blocks.pop().unwrap();
            let spent_here = |outpoint: &OutPoint| block.spent.iter().any(|(spent, _)| spent == outpoint);
            for (outpoint, _) in block.made.iter().filter(|(outpoint, _)| !spent_here(outpoint)) {
                assert!(self.coins.remove(outpoint).unwrap());
                self.book.coins.remove(outpoint);
            }
            for (outpoint, coin) in &block.spent {
                if coin.coin.txo_num < block.first_txo {
                    self.coins.restore(outpoint, coin.coin.coin()).unwrap();
                    self.book.coins.insert(*outpoint, coin.clone());
                }
            }
            if self.book.blocks.len() < self.committed {
                self.batch.history_deleted.extend(&block.history);
                self.batch.txid_deleted.extend(&block.txid);
                self.batch.spender_deleted.extend(block.spender.iter().map(|row| row.0));
            } else {
                self.batch.drop_from(block.first_tx);
            }
        }
        self.store.truncate_blocks(blocks as u32).unwrap();
    }

    fn tip(&self) -> Option<Tip> {
        let height = (self.book.blocks.len() as u32).checked_sub(1)?;
        Some(Tip { height, hash: BlockHash([height as u8; 32]), chainwork: [1; 32] })
    }

    fn commit(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let tip = self.tip();
        self.store.commit(Cut { tip, batch, coins: &mut self.coins }, &self.pool).unwrap();
        self.committed = self.book.blocks.len();
    }

    fn merge(&mut self, cancel: bool) {
        if let Some(job) = self.store.pick_merge() {
            job.cancel_flag().store(cancel, std::sync::atomic::Ordering::Relaxed);
            let merged = job.run();
            self.store.install_merge(merged).unwrap();
        }
    }

    fn reopen(&mut self) {
        assert_eq!(self.committed, self.book.blocks.len());
        self.store = open(&self.disk).unwrap();
        self.coins = coins_of(&self.store);
        assert_eq!(self.store.found_count(), self.found);
    }

    /// Every answer of the snapshot against the book, which stands at a commit.
    fn check(&self) {
        check_snapshot(&self.store.snapshot(), &self.book, 150).unwrap();
        assert_eq!(self.store.snapshot().tip(), self.tip());
    }
}

fn group(pairs: impl Iterator<Item = (u64, u64, u64)>) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let mut groups: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for (hi, lo, value) in pairs {
        groups.entry(hi).or_default().push((lo, value));
    }
    groups.values_mut().for_each(|rows| rows.sort());
    groups
}

fn check_table(
    snapshot: &Snapshot,
    table: Table,
    want: BTreeMap<u64, Vec<(u64, u64)>>,
    lookups: usize,
) -> Result<(), StoreError> {
    let all: Vec<Row> = snapshot.all_rows(table)?.collect::<Result<_, _>>()?;
    assert_eq!(group(all.into_iter().map(|row| (row.hi, row.lo, row.value))), want, "{table:?}");
    for step in [1, 7, 1_000] {
        let Some((&first, _)) = want.first_key_value() else { continue };
        let mut many = snapshot.rows_of_many(table, first)?;
        for (hi, rows) in want.iter().step_by(step) {
            let limit = *hi as usize % 5;
            let got: Vec<(u64, u64)> = many.of(*hi, limit)?.into_iter().map(|row| (row.lo, row.value)).collect();
            assert_eq!(got, rows[..limit.min(rows.len())], "{table:?} {hi} after others, each {step}th");
            if !want.contains_key(&(hi + 1)) {
                assert!(many.of(hi + 1, 9)?.is_empty(), "{table:?} {hi}: one that is not there");
            }
        }
    }
    let step = want.len() / lookups.max(1) + 1;
    for (hi, rows) in want.into_iter().step_by(step).take(lookups) {
        let got: Vec<Row> = snapshot.rows(table, hi, 0)?.collect::<Result<_, _>>()?;
        let got: Vec<(u64, u64)> = got.into_iter().map(|row| (row.lo, row.value)).collect();
        assert_eq!(got, rows, "{table:?} {hi}");
        let middle = rows[rows.len() / 2].0;
        let got = snapshot.rows(table, hi, middle)?.count();
        assert_eq!(got, rows.len() - rows.len() / 2, "{table:?} {hi} from {middle}");
        assert!(snapshot.rows(table, hi ^ 1 << 63, 0)?.next().is_none());
    }
    Ok(())
}

/// Reads everything in order, and `lookups` keys of each table one by one.
fn check_snapshot(snapshot: &Snapshot, book: &Book, lookups: usize) -> Result<(), StoreError> {
    let pairs = |rows: fn(&BookBlock) -> &Vec<(u64, u32)>| {
        group(book.blocks.iter().flat_map(move |block| rows(block).iter().map(|row| (row.0, row.1.into(), 0))))
    };
    check_table(snapshot, Table::History, pairs(|block| &block.history), lookups)?;
    check_table(snapshot, Table::Txid, pairs(|block| &block.txid), lookups)?;
    let spenders = book.blocks.iter().flat_map(|block| block.spender.iter().map(|row| (row.0, 0, row.1.into())));
    check_table(snapshot, Table::Spender, group(spenders), lookups)?;
    let unspent = book.coins.values().map(|coin| (coin.tag, coin.coin.txo_num, coin.coin.value_sat));
    check_table(snapshot, Table::Unspent, group(unspent), lookups)?;
    for (outpoint, coin) in book.coins.iter().take(lookups) {
        assert_eq!(snapshot.coin(outpoint)?.as_ref(), Some(&coin.coin));
    }
    let mut all = BTreeMap::new();
    snapshot.each_coin(&mut |outpoint, coin| all.insert(outpoint, coin.txo_num).is_none())?;
    assert_eq!(all, book.coins.iter().map(|(outpoint, coin)| (*outpoint, coin.coin.txo_num)).collect());
    assert_eq!(snapshot.block_count() as usize, book.blocks.len());
    assert_eq!((snapshot.tx_count(), snapshot.txo_count()), (book.tx_count(), book.txo_count()));
    for (height, block) in book.blocks.iter().enumerate() {
        let height = height as u32;
        assert_eq!(snapshot.headers(height, 1)?, block.header);
        let entry = snapshot.block_entry(height)?.expect("it is there");
        assert_eq!((entry.first_tx_num, entry.first_txo_num), (block.first_tx, block.first_txo));
        let txs = snapshot.txs_of_block(height)?.expect("it is there");
        assert_eq!(snapshot.tx_entries(txs.start, txs.len() as u32)?, block.txs);
        for tx_num in [txs.start, txs.end - 1] {
            assert_eq!(snapshot.height_of_tx(tx_num)?, Some(height));
        }
        for (index, tx) in block.txs.iter().enumerate().take(if lookups > 0 { 3 } else { 1 }) {
            let place = snapshot.place_of_txo(block.first_txo + u64::from(tx.first_output))?;
            assert_eq!(place, Some((height, block.first_tx + index as u32, 0)));
        }
    }
    check_filters(snapshot, book)?;
    assert_eq!(snapshot.header(book.blocks.len() as u32)?, None);
    assert_eq!(snapshot.height_of_tx(book.tx_count())?, None);
    assert_eq!(snapshot.place_of_txo(book.txo_count())?, None);
    Ok(())
}

fn check_filters(snapshot: &Snapshot, book: &Book) -> Result<(), StoreError> {
    let count = book.blocks.len() as u32;
    assert_eq!(snapshot.filter_count(), count);
    let mut end = 0;
    for (height, block) in book.blocks.iter().enumerate() {
        let want = filter_of(&block.header);
        end += want.len() as u64;
        let entry = FilterEntry { hash: sha256d(&want), header: [block.header[1]; 32], end };
        assert_eq!(snapshot.filter(height as u32)?, Some((entry, want)), "filter {height}");
        assert_eq!(snapshot.filter_entries(height as u32, 1)?, [entry]);
    }
    assert_eq!(snapshot.filter(count)?, None);
    assert_eq!(snapshot.filter_entries(0, u32::MAX)?.len() as u32, count);
    Ok(())
}

#[test]
fn random_chains_agree_with_the_book() {
    for seed in 0..2 {
        let mut random = Random::new(seed);
        let mut world = World::new();
        let mut old_views: Vec<(Arc<Snapshot>, Book)> = Vec::new();
        for step in 0..60 {
            match random.below(10) {
                0..=4 => {
                    for _ in 0..1 + random.below(8) {
                        world.forge_and_connect(&mut random);
                    }
                }
                5 => {
                    let deepest = world.book.blocks.len().min(1 + random.below(30) as usize);
                    let blocks = world.book.blocks.len() - random.below(deepest as u64 + 1) as usize;
                    let below = blocks < world.committed;
                    world.disconnect_to(blocks);
                    if below {
                        old_views.clear();
                        world.commit();
                        world.check();
                    }
                }
                6 => {
                    for _ in 0..random.below(60) {
                        let position = Position { file: 0, offset: world.found, size: 80 };
                        world.store.push_found(&Found { header: [world.found as u8; 80], position });
                        world.found += 1;
                    }
                }
                7 => {
                    world.merge(step % 5 == 0);
                    world.commit();
                    world.check();
                    world.reopen();
                    world.check();
                    old_views.clear();
                }
                _ => {
                    world.commit();
                    world.check();
                    world.merge(false);
                    old_views.push((world.store.snapshot(), world.book.clone()));
                }
            }
        }
        world.commit();
        world.check();
        for (view, book) in &old_views {
            check_snapshot(view, book, 100).unwrap();
        }
        drop(old_views);
        let segments = world.disk.lengths().iter().filter(|(path, _)| path.extension() == Some("seg".as_ref())).count();
        assert!(segments <= 12, "{segments} segment files");
    }
}

/// A store with two commits and what the book held at each.
fn two_commits() -> (World, [Book; 2]) {
    let mut random = Random::new(11);
    let mut world = World::new();
    let mut books = Vec::new();
    for _ in 0..2 {
        (0..40).for_each(|_| world.forge_and_connect(&mut random));
        for n in 0..60 {
            world
                .store
                .push_found(&Found { header: [n; 80], position: Position { file: 0, offset: n.into(), size: 80 } });
        }
        world.commit();
        books.push(world.book.clone());
    }
    (world, books.try_into().unwrap_or_else(|_| unreachable!("two")))
}

/// Opens and reads everything: an error, or the number of the commit that is there, whole.
fn open_and_read(disk: &Arc<MemoryDisk>, books: &[Book; 2]) -> Result<usize, StoreError> {
    let store = open(disk)?;
    let count = store.snapshot().block_count() as usize;
    let commit = books.iter().position(|book| book.blocks.len() == count).expect("one of the commits");
    store.found(0, store.found_count())?;
    check_snapshot(&store.snapshot(), &books[commit], 0)?;
    Ok(commit)
}

#[test]
fn every_flipped_bit_is_noticed() {
    let (world, books) = two_commits();
    let mut random = Random::new(12);
    assert_eq!(open_and_read(&world.disk.copy(), &books).unwrap(), 1);
    let mut outcomes = BTreeMap::new();
    for (path, length) in world.disk.lengths() {
        for _ in 0..80.min(length) {
            let disk = world.disk.copy();
            let at = random.below(length as u64) as usize;
            disk.change(&path, |bytes| bytes[at] ^= 1 << random.below(8));
            let name = path.file_name().unwrap().to_str().unwrap();
            let outcome = match open_and_read(&disk, &books) {
                Ok(commit) => format!("commit {commit}"),
                Err(StoreError::Corrupt { path: named, .. }) => {
                    assert_eq!(named, path);
                    "corrupt".into()
                }
                Err(StoreError::NewerFormat { .. }) => "newer".into(),
                Err(error) => panic!("{name} at {at}: {error}"),
            };
            // A damaged commit record leaves the one before; bytes behind the older record's end belong to nothing.
            let allowed = name.starts_with("commit") || outcome != "commit 0" && outcome != "commit 1";
            assert!(allowed, "{name} at {at}: {outcome}");
            *outcomes.entry((name.to_string(), outcome)).or_insert(0) += 1;
        }
    }
    let seen = |name: &str, outcome: &str| outcomes.contains_key(&(name.to_string(), outcome.to_string()));
    // Three commits were made: of the empty folder (0 and 1), and two; so commit.1 is the newest.
    assert!(seen("commit.1", "commit 0") && seen("commit.0", "commit 1"), "{outcomes:?}");
    assert!(seen("headers.col", "corrupt") && seen("0000000001.seg", "corrupt"), "{outcomes:?}");
}

#[test]
fn every_cut_file_is_noticed() {
    let (world, books) = two_commits();
    let mut random = Random::new(13);
    for (path, length) in world.disk.lengths().into_iter().filter(|(_, length)| *length > 0) {
        for round in 0..12 {
            let disk = world.disk.copy();
            let to = if round == 0 { length - 1 } else { random.below(length as u64) as usize };
            disk.change(&path, |bytes| bytes.truncate(to));
            match open_and_read(&disk, &books) {
                Err(StoreError::Corrupt { .. }) => {}
                Ok(_) if path.to_str().unwrap().contains("commit") => {}
                other => panic!("{} cut to {to}: {other:?}", path.display()),
            }
        }
    }
}

#[test]
fn a_folder_says_whose_it_is_and_how_new() {
    let (world, books) = two_commits();
    let main = Params::of(Network::Main);
    let other = Store::open(world.disk.clone(), Path::new("/data"), &main, &Options { tag_key_seed: [0; 16] });
    assert!(matches!(other, Err(StoreError::OtherNetwork { got: [0xfa, 0xbf, 0xb5, 0xda], .. })));
    for (path, at) in [("/data/commit.0", 8), ("/data/commit.1", 8), ("/data/segments/0000000001.seg", 8)] {
        let disk = world.disk.copy();
        disk.change(Path::new(path), |bytes| bytes[at] = 3);
        let got = open_and_read(&disk, &books);
        assert!(matches!(got, Err(StoreError::NewerFormat { got: 3, .. })), "{path}: {got:?}");
    }
    // Files that no record names are a crash's; they go.
    world.disk.put("/data/segments/0000009999.seg", &[1, 2, 3]);
    world.disk.put("/data/commit.new", &[1, 2, 3]);
    assert_eq!(open_and_read(&world.disk, &books).unwrap(), 1);
    assert!(
        !world.disk.lengths().iter().any(|(path, _)| path.ends_with("0000009999.seg") || path.ends_with("commit.new"))
    );
    // The key of the tags is the one drawn first.
    let again = Store::open(world.disk.clone(), Path::new("/data"), &params(), &Options { tag_key_seed: [9; 16] });
    assert_eq!(again.unwrap().tag_key(), [7; 16]);
}

#[test]
fn blocks_go_on_while_a_cut_is_written() {
    let mut random = Random::new(21);
    let mut world = World::new();
    for _ in 0..30 {
        (0..4).for_each(|_| world.forge_and_connect(&mut random));
        let (tip, batch) = (world.tip(), std::mem::take(&mut world.batch));
        let job = world.store.cut(Cut { tip, batch, coins: &mut world.coins }).unwrap();
        let (book, before) = (world.book.clone(), world.store.snapshot());
        // Coins of the cut are spent, restored and spent again before it is installed.
        (0..3).for_each(|_| world.forge_and_connect(&mut random));
        let written = job.run(&world.pool);
        assert_eq!(world.store.snapshot().tip(), before.tip());
        world.store.install(written, &mut world.coins).unwrap();
        check_snapshot(&world.store.snapshot(), &book, 100).unwrap();
        world.committed = book.blocks.len();
        world.disconnect_to(book.blocks.len());
    }
    world.commit();
    world.check();
}

#[test]
fn a_coin_written_over_is_gone_from_its_script() {
    // BIP 30: block 91,842 repeated a coinbase that was still unspent.
    for committed in [false, true] {
        let mut world = World::new();
        let outpoint = OutPoint { txid: Txid([5; 32]), vout: 0 };
        let coin = |n: u8| Coin { value_sat: 50, height: n.into(), coinbase: true, txo_num: n.into(), script: &[9] };
        let block = BookBlock { header: vec![0; 80], outputs: 1, ..Default::default() };
        for n in 1..=2u8 {
            world.coins.create(&outpoint, coin(n), tag_of(&[9])).unwrap();
            if n == 1 && committed {
                world.commit();
                world.coins = coins_of(&world.store);
            }
        }
        world.commit();
        let snapshot = world.store.snapshot();
        let rows: Vec<u64> =
            snapshot.rows(Table::Unspent, tag_of(&[9]), 0).unwrap().map(|row| row.unwrap().lo).collect();
        assert_eq!(rows, [2], "committed: {committed}");
        assert_eq!(snapshot.coin(&outpoint).unwrap().map(|coin| coin.txo_num), Some(2));
        drop(block);
    }
}

#[test]
fn a_busy_script_is_written_anew_and_old_rows_are_not_stepped_over() {
    let mut world = World::new();
    let script = [9u8; 25];
    let tag = tag_of(&script);
    let outpoint = |n: u32| OutPoint { txid: Txid([n as u8; 32]), vout: n };
    let mut created = 0;
    for round in 0..6u32 {
        for n in created..created + 1000 {
            let coin =
                Coin { value_sat: n.into(), height: 0, coinbase: false, txo_num: u64::from(n) + 1, script: &script };
            world.coins.create(&outpoint(n), coin, tag).unwrap();
        }
        // Everything of the round before but ten is spent.
        for n in created.saturating_sub(1000)..created.saturating_sub(if round == 1 { 10 } else { 0 }) {
            assert!(world.coins.spend(&outpoint(n)).unwrap().is_some());
        }
        created += 1000;
        world.commit();
    }
    let snapshot = world.store.snapshot();
    let live: Vec<u64> = snapshot.rows(Table::Unspent, tag, 0).unwrap().map(|row| row.unwrap().lo).collect();
    let want: Vec<u64> = (991..=1000).chain(5001..=6000).collect();
    assert_eq!(live, want);
    assert_eq!(snapshot.rows(Table::Unspent, tag, 5500).unwrap().count(), 501);
    let merge = crate::merge::RowMerge::seek_hi(&snapshot.segments, Table::Unspent, tag, 0).unwrap();
    assert_eq!(merge.segment_count(), 1, "the reset row ends the search in the newest segment");
    let old = snapshot;
    world.merge(false);
    world.commit();
    let live: Vec<u64> = world.store.snapshot().rows(Table::Unspent, tag, 0).unwrap().map(|r| r.unwrap().lo).collect();
    assert_eq!(live, want);
    assert_eq!(world.store.snapshot().all_rows(Table::Unspent).unwrap().count(), want.len());
    drop(old);
}

#[test]
fn the_table_stays_within_its_budget() {
    let mut world = World::new();
    let coin = |n: u32| Coin { value_sat: 1, height: 0, coinbase: false, txo_num: n.into(), script: &[1; 25] };
    let mut random = Random::new(31);
    let mut outpoints = Vec::new();
    let mut most = 0;
    for n in 0..60_000u32 {
        outpoints.push(OutPoint { txid: Txid(random.bytes()), vout: 0 });
        world.coins.create(outpoints.last().unwrap(), coin(n), tag_of(&[1; 25])).unwrap();
        if world.coins.wants_cut() {
            world.commit();
        }
        most = most.max(world.coins.bytes());
    }
    // One chunk of entries and the lists come on top.
    assert!(most < (1 << 20) * 3 / 2, "{most} bytes");
    for (n, outpoint) in outpoints.iter().enumerate() {
        assert_eq!(world.coins.spend(outpoint).unwrap().expect("it is there").coin, coin(n as u32));
        if world.coins.wants_cut() {
            world.commit();
        }
    }
    world.commit();
    assert_eq!(world.store.snapshot().all_rows(Table::Unspent).unwrap().count(), 0);
}

/// Processor time of this thread, which other work on the machine does not stretch as it does the clock's.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux keeps it");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number")
}

/// Nanoseconds and bytes for a million coins; run with `--ignored --nocapture`.
#[test]
#[ignore = "measures; prints, never fails"]
fn measure_a_million_coins() {
    const COINS: u32 = 1_000_000;
    let dir = std::env::temp_dir().join(format!("assay-store-{}", std::process::id()));
    let disk = Arc::new(stdx::disk::SystemDisk::default());
    let pool = Pool::new("measure", 2);
    let mut store = Store::open(disk.clone(), &dir, &params(), &Options { tag_key_seed: [7; 16] }).unwrap();
    let options = CoinsOptions { bytes_max: 1 << 30, hash_key: [3, 4] };
    let mut coins = Coins::new(store.snapshot(), tagger(), &options);
    let mut random = Random::new(1);
    let outpoints: Vec<OutPoint> = (0..COINS).map(|n| OutPoint { txid: Txid(random.bytes()), vout: n % 3 }).collect();
    let script = [7u8; 22];
    let coin = |n: u32| Coin {
        value_sat: 1_000 * n as u64,
        height: n / 2000,
        coinbase: false,
        txo_num: n.into(),
        script: &script,
    };
    let tag = |n: u32| stdx::checksum::checksum(1, &n.to_le_bytes());
    let time = |name: &str, count: u32, start: u64| {
        println!("{name}: {:.0} ns each", (cpu_ns() - start) as f64 / count as f64);
    };
    let start = cpu_ns();
    for (n, outpoint) in (0..).zip(&outpoints) {
        if n % 32 == 0 {
            coins.warm(&outpoints[n as usize..(n as usize + 32).min(outpoints.len())]);
        }
        coins.create(outpoint, coin(n), tag(n)).unwrap();
    }
    time("create", COINS, start);
    println!("{} bytes a coin", coins.bytes() / COINS as usize);
    let mut order: Vec<u32> = (0..COINS / 2).map(|n| n * 2).collect();
    random.shuffle(&mut order);
    for together in [false, true] {
        let half = &order[if together { 0..order.len() / 2 } else { order.len() / 2..order.len() }];
        let start = cpu_ns();
        let mut fetching = 0;
        for lot in half.chunks(4000) {
            let lot: Vec<OutPoint> = lot.iter().map(|n| outpoints[*n as usize]).collect();
            if together {
                let start = cpu_ns();
                let fetch = coins.fetch(&pool, &lot);
                coins.load(fetch).unwrap();
                fetching += cpu_ns() - start;
            }
            for (n, outpoint) in lot.iter().enumerate() {
                if together && n % 32 == 0 {
                    coins.warm(&lot[n..(n + 32).min(lot.len())]);
                }
                coins.spend(outpoint).unwrap().expect("it is there");
            }
        }
        println!("fetch: {:.0} ns each", fetching as f64 / half.len() as f64);
        time(if together { "fetch and spend" } else { "spend" }, half.len() as u32, start);
    }
    let mut batch = Batch::default();
    for n in 0..COINS {
        let tx = n / 2;
        batch.history.push((tag(n), tx));
        if n % 2 == 0 {
            batch.history.push((tag(n), tx + 300));
            batch.spender.push((n.into(), tx + 300));
            batch.txid.push((random.next_u64() >> 24, tx));
        }
    }
    let (rows, live) = (batch.rows(), COINS / 2);
    let txs: Vec<TxEntry> = (0..COINS / 2).map(|n| TxEntry { offset: n % 1_000_000, first_output: n % 4000 }).collect();
    store.push_block(&[0; 80], Position { file: 0, offset: 0, size: 0 }, &txs, COINS);
    let tip = Some(Tip { height: 0, hash: BlockHash([1; 32]), chainwork: [0; 32] });
    let start = cpu_ns();
    let job = store.cut(Cut { tip, batch, coins: &mut coins }).unwrap();
    time("taking the cut, a coin", live, start);
    let start = cpu_ns();
    let written = job.run(&pool);
    time("writing the cut, a row", rows as u32 + 2 * live, start);
    let start = cpu_ns();
    store.install(written, &mut coins).unwrap();
    println!("install: {} ms", (cpu_ns() - start) / 1_000_000);
    for size in store.snapshot().sizes() {
        println!("{}: {} rows, {:.2} bytes each", size.name, size.rows, size.bytes as f64 / size.rows.max(1) as f64);
    }
    let mut coins = Coins::new(store.snapshot(), tagger(), &options);
    let live: Vec<OutPoint> = (0..COINS).filter(|n| n % 2 == 1).map(|n| outpoints[n as usize]).collect();
    let start = cpu_ns();
    for lot in live[..100_000].chunks(4000) {
        let fetch = coins.fetch(&pool, lot);
        coins.load(fetch).unwrap();
    }
    time("fetch from disk", 100_000, start);
    let snapshot = store.snapshot();
    let start = cpu_ns();
    (0..20_000).for_each(|n| assert!(snapshot.rows(Table::History, tag(n * 7), 0).unwrap().next().is_some()));
    time("history lookup", 20_000, start);
    std::fs::remove_dir_all(dir).unwrap();
}
