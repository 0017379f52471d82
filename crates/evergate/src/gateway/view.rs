//! What one client sees of all the servers: computed when something changed, shared by all who see the same.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use evergate_runtime::{CacheHints, Catalog, Item, Own, RawJson, ServerCatalog};

use super::Gateway;
use super::client::{Client, Scope};
use super::merged::{Digests, Merged, Offer, Owner};
use super::names::{self, Naming};
use super::stateless::{CacheHint, complete};
use crate::config::{self, Isolation};
use crate::found_here::FoundHere;
use crate::front::keys::Caller;
use crate::hash::HashMap;

/// The answers to the four list methods, and who owns what is in them.
#[derive(Debug)]
pub(crate) struct View {
    pub(super) merged: Merged,
    lists: Lists,
    /// How long each of them may be kept.
    hints: [CacheHint; 4],
    /// The same for clients without a session, while all servers are there and while some are not; most gateways have no
    /// such clients.
    stateless: [OnceLock<Lists>; 2],
    /// Whose they are.
    servers: Vec<Arc<str>>,
    /// Tools whose calls repeat arguments in headers, by what clients call them. Few do.
    with_headers: HashMap<String, Item>,
    /// Tools that were called, as each thread has them.
    called: FoundHere<String, Owner>,
}

/// In the order tools, prompts, resources, templates.
type Lists = [RawJson; 4];

/// What clients that may use everything call what servers offer.
#[derive(Debug)]
pub(crate) struct PublicNames {
    view: Arc<View>,
    naming: Naming,
}

/// Views by who sees them; each is good for as long as its stamp is.
#[derive(Debug, Default)]
pub(super) struct Views {
    known: ArcSwap<HashMap<Key, (Stamp, Arc<View>)>>,
    /// Whoever else wants one that is missing wants the same.
    building: Mutex<()>,
}

/// The rights of the caller, and its scope.
type Key = (u64, Scope);

/// What a view was made from: the configuration, the shared catalog, the client's own servers, what its key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    revision: u64,
    catalog: u64,
    private: u64,
    rights: u64,
}

// === impl Views ===

impl Views {
    fn find<T>(&self, key: &Key, stamp: Stamp, look: impl Fn(&Arc<View>) -> T) -> Option<T> {
        let known = self.known.load();
        known.get(key).filter(|(known, _)| *known == stamp).map(|(_, view)| look(view))
    }

    /// Only by whoever is building.
    fn put(&self, key: Key, stamp: Stamp, view: Arc<View>) {
        let mut known = HashMap::clone(&self.known.load());
        known.retain(|_, (known, _)| known.revision == stamp.revision);
        known.insert(key, (stamp, view));
        self.known.store(Arc::new(known));
    }
}

// === impl Gateway ===

impl Gateway {
    pub(crate) fn view(&self, client: &Client) -> Arc<View> {
        self.looking(client, Arc::clone)
    }

    /// Whose a tool is that is listed.
    pub(super) fn listed_tool(&self, client: &Client, name: &str) -> Option<Own<Owner>> {
        self.looking(client, |view| view.tool_here(name))
    }

    /// What is found in what a client sees. Nobody counts who looks, as long as nothing has changed.
    fn looking<T>(&self, client: &Client, look: impl Fn(&Arc<View>) -> T) -> T {
        let private = client.private.version();
        if private != 0 {
            let (catalog, caller) = (self.hub.catalog(), client.caller());
            let build = || self.build(client, &caller, &catalog);
            let stamp = self.stamp(catalog.version, private, caller.rights());
            return look(&client.private.view(stamp, build));
        }
        let rights = client.rights();
        let newest = self.stamp(self.hub.catalog_version(), private, rights);
        if let Some(found) = self.views.find(&(rights, client.scope.clone()), newest, &look) {
            return found;
        }
        let _building = self.views.building.lock().unwrap_or_else(PoisonError::into_inner);
        // Once: what is built from it must be kept under its number.
        let (catalog, caller) = (self.hub.catalog(), client.caller());
        let stamp = self.stamp(catalog.version, private, caller.rights());
        let key = (caller.rights(), client.scope.clone());
        self.views.find(&key, stamp, &look).unwrap_or_else(|| {
            let view = Arc::new(self.build(client, &caller, &catalog));
            self.views.put(key, stamp, view.clone());
            look(&view)
        })
    }

    fn stamp(&self, catalog: u64, private: u64, rights: u64) -> Stamp {
        Stamp { revision: self.revision(), catalog, private, rights }
    }

    /// What clients of all servers call things.
    pub(crate) fn public_names(&self) -> PublicNames {
        let naming = naming(&self.config(), &Scope::All);
        PublicNames { view: self.view(&Client::observer()), naming }
    }

    /// Whether a key opens a tool, by the name that the server itself has for it.
    pub(crate) fn opens(&self, caller: &Caller, server: &str, own: &str) -> bool {
        caller.may_use_server(server)
            && caller.may_use_tool(&full_name(&self.config(), server, own))
    }

