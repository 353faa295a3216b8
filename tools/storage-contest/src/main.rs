//! The storage contest: 20 million rows of our own shape through RocksDB, fjall and our own files.
//!
//! In:     `storage-contest run ENGINE DIR [BATCHES]`, `storage-contest kill ENGINE DIR [BATCHES]`;
//!         engines: rocksdb, fjall, runs, segments.
//! Out:    one line of JSON a phase, on standard output.
//! Fails:  with exit code 1 and one line when an engine fails or answers wrongly.
//!
//! Each phase is a process of its own, so that memory and bytes belong to it alone.

mod engine;
mod fjall_store;
mod measure;
mod rocks;
mod runs;
mod segments;
mod workload;

use engine::{Engine, Outcome};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};
use workload::{Expected, Workload};

/// Block cache of the engines that have one. The operating system's page cache serves everyone.
const CACHE_BYTES: u64 = 64 << 20;
/// 101 batches of just under 200,000 rows: 20 million.
const BATCHES: u32 = 101;
/// Scripts asked for in each lookup phase.
const LOOKUPS: u64 = 5_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        [phase, engine, dir, ref rest @ ..] => {
            let batches = rest.first().map_or(BATCHES, |text| text.parse().expect("a number of batches"));
            match engine {
                "rocksdb" => phase_of::<rocks::Rocks>(phase, engine, Path::new(dir), batches),
                "fjall" => phase_of::<fjall_store::Fjall>(phase, engine, Path::new(dir), batches),
                "runs" => phase_of::<runs::Runs>(phase, engine, Path::new(dir), batches),
                "segments" => phase_of::<segments::Segments>(phase, engine, Path::new(dir), batches),
                _ => Err(format!("unknown engine {engine}: rocksdb, fjall, runs or segments")),
            }
        }
        _ => Err("usage: storage-contest run|kill rocksdb|fjall|runs|segments DIR [BATCHES]".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("storage-contest: {text}");
            ExitCode::FAILURE
        }
    }
}

fn phase_of<E: Engine>(phase: &str, engine: &str, dir: &Path, batches: u32) -> Outcome<()> {
    match phase {
        "run" => {
            remove(dir);
            for phase in ["write", "check", "lookups"] {
                let status = child(phase, engine, dir, batches).status().map_err(|error| error.to_string())?;
                if !status.success() {
                    return Err(format!("phase {phase} of {engine} failed"));
                }
            }
            Ok(())
        }
        "kill" => kill(engine, dir, batches),
        "write" => write::<E>(engine, dir, batches, false),
        "write-aloud" => write::<E>(engine, dir, batches, true),
        "check" => check::<E>(engine, dir, batches - 1),
        "recover" => recover::<E>(engine, dir),
        "lookups" => lookups::<E>(engine, dir, batches),
        _ => Err(format!("unknown phase {phase}")),
    }
}

fn remove(dir: &Path) {
    if dir.exists() {
        fs::remove_dir_all(dir).expect("folder can be removed");
    }
}

fn child(phase: &str, engine: &str, dir: &Path, batches: u32) -> Command {
    let mut command = Command::new(env::current_exe().expect("own path"));
    command.args([phase, engine]).arg(dir).arg(batches.to_string());
    command
}

