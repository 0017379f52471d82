//! How long a list may be kept, as its pages say (2026-07-28).

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::{CacheHint, CacheHints};

/// Whatever a server says, a list is looked at once a day.
const LONGEST: u64 = 24 * 60 * 60 * 1000;

// === impl CacheHint ===

impl CacheHint {
    /// What one page says. What is missing or makes no sense counts as the strictest.
    pub(super) fn of_page(page: &HashMap<String, &RawValue>) -> Self {
        let ttl = page.get("ttlMs").and_then(|ttl| serde_json::from_str::<u64>(ttl.get()).ok());
        let public = page.get("cacheScope").is_some_and(|scope| scope.get() == "\"public\"");
        Self { ttl_ms: ttl.unwrap_or(0).min(LONGEST), public }
    }

    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self { ttl_ms: self.ttl_ms.min(other.ttl_ms), public: self.public && other.public }
    }
}

// === impl CacheHints ===

impl CacheHints {
    /// Of the list whose items come in this field.
    pub(super) fn of(&mut self, field: &str) -> &mut Option<CacheHint> {
        match field {
            "tools" => &mut self.tools,
            "prompts" => &mut self.prompts,
            "resources" => &mut self.resources,
            _ => &mut self.resource_templates,
        }
    }
}
