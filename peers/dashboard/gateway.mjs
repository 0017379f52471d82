// The built gateway, as a process that a test starts, kills and starts again on the same port.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const program = required("EVERGATE");
const scriptedServer = required("EVERGATE_SCRIPTED_SERVER");
const ownServer = fileURLToPath(new URL("../servers/dashboard_server.mjs", import.meta.url));

function required(name) {
  if (!process.env[name]) throw new Error(`${name} is not set: these tests are started by cargo test -p evergate-peers -- --ignored dashboard`);
  return process.env[name];
}

/** Servers of a test come back faster than those of anybody else. */
const lifecycle = { backoff: { initial: "50ms", max: "300ms" }, max_attempts: -1 };

/** One that can be kept from starting by making a file. */
export function scripted(...flags) {
  return { command: scriptedServer, args: flags, lifecycle };
}

/** A field of every kind; with `--hostile` what it sends is meant badly. */
export function own(...flags) {
  return { command: process.execPath, args: [ownServer, ...flags], lifecycle };
}

export class Gateway {
  /** In front of these servers. `settings` is the section of that name. */
  static async start(servers, settings = {}) {
    const gateway = new Gateway();
    gateway.folder = mkdtempSync(join(tmpdir(), "evergate-dashboard-"));
    gateway.listen = "127.0.0.1:0";
    writeFileSync(join(gateway.folder, "config.json"), JSON.stringify({ mcpServers: servers, gateway: settings }));
    await gateway.launch();
    return gateway;
  }

  async launch() {
    const log = openSync(join(this.folder, "log"), "a");
    const config = join(this.folder, "config.json");
    const options = ["serve", "--config", config, "--listen", this.listen, "--state-dir", join(this.folder, "state")];
    this.child = spawn(program, options, { stdio: ["ignore", "pipe", log] });
    const [line] = await Promise.race([
      once(createInterface({ input: this.child.stdout }), "line"),
      once(this.child, "exit").then(() => Promise.reject(new Error(`the gateway ended: ${this.log()}`))),
    ]);
    this.url = line.replace(/mcp$/, "");
    this.listen = new URL(this.url).host;
  }

  /** Of the admin API. */
  async get(path, key) {
    const response = await fetch(new URL(`api/v1/${path}`, this.url), { headers: key ? { authorization: `Bearer ${key}` } : {} });
    return response.json();
  }

  /** A session and one call, by somebody other than the page. */
  async call(server, tool, args) {
    const post = (headers, body) => fetch(new URL(`mcp/${server}`, this.url), {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
      body: JSON.stringify({ jsonrpc: "2.0", ...body }),
    });
    const clientInfo = { name: "somebody", version: "1" };
    const hello = await post({}, { id: 1, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo } });
    await hello.text();
    const session = { "mcp-session-id": hello.headers.get("mcp-session-id") };
    await (await post(session, { method: "notifications/initialized" })).text();
    return (await post(session, { id: 2, method: "tools/call", params: { name: tool, arguments: args } })).text();
  }

  path(name) {
    return join(this.folder, name);
  }

  log() {
    return readFileSync(join(this.folder, "log"), "utf8").slice(-6000);
  }

  /** Without a word. */
  async kill() {
    const ended = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await ended;
  }

  async stop() {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const ended = once(this.child, "exit");
      this.child.kill("SIGTERM");
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}