/// Writes the batches that are missing; time to make and sort the rows is left out of the figures.
fn write<E: Engine>(engine: &str, dir: &Path, batches: u32, aloud: bool) -> Outcome<()> {
    let mut database = E::open(dir, CACHE_BYTES)?;
    let first = database.tip()?.map_or(0, |tip| tip + 1);
    let mut workload = Workload::new();
    for _ in 0..first {
        workload.batch(false);
    }
    let (mut rows, mut wall_s, mut worst_s) = (0, 0.0, 0.0f64);
    let (mut making_cpu_s, start_cpu_s) = (0.0, measure::process_cpu_s());
    let (start_disk, start_asked) = (measure::disk_written_bytes(), measure::asked_written_bytes());
    let mut kept_peak = 0;
    for number in first..batches {
        let before = measure::thread_cpu_s();
        let batch = workload.batch(true);
        making_cpu_s += measure::thread_cpu_s() - before;
        assert_eq!(batch.number, number);
        rows += batch.row_count();
        let before = Instant::now();
        database.commit(&batch)?;
        let took_s = before.elapsed().as_secs_f64();
        (wall_s, worst_s) = (wall_s + took_s, worst_s.max(took_s));
        kept_peak = kept_peak.max(measure::kept_bytes(dir));
        if aloud {
            println!("committed {number}");
        }
    }
    let before = Instant::now();
    database.settle()?;
    let settle_s = before.elapsed().as_secs_f64();
    let cpu_s = measure::process_cpu_s() - start_cpu_s - making_cpu_s;
    let peak = measure::peak_memory_bytes();
    let (disk, asked) = (measure::disk_written_bytes() - start_disk, measure::asked_written_bytes() - start_asked);
    let per_row = |value: f64| value / rows as f64;
    if !aloud {
        println!(
            "{{\"phase\":\"write\",\"engine\":\"{engine}\",\"rows\":{rows},\"cpu_s\":{cpu_s:.2},\"cpu_ns_a_row\":{:.0},\
             \"commit_wall_s\":{wall_s:.2},\"worst_commit_s\":{worst_s:.2},\"settle_s\":{settle_s:.2},\
             \"disk_written_bytes\":{disk},\"disk_written_bytes_a_row\":{:.1},\"asked_written_bytes\":{asked},\
             \"kept_bytes\":{},\"kept_bytes_a_row\":{:.2},\"kept_peak_bytes\":{kept_peak},\"peak_memory_bytes\":{peak},\
             \"making_rows_cpu_s\":{making_cpu_s:.2}}}",
            per_row(cpu_s * 1e9),
            per_row(disk as f64),
            measure::kept_bytes(dir),
            per_row(measure::kept_bytes(dir) as f64),
        );
    }
    Ok(())
}

/// What the sampled scripts must answer when `tip` is the newest batch.
fn expected(tip: u32) -> Expected {
    let mut workload = Workload::new();
    for _ in 0..=tip {
        workload.batch(false);
    }
    workload.expected
}

/// Compares every sampled script; returns how many there were.
fn compare<E: Engine>(database: &E, tip: u32) -> Outcome<usize> {
    let expected = expected(tip);
    let (mut history, mut unspent) = (Vec::new(), Vec::new());
    for (&tag, want) in &expected.history {
        history.clear();
        database.history(tag, &mut history)?;
        if history != *want {
            return Err(format!("history of {tag:016x}: {} rows, expected {}", history.len(), want.len()));
        }
    }
    for (&tag, want) in &expected.unspent {
        unspent.clear();
        database.unspent(tag, &mut unspent)?;
        if !unspent.iter().copied().eq(want.iter().map(|(&txo_num, &amount_sat)| (txo_num, amount_sat))) {
            return Err(format!("unspent of {tag:016x}: {} rows, expected {}", unspent.len(), want.len()));
        }
    }
    Ok(expected.history.len())
}

fn check<E: Engine>(engine: &str, dir: &Path, tip: u32) -> Outcome<()> {
    let database = E::open(dir, CACHE_BYTES)?;
    if database.tip()? != Some(tip) {
        return Err(format!("tip {:?}, expected {tip}", database.tip()?));
    }
    let scripts = compare(&database, tip)?;
    let kept = measure::kept_bytes(dir);
    println!(
        "{{\"phase\":\"check\",\"engine\":\"{engine}\",\"scripts_compared\":{scripts},\"all_equal\":true,\
         \"kept_after_reopening_bytes\":{kept}}}"
    );
    Ok(())
}

/// Opens after a kill, says how long that took and what is there.
fn recover<E: Engine>(engine: &str, dir: &Path) -> Outcome<()> {
    let before = Instant::now();
    let database = E::open(dir, CACHE_BYTES)?;
    let tip = database.tip()?;
    let open_ms = before.elapsed().as_secs_f64() * 1e3;
    let scripts = tip.map_or(Ok(0), |tip| compare(&database, tip))?;
    let tip = tip.map_or(-1, i64::from);
    println!(
        "{{\"phase\":\"recover\",\"engine\":\"{engine}\",\"open_ms\":{open_ms:.1},\"tip\":{tip},\
         \"scripts_compared\":{scripts},\"all_equal\":true}}"
    );
    Ok(())
}

