//! What one client sees of all servers: merged lists, ready to be sent, and who owns each item.
//!
//! Computed once per change, so that listing is a copy and routing a lookup. Servers keep the order they are given in
//! and items the order their server listed them in, so that equal catalogs make equal lists. Items pass byte for byte;
//! only the names of tools and prompts are replaced. URIs stay as they are, because tool results may link to them.
//! Whatever would be ambiguous has one owner, the first; the others are left out and reported in [`Merged::excluded`].

mod lists;
mod splice;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use evergate_runtime::{Item, RawJson, ServerCatalog};
use indexmap::IndexMap;

use self::lists::{AddressedList, Entry, NamedList, digest};
use super::names::Naming;
use super::uri_template;
use crate::hash::HashMap;

/// What one server offers to one client.
pub(crate) struct Offer<'a> {
    /// Its name.
    pub(crate) server: &'a str,
    /// What it listed.
    pub(crate) catalog: &'a ServerCatalog,
    /// Whether the client may use a tool, by its own and its public name.
    pub(crate) allows_tool: &'a dyn Fn(&str, &str) -> bool,
}

/// The lists of one client and the ways from their items to the servers.
#[derive(Debug)]
pub(crate) struct Merged {
    /// The JSON array of tools.
    pub(crate) tools: RawJson,
    /// The JSON array of prompts.
    pub(crate) prompts: RawJson,
    /// The JSON array of resources.
    pub(crate) resources: RawJson,
    /// The JSON array of resource templates.
    pub(crate) resource_templates: RawJson,
    /// What is left out because its name or URI was taken.
    pub(crate) excluded: Vec<Excluded>,
    /// Tells whether a list really changed.
    pub(crate) digests: Digests,
    tool_owners: HashMap<String, Owner>,
    prompt_owners: HashMap<String, Owner>,
    resource_owners: IndexMap<String, Arc<str>>,
    /// In the order of the list, which decides between templates that fit equally well.
    templates: IndexMap<String, Arc<str>>,
}

/// Whom to ask, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The server.
    pub(crate) server: Arc<str>,
    /// What the item is called there.
    pub(crate) own: Arc<str>,
}

/// Something that clients do not see because another server offers the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excluded {
    /// Whose it is.
    pub(crate) server: Arc<str>,
    /// A tool, a prompt, a resource or a resource template.
    pub(crate) kind: &'static str,
    /// The public name or the URI.
    pub(crate) name: String,
    /// Whose item clients see instead.
    pub(crate) lost_to: Arc<str>,
}

/// One content hash per list; the order of its items does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digests {
    /// Of the tools.
    pub(crate) tools: [u8; 32],
    /// Of the prompts.
    pub(crate) prompts: [u8; 32],
    /// Of the resources and the templates: clients are told of both at once.
    pub(crate) resources: [u8; 32],
}

/// The lists while they grow.
struct Lists {
    tools: NamedList,
    prompts: NamedList,
    resources: AddressedList,
    resource_templates: AddressedList,
}

// === impl Merged ===

impl Merged {
    /// All servers together.
    pub(crate) fn build(naming: &Naming, offers: &[Offer<'_>]) -> Self {
        let mut lists = Lists::default();
        for offer in offers {
            let server = Arc::from(offer.server);
            let catalog = offer.catalog;
            lists.tools.add(naming, &server, entries(&catalog.tools), offer.allows_tool);
            lists.prompts.add(naming, &server, entries(&catalog.prompts), &|_, _| true);
            lists.resources.add(&server, entries(&catalog.resources));
            lists.resource_templates.add(&server, entries(&catalog.resource_templates));
        }
        lists.finish()
    }

    /// Who has the tool that clients call so.
    pub(crate) fn tool(&self, public: &str) -> Option<&Owner> {
        self.tool_owners.get(public)
    }

    /// Who has the prompt that clients call so.
    pub(crate) fn prompt(&self, public: &str) -> Option<&Owner> {
        self.prompt_owners.get(public)
    }

    /// Who has the resource: the server that listed it, else the one whose template fits best.
    pub(crate) fn resource(&self, uri: &str) -> Option<&Arc<str>> {
        self.resource_owners.get(uri).or_else(|| {
            let mut best: Option<(usize, &Arc<str>)> = None;
            for (template, server) in &self.templates {
                let Some(literal) = uri_template::matches(template, uri) else { continue };
                if best.is_none_or(|(most, _)| literal > most) {
                    best = Some((literal, server));
                }
            }
            best.map(|(_, server)| server)
        })
    }

    /// Who has the resource template.
    pub(crate) fn template(&self, uri_template: &str) -> Option<&Arc<str>> {
        self.templates.get(uri_template)
    }
}

fn entries(items: &[Item]) -> impl Iterator<Item = Entry<'_>> {
    items.iter().map(|item| (item.key.as_str(), &item.raw))
}

// === impl Lists ===

impl Default for Lists {
    fn default() -> Self {
        Self {
            tools: NamedList::new("tool"),
            prompts: NamedList::new("prompt"),
            resources: AddressedList::new("resource"),
            resource_templates: AddressedList::new("resource template"),
        }
    }
}

impl Lists {
    fn finish(self) -> Merged {
        let Self { mut tools, mut prompts, mut resources, mut resource_templates } = self;
        let digests = Digests {
            tools: digest([&tools.text]),
            prompts: digest([&prompts.text]),
            resources: digest([&resources.text, &resource_templates.text]),
        };
        let mut excluded = tools.losses.take();
        excluded.append(&mut prompts.losses.take());
        excluded.append(&mut resources.losses.take());
        excluded.append(&mut resource_templates.losses.take());
        Merged {
            tools: tools.text.finish(),
            prompts: prompts.text.finish(),
            resources: resources.text.finish(),
            resource_templates: resource_templates.text.finish(),
            excluded,
            digests,
            tool_owners: tools.owners,
            prompt_owners: prompts.owners,
            resource_owners: resources.owners,
            templates: resource_templates.owners,
        }
    }
}

// === impl Excluded ===

impl fmt::Display for Excluded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, kind, name, lost_to } = self;
        if server == lost_to {
            return write!(f, "server {server:?} lists the {kind} {name:?} more than once");
        }
        write!(
            f,
            "the {kind} {name:?} of server {server:?} is left out: server {lost_to:?} offers one too"
        )
    }
}
