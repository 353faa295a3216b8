//! The command line: which command, with which settings.
//!
//! In:     the process's arguments.
//! Out:    [`Request`].
//! Fails:  with one line that names the argument and the nearest that exists; exit code 2.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value as Json, json};

use crate::config::schema::{self, SETTINGS};
use crate::config::{ConfigError, Source, nearest, value::Kind};

/// Settings given as flags: name and text.
pub type Flags = Vec<(String, String)>;

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Follow the chain and serve wallets.
    Run(Flags),
    /// Show all of it on a sample chain.
    Demo { flags: Flags, exit: bool, forge: ForgeWish },
    /// Write a sample chain.
    Forge { out: String, forge: ForgeWish },
    /// Ask a running node.
    Status { flags: Flags, form: StatusForm },
    /// Do something to the Electrum server of a running node.
    Admin {
        flags: Flags,
        /// What, as the status socket wants it.
        asked: Json,
        /// The answer as JSON.
        json: bool,
    },
    /// Recompute and compare.
    Verify(Flags),
    /// Rebuild coins and index.
    Reindex(Flags),
    /// Measure; the arguments are the bench's own.
    Bench(Vec<OsString>),
    /// Call a method of JSON-RPC; the arguments are those of bitcoin-cli.
    Cli(Vec<OsString>),
    /// Read a bitcoin.conf and write our settings.
    ImportConfig(String),
    /// Show the configuration.
    Config { flags: Flags, what: ConfigShow },
    /// Help or version: print and end.
    Print(String),
}

/// Which sample chain to forge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeWish {
    /// Height of the last block.
    pub blocks: u32,
    /// Inputs over the whole chain.
    pub inputs: u64,
    /// Which years' transactions, by name.
    pub mix: String,
    /// Same seed, same chain.
    pub seed: u64,
    /// Files are XORed with a key, as Bitcoin Core does since version 28.
    pub xor: bool,
    /// Blocks put into random order together.
    pub shuffle_blocks: u32,
    /// Blocks signal, and nothing is spent before that counts.
    pub signals: bool,
    /// Scripts with histories of every size.
    pub scripts: u32,
    /// The longest of them.
    pub entries_max: u32,
    /// Used addresses of a wallet.
    pub wallet: u32,
}

/// How `assay status` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusForm {
    /// For people.
    Lines,
    /// For programs.
    Json,
    /// For Prometheus.
    Metrics,
}

/// What `assay config` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigShow {
    /// Every setting's value and source.
    InForce,
    /// The table as JSON.
    Schema,
    /// The table as the manual's page.
    Manual,
    /// The commented file.
    File,
}

const COMMANDS: [&str; 16] = [
    "run",
    "demo",
    "forge",
    "status",
    "clients",
    "kick",
    "ban",
    "bans",
    "limits",
    "set",
    "verify",
    "reindex",
    "cli",
    "import-config",
    "bench",
    "config",
];

const ABOUT: &str = "Proves a Bitcoin chain from its block files, every signature by default, builds the address index in \
                     the same pass, and answers wallets over the Electrum protocol.";

const AFTER: &str = "Without a command `assay` runs the node: `assay --chain regtest` is `assay run --chain regtest`.\n\
                     `assay COMMAND --help` explains a command and its settings; docs/configuration.md lists all settings.\n\n\
                     Exit codes: 0 ended as asked, 1 failed, 2 a setting or argument is wrong, 3 verify found a difference.";

/// Reads the arguments after the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Request, ConfigError> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if !names_a_command(&arguments)? {
        arguments.insert(0, "run".into());
    }
    let command = arguments[0].to_string_lossy().into_owned();
    if command == "bench" {
        return Ok(Request::Bench(arguments.split_off(1))); // its flags are its own
    }
    if command == "cli" {
        return Ok(Request::Cli(arguments.split_off(1))); // and so are these: they are written as bitcoin-cli's
    }
    let words = std::iter::once(OsString::from("assay")).chain(arguments);
    match program().try_get_matches_from(words) {
        Ok(matches) => request(&matches),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Ok(Request::Print(error.render().to_string()))
        }
        Err(error) => Err(mistake(&command, &error)),
    }
}

