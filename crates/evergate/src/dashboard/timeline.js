// The last hour of a server, drawn; less while the gateway is younger, so that there is something to see from the beginning.
// Colour, height and pattern each say the state; a sentence says it to those who do not see the picture.

import { h } from "./dom.js";
import { clock, plural, wholeDuration, words } from "./format.js";
import { look } from "./states.js";
import { now, store } from "./store.js";

const MINUTE = 60_000;
/** The history the gateway keeps is as long as the last of them. */
const SPANS_MS = [5 * MINUTE, 15 * MINUTE, 30 * MINUTE, 60 * MINUTE];
/** So that what lasted a second can be seen, in parts of the whole width: of a row, and of a page. */
const THINNEST = { row: 0.012, page: 0.004 };

/** How much of the past is drawn now. */
export function span() {
  const age = now() - (store.gateway?.started_unix_ms ?? 0);
  return SPANS_MS.find((length) => length >= age) ?? SPANS_MS.at(-1);
}

/** `[{ state, reason, from, to }]`, oldest first, as far back as is drawn. */
export function segments(history, until = now()) {
  const begin = until - span();
  const changes = (history ?? []).filter((change) => Number.isFinite(change?.at_unix_ms));
  const parts = [];
  changes.forEach((change, index) => {
    const from = Math.max(begin, change.at_unix_ms);
    const to = Math.min(until, changes[index + 1]?.at_unix_ms ?? until);
    const last = parts.at(-1);
    // Another connection is not another state.
    if (last?.state === change.state) last.to = to;
    else if (to > from || to === until) parts.push({ state: change.state, reason: change.reason, from, to });
  });
  return parts;
}

/** For a row of the list. */
export function strip(server, height = 20, thinnest = THINNEST.row) {
  const until = now();
  const parts = segments(server.history, until);
  const length = span();
  const position = (time) => 1 - (until - time) / length;
  // What is wrong lies on top: a thin line of it must not vanish beneath what follows.
  const order = [...parts].sort((a, b) => look(b.state).rank - look(a.state).rank);
  return h("svg", { class: "strip", height, role: "img", "aria-label": told(parts, until), preserveAspectRatio: "none" },
    h("rect", { class: "ground", width: "100%", y: height - 1, height: 1 }),
    order.map((part) => bar(part, position, height, thinnest)));
}

function bar({ state, reason, from, to }, position, height, thinnest) {
  const { level, tone, pattern, label } = look(state);
  const width = Math.max(thinnest, position(to) - position(from));
  const left = Math.min(position(from), 1 - width);
  const tall = Math.max(2, Math.round(height * level));
  const box = { x: percent(left), width: percent(width), y: height - tall, height: tall };
  const title = `${label}${reason ? ` (${words(reason)})` : ""}, ${clock(from)}, for ${wholeDuration(to - from)}`;
  return h("g", { key: `${state}${from}` },
    h("title", null, title),
    h("rect", { class: `bar ${tone}`, ...box }),
    tone === "good" && h("rect", { class: "edge", ...box, height: 2 }),
    pattern && h("rect", { fill: `url(#${pattern})`, ...box }));
}

function percent(part) {
  return `${(part * 100).toFixed(2)}%`;
}

/** The same in words. */
export function told(parts, until = now()) {
  if (parts.length === 0) return "Nothing is known of the last hour.";
  const total = parts.reduce((sum, part) => sum + part.to - part.from, 0);
  const each = totals(parts).map(({ state, ms, times }) => {
    const { label } = look(state);
    const share = `${label.toLowerCase()} ${wholeDuration(ms)}`;
    return times > 1 ? `${share} (${times} times)` : share;
  });
  const whole = until - parts[0].from >= SPANS_MS.at(-1) - MINUTE;
  return `${whole ? "Last hour" : `Last ${wholeDuration(total)}`}: ${each.join(", ")}; ${plural(parts.length - 1, "change")}.`;
}

/** `[{ state, ms, times, share }]`, the longest first. */
export function totals(parts) {
  const sums = new Map();
  for (const { state, from, to } of parts) {
    const sum = sums.get(state) ?? { state, ms: 0, times: 0 };
    sums.set(state, { state, ms: sum.ms + to - from, times: sum.times + 1 });
  }
  const all = [...sums.values()].sort((a, b) => b.ms - a.ms);
  const total = all.reduce((sum, { ms }) => sum + ms, 0) || 1;
  return all.map((sum) => ({ ...sum, share: sum.ms / total }));
}

/** For a page of its own: larger, with times beneath and what it adds up to. */
export function chart(server) {
  const until = now();
  const ticks = [1, 0.75, 0.5, 0.25, 0];
  return h("figure", { class: "chart" },
    strip(server, 44, THINNEST.page),
    h("div", { class: "ticks", "aria-hidden": "true" },
      ticks.map((part) => h("span", null, part === 0 ? "now" : `−${wholeDuration(part * span())}`))),
    h("figcaption", null, totals(segments(server.history, until)).map(({ state, ms, times, share }) =>
      h("span", { class: "legend", key: state },
        h("svg", { class: "swatch", width: 14, height: 10, "aria-hidden": "true" },
          h("rect", { class: `bar ${look(state).tone}`, width: 14, height: 10 }),
          look(state).tone === "good" && h("rect", { class: "edge", width: 14, height: 2 }),
          look(state).pattern && h("rect", { fill: `url(#${look(state).pattern})`, width: 14, height: 10 })),
        h("span", null, look(state).label, " ", h("b", null, share > 0.9995 ? "100 %" : `${(share * 100).toFixed(1)} %`)),
        h("span", { class: "quiet" }, wholeDuration(ms), times > 1 ? `, ${times} times` : "")))));
}
