// The fields of a form, from a JSON schema. What a field cannot express is written as JSON.

import { h } from "./dom.js";
import { clip, pretty, text } from "./format.js";

/** More than this is easier to write as JSON. */
const MOST_FIELDS = 60;

let numbered = 0;

/** `null` if a form makes no sense: the schema does not describe an object. */
export function fieldsOf(schema) {
  if (schema === undefined || schema === null) return [];
  if (typeof schema !== "object" || Array.isArray(schema)) return null;
  const properties = typeof schema.properties === "object" && schema.properties !== null ? schema.properties : {};
  const names = Object.keys(properties);
  const elsewhere = ["anyOf", "oneOf", "allOf", "$ref"].some((keyword) => keyword in schema);
  if (names.length > MOST_FIELDS || (names.length === 0 && elsewhere)) return null;
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  // Required ones first, else in the server's order.
  const ordered = [...names.filter((name) => required.has(name)), ...names.filter((name) => !required.has(name))];
  return ordered.map((name) => new Field(name, properties[name], required.has(name)));
}

class Field {
  constructor(name, schema, required) {
    this.name = name;
    this.schema = typeof schema === "object" && schema !== null ? schema : {};
    this.required = required;
    this.kind = kindOf(this.schema);
    this.id = `field-${(numbered += 1)}`;
    this.problem = "";
    this.value = startValue(this.schema, this.kind);
  }

  view(again) {
    const { id, name, schema, required, kind, problem } = this;
    const about = [schema.description, ...limits(schema)].filter((part) => typeof part === "string" && part !== "");
    const described = [about.length > 0 && `${id}-about`, problem && `${id}-problem`].filter(Boolean).join(" ");
    return h("div", { class: "field", key: id },
      h("label", { for: id }, h("bdi", { class: "mono" }, clip(name, 80)),
        required && h("span", { class: "required" }, "required"),
        h("span", { class: "quiet" }, typeName(schema, kind))),
      this.control({
        id, "aria-required": required ? "true" : null, "aria-invalid": problem ? "true" : null, "aria-describedby": described || null,
        once: { value: this.value },
        on: {
          input: (event) => {
            this.value = event.target.value;
            if (!this.problem) return;
            this.check();
            again();
          },
        },
      }),
      about.length > 0 && h("p", { id: `${id}-about`, class: "quiet about" }, h("bdi", null, clip(about.join(" "), 600))),
      problem && h("p", { id: `${id}-problem`, class: "problem" }, problem));
  }

  control(props) {
    switch (this.kind) {
      case "enum":
        return h("select", props, h("option", { value: "" }, "not set"),
          this.schema.enum.map((choice) => h("option", { value: JSON.stringify(choice) }, clip(text(choice), 80))));
      case "boolean":
        return h("select", props, ["", "true", "false"].map((choice) => h("option", { value: choice }, choice || "not set")));
      case "number": case "integer":
        return h("input", { ...props, type: "text", inputmode: this.kind === "integer" ? "numeric" : "decimal", autocomplete: "off" });
      case "json":
        return h("textarea", { ...props, class: "mono", rows: 3, spellcheck: "false", placeholder: this.schema.type === "array" ? "[ … ]" : null });
      default:
        return h("textarea", { ...props, class: "grows", rows: 1 });
    }
  }

  /** As JSON text; `null` if it is left out. */
  json() {
    if (this.value.trim() === "" && this.kind !== "string") return null;
    if (this.value === "") return null;
    return this.kind === "string" ? JSON.stringify(this.value) : this.value.trim();
  }

  check() {
    this.problem = this.wrong() ?? "";
    return this.problem === "";
  }

  wrong() {
    const json = this.json();
    if (json === null) {
      if (!this.required) return null;
      return this.kind === "string" ? "Required. (An empty text can be sent as raw JSON.)" : "Required.";
    }
    switch (this.kind) {
      case "number": case "integer": return wrongNumber(json, this.schema, this.kind);
      case "json": return wrongJson(json, this.schema);
      case "string": return wrongLength(this.value, this.schema);
      default: return null;
    }
  }
}

function kindOf(schema) {
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return "enum";
  // `["string", "null"]` is an optional text.
  const types = [schema.type].flat().filter((type) => type !== "null");
  if (types.length !== 1) return "json";
  return ["string", "number", "integer", "boolean"].includes(types[0]) ? types[0] : "json";
}

function startValue(schema, kind) {
  const value = schema.default ?? schema.const;
  if (value === undefined || value === null) return "";
  if (kind === "string" && typeof value === "string") return value;
  return kind === "json" ? pretty(value) : JSON.stringify(value);
}

function typeName(schema, kind) {
  if (kind === "enum") return "one of";
  if (kind !== "json") return typeof schema.format === "string" ? `${kind}, ${clip(schema.format, 30)}` : kind;
  const type = clip([schema.type].flat().filter((name) => typeof name === "string").join(" or "), 40);
  return type ? `${type}, as JSON` : "any value, as JSON";
}

/** In words. A pattern is only told: one that a server wrote could keep the browser busy for ever. */
function limits(schema) {
  const told = [
    [schema.minimum, (limit) => `At least ${limit}.`],
    [schema.maximum, (limit) => `At most ${limit}.`],
    [schema.minLength, (limit) => `At least ${limit} characters.`],
    [schema.maxLength, (limit) => `At most ${limit} characters.`],
    [schema.pattern, (pattern) => `Pattern: ${clip(pattern, 100)}`],
  ];
  return told.filter(([limit]) => limit !== undefined && limit !== null).map(([limit, tell]) => tell(text(limit)));
}

function wrongNumber(json, { minimum, maximum }, kind) {
  if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(json)) return "Not a number.";
  if (kind === "integer" && !/^-?\d+$/.test(json)) return "Not a whole number.";
  if (typeof minimum === "number" && Number(json) < minimum) return `Must be at least ${minimum}.`;
  if (typeof maximum === "number" && Number(json) > maximum) return `Must be at most ${maximum}.`;
  return null;
}

function wrongJson(json, { type }) {
  let value;
  try {
    value = JSON.parse(json);
  } catch (error) {
    return `Not valid JSON: ${error.message}`;
  }
  if (type === "array" && !Array.isArray(value)) return "Must be a list: [ … ].";
  if (type === "object" && (typeof value !== "object" || value === null || Array.isArray(value))) return "Must be an object: { … }.";
  return null;
}

function wrongLength(value, { minLength, maxLength }) {
  const length = [...value].length;
  if (typeof minLength === "number" && length < minLength) return `Must have at least ${minLength} characters.`;
  if (typeof maxLength === "number" && length > maxLength) return `Must have at most ${maxLength} characters.`;
  return null;
}
