//! What the servers offer: the last good lists, published apart from whether anybody is connected.
//!
//! A snapshot is immutable and shared. Its version changes only when its content does, so that a reader can keep what
//! it derived from one for as long as the version stays.

mod cache_hint;
mod list;
mod refresh;
mod saved;
mod store;

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::Deserialize;

pub(crate) use refresh::keep_fresh;
pub use saved::InvalidCatalog;
pub(crate) use store::CatalogStore;

use crate::lifecycle::Generation;
use crate::protocol::{BadParamHeader, ParamHeader, RawJson, param_headers};

/// What all servers offer.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Catalog {
    /// Counts content changes.
    pub version: u64,
    /// By server name; servers that were never listed, or are switched off, are absent.
    pub servers: IndexMap<Arc<str>, Arc<ServerCatalog>>,
}

/// What one server offered when it was last listed in full.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerCatalog {
    /// The connection it was listed on; `None` if this process has not listed it yet: see
    /// [`HubBuilder::restore`](crate::HubBuilder::restore).
    pub generation: Option<Generation>,
    /// A digest of everything below: equal digests mean equal content.
    pub digest: String,
    /// Its tools.
    pub tools: Vec<Item>,
    /// Its prompts.
    pub prompts: Vec<Item>,
    /// Its resources.
    pub resources: Vec<Item>,
    /// Its resource templates.
    pub resource_templates: Vec<Item>,
    /// What it said it can do.
    pub capabilities: RawJson,
    /// Who it said it is.
    pub server_info: RawJson,
    /// How it wants to be used.
    pub instructions: Option<String>,
    /// How long the lists may be kept, and by whom. Not part of the content.
    pub hints: CacheHints,
}

/// What a server says about keeping its lists; of one with a handshake, or of a list that is not offered, nothing is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheHints {
    /// Of its tools.
    pub tools: Option<CacheHint>,
    /// Of its prompts.
    pub prompts: Option<CacheHint>,
    /// Of its resources.
    pub resources: Option<CacheHint>,
    /// Of its resource templates.
    pub resource_templates: Option<CacheHint>,
}

/// How long something may be kept, and by whom. Of several pages the strictest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheHint {
    /// For so many milliseconds after it came; 0 if not at all.
    pub ttl_ms: u64,
    /// The same for everybody who asks.
    pub public: bool,
}

/// One tool, prompt, resource or template.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// The name of a tool or prompt, the URI of a resource, the URI template of a template.
    pub key: String,
    /// Annotated read-only or idempotent: sending a call of it twice does no harm.
    pub harmless: bool,
    /// The whole object as the server wrote it.
    pub raw: RawJson,
    /// Arguments of a tool that go into headers too, where there are any.
    pub(crate) param_headers: Vec<ParamHeader>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemFields {
    name: Option<String>,
    uri: Option<String>,
    uri_template: Option<String>,
    #[serde(default)]
    annotations: Option<Hints>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Hints {
    read_only_hint: Option<bool>,
    idempotent_hint: Option<bool>,
}

// === impl Catalog ===

impl Catalog {
    /// What one server offers.
    pub fn server(&self, name: &str) -> Option<&Arc<ServerCatalog>> {
        self.servers.get(name)
    }
}

// === impl ServerCatalog ===

impl ServerCatalog {
    /// One of its tools.
    pub fn tool(&self, name: &str) -> Option<&Item> {
        self.tools.iter().find(|tool| tool.key == name)
    }
}

impl ServerCatalog {
    /// Whether something is not offered here that was before.
    fn lacks_some_of(&self, before: &Self) -> bool {
        let lists = |catalog: &Self| {
            let lists =
                [&catalog.tools, &catalog.prompts, &catalog.resources, &catalog.resource_templates];
            lists.map(|list| list.iter().map(|item| item.key.clone()).collect::<HashSet<String>>())
        };
        lists(before).iter().zip(lists(self)).any(|(before, now)| !before.is_subset(&now))
    }
}

// === impl Item ===

impl Item {
    /// Reads the few fields the runtime needs; `None` for an object without a name of any kind.
    fn read(raw: RawJson) -> Option<Self> {
        let fields: ItemFields = raw.parse().ok()?;
        let hints = fields.annotations.unwrap_or_default();
        // Templates and resources have names too, but are addressed by URI.
        let key = fields.uri_template.or(fields.uri).or(fields.name)?;
        let harmless = hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true);
        Some(Self { key, harmless, raw, param_headers: Vec::new() })
    }

    /// Finds out which arguments of a tool go into headers; only where the transport has headers, and the revision.
    fn read_headers(&mut self) -> Result<(), BadParamHeader> {
        if memchr::memmem::find(self.raw.as_bytes(), b"x-mcp-header").is_some() {
            let tool: serde_json::Value = self.raw.parse().unwrap_or_default();
            self.param_headers = param_headers(&tool["inputSchema"])?;
        }
        Ok(())
    }
}
