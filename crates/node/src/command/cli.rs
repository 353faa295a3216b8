//! `assay cli`: calls a method of JSON-RPC, with bitcoin-cli's flags, output and exit codes.
//!
//! In:     flags, a method and its arguments; what is missing comes from the data directory.
//! Out:    the result on standard output, errors on standard error.
//! Fails:  with exit code 1 where there is no answer, and with an error's code (without its sign) where there is one.
//! Source: Bitcoin Core, `src/bitcoin-cli.cpp`, `src/rpc/client.cpp`.

use std::ffi::OsString;
use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use primitives::network::Network;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use serve::rpc::method::Conversion;
use serve::rpc::table;

use super::http::{Endpoint, HttpError, post};
use crate::config::rpc::{COOKIE_NAME, usual_port};

/// Longest wait for an answer, in seconds; bitcoin-cli's default.
const TIMEOUT_S: u64 = 900;
/// Pause between two tries of `-rpcwait`.
const WAIT_STEP: Duration = Duration::from_secs(1);
/// The code of a node that is starting.
const IN_WARMUP: i64 = -28;

const HELP: &str = "\
Usage: assay cli [flags] METHOD [arguments...]   or   assay cli [flags] -named METHOD name=value...

  -datadir=DIR            data directory (default ~/.assay); the cookie is in its folder for the network
  -chain=NAME             main, test, testnet4, signet or regtest; or -testnet, -testnet4, -signet, -regtest
  -rpcconnect=HOST        where the node is (default 127.0.0.1), with :PORT if wished
  -rpcport=PORT           its port (default 8332, 18332, 48332, 38332 or 18443 by network)
  -rpcuser=USER  -rpcpassword=PASSWORD  -rpccookiefile=FILE  -stdinrpcpass
  -rpcclienttimeout=S     seconds to wait for an answer (default 900, 0 for any)
  -rpcwait  -rpcwaittimeout=S   wait until the node answers
  -rpcwallet=NAME         send to /wallet/NAME
  -named                  arguments have names
  -stdin                  more arguments from standard input, one a line
  -getinfo  -netinfo      short overviews";

/// What the flags say.
#[derive(Debug, Default)]
struct Wishes {
    flags: Vec<(String, String)>,
    words: Vec<String>,
}

/// Why there is nothing to show: a text, and an exit code.
struct Failed {
    text: String,
    exit: u8,
}

impl Failed {
    fn new(text: impl Into<String>) -> Failed {
        Failed { text: text.into(), exit: 1 }
    }
}

impl Wishes {
    /// Flags come before the method.
    fn parse(arguments: Vec<OsString>) -> Wishes {
        let mut wishes = Wishes::default();
        for argument in arguments {
            let word = argument.to_string_lossy().into_owned();
            if wishes.words.is_empty() && word.len() > 1 && word.starts_with('-') {
                let flag = word.trim_start_matches('-');
                let (name, value) = flag.split_once('=').unwrap_or((flag, "1"));
                wishes.flags.push((name.to_owned(), value.to_owned()));
            } else {
                wishes.words.push(word);
            }
        }
        wishes
    }

