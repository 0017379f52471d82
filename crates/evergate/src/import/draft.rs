//! One server while it is being understood: what the formats have in common.

use std::path::Path as FilePath;

use serde_json::{Map, Value, json};

use super::entry::{Entry, Path, Problem};
use super::references::{self, Dialect};
use super::{Asked, Dropped, Found, Server, Source};

/// A server that is not complete yet.
pub(super) struct Draft<'s> {
    source: &'s Source,
    dialect: Dialect<'s>,
    server: Server,
    pub(super) problems: Vec<Problem>,
    /// Why it cannot be taken.
    refused: Option<String>,
}

/// What a bare number of a client counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
    /// Nobody knows whose file it is: the size of the number tells, as it does in a configuration of ours.
    Either,
}

/// How `type` is spelled for servers that Evergate finds out about by itself.
const PLAIN_KINDS: &[&str] = &["stdio", "local", "http", "remote"];
const EXACT_KINDS: &[&str] =
    &["sse", "streamable-http", "streamable_http", "streamableHttp", "streamable", "json-rpc"];

const LONGEST_NAME: usize = 64;

// === impl Draft ===

impl<'s> Draft<'s> {
    pub(super) fn new(source: &'s Source, name: &str, path: Path) -> Self {
        let dialect = Dialect {
            client: source.client.title(),
            workspace: source.folder.as_deref(),
            home: source.home.as_deref(),
            bare: false,
        };
        let server = Server {
            name: name.to_owned(),
            client: source.client,
            file: source.shown.clone(),
            path,
            entry: indexmap::IndexMap::new(),
            renamed: Vec::new(),
            mapped: Vec::new(),
            dropped: Vec::new(),
            asked: Vec::new(),
        };
        Self { source, dialect, server, problems: Vec::new(), refused: None }
    }

    /// The client writes variables as `$NAME` too.
    pub(super) fn with_bare_variables(mut self) -> Self {
        self.dialect.bare = true;
        self
    }

    /// What most clients write the same way.
    pub(super) fn usual(&mut self, entry: &mut Entry<'_>, timeout: Unit) {
        self.kind(entry, "type");
        if !entry.has("type") {
            self.kind(entry, "transport");
        }
        self.process(entry);
        self.text(entry, "url", "url");
        self.pairs(entry, "headers", "headers");
        self.treatment(entry, timeout);
    }

    /// How a server is treated, wherever it is.
    pub(super) fn treatment(&mut self, entry: &mut Entry<'_>, timeout: Unit) {
        self.text(entry, "description", "description");
        self.duration(entry, "timeout", timeout, "timeout");
        self.switch(entry);
        self.tools(entry, "includeTools", "allow");
        self.tools(entry, "excludeTools", "deny");
        self.tools(entry, "disabledTools", "deny");
    }

    /// A child process.
    pub(super) fn process(&mut self, entry: &mut Entry<'_>) {
        self.text(entry, "command", "command");
        self.texts(entry, "args", "args");
        self.pairs(entry, "env", "env");
        self.text(entry, "cwd", "cwd");
    }

    pub(super) fn switch(&mut self, entry: &mut Entry<'_>) {
        let disabled = entry.flag("disabled", &mut self.problems);
        let enabled = entry.flag("enabled", &mut self.problems);
        if disabled == Some(true) || enabled == Some(false) {
            self.set("disabled", json!(true));
        }
    }

