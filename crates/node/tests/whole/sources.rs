//! The repository as text: its Rust files, its manifests, its documents.
//!
//! In:     the folder two above this crate's manifest.
//! Out:    [`SourceFile`]s with what is theirs to know: crate, area, the part before the tests.
//! Fails:  panics where a file cannot be read, as every test here would.

use std::fs;
use std::path::{Path, PathBuf};

/// One Rust file of a crate.
pub struct SourceFile {
    /// Folder name below `crates/`.
    pub krate: String,
    /// Path below the repository.
    pub path: String,
    /// All of it.
    pub text: String,
}

impl SourceFile {
    /// The part that runs in the program: what stands before the module of tests; nothing for files of tests.
    pub fn production(&self) -> &str {
        let name = self.path.rsplit('/').next().expect("a path has a last part");
        if self.path.contains("/tests/") || name == "tests.rs" || name.ends_with("_tests.rs") {
            return "";
        }
        let ends = self.text.match_indices("\n#[cfg(").map(|(at, _)| at);
        let mut ends = ends.filter(|at| opens_tests(&self.text[at + 1..]));
        &self.text[..ends.next().unwrap_or(self.text.len())]
    }

    /// The parts below `src/`: `["area", "file.rs"]`; `None` outside of `src/`.
    pub fn below_src(&self) -> Option<Vec<&str>> {
        let below = self.path.strip_prefix(&format!("crates/{}/src/", self.krate))?;
        Some(below.split('/').collect())
    }
}

/// True where attributes that say `test` stand before a module with a body.
fn opens_tests(text: &str) -> bool {
    let attributes = text.lines().take_while(|line| line.starts_with("#[")).collect::<Vec<_>>();
    let follower = text.lines().nth(attributes.len()).unwrap_or_default();
    let is_module = follower.trim_start_matches("pub ").starts_with("mod ") && follower.ends_with('{');
    is_module && attributes.iter().any(|line| line.starts_with("#[cfg(") && line.contains("test"))
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// A document or manifest.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Folder names below `crates/`, sorted.
pub fn crates() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).expect("crates/ is there").flatten();
    let folders = entries.filter(|entry| entry.path().join("Cargo.toml").is_file());
    let mut names: Vec<String> = folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Every Rust file of every crate, sorted by path.
pub fn rust_files() -> Vec<SourceFile> {
    let root = root();
    let mut files = Vec::new();
    for krate in crates() {
        let mut folders = vec![root.join("crates").join(&krate)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a folder of the repository").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "rs") {
                    let below = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
                    let text = fs::read_to_string(&path).expect("Rust files are UTF-8");
                    files.push(SourceFile { krate: krate.clone(), path: below, text });
                }
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 30, "the walk finds the sources");
    files
}

/// The manifest of a crate.
pub fn manifest(krate: &str) -> toml::Table {
    read(&format!("crates/{krate}/Cargo.toml")).parse().unwrap_or_else(|error| panic!("{krate}: {error}"))
}

/// Panics with all faults at once, one a line.
#[track_caller]
pub fn expect_none(faults: &[String], rule: &str) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}