    /// The last value given, as Core takes it.
    fn get(&self, name: &str) -> Option<&str> {
        self.flags.iter().rev().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    fn is_set(&self, name: &str) -> bool {
        // The last word counts, be it "-named" or "-nonamed".
        let denied = format!("no{name}");
        let last = self.flags.iter().rev().find(|(known, _)| *known == name || *known == denied);
        last.is_some_and(|(known, value)| (*known == name) == (value != "0"))
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, Failed> {
        let wrong = |text: &str| Failed::new(format!("error: -{name}={text} is no number"));
        self.get(name).map_or(Ok(default), |text| text.parse().map_err(|_| wrong(text)))
    }

    fn network(&self) -> Result<Network, Failed> {
        for (flag, network) in [
            ("regtest", Network::Regtest),
            ("signet", Network::Signet),
            ("testnet4", Network::Testnet4),
            ("testnet", Network::Testnet3),
        ] {
            if self.is_set(flag) {
                return Ok(network);
            }
        }
        match self.get("chain").unwrap_or("main") {
            "test" => Ok(Network::Testnet3),
            name => name.parse().map_err(|_| Failed::new(format!("error: Unknown chain {name}."))),
        }
    }

    fn endpoint(&self) -> Result<Endpoint, Failed> {
        let network = self.network()?;
        let (mut host, mut port) = (self.get("rpcconnect").unwrap_or("127.0.0.1").to_owned(), usual_port(network));
        // A port behind the host, also behind an IPv6 address in brackets.
        if let Some((name, digits)) = host.clone().rsplit_once(':')
            && (!name.contains(':') || name.ends_with(']'))
        {
            port = digits
                .parse()
                .map_err(|_| Failed::new(format!("error: Invalid port provided in -rpcconnect: {host}")))?;
            host = name.to_owned();
        }
        if let Some(text) = self.get("rpcport") {
            let wrong = || Failed::new(format!("error: Invalid port provided in -rpcport: {text}"));
            port = text.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        }
        let host = host.trim_matches(['[', ']']).to_owned();
        let timeout_s = self.number("rpcclienttimeout", TIMEOUT_S)?;
        let timeout = (timeout_s > 0).then(|| Duration::from_secs(timeout_s));
        Ok(Endpoint { host, port, credentials: String::new(), timeout })
    }

    /// `user:password`, from the flags or from the cookie.
    fn credentials(&self, password: Option<&str>) -> Result<String, Failed> {
        let password = password.or(self.get("rpcpassword")).unwrap_or_default();
        if !password.is_empty() {
            return Ok(format!("{}:{password}", self.get("rpcuser").unwrap_or_default()));
        }
        let path = self.cookie_path()?;
        let read = std::fs::read_to_string(&path).map(|cookie| cookie.trim_end().to_owned());
        read.map_err(|_| {
            Failed::new(format!(
                "error: Could not locate RPC credentials. No authentication cookie could be found, and RPC password is \
                 not set. See -rpcpassword and -stdinrpcpass. Looked at {}.",
                path.display()
            ))
        })
    }

    fn cookie_path(&self) -> Result<PathBuf, Failed> {
        let home = || std::env::home_dir().unwrap_or_default().join(".assay");
        let datadir = self.get("datadir").map_or_else(home, PathBuf::from);
        let folder = datadir.join(self.network()?.name());
        Ok(self.get("rpccookiefile").map_or_else(|| folder.join(COOKIE_NAME), |file| folder.join(file)))
    }
}

/// Runs the command.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    match obey(&Wishes::parse(arguments)) {
        Ok(text) => {
            if !text.is_empty() {
                let _ = writeln!(std::io::stdout(), "{text}"); // a reader that left is no failure
            }
            ExitCode::SUCCESS
        }
        Err(Failed { text, exit }) => {
            let _ = writeln!(std::io::stderr(), "{text}");
            ExitCode::from(exit)
        }
    }
}

