//! Help, made from the table of methods.
//!
//! In:     a method's name.
//! Out:    text for people, and the list of which arguments are strings, for tests of command lines.
//! Fails:  never; a name that does not exist is said to be unknown.
//! Source: Bitcoin Core, `src/rpc/server.cpp` (`CRPCTable::help`), `src/rpc/util.cpp` (`RPCMethod::ToString`), for the
//!         shape of the first line, which clients read.

use super::method::{HIDDEN, Kind, Method, Need};
use super::table;
use crate::json::Json;

/// The first line: name, arguments, optional ones in parentheses.
fn usage(method: &Method) -> String {
    let mut text = method.name.to_owned();
    let mut open = false;
    for arg in method.args {
        text.push_str(match (open, arg.is_required()) {
            (false, false) => " ( ",
            (true, true) => " ) ",
            _ => " ",
        });
        open = !arg.is_required();
        match arg.kind {
            Kind::Text | Kind::Hex => text.push_str(&format!("\"{}\"", arg.name())),
            Kind::Array => text.push_str(&format!("[\"{}\",...]", arg.name())),
            Kind::Object | Kind::Options(_) => text.push_str(&format!("{{\"{}\":...}}", arg.name())),
            _ => text.push_str(arg.name()),
        }
    }
    if open {
        text.push_str(" )");
    }
    text
}

/// Everything about one method.
pub fn of(method: &Method) -> String {
    let mut text = format!("{}\n\n{}\n", usage(method), method.about);
    if !method.args.is_empty() {
        text.push_str("\nArguments:\n");
    }
    for (number, arg) in method.args.iter().enumerate() {
        let need = match arg.need {
            Need::Required => "required".to_owned(),
            Need::Default(value) => format!("optional, default={}", value.trim_matches('"')),
            Need::Hint(hint) => format!("optional, default={hint}"),
            Need::Optional => "optional".to_owned(),
        };
        text.push_str(&format!("{}. {} ({}, {need}) {}\n", number + 1, arg.names, arg.kind.word(), arg.about));
        if let Kind::Options(inner) = arg.kind {
            for inner in inner {
                text.push_str(&format!("     {} ({}) {}\n", inner.names, inner.kind.word(), inner.about));
            }
        }
    }
    text.push_str(&format!("\nResult:\n{}\n", method.result));
    text
}

/// The help of one method.
pub fn command(name: &str) -> String {
    match table::find(name) {
        Some((_, method)) => of(method).trim_end().to_owned(),
        None => format!("help: unknown command: {name}"),
    }
}

/// The first line of every method, by category.
pub fn overview() -> String {
    let mut methods: Vec<&Method> = table::all().filter(|method| method.category != HIDDEN).collect();
    methods.sort_by_key(|method| (method.category, method.name));
    let mut text = String::new();
    let mut category = "";
    for method in methods {
        if method.category != category {
            category = method.category;
            let separator = if text.is_empty() { "" } else { "\n" };
            let (first, rest) = category.split_at(1);
            text.push_str(&format!("{separator}== {}{rest} ==\n", first.to_uppercase()));
        }
        text.push_str(&usage(method));
        text.push('\n');
    }
    text.trim_end().to_owned()
}

/// Writes, for every argument: method, position, name, whether it is a string.
pub fn write_conversions(json: &mut Json<'_>) {
    json.begin_array();
    let mut row = |method: &Method, position: usize, name: &str, kind: Kind| {
        json.begin_array();
        json.text(method.name);
        json.count(position);
        json.text(name);
        json.bool(matches!(kind, Kind::Text | Kind::Hex));
        json.end_array();
    };
    for method in table::all() {
        for (position, arg) in method.args.iter().enumerate() {
            arg.names.split('|').for_each(|name| row(method, position, name, arg.kind));
            if let Kind::Options(inner) = arg.kind {
                inner.iter().for_each(|inner| row(method, position, inner.name(), inner.kind));
            }
        }
    }
    json.end_array();
}