fn names_a_command(arguments: &[OsString]) -> Result<bool, ConfigError> {
    let Some(first) = arguments.first().map(|word| word.to_string_lossy()) else { return Ok(false) };
    if ["-h", "--help", "-V", "--version", "help"].contains(&&*first) {
        return Ok(true);
    }
    if first.starts_with('-') || COMMANDS.contains(&&*first) {
        return Ok(!first.starts_with('-'));
    }
    let why = format!(
        "unknown command {first:?}; the nearest is {:?}; commands are {}",
        nearest(&first, COMMANDS),
        COMMANDS.join(", ")
    );
    Err(ConfigError::Usage(why))
}

fn request(matches: &ArgMatches) -> Result<Request, ConfigError> {
    let (command, matches) = matches.subcommand().expect("a command is required");
    let flags = || flags_of(matches);
    Ok(match command {
        "run" => Request::Run(flags()),
        "demo" => Request::Demo { flags: flags(), exit: matches.get_flag("exit"), forge: forge_wish(matches) },
        "forge" => Request::Forge {
            out: matches.get_one::<String>("out").expect("required").clone(),
            forge: forge_wish(matches),
        },
        "status" => {
            let asked = [("json", StatusForm::Json), ("metrics", StatusForm::Metrics)];
            let form = asked.into_iter().find(|(name, _)| matches.get_flag(name));
            Request::Status { flags: flags(), form: form.map_or(StatusForm::Lines, |(_, form)| form) }
        }
        "clients" | "kick" | "ban" | "bans" | "limits" | "set" => {
            Request::Admin { flags: flags(), asked: admin_wish(command, matches), json: matches.get_flag("json") }
        }
        "verify" => Request::Verify(flags()),
        "reindex" => Request::Reindex(flags()),
        "import-config" => Request::ImportConfig(matches.get_one::<String>("file").expect("required").clone()),
        "config" => {
            let asked = [("schema", ConfigShow::Schema), ("manual", ConfigShow::Manual), ("file", ConfigShow::File)];
            let what = asked.into_iter().find(|(name, _)| matches.get_flag(name));
            Request::Config { flags: flags(), what: what.map_or(ConfigShow::InForce, |(_, what)| what) }
        }
        other => unreachable!("{other} is not in the table of commands"),
    })
}

/// What the status socket is to do.
fn admin_wish(command: &str, matches: &ArgMatches) -> Json {
    let text = |name: &str| matches.get_one::<String>(name).expect("required").clone();
    match command {
        "kick" => json!({ "command": "kick", "who": text("who") }),
        "ban" if matches.get_flag("lift") => json!({ "command": "unban", "who": text("who") }),
        "ban" => json!({ "command": "ban", "who": text("who"), "seconds": matches.get_one::<u64>("seconds") }),
        "set" => {
            json!({ "command": "set", "key": text("key"), "value": text("value"), "keep": matches.get_flag("keep") })
        }
        command => json!({ "command": command }),
    }
}

fn forge_wish(matches: &ArgMatches) -> ForgeWish {
    ForgeWish {
        blocks: number(matches, "blocks"),
        inputs: number(matches, "inputs"),
        mix: matches.get_one::<String>("mix").expect("it has a default").clone(),
        seed: number(matches, "seed"),
        xor: matches.get_flag("xor"),
        shuffle_blocks: number(matches, "shuffle_blocks"),
        signals: matches.get_flag("signals"),
        scripts: number(matches, "scripts"),
        entries_max: number(matches, "entries_max"),
        wallet: number(matches, "wallet"),
    }
}

