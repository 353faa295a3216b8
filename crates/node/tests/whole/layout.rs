//! Where things are: depth, folder sizes, and the arrows between crates.
//!
//! In:     paths, manifests, and the table "Crates" of ARCHITECTURE.md.
//! Out:    one test a rule of the map.
//! Fails:  with the path or the arrow that should not be.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::{crates, expect_none, manifest, read, rust_files};

/// Most Rust files of one folder.
const FOLDER_FILES_MAX: usize = 15;

#[test]
fn code_is_at_most_one_area_deep() {
    let too_deep = |parts: Vec<&str>| parts.len() > 2;
    let faults: Vec<String> = rust_files()
        .iter()
        .filter(|file| file.below_src().is_some_and(too_deep))
        .map(|file| file.path.clone())
        .collect();
    expect_none(&faults, "deeper than crates/<crate>/src/<area>/<file>.rs");
}

#[test]
fn folders_can_be_looked_through() {
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for file in rust_files() {
        let folder = file.path.rsplit_once('/').expect("files lie in folders").0.to_owned();
        *folders.entry(folder).or_default() += 1;
    }
    let crowded = folders.iter().filter(|(_, count)| **count > FOLDER_FILES_MAX);
    let faults: Vec<String> = crowded.map(|(folder, count)| format!("{folder}: {count} files")).collect();
    expect_none(&faults, "a folder holds at most 15 files");
}

/// The table `| crate | uses | ...` of ARCHITECTURE.md, in its order, which is left to right.
fn allowed() -> Vec<(String, BTreeSet<String>)> {
    let page = read("ARCHITECTURE.md");
    let section = page.split("## Crates").nth(1).expect("ARCHITECTURE.md has a section Crates");
    let section = section.split("\n## ").next().expect("split gives one part at least");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let code = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    let parse = |row: &str| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        (cells[1].trim_matches('`').to_owned(), code(cells[2]))
    };
    rows.map(parse).collect()
}

#[test]
fn arrows_between_crates_point_left_and_are_on_the_map() {
    let allowed = allowed();
    let mapped: BTreeSet<String> = allowed.iter().map(|(krate, _)| krate.clone()).collect();
    assert_eq!(mapped, crates().into_iter().collect(), "the table in ARCHITECTURE.md lists the crates there are");
    let mut faults = Vec::new();
    let mut left = BTreeSet::new();
    for (krate, uses) in &allowed {
        faults.extend(uses.difference(&left).map(|used| format!("{krate} -> {used}: not to its left")));
        left.insert(krate.clone());
        let manifest = manifest(krate);
        let names = manifest.get("dependencies").and_then(|table| table.as_table()).into_iter().flatten();
        let own: BTreeSet<String> = names.map(|(name, _)| name.clone()).filter(|name| mapped.contains(name)).collect();
        faults.extend(own.difference(uses).map(|used| format!("{krate} -> {used}: not in the table")));
    }
    expect_none(&faults, "arrows that should not be");
}

#[test]
fn dependencies_are_taken_from_the_one_list() {
    let mut faults = Vec::new();
    for krate in crates() {
        let manifest = manifest(&krate);
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, value) in manifest.get(section).and_then(|table| table.as_table()).into_iter().flatten() {
                if value.get("workspace").and_then(toml::Value::as_bool) != Some(true) {
                    faults.push(format!("{krate}: {name}"));
                }
            }
        }
    }
    expect_none(&faults, "dependencies that do not say workspace = true");
}
