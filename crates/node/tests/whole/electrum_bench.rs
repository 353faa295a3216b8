//! The benches of Electrum servers, small, against our own.
//!
//! In:     the built binary, forged chains.
//! Out:    one test for the benches that ask running servers, one for the bench that starts them.
//! Fails:  where a bench does not find what is in the chain, or a report lacks what was measured.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use serde_json::Value as Json;

use super::program::{Folder, Running, forge, output, stderr, stdout};

fn json(path: &Path) -> Json {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Runs a bench and reads its report and its raw figures.
fn bench(name: &str, arguments: &[&str], folder: &Path) -> (Json, Json) {
    let out = folder.join(name);
    let all = [&["bench", name], arguments, &["--report", out.to_str().unwrap()]].concat();
    let done = output(&all);
    assert!(done.status.success(), "{name}: {}{}", stdout(&done), stderr(&done));
    assert!(fs::read_to_string(out.join(format!("{name}.html"))).unwrap().starts_with("<!doctype html>"));
    (json(&out.join(format!("{name}.json"))), json(&out.join(format!("{name}-raw.json"))))
}

/// All values of one contestant's figure.
fn values(report: &Json, id: &str, contestant: &str) -> Vec<f64> {
    let all = report["measures"].as_array().unwrap();
    let found = all.iter().find(|measure| measure["id"] == id && measure["contestant"] == contestant);
    let found = found.unwrap_or_else(|| panic!("no {id} of {contestant}"));
    found["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn servers_that_run_are_asked_in_turn_over_every_transport() {
    let (chain, folder) = (Folder::new("bench-blocks"), Folder::new("bench-servers"));
    forge(chain.text(), 130, 2_000);
    let (tls, ws) = (free_address(), free_address());
    let more = ["--electrum-tls-listen", &tls, "--electrum-ws-listen", &ws];
    let mut node = Running::start_with(folder.text(), chain.text(), &more);
    let report = node.wait_for(folder.text(), |report| report["phase"] == "following");
    let tcp = report["electrum"]["listen"].as_str().unwrap();
    let servers = [format!("plain=tcp://{tcp}"), format!("sealed=ssl://{tls}"), format!("framed=ws://{ws}")];
    let common = ["--server", &servers[0], "--server", &servers[1], "--server", &servers[2], "--chain", "regtest"];
    let with = |more: &[&'static str]| -> Vec<&str> { common.iter().copied().chain(more.iter().copied()).collect() };

    let drawn = ["--draw", "12", "--heights", "110-130", "--transactions", "1-40", "--passes", "2"];
    let (report, raw) = bench("addresses", &with(&drawn), &folder.0);
    assert_eq!(raw["differing"].as_array().unwrap().len(), 0);
    let scripts = raw["scripts"].as_array().unwrap();
    assert_eq!(scripts.len(), 12);
    assert!(scripts.iter().all(|script| (1..=40).contains(&script["entries"].as_u64().unwrap())), "{scripts:?}");
    let times = raw["times"].as_array().unwrap();
    assert_eq!(times.len(), 12 * 3 * 3);
    for one in times {
        assert!(one["times"]["refused"].is_null() && one["times"]["cold_us"].as_f64().unwrap() > 0.0, "{one}");
        assert_eq!(one["times"]["warm_us"].as_array().unwrap().len(), 2, "{one}");
    }
    let names: Vec<&Json> = report["contestants"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["plain", "sealed", "framed"]);

    // The same scripts from a file: a hash stands for itself.
    let list = folder.0.join("scripts");
    let hashes: Vec<&str> = scripts.iter().map(|script| script["hash"].as_str().unwrap()).collect();
    fs::write(&list, format!("# a comment\n\n{}\n", hashes.join("\n"))).unwrap();
    let server = ["--server", &servers[0], "--chain", "regtest", "--scripts", list.to_str().unwrap(), "--passes", "1"];
    let (_, from_file) = bench("addresses", &server, &folder.0.join("listed"));
    assert_eq!(from_file["scripts"], raw["scripts"]);

    let shape = ["--addresses", "70", "--transactions", "1-40", "--page", "20", "--sockets", "2", "--runs", "1"];
    let (report, raw) = bench("wallet", &with(&shape), &folder.0);
    let runs = &raw["runs"];
    for name in ["plain", "sealed", "framed"] {
        assert_eq!(values(&report, "wallet/load/later", name).len(), 1);
        let all = runs[name].as_array().unwrap();
        assert_eq!(all.len(), 2);
        for run in all {
            assert!(run["errors"].as_object().unwrap().is_empty(), "{run}");
            assert!(run["transactions"].as_u64().unwrap() > 20 && run["headers"].as_u64().unwrap() > 5, "{run}");
            assert_eq!(run["transactions"], runs["plain"][0]["transactions"]);
        }
    }

    let shape = ["--draw", "20", "--transactions", "1-40", "--clients", "6", "--slice-s", "1", "--slices", "1"];
    let (report, raw) = bench("load", &with(&shape), &folder.0);
    let slices = raw["slices"].as_array().unwrap();
    assert_eq!(slices.len(), 3);
    for slice in slices {
        assert!(slice["requests"].as_u64().unwrap() > 100, "{slice}");
        let clients = slice["clients"].as_array().unwrap();
        assert_eq!(clients.len(), 6);
        assert!(clients.iter().all(|client| client["errors"].as_object().unwrap().is_empty()), "{clients:?}");
    }
    assert!(values(&report, "load/requests", "framed")[0] > 50.0);
    node.signal("TERM");
    node.end();
}

#[test]
fn all_workloads_run_over_one_forged_chain() {
    let folder = Folder::new("bench-contest");
    let arguments = "--forge-inputs 1500 --largest 20 --histories 5 --addresses 20 --runs 1 --passes 2 \
                     --clients 3 --slice-s 1 --slices 1 --sessions 10 --notices 50 --threads 2 --memory 300 --scratch";
    let mut arguments: Vec<&str> = arguments.split_whitespace().collect();
    arguments.push(folder.text());
    let (report, raw) = bench("electrum", &arguments, &folder.0);
    assert_eq!(values(&report, "balance/1/warm", "assay").len(), 2, "two passes");
    assert_eq!(values(&report, "history/10 to 99/warm", "assay").len(), 2);
    let special: Vec<(u64, u64)> = raw["addresses"]["scripts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|script| (script["entries"].as_u64().unwrap(), script["unspent"].as_u64().unwrap()))
        .collect();
    for forged in [(1, 1), (2, 2), (5, 5), (10, 10), (20, 5), (20, 10)] {
        assert!(special.contains(&forged), "{forged:?} is not among {special:?}");
    }
    assert!(values(&report, "load/requests", "assay")[0] > 50.0);
    assert!(!values(&report, "wallet/refresh/later", "assay").is_empty());
    assert_eq!(values(&report, "notices/last", "assay").len(), 5, "every notice of five blocks came");
    assert_eq!(raw["sessions"]["memory"][0]["server"], "assay");
    assert!(raw["sessions"]["light"]["assay"]["heavy_answers"].as_u64().unwrap() > 0);
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["electrum"], "only the report is left");
    let refused = output(&["bench", "electrum", "--fulcrum", "/nonexistent"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
}
