// Talks to the gateway that served this page. Addresses are relative to the page, so that it also works under a prefix.

const BASE = new URL("api/v1/", document.baseURI);
const KEY = "evergate-key";
const PATIENCE_MS = 10_000;
/** Three times as long as the gateway is ever silent: then the connection is gone, and nobody said so. */
const SILENCE_MS = 45_000;

/** The gateway answered, but not with what was asked for. */
export class Refused extends Error {
  constructor(status, code, message, nearest) {
    super(message);
    this.status = status;
    this.code = code;
    this.nearest = nearest;
  }
}

/** Nobody answered. */
export class Unreachable extends Error {}

// Storage may be forbidden; then the key lives as long as the page.
let key = null;
try {
  key = sessionStorage.getItem(KEY);
} catch { /* forbidden */ }

export function hasKey() {
  return key !== null;
}

export function setKey(value) {
  key = value || null;
  try {
    if (key === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, key);
  } catch { /* forbidden */ }
}

export function get(path) {
  return request("GET", path);
}

/** `body` is JSON text: what somebody typed is sent as typed, long numbers included. */
export function post(path, body = "{}", { patienceMs = PATIENCE_MS, signal } = {}) {
  return request("POST", path, { body, patienceMs, signal });
}

/** A path of segments that may contain anything. */
export function path(...segments) {
  return segments.map(encodeURIComponent).join("/");
}

async function request(method, target, { body, patienceMs = PATIENCE_MS, signal } = {}) {
  const patience = AbortSignal.timeout(patienceMs);
  const response = await send(target, {
    method,
    body,
    headers: body === undefined ? {} : { "content-type": "application/json" },
    signal: signal ? AbortSignal.any([signal, patience]) : patience,
  });
  let answer;
  try {
    answer = await response.json();
  } catch {
    if (signal?.aborted) throw new DOMException("given up", "AbortError");
    if (!response.ok) throw new Refused(response.status, "", `The gateway answered with status ${response.status}.`);
    throw new Unreachable("the answer broke off, or was not JSON");
  }
  if (response.ok) return answer;
  // Errors of a proxy in between, or of another path, look otherwise.
  const error = typeof answer?.error === "object" && answer.error !== null ? answer.error : {};
  const message = typeof error.message === "string" ? error.message : `The gateway answered with status ${response.status}.`;
  throw new Refused(response.status, String(error.code ?? ""), message, error.nearest ?? null);
}

async function send(target, { headers, signal, ...rest }) {
  if (key !== null) headers.authorization = `Bearer ${key}`;
  try {
    return await fetch(new URL(target, BASE), { cache: "no-store", headers, signal, ...rest });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable(error.name === "TimeoutError" ? "no answer in time" : "no connection");
  }
}

/**
 * Reads the stream of events from after number `after` until it ends, calling `heard` with each. An EventSource would do
 * all of this, but cannot send a key.
 */
export async function readEvents(after, heard, signal) {
  const headers = { accept: "text/event-stream" };
  if (after !== null) headers["last-event-id"] = String(after);
  const response = await send(after === null ? "events?after=0" : "events", { headers, signal });
  if (!response.ok || !response.body) throw new Refused(response.status, "", "no events");
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const silence = setTimeout(() => reader.cancel(), SILENCE_MS);
    const { done, value } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return;
    const lines = (rest + value).split(/\r\n|\n|\r/);
    rest = lines.pop();
    for (const line of lines) {
      const event = line.startsWith("data:") ? parsed(line.slice(5)) : null;
      if (event) heard(event);
    }
  }
}

function parsed(json) {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}
