//! Listing to the last page.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::Item;
use crate::connection::{Connection, Garbage};
use crate::lifecycle::Loss;
use crate::protocol::{self, RawJson, code};
use crate::settings::Checked;
use crate::transport::{Sign, TransportError};

/// A list method and the field its items come in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listing {
    pub(super) method: &'static str,
    pub(super) field: &'static str,
}

pub(super) const TOOLS: Listing = Listing { method: "tools/list", field: "tools" };
pub(super) const PROMPTS: Listing = Listing { method: "prompts/list", field: "prompts" };
pub(super) const RESOURCES: Listing = Listing { method: "resources/list", field: "resources" };
pub(super) const TEMPLATES: Listing =
    Listing { method: "resources/templates/list", field: "resourceTemplates" };

/// A listing that did not come to an end.
#[derive(Debug)]
pub(super) enum ListFailure {
    /// No usable answer.
    Failed,
    /// The connection itself is gone.
    Lost(Loss, TransportError),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    next_cursor: Option<String>,
    #[serde(flatten, borrow)]
    fields: std::collections::HashMap<&'a str, &'a RawValue>,
}

/// A server that pages for ever, or repeats a cursor, is stopped here.
const MAX_PAGES: usize = 1000;

/// All items of one list. A server that does not know the method has none.
pub(super) async fn list(
    connection: &Arc<Connection>,
    listing: Listing,
    settings: &Checked,
    garbage: &Garbage,
) -> Result<Vec<Item>, ListFailure> {
    let mut items = Vec::new();
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params =
            cursor.as_ref().map(|cursor| serde_json::json!({ "cursor": cursor }).to_string());
        let watch = connection.watch(None);
        let message =
            protocol::request(watch.id(), listing.method, params.as_deref().map(str::as_bytes));
        let Ok(sent) = timeout(settings.list_timeout, connection.send(message, &watch)).await
        else {
            garbage.add(format!("{} went unanswered", listing.method));
            return Err(ListFailure::Failed);
        };
        let answer = sent.map_err(|failure| match failure.sign {
            Sign::Lost(loss) => ListFailure::Lost(loss, failure.error),
            _ => ListFailure::Failed,
        })?;
        let result = match answer {
            Ok(result) => result,
            Err(error) if error.code == code::METHOD_NOT_FOUND => return Ok(items),
            Err(_) => return Err(ListFailure::Failed),
        };
        let body = result.to_bytes();
        let page: Page<'_> = serde_json::from_slice(&body).map_err(|_| ListFailure::Failed)?;
        let raw = page.fields.get(listing.field).ok_or(ListFailure::Failed)?;
        let raw: Vec<&RawValue> =
            serde_json::from_str(raw.get()).map_err(|_| ListFailure::Failed)?;
        for item in raw {
            match Item::read(RawJson::part_of(&body, item)) {
                Some(item) => items.push(item),
                None => garbage.add(format!("an unusable item in {}", listing.method)),
            }
        }
        cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
        match &cursor {
            None => return Ok(items),
            Some(next) if !seen.insert(next.clone()) => {
                garbage.add(format!("{} repeats a cursor", listing.method));
                return Ok(items);
            }
            Some(_) => {}
        }
    }
    garbage.add(format!("{} has more than {MAX_PAGES} pages", listing.method));
    Ok(items)
}
