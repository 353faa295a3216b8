//! Where values come from: command line before environment before file before default.
//!
//! In:     the flags given, the environment's variables, the file's text.
//! Out:    [`Layers`]: each setting's value and where it came from.
//! Fails:  with one [`ConfigError`], one line: setting, source, reason, nearest name, what is accepted.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::schema::{ENVIRONMENT_PREFIX, SETTINGS, Setting, find};
use super::value::Value;

/// Longest settings file that is read, in bytes; ours with every comment has about 6,000.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A flag.
    CommandLine,
    /// A variable.
    Environment,
    /// A line of the file.
    File(PathBuf, usize),
    /// Nowhere.
    Default,
}

/// Why the start ends before it began; shown as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// No setting has this name.
    Unknown { written: String, source: Source, nearest: &'static str, accepted: String },
    /// The value cannot be.
    BadValue { setting: &'static str, source: Source, why: String, accepted: String },
    /// A value was given twice in one place.
    Twice { setting: &'static str, source: Source, first: String, second: String },
    /// Two settings cannot both be.
    Conflict { setting: &'static str, source: Source, other: &'static str, why: String },
    /// The file cannot be read or is no TOML.
    File { path: PathBuf, why: String },
    /// A flag without its value, or a stray word.
    Usage(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::CommandLine => f.write_str("command line"),
            Source::Environment => f.write_str("environment"),
            Source::File(path, line) => write!(f, "{} line {line}", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Unknown { written, source, nearest, accepted } => {
                write!(f, "unknown setting {written:?} ({source}); the nearest is {nearest:?}, which takes {accepted}")
            }
            ConfigError::BadValue { setting, source, why, accepted } => {
                write!(f, "setting {setting:?} ({source}): {}; accepted: {accepted}", one_line(why))
            }
            ConfigError::Twice { setting, source, first, second } => {
                write!(f, "setting {setting:?} ({source}) is given twice: {first:?} and {second:?}; keep one")
            }
            ConfigError::Conflict { setting, source, other, why } => {
                write!(f, "setting {setting:?} ({source}) conflicts with {other:?}: {}", one_line(why))
            }
            ConfigError::File { path, why } => write!(f, "settings file {}: {}", path.display(), one_line(why)),
            ConfigError::Usage(why) => f.write_str(&one_line(why)),
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The values of all places, the strongest last asked first.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    values: BTreeMap<&'static str, (Value, Source)>,
}

impl Layers {
    /// Flags and environment: what is known before the file's place is known.
    pub fn of_process(
        flags: &[(String, String)],
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Layers, ConfigError> {
        let mut layers = Layers::default();
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, text) in flags {
            let setting = known(name, &name.replace('_', "-"), "--", Source::CommandLine)?;
            if let Some(first) = seen.insert(setting.name, text) {
                let (first, second) = (first.to_owned(), text.clone());
                return Err(ConfigError::Twice { setting: setting.name, source: Source::CommandLine, first, second });
            }
            layers.put(setting, text, Source::CommandLine)?;
        }
        for (variable, text) in variables {
            let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
            let setting = known(&name.to_lowercase(), &variable, "", Source::Environment)?;
            layers.put(setting, &text, Source::Environment)?;
        }
        Ok(layers)
    }

    /// Adds the file below what is there; a file that does not exist adds nothing.
    pub fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let failed = |why: String| ConfigError::File { path: path.to_owned(), why };
        match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error.to_string())),
            Ok(facts) if facts.len() > FILE_BYTES_MAX => {
                return Err(failed(format!("{} bytes; at most {FILE_BYTES_MAX} are read", facts.len())));
            }
            Ok(_) => {}
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        self.add_text(&text, path)
    }

    fn add_text(&mut self, text: &str, path: &Path) -> Result<(), ConfigError> {
        let line_of = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
        let table = DeTable::parse(text).map_err(|error| ConfigError::File {
            path: path.to_owned(),
            why: format!("line {}: {}", error.span().map_or(1, |span| line_of(span.start)), error.message()),
        })?;
        for (key, value) in table.get_ref() {
            let source = Source::File(path.to_owned(), line_of(key.span().start));
            let setting = known(key.get_ref(), key.get_ref(), "", source.clone())?;
            if !setting.in_file {
                let why = "it decides where this file is, so it cannot be written in it".to_owned();
                let accepted = format!("--{} or {}", setting.flag(), setting.environment());
                return Err(ConfigError::BadValue { setting: setting.name, source, why, accepted });
            }
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                DeValue::Boolean(flag) => flag.to_string(),
                other => {
                    let why = format!("a {} is no value", other.type_str());
                    return Err(ConfigError::BadValue {
                        setting: setting.name,
                        source,
                        why,
                        accepted: setting.accepted(),
                    });
                }
            };
            self.put(setting, &text, source)?;
        }
        Ok(())
    }

    /// A setting's value and source; the default where nothing was said.
    pub fn get(&self, name: &str) -> (Value, Source) {
        let setting = find(name).unwrap_or_else(|| panic!("{name} is in the table"));
        let default = || {
            let value = setting.kind.parse(setting.default, setting.words);
            (value.unwrap_or_else(|why| panic!("default of {name}: {why}")), Source::Default)
        };
        self.values.get(name).cloned().unwrap_or_else(default)
    }

    /// Another default, as `assay demo` has them; it holds where nobody said anything before.
    pub fn set_default(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        let setting = find(name).unwrap_or_else(|| panic!("{name} is in the table"));
        self.put(setting, text, Source::Default)
    }

    fn put(&mut self, setting: &'static Setting, text: &str, source: Source) -> Result<(), ConfigError> {
        let value = setting.kind.parse(text, setting.words).map_err(|why| ConfigError::BadValue {
            setting: setting.name,
            source: source.clone(),
            why,
            accepted: setting.accepted(),
        })?;
        self.values.entry(setting.name).or_insert((value, source)); // stronger sources came before
        Ok(())
    }
}

