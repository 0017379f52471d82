// What the drivers of both TypeScript SDKs share: the little language in which the tests talk to a
// client. README.md beside this file describes it.

import { createInterface } from "node:readline";

export const capabilities = { sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } };

export const clientInfo = (name) => ({ name: `evergate-peer-${name}`, version: "1.0.0" });

const events = {};

export const count = (event) => {
    events[event] = (events[event] ?? 0) + 1;
};

/** The fixed answers to what servers ask, by method. */
export const answers = {
    "sampling/createMessage": () => {
        count("sampling");
        return { model: "fixed", role: "assistant", content: { type: "text", text: "sampled" } };
    },
    "elicitation/create": () => {
        count("elicitation");
        return { action: "accept", content: { name: "Ada" } };
    },
    "roots/list": () => {
        count("roots");
        return { roots: [{ uri: "file:///evergate", name: "evergate" }] };
    },
};

/** The event that counts a notification, by method. Progress is counted by each call. */
export const notifications = {
    "notifications/tools/list_changed": "tools_changed",
    "notifications/prompts/list_changed": "prompts_changed",
    "notifications/resources/list_changed": "resources_changed",
    "notifications/resources/updated": "resource_updated",
    "notifications/message": "log_message",
};

const commandLine = process.argv.slice(2);

/** The revisions to speak: `legacy` ones have a handshake, `modern` ones have none, `auto` finds out. */
export const era = commandLine[0] === "--era" ? commandLine.splice(0, 2)[1] : "legacy";

/** Makes the transport that the command line asks for, which also counts the handshakes it sends. */
export function transport({ Http, Sse, Stdio }) {
    const [kind, target, ...rest] = commandLine;
    const made = {
        "--url": () => new Http(new URL(target)),
        "--sse": () => new Sse(new URL(target)),
        "--command": () => new Stdio({ command: target, args: rest, env: process.env, stderr: "inherit" }),
    }[kind]?.();
    if (!made || !target) {
        console.error("usage: [--era legacy|modern|auto] (--url URL | --sse URL | --command COMMAND [ARGUMENT]...)");
        process.exit(64);
    }
    const send = made.send.bind(made);
    made.send = (message, options) => {
        for (const one of [message].flat()) if (one.method === "initialize") handshakes += 1;
        return send(message, options);
    };
    return made;
}

let handshakes = 0;

const subscriptions = [];

/** Connects once, then does what standard input says. Commands run side by side. */
export async function serve(client, transport, call) {
    // A stream that breaks and is opened again is an error here and nothing more.
    client.onerror = () => count("transport_error");
    const operations = {
        list_tools: () => client.listTools(),
        call,
        list_resources: () => client.listResources(),
        list_templates: () => client.listResourceTemplates(),
        read: ({ uri }) => client.readResource({ uri }),
        list_prompts: () => client.listPrompts(),
        get_prompt: ({ name, args }) => client.getPrompt({ name, arguments: args }),
        complete: ({ ref, argument }) => client.complete({ ref, argument }),
        set_level: ({ level }) => client.setLoggingLevel(level),
        subscribe: ({ uri }) => client.subscribeResource({ uri }),
        listen: async ({ filter }) => {
            const subscription = await client.listen(filter);
            void subscription.closed.then((how) => count(how === "local" ? "unlistened" : "listen_ended"));
            subscriptions.push(subscription);
            return subscription.honoredFilter;
        },
        unlisten: () => Promise.all(subscriptions.splice(0).map((subscription) => subscription.close())),
        ping: () => client.ping(),
        events: () => {
            const seen = { ...events, initialize: handshakes };
            for (const event of Object.keys(events)) delete events[event];
            return seen;
        },
        close: async () => {
            // Servers may refuse to end sessions; that is no failure of closing.
            await transport.terminateSession?.().catch(() => {});
            await client.close();
            setImmediate(() => process.exit(0));
        },
    };
    await answer(undefined, async () => {
        await client.connect(transport);
        const protocol = client.getNegotiatedProtocolVersion?.();
        return { server: client.getServerVersion(), protocol, initialize: handshakes };
    }).then((connected) => connected || process.exit(1));
    const lines = createInterface({ input: process.stdin });
    lines.on("line", (line) => {
        const command = JSON.parse(line);
        const operation = operations[command.op] ?? (() => Promise.reject(new Error(`no operation ${command.op}`)));
        void answer(command.id, async () => operation(command));
    });
    lines.on("close", () => process.exit(0));
}

async function answer(id, operation) {
    try {
        print({ id, ok: true, result: (await operation()) ?? {} });
        return true;
    } catch (error) {
        const { code = error.name, message, data } = error;
        print({ id, ok: false, error: { code, message, data } });
        return false;
    }
}

const print = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
