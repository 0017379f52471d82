// What can be done with a server. What interrupts somebody is asked about first.

import { announce } from "./announce.js";
import { path, post } from "./api.js";
import { confirmed } from "./dialog.js";
import { h } from "./dom.js";
import { plural } from "./format.js";
import { askNow } from "./live.js";
import { changed } from "./store.js";

/** How long "done" stays. What went wrong stays until something else is tried. */
const SHOWN_MS = 6000;

const ACTIONS = {
  refresh: { label: "Refresh", done: "It is asked again what it offers." },
  restart: {
    label: "Restart",
    done: "Restart asked for.",
    ask: (server) => ({
      title: `Restart ${server.name}?`,
      text: ["Its connection is closed, its process ended if it has one, and both are made anew. Calls that come meanwhile wait.", inFlight(server)],
      action: "Restart",
    }),
  },
  disable: {
    label: "Disable",
    done: "Disabled.",
    ask: (server) => ({
      title: `Disable ${server.name}?`,
      text: ["Its connection is closed and stays closed: calls to it are refused until somebody enables it again.", inFlight(server)],
      action: "Disable",
      tone: "bad",
    }),
  },
  enable: { label: "Enable", done: "Enabled." },
};

let notice = null;
let busy = null;

function inFlight({ in_flight: count }) {
  return count > 0 ? `${plural(count, "call is in flight and may be interrupted", "calls are in flight and may be interrupted")}.` : "No call is in flight.";
}

/** What became of the last action on this server. */
export function noticeOf(name) {
  return notice?.server === name ? notice : null;
}

export function forgetNotice() {
  notice = null;
}

export function actions(server) {
  // Then there is nothing to act on: the configuration cannot be used, or no client has a connection of its own.
  if (server.state === "unusable" || (server.isolation === "per_client" && !server.connections)) return null;
  const names = possible(server);
  return h("div", { class: "buttons", role: "group", "aria-label": "Actions" }, names.map((name) =>
    h("button", {
      key: name, type: "button", class: `button ${name === "enable" ? "primary" : ""}`,
      "aria-disabled": busy ? "true" : null,
      on: { click: () => busy || act(server, name) },
    }, ACTIONS[name].label)));
}

function possible(server) {
  // The next client would have one again.
  if (server.isolation === "per_client") return ["refresh", "restart"];
  return server.enabled === false || server.state === "disabled" ? ["enable"] : ["refresh", "restart", "disable"];
}

async function act(server, name) {
  const { ask, done } = ACTIONS[name];
  if (ask && !(await confirmed(ask(server)))) return;
  busy = name;
  notice = null;
  changed();
  try {
    await post(`servers/${path(server.name)}/${name}`);
    tell(server.name, "good", done);
    // Whoever pressed one of these keeps a place to go on from when it gives way to another.
    requestAnimationFrame(() => requestAnimationFrame(keepFocus));
  } catch (error) {
    tell(server.name, "bad", sentence(error.message));
  }
  busy = null;
  askNow();
  changed();
}

function tell(server, tone, text) {
  const mine = (notice = { server, tone, text });
  if (tone === "bad") return;
  announce(`${server}: ${text}`);
  setTimeout(() => {
    if (notice !== mine) return;
    notice = null;
    changed();
  }, SHOWN_MS);
}

function keepFocus() {
  if (document.activeElement === document.body) document.querySelector("#view h1")?.focus({ preventScroll: true });
}

/** Errors of the gateway are written to stand after something else. */
function sentence(message) {
  const whole = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}
