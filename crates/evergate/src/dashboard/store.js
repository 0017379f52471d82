// All that the page knows, in one place. Whoever changes it asks for a new drawing; several changes make one.

import { Unreachable, get } from "./api.js";

export const store = {
  /** `loading`, `ready`, `locked` (a key is needed, or another one), `broken` (the gateway answers, but not as it should). */
  phase: "loading",
  /** Why it is locked or broken, in words. */
  problem: "",
  gateway: null,
  servers: [],
  /** When the two above arrived, by the gateway's clock. */
  heardAt: 0,
  /** Since when the gateway does not answer, and when it is asked next. */
  goneSince: null,
  askedNextAt: null,
  /** Newest first. */
  events: [],
  eventsLive: false,
};

/** How far this browser's clock is behind the gateway's. */
let behind = 0;

/** The gateway's time. What it says is measured by it. */
export function gatewayTime() {
  return Date.now() + behind;
}

/** The time at which what is shown is true: while nobody answers, it stands still. */
export function now() {
  return store.goneSince === null ? gatewayTime() : store.heardAt;
}

export function setGateway(gateway) {
  store.gateway = gateway;
  const there = gateway.started_unix_ms + gateway.uptime_ms;
  // The way here took a moment; small differences are that.
  if (Number.isFinite(there) && Math.abs(there - gatewayTime()) > 500) behind = there - Date.now();
  store.heardAt = gatewayTime();
}

/** What the gateway said would happen in `ms`, seen from this moment. */
export function remaining(ms) {
  return Math.max(0, ms - (now() - store.heardAt));
}

export function serverNamed(name) {
  return store.servers.find((server) => server.name === name) ?? null;
}

let drawing = null;
let render = () => {};

export function onChange(draw) {
  render = draw;
}

export function changed() {
  drawing ??= requestAnimationFrame(() => {
    drawing = null;
    render();
    dropUnused();
  });
}

// === what only some views need ===

const cells = new Map();
/** What could not be had is asked for again after this. */
const AFTER_ERROR_MS = 5000;

/**
 * What a path of the API answered last: `{ value, error, loading }`. Asking for it while drawing is enough to have it loaded,
 * again after `every` milliseconds and whenever `version` is another one. Until then the old value stays.
 */
export function resource(path, { every = Infinity, version = null } = {}) {
  let cell = cells.get(path);
  if (!cell) cells.set(path, (cell = { value: null, error: null, loading: false, at: -Infinity, version }));
  cell.used = true;
  const old = performance.now() - cell.at > (cell.error ? AFTER_ERROR_MS : every) || cell.version !== version || cell.at === -Infinity;
  if (old && !cell.loading && store.goneSince === null) load(path, cell, version);
  return cell;
}

/** Whatever was loaded may be another thing now. */
export function forgetResources() {
  cells.clear();
}

async function load(path, cell, version) {
  cell.loading = true;
  try {
    cell.value = await get(path);
    cell.error = null;
  } catch (error) {
    // That nobody answers is said for the whole page.
    if (!(error instanceof Unreachable)) cell.error = error.message;
  }
  cell.loading = false;
  cell.at = performance.now();
  cell.version = version;
  changed();
}

/** What the last drawing did not ask for is not kept. */
function dropUnused() {
  for (const [path, cell] of cells) {
    if (!cell.used && !cell.loading) cells.delete(path);
    cell.used = false;
  }
}
