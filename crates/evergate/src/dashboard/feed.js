// What happened, newest first.

import { h } from "./dom.js";
import { listed, words } from "./format.js";
import { emptyNote, link, moment, theirs } from "./parts.js";
import { glyph, look } from "./states.js";
import { store } from "./store.js";

export function eventList(events) {
  return h("ol", { class: "events" }, events.map((event) =>
    h("li", { key: event.n }, moment(event.at_unix_ms), icon(event), h("span", { class: "told" }, sentence(event)))));
}

export function eventsView({ query }) {
  const wanted = query.get("server") ?? "";
  const shown = wanted ? store.events.filter((event) => event.server === wanted) : store.events;
  const names = [...new Set([...store.servers.map((server) => server.name), ...store.events.map((event) => event.server)])];
  return [
    h("h1", { tabindex: "-1" }, "Events"),
    h("div", { class: "filters" },
      h("label", null, "Server ",
        h("select", { live: { value: wanted }, on: { change: (event) => filter(event.target.value) } },
          h("option", { value: "" }, "all"),
          names.filter(Boolean).map((name) => h("option", { value: name }, name)))),
      h("p", { class: "live" }, glyph(store.eventsLive ? "disc" : "ring", store.eventsLive ? "good" : "off"),
        store.eventsLive ? "Live" : "Connecting to the event stream")),
    shown.length === 0
      ? emptyNote(wanted ? "Nothing has happened to this server since the gateway was started." : "Nothing has happened yet.")
      : h("div", { class: "panel" }, eventList(shown)),
  ];
}

function filter(name) {
  location.hash = name ? `#/events?server=${encodeURIComponent(name)}` : "#/events";
}

function icon(event) {
  if (event.kind !== "transition") return glyph("arrow", "off");
  const { shape, tone } = look(event.to);
  return glyph(shape, tone);
}

function sentence(event) {
  const server = event.server ? h("a", { href: link("servers", event.server) }, theirs(event.server, 60)) : null;
  switch (event.kind) {
    case "transition":
      return [server, ` ${look(event.to).label.toLowerCase()}`, h("span", { class: "quiet" }, ` ${words(event.reason)}`)];
    case "catalog_changed":
      return [server, " changed what it offers"];
    case "reloaded":
      return ["Configuration read again", changes(event)];
    case "reload_rejected":
      return ["New configuration not taken: ", theirs(event.problem, 200)];
    case "action":
      return [server, ` ${words(event.action)} asked for`, h("span", { class: "quiet" }, event.by ? [" by ", theirs(event.by, 40)] : "")];
    default:
      return [server, " ", words(event.kind)];
  }
}

function changes({ added = [], removed = [], changed = [] }) {
  const parts = [["added", added], ["removed", removed], ["changed", changed]]
    .filter(([, names]) => names.length > 0)
    .map(([what, names]) => `${listed(names, 5)} ${what}`);
  return parts.length > 0 ? `: ${parts.join("; ")}` : ": nothing changed";
}
