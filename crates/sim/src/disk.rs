//! A disk in memory that forgets what was not synced, and fails where it is told to.
//!
//! In:     a seed and a [`Fault`]; then the calls of [`stdx::disk::Disk`].
//! Out:    what a disk answers; [`FakeDisk::crash`] gives the disk as it would look after power came back.
//! Fails:  as the fault says; after [`Fault::PowerLoss`] every call fails.
//!
//! What a crash may do to writes since the last sync of their file: keep or lose each one alone, in any order, and keep
//! any of a write's sectors without the others. To names changed since the last sync of their folder: keep or lose each
//! change alone. What a failed sync leaves is unknown for good: a later sync that succeeds does not make it safe, as on
//! Linux, where a page whose write failed counts as clean. Folders, once made, are durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use stdx::disk::{Disk, DiskFile, Open};
use stdx::random::Random;

/// Bytes that reach a disk together or not at all.
pub const SECTOR_BYTES: u64 = 512;

/// Operating system's number for "input/output error".
const EIO: i32 = 5;
/// Operating system's number for "no space left on device".
const ENOSPC: i32 = 28;

/// What goes wrong. Operations that change something are counted from zero: writes, lengths, syncs, names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// This operation is under way when power goes; it and all later calls fail.
    PowerLoss {
        /// Its number.
        at: u64,
    },
    /// This one operation fails with EIO.
    Eio {
        /// Its number.
        at: u64,
    },
    /// From this operation on, whatever needs more space fails with ENOSPC.
    NoSpace {
        /// Its number.
        from: u64,
    },
}

/// An operation, for whoever wants to know where a fault fell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Bytes of a file.
    Write,
    /// Length of a file.
    SetLength,
    /// Sync of a file.
    Sync,
    /// A file made.
    Create,
    /// A file renamed.
    Rename,
    /// A file removed.
    Remove,
    /// Sync of a folder.
    SyncDir,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Length(u64),
}

#[derive(Clone, Debug)]
enum NameChange {
    Link(PathBuf, u64),
    Unlink(PathBuf),
    Move { from: PathBuf, to: PathBuf, file: u64 },
}

#[derive(Clone, Debug, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Since the last sync.
    pending: Vec<Change>,
    /// Of a sync that failed: durable or not, no later sync will tell.
    unknown: Vec<Change>,
}

struct State {
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    name_changes: Vec<NameChange>,
    contents: BTreeMap<u64, Content>,
    folders: BTreeSet<PathBuf>,
    next_file: u64,
    fault: Fault,
    operations: Vec<Operation>,
    dead: bool,
    written_bytes: u64,
}

/// The disk; clones are the same disk.
#[derive(Clone)]
pub struct FakeDisk(Arc<Mutex<State>>);

struct FakeFile {
    disk: FakeDisk,
    file: u64,
    writable: bool,
}

fn power_is_off() -> io::Error {
    io::Error::other("the power is off")
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => bytes.resize(*length as usize, 0),
        Change::Write { offset, bytes: new } => {
            let (start, end) = (*offset as usize, *offset as usize + new.len());
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(new);
        }
    }
}

fn apply_name(names: &mut BTreeMap<PathBuf, u64>, change: &NameChange) {
    match change {
        NameChange::Link(path, file) => drop(names.insert(path.clone(), *file)),
        NameChange::Unlink(path) => drop(names.remove(path)),
        NameChange::Move { from, to, file } => {
            if names.get(from) == Some(file) {
                names.remove(from);
            }
            names.insert(to.clone(), *file);
        }
    }
}

/// The pieces of a write that lie in one sector each.
fn sectors(offset: u64, bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut pieces = Vec::new();
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done as u64;
        let length = ((SECTOR_BYTES - at % SECTOR_BYTES) as usize).min(bytes.len() - done);
        pieces.push((at, bytes[done..done + length].to_vec()));
        done += length;
    }
    pieces
}