    /// How the server speaks, if that must be said.
    pub(super) fn kind<'a>(&mut self, entry: &mut Entry<'a>, key: &'a str) {
        let Some(kind) = entry.text(key, &mut self.problems) else { return };
        if EXACT_KINDS.contains(&kind) {
            self.set("type", json!(kind));
        } else if !PLAIN_KINDS.contains(&kind) {
            self.refuse(format!("its {key} is {kind:?}, which Evergate does not speak"));
        }
    }

    pub(super) fn text<'a>(&mut self, entry: &mut Entry<'a>, from: &'a str, to: &'static str) {
        if let Some(text) = entry.text(from, &mut self.problems)
            && let Some(text) = self.fill(text)
        {
            self.set(to, json!(text));
        }
    }

    pub(super) fn texts<'a>(&mut self, entry: &mut Entry<'a>, from: &'a str, to: &'static str) {
        if let Some(texts) = entry.texts(from, &mut self.problems) {
            let texts: Vec<String> = texts.into_iter().filter_map(|text| self.fill(text)).collect();
            if !texts.is_empty() {
                self.set(to, json!(texts));
            }
        }
    }

    /// Environment or headers, on top of what is there already.
    pub(super) fn pairs<'a>(&mut self, entry: &mut Entry<'a>, from: &'a str, to: &'static str) {
        for (name, text) in entry.pairs(from, &mut self.problems).into_iter().flatten() {
            if let Some(text) = self.fill(&text) {
                self.pair(to, name, text);
            }
        }
    }

    pub(super) fn pair(&mut self, to: &'static str, name: &str, text: String) {
        let all = self.server.entry.entry(to).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(all) = all {
            all.insert(name.to_owned(), Value::String(text));
        }
    }

    /// Which tools are offered.
    pub(super) fn tools<'a>(&mut self, entry: &mut Entry<'a>, from: &'a str, to: &str) {
        let Some(names) = entry.texts(from, &mut self.problems) else { return };
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        // A list of everything says nothing.
        if names.is_empty() || (to == "allow" && names == ["*"]) {
            return;
        }
        let all = self.server.entry.entry("tools").or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(all) = all else { return };
        let list = all.entry(to).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.extend(names.into_iter().map(Value::from));
        }
        if from != to && from != "tools" {
            self.mapped(format!("{from} is tools.{to}"));
        }
    }

    /// A duration; `to` may be a key of `lifecycle`.
    pub(super) fn duration<'a>(
        &mut self,
        entry: &mut Entry<'a>,
        from: &'a str,
        unit: Unit,
        to: &'static str,
    ) {
        let text = match entry.take(from) {
            None => return,
            // As it is in a configuration of ours.
            Some(Value::String(text)) if unit == Unit::Either => text.clone(),
            Some(_) => match entry.number(from, &mut self.problems) {
                Some(number) => match written(number, unit) {
                    Some(text) => text,
                    None => return self.dropped(from, "is no time that anybody waits"),
                },
                None => return,
            },
        };
        if from != to {
            self.mapped(format!("{from} is {to}, {text}"));
        }
        match to.strip_prefix("lifecycle.") {
            Some(inner) => {
                let all = self.server.entry.entry("lifecycle").or_insert_with(|| json!({}));
                all[inner] = json!(text);
            }
            None => self.set(to, json!(text)),
        }
    }

    /// A text with its variables in our spelling.
    pub(super) fn fill(&mut self, text: &str) -> Option<String> {
        let Ok(translated) = references::translate(text, &self.dialect) else {
            self.refuse("has a \"${\" that is not closed or names nothing");
            return None;
        };
        for asked in translated.asked {
            self.asked(asked);
        }
        Some(translated.text)
    }

    pub(super) fn asked(&mut self, asked: Asked) {
        if !self.server.asked.contains(&asked) {
            self.server.asked.push(asked);
        }
    }

    pub(super) fn set(&mut self, to: &'static str, value: Value) {
        self.server.entry.insert(to, value);
    }

    /// The variables so far, of something that is no server.
    pub(super) fn take_asked(self) -> Vec<Asked> {
        self.server.asked
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        self.server.name == name
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.server.entry.get(key)
    }

    pub(super) fn renamed(&mut self, to: &'static str, from: &'static str) {
        self.server.renamed.push((to, from));
    }

    pub(super) fn mapped(&mut self, note: impl Into<String>) {
        self.server.mapped.push(note.into());
    }

    pub(super) fn dropped(&mut self, key: &str, why: &str) {
        self.server.dropped.push(Dropped { key: key.to_owned(), why: why.to_owned() });
    }

    /// Says of every key that nobody took why it is left out.
    pub(super) fn drop_rest(&mut self, entry: &Entry<'_>) {
        for key in entry.rest() {
            self.dropped(key, why_dropped(key));
        }
    }

    pub(super) fn refuse(&mut self, why: impl Into<String>) {
        self.refused.get_or_insert(why.into());
    }

    pub(super) fn finish(mut self, out: &mut Found) {
        out.has_servers = true;
        let failed = !self.problems.is_empty();
        out.problems.append(&mut self.problems);
        if failed {
            return;
        }
        self.place();
        if is_ourselves(&self.server) {
            self.refuse("is Evergate itself");
        }
        let (command, url) = (self.get("command").is_some(), self.get("url").is_some());
        match (command, url) {
            (false, false) => self.refuse("has neither a command nor a URL"),
            (true, true) => {
                self.refuse("has both a command and a URL, and nobody can tell which counts");
            }
            _ => {}
        }
        if let Some(why) = self.refused {
            out.not_taken(self.source, &self.server.name, why);
            return;
        }
        let plain = valid_name(&self.server.name);
        if plain != self.server.name {
            self.server.mapped.push(format!("was called {:?}", self.server.name));
            self.server.name = plain;
        }
        out.servers.push(self.server);
    }

    /// A process has the paths that its project means, wherever Evergate is started.
    fn place(&mut self) {
        if self.get("command").is_none() {
            return;
        }
        let cwd = self.get("cwd").and_then(Value::as_str).unwrap_or("/");
        let Some(folder) = self.source.folder.as_deref() else {
            if !FilePath::new(cwd).is_absolute() && !references::refers(cwd) {
                self.mapped("cwd is relative: it starts where Evergate is started");
            }
            return;
        };
        match self.get("cwd").and_then(Value::as_str) {
            Some(cwd) if FilePath::new(cwd).is_absolute() || references::refers(cwd) => {}
            Some(cwd) => {
                let cwd = folder.join(cwd.trim_start_matches("./")).display().to_string();
                self.set("cwd", json!(cwd));
            }
            None if self.has_relative_paths() => {
                self.set("cwd", json!(folder.display().to_string()));
                self.mapped("runs in the project's folder, where its relative paths start");
            }
            None => {}
        }
    }

    fn has_relative_paths(&self) -> bool {
        let relative = |text: &str| {
            text == "." || text == ".." || text.starts_with("./") || text.starts_with("../")
        };
        let args = self.get("args").and_then(Value::as_array).into_iter().flatten();
        args.chain(self.get("command")).filter_map(Value::as_str).any(relative)
    }
}

