//! What an operator does to the Electrum server while it runs, as the status socket hears it.
//!
//! In:     a JSON object: `{"command": "clients"}`, `kick`, `ban`, `unban`, `limits`, `set`.
//! Out:    a JSON object with the answer, or with `error`.
//! Fails:  with a text under `error` that names what would be accepted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};
use serve::electrum::Env;
use serve::kept;
use serve::rpc::auth::Subnet;
use serve::shares::ShareLimits;
use serve::shares::bans::{self, Ban, shown};
use serve::transport::listen::Origin;
use stdx::clock::utc;

use crate::config::schema::{self, Setting};
use crate::config::value::Value;

/// The settings that may change while the node runs: all of them the Electrum server's.
pub const CHANGEABLE: [&str; 6] = [
    "electrum_sessions_max",
    "electrum_sessions_address_max",
    "electrum_work_soft_s",
    "electrum_work_hard_s",
    "electrum_work_forgiven_ms",
    "electrum_exempt",
];

/// The operator's hands.
pub struct Admin {
    env: Arc<Env>,
    settings_file: PathBuf,
    bans_file: PathBuf,
    /// When the server started, after 1970.
    started: Duration,
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Admin {
    /// Over a running server; changes to be kept go to the first file, bans to the other.
    pub fn new(env: Arc<Env>, settings_file: PathBuf, bans_file: PathBuf) -> Admin {
        let started = since_1970().saturating_sub(env.now());
        Admin { env, settings_file, bans_file, started }
    }

    /// Bans again whom the file says.
    pub fn restore_bans(&self) -> Result<(), String> {
        let told = |why: String| format!("{}: {why}", self.bans_file.display());
        let text = kept::read(&self.bans_file).map_err(|error| told(error.to_string()))?;
        for ban in bans::read(&text.unwrap_or_default(), since_1970().as_secs()).map_err(told)? {
            let end = ban.until_s.map(|until_s| Duration::from_secs(until_s).saturating_sub(self.started));
            self.env.shares.ban(ban.subnet, end);
        }
        Ok(())
    }

    /// A time after the start as seconds since 1970, the same whenever it is asked for.
    fn until_s(&self, end: Duration) -> u64 {
        self.started.saturating_add(end).saturating_add(Duration::from_millis(500)).as_secs()
    }

    /// Those that hold now.
    fn bans_now(&self) -> Vec<Ban> {
        let ban = |(subnet, end): (Subnet, Option<Duration>)| Ban { subnet, until_s: end.map(|end| self.until_s(end)) };
        self.env.shares.bans(self.env.now()).into_iter().map(ban).collect()
    }

    fn keep_bans(&self) -> Result<(), String> {
        let text = bans::text(&self.bans_now());
        kept::write_whole(&self.bans_file, text.as_bytes(), 0o600)
            .map_err(|error| format!("it holds until the node stops: {}: {error}", self.bans_file.display()))
    }

    /// Obeys a command.
    pub fn answer(&self, asked: &Json) -> Json {
        let word = |name: &str| asked[name].as_str().unwrap_or_default();
        let answer = match word("command") {
            "clients" => Ok(json!({ "clients": self.env.shares.clients(self.env.now()) })),
            "kick" => self.kick(word("who")),
            "ban" => self.ban(word("who"), asked["seconds"].as_u64()),
            "unban" => self.unban(word("who")),
            "bans" => Ok(json!({ "bans": self.listed() })),
            "limits" => Ok(self.limits()),
            "set" => self.set(word("key"), word("value"), asked["keep"].as_bool() == Some(true)),
            other => Err(format!("{other:?} is none of clients, kick, ban, unban, bans, limits, set")),
        };
        answer.unwrap_or_else(|error| json!({ "error": error }))
    }

    fn kick(&self, who: &str) -> Result<Json, String> {
        let shares = &self.env.shares;
        let kicked = match (who.parse::<u64>(), who) {
            (Ok(id), _) => shares.kick(|client| client.id == id),
            (_, "onion") => shares.kick(|client| client.origin() == Origin::Onion),
            (_, "unix") => shares.kick(|client| client.origin() == Origin::Unix),
            _ => {
                let subnet = subnet(who).map_err(|_| {
                    format!(
                        "{who:?} is no number of a session, no address or subnet, and neither \"onion\" nor \"unix\""
                    )
                })?;
                let is_there = |origin| matches!(origin, Origin::Address(address) if subnet.contains(&address));
                shares.kick(|client| is_there(client.origin()))
            }
        };
        Ok(json!({ "kicked": kicked }))
    }

    fn ban(&self, who: &str, seconds: Option<u64>) -> Result<Json, String> {
        let subnet = subnet(who)?;
        let end = seconds.map(|seconds| self.env.now().saturating_add(Duration::from_secs(seconds)));
        if !self.env.shares.ban(subnet, end) {
            return Err("there are 10,000 bans already".to_owned());
        }
        self.keep_bans()?;
        Ok(json!({ "banned": shown(&subnet), "until": until(end.map(|end| self.until_s(end))) }))
    }

    fn unban(&self, who: &str) -> Result<Json, String> {
        let lifted = self.env.shares.unban(subnet(who)?);
        if lifted {
            self.keep_bans()?;
        }
        Ok(json!({ "lifted": lifted }))
    }

    /// Every ban, for people.
    fn listed(&self) -> Vec<Json> {
        let now_s = since_1970().as_secs();
        let row = |ban: Ban| {
            let left_s = ban.until_s.map(|until_s| until_s.saturating_sub(now_s));
            json!({ "who": shown(&ban.subnet), "until": until(ban.until_s), "seconds_left": left_s })
        };
        self.bans_now().into_iter().map(row).collect()
    }

    fn limits(&self) -> Json {
        let limits = self.env.shares.limits().clone();
        let now: serde_json::Map<String, Json> =
            CHANGEABLE.iter().map(|name| ((*name).to_owned(), in_force(&limits, name))).collect();
        json!({ "limits": now, "bans": self.listed() })
    }

    fn set(&self, key: &str, text: &str, keep: bool) -> Result<Json, String> {
        let setting = schema::find(key).filter(|setting| CHANGEABLE.contains(&setting.name));
        let setting = setting.ok_or_else(|| {
            format!("{key:?} cannot change while the node runs; these can: {}", CHANGEABLE.join(", "))
        })?;
        let told = |why: String| format!("{key}: {why}; accepted: {}", setting.accepted());
        let value = setting.kind.parse(text, setting.words).map_err(told)?;
        let mut limits = self.env.shares.limits().clone();
        apply(&mut limits, setting, &value).map_err(told)?;
        if keep {
            keep_in_file(&self.settings_file, setting.name, &value)
                .map_err(|error| format!("{}: {error}; nothing was changed", self.settings_file.display()))?;
        }
        self.env.shares.change_limits(|now| *now = limits);
        Ok(json!({ "key": key, "value": text, "kept": keep }))
    }
}

fn subnet(text: &str) -> Result<Subnet, String> {
    text.parse()
}

/// The end of a ban, for people.
fn until(until_s: Option<u64>) -> String {
    until_s.map_or_else(|| "it is lifted".to_owned(), utc)
}

/// A limit as one would write it in the settings.
fn in_force(limits: &ShareLimits, name: &str) -> Json {
    match name {
        "electrum_sessions_max" => limits.sessions_max.into(),
        "electrum_sessions_address_max" => limits.sessions_address_max.into(),
        "electrum_work_soft_s" => limits.soft.as_secs().into(),
        "electrum_work_hard_s" => limits.hard.as_secs().into(),
        "electrum_work_forgiven_ms" => limits.forgiven_ms_per_s.into(),
        _ => limits.exempt.iter().map(shown).collect::<Vec<String>>().join(" ").into(),
    }
}

/// Puts a checked value in its place.
fn apply(limits: &mut ShareLimits, setting: &Setting, value: &Value) -> Result<(), String> {
    let number = if let Value::Whole(number) = value { *number } else { 0 };
    match setting.name {
        "electrum_sessions_max" => limits.sessions_max = number as usize,
        "electrum_sessions_address_max" => limits.sessions_address_max = number as usize,
        "electrum_work_soft_s" => limits.soft = Duration::from_secs(number),
        "electrum_work_hard_s" => limits.hard = Duration::from_secs(number),
        "electrum_work_forgiven_ms" => limits.forgiven_ms_per_s = number,
        _ => {
            let Value::Text(text) = value else { return Err("no text".to_owned()) };
            limits.exempt = text.split_whitespace().map(subnet).collect::<Result<_, _>>()?;
        }
    }
    match limits.soft < limits.hard {
        true => Ok(()),
        false => Err("electrum_work_soft_s is less than electrum_work_hard_s".to_owned()),
    }
}

/// Writes a setting into the file: in its line, behind the line that shows its default, or at the end.
fn keep_in_file(path: &Path, name: &str, value: &Value) -> std::io::Result<()> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    kept::write_whole(path, with_setting(&text, name, value).as_bytes(), 0o600)
}