/// How much of what was not synced a crash keeps.
#[derive(Clone, Copy)]
enum Mercy {
    Nothing,
    Everything,
    Some,
}

impl Mercy {
    fn keeps(self, random: &mut Random) -> bool {
        match self {
            Mercy::Nothing => false,
            Mercy::Everything => true,
            Mercy::Some => random.chance(1, 2),
        }
    }
}

impl Content {
    fn change(&mut self, change: Change) {
        apply(&mut self.now, &change);
        self.pending.push(change);
    }

    /// Its bytes after a crash.
    fn survive(&self, mercy: Mercy, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in self.unknown.iter().chain(&self.pending) {
            match change {
                Change::Write { offset, bytes: new } if matches!(mercy, Mercy::Some) => {
                    // Whole, torn, or lost.
                    let torn = random.chance(1, 3);
                    let whole = random.chance(1, 2);
                    for (offset, bytes_of_sector) in sectors(*offset, new) {
                        if if torn { random.chance(1, 2) } else { whole } {
                            apply(&mut bytes, &Change::Write { offset, bytes: bytes_of_sector });
                        }
                    }
                }
                change => {
                    if mercy.keeps(random) {
                        apply(&mut bytes, change);
                    }
                }
            }
        }
        bytes
    }
}

impl State {
    /// Counts an operation; an error where the fault strikes it.
    fn count(&mut self, operation: Operation) -> io::Result<()> {
        if self.dead {
            return Err(power_is_off());
        }
        let number = self.operations.len() as u64;
        self.operations.push(operation);
        let grows = matches!(operation, Operation::Write | Operation::SetLength | Operation::Create);
        match self.fault {
            Fault::PowerLoss { at } if at == number => {
                self.dead = true;
                Err(power_is_off())
            }
            Fault::Eio { at } if at == number => Err(io::Error::from_raw_os_error(EIO)),
            Fault::NoSpace { from } if number >= from && grows => Err(io::Error::from_raw_os_error(ENOSPC)),
            _ => Ok(()),
        }
    }

    fn alive(&self) -> io::Result<()> {
        if self.dead { Err(power_is_off()) } else { Ok(()) }
    }

    fn rename_file(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let file = *self.names.get(from).ok_or(ErrorKind::NotFound)?;
        let change = NameChange::Move { from: from.to_owned(), to: to.to_owned(), file };
        apply_name(&mut self.names, &change);
        self.name_changes.push(change);
        Ok(())
    }
}

impl Default for FakeDisk {
    fn default() -> Self {
        FakeDisk(Arc::new(Mutex::new(State {
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            contents: BTreeMap::new(),
            folders: BTreeSet::new(),
            next_file: 0,
            fault: Fault::None,
            operations: Vec::new(),
            dead: false,
            written_bytes: 0,
        })))
    }
}