/// A number of a client as a duration of ours.
fn written(number: f64, unit: Unit) -> Option<String> {
    let seconds = match unit {
        Unit::Seconds => number,
        Unit::Either if number < 1000.0 => number,
        Unit::Milliseconds | Unit::Either => number / 1000.0,
    };
    (seconds > 0.0 && seconds <= 365.0 * 86400.0).then(|| format!("{seconds}s"))
}

fn why_dropped(key: &str) -> &'static str {
    match key {
        "oauth"
        | "auth"
        | "authorization"
        | "authProviderType"
        | "scopes"
        | "oauth_resource"
        | "targetAudience"
        | "targetServiceAccount"
        | "allow_private_ips" => {
            "Evergate does not log in by itself: give it a token in headers or bearer_token_file"
        }
        "headersHelper" => {
            "Evergate runs no command for headers: have it keep a token in bearer_token_file"
        }
        "envFile" => "Evergate reads no file of variables: set them where it runs",
        "trust" | "alwaysAllow" | "autoApprove" | "default_tools_approval_mode" | "alwaysLoad" => {
            "what may run unasked, and when tools are shown, is for the client to decide"
        }
        "icon" | "gallery" | "registry" | "name" | "version" | "instruction" => {
            "changes nothing here"
        }
        "sandbox" | "sandboxEnabled" => "Evergate does not fence processes in",
        _ => "has no counterpart here",
    }
}

/// A name that a server of ours may have.
pub(super) fn valid_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    let name: String = name.trim().chars().take(LONGEST_NAME).map(plain).collect();
    if name.is_empty() { "server".to_owned() } else { name }
}

/// Whether the entry is one that leads to Evergate, as `evergate connect` writes it.
fn is_ourselves(server: &Server) -> bool {
    let text = |key: &str| server.entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let command = FilePath::new(text("command")).file_stem().unwrap_or_default();
    let first = server.entry.get("args").and_then(|args| args.get(0)).and_then(Value::as_str);
    let is_gateway =
        first.is_none_or(|first| ["serve", "stdio"].contains(&first) || first.starts_with("--"));
    let started = command == "evergate" && is_gateway;
    let local = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
    let reached = server.name == "evergate" && local.iter().any(|at| text("url").starts_with(at));
    started || reached
}
