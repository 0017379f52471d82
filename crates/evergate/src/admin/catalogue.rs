//! What a server offers, with its schemas, whether clients see it or not.

use evergate_runtime::{Item, StateKind};

use super::model::{Catalogue, CatalogueItem, Problem};
use crate::config::Isolation;
use crate::gateway::Gateway;

/// Which of its lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
    ResourceTemplates,
}

/// The last good list; a server that was never listed has none.
pub(crate) fn catalogue(gateway: &Gateway, name: &str, list: List) -> Result<Catalogue, Problem> {
    let config = gateway.config();
    let server = config.servers.get(name);
    let server = server.ok_or_else(|| Problem::unknown_server(name, &config))?;
    if server.isolation == Isolation::PerClient {
        return Err(Problem::conflict(format!(
            "each client has a connection to {name} of its own, and what it offers may differ"
        )));
    }
    let catalog = gateway.hub().catalog();
    let status = gateway.hub().server(name).map(|handle| handle.status()).ok();
    let entry = catalog.server(name);
    let stale = status.is_none_or(|status| {
        status.state != StateKind::Connected
            || entry.is_some_and(|entry| entry.generation != status.generation)
    });
    let items = entry.map_or(&[][..], |entry| match list {
        List::Tools => &entry.tools,
        List::Prompts => &entry.prompts,
        List::Resources => &entry.resources,
        List::ResourceTemplates => &entry.resource_templates,
    });
    let names = gateway.public_names();
    let describe = |item: &Item| {
        let public_name = match list {
            List::Tools => names.tool(name, &item.key),
            List::Prompts => names.prompt(name, &item.key),
            List::Resources | List::ResourceTemplates => None,
        };
        let by_name = matches!(list, List::Tools | List::Prompts);
        CatalogueItem {
            offered: !by_name || public_name.is_some(),
            public_name,
            definition: item.raw.parse().unwrap_or_default(),
        }
    };
    let items = items.iter().map(describe).collect();
    Ok(Catalogue { server: name.to_owned(), version: catalog.version, stale, items })
}