impl FakeDisk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// From now on operations are counted from zero, and this goes wrong.
    pub fn arm(&self, fault: Fault) {
        let mut state = self.lock();
        state.operations.clear();
        state.fault = fault;
    }

    /// Operations since the disk was armed, in order.
    pub fn operations(&self) -> Vec<Operation> {
        self.lock().operations.clone()
    }

    /// Bytes it was asked to write.
    pub fn written_bytes(&self) -> u64 {
        self.lock().written_bytes
    }

    /// True after [`Fault::PowerLoss`] struck.
    pub fn is_off(&self) -> bool {
        self.lock().dead
    }

    /// The disk after power was lost and came back; the old one stays off. Another seed, another fate of what was not
    /// synced: a quarter of the seeds loses all of it, a quarter nothing, the others some.
    pub fn crash(&self, seed: u64) -> FakeDisk {
        let mut old = self.lock();
        old.dead = true;
        let mut random = Random::new(seed);
        let mercy = match random.below(4) {
            0 => Mercy::Nothing,
            1 => Mercy::Everything,
            _ => Mercy::Some,
        };
        let mut names = old.durable_names.clone();
        for change in &old.name_changes {
            if mercy.keeps(&mut random) {
                apply_name(&mut names, change);
            }
        }
        let kept: BTreeSet<u64> = names.values().copied().collect();
        let mut contents = BTreeMap::new();
        for (&file, content) in old.contents.iter().filter(|(file, _)| kept.contains(file)) {
            let bytes = content.survive(mercy, &mut random);
            let content = Content { now: bytes.clone(), durable: bytes, ..Content::default() };
            contents.insert(file, content);
        }
        let disk = FakeDisk::default();
        {
            let mut state = disk.lock();
            state.durable_names = names.clone();
            (state.names, state.contents) = (names, contents);
            state.folders = old.folders.clone();
            state.next_file = old.next_file;
        }
        disk
    }

    /// Another disk with the same bytes, everything on it durable and nothing armed.
    pub fn copy(&self) -> FakeDisk {
        let old = self.lock();
        let disk = FakeDisk::default();
        {
            let mut state = disk.lock();
            (state.names, state.durable_names) = (old.names.clone(), old.names.clone());
            for (&file, content) in &old.contents {
                let (now, durable) = (content.now.clone(), content.now.clone());
                state.contents.insert(file, Content { now, durable, ..Content::default() });
            }
            state.folders = old.folders.clone();
            state.next_file = old.next_file;
        }
        disk
    }

    /// Bytes of a file as a program sees them now.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.lock();
        let file = state.names.get(path)?;
        Some(state.contents[file].now.clone())
    }
}

