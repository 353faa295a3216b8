//! Contestants, each in a process of its own.
//!
//! In:     a contestant's name and its settings as JSON, on the command line of `assay bench child`.
//! Out:    its result as one line of JSON on standard output.
//! Fails:  with what the contestant said on standard error and how it ended.

use std::env;
use std::process::{Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{BenchError, at, import, memory, unconfirmed};

/// Runs `contestant` in a process of its own and reads its result.
pub fn run<S: Serialize, R: DeserializeOwned>(contestant: &str, settings: &S) -> Result<R, BenchError> {
    let program = env::current_exe().map_err(at("own program"))?;
    let settings = serde_json::to_string(settings).expect("settings are texts and numbers");
    let output = Command::new(&program)
        .args(["bench", "child", contestant, &settings])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(at(program))?;
    let fail = |text: String| Err(BenchError::Child { name: contestant.to_owned(), text });
    if !output.status.success() {
        return fail(output.status.to_string());
    }
    // A library may have printed before the result; the result is the last line.
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).or_else(|error| fail(format!("result {line:?}: {error}")))
}

/// The other side: does the work, prints the result.
pub fn answer(contestant: &str, settings: &str) -> Result<(), BenchError> {
    match contestant {
        "ours" => tell(settings, import::ours::import),
        "kernel" => tell(settings, import::kernel::import),
        "hashing" => tell(settings, import::hashing::hash),
        "mempool" => tell(settings, unconfirmed::acceptance::in_library),
        "digest" => tell(settings, memory::digest),
        _ => Err(BenchError::Usage(format!("no contestant is named {contestant:?}"))),
    }
}

fn tell<S, R>(settings: &str, work: impl FnOnce(&S) -> Result<R, BenchError>) -> Result<(), BenchError>
where
    S: DeserializeOwned,
    R: Serialize,
{
    let settings =
        serde_json::from_str(settings).map_err(|error| BenchError::Usage(format!("child settings: {error}")))?;
    let result = work(&settings)?;
    println!("{}", serde_json::to_string(&result).expect("results are texts and numbers"));
    Ok(())
}
