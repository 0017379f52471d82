// How everything is, in one sentence.

import { listed, plural, wholeDuration } from "./format.js";
import { lookOf } from "./states.js";
import { now, store } from "./store.js";

/** `{ sentence, tone }` */
export function summary() {
  const { gateway, servers } = store;
  if (gateway.draining) {
    return { sentence: "The gateway is ending: it finishes the calls it has and takes no new ones.", tone: "warn" };
  }
  if (servers.length === 0) return { sentence: "No servers are configured.", tone: "off" };
  const troubled = servers.filter((server) => lookOf(server).troubled);
  if (troubled.length > 0) return { sentence: trouble(troubled, servers, gateway), tone: worst(troubled) };
  const connecting = servers.filter((server) => server.state === "connecting");
  if (connecting.length > 0) {
    const names = listed(connecting.map((server) => server.name));
    return { sentence: `${names} ${connecting.length === 1 ? "is" : "are"} connecting${waiting(gateway)}.`, tone: "busy" };
  }
  return { sentence: `${well(servers)}${waiting(gateway)}.`, tone: "good" };
}

function well(servers) {
  const off = servers.filter((server) => lookOf(server).tone === "off").length;
  const on = servers.length - off;
  if (on === 0) return off === 1 ? `${servers[0].name}, the only server, is disabled` : `All ${off} servers are disabled`;
  const disabled = off === 0 ? "" : `; ${off === 1 ? "1 is" : `${off} are`} disabled`;
  if (servers.length === 1) return `${servers[0].name} is connected`;
  if (off === 0) return `All ${on} servers are connected`;
  return `${on === 1 ? "1 server is" : `${on} servers are`} connected${disabled}`;
}

function trouble(troubled, servers, gateway) {
  const since = (server) => (lookOf(server).verb.startsWith("has been") ? ` for ${wholeDuration(now() - server.since_unix_ms)}` : "");
  if (troubled.length === 1) {
    const [server] = troubled;
    return `${server.name} ${lookOf(server).verb}${since(server)}${waiting(gateway)}.`;
  }
  const each = troubled.map((server) => `${server.name} (${lookOf(server).label.toLowerCase()})`);
  return `${troubled.length} of ${servers.length} servers need attention: ${listed(each)}${waiting(gateway)}.`;
}

function waiting(gateway) {
  const held = gateway.calls_held;
  return held > 0 ? `; ${plural(held, "call waits", "calls wait")}` : "";
}

function worst(troubled) {
  return troubled.some((server) => lookOf(server).tone === "bad") ? "bad" : "warn";
}