fn obey(wishes: &Wishes) -> Result<String, Failed> {
    if ["?", "h", "help"].iter().any(|flag| wishes.is_set(flag)) {
        return Ok(HELP.to_owned());
    }
    if wishes.is_set("version") {
        return Ok(format!("Assay RPC client version {}", env!("CARGO_PKG_VERSION")));
    }
    let mut words = wishes.words.clone();
    let mut stdin = std::io::stdin().lock();
    let mut password = None;
    if wishes.is_set("stdinrpcpass") {
        let mut line = String::new();
        let read = stdin.read_line(&mut line);
        read.map_err(|_| Failed::new("error: -stdinrpcpass specified but failed to read from standard input"))?;
        password = Some(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    if wishes.is_set("stdin") {
        let mut text = String::new();
        stdin.read_to_string(&mut text).map_err(|error| Failed::new(format!("error: {error}")))?;
        words.extend(text.lines().map(str::to_owned));
    }
    let asker = Asker { wishes, password, started: Instant::now() };
    if wishes.is_set("getinfo") {
        return get_info(&asker);
    }
    if wishes.get("netinfo").is_some() {
        return net_info(&asker);
    }
    let Some((method, arguments)) = words.split_first() else {
        return Err(Failed::new("error: too few parameters (need at least command)"));
    };
    let params = if wishes.is_set("named") { named(method, arguments)? } else { positional(method, arguments)? };
    let result = asker.ask(method, &params)?;
    Ok(shown(&result))
}

/// Asks, and waits where that is wished for.
struct Asker<'a> {
    wishes: &'a Wishes,
    password: Option<String>,
    started: Instant,
}

impl Asker<'_> {
    /// The result of a call, as the JSON it came in.
    fn ask(&self, method: &str, params: &str) -> Result<String, Failed> {
        let patience_s = self.wishes.number("rpcwaittimeout", 0)?;
        loop {
            match self.once(method, params) {
                Err((failed, true)) => {
                    let late = patience_s > 0 && self.started.elapsed().as_secs() >= patience_s;
                    if !self.wishes.is_set("rpcwait") || late {
                        return Err(failed);
                    }
                    std::thread::sleep(WAIT_STEP);
                }
                Err((failed, false)) => return Err(failed),
                Ok(result) => return Ok(result),
            }
        }
    }

    /// One try; an error says whether another one may end better.
    fn once(&self, method: &str, params: &str) -> Result<String, (Failed, bool)> {
        let endpoint = || -> Result<Endpoint, Failed> {
            let credentials = self.wishes.credentials(self.password.as_deref())?;
            Ok(Endpoint { credentials, ..self.wishes.endpoint()? })
        };
        // A cookie that is not there yet may come with the node.
        let endpoint = endpoint().map_err(|failed| (failed, true))?;
        let path = self.wishes.get("rpcwallet").map_or("/".to_owned(), |name| format!("/wallet/{name}"));
        let body = format!("{{\"method\":{},\"params\":{params},\"id\":1}}", Json::from(method));
        let (status, text) = post(&endpoint, &path, &body).map_err(|error| unreachable_node(&endpoint, &error))?;
        let fail = |text: String| (Failed::new(text), false);
        match status {
            401 => {
                let told = "error: Authorization failed: Incorrect rpcuser or rpcpassword were specified.";
                return Err(fail(told.to_owned()));
            }
            503 => return Err(fail(format!("error: Server response: {text}"))),
            400 | 404 | 500 | 200..=299 if !text.is_empty() => {}
            _ if text.is_empty() => return Err(fail(format!("error: no response from server (HTTP status {status})"))),
            _ => return Err(fail(format!("error: server returned HTTP error {status}"))),
        }
        #[derive(serde::Deserialize)]
        struct Reply<'a> {
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            error: Option<Json>,
        }
        let reply: Reply<'_> =
            serde_json::from_str(&text).map_err(|_| fail("error: couldn't parse reply from server".into()))?;
        match reply.error {
            Some(error) => {
                let code = error["code"].as_i64().unwrap_or(1);
                let text = match error["message"].as_str() {
                    Some(message) => format!("error code: {code}\nerror message:\n{message}"),
                    None => format!("error: {error}"),
                };
                // A process's exit code has eight bits.
                let exit = (code.unsigned_abs() & 0xff) as u8;
                Err((Failed { text, exit }, code == IN_WARMUP))
            }
            None => Ok(reply.result.map_or("null", RawValue::get).to_owned()),
        }
    }
}

fn unreachable_node(endpoint: &Endpoint, error: &HttpError) -> (Failed, bool) {
    let place = format!("{}:{}", endpoint.host, endpoint.port);
    match error {
        HttpError::Connect(why) => {
            let told = format!(
                "error: timeout on transient error: Could not connect to the server {place} ({why})\n\nMake sure the node is \
                 running and that you are connecting to the correct RPC port."
            );
            (Failed::new(told), true)
        }
        HttpError::Timeout => (Failed::new(format!("error: timeout waiting for {place}")), false),
        HttpError::Malformed => (Failed::new(format!("error: {place} does not answer with HTTP")), false),
    }
}

/// A word as JSON, by what the method takes at this place.
fn converted(conversion: Conversion, word: &str) -> Result<String, Failed> {
    let quoted = || Json::from(word).to_string();
    let json = serde_json::from_str::<&RawValue>(word).ok().map(|raw| raw.get().to_owned());
    match (conversion, json) {
        (Conversion::Text, _) => Ok(quoted()),
        (Conversion::Json | Conversion::JsonOrText, Some(json)) => Ok(json),
        (Conversion::JsonOrText, None) => Ok(quoted()),
        (Conversion::Json, None) => Err(Failed::new(format!("error: Error parsing JSON: {word}"))),
    }
}

