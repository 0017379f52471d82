// Recent calls: of all servers, or of one.

import { h } from "./dom.js";
import { bytes, duration, text } from "./format.js";
import { emptyNote, link, moment, scrolling, skeleton, theirs } from "./parts.js";
import { glyph, outcomeLook, outcomeNames } from "./states.js";
import { resource, store } from "./store.js";

const EVERY_MS = 2000;

export function callsView({ query }) {
  const [server, outcome, wanted] = ["server", "outcome", "text"].map((name) => query.get(name) ?? "");
  const change = (name) => (event) => {
    const next = new URLSearchParams(query);
    if (event.target.value) next.set(name, event.target.value);
    else next.delete(name);
    // Not a step back: a filter is not a place one has been to.
    history.replaceState(null, "", `#/calls${next.size > 0 ? `?${next}` : ""}`);
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  const calls = resource(`calls?${new URLSearchParams({ limit: "200", ...(server && { server }), ...(outcome && { outcome }) })}`, { every: EVERY_MS });
  return [
    h("h1", { tabindex: "-1" }, "Recent calls"),
    h("div", { class: "filters", role: "search" },
      choice("Server", server, store.servers.map(({ name }) => [name, name]), change("server")),
      choice("Outcome", outcome, outcomeNames.map((name) => [name, outcomeLook(name).label]), change("outcome")),
      h("label", null, "Contains ", h("input", { type: "search", once: { value: wanted }, on: { input: change("text") } }))),
    found(calls, wanted.toLowerCase(), true),
  ];
}

export function callsOf(server, most) {
  const calls = resource(`calls?${new URLSearchParams({ limit: String(most), server })}`, { every: EVERY_MS });
  return found(calls, "", false);
}

function choice(label, value, options, change) {
  return h("label", null, `${label} `,
    h("select", { live: { value }, on: { change } },
      h("option", { value: "" }, "all"),
      options.map(([name, shown]) => h("option", { value: name }, shown))));
}

function found({ value, error }, wanted, withServer) {
  if (error) return h("p", { class: "notice bad", role: "alert" }, error);
  if (!value) return skeleton(2);
  const calls = (value.calls ?? []).filter((call) => !wanted || searched(call).includes(wanted));
  if (calls.length === 0) return emptyNote(value.calls?.length > 0 ? "No call matches." : "No calls yet.");
  return scrolling("Recent calls", table(calls, withServer));
}

function searched(call) {
  return [call.client, call.server, call.tool, call.method, call.error, call.key].map(text).join("\n").toLowerCase();
}

function table(calls, withServer) {
  return h("table", { class: "calls" },
    h("thead", null, h("tr", null,
      h("th", { scope: "col" }, "Time"),
      h("th", { scope: "col" }, "Outcome"),
      withServer && h("th", { scope: "col" }, "Server"),
      h("th", { scope: "col" }, "Call"),
      h("th", { scope: "col", class: "number" }, "Took"),
      h("th", { scope: "col", class: "number" }, "Waited"),
      h("th", { scope: "col" }, "Resent"),
      h("th", { scope: "col" }, "Client"),
      h("th", { scope: "col", class: "number" }, "Gen"),
      h("th", { scope: "col", class: "number" }, "Result"))),
    h("tbody", null, calls.map((call) => row(call, withServer))));
}

function row(call, withServer) {
  const { shape, tone, label, says } = outcomeLook(call.outcome);
  return h("tr", { key: call.n },
    h("td", null, moment(call.at_unix_ms)),
    h("td", { title: says }, h("span", { class: `badge ${tone}` }, glyph(shape, tone), label)),
    withServer && h("td", null, call.server && h("a", { href: link("servers", call.server) }, theirs(call.server, 40))),
    h("td", { class: "what" },
      theirs(call.tool ?? call.method, 60),
      call.error && h("div", { class: "quiet error" }, theirs(call.error, 160)),
      call.arguments && h("div", { class: "quiet mono" }, theirs(call.arguments, 120))),
    h("td", { class: "number" }, duration(call.duration_ms)),
    h("td", { class: `number ${call.waited_ms >= 1 ? "" : "zero"}` }, call.waited_ms >= 1 ? duration(call.waited_ms) : "–"),
    h("td", { class: call.resent ? "" : "zero" }, call.resent ? "yes" : "–"),
    h("td", null, call.client ? theirs(call.client, 40) : "–", call.key && h("div", { class: "quiet" }, "key ", theirs(call.key, 40))),
    h("td", { class: "number" }, call.generation ?? "–"),
    h("td", { class: "number" }, bytes(call.result_bytes)));
}
