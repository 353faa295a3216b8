//! The measuring kit's reports, each made small.
//!
//! In:     the built program; forged chains of some hundred inputs.
//! Out:    one test a report: it is written in every form, and holds who took part.
//! Fails:  with what is missing in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder of its own, removed when the test has passed.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("assay-measuring-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bench(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
    command.arg("bench").args(words.split(' ')).arg("--scratch").arg(folder).arg("--report").arg(folder);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn report(folder: &Path, name: &str) -> Value {
    let text = |ending: &str| std::fs::read_to_string(folder.join(format!("{name}.{ending}"))).unwrap();
    assert!(text("html").contains("<svg") && text("md").starts_with("# "));
    serde_json::from_str(&text("json")).unwrap()
}

fn names(report: &Value) -> Vec<&str> {
    report["contestants"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

/// Values of a measure of a contestant.
fn values(report: &Value, id: &str, contestant: &str) -> Vec<f64> {
    let is_it = |measure: &&Value| measure["id"] == id && measure["contestant"] == contestant;
    let measure = report["measures"].as_array().unwrap().iter().find(is_it);
    let values = measure.and_then(|measure| measure["values"].as_array());
    values.unwrap_or_else(|| panic!("{id} of {contestant}")).iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn nodes_validate_a_chain_and_who_does_not_has_no_number() {
    let folder = Folder::new("validate");
    let nodes = "assay,assay-files,kernel,btcd=/nonexistent/btcd";
    let words = format!("validate --forge-inputs 300 --runs 1 --threads 2 --memory 256 --patience 300 --node {nodes}");
    let output = bench(&folder.0, &words);
    let report = report(&folder.0, "validate");
    assert_eq!(names(&report), ["Assay", "Assay, files", "libbitcoinkernel, files"]);
    for name in names(&report) {
        let (tip_s, ended_s) = (values(&report, "time/tip", name)[0], values(&report, "time/ended", name)[0]);
        assert!(tip_s > 0.0 && ended_s >= tip_s, "{name}: {tip_s} {ended_s}");
        assert!(values(&report, "memory/peak", name)[0] > 1.0 && values(&report, "time/limit", name)[0] > 0.0);
    }
    // Blocks came over the wire for one, and from the files for the other.
    assert!(values(&report, "network/received", "Assay")[0] > 0.0);
    assert_eq!(values(&report, "network/received", "Assay, files"), [0.0]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("btcd: no number, for it did not reach the tip: /nonexistent/btcd"), "{printed}");
    assert!(printed.contains("Signatures alone would take"), "{printed}");
    let path = folder.0.join("validate.json");
    let compared = Command::new(env!("CARGO_BIN_EXE_assay")).args(["bench", "compare"]).args([&path, &path]).output();
    let compared = compared.unwrap();
    assert!(compared.status.success());
    let compared = String::from_utf8_lossy(&compared.stdout).into_owned();
    assert!(compared.contains("B is better in 0, worse in 0; 24 without a conclusion"), "{compared}");
}

#[test]
fn the_parts_of_a_node_are_measured_alone() {
    let folder = Folder::new("parts");
    bench(&folder.0, "storage --forge-inputs 300 --runs 1 --threads 2 --budgets 256,512");
    let storage = report(&folder.0, "storage");
    assert_eq!(names(&storage), ["256 MiB", "512 MiB"]);
    for name in names(&storage) {
        assert!(values(&storage, "written", name)[0] > 0.0 && values(&storage, "cuts", name)[0] >= 1.0, "{name}");
        assert_eq!(values(&storage, "open", name).len(), 5, "{name}");
        let (present, absent) = (values(&storage, "lookup/present", name), values(&storage, "lookup/absent", name));
        assert!(!present.is_empty() && present.len() == absent.len(), "{name}");
    }
    bench(&folder.0, "index --forge-inputs 300 --runs 1 --threads 2 --budgets 256");
    let index = report(&folder.0, "index");
    assert_eq!(names(&index), ["with index", "without index"]);
    assert!(values(&index, "stored", "with index") > values(&index, "stored", "without index"));
}
