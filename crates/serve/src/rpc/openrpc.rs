//! The methods as an OpenRPC document, for programs that make clients out of it.
//!
//! In:     the table of methods.
//! Out:    JSON.
//! Fails:  never.
//! Source: OpenRPC specification 1.3.

use super::method::{Arg, HIDDEN, Kind, Method, Need};
use super::table;
use crate::json::Json;

/// The version of the specification.
const OPENRPC: &str = "1.3.2";

/// Types of JSON that an argument may have.
fn types(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Text | Kind::Hex => &["string"],
        Kind::Number => &["number"],
        Kind::Amount | Kind::TextOrNumber => &["number", "string"],
        Kind::Range => &["number", "array"],
        Kind::Bool => &["boolean"],
        Kind::Object | Kind::Options(_) => &["object"],
        Kind::Array => &["array"],
        Kind::NumberOrBool => &["number", "boolean"],
        Kind::ArrayOrObject => &["array", "object"],
        Kind::Any => &[],
    }
}

fn write_schema(arg: &Arg, json: &mut Json<'_>) {
    json.begin_object();
    match types(arg.kind) {
        [] => {}
        [one] => json.key("type").text(one),
        several => {
            json.key("type").begin_array();
            several.iter().for_each(|name| json.text(name));
            json.end_array();
        }
    }
    if arg.kind == Kind::Hex {
        json.key("pattern").text("^([0-9a-fA-F]{2})*$");
    }
    if let Kind::Options(inner) = arg.kind {
        json.key("properties").begin_object();
        for inner in inner {
            json.key_of(inner.name());
            write_schema(inner, json);
        }
        json.end_object();
    }
    if let Need::Default(value) = arg.need {
        json.key("default").raw(value.as_bytes());
    }
    json.end_object();
}

fn write_method(method: &Method, json: &mut Json<'_>) {
    json.begin_object();
    json.key("name").text(method.name);
    json.key("summary").text(method.about);
    json.key("tags").begin_array();
    json.begin_object();
    json.key("name").text(method.category);
    json.end_object();
    json.end_array();
    json.key("paramStructure").text("either");
    json.key("params").begin_array();
    for arg in method.args {
        json.begin_object();
        json.key("name").text(arg.name());
        json.key("description").text(arg.about);
        json.key("required").bool(arg.is_required());
        json.key("schema");
        write_schema(arg, json);
        json.end_object();
    }
    json.end_array();
    json.key("result").begin_object();
    json.key("name").text("result");
    json.key("description").text(method.result);
    json.key("schema").begin_object();
    json.end_object();
    json.end_object();
    json.end_object();
}

/// Writes the document.
pub fn write(json: &mut Json<'_>) {
    json.begin_object();
    json.key("openrpc").text(OPENRPC);
    json.key("info").begin_object();
    json.key("title").text("Assay JSON-RPC");
    json.key("version").text(env!("CARGO_PKG_VERSION"));
    json.end_object();
    json.key("methods").begin_array();
    table::all().filter(|method| method.category != HIDDEN).for_each(|method| write_method(method, json));
    json.end_array();
    json.end_object();
}