fn positional(method: &str, arguments: &[String]) -> Result<String, Failed> {
    let args = table::find(method).map_or(&[][..], |(_, method)| method.args);
    let convert = |(index, word): (usize, &String)| {
        let conversion = args.get(index).map_or(Conversion::Text, |arg| arg.kind.conversion());
        converted(conversion, word)
    };
    let values = arguments.iter().enumerate().map(convert).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("[{}]", values.join(",")))
}

fn named(method: &str, arguments: &[String]) -> Result<String, Failed> {
    use serve::rpc::method::Kind;
    let args = table::find(method).map_or(&[][..], |(_, method)| method.args);
    let (mut members, mut plain) = (Vec::new(), Vec::new());
    for word in arguments {
        let Some((name, value)) = word.split_once('=') else {
            let conversion = args.get(plain.len()).map_or(Conversion::Text, |arg| arg.kind.conversion());
            plain.push(converted(conversion, word)?);
            continue;
        };
        let options = args.iter().flat_map(|arg| match arg.kind {
            Kind::Options(inner) => inner,
            _ => &[],
        });
        let arg = args.iter().chain(options).find(|arg| arg.names.split('|').any(|known| known == name));
        let value = converted(arg.map_or(Conversion::Text, |arg| arg.kind.conversion()), value)?;
        members.push(format!("{}:{value}", Json::from(name)));
    }
    if !plain.is_empty() {
        members.push(format!("\"args\":[{}]", plain.join(",")));
    }
    Ok(format!("{{{}}}", members.join(",")))
}

/// A result as people read it: strings without quotes, the rest indented, numbers as they came.
fn shown(result: &str) -> String {
    match serde_json::from_str::<Json>(result) {
        Ok(Json::Null) => String::new(),
        Ok(Json::String(text)) => text,
        _ => indented(result),
    }
}

