//! `assay forge`: writes a regtest chain with every standard script type as Bitcoin Core's block files.
//!
//! In:     a folder, and which chain to forge.
//! Out:    `blk*.dat` files in the folder, lists of the scripts asked for, and a line that says what is in them.
//! Fails:  when the folder has block files already, or the disk fails.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use sim::forge::{ForgeError, ForgeOptions, Mix, Report, forge_to, wallet};
use stdx::disk::SystemDisk;
use stdx::pool::Pool;

use super::arguments::ForgeWish;
use crate::config::machine;
use crate::running::log;
use crate::running::progress::{bytes_text, count_text};
use crate::{Failure, say};

/// Key of `--xor`; any would do, and Core's own is random.
const XOR_KEY: [u8; 8] = [0x5a, 0xa5, 0x17, 0x71, 0x00, 0xff, 0x33, 0xcc];

/// Forges and says what.
pub fn forge(out: &str, wish: &ForgeWish) -> Result<ExitCode, Failure> {
    let folder = Path::new(out);
    if folder.join(sim::forge::files::file_name(0)).exists() {
        return Err(Failure::Run(format!("{out} has block files already; remove them or take another folder")));
    }
    let pool = Pool::new("check", machine::processors());
    let started = Instant::now();
    let report = forge_chain(folder, wish, &pool)?;
    say(&format!("{} in {:.1} s", describe(&report), started.elapsed().as_secs_f64()));
    Ok(ExitCode::SUCCESS)
}

/// Forges into a folder, showing how far it is where somebody looks.
pub fn forge_chain(folder: &Path, wish: &ForgeWish, pool: &Pool) -> Result<Report, Failure> {
    let mix = Mix::ALL.into_iter().find(|mix| mix.name() == wish.mix).expect("the argument's choices are the mixes");
    let plain = ForgeOptions { blocks: wish.blocks, signals: wish.signals, ..ForgeOptions::default() };
    let options = ForgeOptions {
        seed: wish.seed,
        inputs: wish.inputs,
        mix,
        xor_key: wish.xor.then_some(XOR_KEY),
        shuffle_blocks: wish.shuffle_blocks as usize,
        special: [
            wallet::histories(wish.seed, wish.scripts, wish.entries_max),
            wallet::wallet(wish.seed, 1, wish.wallet, (plain.first_spends(), wish.blocks)),
        ]
        .concat(),
        ..plain
    };
    let live = log::is_live();
    let mut progress = |report: &Report| {
        if live && report.height % 10 == 0 {
            let (height, inputs) = (report.height, count_text(report.inputs));
            log::live(&format!("forging {height}/{} blocks | {inputs} inputs signed", wish.blocks));
        }
    };
    let report = forge_to(&SystemDisk::default(), folder, &options, pool, &mut progress);
    if live {
        log::live("");
    }
    report.map_err(|error: ForgeError| Failure::Run(format!("{}: {error}", folder.display())))
}

/// What a forged chain holds.
pub fn describe(report: &Report) -> String {
    format!(
        "forged {} blocks: {} transactions, {} inputs, {} outputs, {} signatures, {} in {} files; tip {}",
        count_text(u64::from(report.height) + 1),
        count_text(report.txs),
        count_text(report.inputs),
        count_text(report.outputs),
        count_text(report.signatures),
        bytes_text(report.block_bytes),
        report.files,
        report.tip
    )
}
