//! The lists.

use serde_json::{Value, json};

use super::{prompts, resources};
use crate::catalog::Catalog;

/// There every other time that [`Server::toggle`](crate::Server) is asked.
pub(super) const TOGGLED_TOOL: &str = "test_toggled_tool";
pub(super) const TOGGLED_PROMPT: &str = "test_toggled_prompt";

/// Tools that take no arguments. The first must do without any: the suite calls the first that it finds.
const WITHOUT_ARGUMENTS: [&str; 26] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_error_handling",
    "test_reconnection",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_trigger_resource_change",
    "test_trigger_resource_update",
];

pub(super) fn catalog() -> Catalog {
    Catalog {
        tools: tools(),
        prompts: prompts::list(),
        resources: resources::list(),
        templates: resources::templates(),
        fixtures: true,
        ..Catalog::default()
    }
}

fn tools() -> Vec<Value> {
    let string = json!({ "type": "string" });
    let no_arguments = json!({ "type": "object", "properties": {} });
    let mut tools: Vec<Value> =
        WITHOUT_ARGUMENTS.iter().map(|name| tool(name, &no_arguments)).collect();
    tools.push(tool("test_sampling", &with(&json!({ "prompt": string }), &["prompt"])));
    tools.push(tool("test_elicitation", &with(&json!({ "message": string }), &["message"])));
    let in_headers = json!({
        "region": { "type": "string", "x-mcp-header": "Region" },
        "priority": { "type": "integer", "x-mcp-header": "Priority" },
        "verbose": { "type": "boolean", "x-mcp-header": "Verbose" },
    });
    tools.push(tool("test_header_params", &with(&in_headers, &["region"])));
    tools.push(tool("json_schema_2020_12_tool", &schema_2020_12()));
    tools
}

pub(super) fn tool(name: &str, schema: &Value) -> Value {
    json!({
        "name": name,
        "description": format!("The fixture {name}"),
        "inputSchema": schema,
    })
}

fn with(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Words that not every reader of schemas knows, and that must come through all the same.
fn schema_2020_12() -> Value {
    let string = json!({ "type": "string" });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": string, "city": string },
            },
        },
        "type": "object",
        "properties": {
            "name": string,
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": string,
            "email": string,
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": {
            "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"],
        },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}
