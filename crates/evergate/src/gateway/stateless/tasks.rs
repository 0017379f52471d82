//! Tasks (the extension `io.modelcontextprotocol/tasks`): a server may answer a call with the name of a task, and is asked
//! later how far it is. Where a client sees many servers the name says whose it is.

use std::sync::Arc;

use evergate_runtime::RawJson;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::gateway::client::{Client, Scope};
use crate::gateway::{Gateway, params};

/// Between the server's name and its own name for the task.
const BETWEEN: char = ':';

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct TaskFields<'a> {
    #[serde(borrow)]
    task_id: Option<&'a RawValue>,
    #[serde(borrow)]
    result_type: Option<&'a RawValue>,
}

/// Whether a method is about a task.
pub(in crate::gateway) fn is_about_one(method: &str) -> bool {
    matches!(method, "tasks/get" | "tasks/update" | "tasks/cancel")
}

/// A result, with the name under which this client can ask for the task that it is, or that it was asked `about`.
pub(in crate::gateway) fn published(
    client: &Client,
    server: &str,
    about: bool,
    result: RawJson,
) -> RawJson {
    // Most are about none, which can be told without reading them.
    if client.scope != Scope::All || memmem::find(result.as_bytes(), b"\"taskId\"").is_none() {
        return result;
    }
    let fields = TaskFields::of(&result);
    let is_task = fields.result_type.is_some_and(|kind| kind.get() == "\"task\"");
    let own = fields.task_id.filter(|_| is_task || about);
    let Some((own, name)) = own.and_then(|own| Some((own, params::text(own)?))) else {
        return result;
    };
    params::with_text(&result, own, &format!("{server}{BETWEEN}{name}"))
}

// === impl Gateway ===

impl Gateway {
    /// Whose task it is, and the same params with the server's own name for it.
    pub(in crate::gateway) fn task_owner(
        &self,
        client: &Client,
        asked: &RawJson,
    ) -> Option<(Arc<str>, RawJson)> {
        let id = TaskFields::of(asked).task_id?;
        if let Scope::One(server) = &client.scope {
            return Some((server.clone(), asked.clone()));
        }
        let name = params::text(id)?;
        let config = self.config();
        let fitting = config.servers.keys().filter_map(|server| {
            let own = name.strip_prefix(server.as_str())?.strip_prefix(BETWEEN)?;
            Some((Arc::from(server.as_str()), own))
        });
        // Names of servers may contain anything: the longest is meant.
        let (server, own) = fitting.max_by_key(|(server, _): &(Arc<str>, &str)| server.len())?;
        Some((server, params::with_text(asked, id, own)))
    }
}

// === impl TaskFields ===

impl<'a> TaskFields<'a> {
    fn of(object: &'a RawJson) -> Self {
        serde_json::from_slice(object.as_bytes()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use crate::front::keys::Caller;
    use crate::gateway::client::Kind;

    use super::*;

    #[test]
    fn a_task_gets_the_name_of_its_server_where_there_are_many() {
        let client = |scope| {
            Client::stateless(
                [0; 16],
                Caller::anonymous(),
                scope,
                Kind::Principal { is_known: true, owner: [0; 32] },
                None,
            )
        };
        let result = |text: &str| RawJson::from_text(text.to_owned()).unwrap();
        let task = r#"{"resultType":"task","taskId":"7","status":"working"}"#;
        let (all, one) = (client(Scope::All), client(Scope::One("a".into())));
        let published = |client: &Client, text: &str| {
            published(client, "a", false, result(text)).as_str().to_owned()
        };
        assert_eq!(
            published(&all, task),
            r#"{"resultType":"task","taskId":"a:7","status":"working"}"#
        );
        assert_eq!(published(&one, task), task);
        for other in [r#"{"content":[{"taskId":"7"}]}"#, r#"{"content":[],"taskId":"7"}"#] {
            assert_eq!(published(&all, other), other);
        }
    }
}
