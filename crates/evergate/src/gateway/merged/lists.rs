//! Lists while they grow: the text that clients will get, and who owns each item.

use std::collections::HashSet;
use std::collections::hash_map;
use std::sync::Arc;

use evergate_runtime::RawJson;
use indexmap::IndexMap;
use indexmap::map;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::splice::{append_renamed, find_name};
use super::{Excluded, Owner};
use crate::gateway::names::{Naming, public_name};
use crate::hash::HashMap;

/// An item's key and its text.
pub(super) type Entry<'a> = (&'a str, &'a RawJson);

/// Tools or prompts: items that get another name.
pub(super) struct NamedList {
    pub(super) text: ListText,
    pub(super) owners: HashMap<String, Owner>,
    pub(super) losses: Losses,
}

/// Resources or templates: items that keep their address.
pub(super) struct AddressedList {
    pub(super) text: ListText,
    pub(super) owners: IndexMap<String, Arc<str>>,
    pub(super) losses: Losses,
}

/// The text of a JSON array, and where its items begin and end.
#[derive(Default)]
pub(super) struct ListText {
    text: Vec<u8>,
    items: Vec<(usize, usize)>,
}

/// What came too late, each once.
pub(super) struct Losses {
    kind: &'static str,
    known: HashSet<(Arc<str>, String)>,
    excluded: Vec<Excluded>,
}

// === impl NamedList ===

impl NamedList {
    pub(super) fn new(kind: &'static str) -> Self {
        Self { text: ListText::default(), owners: HashMap::default(), losses: Losses::new(kind) }
    }

    pub(super) fn add<'a>(
        &mut self,
        naming: &Naming,
        server: &Arc<str>,
        items: impl IntoIterator<Item = Entry<'a>>,
        allows: &dyn Fn(&str, &str) -> bool,
    ) {
        for (_, raw) in items {
            // Not the key: that is the URI of an item that has both, and nobody calls a tool by it.
            let Some(name) = find_name(raw.as_bytes()) else { continue };
            let public = public_name(naming, server, &name.own);
            if !allows(&name.own, &public) {
                continue;
            }
            match self.owners.entry(public) {
                hash_map::Entry::Occupied(taken) => {
                    self.losses.add(server, taken.key(), &taken.get().server);
                }
                hash_map::Entry::Vacant(free) => {
                    self.text.push(|text| append_renamed(text, raw.as_bytes(), &name, free.key()));
                    free.insert(Owner { server: server.clone(), own: name.own.into() });
                }
            }
        }
    }
}

// === impl AddressedList ===

impl AddressedList {
    pub(super) fn new(kind: &'static str) -> Self {
        Self { text: ListText::default(), owners: IndexMap::new(), losses: Losses::new(kind) }
    }

    pub(super) fn add<'a>(
        &mut self,
        server: &Arc<str>,
        items: impl IntoIterator<Item = Entry<'a>>,
    ) {
        for (address, raw) in items {
            match self.owners.entry(address.to_owned()) {
                map::Entry::Occupied(taken) => self.losses.add(server, address, taken.get()),
                map::Entry::Vacant(free) => {
                    free.insert(server.clone());
                    self.text.push(|text| text.extend_from_slice(raw.as_bytes()));
                }
            }
        }
    }
}

// === impl ListText ===

impl ListText {
    fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.text.push(if self.items.is_empty() { b'[' } else { b',' });
        let start = self.text.len();
        write(&mut self.text);
        self.items.push((start, self.text.len()));
    }

    pub(super) fn finish(mut self) -> RawJson {
        if self.items.is_empty() {
            self.text.push(b'[');
        }
        self.text.push(b']');
        let built = RawJson::from_text(self.text);
        debug_assert!(built.is_ok(), "a list of valid items is a valid list");
        built.unwrap_or_else(|_| Value::Array(Vec::new()).into())
    }
}

/// A hash of what the lists hold. Some servers change the order at will, and no client should be told of that.
pub(super) fn digest<'a>(lists: impl IntoIterator<Item = &'a ListText>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for list in lists {
        let mut items: Vec<&[u8]> =
            list.items.iter().map(|(start, end)| &list.text[*start..*end]).collect();
        items.sort_unstable();
        // Lengths first, so that no two different sequences look the same.
        hash.update(items.len().to_le_bytes());
        for item in items {
            hash.update(item.len().to_le_bytes());
            hash.update(item);
        }
    }
    hash.finalize().into()
}

// === impl Losses ===

impl Losses {
    fn new(kind: &'static str) -> Self {
        Self { kind, known: HashSet::new(), excluded: Vec::new() }
    }

    fn add(&mut self, server: &Arc<str>, name: &str, lost_to: &Arc<str>) {
        if self.known.insert((server.clone(), name.to_owned())) {
            self.excluded.push(Excluded {
                server: server.clone(),
                kind: self.kind,
                name: name.to_owned(),
                lost_to: lost_to.clone(),
            });
        }
    }

    pub(super) fn take(&mut self) -> Vec<Excluded> {
        std::mem::take(&mut self.excluded)
    }
}