    /// What clients saw when the process started.
    pub(super) fn baseline_view(&self, client: &Client) -> View {
        self.build(client, &client.caller(), &self.baseline)
    }

    /// Whose a tool may be that nobody lists: see [`Self::unlisted_owner`].
    pub(super) fn unlisted_tool(&self, client: &Client, public: &str) -> Option<Owner> {
        let owner = self.unlisted_owner(client, public)?;
        let config = self.config();
        let server = config.servers.get(&*owner.server)?;
        let allowed = server.tools.allows(&owner.own)
            && client.caller().may_use_tool(&full_name(&config, &owner.server, &owner.own));
        allowed.then_some(owner)
    }

    /// Whose a name may be that nobody lists: the server its prefix names, else the only one it could be. What that
    /// server says of it is better than anything we could.
    pub(super) fn unlisted_owner(&self, client: &Client, public: &str) -> Option<Owner> {
        let config = self.config();
        let catalog = self.hub.catalog();
        let naming = naming(&config, &client.scope);
        let visible: Vec<_> = config
            .servers
            .iter()
            .filter(|(name, server)| server.is_on() && client.may_use(name))
            .collect();
        let alone = visible.len() == 1;
        let mut owners = visible.into_iter().filter_map(|(name, server)| {
            let listed = offered_to(client, &catalog, name, server).is_some();
            if listed && naming == Naming::Bare && !alone {
                return None;
            }
            let own = names::own_name(&naming, name, public)?;
            Some(Owner { server: Arc::from(name.as_str()), own: own.into() })
        });
        // Two that could be meant are none.
        owners.next().filter(|_| owners.next().is_none())
    }

    /// Why nothing of the server that a name's prefix names can be used, if it is switched off.
    pub(super) fn why_off(&self, client: &Client, public: &str) -> Option<(String, String)> {
        let config = self.config();
        let naming = naming(&config, &client.scope);
        let (name, server) = config.servers.iter().find(|(name, _)| {
            client.may_use(name) && names::own_name(&naming, name, public).is_some()
        })?;
        let why =
            server.unusable.as_deref().or(server.disabled.then_some("by its configuration"))?;
        Some((name.clone(), format!("switched off: {why}")))
    }

    fn build(&self, client: &Client, caller: &Caller, catalog: &Catalog) -> View {
        let config = self.config();
        let naming = naming(&config, &client.scope);
        let visible: Vec<(&str, &config::Server, Arc<ServerCatalog>)> = config
            .servers
            .iter()
            .filter(|(name, server)| {
                server.is_on() && client.sees(name) && caller.may_use_server(name)
            })
            .filter_map(|(name, server)| {
                let entry = offered_to(client, catalog, name, server)?;
                Some((name.as_str(), server, entry))
            })
            .collect();
        let allowed: Vec<_> = visible
            .iter()
            .map(|(name, server, _)| {
                let config = &config;
                move |own: &str, _: &str| {
                    server.tools.allows(own) && caller.may_use_tool(&full_name(config, name, own))
                }
            })
            .collect();
        let offers: Vec<Offer<'_>> = visible
            .iter()
            .zip(&allowed)
            .map(|((server, _, catalog), allows_tool)| Offer { server, catalog, allows_tool })
            .collect();
        let mut view = View::new(Merged::build(&naming, &offers));
        view.hints = [
            merged_hint(caller, &offers, |catalog| (&catalog.tools, catalog.hints.tools)),
            merged_hint(caller, &offers, |catalog| (&catalog.prompts, catalog.hints.prompts)),
            merged_hint(caller, &offers, |catalog| (&catalog.resources, catalog.hints.resources)),
            merged_hint(caller, &offers, |catalog| {
                (&catalog.resource_templates, catalog.hints.resource_templates)
            }),
        ];
        view.servers = offers.iter().map(|offer| Arc::from(offer.server)).collect();
        for offer in offers {
            for tool in offer.catalog.tools.iter().filter(|tool| tool.wants_headers()) {
                let public = names::public_name(&naming, offer.server, &tool.key);
                let owner = view.merged.tool(&public);
                if owner.is_some_and(|owner| *owner.server == *offer.server) {
                    view.with_headers.insert(public, tool.clone());
                }
            }
        }
        view
    }
}

