// Who is connected to the gateway.

import { h } from "./dom.js";
import { number, plural, wholeDuration } from "./format.js";
import { emptyNote, link, scrolling, skeleton, theirs } from "./parts.js";
import { resource } from "./store.js";

export function sessionsView() {
  const { value, error } = resource("sessions", { every: 2000 });
  return [
    h("h1", { tabindex: "-1" }, "Sessions"),
    h("p", { class: "lead" }, "Clients that are connected to this gateway now. Their sessions survive a restart of the gateway and of any server."),
    error ? h("p", { class: "notice bad", role: "alert" }, error) : value ? found(value) : skeleton(2),
  ];
}

function found({ sessions = [], count = sessions.length }) {
  if (sessions.length === 0) return emptyNote("Nobody is connected.");
  return [
    scrolling("Sessions", h("table", null,
      h("thead", null, h("tr", null,
        ["Client", "Key", "Sees", "Protocol"].map((name) => h("th", { scope: "col" }, name)),
        ["Age", "Idle", "In flight"].map((name) => h("th", { scope: "col", class: "number" }, name)))),
      h("tbody", null, sessions.map(row)))),
    count > sessions.length && emptyNote(`${plural(count - sessions.length, "more session")} not shown.`),
  ];
}

function row(session) {
  return h("tr", null,
    h("td", null, session.client ? theirs(session.client, 60) : h("span", { class: "quiet" }, "unnamed")),
    h("td", null, session.key ? theirs(session.key, 40) : "–"),
    h("td", null, session.scope === "all" ? "all servers" : h("a", { href: link("servers", session.scope) }, theirs(session.scope, 40))),
    h("td", null, session.protocol ? theirs(session.protocol, 20) : "–"),
    h("td", { class: "number" }, wholeDuration(session.age_ms)),
    h("td", { class: "number" }, wholeDuration(session.idle_ms)),
    h("td", { class: `number ${session.calls_in_flight ? "" : "zero"}` }, number(session.calls_in_flight)));
}
