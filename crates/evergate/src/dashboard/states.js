// The states of a server, and how each looks: always a colour, a shape and a word, never a colour alone.

import { h } from "./dom.js";

/**
 * `tone` is the colour. `level` is the height on the timeline: what is up stands tall. `pattern` fills it. `rank` sorts the
 * list: the lower, the more it needs somebody.
 */
const STATES = {
  permanently_failed: { label: "Failed", verb: "has failed", tone: "bad", shape: "cross", level: 0.4, pattern: "dots", rank: 0, troubled: true },
  unusable: { label: "Unusable", verb: "cannot be used", tone: "bad", shape: "alert", level: 0.4, pattern: "dots", rank: 0, troubled: true },
  disconnected: { label: "Disconnected", verb: "has been disconnected", tone: "bad", shape: "diamond", level: 0.4, pattern: "cross", rank: 1, troubled: true },
  reconnecting: { label: "Reconnecting", verb: "has been reconnecting", tone: "warn", shape: "triangle", level: 0.7, pattern: "hatch", rank: 2, troubled: true },
  limited: { label: "Rate limited", verb: "has been rate limited", tone: "warn", shape: "pause", level: 1, pattern: null, rank: 3, troubled: true },
  degraded: { label: "Degraded", verb: "has been degraded", tone: "warn", shape: "half", level: 1, pattern: null, rank: 3, troubled: true },
  connecting: { label: "Connecting", verb: "has been connecting", tone: "busy", shape: "ring", level: 0.7, pattern: "hatch", rank: 4 },
  connected: { label: "Connected", verb: "has been connected", tone: "good", shape: "disc", level: 1, pattern: null, rank: 5 },
  per_client: { label: "One per client", verb: "is there once per client", tone: "good", shape: "double", level: 1, pattern: null, rank: 5 },
  disabling: { label: "Disabling", verb: "is being disabled", tone: "off", shape: "off", level: 0.15, pattern: null, rank: 6 },
  disabled: { label: "Disabled", verb: "is disabled", tone: "off", shape: "off", level: 0.15, pattern: null, rank: 6 },
};

const UNKNOWN = { label: "Unknown", verb: "is in a state this page does not know", tone: "off", shape: "off", level: 0.15, pattern: null, rank: 3 };

/** How a state of the history looks. */
export function look(state) {
  return Object.hasOwn(STATES, state) ? STATES[state] : UNKNOWN;
}

/** How a server looks: a connected one may still be in trouble. */
export function lookOf(server) {
  if (server.state === "connected" && server.breaker?.open) return STATES.limited;
  if ((server.state === "connected" || server.state === "per_client") && server.degraded) return STATES.degraded;
  return look(server.state);
}

/** In the order in which somebody should look at them; else as configured. */
export function troubledFirst(servers) {
  return [...servers].sort((a, b) => lookOf(a).rank - lookOf(b).rank);
}

const SHAPES = {
  disc: ["M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2z"],
  double: ["M4 4.2a3.8 3.8 0 1 0 0 7.6 3.8 3.8 0 0 0 0-7.6z", "M12 4.2a3.8 3.8 0 1 0 0 7.6 3.8 3.8 0 0 0 0-7.6z"],
  half: ["M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 1.8v8.4a4.2 4.2 0 0 1 0-8.4z"],
  ring: ["M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 2.2a3.8 3.8 0 1 1 0 7.6 3.8 3.8 0 0 1 0-7.6z"],
  triangle: ["M8 1.8 15 14H1z"],
  diamond: ["M8 1 15 8l-7 7-7-7z"],
  cross: ["M3.6 2 8 6.4 12.4 2 14 3.6 9.6 8l4.4 4.4-1.6 1.6L8 9.6 3.6 14 2 12.4 6.4 8 2 3.6z"],
  alert: ["M5 1.5h6L15 5.5v5L11 14.5H5L1 10.5v-5zM7 4v5h2V4zm0 6.2V12h2v-1.8z"],
  pause: ["M3.5 2.5h3.2v11H3.5zM9.3 2.5h3.2v11H9.3z"],
  off: ["M2 6.8h12v2.4H2z"],
  arrow: ["M8 2 14 8l-1.5 1.5L9.1 6.1V14H6.9V6.1L3.5 9.5 2 8z"],
};

/** A picture for those who see it; the words beside it say the same. */
export function glyph(shape, tone) {
  return h("svg", { class: `glyph ${tone}`, viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    SHAPES[shape].map((path) => h("path", { d: path, "fill-rule": "evenodd" })));
}

/** What became of a call. */
const OUTCOMES = {
  answered: { label: "Answered", tone: "good", shape: "disc", says: "A result or an error came back from the server." },
  not_sent: { label: "Not sent", tone: "warn", shape: "triangle", says: "Nothing of it left the gateway: nothing was executed." },
  rejected: { label: "Rejected", tone: "warn", shape: "half", says: "The server refused it without executing it." },
  unknown: { label: "Unknown", tone: "bad", shape: "diamond", says: "It was sent, and no answer came: it may have been executed." },
  cancelled: { label: "Cancelled", tone: "off", shape: "off", says: "Whoever asked gave up." },
};

export function outcomeLook(outcome) {
  return Object.hasOwn(OUTCOMES, outcome) ? OUTCOMES[outcome] : { label: outcome, tone: "off", shape: "off", says: "" };
}

export const outcomeNames = Object.keys(OUTCOMES);