/// How long a merged list may be kept, and by whom: as its strictest part. A server that says nothing promises nothing.
fn merged_hint(
    caller: &Caller,
    offers: &[Offer<'_>],
    list: impl Fn(&ServerCatalog) -> (&Vec<Item>, Option<evergate_runtime::CacheHint>),
) -> CacheHint {
    let parts = offers.iter().filter_map(|offer| {
        let (items, hint) = list(offer.catalog);
        match hint {
            Some(hint) => Some(CacheHint { ttl_ms: hint.ttl_ms, public: hint.public }),
            // It has no such list, and says of the others how long they are good: nothing can come of this one.
            None if items.is_empty() && offer.catalog.hints != CacheHints::default() => None,
            None => Some(CacheHint::default()),
        }
    });
    let hint = CacheHint::of_all(parts);
    // Others may see something else.
    CacheHint { public: hint.public && caller.name().is_none(), ..hint }
}

/// The name of a tool at `/mcp`: what keys speak of, wherever it is used.
fn full_name(config: &config::Config, server: &str, own: &str) -> String {
    names::public_name(&naming(config, &Scope::All), server, own)
}

/// What a server offers to a client, as last listed. One that a reload has just made shared was listed by the client's
/// own connection last.
pub(super) fn offered_to(
    client: &Client,
    catalog: &Catalog,
    name: &str,
    server: &config::Server,
) -> Option<Arc<ServerCatalog>> {
    match server.isolation {
        Isolation::Shared => {
            let shared = catalog.server(name).cloned();
            shared.or_else(|| client.private.last_catalog(name, &server.connection_digest))
        }
        Isolation::PerClient => client.private.catalog(name),
    }
}

/// One server is shown as it is.
fn naming(config: &config::Config, scope: &Scope) -> Naming {
    match (scope, config.gateway.naming) {
        (Scope::One(_), _) | (Scope::All, config::Naming::Bare) => Naming::Bare,
        (Scope::All, config::Naming::Prefix) => Naming::prefix(&config.gateway.separator),
    }
}

fn pick(lists: &Lists, method: &str) -> RawJson {
    let [tools, prompts, resources, templates] = lists;
    let list = match method {
        "tools/list" => tools,
        "prompts/list" => prompts,
        "resources/list" => resources,
        _ => templates,
    };
    list.clone()
}

// === impl PublicNames ===

impl PublicNames {
    /// A tool's; `None` if it is not offered to anybody.
    pub(crate) fn tool(&self, server: &str, own: &str) -> Option<String> {
        self.of(server, own, Merged::tool)
    }

    /// A prompt's.
    pub(crate) fn prompt(&self, server: &str, own: &str) -> Option<String> {
        self.of(server, own, Merged::prompt)
    }

    fn of(
        &self,
        server: &str,
        own: &str,
        owner: for<'a> fn(&'a Merged, &str) -> Option<&'a Owner>,
    ) -> Option<String> {
        let public = names::public_name(&self.naming, server, own);
        let owner = owner(&self.view.merged, &public);
        owner.filter(|owner| *owner.server == *server && *owner.own == *own)?;
        Some(public)
    }
}

// === impl View ===

impl View {
    fn new(merged: Merged) -> Self {
        let result = |field: &str, list: &RawJson| {
            let text = format!("{{\"{field}\":{}}}", list.as_str());
            // It is valid: the list is.
            RawJson::from_text(text).unwrap_or_else(|_| RawJson::empty_object())
        };
        let lists = [
            result("tools", &merged.tools),
            result("prompts", &merged.prompts),
            result("resources", &merged.resources),
            result("resourceTemplates", &merged.resource_templates),
        ];
        Self {
            merged,
            lists,
            hints: Default::default(),
            stateless: Default::default(),
            servers: Vec::new(),
            with_headers: HashMap::default(),
            called: FoundHere::default(),
        }
    }

    /// Whose a tool is. Its names are this thread's own: every call keeps them for a while.
    fn tool_here(&self, name: &str) -> Option<Own<Owner>> {
        self.called.find(name, || {
            let Owner { server, own } = self.merged.tool(name)?;
            let copy = Owner { server: Arc::from(&**server), own: Arc::from(&**own) };
            Some((name.to_owned(), Arc::new(copy)))
        })
    }

    /// The answer to one of the four methods.
    pub(super) fn list(&self, method: &str) -> RawJson {
        pick(&self.lists, method)
    }

    /// The same for a client without a session. A list that is shown because its server is away is not to be kept: the
    /// next may be better.
    pub(super) fn list_to_keep(&self, method: &str, is_there: impl Fn(&str) -> bool) -> RawJson {
        let kept_at_all = self.hints.iter().any(|hint| hint.ttl_ms > 0);
        let stale = kept_at_all && !self.servers.iter().all(|server| is_there(server));
        let lists = self.stateless[usize::from(stale)].get_or_init(|| {
            [0, 1, 2, 3].map(|list| {
                let hint = if stale { CacheHint::default() } else { self.hints[list] };
                complete(&self.lists[list], Some(hint))
            })
        });
        pick(lists, method)
    }

    /// Whether there are tools whose calls repeat arguments in headers.
    pub(super) fn any_with_headers(&self) -> bool {
        !self.with_headers.is_empty()
    }

    /// A tool whose calls do.
    pub(super) fn with_headers(&self, public: &str) -> Option<&Item> {
        self.with_headers.get(public)
    }

    pub(crate) fn digests(&self) -> Digests {
        self.merged.digests
    }

    /// What is not shown because somebody else had the name first.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> + '_ {
        self.merged.excluded.iter().map(ToString::to_string)
    }
}
