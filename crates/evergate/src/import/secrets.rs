//! Literal secrets of a source become references: the new file names a variable, the old one keeps the value.
//!
//! A secret is known by its name (`GITHUB_TOKEN`, `Authorization`, `?api_key=`, `--password`), by its look (`ghp_…`), or by
//! its place (the password of a URL, what follows `Bearer`): [`marks`] and [`pieces`]. Too many variables are a nuisance, a
//! secret in two files is a leak, so in doubt it is one.

mod marks;
mod masked;
mod own_environment;
mod pieces;
mod variables;

use serde_json::{Value, json};

use super::Server;
use super::references::variable_name;
use masked::Masked;
use pieces::Piece;

pub(super) use marks::looks_secret;
pub(crate) use variables::Variables;

/// Takes the secrets out of all servers.
pub(super) fn extract(servers: &mut [Server], variables: &mut Variables) {
    let hidden: Vec<Vec<String>> = servers.iter_mut().map(own_environment::prepare).collect();
    // Names that sources use already are theirs.
    for server in servers.iter() {
        for asked in &server.asked {
            variables.wanted(asked, &format!("{} wants it", server.name));
        }
    }
    for (server, hidden) in servers.iter_mut().zip(hidden) {
        let mut taken = Vec::new();
        let mut entry = std::mem::take(&mut server.entry);
        let mut context = Context { server, variables, taken: &mut taken };
        if let Some(Value::Object(all)) = entry.get_mut("env") {
            for (name, value) in all.iter_mut() {
                context.variable(name, value, hidden.contains(name));
            }
        }
        // Arguments may refer to variables of the entry itself, which have their last text only now.
        own_environment::fill_in(&mut entry);
        for (key, value) in &mut entry {
            match (*key, value) {
                ("headers", Value::Object(all)) => {
                    all.iter_mut().for_each(|(name, value)| context.header(name, value));
                }
                ("args", Value::Array(args)) => context.arguments(args),
                ("command", value) => context.command(value),
                ("url", value) => context.url(value),
                _ => {}
            }
        }
        if let Some(basic) = context.user_of_url(&mut entry) {
            let headers = entry.entry("headers").or_insert_with(|| json!({}));
            headers["Authorization"] = Value::from(basic);
        }
        server.entry = entry;
        server.mapped.extend(taken);
    }
}

struct Context<'a> {
    server: &'a Server,
    variables: &'a mut Variables,
    /// What became of what.
    taken: &'a mut Vec<String>,
}

// === impl Context ===

