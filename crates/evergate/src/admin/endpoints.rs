//! The paths of the API, as one table: the `OpenAPI` page is made from it, and a test asks each of them.

#[cfg(test)]
mod page;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::model;

/// One path and method.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) method: &'static str,
    /// As in `OpenAPI`: what is in braces is a parameter.
    pub(crate) path: &'static str,
    pub(crate) about: &'static str,
    /// Parameters after the question mark.
    query: &'static [(&'static str, &'static str)],
    /// What is sent.
    body: Option<Schema>,
    /// What comes back if all is well.
    pub(crate) status: u16,
    answer: Answer,
}

type Schema = fn(&mut SchemaGenerator) -> schemars::Schema;

#[derive(Debug, Clone, Copy)]
enum Answer {
    Json(Schema),
    /// Events of this kind, one after the other.
    Events(Schema),
    /// Any object.
    Anything,
}

const fn get(path: &'static str, answer: Schema, about: &'static str) -> Endpoint {
    let answer = Answer::Json(answer);
    Endpoint { method: "get", path, about, query: &[], body: None, status: 200, answer }
}

const fn act(path: &'static str, about: &'static str) -> Endpoint {
    Endpoint {
        method: "post",
        body: Some(of::<Empty>),
        status: 202,
        ..get(path, of::<model::Done>, about)
    }
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> schemars::Schema {
    generator.subschema_for::<T>()
}

/// Nothing needs saying, but a body must be sent, as JSON: pages of other origins cannot do that.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Empty {}

const AFTER: (&str, &str) = ("after", "only what comes after this number");

#[rustfmt::skip]
pub(crate) const ENDPOINTS: &[Endpoint] = &[
    get("/api/v1/gateway", of::<model::GatewayReport>, "The gateway itself"),
    get("/api/v1/servers", of::<model::ServerList>, "All servers, by name"),
    get("/api/v1/servers/{server}", of::<model::ServerReport>, "One server"),
    act("/api/v1/servers/{server}/restart", "Drop its connection, or end its process, and start anew"),
    act("/api/v1/servers/{server}/enable", "Switch it on, until the configuration says otherwise"),
    act("/api/v1/servers/{server}/disable", "Switch it off, until the configuration says otherwise"),
    act("/api/v1/servers/{server}/refresh", "List anew what it offers"),
    get("/api/v1/servers/{server}/tools", of::<model::Catalogue>, "Its tools with their schemas"),
    get("/api/v1/servers/{server}/prompts", of::<model::Catalogue>, "Its prompts"),
    get("/api/v1/servers/{server}/resources", of::<model::Catalogue>, "Its resources"),
    get("/api/v1/servers/{server}/resource_templates", of::<model::Catalogue>, "Its resource templates"),
    Endpoint { query: &[AFTER], ..get("/api/v1/servers/{server}/logs", of::<model::ServerLogs>, "What its process wrote to standard error last") },
    Endpoint { method: "post", body: Some(of::<model::TryCall>), ..get("/api/v1/servers/{server}/call", of::<model::TriedCall>, "Call one of its tools, to see whether it works") },
    Endpoint {
        query: &[("server", "only calls to this server"), ("outcome", "only those that ended so"), ("limit", "at most so many; 100 if not said")],
        ..get("/api/v1/calls", of::<model::CallList>, "Recent calls, the newest first")
    },
    get("/api/v1/sessions", of::<model::SessionList>, "Clients with a session, the newest first"),
    Endpoint {
        query: &[AFTER], answer: Answer::Events(of::<model::Happening>),
        ..get("/api/v1/events", of::<model::Happening>, "What happens, as server-sent events; `Last-Event-ID` is understood too")
    },
    get("/api/v1/log-level", of::<model::LogLevel>, "What is logged"),
    Endpoint { method: "put", body: Some(of::<model::LogLevel>), ..get("/api/v1/log-level", of::<model::LogLevel>, "Log more, or less, until the next restart") },
    Endpoint { answer: Answer::Anything, ..get("/api/v1/openapi.json", of::<Empty>, "This description") },
];

/// The description of the API, in `OpenAPI` 3.1.
pub(crate) fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let problem = of::<model::Problem>(&mut generator).to_value();
    let mut paths = Map::new();
    for endpoint in ENDPOINTS {
        let methods = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        methods[endpoint.method] = endpoint.describe(&mut generator, &problem);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Evergate admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Needs a key with the scope `admin` where keys are configured. Times are milliseconds of \
                            Unix time, lengths of time are milliseconds. New fields may appear at any time.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "security": [{ "key": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            "schemas": generator.take_definitions(true),
        },
    })
}

// === impl Endpoint ===

impl Endpoint {
    fn describe(&self, generator: &mut SchemaGenerator, problem: &Value) -> Value {
        let names = self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        let in_path = names.map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        });
        let in_query = self.query.iter().map(|(name, about)| {
            json!({ "name": name, "in": "query", "description": about, "schema": { "type": "string" } })
        });
        let content = match self.answer {
            Answer::Json(schema) => {
                json!({ "application/json": { "schema": schema(generator) } })
            }
            Answer::Events(schema) => {
                json!({ "text/event-stream": { "schema": schema(generator) } })
            }
            Answer::Anything => json!({ "application/json": { "schema": { "type": "object" } } }),
        };
        let mut described = json!({
            "summary": self.about,
            "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
            "responses": {
                self.status.to_string(): { "description": "All is well", "content": content },
                "default": {
                    "description": "It was not done",
                    "content": { "application/json": { "schema": problem } },
                },
            },
        });
        if let Some(body) = self.body {
            described["requestBody"] = json!({
                "required": true,
                "content": { "application/json": { "schema": body(generator) } },
            });
        }
        described
    }
}