fn flags_of(matches: &ArgMatches) -> Flags {
    let values = |name: &'static str| matches.get_many::<String>(name).into_iter().flatten();
    SETTINGS.iter().flat_map(|s| values(s.name).map(|text| (s.name.to_owned(), text.clone()))).collect()
}

fn number<T: Copy + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> T {
    *matches.get_one::<T>(name).expect("it has a default")
}

fn program() -> Command {
    let plain = |name: &'static str, about: &'static str| Command::new(name).about(about);
    let with_settings = |name, about| plain(name, about).args(setting_arguments());
    Command::new("assay")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(AFTER)
        .subcommand_required(true)
        .subcommand(with_settings("run", "Read blocks, prove and index them, serve wallets; until SIGINT or SIGTERM"))
        .subcommand(
            with_settings(
                "demo",
                "Forge a sample chain (or take --blocks-from), prove it, and ask the server what a wallet asks",
            )
            .arg(switch("exit", "End when the answers are shown, instead of serving until Ctrl-C"))
            .args(forge_arguments()),
        )
        .subcommand(
            plain("forge", "Write a regtest chain with every standard script type as block files")
                .arg(Arg::new("out").long("out").required(true).value_name("DIR").help("Folder for the blk*.dat files"))
                .args(forge_arguments()),
        )
        .subcommand(
            with_settings("status", "Ask the node that runs on the data directory how far it is")
                .arg(switch("json", "One JSON object instead of lines"))
                .arg(switch("metrics", "Every number in Prometheus' text format").conflicts_with("json")),
        )
        .subcommands(
            admin_commands()
                .map(|command| command.arg(switch("json", "The answer as one JSON object")).args(setting_arguments())),
        )
        .subcommand(with_settings(
            "verify",
            "Recompute coins and index from the block files and compare them with the data directory",
        ))
        .subcommand(with_settings("reindex", "Throw coins and index away and build them again from the block files"))
        .subcommand(plain("cli", "Call a method of JSON-RPC with bitcoin-cli's flags; `assay cli -help`"))
        .subcommand(
            plain("import-config", "Read a bitcoin.conf and print the settings it makes, as assay.toml has them")
                .arg(Arg::new("file").required(true).value_name("FILE").help("The bitcoin.conf")),
        )
        .subcommand(plain("bench", "Measure: import, signatures, queries; `assay bench --help`"))
        .subcommand(
            with_settings("config", "Show every setting's value and where it came from")
                .arg(switch("schema", "The table of settings as JSON"))
                .arg(switch("manual", "The table of settings as docs/configuration.md"))
                .arg(switch("file", "The commented file a first start writes")),
        )
}

/// The commands for the Electrum server of a running node.
fn admin_commands() -> [Command; 6] {
    let given = |name: &'static str, value_name: &'static str, help: &'static str| {
        Arg::new(name).required(true).value_name(value_name).help(help)
    };
    let who = "A session's number, an address, a subnet such as 192.0.2.0/24, \"onion\" or \"unix\"";
    [
        Command::new("clients").about("List the sessions of the running node's Electrum server"),
        Command::new("kick").about("End sessions of the Electrum server").arg(given("who", "WHO", who)),
        Command::new("ban")
            .about("Turn an address or subnet away from the Electrum server, after a restart too")
            .arg(given("who", "SUBNET", "An address, or a subnet such as 192.0.2.0/24"))
            .arg(
                Arg::new("seconds")
                    .long("seconds")
                    .value_name("NUMBER")
                    .help("For so long only")
                    .value_parser(clap::value_parser!(u64)),
            )
            .arg(switch("lift", "Lift the ban instead").conflicts_with("seconds")),
        Command::new("bans").about("List who is turned away from the Electrum server, and until when"),
        Command::new("limits").about("Show the limits that can change while the node runs, and the bans"),
        Command::new("set")
            .about("Change a setting of the running node's Electrum server")
            .arg(given("key", "KEY", "The setting; `assay limits` lists those that can change"))
            .arg(given("value", "VALUE", "Its new value"))
            .arg(switch("keep", "Write it into the settings file too, so that it holds after a restart")),
    ]
}

