// What a tool answered. All of it was written by somebody else, and is shown as text, or as a picture that cannot do anything.

import { h } from "./dom.js";
import { bytes, duration, pretty, text, withoutControls } from "./format.js";
import { glyph, outcomeLook } from "./states.js";

const PICTURES = /^image\/(png|jpeg|gif|webp|avif|bmp)$/;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
/** More would make the page slow, and nobody reads it here. */
const MOST_CHARACTERS = 100_000;

export function resultView(answer) {
  if (answer.refused) return h("p", { class: "notice bad" }, answer.refused);
  const failed = answer.error || answer.result?.isError === true;
  return [
    heading(answer, failed),
    answer.error && errorView(answer.error),
    parts(answer.result).map(part),
    answer.result?.structuredContent !== undefined && labelled("Structured content", code(pretty(answer.result.structuredContent))),
    answer.result && h("details", null, h("summary", null, "Result, as it came"), code(pretty(answer.result))),
  ];
}

function heading(answer, failed) {
  const { shape, tone, label, says } = outcomeLook(answer.outcome);
  const words = [
    `in ${duration(answer.duration_ms)}`,
    answer.waited_ms >= 1 && `waited ${duration(answer.waited_ms)}`,
    answer.generation && `generation ${answer.generation}`,
    answer.resent && "sent again after its connection was lost",
  ].filter(Boolean);
  return h("p", { class: "outcome-line" },
    h("span", { class: `badge ${tone}`, title: says }, glyph(shape, tone), label),
    failed && h("span", { class: "badge bad" }, glyph("cross", "bad"), answer.error ? "Error" : "The tool says it failed"),
    h("span", { class: "quiet" }, words.join(" · ")));
}

function errorView({ code: number, message, data }) {
  return h("div", { class: "notice bad" }, h("bdi", null, text(message).slice(0, 4000)),
    number !== undefined && number !== null && h("span", { class: "quiet" }, ` (code ${text(number)})`),
    data !== undefined && data !== null && code(pretty(data)));
}

function parts(result) {
  return Array.isArray(result?.content) ? result.content : [];
}

function part(content) {
  switch (content?.type) {
    case "text":
      return code(readable(text(content.text)));
    case "image":
      return picture(content);
    case "audio":
      return labelled(`Audio, ${text(content.mimeType)}`, h("p", { class: "quiet" }, `${size(content.data)}; it cannot be played here.`));
    case "resource":
      return labelled(text(content.resource?.uri), typeof content.resource?.text === "string" ? code(content.resource.text) : h("p", { class: "quiet" }, size(content.resource?.blob)));
    case "resource_link":
      return labelled("Link to a resource", code(text(content.uri)));
    default:
      return code(pretty(content));
  }
}

function picture({ data, mimeType }) {
  if (!PICTURES.test(text(mimeType)) || typeof data !== "string" || !BASE64.test(data)) {
    return labelled(`Picture, ${text(mimeType)}`, h("p", { class: "quiet" }, `${size(data)}; it cannot be shown here.`));
  }
  return h("img", { class: "picture", src: `data:${mimeType};base64,${data}`, alt: "Picture that the tool returned" });
}

function size(base64) {
  return typeof base64 === "string" ? bytes(Math.floor(base64.length * 0.75)) : "nothing";
}

/** JSON in a text is what most tools return. */
function readable(value) {
  if (!/^\s*[[{]/.test(value) || value.length > MOST_CHARACTERS) return value;
  try {
    return pretty(JSON.parse(value));
  } catch {
    return value;
  }
}

function code(value) {
  const more = value.length - MOST_CHARACTERS;
  return h("pre", { class: "code", tabindex: "0", role: "region", "aria-label": "Content" },
    h("bdi", null, withoutControls(value.slice(0, MOST_CHARACTERS))), more > 0 && `\n… ${more} more characters`);
}

function labelled(label, content) {
  return h("div", { class: "labelled" }, h("h4", null, h("bdi", null, label.slice(0, 300))), content);
}
