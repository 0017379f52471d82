// A server for the tests of the dashboard: one tool whose schema has a field of every kind and which returns its arguments
// with a picture; or, with `--hostile`, one that writes wherever it can what would take over a careless page. No packages.

import { createInterface } from "node:readline";

const hostile = process.argv.includes("--hostile");
const long = "x".repeat(10_000);
const MARKUP = `<script>window.pwned=1</script><img src=x onerror="window.pwned=1"><a href="javascript:window.pwned=1">click</a>`;
/** Turns around everything after it, if it gets out of its place. */
const TURNED = "\u202Egnp.exe\u202E שלום عربي \u2067";
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

const forms = {
  name: "form",
  title: "A field of every kind",
  description: "Returns what it was given.",
  annotations: { readOnlyHint: true },
  inputSchema: {
    type: "object",
    required: ["text", "whole"],
    properties: {
      text: { type: "string", description: "Any text.", maxLength: 100 },
      whole: { type: "integer", minimum: 1, maximum: 9_007_199_254_740_993 },
      part: { type: "number", default: 0.5 },
      yes: { type: "boolean" },
      one: { enum: ["first", "second", 3] },
      list: { type: "array", items: { type: "string" } },
      thing: { type: "object" },
      maybe: { type: ["string", "null"] },
    },
  },
};

const tools = hostile
  ? [
      { name: MARKUP, title: MARKUP, description: `${MARKUP}\n${TURNED}`, inputSchema: { type: "object", properties: { [MARKUP]: { type: "string", description: MARKUP, default: MARKUP } } } },
      { name: "long", description: long, inputSchema: { type: "object", properties: { [long]: { type: "string", description: long }, pattern: { type: "string", pattern: "(a+)+$" } } } },
      { name: TURNED, description: TURNED, inputSchema: { type: "object" } },
      { name: `unbroken_${"y".repeat(3000)}`, description: 17, annotations: "none", inputSchema: { type: "object", properties: "none", required: 5 } },
    ]
  : [forms];

if (hostile) {
  for (const line of [MARKUP, TURNED, long, "\u001b[31mred\u001b[0m \u0007bell", "\u001b]0;title\u0007after"]) process.stderr.write(`${line}\n`);
}

function result({ method, params }) {
  switch (method) {
    case "initialize":
      return { protocolVersion: params.protocolVersion, capabilities: { tools: {}, prompts: {} }, serverInfo: { name: hostile ? MARKUP : "forms", version: "1" } };
    case "tools/list":
      return { tools };
    case "prompts/list":
      return { prompts: hostile ? [{ name: MARKUP, description: TURNED, arguments: [{ name: MARKUP }] }] : [] };
    case "tools/call":
      return hostile
        ? { content: [{ type: "text", text: MARKUP }, { type: "text", text: TURNED + long }, { type: "image", mimeType: `image/png" onerror="window.pwned=1`, data: MARKUP }, { type: MARKUP }, null, { type: "resource", resource: { uri: MARKUP, text: MARKUP } }], isError: true, structuredContent: { [MARKUP]: MARKUP } }
        : { content: [{ type: "text", text: JSON.stringify(params.arguments) }, { type: "image", mimeType: "image/png", data: PIXEL }] };
    default:
      return {};
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.id === undefined || message.method === undefined) continue;
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id: message.id, result: result(message) })}\n`);
}
