//! RocksDB through its C interface, as Debian packages it (librocksdb-dev).
//!
//! In:     sorted batches, each written as one external file and ingested; prefix lookups.
//! Out:    rows; ten bits of Bloom filter a prefix, LZ4, two background jobs.
//! Fails:  with RocksDB's message.
//! Source: rocksdb/c.h of version 7.8.3.

use crate::engine::{Engine, Outcome, keys};
use crate::workload::Batch;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::{Path, PathBuf};
use std::{fs, ptr, slice, thread, time::Duration};

type Handle = *mut c_void;

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_set_create_if_missing(options: Handle, on: c_uchar);
    fn rocksdb_options_set_max_background_jobs(options: Handle, jobs: c_int);
    fn rocksdb_options_set_compression(options: Handle, kind: c_int);
    fn rocksdb_options_set_prefix_extractor(options: Handle, extractor: Handle);
    fn rocksdb_slicetransform_create_fixed_prefix(bytes: usize) -> Handle;
    fn rocksdb_block_based_options_create() -> Handle;
    fn rocksdb_block_based_options_set_block_cache(options: Handle, cache: Handle);
    fn rocksdb_block_based_options_set_filter_policy(options: Handle, policy: Handle);
    fn rocksdb_block_based_options_set_format_version(options: Handle, version: c_int);
    fn rocksdb_options_set_block_based_table_factory(options: Handle, table: Handle);
    fn rocksdb_filterpolicy_create_bloom_full(bits: f64) -> Handle;
    fn rocksdb_cache_create_lru(bytes: usize) -> Handle;
    fn rocksdb_open(options: Handle, name: *const c_char, error: *mut *mut c_char) -> Handle;
    fn rocksdb_close(db: Handle);
    fn rocksdb_free(memory: *mut c_void);
    fn rocksdb_readoptions_create() -> Handle;
    fn rocksdb_readoptions_set_prefix_same_as_start(options: Handle, on: c_uchar);
    fn rocksdb_get(
        db: Handle,
        options: Handle,
        key: *const c_char,
        key_bytes: usize,
        value_bytes: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    fn rocksdb_create_iterator(db: Handle, options: Handle) -> Handle;
    fn rocksdb_iter_destroy(iterator: Handle);
    fn rocksdb_iter_seek(iterator: Handle, key: *const c_char, key_bytes: usize);
    fn rocksdb_iter_valid(iterator: Handle) -> c_uchar;
    fn rocksdb_iter_next(iterator: Handle);
    fn rocksdb_iter_key(iterator: Handle, bytes: *mut usize) -> *const c_char;
    fn rocksdb_iter_value(iterator: Handle, bytes: *mut usize) -> *const c_char;
    fn rocksdb_iter_get_error(iterator: Handle, error: *mut *mut c_char);
    fn rocksdb_envoptions_create() -> Handle;
    fn rocksdb_sstfilewriter_create(environment: Handle, options: Handle) -> Handle;
    fn rocksdb_sstfilewriter_open(writer: Handle, name: *const c_char, error: *mut *mut c_char);
    fn rocksdb_sstfilewriter_put(
        writer: Handle,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_sstfilewriter_delete(writer: Handle, key: *const c_char, key_bytes: usize, error: *mut *mut c_char);
    fn rocksdb_sstfilewriter_finish(writer: Handle, error: *mut *mut c_char);
    fn rocksdb_sstfilewriter_destroy(writer: Handle);
    fn rocksdb_ingestexternalfileoptions_create() -> Handle;
    fn rocksdb_ingestexternalfileoptions_set_move_files(options: Handle, on: c_uchar);
    fn rocksdb_ingest_external_file(
        db: Handle,
        files: *const *const c_char,
        count: usize,
        options: Handle,
        error: *mut *mut c_char,
    );
    fn rocksdb_property_int(db: Handle, name: *const c_char, value: *mut u64) -> c_int;
}

/// `rocksdb_lz4_compression` of c.h.
const LZ4: c_int = 4;

/// An open database. The few option objects live as long as the process.
pub struct Rocks {
    db: Handle,
    options: Handle,
    read: Handle,
    ingest: Handle,
    dir: PathBuf,
}

fn call<T>(run: impl FnOnce(*mut *mut c_char) -> T) -> Outcome<T> {
    let mut error: *mut c_char = ptr::null_mut();
    let result = run(&mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: on failure RocksDB leaves a C string of its own here, to be freed by its `rocksdb_free`.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    unsafe { rocksdb_free(error.cast()) };
    Err(text)
}

fn path_text(path: &Path) -> CString {
    CString::new(path.to_str().expect("path is text")).expect("path has no zero byte")
}

impl Rocks {
    fn scan(&self, table: u8, tag: u64, mut row: impl FnMut(&[u8], &[u8])) -> Outcome<()> {
        let prefix = keys::prefix(table, tag);
        // SAFETY: the handles are live; key and value are read before the iterator moves.
        unsafe {
            let iterator = rocksdb_create_iterator(self.db, self.read);
            rocksdb_iter_seek(iterator, prefix.as_ptr().cast(), prefix.len());
            while rocksdb_iter_valid(iterator) != 0 {
                let mut bytes = 0;
                let key = rocksdb_iter_key(iterator, &mut bytes);
                let key = slice::from_raw_parts(key.cast::<u8>(), bytes);
                if !key.starts_with(&prefix) {
                    break;
                }
                let value = rocksdb_iter_value(iterator, &mut bytes);
                row(key, slice::from_raw_parts(value.cast::<u8>(), bytes));
                rocksdb_iter_next(iterator);
            }
            let outcome = call(|error| rocksdb_iter_get_error(iterator, error));
            rocksdb_iter_destroy(iterator);
            outcome
        }
    }

    fn property(&self, name: &CStr) -> u64 {
        let mut value = 0;
        // SAFETY: the handle is live and the name ends in zero.
        assert_eq!(unsafe { rocksdb_property_int(self.db, name.as_ptr(), &mut value) }, 0, "{name:?}");
        value
    }

    /// Writes the batch as one external file; its `finish` syncs it.
    fn write_file(&self, path: &CStr, batch: &Batch) -> Outcome<()> {
        // SAFETY: the writer lives from create to destroy; every slice outlives its call, RocksDB copies.
        unsafe {
            let writer = rocksdb_sstfilewriter_create(rocksdb_envoptions_create(), self.options);
            call(|error| rocksdb_sstfilewriter_open(writer, path.as_ptr(), error))?;
            let put = |key: &[u8], value: &[u8]| {
                call(|error| {
                    let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
                    rocksdb_sstfilewriter_put(writer, k, key.len(), v, value.len(), error);
                })
            };
            for row in &batch.history {
                put(&keys::history(row.tag, row.tx_num), &[])?;
            }
            for row in &batch.unspent {
                let key = keys::unspent(row.tag, row.txo_num);
                match row.amount_sat {
                    Some(amount_sat) => {
                        let (bytes, length) = keys::amount(amount_sat);
                        put(&key, &bytes[..length])?;
                    }
                    None => call(|error| {
                        rocksdb_sstfilewriter_delete(writer, key.as_ptr().cast(), key.len(), error);
                    })?,
                }
            }
            put(keys::TIP, &batch.number.to_le_bytes())?;
            call(|error| rocksdb_sstfilewriter_finish(writer, error))?;
            rocksdb_sstfilewriter_destroy(writer);
        }
        Ok(())
    }
}

impl Engine for Rocks {
    fn open(dir: &Path, cache_bytes: u64) -> Outcome<Rocks> {
        fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        // SAFETY: plain construction in the order the C interface asks for.
        unsafe {
            let options = rocksdb_options_create();
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_set_max_background_jobs(options, 2);
            rocksdb_options_set_compression(options, LZ4);
            let extractor = rocksdb_slicetransform_create_fixed_prefix(keys::PREFIX_BYTES);
            rocksdb_options_set_prefix_extractor(options, extractor);
            let table = rocksdb_block_based_options_create();
            rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(cache_bytes as usize));
            rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10.0));
            rocksdb_block_based_options_set_format_version(table, 5);
            rocksdb_options_set_block_based_table_factory(options, table);
            let name = path_text(dir);
            let db = call(|error| rocksdb_open(options, name.as_ptr(), error))?;
            let read = rocksdb_readoptions_create();
            rocksdb_readoptions_set_prefix_same_as_start(read, 1);
            let ingest = rocksdb_ingestexternalfileoptions_create();
            rocksdb_ingestexternalfileoptions_set_move_files(ingest, 1);
            Ok(Rocks { db, options, read, ingest, dir: dir.to_owned() })
        }
    }

    fn commit(&mut self, batch: &Batch) -> Outcome<()> {
        let path = self.dir.join("next.sst.external");
        let name = path_text(&path);
        self.write_file(&name, batch)?;
        // SAFETY: one name, alive during the call.
        call(|error| unsafe { rocksdb_ingest_external_file(self.db, &name.as_ptr(), 1, self.ingest, error) })?;
        // `move_files` links the file into the database and leaves the old name to us.
        let _ = fs::remove_file(path);
        Ok(())
    }

    fn tip(&self) -> Outcome<Option<u32>> {
        let mut bytes = 0;
        let (key, length) = (keys::TIP.as_ptr().cast(), keys::TIP.len());
        // SAFETY: the value is copied out before it is freed.
        let value = call(|error| unsafe { rocksdb_get(self.db, self.read, key, length, &mut bytes, error) })?;
        if value.is_null() {
            return Ok(None);
        }
        let number = unsafe { slice::from_raw_parts(value.cast::<u8>(), bytes) }.try_into().expect("four bytes");
        unsafe { rocksdb_free(value.cast()) };
        Ok(Some(u32::from_le_bytes(number)))
    }

    fn history(&self, tag: u64, out: &mut Vec<u32>) -> Outcome<()> {
        self.scan(1, tag, |key, _| out.push(keys::tx_num(key)))
    }

    fn unspent(&self, tag: u64, out: &mut Vec<(u64, u64)>) -> Outcome<()> {
        self.scan(2, tag, |key, value| out.push((keys::txo_num(key), keys::amount_sat(value))))
    }

    fn settle(&mut self) -> Outcome<()> {
        let names = [c"rocksdb.compaction-pending", c"rocksdb.num-running-compactions", c"rocksdb.num-running-flushes"];
        let mut quiet = 0;
        while quiet < 10 {
            quiet = if names.iter().all(|name| self.property(name) == 0) { quiet + 1 } else { 0 };
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: the handle is live and used no more.
        unsafe { rocksdb_close(self.db) };
    }
}
