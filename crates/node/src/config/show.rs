//! The table of settings as text: the commented file, JSON, the manual's page, and what holds now.
//!
//! In:     [`SETTINGS`](super::schema::SETTINGS).
//! Out:    text.
//! Fails:  never.

use std::fmt::Write;

use serde_json::{Map, Value as Json, json};

use super::schema::{SETTINGS, Setting};
use super::sources::{Layers, Source};
use super::value::{Kind, Value};

/// Width at which comments in the file are broken, in characters.
const COMMENT_WIDTH: usize = 100;

/// The settings file of a first start: every option, its default, and nothing in force.
pub fn file_text() -> String {
    let mut text = String::from(
        "# Settings of Assay. Every option is listed with its default; remove the # before one to set it.\n\
         # Flags win over the environment, the environment over this file. A name or value that is not known ends\n\
         # the start with one line that says so.\n",
    );
    let mut area = "";
    for setting in SETTINGS.iter().filter(|setting| setting.in_file) {
        if setting.area != area {
            area = setting.area;
            write!(text, "\n# ---- {area} ----\n").expect("a string grows");
        }
        let accepted = format!("Accepted: {}.", setting.accepted());
        write!(text, "\n").expect("a string grows");
        for line in wrap(setting.help, COMMENT_WIDTH).into_iter().chain(wrap(&accepted, COMMENT_WIDTH)) {
            writeln!(text, "# {line}").expect("a string grows");
        }
        writeln!(text, "#{} = {}", setting.name, toml_literal(setting)).expect("a string grows");
    }
    text
}

/// The default as the file writes it.
fn toml_literal(setting: &Setting) -> String {
    match setting.kind.parse(setting.default, setting.words) {
        Ok(Value::Whole(_)) => setting.default.to_owned(),
        _ => toml::Value::from(setting.default).to_string(),
    }
}

/// The table for programs: `assay config --schema`.
pub fn schema_json() -> Json {
    let settings: Vec<Json> = SETTINGS.iter().map(setting_json).collect();
    json!({ "program": "assay", "version": env!("CARGO_PKG_VERSION"), "settings": settings })
}

fn setting_json(setting: &Setting) -> Json {
    let mut object = Map::new();
    let mut put = |name: &str, value: Json| drop(object.insert(name.to_owned(), value));
    put("name", json!(setting.name));
    put("area", json!(setting.area));
    put("flag", json!(format!("--{}", setting.flag())));
    put("environment", json!(setting.environment()));
    put("file_key", if setting.in_file { json!(setting.name) } else { Json::Null });
    put("type", json!(setting.kind.name()));
    put("unit", if setting.unit.is_empty() { Json::Null } else { json!(setting.unit) });
    put("default", json!(setting.default));
    put("words", json!(setting.words));
    match setting.kind {
        Kind::Whole { min, max } => {
            put("minimum", json!(min));
            put("maximum", json!(max));
        }
        Kind::Choice(choices) => put("choices", json!(choices)),
        _ => {}
    }
    put("help", json!(setting.help));
    Json::Object(object)
}

/// The manual's page: docs/configuration.md.
pub fn manual() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         Written by `assay config --manual` from the one table of settings (`crates/node/src/config/schema.rs`); a test\n\
         keeps this page equal to it. The same table as JSON: `assay config --schema`. What holds now, and where each\n\
         value came from: `assay config`.\n\n\
         A value is taken from the first place that has it: command line, environment, `assay.toml` in the data\n\
         directory, default. The file is written on the first start with everything in it commented out.\n\
         An unknown name, a bad value or two settings that contradict each other end the start with one line and exit\n\
         code 2, before anything is touched.\n",
    );
    let mut area = "";
    for setting in SETTINGS {
        if setting.area != area {
            area = setting.area;
            write!(text, "\n## {}{}\n", area[..1].to_uppercase(), &area[1..]).expect("a string grows");
        }
        write!(
            text,
            "\n### `{}`\n\n{}\n\n| | |\n|---|---|\n| default | `{}` |\n| accepted | {} |\n| flag | `--{}` |\n| environment | `{}` |\n| file | {} |\n",
            setting.name,
            wrap(setting.help, 116).join("\n"),
            setting.default,
            setting.accepted(),
            setting.flag(),
            setting.environment(),
            if setting.in_file { format!("`{} = {}`", setting.name, toml_literal(setting)) } else { "no".to_owned() },
        )
        .expect("a string grows");
    }
    text
}

/// Settings whose values are not for every screen.
const SECRETS: [&str; 2] = ["rpc_password", "rpc_auth"];

/// What holds now: `assay config`.
pub fn in_force(layers: &Layers) -> String {
    let mut text = String::new();
    for setting in SETTINGS {
        let (value, source) = layers.get(setting.name);
        let shown = match SECRETS.contains(&setting.name) && source != Source::Default {
            true => "(not shown)".to_owned(),
            false => value_text(&value),
        };
        writeln!(text, "{} = {shown} # {source}", setting.name).expect("a string grows");
    }
    text
}

fn value_text(value: &Value) -> String {
    let quoted = |text: String| toml::Value::from(text).to_string();
    match value {
        Value::Whole(number) => number.to_string(),
        Value::Word(word) => quoted(word.to_string()),
        Value::Text(text) => quoted(text.clone()),
        Value::Path(path) => quoted(path.display().to_string()),
        Value::Address(address) => quoted(address.to_string()),
        Value::BlockHash(hash) => quoted(hash.to_string()),
    }
}

/// Breaks text at spaces so that no line is longer than `width`, where words allow it.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_file_of_a_first_start_sets_nothing_and_every_line_can_be_set() {
        let quiet: toml::Table = file_text().parse().unwrap();
        assert!(quiet.is_empty(), "{quiet:?}");
        let is_setting = |line: &str| line.starts_with('#') && !line.starts_with("# ");
        let loud: Vec<String> = file_text()
            .lines()
            .map(|line| if is_setting(line) { line[1..].to_owned() } else { line.to_owned() })
            .collect();
        let folder = std::env::temp_dir().join(format!("assay-show-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("assay.toml");
        std::fs::write(&path, loud.join("\n")).unwrap();
        let mut layers = Layers::default();
        layers.add_file(Path::new(&path)).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        for setting in SETTINGS.iter().filter(|setting| setting.in_file) {
            let (value, source) = layers.get(setting.name);
            assert_eq!(value, Layers::default().get(setting.name).0, "{}", setting.name);
            assert!(matches!(source, super::super::Source::File(..)), "{} is in the file", setting.name);
        }
    }

    #[test]
    fn the_schema_has_every_setting_with_its_range() {
        let schema = schema_json();
        let settings = schema["settings"].as_array().unwrap();
        assert_eq!(settings.len(), SETTINGS.len());
        for (row, setting) in settings.iter().zip(SETTINGS) {
            for key in ["name", "flag", "environment", "file_key", "type", "unit", "default", "words", "help"] {
                assert!(row.get(key).is_some(), "{} has {key}", setting.name);
            }
            assert_eq!(row.get("minimum").is_some(), matches!(setting.kind, Kind::Whole { .. }));
            assert_eq!(row.get("choices").is_some(), matches!(setting.kind, Kind::Choice(_)));
        }
    }

    #[test]
    fn the_manual_equals_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let page = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(page == manual(), "docs/configuration.md is old: assay config --manual > docs/configuration.md");
    }

    #[test]
    fn lines_break_at_words() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("aaaaaaa b", 3), ["aaaaaaa", "b"]);
    }
}