impl Disk for FakeDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        state.alive()?;
        let file = match state.names.get(path).copied() {
            Some(file) => {
                if how == Open::Truncate && !state.contents[&file].now.is_empty() {
                    state.count(Operation::SetLength)?;
                    state.contents.get_mut(&file).expect("named files exist").change(Change::Length(0));
                }
                file
            }
            None if matches!(how, Open::Read | Open::ReadWrite) => return Err(ErrorKind::NotFound.into()),
            None => {
                if path.parent().is_some_and(|folder| !state.folders.contains(folder)) {
                    return Err(ErrorKind::NotFound.into());
                }
                state.count(Operation::Create)?;
                let file = state.next_file;
                state.next_file += 1;
                state.contents.insert(file, Content::default());
                state.names.insert(path.to_owned(), file);
                state.name_changes.push(NameChange::Link(path.to_owned(), file));
                file
            }
        };
        Ok(Arc::new(FakeFile { disk: self.clone(), file, writable: how != Open::Read }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        match state.count(Operation::Rename) {
            Ok(()) => state.rename_file(from, to),
            Err(error) => {
                if state.dead {
                    // Under way: a crash may find it done.
                    state.rename_file(from, to)?;
                }
                Err(error)
            }
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.count(Operation::Remove)?;
        state.names.remove(path).ok_or(ErrorKind::NotFound)?;
        state.name_changes.push(NameChange::Unlink(path.to_owned()));
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.alive()?;
        state.folders.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.count(Operation::SyncDir)?;
        let State { name_changes, durable_names, .. } = &mut *state;
        let here = |name: &Path| name.parent() == Some(path);
        name_changes.retain(|change| {
            let done = match change {
                NameChange::Link(name, _) | NameChange::Unlink(name) => here(name),
                NameChange::Move { from, to, .. } => here(from) || here(to),
            };
            if done {
                apply_name(durable_names, change);
            }
            !done
        });
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.lock();
        state.alive()?;
        if !state.folders.contains(path) {
            return Err(ErrorKind::NotFound.into());
        }
        Ok(state.names.keys().filter(|name| name.parent() == Some(path)).cloned().collect())
    }
}

impl FakeFile {
    fn change(&self, operation: Operation, change: Change) -> io::Result<()> {
        let mut state = self.disk.lock();
        if !self.writable {
            return Err(ErrorKind::PermissionDenied.into());
        }
        if let Change::Write { bytes, .. } = &change {
            state.written_bytes += bytes.len() as u64;
        }
        let fate = state.count(operation);
        let struck = state.dead;
        let content = state.contents.get_mut(&self.file).expect("open files exist");
        match fate {
            Ok(()) => content.change(change),
            // Under way when power went: a crash may find some of it.
            Err(_) if struck => content.pending.push(change),
            // The first half was written before it failed.
            Err(_) => {
                if let Change::Write { offset, bytes } = change {
                    let half = bytes[..bytes.len() / 2].to_vec();
                    content.change(Change::Write { offset, bytes: half });
                }
            }
        }
        fate
    }
}

impl DiskFile for FakeFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.disk.lock();
        state.alive()?;
        let bytes = &state.contents[&self.file].now;
        let start = usize::try_from(offset).map_err(|_| ErrorKind::UnexpectedEof)?;
        let taken = bytes.get(start..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(taken.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change(Operation::Write, Change::Write { offset, bytes: bytes.to_vec() })
    }

    fn length(&self) -> io::Result<u64> {
        let state = self.disk.lock();
        state.alive()?;
        Ok(state.contents[&self.file].now.len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.change(Operation::SetLength, Change::Length(length))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        let fate = state.count(Operation::Sync);
        let struck = state.dead;
        let Content { durable, pending, unknown, .. } = state.contents.get_mut(&self.file).expect("open files exist");
        match fate {
            Ok(()) => pending.drain(..).for_each(|change| apply(durable, &change)),
            Err(_) if struck => {}
            Err(_) => unknown.append(pending),
        }
        fate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = "/d/data";

    fn path(name: &str) -> PathBuf {
        Path::new("/d").join(name)
    }

    fn disk_with_file() -> (FakeDisk, Arc<dyn DiskFile>) {
        let disk = FakeDisk::default();
        disk.create_dir(Path::new("/d")).unwrap();
        let file = disk.open(Path::new(DATA), Open::Create).unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        (disk, file)
    }

    /// The different fates of the file over many seeds.
    fn fates(disk: &FakeDisk) -> BTreeSet<Option<Vec<u8>>> {
        (0..300).map(|seed| disk.crash(seed).bytes(Path::new(DATA))).collect()
    }

    #[test]
    fn what_was_synced_stays_and_the_rest_may_go() {
        let (disk, file) = disk_with_file();
        file.write_all_at(b"one", 0).unwrap();
        file.sync().unwrap();
        file.write_all_at(b"two", 3).unwrap();
        file.write_all_at(b"3", 6).unwrap();
        let fates = fates(&disk);
        let want: BTreeSet<_> =
            ["one", "onetwo", "onetwo3", "one\0\0\x003"].iter().map(|text| Some(text.as_bytes().to_vec())).collect();
        assert_eq!(fates, want);
    }

    #[test]
    fn a_write_is_torn_at_sectors() {
        let (disk, file) = disk_with_file();
        file.write_all_at(&[1; 1100], 100).unwrap();
        let torn = fates(&disk).into_iter().flatten().filter(|bytes| !bytes.is_empty() && bytes.len() == 1200);
        let starts: BTreeSet<Option<usize>> = torn.map(|bytes| bytes.iter().position(|&byte| byte == 1)).collect();
        assert_eq!(starts, [Some(100), Some(512), Some(1024)].into());
    }

    #[test]
    fn names_not_synced_may_go() {
        let (disk, file) = disk_with_file();
        file.write_all_at(b"old", 0).unwrap();
        file.sync().unwrap();
        let new = disk.open(&path("new"), Open::Create).unwrap();
        new.write_all_at(b"new", 0).unwrap();
        new.sync().unwrap();
        disk.rename(&path("new"), Path::new(DATA)).unwrap();
        assert_eq!(disk.bytes(Path::new(DATA)).unwrap(), b"new");
        let want: BTreeSet<_> = [Some(b"old".to_vec()), Some(b"new".to_vec())].into();
        assert_eq!(fates(&disk), want);
    }

    #[test]
    fn a_failed_sync_leaves_the_bytes_unknown_for_good() {
        let (disk, file) = disk_with_file();
        file.write_all_at(b"x", 0).unwrap();
        disk.arm(Fault::Eio { at: 0 });
        assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(EIO));
        file.sync().unwrap();
        assert_eq!(fates(&disk), [Some(Vec::new()), Some(b"x".to_vec())].into());
    }

    #[test]
    fn faults_strike_where_they_are_told() {
        let (disk, file) = disk_with_file();
        disk.arm(Fault::NoSpace { from: 1 });
        file.write_all_at(b"a", 0).unwrap();
        assert_eq!(file.write_all_at(b"bbbb", 1).unwrap_err().raw_os_error(), Some(ENOSPC));
        file.sync().unwrap();
        assert_eq!(disk.bytes(Path::new(DATA)).unwrap(), b"abb");
        assert_eq!(disk.operations(), [Operation::Write, Operation::Write, Operation::Sync]);

        disk.arm(Fault::PowerLoss { at: 1 });
        file.write_all_at(b"c", 1).unwrap();
        assert!(file.sync().is_err() && file.length().is_err() && disk.is_off());
        assert!(disk.open(Path::new(DATA), Open::Read).is_err());
        assert_eq!(fates(&disk), [Some(b"abb".to_vec()), Some(b"acb".to_vec())].into());
    }

    #[test]
    fn it_answers_as_the_systems_disk_does() {
        let folder = std::env::temp_dir().join(format!("assay-disk-{}", std::process::id()));
        let fake = FakeDisk::default();
        let system = stdx::disk::SystemDisk::default();
        let disks: [&dyn Disk; 2] = [&fake, &system];
        let answers = disks.map(|disk| {
            let mut said: Vec<String> = Vec::new();
            let kind = |error: io::Error| error.kind();
            disk.create_dir(&folder.join("in/side")).unwrap();
            said.push(format!("{:?}", disk.open(&folder.join("a"), Open::Read).err().map(kind)));
            said.push(format!("{:?}", disk.open(&folder.join("no/a"), Open::Create).err().map(kind)));
            said.push(format!("{:?}", disk.remove(&folder.join("a")).map_err(kind)));
            said.push(format!("{:?}", disk.rename(&folder.join("a"), &folder.join("b")).map_err(kind)));
            said.push(format!("{:?}", disk.list(&folder.join("no")).map_err(kind)));
            let file = disk.open(&folder.join("a"), Open::Create).unwrap();
            file.write_all_at(b"abc", 2).unwrap();
            let mut three = [0; 3];
            said.push(format!("{:?} {three:?}", file.read_exact_at(&mut three, 1).map_err(kind)));
            said.push(format!("{:?}", file.read_exact_at(&mut three, 3).map_err(kind)));
            file.set_length(3).unwrap();
            said.push(format!("{:?}", file.length().unwrap()));
            let twin = disk.open(&folder.join("a"), Open::Truncate).unwrap();
            said.push(format!("{:?}", (file.length().unwrap(), twin.length().unwrap())));
            disk.rename(&folder.join("a"), &folder.join("b")).unwrap();
            file.write_all_at(b"z", 0).unwrap();
            said.push(format!("{:?}", disk.list(&folder).unwrap()));
            let reader = disk.open(&folder.join("b"), Open::Read).unwrap();
            said.push(format!("{:?}", (reader.length().unwrap(), reader.write_all_at(b"q", 0).is_err())));
            said
        });
        let _ = std::fs::remove_dir_all(&folder);
        assert_eq!(answers[0], answers[1]);
    }
}
