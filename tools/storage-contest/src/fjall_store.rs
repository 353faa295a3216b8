//! fjall 3, an LSM tree in Rust.
//!
//! In:     sorted batches, each one bulk ingestion into one keyspace; prefix lookups.
//! Out:    rows; fjall's defaults (LZ4, Bloom filter of the last level left out only where asked), two workers.
//! Fails:  with fjall's message.

use crate::engine::{Engine, Outcome, keys};
use crate::workload::Batch;
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use std::path::Path;
use std::{thread, time::Duration};

pub struct Fjall {
    keyspace: Keyspace,
    database: Database,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Engine for Fjall {
    fn open(dir: &Path, cache_bytes: u64) -> Outcome<Fjall> {
        let database = Database::builder(dir).cache_size(cache_bytes).worker_threads(2).open().map_err(text)?;
        let keyspace = database.keyspace("index", KeyspaceCreateOptions::default).map_err(text)?;
        Ok(Fjall { keyspace, database })
    }

    fn commit(&mut self, batch: &Batch) -> Outcome<()> {
        let mut ingestion = self.keyspace.start_ingestion().map_err(text)?;
        for row in &batch.history {
            ingestion.write(keys::history(row.tag, row.tx_num), []).map_err(text)?;
        }
        for row in &batch.unspent {
            let key = keys::unspent(row.tag, row.txo_num);
            match row.amount_sat {
                Some(amount_sat) => {
                    let (bytes, length) = keys::amount(amount_sat);
                    ingestion.write(key, &bytes[..length]).map_err(text)?;
                }
                None => ingestion.write_tombstone(key).map_err(text)?,
            }
        }
        ingestion.write(keys::TIP, batch.number.to_le_bytes()).map_err(text)?;
        ingestion.finish().map_err(text)
    }

    fn tip(&self) -> Outcome<Option<u32>> {
        let value = self.keyspace.get(keys::TIP).map_err(text)?;
        Ok(value.map(|bytes| u32::from_le_bytes(bytes[..].try_into().expect("four bytes"))))
    }

    fn history(&self, tag: u64, out: &mut Vec<u32>) -> Outcome<()> {
        for guard in self.keyspace.prefix(keys::prefix(1, tag)) {
            out.push(keys::tx_num(&guard.key().map_err(text)?));
        }
        Ok(())
    }

    fn unspent(&self, tag: u64, out: &mut Vec<(u64, u64)>) -> Outcome<()> {
        for guard in self.keyspace.prefix(keys::prefix(2, tag)) {
            let (key, value) = guard.into_inner().map_err(text)?;
            out.push((keys::txo_num(&key), keys::amount_sat(&value)));
        }
        Ok(())
    }

    fn settle(&mut self) -> Outcome<()> {
        let mut quiet = 0;
        while quiet < 10 {
            let busy = self.database.active_compactions() + self.database.outstanding_flushes();
            quiet = if busy == 0 { quiet + 1 } else { 0 };
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}