/// Kills a writing process with SIGKILL at eight places in the middle of a commit, each followed by a reopening.
fn kill(engine: &str, dir: &Path, batches: u32) -> Outcome<()> {
    remove(dir);
    for eighth in 0..8 {
        let share = 0.1 + 0.1 * f64::from(eighth);
        let mut writer = child("write-aloud", engine, dir, batches)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let lines = BufReader::new(writer.stdout.take().expect("piped")).lines();
        let (mut acknowledged, mut last) = (-1i64, Instant::now());
        for line in lines {
            let line = line.map_err(|error| error.to_string())?;
            acknowledged = line.trim_start_matches("committed ").parse().expect("a batch number");
            let gap = last.elapsed();
            last = Instant::now();
            if acknowledged >= i64::from(batches * eighth / 8) {
                // The first line of a writer that passed over batches comes late: no commit takes so long.
                thread::sleep(gap.min(Duration::from_millis(40)).mul_f64(share));
                break;
            }
        }
        writer.kill().map_err(|error| error.to_string())?;
        writer.wait().map_err(|error| error.to_string())?;
        println!("{{\"phase\":\"kill\",\"engine\":\"{engine}\",\"acknowledged\":{acknowledged}}}");
        let status = child("recover", engine, dir, batches).status().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("{engine} did not recover"));
        }
    }
    Ok(())
}

fn percentile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// Asks for many scripts one by one, first from cold files, then the same again.
fn lookups<E: Engine>(engine: &str, dir: &Path, batches: u32) -> Outcome<()> {
    let dir: PathBuf = dir.to_owned();
    let present = workload::lookup_tags(batches, LOOKUPS, 20);
    let absent: Vec<u64> = (0..LOOKUPS).map(workload::absent_tag).collect();
    let busiest = [workload::busiest_tag()];
    measure::make_cold(&dir);
    let before = Instant::now();
    let database = E::open(&dir, CACHE_BYTES)?;
    let open_ms = before.elapsed().as_secs_f64() * 1e3;
    let ask = |what: &str, tags: &[u64], unspent: bool| -> Outcome<()> {
        let (cpu_s, read) = (measure::process_cpu_s(), measure::disk_read_bytes());
        let (mut times, mut rows) = (Vec::with_capacity(tags.len()), 0);
        let (mut numbers, mut outputs) = (Vec::new(), Vec::new());
        for &tag in tags {
            (numbers.clear(), outputs.clear());
            let before = Instant::now();
            if unspent {
                database.unspent(tag, &mut outputs)?;
            } else {
                database.history(tag, &mut numbers)?;
            }
            times.push(before.elapsed().as_secs_f64() * 1e6);
            rows += numbers.len() + outputs.len();
        }
        let count = tags.len() as f64;
        let cpu_us = (measure::process_cpu_s() - cpu_s) * 1e6 / count;
        let read = (measure::disk_read_bytes() - read) as f64 / count;
        times.sort_by(f64::total_cmp);
        println!(
            "{{\"phase\":\"lookups\",\"engine\":\"{engine}\",\"what\":\"{what}\",\"lookups\":{},\"rows\":{rows},\
             \"p50_us\":{:.1},\"p99_us\":{:.1},\"worst_us\":{:.1},\"cpu_us\":{cpu_us:.2},\"disk_read_bytes\":{read:.0}}}",
            tags.len(),
            percentile(&times, 0.5),
            percentile(&times, 0.99),
            percentile(&times, 1.0),
        );
        Ok(())
    };
    ask("history, cold", &present, false)?;
    ask("history, again", &present, false)?;
    ask("absent script, first", &absent, false)?;
    ask("absent script, again", &absent, false)?;
    ask("unspent, first", &present, true)?;
    ask("unspent, again", &present, true)?;
    ask("history of the busiest script, first", &busiest, false)?;
    ask("history of the busiest script, again", &busiest, false)?;
    println!("{{\"phase\":\"open\",\"engine\":\"{engine}\",\"cold_open_ms\":{open_ms:.1}}}");
    Ok(())
}
