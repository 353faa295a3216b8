//! How files are written: contracts, lengths, and what each layer must not know.
//!
//! In:     every Rust file.
//! Out:    one test a habit of STYLE.md and an invariant of ARCHITECTURE.md.
//! Fails:  with path and line.

use super::sources::{expect_none, rust_files};

/// Lines of a file before its tests: STYLE.md says about 500, and this is what "about" means.
const FILE_LINES_MAX: usize = 520;
/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 70;

#[test]
fn every_file_opens_with_its_contract() {
    let mut faults = Vec::new();
    for file in rust_files() {
        let opening: Vec<&str> = file.text.lines().take_while(|line| line.starts_with("//!")).collect();
        let promises = |word: &str| opening.iter().any(|line| line.starts_with(&format!("//! {word}")));
        let is_tests = file.production().is_empty();
        if opening.is_empty() || (!is_tests && ["In:", "Out:", "Fails:"].iter().any(|word| !promises(word))) {
            faults.push(file.path);
        }
    }
    expect_none(&faults, "these open without `//!` what it is, `In:`, `Out:`, `Fails:`");
}

#[test]
fn files_and_functions_stay_short() {
    let mut faults = Vec::new();
    for file in rust_files() {
        let lines: Vec<&str> = file.production().lines().collect();
        if lines.len() > FILE_LINES_MAX {
            faults.push(format!("{}: {} lines before its tests, at most {FILE_LINES_MAX}", file.path, lines.len()));
        }
        for (start, length) in functions(&lines) {
            if length > FUNCTION_LINES_MAX {
                faults.push(format!("{}:{}: {length} lines, at most {FUNCTION_LINES_MAX}", file.path, start + 1));
            }
        }
    }
    expect_none(&faults, "too long");
}

/// First line and length of each function, as rustfmt indents them.
fn functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let is_start = |line: &str| {
        let line = line.trim_start();
        let words = line.split('(').next().unwrap_or_default();
        let has_body = !line.ends_with(';') && !line.ends_with('=');
        has_body
            && !line.starts_with("//")
            && (words.starts_with("fn ") || words.contains(" fn "))
            && line.contains('(')
    };
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate().filter(|(_, line)| is_start(line)) {
        let end = format!("{}}}", " ".repeat(line.len() - line.trim_start().len()));
        if let Some(length) = lines[start..].iter().position(|line| *line == end) {
            found.push((start, length + 1));
        }
    }
    found
}

#[test]
fn functions_are_found_by_their_indentation() {
    let text = [
        "fn d() = e;",
        "impl A {",
        "    pub fn a(",
        "    ) {",
        "        x",
        "    }",
        "}",
        "fn b() {}",
        "fn c() {",
        "}",
    ];
    assert_eq!(functions(&text), [(2, 4), (7, 3), (8, 2)]);
}

#[test]
fn unsafe_code_says_why_it_is_safe() {
    let mut faults = Vec::new();
    for file in rust_files() {
        let lines: Vec<&str> = file.production().lines().collect();
        for (row, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if !code.contains("unsafe {") && !code.contains("unsafe impl") {
                continue;
            }
            if !lines[row.saturating_sub(6)..=row].iter().any(|line| line.contains("SAFETY:")) {
                faults.push(format!("{}:{}", file.path, row + 1));
            }
        }
    }
    expect_none(&faults, "`unsafe` without a SAFETY comment above");
}

#[test]
fn names_say_what_a_thing_is() {
    let empty = ["utils", "util", "helpers", "helper", "common", "misc", "manager"];
    let mut faults = Vec::new();
    for file in rust_files() {
        let parts = file.path.trim_end_matches(".rs").split('/');
        if parts.clone().any(|part| empty.contains(&part) || part.starts_with("new_") || part.ends_with("_2")) {
            faults.push(file.path.clone());
        }
    }
    expect_none(&faults, "names that say nothing");
}

/// What may not stand in the program's part of these crates, and the invariant that says so.
#[test]
fn no_layer_knows_what_it_must_not() {
    #[track_caller]
    fn check(crates: &[&str], except: &[&str], forbidden: &[&str], rule: &str) {
        let mut faults = Vec::new();
        for file in rust_files().iter().filter(|file| crates.contains(&&*file.krate) && file.below_src().is_some()) {
            if except.iter().any(|path| file.path.starts_with(path)) {
                continue;
            }
            for (row, line) in file.production().lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                let found = forbidden.iter().filter(|word| code.contains(**word));
                faults.extend(found.map(|word| format!("{}:{}: {word}", file.path, row + 1)));
            }
        }
        expect_none(&faults, rule);
    }
    let doors = ["crates/stdx/src/pool.rs", "crates/stdx/src/clock.rs", "crates/stdx/src/disk.rs"];
    let left_of_chain = ["stdx", "primitives", "consensus", "sigs", "store", "index"];
    let time = ["thread::spawn", "thread::Builder", "Instant::now", "SystemTime::now", "thread::sleep"];
    check(
        &left_of_chain,
        &doors,
        &time,
        "invariant 1: left of chain nothing starts a thread, sleeps or knows the time",
    );
    let storage = ["std::fs", " fs::", "(fs::", "stdx::disk", "File::open"];
    check(&["consensus", "sigs", "primitives"], &[], &storage, "invariant 2: rules never read storage");
    let wire = ["serde_json", "TcpStream", "TcpListener", "std::net"];
    let left_of_serve = ["stdx", "primitives", "consensus", "sigs", "store", "index", "chain"];
    check(&left_of_serve, &[], &wire, "invariant 7: nothing left of serve knows JSON or a socket");
    let peers = ["TcpStream", "TcpListener", "tokio", "serde_json", "std::fs"];
    let shell = ["crates/net/src/shell"];
    check(&["net"], &shell, &[&peers[..], &time[..]].concat(), "invariant 7: a peer has no socket, thread or clock");
    let output = ["println!", "print!(", "eprintln!", "eprint!(", "dbg!", "todo!", "unimplemented!"];
    let mut quiet = left_of_serve.to_vec();
    quiet.extend(["net", "serve"]);
    check(&quiet, &[], &output, "only the program talks to the terminal, and nothing is left to do later");
}

#[test]
fn threads_have_names() {
    let mut faults = Vec::new();
    for file in rust_files() {
        for (row, line) in file.production().lines().enumerate() {
            if line.split("//").next().unwrap_or_default().contains("thread::spawn(") {
                faults.push(format!("{}:{}: use thread::Builder and a name", file.path, row + 1));
            }
        }
    }
    expect_none(&faults, "a thread without a name");
}
