// Keeps the page current: asks every two seconds while somebody can see it, follows the events, and when the gateway is gone
// keeps asking, less and less often, until it is back.

import { Refused, get, readEvents } from "./api.js";
import { announceTransition } from "./announce.js";
import { changed, forgetResources, setGateway, store } from "./store.js";

const EVERY_MS = 2000;
/** Several events at once are one reason to ask. */
const SOON_MS = 120;
const LONGEST_PAUSE_MS = 15_000;
const MOST_EVENTS = 1000;

let timer = null;
let asking = false;
let failures = 0;
/** Asked for while an answer was under way, which may be older than the wish. */
let again = false;

let following = null;
let lastEvent = null;
let eventFailures = 0;

export function start() {
  document.addEventListener("visibilitychange", () => (document.hidden ? pause() : resume()));
  resume();
}

function resume() {
  askNow();
  follow();
}

function pause() {
  clearTimeout(timer);
  following?.abort();
  following = null;
}

/** Somebody wants to know now, or something happened. */
export function askNow() {
  schedule(0);
}

/** With another key everything may be different. */
export function startOver() {
  failures = 0;
  store.phase = "loading";
  forgetResources();
  forgetEvents();
  resume();
  changed();
}

function schedule(delay) {
  clearTimeout(timer);
  if (document.hidden) return;
  timer = setTimeout(ask, delay);
}

async function ask() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  again = false;
  try {
    const [gateway, list] = await Promise.all([get("gateway"), get("servers")]);
    arrived(gateway, list);
  } catch (error) {
    failed(error);
  }
  asking = false;
  changed();
  if (again) schedule(0);
}

function arrived(gateway, list) {
  if (!Array.isArray(list?.servers) || typeof gateway?.status !== "string") throw new Refused(0, "", "The gateway's answer is not what this page expects.");
  // Another process counts its events from the beginning.
  if (store.gateway && store.gateway.started_unix_ms !== gateway.started_unix_ms) {
    forgetEvents();
    forgetResources();
  }
  setGateway(gateway);
  store.servers = list.servers;
  store.phase = "ready";
  store.goneSince = null;
  store.askedNextAt = null;
  failures = 0;
  follow();
  schedule(EVERY_MS);
}

function failed(error) {
  failures += 1;
  if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
    store.phase = "locked";
    store.problem = error.status === 403 ? error.message : "";
    store.goneSince = null;
    following?.abort();
    following = null;
    return;
  }
  // If it answers it is not gone; what is shown is old all the same.
  store.problem = error instanceof Refused ? error.message : "";
  if (store.phase !== "ready") store.phase = store.problem ? "broken" : "loading";
  store.goneSince ??= Date.now();
  const delay = Math.min(LONGEST_PAUSE_MS, 500 * 2 ** failures);
  store.askedNextAt = Date.now() + delay;
  schedule(delay);
}

// === events ===

function forgetEvents() {
  following?.abort();
  following = null;
  lastEvent = null;
  store.events = [];
}

async function follow() {
  if (following || document.hidden || store.phase !== "ready" || store.goneSince !== null) return;
  const mine = (following = new AbortController());
  // What happened before this page was opened is shown, but not announced.
  const replay = { until: lastEvent === null ? Infinity : lastEvent };
  try {
    await readEvents(lastEvent, (event) => heard(event, replay), mine.signal);
  } catch { /* whether the gateway is there is found out by asking it */ }
  store.eventsLive = false;
  changed();
  if (following !== mine) return;
  eventFailures += 1;
  await new Promise((wake) => setTimeout(wake, Math.min(LONGEST_PAUSE_MS, 500 * 2 ** eventFailures)));
  if (following !== mine) return;
  following = null;
  follow();
}

function heard(event, replay) {
  store.eventsLive = true;
  eventFailures = 0;
  if (event.kind === "hello") {
    replay.until = Math.max(event.n ?? 0, lastEvent ?? 0);
    changed();
    return;
  }
  if (typeof event.n !== "number" || (lastEvent !== null && event.n <= lastEvent)) return;
  lastEvent = event.n;
  store.events.unshift(event);
  store.events.length = Math.min(store.events.length, MOST_EVENTS);
  if (event.n > replay.until && event.kind === "transition") announceTransition(event);
  if (!asking) schedule(SOON_MS);
  else again = true;
  changed();
}