fn setting_arguments() -> impl Iterator<Item = Arg> {
    SETTINGS.iter().map(|setting| {
        let value_name = match setting.kind {
            Kind::Whole { .. } => setting.unit.to_uppercase(),
            kind => kind.name().to_uppercase(),
        };
        let help = format!(
            "{}\n[default: {}] [accepted: {}] [environment: {}]",
            setting.help,
            setting.default,
            setting.accepted(),
            setting.environment()
        );
        Arg::new(setting.name)
            .long(setting.flag())
            .value_name(value_name)
            .help(StyledStr::from(help))
            .help_heading(format!("Settings: {}", setting.area))
            .action(ArgAction::Append) // twice is our own error, with both values in it
    })
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
}

fn forge_arguments() -> [Arg; 10] {
    let number = |name: &'static str, long: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(long).value_name("NUMBER").default_value(default).help(help).help_heading("Sample chain")
    };
    let blocks_min = i64::from(sim::forge::BLOCKS_MIN);
    let mixes = sim::forge::Mix::ALL.map(sim::forge::Mix::name);
    [
        number("blocks", "blocks", "400", "Height of its last block")
            .value_parser(clap::value_parser!(u32).range(blocks_min..=1_000_000)),
        number("inputs", "inputs", "200000", "Inputs to spend over the whole chain")
            .value_parser(clap::value_parser!(u64).range(1..=1_000_000_000)),
        number("mix", "mix", "history", "Which years' transactions").value_name("NAME").value_parser(mixes),
        number("seed", "seed", "1", "The chain follows from it: same seed, same chain")
            .value_parser(clap::value_parser!(u64)),
        switch("xor", "XOR the files with a key, as Bitcoin Core does since version 28").help_heading("Sample chain"),
        number("shuffle_blocks", "shuffle-blocks", "1", "Blocks put into random order together; 1 keeps the order")
            .value_parser(clap::value_parser!(u32).range(1..=1_000_000)),
        switch(
            "signals",
            "Signal CSV, segwit and taproot, and spend nothing before height 432, where they are active everywhere",
        )
        .help_heading("Sample chain"),
        number(
            "scripts",
            "scripts",
            "0",
            "Scripts with histories of every size and unspent outputs of their own, listed in scripts.txt",
        )
        .value_parser(clap::value_parser!(u32).range(0..=10_000)),
        number("entries_max", "entries-max", "1000", "Transactions of the longest of these histories")
            .value_parser(clap::value_parser!(u32).range(1..=1_000_000)),
        number("wallet", "wallet", "0", "Used addresses of a wallet, listed in wallet.txt")
            .value_parser(clap::value_parser!(u32).range(0..=10_000)),
    ]
}

/// clap's error as our one line.
fn mistake(command: &str, error: &clap::Error) -> ConfigError {
    let context = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    let argument = context(ContextKind::InvalidArg);
    let name = argument.split([' ', '=']).next().unwrap_or_default().to_owned();
    match error.kind() {
        ErrorKind::UnknownArgument if name.starts_with("--") => unknown_flag(command, &name),
        ErrorKind::InvalidValue => {
            let setting = schema::find(&name.trim_start_matches('-').replace('-', "_"));
            let accepted = setting.map(|setting| format!("; accepted: {}", setting.accepted())).unwrap_or_default();
            ConfigError::Usage(format!("{name} needs a value{accepted}"))
        }
        ErrorKind::ValueValidation | ErrorKind::MissingRequiredArgument => {
            let text = error.render().to_string();
            let told =
                text.split("\n\nUsage").next().unwrap_or_default().replace("For more information, try '--help'.", "");
            ConfigError::Usage(told.trim_start_matches("error: ").to_owned())
        }
        _ => ConfigError::Usage(format!("{argument:?} is not understood; `assay {command} --help` lists what is")),
    }
}

