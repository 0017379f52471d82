// A long-lived client for the fault matrix, made with version 1 of the TypeScript SDK.
//
// It does what standard input says, one JSON command a line, several at a time, and keeps its client until it is told
// to connect again. What it was told about the connection it passes on as events; what to make of that is the runner's
// business (crates/evergate-proof/src/faults/client.rs).
//
//   {"id":1,"op":"connect","kind":"http","url":"http://…"}      also "sse"; "stdio" with command, args, env
//   {"id":2,"op":"call","tool":"echo","args":{…},"timeout_ms":30000}
//   {"id":3,"op":"list","timeout_ms":30000}
//   {"id":4,"op":"close"}
//
// Every command gets {"id":…,"ok":true,"result":…} or {"id":…,"ok":false,"error":{…}}. Unasked:
//   {"event":"closed","client":1}                        the SDK says that the connection is gone
//   {"event":"notification","method":"…","client":1}

import { createInterface } from "node:readline";

import { load } from "../packages.mjs";

const sdk = "@modelcontextprotocol/sdk";
const { Client } = await load(`${sdk}/client/index.js`);
const { StreamableHTTPClientTransport } = await load(`${sdk}/client/streamableHttp.js`);
const { SSEClientTransport } = await load(`${sdk}/client/sse.js`);
const { StdioClientTransport } = await load(`${sdk}/client/stdio.js`);

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// The SDK leaves some failures of its background work to nobody. A host outlives them.
process.on("unhandledRejection", () => {});
process.on("uncaughtException", () => {});

let serial = 0;
let client;

function transport({ kind, url, command, args, env }) {
    switch (kind) {
        case "http":
            return new StreamableHTTPClientTransport(new URL(url));
        case "sse":
            return new SSEClientTransport(new URL(url));
        default:
            return new StdioClientTransport({ command, args, env: { ...process.env, ...env }, stderr: "ignore" });
    }
}

const operations = {
    async connect(command) {
        const old = client;
        client = undefined;
        // A host that gives a connection up does not wait for it to say goodbye.
        old?.close().catch(() => {});
        const number = ++serial;
        const fresh = new Client({ name: "evergate-fault-client", version: "1.0.0" }, { capabilities: {} });
        fresh.onerror = () => {};
        fresh.onclose = () => say({ event: "closed", client: number });
        fresh.fallbackNotificationHandler = async ({ method }) =>
            say({ event: "notification", method, client: number });
        await fresh.connect(transport(command), { timeout: command.timeout_ms });
        client = fresh;
        return { client: number, server: fresh.getServerVersion() };
    },
    call: ({ tool, args, timeout_ms }) =>
        connected().callTool({ name: tool, arguments: args }, undefined, { timeout: timeout_ms }),
    async list({ timeout_ms }) {
        const tools = [];
        let cursor;
        do {
            const page = await connected().listTools(cursor ? { cursor } : {}, { timeout: timeout_ms });
            tools.push(...page.tools.map(({ name }) => name));
            cursor = page.nextCursor;
        } while (cursor);
        return { tools };
    },
    async close() {
        // The other side may be gone already; then there is nobody to say goodbye to.
        const patience = new Promise((done) => setTimeout(done, 3000));
        const goodbye = async () => {
            await client?.transport?.terminateSession?.().catch(() => {});
            await client?.close().catch(() => {});
        };
        await Promise.race([goodbye(), patience]);
        setImmediate(() => process.exit(0));
        return {};
    },
};

function connected() {
    if (!client) throw new Error("Not connected");
    return client;
}

/** Everything an error says, its causes included: a host can only show what is there. */
function told(error) {
    const causes = [];
    for (let cause = error?.cause; cause && causes.length < 4; cause = cause.cause)
        causes.push(cause.code ?? cause.message ?? String(cause));
    return { name: error?.name, code: error?.code, message: error?.message ?? String(error), data: error?.data, causes };
}

const lines = createInterface({ input: process.stdin });
lines.on("line", async (line) => {
    const command = JSON.parse(line);
    try {
        say({ id: command.id, ok: true, result: await operations[command.op](command) });
    } catch (error) {
        say({ id: command.id, ok: false, error: told(error) });
    }
});
lines.on("close", () => process.exit(0));
