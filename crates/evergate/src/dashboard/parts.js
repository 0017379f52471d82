// Small pieces that several views are made of.

import { h } from "./dom.js";
import { clip, clock, isoTime, text, wholeDuration } from "./format.js";
import { glyph, lookOf } from "./states.js";
import { now } from "./store.js";

/** Where something is on this page. */
export function link(...segments) {
  return `#/${segments.map(encodeURIComponent).join("/")}`;
}

/** Text from a server: it cannot turn around what stands beside it, and is not longer than its place. */
export function theirs(value, most = 200) {
  const whole = text(value);
  return h("bdi", { title: whole.length > most ? clip(whole, 2000) : null }, clip(whole, most));
}

/** Shape and word of a server's state. */
export function stateBadge(server) {
  const { shape, tone, label } = lookOf(server);
  return h("span", { class: `badge ${tone}` }, glyph(shape, tone), label);
}

export function moment(unixMs) {
  return h("time", { datetime: isoTime(unixMs) }, clock(unixMs));
}

/** How long ago, with the time of day for those who point at it. */
export function age(unixMs) {
  return h("time", { datetime: isoTime(unixMs), title: clock(unixMs) }, wholeDuration(now() - unixMs));
}

/** Instead of content: why there is none, and what to do. */
export function message(title, ...rest) {
  return h("div", { class: "panel message" }, h("h1", { tabindex: "-1" }, title), rest);
}

export function emptyNote(...content) {
  return h("p", { class: "empty" }, content);
}

export function skeleton(blocks = 3) {
  return h("div", { class: "skeleton", "aria-busy": "true" },
    h("p", { class: "hidden" }, "Loading"),
    h("div", { class: "line wide" }),
    Array.from({ length: blocks }, () => h("div", { class: "block" })));
}

/** What is wider than a phone scrolls by itself, by keyboard too. */
export function scrolling(label, ...content) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, content);
}

export function chip(content, tone = "") {
  return h("span", { class: `chip ${tone}` }, content);
}
