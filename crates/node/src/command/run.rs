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
    begin_log(&config)?;
    let stop = StopFlag::install().map_err(|error| Failure::Run(format!("no signal handlers: {error}")))?;
    until_end(Node::start(config, &layers, stop)?)
}

/// The log as the settings want it.
pub fn begin_log(config: &Config) -> Result<(), Failure> {
    log::set_level(config.log_level);
    let Some(path) = &config.log_file else { return Ok(()) };
    let told = |error| Failure::Run(format!("{} cannot be written: {error}", path.display()));
    log::set_file(path, config.log_messages, config.log_rate_limit).map_err(told)
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
