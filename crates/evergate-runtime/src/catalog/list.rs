//! Listing to the last page.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::{CacheHint, Item};
use crate::connection::{Asking, Connection, Garbage};
use crate::error::chain;
use crate::lifecycle::Loss;
use crate::protocol::{RawJson, code};
use crate::settings::Checked;
use crate::transport::{Link, Sign, TransportError};

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
#[derive(Debug, thiserror::Error)]
pub(super) enum ListFailure {
    /// No usable answer.
    #[error("{0}")]
    Failed(String),
    /// The server answered, but with an error: no sign of illness, only of this one list.
    #[error("{0}")]
    Refused(String),
    /// The connection itself is gone.
    #[error("the connection was lost")]
    Lost(Loss, #[source] TransportError),
}

/// A server that pages for ever, or repeats a cursor, is stopped here.
const MAX_PAGES: usize = 1000;
/// The pages of one list together may be as large as this many of the largest messages, and take as long as this many of
/// the slowest.
const PAGES_WORTH: u32 = 4;

/// All items of one list, and how long they may be kept if the server says so. A server that does not know the method has none.
pub(super) async fn list(
    connection: &Arc<Connection>,
    listing: Listing,
    settings: &Checked,
    garbage: &Garbage,
) -> Result<(Vec<Item>, Option<CacheHint>), ListFailure> {
    let modern = connection.peer().version.is_modern();
    let has_headers = modern && matches!(connection.link(), Link::Http(_));
    let mut hint: Option<CacheHint> = None;
    let mut items = Vec::new();
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
    let failed = |what: String| ListFailure::Failed(format!("{}: {what}", listing.method));
    let mut room = settings.max_message_bytes.saturating_mul(PAGES_WORTH as usize);
    let until = Instant::now() + settings.list_timeout * PAGES_WORTH;
    for _ in 0..MAX_PAGES {
        if Instant::now() > until {
            return Err(failed("its pages take too long".into()));
        }
        let params =
            cursor.as_ref().map(|cursor| serde_json::json!({ "cursor": cursor }).to_string());
        let watch = connection.watch(None);
        let params = params.as_deref().map(str::as_bytes);
        let message = connection
            .write(&watch, Asking::plain(listing.method, params))
            .map_err(|error| failed(error.to_string()))?;
        let sent = timeout(settings.list_timeout, connection.ask(message, &watch)).await;
        let Ok(sent) = sent else {
            return Err(failed(format!("no answer within {:?}", settings.list_timeout)));
        };
        let answer = sent.map_err(|failure| match failure.sign {
            Sign::Lost(loss) => ListFailure::Lost(loss, failure.error),
            _ => failed(chain(&failure.error)),
        })?;
        let result = match answer {
            Ok(result) => result,
            Err(error) if error.code == code::METHOD_NOT_FOUND => return Ok((items, hint)),
            Err(error) => {
                return Err(ListFailure::Refused(format!("{}: {error}", listing.method)));
            }
        };
        let body = result.to_bytes();
        room =
            room.checked_sub(body.len()).ok_or_else(|| failed("its pages are too large".into()))?;
        let unusable = |_| failed("unusable answer".into());
        let page: HashMap<String, &RawValue> = serde_json::from_slice(&body).map_err(unusable)?;
        if modern {
            let said = CacheHint::of_page(&page);
            hint = Some(hint.map_or(said, |before| before.and(said)));
        }
        let list = page.get(listing.field).map_or("", |list| list.get());
        let list: Vec<&RawValue> = serde_json::from_str(list).map_err(unusable)?;
        for item in list {
            match Item::read(RawJson::part_of(&body, item)) {
                Some(mut item) => match item.read_headers() {
                    Err(error) if has_headers => {
                        garbage.add(format!("the tool {} is left out: {error}", item.key));
                    }
                    _ => items.push(item),
                },
                None => garbage.add(format!("an unusable item in {}", listing.method)),
            }
        }
        let next = page.get("nextCursor").and_then(|next| serde_json::from_str(next.get()).ok());
        cursor = next.filter(|next: &String| !next.is_empty());
        match &cursor {
            None => return Ok((items, hint)),
            Some(next) if !seen.insert(next.clone()) => {
                garbage.add(format!("{} repeats a cursor", listing.method));
                return Ok((items, hint));
            }
            Some(_) => {}
        }
    }
    garbage.add(format!("{} has more than {MAX_PAGES} pages", listing.method));
    Ok((items, hint))
}
