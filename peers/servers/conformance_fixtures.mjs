// What the official conformance suite expects a server to offer, by name. The suite's own reference
// server is not part of its npm package; this one offers the same, after the requirements that every
// scenario of the suite states.

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";
const SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

const pause = () => new Promise((resolve) => setTimeout(resolve, 50));
const text = (text) => ({ content: [{ type: "text", text }] });
const image = { type: "image", data: PIXEL, mimeType: "image/png" };
const embedded = (uri, mimeType, text) => ({ type: "resource", resource: { uri, mimeType, text } });
const user = (content) => ({ role: "user", content });
const object = (properties = {}, required = []) => ({ type: "object", properties, required });
const string = { type: "string" };

const choices = (word) => ["1", "2", "3"].map((n) => ({ const: `value${n}`, title: `${word} ${n}` }));
const options = ["option1", "option2", "option3"];

// One function per tool: (arguments, what it may use to talk to the client) => result.
const asking = (requestedSchema, message = "Please answer") => async (args, { elicit }) => {
    const { action, content } = await elicit({ message: args.message ?? message, requestedSchema });
    return text(`Elicitation completed: action=${action}, content=${JSON.stringify(content)}`);
};

export const tools = {
    test_simple_text: { run: async () => text("This is a simple text response for testing.") },
    test_image_content: { run: async () => ({ content: [image] }) },
    test_audio_content: {
        run: async () => ({ content: [{ type: "audio", data: SILENCE, mimeType: "audio/wav" }] }),
    },
    test_embedded_resource: {
        run: async () => ({
            content: [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
        }),
    },
    test_multiple_content_types: {
        run: async () => ({
            content: [
                { type: "text", text: "Multiple content types test:" },
                image,
                embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
            ],
        }),
    },
    test_tool_with_logging: {
        run: async (_, { log }) => {
            await log("Tool execution started");
            await pause();
            await log("Tool processing data");
            await pause();
            await log("Tool execution completed");
            return text("Logged three times.");
        },
    },
    test_tool_with_progress: {
        run: async (_, { progress }) => {
            for (const done of [0, 50, 100]) {
                await progress(done, 100);
                await pause();
            }
            return text("Reported progress three times.");
        },
    },
    test_error_handling: {
        run: async () => ({ ...text("This tool intentionally returns an error for testing"), isError: true }),
    },
    test_reconnection: {
        run: async (_, { disconnect }) => {
            await pause();
            disconnect();
            await pause();
            return text("Answered after the stream was closed.");
        },
    },
    test_sampling: {
        input: object({ prompt: string }, ["prompt"]),
        run: async ({ prompt }, { sample }) => {
            const content = { type: "text", text: prompt };
            const answer = await sample({ messages: [user(content)], maxTokens: 100 });
            return text(`LLM response: ${answer.content.text}`);
        },
    },
    test_elicitation: {
        input: object({ message: string }, ["message"]),
        run: asking(object({ username: string, email: string }, ["username", "email"])),
    },
    test_elicitation_sep1034_defaults: {
        run: asking(
            object({
                name: { type: "string", default: "John Doe" },
                age: { type: "integer", default: 30 },
                score: { type: "number", default: 95.5 },
                status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
                verified: { type: "boolean", default: true },
            }),
        ),
    },
    test_elicitation_sep1330_enums: {
        run: asking(
            object({
                untitledSingle: { type: "string", enum: options },
                titledSingle: { type: "string", oneOf: choices("Option") },
                legacyEnum: { type: "string", enum: options, enumNames: ["Option 1", "Option 2", "Option 3"] },
                untitledMulti: { type: "array", items: { type: "string", enum: options } },
                titledMulti: { type: "array", items: { anyOf: choices("Choice") } },
            }),
        ),
    },
    json_schema_2020_12_tool: {
        input: {
            $schema: "https://json-schema.org/draft/2020-12/schema",
            $defs: { address: { $anchor: "addressDef", ...object({ street: string, city: string }) } },
            ...object({
                name: string,
                address: { $ref: "#/$defs/address" },
                contactMethod: { type: "string", enum: ["phone", "email"] },
                phone: string,
                email: string,
            }),
            allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
            if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
            then: { required: ["phone"] },
            else: { required: ["email"] },
            additionalProperties: false,
        },
        run: async () => text("Its schema is what matters."),
    },
};

export const toolList = Object.entries(tools).map(([name, { input }]) => ({
    name,
    description: `The fixture ${name}`,
    inputSchema: input ?? object(),
}));

const resource = (uri, mimeType) => ({ uri, name: uri, mimeType });

export const resources = [
    resource("test://static-text", "text/plain"),
    resource("test://static-binary", "image/png"),
    resource("test://watched-resource", "text/plain"),
];

export const templates = [
    { uriTemplate: "test://template/{id}/data", name: "template", mimeType: "application/json" },
];

/** The contents behind a URI, or nothing. */
export function read(uri) {
    const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
    if (id) {
        const data = { id, templateTest: true, data: `Data for ID: ${id}` };
        return [{ uri, mimeType: "application/json", text: JSON.stringify(data) }];
    }
    return {
        "test://static-text": [
            { uri, mimeType: "text/plain", text: "This is the content of the static text resource." },
        ],
        "test://static-binary": [{ uri, mimeType: "image/png", blob: PIXEL }],
        "test://watched-resource": [{ uri, mimeType: "text/plain", text: "Watched." }],
    }[uri];
}

const argument = (name) => ({ name, description: `The argument ${name}`, required: true });

export const prompts = {
    test_simple_prompt: {
        messages: () => [user({ type: "text", text: "This is a simple prompt for testing." })],
    },
    test_prompt_with_arguments: {
        arguments: [argument("arg1"), argument("arg2")],
        messages: ({ arg1, arg2 }) => [
            user({ type: "text", text: `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'` }),
        ],
    },
    test_prompt_with_embedded_resource: {
        arguments: [argument("resourceUri")],
        messages: ({ resourceUri }) => [
            user(embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
            user({ type: "text", text: "Please process the embedded resource above." }),
        ],
    },
    test_prompt_with_image: {
        messages: () => [user(image), user({ type: "text", text: "Please analyze the image above." })],
    },
};
