// The page: what is shown where, and when it is drawn.

import { forgetNotice } from "./actions.js";
import { hasKey, setKey } from "./api.js";
import { callsView } from "./calls.js";
import { serverView } from "./detail.js";
import { draw, h } from "./dom.js";
import { eventsView } from "./feed.js";
import { clock, number, wholeDuration } from "./format.js";
import { askNow, start, startOver } from "./live.js";
import { lockedView } from "./locked.js";
import { message, skeleton } from "./parts.js";
import { serversView } from "./servers.js";
import { sessionsView } from "./sessions.js";
import { glyph, lookOf } from "./states.js";
import { changed, gatewayTime, now, onChange, store } from "./store.js";
import { themeButton } from "./theme_button.js";

const PAGES = { "": serversView, calls: callsView, sessions: sessionsView, events: eventsView, servers: serverView };
const STATUS = {
  healthy: ["Healthy", "disc", "good"],
  degraded: ["Degraded", "triangle", "warn"],
  unhealthy: ["Unhealthy", "diamond", "bad"],
  draining: ["Draining", "off", "warn"],
};

const place = Object.fromEntries(["view", "banner", "gateway", "tools", "nav"].map((id) => [id, document.getElementById(id)]));
let route = parse();

/** `#/servers/docs/tools/search?x=y` */
function parse() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page = "", name = "", tab = "", item = ""] = path.split("/").map(decoded);
  const known = Object.hasOwn(PAGES, page) && (page !== "servers" || name !== "");
  return { page: known ? page : "", name, tab, item, query: new URLSearchParams(query), path };
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function navigated() {
  const before = route;
  route = parse();
  if (before.path === route.path) return render();
  forgetNotice();
  render();
  // Another place: those who do not see it are told, and go on from there. Within a server's page they stay where they are.
  if (before.page === route.page && before.name === route.name) return;
  scrollTo(0, 0);
  place.view.querySelector("h1")?.focus({ preventScroll: true });
}

function render() {
  const gone = store.goneSince !== null && store.phase === "ready";
  draw(place.gateway, store.gateway && store.phase === "ready" ? gatewayFacts() : null);
  draw(place.tools, tools());
  draw(place.banner, gone ? goneBanner() : null);
  place.view.classList.toggle("old", gone);
  draw(place.view, h("div", { key: `${store.phase} ${route.page} ${route.name}`, class: "page" }, content()));
  for (const anchor of place.nav.children) {
    const here = anchor.getAttribute("href") === `#/${route.page === "servers" ? "" : route.page}`;
    if (here) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  document.title = title();
}

function content() {
  switch (store.phase) {
    case "ready": return PAGES[route.page](route);
    case "locked": return lockedView();
    case "broken": return brokenView();
    default: return store.goneSince === null ? skeleton() : unreachableView();
  }
}

function title() {
  if (store.phase === "locked") return "Key needed · Evergate";
  if (store.goneSince !== null) return "No answer · Evergate";
  const troubled = store.servers.filter((server) => lookOf(server).troubled).length;
  const where = { "": "Servers", servers: route.name, calls: "Calls", sessions: "Sessions", events: "Events" }[route.page];
  return `${troubled > 0 ? `(${troubled}) ` : ""}${where} · Evergate`;
}

function gatewayFacts() {
  const { gateway } = store;
  const known = STATUS[gateway.status] ?? [gateway.status, "off", "off"];
  const [label, shape, tone] = store.goneSince === null ? known : ["No answer", "diamond", "bad"];
  const fact = (value, what, strong = false) => h("span", { class: strong ? "fact strong" : "fact" }, h("b", null, value), ` ${what}`);
  return [
    h("span", { class: `badge ${tone}` }, glyph(shape, tone), h("span", { class: "hidden" }, "Gateway: "), label),
    fact(number(gateway.sessions), gateway.sessions === 1 ? "session" : "sessions"),
    fact(number(gateway.calls_in_flight), "in flight"),
    fact(number(gateway.calls_held), "held", gateway.calls_held > 0),
    h("span", { class: "fact", title: `Process ${gateway.pid}, started ${clock(gateway.started_unix_ms)}, listens on ${gateway.listen}` },
      "up ", h("b", null, wholeDuration(now() - gateway.started_unix_ms))),
    h("span", { class: "fact version" }, `v${gateway.version}`),
  ];
}

function tools() {
  return [
    hasKey() && store.phase === "ready" && h("button", { type: "button", class: "button small", on: { click: lock } }, "Forget key"),
    themeButton(),
  ];
}

function lock() {
  setKey(null);
  startOver();
}

function nextTry() {
  const left = Math.ceil((store.askedNextAt - Date.now()) / 1000);
  return left > 0 ? `Asking again in ${left} s.` : "Asking now…";
}

function goneBanner() {
  return h("div", { class: "banner bad" },
    glyph("diamond", "bad"),
    // Read out once; the seconds are not for hearing.
    h("p", null,
      h("span", { role: "alert" }, store.problem ? `The gateway answers wrongly since ${clock(store.goneSince)}: ${store.problem}` : `The gateway does not answer since ${clock(store.goneSince)}.`),
      " ", h("span", { class: "seconds" }, `What you see is ${wholeDuration(gatewayTime() - store.heardAt)} old. ${nextTry()}`)),
    h("button", { type: "button", class: "button small", on: { click: askNow } }, "Ask now"));
}

function unreachableView() {
  return message("The gateway does not answer",
    h("p", null, "It served this page a moment ago, so it was there. If it is being restarted, this page comes back by itself."),
    h("p", { class: "quiet" }, nextTry()),
    h("button", { type: "button", class: "button primary", on: { click: askNow } }, "Ask now"));
}

function brokenView() {
  return message("The gateway answers, but not as expected",
    h("p", null, store.problem),
    h("p", { class: "quiet" }, "A proxy in between may answer instead of it. ", nextTry()),
    h("button", { type: "button", class: "button primary", on: { click: askNow } }, "Ask now"));
}

// Its address would be taken for a place in this page's own scheme.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  place.view.focus();
});
onChange(render);
addEventListener("hashchange", navigated);
addEventListener("redraw", changed);
// Ages and countdowns go on without news.
setInterval(() => document.hidden || changed(), 1000);
start();
