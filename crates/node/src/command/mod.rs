//! The commands of the program, a file each.
//!
//! In:     [`arguments::Request`].
//! Out:    an exit code; answers on standard output, the log on standard error.
//! Fails:  with exit code 1 and one line, or 2 for a wrong setting.

pub mod admin;
pub mod arguments;
pub mod cli;
pub mod demo;
#[cfg(test)]
mod failed_audit;
pub mod forge;
pub mod http;
pub mod import;
mod import_peers;
pub mod reindex;
pub mod run;
pub mod status;
pub mod verify;
pub mod wallet;
