//! Which tools of a server are offered, and how each of them is treated: the `tools` section of an entry.
//!
//! Other clients have lists under other names for the same thing. They are obeyed, and a note says so.

use std::time::Duration;

use evergate_runtime::Replay;
use serde_json::Value;

use super::pattern::Pattern;
use super::reader::{Reader, kind};
use super::server::REPLAY;

/// The rules for the tools of one server. Without any, every tool is offered as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolRules {
    /// Only these; everything if absent.
    allow: Option<Vec<Pattern>>,
    /// Not these, whatever is allowed.
    deny: Vec<Pattern>,
    overrides: Vec<(Pattern, ToolOverride)>,
}

/// What is different for one tool. What is absent is as it is for its server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ToolOverride {
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_timeout: Option<Duration>,
    pub(crate) hold: Option<Duration>,
    pub(crate) replay: Option<Replay>,
}

// === impl ToolRules ===

impl ToolRules {
    /// Whether the tool may be listed and called, by the name its server gives it.
    pub(crate) fn allows(&self, tool: &str) -> bool {
        let listed = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(tool));
        self.allow.as_deref().is_none_or(listed) && !listed(&self.deny)
    }

    /// What is different for this tool: for each setting the first pattern that matches and says something of it.
    pub(crate) fn overrides_for(&self, tool: &str) -> ToolOverride {
        let matching = self.overrides.iter().filter(|(pattern, _)| pattern.matches(tool));
        matching.fold(ToolOverride::default(), |found, (_, next)| ToolOverride {
            timeout: found.timeout.or(next.timeout),
            max_timeout: found.max_timeout.or(next.max_timeout),
            hold: found.hold.or(next.hold),
            replay: found.replay.or(next.replay),
        })
    }

    /// In a few words, for people; nothing if there is no rule.
    pub(crate) fn summary(&self) -> Option<String> {
        let list = |patterns: &[Pattern]| {
            patterns.iter().map(Pattern::as_str).collect::<Vec<_>>().join(", ")
        };
        let mut parts = Vec::new();
        match self.allow.as_deref() {
            Some([]) => parts.push("none allowed".to_owned()),
            Some(allowed) => parts.push(format!("only {}", list(allowed))),
            None => {}
        }
        if !self.deny.is_empty() {
            parts.push(format!("not {}", list(&self.deny)));
        }
        if !self.overrides.is_empty() {
            let patterns: Vec<&str> =
                self.overrides.iter().map(|(pattern, _)| pattern.as_str()).collect();
            parts.push(format!("own settings for {}", patterns.join(", ")));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Reads `tools`, and the keys of other clients that mean the same.
pub(super) fn read(reader: &mut Reader<'_>) -> ToolRules {
    let mut rules = match reader.take("tools") {
        None => ToolRules::default(),
        // As gh-aw and Copilot write it: `"tools": ["*"]`.
        Some(Value::Array(_)) => {
            ToolRules { allow: reader.patterns("tools"), ..ToolRules::default() }
        }
        Some(value @ Value::Object(_)) => {
            reader.nested("tools", "tools", value, section).unwrap_or_default()
        }
        Some(value) => {
            let message = format!(
                "must be a list of patterns, or an object with allow, deny and overrides, not {}",
                kind(value)
            );
            reader.error("tools", &message);
            ToolRules::default()
        }
    };
    if let Some(included) = reader.patterns("includeTools") {
        if rules.allow.is_some() {
            reader.warning("includeTools", "has no effect: `tools` says already what is allowed");
        } else {
            reader.note("includeTools", "was understood as tools.allow");
            rules.allow = Some(included);
        }
    }
    for key in ["excludeTools", "disabledTools"] {
        if let Some(excluded) = reader.patterns(key) {
            reader.note(key, "was understood as tools.deny");
            rules.deny.extend(excluded);
        }
    }
    if rules.allow.as_ref().is_some_and(Vec::is_empty) {
        reader.warning("tools", "allows no tool at all");
    }
    rules
}

fn section(section: &mut Reader<'_>) -> ToolRules {
    let allow = section.patterns("allow");
    let deny = section.patterns("deny").unwrap_or_default();
    let mut overrides = Vec::new();
    for (pattern, value) in section.section("overrides").into_iter().flatten() {
        let key = format!("overrides.{pattern}");
        let read = section.nested(&key, "overrides.*", value, override_of);
        overrides.extend(read.map(|read| (Pattern::new(pattern), read)));
    }
    // An object has no order to rely on: the more specific pattern, the one with fewer wildcards, comes first.
    overrides.sort_by_key(|(pattern, _)| {
        let wildcards = pattern.as_str().matches(['*', '?']).count();
        (wildcards, std::cmp::Reverse(pattern.as_str().len()))
    });
    ToolRules { allow, deny, overrides }
}

fn override_of(section: &mut Reader<'_>) -> ToolOverride {
    let read = ToolOverride {
        timeout: section.positive("timeout"),
        max_timeout: section.positive("max_timeout"),
        hold: section.positive("hold"),
        replay: section.choice("replay", REPLAY),
    };
    if let (Some(timeout), Some(most)) = (read.timeout, read.max_timeout)
        && most < timeout
    {
        section.error("max_timeout", "must not be below timeout");
    }
    read
}
