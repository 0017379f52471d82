// A gateway with some history, for the pictures in the README: an hour cannot pass while a test runs. Everything else about
// the dashboard is tested with a real gateway and real servers.

const MINUTE = 60_000;

/** Answers as the admin API would, at this time: `(path) => body`. */
export function example(now = Date.now()) {
  const at = (minutes) => now - minutes * MINUTE;
  const history = (...changes) => changes.map(([minutes, state, reason, generation = null]) => ({ at_unix_ms: Math.round(at(minutes)), state, reason, generation }));
  const server = (name, fields) => {
    const changes = fields.history ?? history([200, "connected", "handshake_done", 1]);
    const last = changes.at(-1) ?? { state: "per_client", reason: "configured", generation: null, at_unix_ms: at(190) };
    const connected = last.state === "connected";
    return {
      name, state: last.state, degraded: false, since_unix_ms: last.at_unix_ms, reason: last.reason, why: "", hint: null,
      generation: last.generation, session_age_ms: connected ? now - last.at_unix_ms : null, attempts: 0, next_retry_ms: null,
      last_error: null, last_error_unix_ms: null, reconnects: 0,
      budgets: { discovery: { failures: 0, threshold: 3 }, rpc: { failures: 0, threshold: 3 } },
      in_flight: 0, held: 0, max_in_flight: 64, max_held: 1024, breaker: null,
      catalog: { version: 7, tools: 0, prompts: 0, resources: 0, resource_templates: 0, stale: !connected },
      pid: null, stderr_tail: [], protocol: "2025-11-25", era: "handshake", transport: "http", target: "", config_digest: "1f2e9a0c77b34d51",
      required: false, isolation: "shared", enabled: true, connections: null,
      calls: { answered: 0, not_sent: 0, rejected: 0, unknown: 0, cancelled: 0, resent: 0 },
      ...fields, history: changes,
    };
  };

  const servers = [
    server("github", {
      history: history([190, "connected", "handshake_done", 2], [41, "reconnecting", "session_lost"], [40.96, "connected", "handshake_done", 3]),
      why: "Connected for 40 min 57 s. 2 earlier connections ended, the last 41 min 0 s ago (session lost).",
      target: "http: api.githubcopilot.com", catalog: { version: 3, tools: 38, prompts: 2, resources: 0, resource_templates: 5, stale: false },
      in_flight: 2, reconnects: 2, calls: { answered: 1204, not_sent: 0, rejected: 0, unknown: 0, cancelled: 3, resent: 2 },
    }),
    server("docs", {
      history: history([190, "connected", "handshake_done", 3], [22, "reconnecting", "process_exited"], [21.2, "connected", "handshake_done", 4], [0.2, "reconnecting", "process_exited"]),
      why: "Lost 12 s ago because its process failed (the process ended during the handshake (exit status: 1)). Attempt 4 follows in 4.2 s. 3 calls wait.",
      hint: "look at its last words on standard error, and fix what it died of; it is started again by itself", target: "stdio: npx", transport: "stdio", attempts: 3, next_retry_ms: 4200, held: 3, reconnects: 4, generation: 4,
      last_error: "the process ended during the handshake (exit status: 1)", last_error_unix_ms: at(0.05),
      catalog: { version: 7, tools: 12, prompts: 1, resources: 3, resource_templates: 0, stale: true },
      stderr_tail: [
        "docs-server 2.4.1 starting", "reading index from ./index.db", "Error: SQLITE_BUSY: database is locked",
        "    at Database.open (/srv/docs/node_modules/better-sqlite3/lib/database.js:54:16)", "    at main (/srv/docs/dist/index.js:31:20)",
      ],
      calls: { answered: 412, not_sent: 0, rejected: 0, unknown: 1, cancelled: 0, resent: 5 },
    }),
    server("postgres", {
      history: history([190, "connected", "handshake_done", 1]), target: "stdio: uvx", transport: "stdio", pid: 4711, required: true,
      why: "Connected for 3 h 10 min.",
      catalog: { version: 2, tools: 9, prompts: 0, resources: 24, resource_templates: 2, stale: false }, in_flight: 1,
      calls: { answered: 3977, not_sent: 0, rejected: 0, unknown: 0, cancelled: 1, resent: 0 },
    }),
    server("search", {
      history: history([190, "connected", "handshake_done", 1], [52, "reconnecting", "transport_lost"], [48, "disconnected", "transport_lost"], [33, "connected", "handshake_done", 2]),
      target: "http: search.internal:9000", era: "stateless", protocol: "2026-07-28", reconnects: 1,
      why: "Connected for 33 min 0 s. One earlier connection ended, the last 48 min 0 s ago (transport lost).",
      catalog: { version: 2, tools: 4, prompts: 0, resources: 0, resource_templates: 0, stale: false },
      calls: { answered: 866, not_sent: 7, rejected: 0, unknown: 0, cancelled: 0, resent: 11 },
    }),
    server("browser", {
      state: "per_client", history: [], why: "Each client has a connection of its own; 2 are open.", target: "stdio: npx", transport: "stdio", isolation: "per_client",
      connections: 2, generation: null, catalog: { version: 1, tools: 21, prompts: 0, resources: 0, resource_templates: 0, stale: false },
      since_unix_ms: at(190), calls: { answered: 98, not_sent: 0, rejected: 0, unknown: 0, cancelled: 0, resent: 0 },
    }),
    server("jira", {
      history: history([190, "connected", "handshake_done", 1], [14, "permanently_failed", "auth_required"]),
      why: "Given up 14 min 0 s ago because it wants credentials that it did not get or no longer takes (the server answered 401 Unauthorized). It stays so until somebody acts.",
      hint: "renew the credentials, then restart or enable the server", target: "http: mcp.atlassian.com",
      last_error: "the server answered 401 Unauthorized", last_error_unix_ms: at(14), generation: 1,
      catalog: { version: 1, tools: 17, prompts: 0, resources: 0, resource_templates: 0, stale: true },
      calls: { answered: 310, not_sent: 0, rejected: 2, unknown: 0, cancelled: 0, resent: 0 },
    }),
    server("sandbox", {
      history: history([190, "connected", "handshake_done", 1], [58, "disabling", "requested"], [57.9, "disabled", "requested"]),
      why: "Switched off 57 min 54 s ago on request.", enabled: false, target: "stdio: docker", transport: "stdio",
      catalog: { version: 1, tools: 3, prompts: 0, resources: 0, resource_templates: 0, stale: true }, generation: 1,
      calls: { answered: 12, not_sent: 0, rejected: 0, unknown: 0, cancelled: 0, resent: 0 },
    }),
  ];

  const transition = (minutes, name, from, to, reason) => ({ kind: "transition", at_unix_ms: Math.round(at(minutes)), server: name, from, to, reason, event: "", generation: null });
  const events = [
    { kind: "action", at_unix_ms: at(58.1), action: "disable", server: "sandbox", by: "ops" },
    transition(57.9, "sandbox", "disabling", "disabled", "requested"),
    transition(52, "search", "connected", "reconnecting", "transport_lost"),
    transition(48, "search", "reconnecting", "disconnected", "transport_lost"),
    transition(41, "github", "connected", "reconnecting", "session_lost"),
    transition(40.96, "github", "reconnecting", "connected", "handshake_done"),
    transition(33, "search", "disconnected", "connected", "handshake_done"),
    { kind: "catalog_changed", at_unix_ms: at(32.9), server: "search", version: 2 },
    transition(22, "docs", "connected", "reconnecting", "process_exited"),
    transition(21.2, "docs", "reconnecting", "connected", "handshake_done"),
    transition(14, "jira", "connected", "permanently_failed", "auth_required"),
    { kind: "reloaded", at_unix_ms: at(6), added: [], removed: [], changed: ["postgres"] },
    transition(0.2, "docs", "connected", "reconnecting", "process_exited"),
  ].map((event, index) => ({ n: index + 1, ...event }));

  const call = (n, seconds, fields) => ({
    n, at_unix_ms: now - seconds * 1000, client: "claude-code 2.1", key: null, server: "docs", method: "tools/call", tool: "search", outcome: "answered",
    error: null, duration_ms: 12.3, waited_ms: 0, upstream_ms: 12.1, generation: 4, resent: false, request_bytes: 120, result_bytes: 912, arguments: null, ...fields,
  });
  const calls = [
    call(17, 2, { server: "postgres", tool: "query", duration_ms: 8.4, generation: 1, result_bytes: 4210 }),
    call(16, 13, { outcome: "unknown", error: "the process ended before it answered, and the tool is not known to be safe to repeat", tool: "update_page", duration_ms: 640, result_bytes: null }),
    call(15, 21, { server: "github", tool: "list_issues", client: "cursor 1.9", duration_ms: 310, generation: 3, result_bytes: 18_400 }),
    call(14, 64, { duration_ms: 18.9 }),
    call(13, 80, { tool: "read_page", duration_ms: 6.1, result_bytes: 2230 }),
    call(12, 190, { server: "github", tool: "get_file", client: "codex 0.60", duration_ms: 1290, waited_ms: 840, generation: 3, resent: true }),
    call(11, 1275, { duration_ms: 48_310, waited_ms: 48_220, resent: true }),
    call(10, 3000, { server: "search", tool: "web", outcome: "not_sent", error: "the server did not come back in time", duration_ms: 30_000, waited_ms: 30_000, generation: null, result_bytes: null }),
  ];

  const tools = [
    tool("search", "Searches the documentation and returns the best passages.", { readOnlyHint: true }, {
      type: "object", required: ["query"],
      properties: {
        query: { type: "string", description: "What to look for, in plain words." },
        limit: { type: "integer", minimum: 1, maximum: 50, default: 10, description: "How many passages." },
        section: { enum: ["guide", "reference", "blog"], description: "Only in this part." },
        exact: { type: "boolean", description: "Only passages with exactly these words." },
        tags: { type: "array", items: { type: "string" } },
      },
    }),
    tool("read_page", "Returns one page as Markdown.", { readOnlyHint: true, idempotentHint: true }, { type: "object", required: ["path"], properties: { path: { type: "string" } } }),
    tool("update_page", "Replaces the text of a page.", { destructiveHint: true }, { type: "object", required: ["path", "text"], properties: { path: { type: "string" }, text: { type: "string" } } }),
    tool("list_sections", "Lists the sections of the documentation.", { readOnlyHint: true }, { type: "object" }),
  ];
  function tool(name, description, annotations, inputSchema) {
    return { public_name: `docs__${name}`, definition: { name, description, annotations, inputSchema } };
  }

  const session = (client, scope, age, idle, busy = 0) => ({ client, key: null, protocol: "2025-11-25", scope, age_ms: age * MINUTE, idle_ms: idle * 1000, calls_in_flight: busy });
  const counts = {};
  for (const { state } of servers) counts[state] = (counts[state] ?? 0) + 1;
  const gateway = {
    version: "0.1.0", pid: 812, started_unix_ms: at(190), uptime_ms: 190 * MINUTE, draining: false, ready: true, status: "degraded", listen: "127.0.0.1:8080",
    admin_listen: null, config_files: ["/etc/evergate/evergate.json"], config_revision: 2, sessions: 3, calls_in_flight: 3, calls_held: 3, catalog_version: 7, warnings: [], servers: counts,
  };

  return {
    servers, events, tools, gateway,
    answer(path, query = new URLSearchParams()) {
      const [kind, name, what] = path.split("/");
      if (kind === "gateway") return gateway;
      if (kind === "servers" && !name) return { servers };
      if (kind === "sessions") return { count: 3, sessions: [session("claude-code 2.1", "all", 188, 2, 2), session("cursor 1.9", "all", 74, 21, 1), session("codex 0.60", "github", 12, 190)] };
      if (kind === "calls") return { calls: calls.filter((one) => (!query.get("server") || one.server === query.get("server")) && (!query.get("outcome") || one.outcome === query.get("outcome"))) };
      if (what === "tools") return { server: name, version: 7, stale: true, items: tools };
      if (what === "logs") return { server: name, next: 6, lines: servers.find((one) => one.name === name).stderr_tail.map((text, n) => ({ n: n + 1, text })) };
      if (kind === "servers" && !what) return servers.find((one) => one.name === name);
      return { server: name, version: 7, stale: false, items: [] };
    },
    /** The stream of events, as far as it has come. */
    stream() {
      const all = [{ n: events.length, kind: "hello" }, ...events];
      return all.map((event) => `id: ${event.n}\nevent: ${event.kind}\ndata: ${JSON.stringify(event)}\n\n`).join("");
    },
  };
}
