//! What a method is: its name, its arguments, what it says of itself, and the function that answers.
//!
//! In:     constants, in the tables of `calls`.
//! Out:    [`Method`], from which dispatch, help, the OpenRPC document and the command line's conversions are made.
//! Fails:  reading arguments: [`Method::positional`] and [`Method::check`] in Core's words.
//! Source: Bitcoin Core, `src/rpc/util.cpp` (`RPCMethod`, `RPCArg`), `src/rpc/server.cpp` (`transformNamedArguments`).

use super::call::Call;
use super::error::{Outcome, RpcError, code};
use super::value::{Member, Type, Value, mismatch};
use crate::json::Json;

/// What an argument may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A string of hexadecimal digits.
    Hex,
    /// A number.
    Number,
    /// An amount in bitcoin: a number, or a string that holds one.
    Amount,
    /// A number, or a list of a first and a last one.
    Range,
    /// `true` or `false`.
    Bool,
    /// An object.
    Object,
    /// An object whose members may be given as named arguments of the call.
    Options(&'static [Arg]),
    /// A list.
    Array,
    /// A string or a number: the call looks for itself.
    TextOrNumber,
    /// A number, or `true` and `false` for 1 and 0.
    NumberOrBool,
    /// A list or an object.
    ArrayOrObject,
    /// Anything.
    Any,
}

impl Kind {
    /// The type that is checked before the call runs; none where the call looks for itself.
    fn wanted(self) -> Option<Type> {
        match self {
            Kind::Text | Kind::Hex => Some(Type::Text),
            Kind::Number => Some(Type::Number),
            Kind::Bool => Some(Type::Bool),
            Kind::Object | Kind::Options(_) => Some(Type::Object),
            Kind::Array => Some(Type::Array),
            _ => None,
        }
    }

    /// The word in help texts.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Text | Kind::Hex => "string",
            Kind::Number => "numeric",
            Kind::Amount => "numeric or string",
            Kind::Range => "numeric or array",
            Kind::Bool => "boolean",
            Kind::Object | Kind::Options(_) => "json object",
            Kind::Array => "json array",
            Kind::TextOrNumber => "string or numeric",
            Kind::NumberOrBool => "numeric or boolean",
            Kind::ArrayOrObject => "json array or object",
            Kind::Any => "any",
        }
    }

    /// How the command line hands a word on: as a string, or as the JSON it is written in.
    pub fn conversion(self) -> Conversion {
        match self {
            Kind::Text | Kind::Hex => Conversion::Text,
            Kind::TextOrNumber => Conversion::JsonOrText,
            _ => Conversion::Json,
        }
    }
}

/// How a word of the command line becomes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// It is a string.
    Text,
    /// It is JSON.
    Json,
    /// It is JSON where it can be read as such, otherwise a string.
    JsonOrText,
}

/// Whether an argument must be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It must.
    Required,
    /// This value holds without it, written as JSON.
    Default(&'static str),
    /// What holds without it is not one value: this says what.
    Hint(&'static str),
    /// Nothing holds without it.
    Optional,
}

/// One argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Its name, and others it may be called by, separated by bars.
    pub names: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// Whether it must be given.
    pub need: Need,
    /// What it means.
    pub about: &'static str,
}

impl Arg {
    /// An argument that must be given.
    pub const fn required(names: &'static str, kind: Kind, about: &'static str) -> Arg {
        Arg { names, kind, need: Need::Required, about }
    }

    /// An argument with a value that holds without it.
    pub const fn default(names: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Arg {
        Arg { names, kind, need: Need::Default(default), about }
    }

    /// An argument for which something else holds without it.
    pub const fn hint(names: &'static str, kind: Kind, hint: &'static str, about: &'static str) -> Arg {
        Arg { names, kind, need: Need::Hint(hint), about }
    }

    /// An argument that may be left out.
    pub const fn optional(names: &'static str, kind: Kind, about: &'static str) -> Arg {
        Arg { names, kind, need: Need::Optional, about }
    }

    /// Its first name.
    pub fn name(&self) -> &'static str {
        self.names.split('|').next().expect("split gives one part at least")
    }

    /// True where the call needs it.
    pub fn is_required(&self) -> bool {
        self.need == Need::Required
    }

    fn is_called(&self, name: &str) -> bool {
        self.names.split('|').any(|known| known == name)
    }
}

