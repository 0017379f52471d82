//! A server's catalog as text, so that it outlives the process that listed it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Item, ServerCatalog};
use crate::protocol::RawJson;

/// What is not a saved catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCatalog {
    /// It lacks a field, or one holds something else than it should.
    #[error("not a saved catalog, at line {line}, column {column}")]
    Shape {
        /// Where reading ended, counted from 1.
        line: usize,
        /// The same within the line.
        column: usize,
    },
    /// Something in a list that has no name of any kind.
    #[error("an item of {list:?} has no name")]
    Item {
        /// The list.
        list: &'static str,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToSave<'a> {
    tools: Vec<&'a RawJson>,
    prompts: Vec<&'a RawJson>,
    resources: Vec<&'a RawJson>,
    resource_templates: Vec<&'a RawJson>,
    capabilities: &'a RawJson,
    server_info: &'a RawJson,
    instructions: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Saved<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow)]
    prompts: Vec<&'a RawValue>,
    #[serde(borrow)]
    resources: Vec<&'a RawValue>,
    #[serde(borrow)]
    resource_templates: Vec<&'a RawValue>,
    #[serde(borrow)]
    capabilities: &'a RawValue,
    #[serde(borrow)]
    server_info: &'a RawValue,
    instructions: Option<String>,
}

// === impl ServerCatalog ===

impl ServerCatalog {
    /// Everything but the generation, which means nothing to another process. Items are written as the server wrote
    /// them.
    pub fn to_saved(&self) -> RawJson {
        fn raw(items: &[Item]) -> Vec<&RawJson> {
            items.iter().map(|item| &item.raw).collect()
        }
        let saved = ToSave {
            tools: raw(&self.tools),
            prompts: raw(&self.prompts),
            resources: raw(&self.resources),
            resource_templates: raw(&self.resource_templates),
            capabilities: &self.capabilities,
            server_info: &self.server_info,
            instructions: self.instructions.as_deref(),
        };
        // Raw JSON, strings and lists always serialize.
        RawJson::from_value(&saved).unwrap_or_else(|_| RawJson::empty_object())
    }

    /// Reads what [`Self::to_saved`] wrote.
    pub fn from_saved(saved: &RawJson) -> Result<Self, InvalidCatalog> {
        let text = saved.to_bytes();
        let fields: Saved<'_> = serde_json::from_slice(&text).map_err(|error| {
            InvalidCatalog::Shape { line: error.line(), column: error.column() }
        })?;
        let mut tools = items(&text, "tools", &fields.tools)?;
        for tool in &mut tools {
            // One that cannot be is found out when it is listed again.
            let _ = tool.read_headers();
        }
        let lists = [
            tools,
            items(&text, "prompts", &fields.prompts)?,
            items(&text, "resources", &fields.resources)?,
            items(&text, "resourceTemplates", &fields.resource_templates)?,
        ];
        let capabilities = RawJson::part_of(&text, fields.capabilities);
        let server_info = RawJson::part_of(&text, fields.server_info);
        Ok(Self::new(None, lists, capabilities, server_info, fields.instructions))
    }
}

fn items(
    text: &Bytes,
    list: &'static str,
    items: &[&RawValue],
) -> Result<Vec<Item>, InvalidCatalog> {
    let read = |item: &&RawValue| {
        Item::read(RawJson::part_of(text, item)).ok_or(InvalidCatalog::Item { list })
    };
    items.iter().map(read).collect()
}