impl Context<'_> {
    fn variable(&mut self, name: &str, value: &mut Value, hidden: bool) {
        let find = |text: &str| match pieces::of_value(name, text) {
            found if found.is_empty() && hidden => pieces::of_value("secret", text),
            found => found,
        };
        let secret = hidden || marks::is_secret_name(name);
        self.conceal(value, &format!("env.{name}"), secret, find, |_, piece| {
            if piece.part.starts_with(", its") { None } else { Some(variable_name(name)) }
        });
    }

    fn header(&mut self, name: &str, value: &mut Value) {
        let find = |text: &str| pieces::of_header(name, text);
        let secret = marks::is_secret_name(name);
        self.conceal(value, &format!("headers.{name}"), secret, find, |context, piece| {
            let plain = name.strip_prefix("X-").or(name.strip_prefix("x-")).unwrap_or(name);
            match &piece.name {
                other if other != name => None,
                _ if name.eq_ignore_ascii_case("authorization") => Some(context.own_name("token")),
                _ => Some(context.own_name(plain)),
            }
        });
    }

    fn arguments(&mut self, args: &mut [Value]) {
        let mut option: Option<String> = None;
        for (n, value) in args.iter_mut().enumerate() {
            let before = option.take();
            let Some(text) = value.as_str().map(str::to_owned) else { continue };
            let before = before.as_deref();
            let is_option = pieces::is_option(before, &Masked::of(&text).text);
            let secret = !is_option && before.is_some_and(marks::is_secret_option);
            let find = |text: &str| {
                if is_option { pieces::of_option(text) } else { pieces::of_argument(before, text) }
            };
            self.conceal(value, &format!("args[{n}]"), secret, find, |_, piece| {
                // Docker's `-e NAME=value` names the variable itself.
                let is_variable =
                    piece.name.contains('_') && piece.name == variable_name(&piece.name);
                is_variable.then(|| piece.name.clone())
            });
            if is_option {
                option = Some(text);
            }
        }
    }

    fn command(&mut self, value: &mut Value) {
        self.conceal(value, "command", false, pieces::of_command, |_, _| None);
    }

    fn url(&mut self, value: &mut Value) {
        self.conceal(value, "url", false, pieces::of_url, |_, _| None);
    }

    /// Replaces what is secret in a text. `secret` says that the whole text is called so; `named` may know a better name
    /// for a variable than the piece's own.
    fn conceal(
        &mut self,
        value: &mut Value,
        place: &str,
        secret: bool,
        find: impl FnOnce(&str) -> Vec<Piece>,
        named: impl Fn(&Self, &Piece) -> Option<String>,
    ) {
        let Some(text) = value.as_str().filter(|text| !text.is_empty()) else { return };
        let mut masked = Masked::of(text);
        self.defaults(&mut masked, place, secret);
        let (mut text, mut at) = (String::new(), 0);
        for piece in find(&masked.text) {
            text.push_str(&masked.text[at..piece.range.start]);
            let wanted = named(self, &piece).unwrap_or_else(|| self.own_name(&piece.name));
            let held = &masked.text[piece.range.clone()];
            text.push_str(&self.refer(&wanted, held, &format!("{place}{}", piece.part)));
            at = piece.range.end;
        }
        text.push_str(&masked.text[at..]);
        *value = Value::from(masked.restored(&text));
    }

    /// `${TOKEN:-secret}` loses its default.
    fn defaults(&mut self, masked: &mut Masked, place: &str, secret: bool) {
        let mut found = Vec::new();
        for (before, inner) in masked.references() {
            let Some((name, default)) = inner.split_once(":-") else { continue };
            let called = secret || marks::is_secret_name(name) || pieces::announces(before);
            let shown = default.is_empty() || marks::is_switch(default);
            if !shown && (called || !pieces::of_value(name, default).is_empty()) {
                let name = name.to_owned();
                found.push(name.clone());
                *inner = name;
            }
        }
        for name in found {
            let at = self.at(place);
            self.variables.required(&name, &format!("its value is in {at}, a default"));
            self.taken
                .push(format!("{place}: the default of ${{{name}}} is a secret, and stays there"));
        }
    }

    /// A user and a password in front of the host become a header, for our loader wants none there.
    fn user_of_url(
        &mut self,
        entry: &mut indexmap::IndexMap<&'static str, Value>,
    ) -> Option<String> {
        let url = entry.get("url")?.as_str()?.to_owned();
        let (scheme, rest) = url.split_once("://")?;
        let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        let (user, host) = authority.rsplit_once('@')?;
        entry.insert("url", Value::from(format!("{scheme}://{host}{path}")));
        let has_own = |headers: &Value| {
            let names = headers.as_object().into_iter().flatten();
            names.into_iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        };
        if entry.get("headers").is_some_and(has_own) {
            return None;
        }
        let place = "url, base64 of the user and password before the host";
        let reference = self.refer(&self.own_name("basic_auth"), user, place);
        Some(format!("Basic {reference}"))
    }

    /// A variable that has the server in its name if nothing else tells whose it is.
    fn own_name(&self, name: &str) -> String {
        let (server, plain) = (variable_name(&self.server.name), variable_name(name));
        let telling = marks::is_secret_name(name) && !marks::is_common(name);
        let known = plain.starts_with(&server) || telling;
        if known { plain } else { format!("{server}_{plain}") }
    }

    fn refer(&mut self, wanted: &str, secret: &str, place: &str) -> String {
        let whole = format!("its value is in {}", self.at(place));
        let name = self.variables.holding(wanted, &self.server.name, secret, whole);
        self.taken.push(match place.split_once(", the whole ") {
            Some((place, what)) => {
                format!("{place}: there is a secret in it, so ${{{name}}} holds the whole {what}")
            }
            None => format!("{place}: the secret became ${{{name}}}"),
        });
        format!("${{{name}}}")
    }

    /// Where something is in the source.
    fn at(&self, place: &str) -> String {
        let key = place.split([',', '.', '[']).next().unwrap_or_default();
        let source = self.server.renamed.iter().find(|(to, _)| *to == key);
        let at = match source {
            Some((_, from)) => format!("{from}{}", &place[key.len()..]),
            None => place.to_owned(),
        };
        format!("{} at {}.{at}", self.server.file, self.server.path)
    }
}

#[cfg(test)]
mod tests;
