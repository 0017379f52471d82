// A long-lived client for the fault matrix, made with the TypeScript SDK: version 1 for revisions with a handshake,
// version 2 for 2026-07-28.
//
// It does what standard input says, one JSON command a line, several at a time, and keeps its client until it is told
// to connect again. What it was told about the connection it passes on as events; what to make of that is the runner's
// business (crates/evergate-proof/src/faults/client.rs).
//
//   {"id":1,"op":"connect","kind":"http","url":"http://…"}      also "sse"; "stdio" with command, args, env;
//                                                               "modern":true for 2026-07-28 and nothing else
//   {"id":2,"op":"call","tool":"echo","args":{…},"timeout_ms":30000}
//   {"id":3,"op":"list","timeout_ms":30000}
//   {"id":4,"op":"listen","timeout_ms":30000}                   modern only: asks to be told of changes
//   {"id":5,"op":"close"}
//
// Every command gets {"id":…,"ok":true,"result":…} or {"id":…,"ok":false,"error":{…}}. Unasked:
//   {"event":"closed","client":1}                        the SDK says that the connection is gone
//   {"event":"notification","method":"…","client":1}
//   {"event":"unheard","client":1}                       what it listens on has ended

import { createInterface } from "node:readline";

import { load } from "../packages.mjs";

const sdk = "@modelcontextprotocol/sdk";
const { Client } = await load(`${sdk}/client/index.js`);
const { StreamableHTTPClientTransport } = await load(`${sdk}/client/streamableHttp.js`);
const { SSEClientTransport } = await load(`${sdk}/client/sse.js`);
const { StdioClientTransport } = await load(`${sdk}/client/stdio.js`);
const modern = await load("@modelcontextprotocol/client");
const { StdioClientTransport: ModernStdioTransport } = await load("@modelcontextprotocol/client/stdio");

const versionNegotiation = { mode: { pin: "2026-07-28" } };

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// The SDK leaves some failures of its background work to nobody. A host outlives them.
process.on("unhandledRejection", () => {});
process.on("uncaughtException", () => {});

let serial = 0;
let isModern = false;
let client;

function transport({ kind, url, command, args, env, modern: isModern }) {
    const Http = isModern ? modern.StreamableHTTPClientTransport : StreamableHTTPClientTransport;
    const Stdio = isModern ? ModernStdioTransport : StdioClientTransport;
    switch (kind) {
        case "http":
            return new Http(new URL(url));
        case "sse":
            return new SSEClientTransport(new URL(url));
        default:
            return new Stdio({ command, args, env: { ...process.env, ...env }, stderr: "ignore" });
    }
}

const operations = {
    async connect(command) {
        const old = client;
        client = undefined;
        // A host that gives a connection up does not wait for it to say goodbye.
        old?.close().catch(() => {});
        const number = ++serial;
        const info = { name: "evergate-fault-client", version: "1.0.0" };
        const fresh = command.modern
            ? new modern.Client(info, { capabilities: {}, versionNegotiation })
            : new Client(info, { capabilities: {} });
        isModern = command.modern;
        fresh.onerror = () => {};
        fresh.onclose = () => say({ event: "closed", client: number });
        fresh.fallbackNotificationHandler = async ({ method }) =>
            say({ event: "notification", method, client: number });
        await fresh.connect(transport(command), { timeout: command.timeout_ms });
        client = fresh;
        return { client: number, server: fresh.getServerVersion() };
    },
    call({ tool, args, timeout_ms }) {
        const [call, options] = [{ name: tool, arguments: args }, { timeout: timeout_ms }];
        return isModern ? connected().callTool(call, options) : connected().callTool(call, undefined, options);
    },
    async listen({ timeout_ms }) {
        const number = serial;
        const subscription = await connected().listen({ toolsListChanged: true }, { timeout: timeout_ms });
        void subscription.closed.then((how) => how === "local" || say({ event: "unheard", client: number }));
        return subscription.honoredFilter;
    },
    async list({ timeout_ms }) {
        const tools = [];
        let cursor;
        do {
            // What the client keeps by itself would hide what happens.
            const options = { timeout: timeout_ms, ...(isModern && { cacheMode: "refresh" }) };
            const page = await connected().listTools(cursor ? { cursor } : {}, options);
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