fn known(name: &str, written: &str, prefix: &str, source: Source) -> Result<&'static Setting, ConfigError> {
    if let Some(setting) = find(name) {
        return Ok(setting);
    }
    let nearest = nearest(name, SETTINGS.iter().map(|setting| setting.name));
    let accepted = find(nearest).expect("nearest is one of them").accepted();
    Err(ConfigError::Unknown { written: format!("{prefix}{written}"), source, nearest, accepted })
}

/// The name that takes the fewest changes of one letter.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> &'a str {
    names.into_iter().min_by_key(|known| distance(name, known)).expect("there is a name to compare with")
}

/// Levenshtein's distance, in letters.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().take(256).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
    }

    #[test]
    fn the_stronger_source_wins() {
        let mut layers = Layers::of_process(
            &pairs(&[("threads", "2")]),
            pairs(&[("ASSAY_THREADS", "3"), ("ASSAY_CHAIN", "signet"), ("HOME", "/")]),
        )
        .unwrap();
        let path = Path::new("assay.toml");
        layers.add_text("# comment\nthreads = 4\nchain = \"main\"\nlog_level = \"debug\"\n", path).unwrap();
        assert_eq!(layers.get("threads"), (Value::Whole(2), Source::CommandLine));
        assert_eq!(layers.get("chain"), (Value::Word("signet"), Source::Environment));
        assert_eq!(layers.get("log_level"), (Value::Word("debug"), Source::File(path.to_owned(), 4)));
        assert_eq!(layers.get("sig_engine"), (Value::Word("auto"), Source::Default));
    }

    #[test]
    fn every_mistake_is_one_line_that_names_setting_source_and_range() {
        #[track_caller]
        fn check(flags: &[(&str, &str)], variables: &[(&str, &str)], file: &str, want: &str) {
            let mut result = Layers::of_process(&pairs(flags), pairs(variables));
            if let Ok(layers) = &mut result {
                result = layers.add_text(file, Path::new("assay.toml")).map(|()| Layers::default());
            }
            let line = result.unwrap_err().to_string();
            assert_eq!(line, want);
            assert!(!line.contains('\n'));
        }
        check(
            &[("treads", "2")],
            &[],
            "",
            "unknown setting \"--treads\" (command line); the nearest is \"threads\", which takes 1..=256 threads or \"auto\"",
        );
        check(
            &[],
            &[("ASSAY_LOG_LVEL", "info")],
            "",
            "unknown setting \"ASSAY_LOG_LVEL\" (environment); the nearest is \"log_level\", which takes error, warn, info, debug",
        );
        check(
            &[],
            &[],
            "\n\nthread = 2",
            "unknown setting \"thread\" (assay.toml line 3); the nearest is \"threads\", which takes 1..=256 threads or \"auto\"",
        );
        check(
            &[("threads", "0")],
            &[],
            "",
            "setting \"threads\" (command line): 0 is out of range; accepted: 1..=256 threads or \"auto\"",
        );
        check(
            &[],
            &[],
            "threads = [1]",
            "setting \"threads\" (assay.toml line 1): a array is no value; accepted: 1..=256 threads or \"auto\"",
        );
        check(
            &[("threads", "1"), ("threads", "2")],
            &[],
            "",
            "setting \"threads\" (command line) is given twice: \"1\" and \"2\"; keep one",
        );
        check(&[], &[], "threads = 1\nthreads = 2", "settings file assay.toml: line 2: duplicate key");
        check(
            &[],
            &[],
            "datadir = \"/x\"",
            "setting \"datadir\" (assay.toml line 1): it decides where this file is, so it cannot be written in it; \
             accepted: --datadir or ASSAY_DATADIR",
        );
    }

    #[test]
    fn distances() {
        for (a, b, want) in [("", "abc", 3), ("abc", "abc", 0), ("kitten", "sitting", 3), ("ab", "ba", 2)] {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }
}
