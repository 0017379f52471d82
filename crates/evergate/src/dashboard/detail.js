// One server: why it is as it is, what it offers, what was asked of it, and what can be done.

import { actions, noticeOf } from "./actions.js";
import { callsOf } from "./calls.js";
import { catalogView } from "./catalog.js";
import { h } from "./dom.js";
import { number, wholeDuration, words } from "./format.js";
import { logView, tail } from "./log.js";
import { age, chip, emptyNote, link, message, moment, scrolling, stateBadge, theirs } from "./parts.js";
import { retry, withoutCountdown } from "./servers.js";
import { glyph, look, lookOf } from "./states.js";
import { now, serverNamed, store } from "./store.js";
import { chart } from "./timeline.js";

const NEWEST_CALLS = 8;
const NEWEST_LINES = 10;
const NEWEST_CHANGES = 12;

/** The parts of the page, by their place in the address. */
function tabs(server) {
  const { tools = 0, prompts = 0, resources = 0, resource_templates: templates = 0 } = server.catalog ?? {};
  return [
    ["", "Overview", null],
    ["tools", "Tools", tools],
    ["prompts", "Prompts", prompts],
    ["resources", "Resources", resources],
    ["resource_templates", "Templates", templates],
    ["calls", "Calls", null],
    ["log", "Log", null],
  ].filter(([name, , count]) => count !== 0 || name === "tools");
}

export function serverView({ name, tab, item }) {
  const server = serverNamed(name);
  if (!server) return unknownServer(name);
  const notice = noticeOf(name);
  return [
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Servers")),
    h("div", { class: "title" },
      h("h1", { tabindex: "-1" }, theirs(server.name, 120)),
      stateBadge(server),
      server.required && chip("required"),
      actions(server)),
    notice && h("p", { class: `notice ${notice.tone}`, role: notice.tone === "bad" ? "alert" : "status" }, notice.text),
    h("section", { class: `panel reason ${lookOf(server).tone}`, "aria-label": "Why" },
      h("p", { class: "why" }, theirs(withoutCountdown(server.why), 1000)),
      retry(server),
      server.hint && h("p", { class: "hint" }, h("b", null, "What you can do: "), theirs(server.hint, 500)),
      tab === "" && chart(server)),
    h("nav", { class: "tabs", "aria-label": "Parts of this page" }, tabs(server).map(([key, label, count]) =>
      h("a", { href: key ? link("servers", name, key) : link("servers", name), "aria-current": key === tab ? "page" : null },
        label, count !== null && h("span", { class: "count" }, number(count))))),
    h("div", { key: tab || "overview", class: "content" }, content(server, tab, item)),
  ];
}

function content(server, tab, item) {
  switch (tab) {
    case "tools": case "prompts": case "resources": case "resource_templates":
      return catalogView(server, tab, item);
    case "calls":
      return callsOf(server.name, 200);
    case "log":
      return logView(server);
    default:
      return overview(server);
  }
}

function overview(server) {
  return [
    h("div", { class: "facts-grid" }, groups(server).map(([title, facts]) =>
      h("section", { class: "panel" }, h("h2", null, title), h("dl", { class: "facts" },
        facts.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([label, value]) =>
          h("div", null, h("dt", null, label), h("dd", null, value))))))),
    h("section", null,
      h("div", { class: "section-head" }, h("h2", null, "Recent calls"), h("a", { href: link("servers", server.name, "calls") }, "All its calls")),
      callsOf(server.name, NEWEST_CALLS)),
    server.stderr_tail?.length > 0 && h("section", null,
      h("div", { class: "section-head" }, h("h2", null, "Last lines of its log"), h("a", { href: link("servers", server.name, "log") }, "Whole log")),
      tail(server.stderr_tail.slice(-NEWEST_LINES))),
    h("section", null, h("h2", null, "Changes of state in the last hour"), changes(server)),
  ];
}

function groups(server) {
  const { calls = {}, budgets = {} } = server;
  const budget = (name) => budgets[name] && `${budgets[name].failures} of ${budgets[name].threshold}`;
  const limit = (value, most) => (most ? `${number(value)} of at most ${number(most)}` : number(value));
  return [
    ["Connection", [
      ["State since", server.since_unix_ms ? [moment(server.since_unix_ms), h("span", { class: "quiet" }, " ", age(server.since_unix_ms))] : null],
      ["Because of", words(server.reason)],
      ["Target", theirs(server.target, 200)],
      ["Transport", server.transport],
      ["Protocol", server.protocol && `${server.protocol}${server.era ? ` (${server.era})` : ""}`],
      ["Process", server.pid],
      ["Session age", server.session_age_ms === null ? null : wholeDuration(server.session_age_ms + now() - store.heardAt)],
      ["Connections", server.connections],
    ]],
    ["Recovery", [
      ["Generation", server.generation],
      ["Reconnects", number(server.reconnects ?? 0)],
      ["Attempts now", number(server.attempts ?? 0)],
      ["Last error", server.last_error && [theirs(server.last_error, 400),
        server.last_error_unix_ms && h("span", { class: "quiet" }, " ", age(server.last_error_unix_ms), " ago")]],
      ["Failed listings", budget("discovery")],
      ["Failures in a row", budget("rpc")],
      ["Breaker", server.breaker && (server.breaker.open ? ["open: ", theirs(server.breaker.because, 200)] : "closed")],
    ]],
    ["Calls", [
      ["In flight", limit(server.in_flight, server.max_in_flight)],
      ["Held", limit(server.held, server.max_held)],
      ["Answered", number(calls.answered ?? 0)],
      ["Sent again", number(calls.resent ?? 0)],
      ["Not sent", number(calls.not_sent ?? 0)],
      ["Rejected", number(calls.rejected ?? 0)],
      ["Unknown", number(calls.unknown ?? 0)],
      ["Cancelled", number(calls.cancelled ?? 0)],
    ]],
    ["Configuration", [
      ["Required", server.required ? "yes: the gateway is not ready without it" : "no"],
      ["Isolation", words(server.isolation)],
      ["Enabled", server.enabled ? "yes" : "no"],
      ["Digest", server.config_digest && h("code", null, theirs(server.config_digest, 24))],
      ["Catalog", server.catalog && `version ${server.catalog.version}${server.catalog.stale ? ", of an earlier connection" : ""}`],
    ]],
  ];
}

function changes(server) {
  const newest = [...(server.history ?? [])].reverse().slice(0, NEWEST_CHANGES);
  if (newest.length === 0) return emptyNote("None is known.");
  return scrolling("Changes of state", h("table", null,
    h("thead", null, h("tr", null, ["Time", "State", "Because of"].map((name) => h("th", { scope: "col" }, name)),
      h("th", { scope: "col", class: "number" }, "Gen"))),
    h("tbody", null, newest.map((change) => {
      const { shape, tone, label } = look(change.state);
      return h("tr", null,
        h("td", null, moment(change.at_unix_ms)),
        h("td", null, h("span", { class: `badge ${tone}` }, glyph(shape, tone), label)),
        h("td", null, words(change.reason)),
        h("td", { class: "number" }, change.generation ?? "–"));
    }))));
}

function unknownServer(name) {
  const near = store.servers.find((server) => server.name.toLowerCase().startsWith(name.slice(0, 2).toLowerCase()));
  return message("No such server",
    h("p", null, "No server of this gateway is called ", h("b", null, theirs(name, 80)), ". It may have been removed from the configuration."),
    near && h("p", null, "Did you mean ", h("a", { href: link("servers", near.name) }, theirs(near.name, 80)), "?"),
    h("p", null, h("a", { href: "#/" }, "All servers")));
}