fn unknown_flag(command: &str, written: &str) -> ConfigError {
    let program = program();
    let arguments = program.find_subcommand(command).map(|command| command.get_arguments().collect::<Vec<_>>());
    let known = arguments.into_iter().flatten().filter_map(Arg::get_long);
    let closest = nearest(written.trim_start_matches('-'), known.chain(["help"])).to_owned();
    match schema::find(&closest.replace('-', "_")) {
        Some(setting) => ConfigError::Unknown {
            written: written.to_owned(),
            source: Source::CommandLine,
            nearest: setting.name,
            accepted: setting.accepted(),
        },
        None => ConfigError::Usage(format!("unknown flag {written:?}; the nearest is \"--{closest}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Request, String> {
        parse(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    fn flag(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    #[test]
    fn commands_and_their_settings() {
        assert_eq!(read(""), Ok(Request::Run(vec![])));
        assert_eq!(read("run"), Ok(Request::Run(vec![])));
        assert_eq!(read("--chain regtest"), Ok(Request::Run(vec![flag("chain", "regtest")])));
        assert_eq!(
            read("run --datadir=/d --electrum-listen 127.0.0.1:0"),
            Ok(Request::Run(vec![flag("datadir", "/d"), flag("electrum_listen", "127.0.0.1:0")]))
        );
        for (text, form) in [("", StatusForm::Lines), ("--json", StatusForm::Json), ("--metrics", StatusForm::Metrics)]
        {
            assert_eq!(read(&format!("status {text}")), Ok(Request::Status { flags: vec![], form }));
        }
        assert_eq!(
            read("bench import --threads 2"),
            Ok(Request::Bench(["import", "--threads", "2"].map(OsString::from).to_vec()))
        );
        assert!(matches!(
            read("demo --exit --seed 7"),
            Ok(Request::Demo { exit: true, forge: ForgeWish { seed: 7, .. }, .. })
        ));
        assert!(matches!(read("forge --out x --xor"), Ok(Request::Forge { forge: ForgeWish { xor: true, .. }, .. })));
        assert!(matches!(read("config --schema"), Ok(Request::Config { what: ConfigShow::Schema, .. })));
        assert!(matches!(read("--version"), Ok(Request::Print(text)) if text.starts_with("assay ")));
        assert!(matches!(read("--help"), Ok(Request::Print(text)) if text.contains("verify")));
        assert!(matches!(read("run --help"), Ok(Request::Print(text)) if text.contains("ASSAY_MEMORY_MIB")));
    }

    #[test]
    fn a_mistake_is_one_line_that_names_the_nearest() {
        #[track_caller]
        fn check(line: &str, want: &str) {
            let got = read(line).unwrap_err();
            assert!(got.starts_with(want), "{line}: {got}");
            assert!(!got.contains('\n'), "{got:?}");
        }
        check("rnu", "unknown command \"rnu\"; the nearest is \"run\"; commands are run, ");
        check(
            "--thread 2",
            "unknown setting \"--thread\" (command line); the nearest is \"threads\", which takes 1..=256",
        );
        check("run --memory-mb=1", "unknown setting \"--memory-mb\" (command line); the nearest is \"memory_mib\"");
        check("status --jsn", "unknown flag \"--jsn\"; the nearest is \"--json\"");
        check("run --threads", "--threads needs a value; accepted: 1..=256 threads or \"auto\"");
        check("run extra", "\"extra\" is not understood");
        check("forge --out x --blocks 0", "invalid value '0' for '--blocks <NUMBER>': 0 is not in 103..=1000000");
        check("forge", "the following required arguments were not provided: --out <DIR>");
    }

    #[test]
    fn the_table_of_commands_is_whole() {
        program().debug_assert();
        let names: Vec<String> = program().get_subcommands().map(|command| command.get_name().to_owned()).collect();
        assert_eq!(names, COMMANDS);
    }
}
