//! All sources as one list: what is the same is one server, what only has the same name gets another.

use super::Server;

pub(super) fn merge(all: Vec<Server>) -> Vec<Server> {
    let mut merged: Vec<Server> = Vec::with_capacity(all.len());
    for mut server in all {
        let same_name = merged.iter().position(|other| other.name == server.name);
        let twin = merged
            .iter_mut()
            .find(|other| other.called() == server.called() && other.entry == server.entry);
        if let Some(twin) = twin {
            twin.mapped.push(format!("is the same in {} at {}", server.file, server.path));
            continue;
        }
        if let Some(first) = same_name {
            let other = format!("{} at {}", merged[first].file, merged[first].path);
            let name = free_name(&server, &merged);
            let note = format!("was called {}, as another server of {other} is", server.name);
            server.mapped.insert(0, note);
            server.name = name;
        }
        merged.push(server);
    }
    merged
}

/// The name with the client's behind it, and with a number if that is taken too.
fn free_name(server: &Server, taken: &[Server]) -> String {
    let stem: String = server.name.chars().take(40).collect();
    let base = format!("{stem}-{}", server.client.word());
    let numbered = (2..).map(|n| format!("{base}-{n}"));
    let is_free = |name: &String| taken.iter().all(|other| other.name != *name);
    std::iter::once(base.clone()).chain(numbered).find(is_free).unwrap_or(base)
}

// === impl Server ===

impl Server {
    /// What its source calls it.
    fn called(&self) -> String {
        match self.path.steps().last() {
            Some(super::entry::Step::Key(key)) => key.clone(),
            _ => self.name.clone(),
        }
    }
}
