//! `assay run`: the node, until a signal.
//!
//! In:     settings.
//! Out:    exit code 0 after SIGINT or SIGTERM.
//! Fails:  with exit code 1 and a log line when it cannot go on.

use std::process::ExitCode;

use super::arguments::Flags;
use crate::Failure;
use crate::config::Config;
use crate::running::log;
use crate::running::node::{End, Node};
use crate::running::stop::StopFlag;

/// Runs until it must end.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let (config, layers) = Config::load(flags)?;
    log::set_level(config.log_level);
    if let Some(path) = &config.log_file {
        let set = log::set_file(path, config.log_rate_limit);
        set.map_err(|error| Failure::Run(format!("{} cannot be written: {error}", path.display())))?;
    }
    let stop = StopFlag::install().map_err(|error| Failure::Run(format!("no signal handlers: {error}")))?;
    until_end(Node::start(config, &layers, stop)?)
}

/// Watches over a node until it must end.
pub fn until_end(mut node: Node) -> Result<ExitCode, Failure> {
    let end = match node.wait_open() {
        Ok(_) => node.watch(|| false).expect("it watches until the end"),
        Err(end) => end,
    };
    finish(node, end)
}

/// Stops the node and makes its end an exit code; a failure is a line of the log.
pub fn finish(node: Node, end: End) -> Result<ExitCode, Failure> {
    match node.stop(end) {
        End::Asked => Ok(ExitCode::SUCCESS),
        End::Failed(why) => {
            log::error("node", "failed", &[("why", &why)]);
            Ok(ExitCode::FAILURE)
        }
    }
}
