//! Compiles `src/script/interpreter.cpp` against the sources that libbitcoinkernel-sys builds its library from.
//!
//! In:     the package's sources, in cargo's registry, or wherever `cargo metadata` says (a vendored copy).
//! Out:    a static library with six functions.
//! Fails:  with a sentence, where the package or a C++20 compiler is missing; the package's own build needs both too.

use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "libbitcoinkernel-sys";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/script/interpreter.cpp");
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    let folder = in_registry(&root).or_else(|| by_metadata(&root));
    let folder = folder.unwrap_or_else(|| panic!("neither cargo's registry nor cargo metadata has {PACKAGE}"));
    let sources = folder.join("bitcoin/src");
    assert!(sources.join("script/interpreter.h").is_file(), "{} holds no script/interpreter.h", sources.display());
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .file("src/script/interpreter.cpp")
        .include(sources)
        .warnings(false)
        .compile("assay_interpreter");
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// The package's folder in cargo's registry, at the version of the lock file.
fn in_registry(root: &Path) -> Option<PathBuf> {
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).ok()?;
    let (_, after) = lock.split_once(&format!("name = \"{PACKAGE}\"\nversion = \""))?;
    let (version, _) = after.split_once('"')?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
    let folders = registries.filter_map(Result::ok).map(|entry| entry.path().join(format!("{PACKAGE}-{version}")));
    folders.into_iter().find(|folder| folder.is_dir())
}

/// The package's folder as cargo resolved it.
fn by_metadata(root: &Path) -> Option<PathBuf> {
    let answer = Command::new(variable("CARGO"))
        .args(["metadata", "--format-version=1", "--filter-platform", &variable("TARGET"), "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .output()
        .ok()?;
    let text = String::from_utf8(answer.stdout).ok()?;
    let manifests = text.split('"').filter(|part| part.ends_with("Cargo.toml")).map(PathBuf::from);
    let folders = manifests.filter_map(|path| Some(path.parent()?.to_owned()));
    let is_package =
        |folder: &PathBuf| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PACKAGE));
    folders.into_iter().find(is_package)
}
