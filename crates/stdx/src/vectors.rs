//! Where published test vectors lie on this machine; for tests only.
//!
//! In:     a name.
//! Out:    a path that exists, or `None`, after which a test says "skipped" and returns.
//! Fails:  never.

use std::path::PathBuf;

/// A file or folder of `../shared/vectors`, beside the repository.
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors").join(name);
    path.exists().then_some(path)
}

/// A file of Bitcoin Core's sources, as the `libbitcoinkernel-sys` package carries them: `test/data/tx_valid.json`.
pub fn core_source(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
    registries
        .flatten()
        .map(|registry| registry.path().join("libbitcoinkernel-sys-0.4.1/bitcoin/src").join(name))
        .find(|path| path.exists())
}
