// A client made with version 2 of the TypeScript SDK.

import { load } from "../packages.mjs";
import { answers, capabilities, clientInfo, count, era, notifications, serve, transport } from "./driver.mjs";

const sdk = "@modelcontextprotocol/client";
const { Client, StreamableHTTPClientTransport: Http, SSEClientTransport: Sse } = await load(sdk);
const { StdioClientTransport: Stdio } = await load(`${sdk}/stdio`);

const mode = { legacy: "legacy", auto: "auto", modern: { pin: "2026-07-28" } }[era];
const client = new Client(clientInfo("ts-v2"), { capabilities, versionNegotiation: { mode } });
for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
client.fallbackNotificationHandler = async ({ method }) => count(notifications[method] ?? method);

await serve(client, transport({ Http, Sse, Stdio }), ({ tool, args, timeout_ms, meta }) =>
    client.callTool(
        { name: tool, arguments: args, _meta: meta },
        { timeout: timeout_ms ?? 60_000, onprogress: () => count("progress"), resetTimeoutOnProgress: true },
    ),
);
