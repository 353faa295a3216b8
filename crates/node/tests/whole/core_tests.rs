//! A few of Bitcoin Core's functional tests, where a checkout of Core is at hand.
//!
//! In:     CORE_TESTS, the checkout; python3.
//! Out:    the quick tests of `tools/core-tests/run --fast` pass with the built program in bitcoind's place, and the
//!         inventory names every test that Core has.
//! Fails:  with the output of the run.

use std::process::Command;

use super::sources::root;

#[test]
fn quick_tests_of_core_pass() {
    let Some(checkout) = std::env::var_os("CORE_TESTS") else {
        println!("skipped: CORE_TESTS names no checkout of Bitcoin Core");
        return;
    };
    let mut run = Command::new(root().join("tools/core-tests/run"));
    run.arg("--core").arg(checkout).args(["--assay", env!("CARGO_BIN_EXE_assay"), "--fast", "--limit-s", "300"]);
    let output = run.output().expect("python3 is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    println!("{text}");
}

#[test]
fn the_inventory_gives_a_reason_for_what_it_leaves_out() {
    let text = super::sources::read("tools/core-tests/inventory.txt");
    let rows: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!(rows.len() > 250, "{} rows", rows.len());
    for row in rows {
        let parts: Vec<&str> = row.split(" | ").collect();
        let is_whole = matches!(parts[..], [_, "passes"]) || matches!(parts[..], [_, "skipped", why] if why.len() > 3);
        assert!(is_whole, "{row:?}");
    }
}
