// The server that the conformance suite is run against: conformance_fixtures.mjs on version 1 of the
// TypeScript SDK, over streamable HTTP with sessions and resumable streams. The port is in PORT.

import { randomUUID } from "node:crypto";

import { load } from "../packages.mjs";
import { prompts, read, resources, templates, toolList, tools } from "./conformance_fixtures.mjs";

const sdk = "@modelcontextprotocol/sdk";
const { Server } = await load(`${sdk}/server/index.js`);
const { StreamableHTTPServerTransport } = await load(`${sdk}/server/streamableHttp.js`);
const { createMcpExpressApp } = await load(`${sdk}/server/express.js`);
const types = await load(`${sdk}/types.js`);

const RESOURCE_NOT_FOUND = -32002;

function makeServer() {
    const capabilities = {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        logging: {},
        completions: {},
    };
    const info = { name: "evergate-conformance-fixtures", version: "1.0.0" };
    const server = new Server(info, { capabilities });
    const on = (schema, answer) => server.setRequestHandler(schema, answer);

    on(types.ListToolsRequestSchema, () => ({ tools: toolList }));
    on(types.CallToolRequestSchema, async ({ params }, extra) => {
        const tool = tools[params.name];
        if (!tool) throw new types.McpError(types.ErrorCode.InvalidParams, `Tool ${params.name} not found`);
        return tool.run(params.arguments ?? {}, talk(extra));
    });
    on(types.ListResourcesRequestSchema, () => ({ resources }));
    on(types.ListResourceTemplatesRequestSchema, () => ({ resourceTemplates: templates }));
    on(types.ReadResourceRequestSchema, ({ params: { uri } }) => {
        const contents = read(uri);
        if (!contents) throw new types.McpError(RESOURCE_NOT_FOUND, "Resource not found", { uri });
        return { contents };
    });
    on(types.SubscribeRequestSchema, () => ({}));
    on(types.UnsubscribeRequestSchema, () => ({}));
    on(types.ListPromptsRequestSchema, () => ({
        prompts: Object.entries(prompts).map(([name, prompt]) => ({
            name,
            description: `The fixture ${name}`,
            arguments: prompt.arguments ?? [],
        })),
    }));
    on(types.GetPromptRequestSchema, ({ params }) => {
        const prompt = prompts[params.name];
        if (!prompt) throw new types.McpError(types.ErrorCode.InvalidParams, `Prompt ${params.name} not found`);
        return { messages: prompt.messages(params.arguments ?? {}) };
    });
    on(types.CompleteRequestSchema, () => ({ completion: { values: [], total: 0, hasMore: false } }));
    return server;
}

/** What a tool may say to the client while it runs, on the stream of its own call. */
const talk = ({ sendNotification, sendRequest, closeSSEStream, _meta }) => ({
    log: (data) =>
        sendNotification({ method: "notifications/message", params: { level: "info", logger: "fixtures", data } }),
    progress: async (progress, total) => {
        const progressToken = _meta?.progressToken;
        if (progressToken === undefined) return;
        await sendNotification({ method: "notifications/progress", params: { progressToken, progress, total } });
    },
    sample: (params) => sendRequest({ method: "sampling/createMessage", params }, types.CreateMessageResultSchema),
    elicit: (params) => sendRequest({ method: "elicitation/create", params }, types.ElicitResultSchema),
    disconnect: () => closeSSEStream?.(),
});

/** Keeps every event of a session, so that a client may come back for what it missed. */
class Events {
    #events = [];

    async storeEvent(streamId, message) {
        const eventId = `${this.#events.length}`;
        this.#events.push({ streamId, message });
        return eventId;
    }

    async getStreamIdForEventId(eventId) {
        return this.#events[Number(eventId)]?.streamId;
    }

    async replayEventsAfter(lastEventId, { send }) {
        const streamId = await this.getStreamIdForEventId(lastEventId);
        for (const [index, event] of this.#events.entries()) {
            const missed = index > Number(lastEventId) && event.streamId === streamId;
            // An event without a method or an answer only gave the stream its first id.
            if (missed && Object.keys(event.message).length > 0) await send(`${index}`, event.message);
        }
        return streamId;
    }
}

const sessions = new Map();

async function begin() {
    const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: new Events(),
        retryInterval: 500,
        onsessioninitialized: (id) => sessions.set(id, transport),
        onsessionclosed: (id) => sessions.delete(id),
    });
    await makeServer().connect(transport);
    return transport;
}

const app = createMcpExpressApp({ host: "127.0.0.1" });
app.all("/mcp", async (request, response) => {
    const id = request.headers["mcp-session-id"];
    const begins = id === undefined && request.method === "POST" && types.isInitializeRequest(request.body);
    const transport = begins ? await begin() : sessions.get(id);
    if (transport) return transport.handleRequest(request, response, request.body);
    const [status, message] = id ? [404, "Session not found"] : [400, "No session id"];
    return response.status(status).json({ jsonrpc: "2.0", id: null, error: { code: -32001, message } });
});
app.listen(Number(process.env.PORT), "127.0.0.1");
