// A client made with version 1 of the TypeScript SDK.

import { load } from "../packages.mjs";
import { answers, capabilities, clientInfo, count, era, notifications, serve, transport } from "./driver.mjs";

if (era !== "legacy") throw new Error("this SDK knows revisions with a handshake only");

const sdk = "@modelcontextprotocol/sdk";
const { Client } = await load(`${sdk}/client/index.js`);
const { StreamableHTTPClientTransport: Http } = await load(`${sdk}/client/streamableHttp.js`);
const { SSEClientTransport: Sse } = await load(`${sdk}/client/sse.js`);
const { StdioClientTransport: Stdio } = await load(`${sdk}/client/stdio.js`);
const types = await load(`${sdk}/types.js`);

const client = new Client(clientInfo("ts-v1"), { capabilities });
const schemas = [
    types.CreateMessageRequestSchema,
    types.ElicitRequestSchema,
    types.ListRootsRequestSchema,
];
for (const schema of schemas) client.setRequestHandler(schema, answers[schema.shape.method.value]);
client.fallbackNotificationHandler = async ({ method }) => count(notifications[method] ?? method);

await serve(client, transport({ Http, Sse, Stdio }), ({ tool, args, timeout_ms }) =>
    client.callTool({ name: tool, arguments: args }, undefined, {
        timeout: timeout_ms ?? 60_000,
        onprogress: () => count("progress"),
        resetTimeoutOnProgress: true,
    }),
);
