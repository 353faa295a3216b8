//! `assay reindex`: throws coins and index of one network away and builds them again from the block files.
//!
//! In:     settings; the data directory's lock.
//! Out:    a data directory that has caught up with the block files, and still knows the headers whose blocks are not in them;
//!         a line that says what was done.
//! Fails:  with exit code 1; whatever moment it is ended at, the next `assay run` builds what is missing.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use stdx::disk::SystemDisk;

use super::arguments::Flags;
use super::run::{begin_log, finish};
use crate::Failure;
use crate::config::Config;
use crate::running::lock::DataLock;
use crate::running::log;
use crate::running::node::{End, Node, engine};
use crate::running::stop::StopFlag;

/// Removes and rebuilds.
pub fn reindex(flags: &Flags) -> Result<ExitCode, Failure> {
    let (mut config, layers) = Config::load(flags)?;
    // Block files have everything, and a command that ends by itself needs no port that another program may hold.
    (config.peers, config.electrum, config.rpc) = (None, None, None);
    config.zmq.clear();
    begin_log(&config)?;
    let stop = StopFlag::install().map_err(|error| Failure::Run(format!("no signal handlers: {error}")))?;
    let engine = engine(&config, &layers)?; // the last setting that can be refused: nothing is touched before
    let lock = DataLock::take(&config.chain_dir).map_err(|error| Failure::Run(error.to_string()))?;
    let headers = headers_to_keep(&config);
    let unremovable = |error| Failure::Run(format!("{} cannot be removed: {error}", config.store_dir.display()));
    remove_store(&config.store_dir).map_err(unremovable)?;
    log::info("node", "removed", &[("folder", &config.store_dir.display())]);
    drop(lock);
    let mut node = Node::start_with(config, engine, headers, stop)?;
    let end = match node.wait_open() {
        // Not the best header, whose block may be nowhere here: what the files have is all that can be done.
        Ok(handle) => node.watch(|| handle.status().has_tried_all),
        Err(end) => Some(end),
    };
    if end.is_none() {
        node.reporter().log_totals("reindexed");
    }
    finish(node, end.unwrap_or(End::Asked))
}

/// Headers that the old store knows without their blocks; none where it cannot be read, which may be why it is built again.
fn headers_to_keep(config: &Config) -> Vec<[u8; 80]> {
    if !config.store_dir.is_dir() {
        return Vec::new();
    }
    chain::headers_of_store(Arc::new(SystemDisk::default()), &config.store_dir, &config.params).unwrap_or_else(
        |error| {
            log::warn("node", "headers without blocks are forgotten", &[("why", &error)]);
            Vec::new()
        },
    )
}

/// Takes the folder away in one step, then empties it, so that no half of it is ever opened.
fn remove_store(store_dir: &Path) -> io::Result<()> {
    let removed = store_dir.with_extension("removed");
    let absent_is_fine = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    absent_is_fine(fs::remove_dir_all(&removed))?;
    absent_is_fine(fs::rename(store_dir, &removed))?;
    absent_is_fine(fs::remove_dir_all(&removed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_removed_whole_and_none_is_fine_too() {
        let folder = std::env::temp_dir().join(format!("assay-reindex-{}", std::process::id()));
        let store = folder.join("store");
        fs::create_dir_all(store.join("below")).unwrap();
        fs::create_dir_all(folder.join("store.removed")).unwrap(); // left by a kill
        fs::write(store.join("below/file"), "x").unwrap();
        remove_store(&store).unwrap();
        remove_store(&store).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