/// JSON with line breaks and two blanks a level, as Core's `UniValue::write(2)`.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    let mut previous = ' ';
    for c in json.chars().filter(|c| *c != '\n' && *c != '\r') {
        if in_text {
            out.push(c);
            in_text = escaped || c != '"';
            escaped = !escaped && c == '\\';
            previous = 'x';
            continue;
        }
        match c {
            '{' | '[' => {
                out.push(c);
                depth += 1;
                line(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if matches!(previous, '{' | '[') {
                    out.truncate(out.trim_end_matches([' ', '\n']).len());
                }
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            '"' => {
                in_text = true;
                out.push(c);
            }
            c if c.is_whitespace() => continue,
            c => out.push(c),
        }
        previous = c;
    }
    out
}

fn call(asker: &Asker<'_>, method: &str) -> Result<Json, Failed> {
    let result = asker.ask(method, "[]")?;
    serde_json::from_str(&result).map_err(|_| Failed::new("error: couldn't parse reply from server"))
}

fn get_info(asker: &Asker<'_>) -> Result<String, Failed> {
    let chain = call(asker, "getblockchaininfo")?;
    let network = call(asker, "getnetworkinfo")?;
    let number = |value: &Json| value.to_string();
    let progress = chain["verificationprogress"].as_f64().unwrap_or(0.0) * 100.0;
    let warnings = chain["warnings"].as_array().map(|list| list.iter().filter_map(Json::as_str).collect::<Vec<_>>());
    let warnings = warnings.filter(|list| !list.is_empty()).map_or("(none)".to_owned(), |list| list.join("\n"));
    let rate = network["relayfee"].as_f64().unwrap_or(0.0);
    Ok(format!(
        "Chain: {}\nBlocks: {}\nHeaders: {}\nVerification progress: {progress:.4}%\nDifficulty: {}\n\n\
         Network: in {}, out {}, total {}\nVersion: {}\nTime offset (s): {}\n\
         Min tx relay fee rate (BTC/kvB): {rate:.8}\n\nWarnings: {warnings}",
        chain["chain"].as_str().unwrap_or("unknown"),
        number(&chain["blocks"]),
        number(&chain["headers"]),
        number(&chain["difficulty"]),
        number(&network["connections_in"]),
        number(&network["connections_out"]),
        number(&network["connections"]),
        number(&network["version"]),
        number(&network["timeoffset"]),
    ))
}

fn net_info(asker: &Asker<'_>) -> Result<String, Failed> {
    let (network, peers) = (call(asker, "getnetworkinfo")?, call(asker, "getpeerinfo")?);
    let empty = Vec::new();
    let peers = peers.as_array().unwrap_or(&empty);
    let count = |name: &str, inbound: bool| {
        let of_kind = |peer: &&Json| peer["network"] == json!(name) && peer["inbound"] == json!(inbound);
        peers.iter().filter(of_kind).count()
    };
    let mut text = format!("{} - server {}\n", network["subversion"].as_str().unwrap_or_default(), network["version"]);
    text.push_str(&format!("\n{:<10}{:>6}{:>6}{:>6}\n", "", "in", "out", "total"));
    let mut total = (0, 0);
    for name in ["ipv4", "ipv6", "onion", "i2p", "cjdns", "not_publicly_routable"] {
        let (inbound, outbound) = (count(name, true), count(name, false));
        total = (total.0 + inbound, total.1 + outbound);
        if inbound + outbound > 0 {
            text.push_str(&format!("{name:<10}{inbound:>6}{outbound:>6}{:>6}\n", inbound + outbound));
        }
    }
    text.push_str(&format!("{:<10}{:>6}{:>6}{:>6}", "total", total.0, total.1, total.0 + total.1));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(line: &str) -> Wishes {
        Wishes::parse(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn flags_stand_before_the_method() {
        let wishes = wishes("-regtest --rpcport=1234 -named getblock -x blockhash=00");
        assert!(wishes.is_set("regtest") && wishes.is_set("named") && !wishes.is_set("x"));
        assert_eq!(wishes.words, ["getblock", "-x", "blockhash=00"]);
        let endpoint = wishes.endpoint().ok().unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port), ("127.0.0.1", 1234));
    }

    #[test]
    fn ports_and_hosts() {
        #[track_caller]
        fn check(line: &str, host: &str, port: u16) {
            let endpoint = wishes(line).endpoint().ok().unwrap();
            assert_eq!((endpoint.host.as_str(), endpoint.port), (host, port), "{line}");
        }
        check("x", "127.0.0.1", 8332);
        check("-chain=test x", "127.0.0.1", 18_332);
        check("-testnet4 x", "127.0.0.1", 48_332);
        check("-rpcconnect=node:99 -signet x", "node", 99);
        check("-rpcconnect=[::1]:99 x", "::1", 99);
        check("-rpcconnect=::1 x", "::1", 8332);
        assert!(wishes("-rpcport=0 x").endpoint().is_err() && wishes("-chain=moon x").endpoint().is_err());
    }

    #[test]
    fn words_become_what_the_method_takes() {
        let words = |line: &str| line.split('|').map(str::to_owned).collect::<Vec<_>>();
        let positional = |method: &str, line: &str| positional(method, &words(line)).map_err(|failed| failed.text);
        assert_eq!(positional("getblockhash", "100").unwrap(), "[100]");
        assert_eq!(positional("getblock", "00ff|true").unwrap(), "[\"00ff\",true]");
        assert_eq!(positional("getblockstats", "1000|[\"txs\"]").unwrap(), "[1000,[\"txs\"]]");
        assert_eq!(positional("getblockstats", "00ffx").unwrap(), "[\"00ffx\"]");
        assert_eq!(positional("sendrawtransaction", "00|0.10").unwrap(), "[\"00\",0.10]");
        assert_eq!(positional("echo", "1|a").unwrap(), "[1,\"a\"]");
        assert_eq!(positional("unknown", "1").unwrap(), "[\"1\"]");
        assert_eq!(positional("getblockhash", "x").unwrap_err(), "error: Error parsing JSON: x");
        let named = named("getblock", &words("verbosity=2|00ff")).map_err(|failed| failed.text);
        assert_eq!(named.unwrap(), "{\"verbosity\":2,\"args\":[\"00ff\"]}");
    }

    #[test]
    fn results_are_shown_as_bitcoin_cli_shows_them() {
        assert_eq!(shown("null"), "");
        assert_eq!(shown("\"a\\nb\""), "a\nb");
        assert_eq!(shown("1.50000000"), "1.50000000");
        assert_eq!(shown("[]"), "[\n]");
        assert_eq!(
            shown("{\"a\":{},\"b\":[1,\"x,{\\\"\"]}"),
            "{\n  \"a\": {\n  },\n  \"b\": [\n    1,\n    \"x,{\\\"\"\n  ]\n}"
        );
    }
}
