//! Every method, once: dispatch, help, the OpenRPC document, conversions of the command line and counters follow it.
//!
//! In:     the tables of `calls`.
//! Out:    methods by name or in order.
//! Fails:  never; tests hold the table to its own rules.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::method::Method;
use crate::calls;

const TABLES: [&[Method]; 16] = [
    calls::blocks::METHODS,
    calls::chaininfo::METHODS,
    calls::coins::METHODS,
    crate::filters::METHODS,
    calls::deployments::METHODS,
    calls::proofs::METHODS,
    calls::transactions::METHODS,
    calls::construct::METHODS,
    calls::signing::METHODS,
    calls::scripts::METHODS,
    calls::messages::METHODS,
    calls::mempool::METHODS,
    calls::submission::METHODS,
    crate::mining::methods::METHODS,
    calls::network::METHODS,
    calls::control::METHODS,
];

/// Every method, in a fixed order.
pub fn all() -> impl Iterator<Item = &'static Method> {
    TABLES.into_iter().flatten()
}

/// The method of a name, and its number in [`all`].
pub fn find(name: &str) -> Option<(usize, &'static Method)> {
    static BY_NAME: OnceLock<HashMap<&'static str, (usize, &'static Method)>> = OnceLock::new();
    let by_name =
        BY_NAME.get_or_init(|| all().enumerate().map(|(number, method)| (method.name, (number, method))).collect());
    by_name.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::method::{Kind, Need};
    use crate::rpc::value::Value;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_arguments_are_sound() {
        let mut names = HashSet::new();
        for method in all() {
            assert!(names.insert(method.name), "{} twice", method.name);
            assert!(!method.about.is_empty() && !method.result.is_empty(), "{}", method.name);
            let mut known: HashSet<&str> = HashSet::new();
            for arg in method.args {
                for name in arg.names.split('|') {
                    assert!(known.insert(name), "{}: {name} twice", method.name);
                }
                if let Need::Default(value) = arg.need {
                    assert!(Value::parse(value).is_some(), "{}: {value}", method.name);
                    // A default has the type that is asked of the argument.
                    let kind = Value::parse(value).map(Value::kind);
                    if let Kind::Text = arg.kind {
                        assert_eq!(kind, Some(crate::rpc::value::Type::Text), "{}", method.name);
                    }
                }
            }
        }
        assert!(names.len() >= 90, "{} methods", names.len());
        assert_eq!(find("getblock").map(|(_, method)| method.name), Some("getblock"));
        assert!(find("getblok").is_none());
    }

    #[test]
    fn help_has_every_method() {
        let overview = crate::rpc::help::overview();
        assert!(overview.starts_with("== Blockchain ==\ngetbestblockhash\n"));
        assert!(overview.contains("\ngetblock \"blockhash\" ( verbosity )\n"));
        assert!(
            overview.contains("\ncreaterawtransaction [\"inputs\",...] outputs ( locktime replaceable version )\n")
        );
        assert!(!overview.contains("setmocktime"));
        assert!(crate::rpc::help::command("setmocktime").starts_with("setmocktime timestamp\n\n"));
        assert_eq!(crate::rpc::help::command("x"), "help: unknown command: x");
    }
}
