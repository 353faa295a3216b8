//! Every method with arguments of every wrong type: an error in Core's words, and never a panic or a missing answer.
//!
//! In:     the table of methods.
//! Out:    for each argument and each type one call.

use serve::rpc::method::Kind;
use serve::rpc::table;

use crate::world::World;

/// A value of each type.
const VALUES: [(&str, &str); 6] =
    [("null", "null"), ("bool", "true"), ("number", "7"), ("string", "\"x\""), ("array", "[]"), ("object", "{}")];

/// Methods that would change the node or wait.
const LEFT_OUT: [&str; 6] =
    ["stop", "waitfornewblock", "waitforblock", "waitforblockheight", "gettxoutsetinfo", "setmocktime"];

fn wanted(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Text | Kind::Hex => Some("string"),
        Kind::Number => Some("number"),
        Kind::Bool => Some("bool"),
        Kind::Object | Kind::Options(_) => Some("object"),
        Kind::Array => Some("array"),
        _ => None,
    }
}

/// A value that fits.
fn fitting(kind: Kind) -> &'static str {
    match kind {
        Kind::Number | Kind::NumberOrBool | Kind::TextOrNumber | Kind::Range => "1",
        Kind::Amount => "0.1",
        Kind::Bool => "true",
        Kind::Object | Kind::Options(_) => "{}",
        Kind::Array | Kind::ArrayOrObject => "[]",
        _ => "\"00\"",
    }
}

#[test]
fn wrong_types_are_told_by_position_and_name() {
    let world = World::new("types");
    let mut calls = 0;
    for method in table::all().filter(|method| !LEFT_OUT.contains(&method.name)) {
        for (index, arg) in method.args.iter().enumerate() {
            for (name, value) in VALUES {
                let mut params: Vec<&str> = method.args.iter().map(|arg| fitting(arg.kind)).collect();
                params[index] = value;
                let outcome = world.call(method.name, &format!("[{}]", params.join(",")));
                calls += 1;
                let Some(want) = wanted(arg.kind).filter(|want| *want != name) else { continue };
                if name == "null" && !arg.is_required() {
                    continue;
                }
                let (code, message) = outcome.unwrap_err();
                let line = format!(
                    "Wrong type passed:\n{{\n    \"Position {} ({})\": \"JSON value of type {name} is not of expected type {want}\"\n}}",
                    index + 1,
                    arg.names
                );
                assert_eq!((code, message), (-3, line), "{} {params:?}", method.name);
            }
        }
        let (code, message) = world.call(method.name, &format!("[{}]", vec!["1"; 12].join(","))).unwrap_err();
        assert!(code == -1 && message.starts_with(method.name), "{}: {message}", method.name);
    }
    assert!(calls > 600, "{calls}");
}
