//! `${NAME}` in arguments where the entry's own `env` has `NAME`.
//!
//! `"args": ["--header", "Authorization:${AUTH}"], "env": {"AUTH": "Bearer …"}` is how people keep blanks out of arguments:
//! the server, or its client, fills in what `env` says. Here a variable is one of the environment that Evergate runs in,
//! so the argument gets whatever text `env` has for it.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::masked::Masked;
use super::pieces;
use crate::import::Server;

type Entry = IndexMap<&'static str, Value>;

/// What `env` has a say in.
const FILLED: &[&str] = &["command", "args", "cwd"];

/// Forgets variables that only seemed to be wanted, and finds those of `env` that are secrets because of where an argument
/// uses them.
pub(super) fn prepare(server: &mut Server) -> Vec<String> {
    let Some(Value::Object(own)) = server.entry.get("env").cloned() else { return Vec::new() };
    let mut hidden = Vec::new();
    let args = server.entry.get("args").and_then(Value::as_array).into_iter().flatten();
    let args: Vec<&str> = args.filter_map(Value::as_str).collect();
    for (n, arg) in args.iter().enumerate() {
        let before = n.checked_sub(1).map(|n| args[n]);
        let before = before.filter(|before| pieces::is_option(None, before));
        let found = |text: &str| pieces::of_argument(before, &Masked::of(text).text).len();
        for name in own.keys() {
            let only: Map<_, _> = own.iter().filter(|(n, _)| *n == name).map(owned).collect();
            let with = filled(arg, &only);
            if with != *arg && found(&with) > found(arg) {
                hidden.push(name.clone());
            }
        }
    }
    let mut rest = server.entry.clone();
    fill_in(&mut rest);
    // A variable may be wanted by `env` itself.
    let rest: Value = rest.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let rest = rest.to_string();
    let is_used =
        |name: &str| ["}", ":-"].iter().any(|end| rest.contains(&format!("${{{name}{end}")));
    let is_passed = |name: &str| !own.contains_key(name);
    server.asked.retain(|asked| is_passed(&asked.variable) || is_used(&asked.variable));
    hidden
}

/// Puts what `env` says into arguments that refer to it.
pub(super) fn fill_in(entry: &mut Entry) {
    let Some(Value::Object(own)) = entry.get("env").cloned() else { return };
    for (_, value) in entry.iter_mut().filter(|(key, _)| FILLED.contains(*key)) {
        match value {
            Value::String(text) => *text = filled(text, &own),
            Value::Array(all) => {
                for value in all {
                    if let Value::String(text) = value {
                        *text = filled(text, &own);
                    }
                }
            }
            _ => {}
        }
    }
}

fn filled(text: &str, own: &Map<String, Value>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inner, tail)) = after.split_once('}') else { break };
        filled.push_str(before);
        let name = inner.split(":-").next().unwrap_or_default();
        if let Some(value) = own.get(name).and_then(Value::as_str) {
            filled.push_str(value);
        } else {
            filled.push_str("${");
            filled.push_str(inner);
            filled.push('}');
        }
        rest = tail;
    }
    filled.push_str(rest);
    filled
}

fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_get_what_the_environment_of_the_entry_has() {
        let mut entry = Entry::new();
        entry.insert("args", json!(["--to=${A}", "${B:-x}", "${C}", "$A"]));
        entry.insert("env", json!({ "A": "one two", "B": "${B_SECRET}" }));
        entry.insert("url", json!("${A}"));
        fill_in(&mut entry);
        assert_eq!(entry["args"], json!(["--to=one two", "${B_SECRET}", "${C}", "$A"]));
        assert_eq!(entry["url"], json!("${A}"));
    }
}