fn with_setting(text: &str, name: &str, value: &Value) -> String {
    let literal = match value {
        Value::Whole(number) => number.to_string(),
        Value::Text(text) => toml::Value::from(text.as_str()).to_string(),
        _ => String::new(),
    };
    let line = format!("{name} = {literal}");
    let is_of = |line: &str| line.split_once('=').is_some_and(|(key, _)| key.trim() == name);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let set = lines.iter().position(|line| is_of(line));
    let shown = lines.iter().position(|line| line.strip_prefix('#').is_some_and(is_of));
    match (set, shown) {
        (Some(at), _) => lines[at] = line,
        (None, Some(at)) => lines.insert(at + 1, line),
        (None, None) => lines.push(line),
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use primitives::{Network, Params};
    use serve::confirmed::Confirmed;
    use serve::electrum::Config;

    use super::*;

    fn admin(name: &str) -> Admin {
        let params = Params::of(Network::Regtest);
        let config = Config::new("127.0.0.1:0".parse().unwrap(), params.clone());
        let folder = std::env::temp_dir().join(format!("assay-admin-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let env = Arc::new(Env::new(config, Arc::new(Confirmed::new(&params))));
        Admin::new(env, folder.join("assay.toml"), folder.join("electrum-bans.jsonl"))
    }

    #[test]
    fn every_changeable_setting_changes_and_says_what_it_is() {
        let admin = admin("set");
        for (key, text) in [
            ("electrum_sessions_max", "17"),
            ("electrum_sessions_address_max", "18"),
            ("electrum_work_hard_s", "20"),
            ("electrum_work_soft_s", "19"),
            ("electrum_work_forgiven_ms", "21"),
            ("electrum_exempt", "10.0.0.0/8 ::1"),
        ] {
            let before = admin.answer(&json!({ "command": "limits" }));
            if key == "electrum_work_hard_s" {
                let refused = admin.answer(&json!({ "command": "set", "key": key, "value": text }));
                assert!(refused["error"].as_str().unwrap().contains("less than"), "{refused}");
                admin.answer(&json!({ "command": "set", "key": "electrum_work_soft_s", "value": "1" }));
            }
            let answer = admin.answer(&json!({ "command": "set", "key": key, "value": text }));
            assert_eq!(answer["kept"], false, "{answer}");
            let after = admin.answer(&json!({ "command": "limits" }));
            assert_ne!(before["limits"][key], after["limits"][key]);
            assert_eq!(after["limits"][key].to_string().trim_matches('"'), text);
        }
        assert!(!admin.settings_file.exists(), "nothing was to be kept");
        for (asked, word) in [
            (json!({ "command": "set", "key": "electrum_sessions_max", "value": "0" }), "accepted: 1..="),
            (json!({ "command": "set", "key": "electrum_exempt", "value": "x" }), "no address"),
            (json!({ "command": "set", "key": "datadir", "value": "/" }), "cannot change"),
            (json!({ "command": "kick", "who": "nobody" }), "no number of a session"),
            (json!({ "command": "ban", "who": "" }), "no address"),
            (json!({ "command": "dance" }), "none of clients"),
            (json!([1]), "none of clients"),
        ] {
            let answer = admin.answer(&asked);
            assert!(answer["error"].as_str().unwrap().contains(word), "{answer}");
        }
        let _ = std::fs::remove_dir_all(admin.settings_file.parent().unwrap());
    }

    #[test]
    fn bans_are_listed_lifted_and_outlast_a_restart() {
        let admin = admin("ban");
        assert_eq!(admin.restore_bans(), Ok(()), "none so far");
        assert_eq!(
            admin.answer(&json!({ "command": "ban", "who": "192.0.2.7", "seconds": 60 }))["banned"],
            "192.0.2.7"
        );
        admin.answer(&json!({ "command": "ban", "who": "2001:db8::/32" }));
        let bans = admin.answer(&json!({ "command": "limits" }))["bans"].clone();
        assert!(bans[0]["seconds_left"].as_u64().unwrap() >= 58, "{bans}");
        assert_eq!((&bans[1]["who"], &bans[1]["seconds_left"]), (&json!("2001:db8::/32"), &Json::Null));
        assert_eq!(bans[1]["until"], "it is lifted");
        let year = bans[0]["until"].as_str().unwrap();
        assert!(year.starts_with("20") && year.ends_with('Z'), "{year}");
        // Another start of the node: both hold, as long as they did.
        let again = self::admin("ban");
        again.restore_bans().unwrap();
        let after = again.answer(&json!({ "command": "bans" }))["bans"].clone();
        assert_eq!(after[0]["until"], bans[0]["until"]);
        assert_eq!((&after[1], after.as_array().unwrap().len()), (&bans[1], 2));
        assert_eq!(admin.answer(&json!({ "command": "unban", "who": "192.0.2.7" }))["lifted"], true);
        assert!(!std::fs::read_to_string(&admin.bans_file).unwrap().contains("192.0.2.7"));
        std::fs::write(&admin.bans_file, "torn").unwrap();
        assert!(again.restore_bans().unwrap_err().contains("line 1"));
        assert_eq!(admin.answer(&json!({ "command": "kick", "who": "7" }))["kicked"], 0);
        let _ = std::fs::remove_dir_all(admin.settings_file.parent().unwrap());
    }

    #[test]
    fn what_is_kept_stands_where_one_looks_for_it() {
        #[track_caller]
        fn check(text: &str, want: &str) {
            assert_eq!(with_setting(text, "electrum_sessions_max", &Value::Whole(7)), want);
        }
        check("", "electrum_sessions_max = 7\n");
        check("a = 1\nelectrum_sessions_max=3\nb = 2\n", "a = 1\nelectrum_sessions_max = 7\nb = 2\n");
        check(
            "#electrum_sessions_max = 1000\n\nb = 2",
            "#electrum_sessions_max = 1000\nelectrum_sessions_max = 7\n\nb = 2\n",
        );
        check(
            "#electrum_sessions_max = 1\nelectrum_sessions_max = 2\n",
            "#electrum_sessions_max = 1\nelectrum_sessions_max = 7\n",
        );
        let quoted = with_setting("", "electrum_exempt", &Value::Text("10.0.0.0/8 \"".to_owned()));
        assert_eq!(quoted.parse::<toml::Table>().unwrap()["electrum_exempt"].as_str(), Some("10.0.0.0/8 \""));
    }
}
