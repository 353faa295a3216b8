//! The program `assay`: reads the command line and hands over to a command.
//!
//! In:     arguments, environment, the settings file.
//! Out:    exit code 0 ended as asked, 1 failed, 2 a setting or argument is wrong, 3 `verify` found a difference.
//! Fails:  with one line on standard error that begins with `assay: `.

mod command;
mod config;
mod running;
mod wiring;

use std::io::Write;
use std::process::ExitCode;

use command::arguments::{ConfigShow, Flags, Request, parse};
use config::{Config, ConfigError, show};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Why a command ended early.
#[derive(Debug)]
enum Failure {
    /// A setting or argument is wrong.
    Config(ConfigError),
    /// Anything else, in one line.
    Run(String),
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::Config(error)
    }
}

fn main() -> ExitCode {
    running::os::make_files_private();
    let request = match parse(std::env::args_os().skip(1)) {
        Ok(request) => request,
        Err(error) => return fail(2, &error.to_string()),
    };
    match obey(request) {
        Ok(code) => code,
        Err(Failure::Config(error)) => fail(2, &error.to_string()),
        Err(Failure::Run(why)) => fail(1, &why),
    }
}

fn fail(code: u8, why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "assay: {why}");
    ExitCode::from(code)
}

fn obey(request: Request) -> Result<ExitCode, Failure> {
    match request {
        Request::Print(text) => say(text.trim_end()),
        Request::Config { flags, what } => return config(&flags, what),
        Request::Demo { flags, exit, forge } => return command::demo::demo(&flags, exit, &forge),
        Request::Forge { out, forge } => return command::forge::forge(&out, &forge),
        Request::Run(flags) => return command::run::run(&flags),
        Request::Reindex(flags) => return command::reindex::reindex(&flags),
        Request::Status { flags, form } => return command::status::status(&flags, form),
        Request::Admin { flags, asked, json } => return command::admin::admin(&flags, &asked, json),
        Request::Verify(flags) => return command::verify::verify(&flags),
        Request::Bench(arguments) => return Ok(bench::cli(arguments)),
        Request::Cli(arguments) => return Ok(command::cli::run(arguments)),
        Request::ImportConfig(file) => return command::import::import(&file),
    }
    Ok(ExitCode::SUCCESS)
}

fn config(flags: &Flags, what: ConfigShow) -> Result<ExitCode, Failure> {
    match what {
        ConfigShow::Schema => say(&format!("{:#}", show::schema_json())),
        ConfigShow::Manual => say(show::manual().trim_end()),
        ConfigShow::File => say(show::file_text().trim_end()),
        ConfigShow::InForce => say(show::in_force(&Config::load(flags)?.1).trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints to standard output; a reader that left is no failure.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
