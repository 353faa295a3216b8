//! Documents say what is: the map names every area and thread, the list of dependencies every dependency.
//!
//! In:     ARCHITECTURE.md, docs/, README.md, CHANGELOG.md, the sources.
//! Out:    one test a document.
//! Fails:  with what is missing, or what is named and not there.

use std::collections::BTreeSet;

use super::sources::{crates, expect_none, read, root, rust_files};

#[test]
fn the_map_names_every_area_and_no_other() {
    let page = read("ARCHITECTURE.md");
    let mut areas = BTreeSet::new();
    for file in rust_files() {
        if let Some([area, _]) = file.below_src().as_deref() {
            areas.insert(format!("{}/{area}", file.krate));
        }
    }
    let in_code = page.split('`').skip(1).step_by(2);
    let names: BTreeSet<String> = crates().into_iter().collect();
    let is_area = |text: &&str| {
        text.split_once('/').is_some_and(|(krate, area)| names.contains(krate) && !area.contains(['.', '/']))
    };
    let mapped: BTreeSet<String> = in_code.filter(is_area).map(str::to_owned).collect();
    let missing = areas.difference(&mapped).map(|area| format!("{area} is not on the map"));
    let gone = mapped.difference(&areas).map(|area| format!("{area} is on the map and not there"));
    expect_none(&missing.chain(gone).collect::<Vec<_>>(), "ARCHITECTURE.md, section Areas");
}

#[test]
fn the_map_names_every_thread() {
    let page = read("ARCHITECTURE.md");
    let threads = page.split("## Threads").nth(1).expect("ARCHITECTURE.md has a section Threads");
    let mut faults = Vec::new();
    let mut found = 0;
    for file in rust_files().iter().filter(|file| file.krate != "sim") {
        let code = file.production();
        for mark in ["Pool::new(\"", ".thread_name(\"", ".name(\"", ".name(format!(\"", "spawn_named(\""] {
            for part in code.split(mark).skip(1) {
                let name = part.split(['"', '{']).next().unwrap_or_default().trim_end_matches('-');
                found += 1;
                if !name.is_empty() && !threads.contains(&format!("`{name}")) {
                    faults.push(format!("{}: {name}", file.path));
                }
            }
        }
    }
    assert!(found >= 2, "the marks find the places where threads are made");
    expect_none(&faults, "threads that ARCHITECTURE.md does not name");
}

#[test]
fn every_outside_dependency_has_its_reason() {
    let workspace: toml::Table = read("Cargo.toml").parse().expect("a manifest");
    let listed = workspace["workspace"]["dependencies"].as_table().expect("a table");
    let outside: BTreeSet<String> =
        listed.iter().filter(|(_, value)| value.get("path").is_none()).map(|(name, _)| name.clone()).collect();
    let page = read("docs/dependencies.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let explained: BTreeSet<String> = rows.map(str::to_owned).collect();
    assert_eq!(explained, outside, "docs/dependencies.md has one row for each outside dependency");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut faults = Vec::new();
    for page in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "STYLE.md", "docs/dependencies.md"] {
        let text = read(page);
        let folder = root().join(page).parent().expect("pages lie in folders").to_owned();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if !target.is_empty() && !target.contains("://") && !folder.join(target).exists() {
                faults.push(format!("{page}: {target}"));
            }
        }
    }
    expect_none(&faults, "links to nothing");
}

#[test]
fn the_change_log_begins_with_this_version() {
    let page = read("CHANGELOG.md");
    let newest = page.lines().find_map(|line| line.strip_prefix("## ")).expect("a section").to_owned();
    assert!(newest.starts_with(env!("CARGO_PKG_VERSION")), "{newest}");
}

#[test]
fn the_readme_names_both_commands() {
    let page = read("README.md");
    for command in ["make demo", "make test", "assay run", "--electrum-listen"] {
        assert!(page.contains(command), "README.md shows `{command}`");
    }
}
