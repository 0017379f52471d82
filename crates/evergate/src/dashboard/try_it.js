// Calls a tool with arguments from a form that its schema describes, or from JSON.

import { path, post } from "./api.js";
import { draw, h } from "./dom.js";
import { duration, pretty } from "./format.js";
import { fieldsOf } from "./fields.js";
import { resultView } from "./result.js";

const PATIENCE_MS = 120_000;

/** The form keeps what is typed into it: it is drawn when it changes, not whenever the page is. */
export function tryIt(server, tool, schema) {
  // A tool that changed its schema gets a new form.
  return h("section", { key: `try ${pretty(schema)}`, class: "panel try", "aria-label": "Try it", island: (place) => form(place, server.name, tool, schema) });
}

function form(place, server, tool, schema) {
  const fields = fieldsOf(schema);
  const state = { raw: fields === null, rawText: "{}", problem: "", running: null, startedAt: 0, outcome: null };
  const again = () => draw(place, view());

  function view() {
    return [
      h("div", { class: "section-head" },
        h("h3", null, "Try it"),
        fields !== null && fields.length > 0 && h("button", { type: "button", class: "button small", "aria-pressed": String(state.raw), on: { click: toggle } }, "Raw JSON")),
      h("form", { novalidate: true, on: { submit, keydown } },
        state.raw ? rawField() : fields.length === 0 ? h("p", { class: "quiet" }, "It takes no arguments.") : fields.map((field) => field.view(again)),
        h("div", { class: "buttons" },
          h("button", { type: "submit", class: "button primary", "aria-disabled": state.running ? "true" : null }, state.running ? "Calling…" : "Call the tool"),
          state.running && h("button", { type: "button", class: "button", on: { click: () => state.running?.abort() } }, "Give up"),
          h("span", { class: "quiet" }, state.running ? duration(performance.now() - state.startedAt) : "This is a real call."))),
      h("div", { class: "outcome", role: "status" }, state.outcome && resultView(state.outcome)),
    ];
  }

  function rawField() {
    return h("div", { class: "field", key: "raw" },
      h("label", { for: "raw-arguments" }, "Arguments as JSON"),
      h("textarea", {
        id: "raw-arguments", class: "mono", rows: 6, spellcheck: "false", once: { value: state.rawText },
        "aria-invalid": state.problem ? "true" : null, "aria-describedby": state.problem ? "raw-problem" : null,
        on: { input: (event) => (state.rawText = event.target.value) },
      }),
      state.problem && h("p", { id: "raw-problem", class: "problem" }, state.problem));
  }

  function toggle() {
    if (!state.raw) state.rawText = readable(fieldsText());
    state.raw = !state.raw;
    again();
  }

  /** Field by field as JSON text, so that long numbers stay what was typed. */
  function fieldsText() {
    const given = fields.map((field) => [field.name, field.json()]).filter(([, json]) => json !== null);
    return `{${given.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(",")}}`;
  }

  function keydown(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  }

  function submit(event) {
    event.preventDefault();
    if (state.running) return;
    const text = state.raw ? checkedRaw() : checkedFields();
    again();
    if (text === null) place.querySelector("[aria-invalid=true]")?.focus();
    else call(text);
  }

  function checkedRaw() {
    state.problem = "";
    try {
      const value = JSON.parse(state.rawText);
      if (typeof value === "object" && value !== null && !Array.isArray(value)) return state.rawText;
      state.problem = "Arguments are a JSON object: { … }.";
    } catch (error) {
      state.problem = `Not valid JSON: ${error.message}`;
    }
    return null;
  }

  function checkedFields() {
    const well = fields.map((field) => field.check()).every(Boolean);
    return well ? fieldsText() : null;
  }

  async function call(text) {
    const running = (state.running = new AbortController());
    state.startedAt = performance.now();
    state.outcome = null;
    const clock = setInterval(again, 200);
    again();
    const body = `{"tool":${JSON.stringify(tool)},"arguments":${text},"timeout_ms":${PATIENCE_MS}}`;
    try {
      state.outcome = await post(`servers/${path(server)}/call`, body, { patienceMs: PATIENCE_MS + 5000, signal: running.signal });
    } catch (error) {
      state.outcome = { refused: error.name === "AbortError" ? "You gave up. The server may have executed the call." : error.message };
    }
    clearInterval(clock);
    state.running = null;
    if (place.isConnected) again();
  }

  again();
}

function readable(json) {
  try {
    return pretty(JSON.parse(json));
  } catch {
    return json;
  }
}
