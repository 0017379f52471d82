// All servers, those in trouble first.

import { h } from "./dom.js";
import { eventList } from "./feed.js";
import { number, plural, text, wholeDuration } from "./format.js";
import { age, emptyNote, link, stateBadge, theirs } from "./parts.js";
import { lookOf, troubledFirst } from "./states.js";
import { remaining, store } from "./store.js";
import { summary } from "./summary.js";
import { span, strip } from "./timeline.js";

const NEWEST = 14;

export function serversView() {
  const { sentence, tone } = summary();
  return [
    h("h1", { class: `summary ${tone}`, tabindex: "-1" }, sentence),
    store.gateway.warnings?.length > 0 && h("ul", { class: "warnings", "aria-label": "Warnings" },
      store.gateway.warnings.map((warning) => h("li", null, theirs(warning, 500)))),
    h("div", { class: "overview" },
      h("section", { "aria-labelledby": "servers-title" },
        h("div", { class: "section-head" },
          h("h2", { id: "servers-title" }, "Servers"),
          h("span", { class: "axis", "aria-hidden": "true" }, h("span", null, `${wholeDuration(span())} ago`), h("span", null, "now"))),
        store.servers.length === 0 ? noServers() : h("ul", { class: "servers" }, troubledFirst(store.servers).map(row))),
      h("section", { class: "aside", "aria-labelledby": "feed-title" },
        h("div", { class: "section-head" },
          h("h2", { id: "feed-title" }, "Events"),
          h("a", { href: "#/events" }, "All events")),
        store.events.length === 0 ? emptyNote("Nothing has happened yet.") : eventList(store.events.slice(0, NEWEST)))),
  ];
}

function row(server) {
  const look = lookOf(server);
  const failed = failedCalls(server);
  return h("li", { key: server.name, class: `server ${look.tone} ${look.troubled ? "troubled" : ""}` },
    h("div", { class: "who" },
      h("div", { class: "first" },
        h("h3", null, h("a", { href: link("servers", server.name) }, theirs(server.name, 80))),
        h("p", { class: "state" }, stateBadge(server), since(server))),
      h("p", { class: "quiet line" }, offer(server))),
    h("div", { class: "when" }, server.history?.length > 0 && strip(server)),
    h("dl", { class: "numbers" },
      count("in flight", server.in_flight),
      count("held", server.held, server.held > 0 ? "warn" : ""),
      count("failed", failed, failed > 0 && look.troubled ? "bad" : ""),
      count("gen", server.generation)),
    look.troubled && h("div", { class: "wrong" },
      h("p", { class: "why" }, theirs(withoutCountdown(server.why), 300)),
      retry(server),
      server.hint && server.next_retry_ms === null && h("p", { class: "quiet" }, "What you can do: ", theirs(server.hint, 200))));
}

function since(server) {
  if (server.state === "per_client") return h("span", null, plural(server.connections ?? 0, "connection"));
  if (server.state === "unusable") return null;
  return h("span", { class: "quiet" }, age(server.since_unix_ms));
}

function offer(server) {
  const { catalog } = server;
  const parts = [theirs(server.target, 80)];
  if (catalog?.tools > 0) parts.push(plural(catalog.tools, "tool"));
  return parts.flatMap((part, index) => (index === 0 ? [part] : [" · ", part]));
}

/** The sentence also says when the next attempt is; here that is counted every second instead. */
export function withoutCountdown(why) {
  return text(why).replace(/ ?Attempt \d+ (?:follows in \d[\d.]* \w+(?: \d+ \w+)?|is under way)\.(?: (?:One call waits|\d+ calls wait)\.)?/, "");
}

/** What the gateway does about it, and when. */
export function retry(server) {
  if (server.breaker?.open) {
    return h("p", { class: "retry" }, "Calls are held back; one is let through in ", seconds(server.breaker.probe_in_ms));
  }
  if (server.state !== "reconnecting" && server.state !== "disconnected") return null;
  const planned = server.next_retry_ms !== null && remaining(server.next_retry_ms) > 0;
  const attempt = `Attempt ${number(planned ? server.attempts + 1 : Math.max(1, server.attempts))}`;
  return h("p", { class: "retry" },
    planned ? [`${attempt} in `, seconds(server.next_retry_ms)] : `${attempt} is under way`,
    server.held > 0 && `; ${plural(server.held, "call waits", "calls wait")}`);
}

function seconds(ms) {
  return h("span", { class: "countdown" }, `${Math.max(1, Math.ceil(remaining(ms ?? 0) / 1000))} s`);
}

export function failedCalls({ calls }) {
  return (calls?.not_sent ?? 0) + (calls?.rejected ?? 0) + (calls?.unknown ?? 0);
}

function count(label, value, tone = "") {
  return h("div", null, h("dt", null, label), h("dd", { class: value ? tone : "zero" }, number(value ?? NaN)));
}

function noServers() {
  return h("div", { class: "panel message" },
    h("h3", null, "This gateway has no servers yet"),
    h("p", null, "Take over those that a client of yours has, or write them into the configuration by hand. This page shows them as soon as the gateway has read it again."),
    h("pre", { class: "code" }, "evergate import claude\nevergate doctor"));
}