/// One method.
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// The heading it stands under in the help.
    pub category: &'static str,
    /// Its arguments, in order.
    pub args: &'static [Arg],
    /// What it does, in sentences.
    pub about: &'static str,
    /// What it answers.
    pub result: &'static str,
    /// Writes the answer.
    pub run: fn(&Call<'_>, &mut Json<'_>) -> Outcome,
}

/// Methods in this category are not listed by `help`.
pub const HIDDEN: &str = "hidden";

impl Method {
    /// Arguments given by name, in the order of the table (Core: `transformNamedArguments`).
    pub fn positional<'a>(&self, named: &[Member<'a>], keep: &mut Vec<String>) -> Result<Vec<Given<'a>>, RpcError> {
        let twice = |name: &str| RpcError::parameter(format!("Parameter {name} specified multiple times"));
        for (at, (name, _)) in named.iter().enumerate() {
            if named[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(twice(name));
            }
        }
        let mut left: Vec<&Member<'a>> = named.iter().collect();
        let mut take = |arg: &Arg| left.iter().position(|(key, _)| arg.is_called(key)).map(|at| left.remove(at));
        let mut given: Vec<Given<'a>> = Vec::new();
        let mut first: Option<usize> = None;
        for (index, arg) in self.args.iter().enumerate() {
            let mut options: Vec<(&str, Value<'a>)> = Vec::new();
            if let Kind::Options(inner) = arg.kind {
                options.extend(inner.iter().filter_map(|inner| take(inner).map(|(key, value)| (&**key, *value))));
            }
            let direct = take(arg).map(|(key, value)| (key, *value));
            let value = match (direct, options.is_empty()) {
                (Some((key, _)), false) => {
                    let told = format!("Parameter {key} conflicts with parameter {}", options[0].0);
                    return Err(RpcError::parameter(told));
                }
                (Some((_, value)), true) => Given::Value(value),
                (None, true) => continue,
                (None, false) => {
                    keep.push(object_text(&options));
                    Given::Kept(keep.len() - 1)
                }
            };
            given.resize(index, Given::Value(Value::NULL));
            given.push(value);
            first.get_or_insert(index);
        }
        if let Some(at) = left.iter().position(|(key, value)| key == "args" && value.kind() == Type::Array) {
            let positional = left.remove(at).1.array()?;
            if let Some(first) = first.filter(|first| *first < positional.len()) {
                let name = self.args[first].names;
                let told = format!("Parameter {name} specified twice both as positional and named argument");
                return Err(RpcError::parameter(told));
            }
            let after = given.split_off(given.len().min(positional.len()));
            given = positional.into_iter().map(Given::Value).chain(after).collect();
        }
        match left.first() {
            Some((unknown, _)) => Err(RpcError::parameter(format!("Unknown named parameter {unknown}"))),
            None => Ok(given),
        }
    }

    /// Judges number and types of arguments before the call runs (Core: `RPCMethod::HandleRequest`).
    pub fn check(&self, params: &[Value<'_>]) -> Result<(), RpcError> {
        let least = self.args.iter().rposition(Arg::is_required).map_or(0, |last| last + 1);
        if params.len() < least || params.len() > self.args.len() {
            return Err(RpcError::new(code::MISC_ERROR, super::help::of(self)));
        }
        let mut wrong = Vec::new();
        for (index, (arg, value)) in self.args.iter().zip(params).enumerate() {
            let Some(want) = arg.kind.wanted() else { continue };
            let got = value.kind();
            if got != want && (got != Type::Null || arg.is_required()) {
                wrong.push(format!("    \"Position {} ({})\": \"{}\"", index + 1, arg.names, mismatch(got, want)));
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(RpcError::type_error(format!("Wrong type passed:\n{{\n{}\n}}", wrong.join(",\n"))))
    }
}

/// An argument where it is: in the request, or in what was put together out of several.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// In the request.
    Value(Value<'a>),
    /// The text at this position of what the caller keeps.
    Kept(usize),
}

fn object_text(members: &[(&str, Value<'_>)]) -> String {
    let mut text = Vec::new();
    let mut json = Json::new(&mut text);
    json.begin_object();
    for (name, value) in members {
        json.key_of(name).raw(value.raw().as_bytes());
    }
    json.end_object();
    String::from_utf8(text).expect("made of strings")
}

impl Method {
    /// True for what answers before the store is open: it looks at nothing but the process. Core answers nothing then.
    pub fn runs_while_starting(&self) -> bool {
        self.category == "control"
    }
}
