// A newcomer's first hour: from the configuration of a client to a gateway that recovers, seen from everywhere.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { load } from "../packages.mjs";
import { browser, PATIENCE, withPage } from "./browser.mjs";

const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");

const evergate = process.env.EVERGATE;
const everything = join(process.env.EVERGATE_PEERS_DIR, "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
const SECRETS = ["planted-docs-token", "planted-remote-token"];

const folder = mkdtempSync(join(tmpdir(), "evergate-first-hour-"));
const [home, project, stop] = ["home", "project", "stop"].map((name) => join(folder, name));
const config = join(project, "evergate.json");
// Nothing of whoever runs the test gets in, and nothing of the test gets out.
const environment = { PATH: process.env.PATH, HOME: home, XDG_STATE_HOME: join(home, "state"), NO_COLOR: "1" };
/** Everything anybody was shown. */
const shown = [];
let remote, gateway, client;

/** As in a shell. */
async function run(...words) {
  const options = { cwd: project, env: environment, timeout: PATIENCE };
  const done = await promisify(execFile)(evergate, words, options).catch((error) => error);
  shown.push(done.stdout, done.stderr);
  return { code: done.code ?? 0, text: done.stdout, told: done.stderr };
}

/** Until it is so. */
async function until(what, isSo) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const seen = await isSo();
    if (seen) return seen;
    assert.ok(Date.now() < end, `never: ${what}`);
    await new Promise((wake) => setTimeout(wake, 50));
  }
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** The sum of what has these labels. */
async function metric(name, labels) {
  const page = await (await fetch(new URL("metrics", gateway.url))).text();
  shown.push(page);
  const lines = page.split("\n").filter((line) => line.startsWith(`${name}{`) && labels.every((label) => line.includes(label)));
  assert.notEqual(lines.length, 0, `${name} is not there`);
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

const status = async (server) => JSON.parse((await run("status", "--json", "--config", config)).text).servers.find(({ name }) => name === server);

before(async () => {
  mkdirSync(home);
  mkdirSync(project);
  const port = await freePort();
  const log = openSync(join(folder, "remote.log"), "a");
  remote = spawn(process.execPath, [everything, "streamableHttp"], { env: { ...environment, PORT: port }, stdio: ["ignore", log, log] });
  await until("the remote server listens", () => fetch(`http://127.0.0.1:${port}/`).catch(() => null));
  // What Claude Code has, secrets and all.
  writeFileSync(join(project, ".mcp.json"), JSON.stringify({ mcpServers: {
    everything: { type: "stdio", command: process.execPath, args: [everything] },
    docs: { command: process.env.EVERGATE_SCRIPTED_SERVER, args: ["--crash-while", stop, "--stderr", "docs is up"], env: { DOCS_TOKEN: SECRETS[0] } },
    remote: { type: "http", url: `http://127.0.0.1:${port}/mcp`, headers: { Authorization: `Bearer ${SECRETS[1]}` } },
  } }));
});

after(async () => {
  await client?.close();
  gateway?.child.kill("SIGTERM");
  if (gateway && gateway.child.exitCode === null) await once(gateway.child, "exit");
  remote.kill("SIGKILL");
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
});

test("import the servers that Claude Code has", async () => {
  const { code, text, told } = await run("import", "claude");
  assert.equal(code, 0, told);
  for (const expected of [/3 servers/, /env\.DOCS_TOKEN: the secret became \$\{DOCS_TOKEN\}/, /the secret became \$\{REMOTE_TOKEN\}/]) assert.match(text, expected);
  const { mcpServers } = JSON.parse(readFileSync(config, "utf8"));
  assert.deepEqual(Object.keys(mcpServers).sort(), ["docs", "everything", "remote"]);
  shown.push(readFileSync(config, "utf8"));
  [environment.DOCS_TOKEN, environment.REMOTE_TOKEN] = SECRETS;
  const doctor = await run("doctor", "--config", config);
  assert.equal(doctor.code, 0, doctor.text + doctor.told);
});

test("start the gateway and call through it", async () => {
  const log = openSync(join(folder, "log"), "a");
  const child = spawn(evergate, ["--config", config, "--listen", "127.0.0.1:0"], { cwd: project, env: environment, stdio: ["ignore", "pipe", log] });
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  gateway = { child, url: line.replace(/mcp$/, ""), log: () => readFileSync(join(folder, "log"), "utf8") };
  client = new Client({ name: "first-hour", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(line)));
  const { tools } = await client.listTools();
  for (const server of ["everything", "docs", "remote"]) assert.ok(tools.some(({ name }) => name.startsWith(`${server}__`)), server);
  const { content } = await client.callTool({ name: "docs__echo", arguments: { text: "hello" } });
  assert.equal(content[0].text, "hello");
  const { code, text } = await run("status", "--config", config);
  assert.equal(code, 0, text);
  assert.match(text, /3 servers/);
});

test("kill a server and see it everywhere, fix it and see it recover", async () => {
  const { pid, generation } = await status("docs");
  assert.equal(generation, 1);
  writeFileSync(stop, "");
  process.kill(pid, "SIGKILL");
  const down = await until("docs is down", async () => {
    const docs = await status("docs");
    return docs.state !== "connected" && docs.last_error && docs;
  });
  assert.ok(["reconnecting", "disconnected"].includes(down.state), down.state);
  const table = await run("status", "--config", config);
  assert.match(table.text, /docs/);
  assert.notEqual(table.code, 0, "something is down");
  const why = await run("why", "docs", "--config", config);
  assert.match(why.text, /process/i);
  assert.equal(await metric("evergate_server_state", ['server="docs"', 'state="connected"']), 0);
  assert.ok((await metric("evergate_server_connection_losses_total", ['server="docs"'])) >= 1);
  await withPage(gateway, {}, async (page) => {
    const heading = page.getByRole("heading", { level: 1 });
    await heading.filter({ hasText: /^docs has been (reconnecting|disconnected) for/ }).waitFor();
    shown.push(await page.locator("body").innerText());
    // The agent calls all the same, and notices nothing but the time it takes.
    const call = client.callTool({ name: "docs__echo", arguments: { text: "patience" } });
    await until("the call waits", async () => (await status("docs")).held === 1);
    rmSync(stop);
    await run("restart", "docs", "--config", config);
    assert.equal((await call).content[0].text, "patience");
    await heading.filter({ hasText: "All 3 servers are connected" }).waitFor();
    shown.push(await page.locator("body").innerText());
  });
  const back = await until("docs is back", async () => {
    const docs = await status("docs");
    return docs.state === "connected" && docs;
  });
  assert.ok(back.generation > 1);
  assert.equal((await run("status", "--config", config)).code, 0);
  assert.equal(await metric("evergate_server_state", ['server="docs"', 'state="connected"']), 1);
  assert.ok((await metric("evergate_server_recovery_seconds_count", ['server="docs"'])) >= 1);
  const { content } = await client.callTool({ name: "docs__echo", arguments: { text: "again" } });
  assert.equal(content[0].text, "again");
});

test("nothing secret was shown to anybody", async () => {
  for (const path of ["api/v1/servers", "api/v1/calls", "api/v1/gateway", "health"]) shown.push(await (await fetch(new URL(path, gateway.url))).text());
  shown.push((await run("logs", "docs", "--config", config)).text, gateway.log());
  assert.ok(existsSync(config));
  for (const text of shown) for (const secret of SECRETS) assert.ok(!text.includes(secret), `${secret} in ${text}`);
});
