// What a server offers: a list that can be searched, and one thing of it in full.

import { path } from "./api.js";
import { h } from "./dom.js";
import { pretty, text } from "./format.js";
import { chip, emptyNote, link, skeleton, theirs } from "./parts.js";
import { resource } from "./store.js";
import { tryIt } from "./try_it.js";

const NOUNS = { tools: "tool", prompts: "prompt", resources: "resource", resource_templates: "template" };
/** So that a server with ten thousand tools does not stop the page. */
const MOST_SHOWN = 200;

let search = "";
let searchedIn = "";

export function catalogView(server, kind, item) {
  const { value, error } = resource(`servers/${path(server.name)}/${kind}`, { version: `${server.catalog?.version} ${server.catalog?.stale}` });
  if (error) return h("p", { class: "notice bad", role: "alert" }, error);
  if (!value) return skeleton(3);
  const items = (value.items ?? []).filter((entry) => entry && typeof entry.definition === "object" && entry.definition !== null);
  if (items.length === 0) return emptyNote(`It offers no ${NOUNS[kind]}s${server.state === "connected" ? "" : ", as far as is known"}.`);
  const place = `${server.name}/${kind}`;
  if (searchedIn !== place) [search, searchedIn] = ["", place];
  const chosen = items.find((entry) => nameOf(entry, kind) === item) ?? null;
  return [
    value.stale && h("p", { class: "notice warn" }, "This is what it offered on an earlier connection; it is asked again as soon as it is back."),
    h("div", { class: `catalog ${chosen ? "one" : ""}` },
      h("div", { class: "list" },
        h("input", {
          type: "search", class: "search", placeholder: `Search ${items.length} ${NOUNS[kind]}s`, "aria-label": `Search ${NOUNS[kind]}s`,
          once: { value: search }, on: { input: (event) => find(event.target.value) },
        }),
        list(server, kind, items, item)),
      h("div", { class: "chosen" }, chosen
        ? h("div", { key: `${place}/${item}` }, one(server, kind, chosen))
        : emptyNote(item ? `There is no ${NOUNS[kind]} of this name any more.` : kind === "tools" ? "Choose a tool to see its schema and to call it." : `Choose a ${NOUNS[kind]} to see all of it.`))),
  ];
}

function find(wanted) {
  search = wanted;
  dispatchEvent(new CustomEvent("redraw"));
}

function nameOf({ definition }, kind) {
  const name = kind === "resources" ? definition.uri : kind === "resource_templates" ? definition.uriTemplate : definition.name;
  return text(name);
}

function list(server, kind, items, item) {
  const wanted = search.toLowerCase();
  const found = items.filter((entry) => !wanted || pretty(entry.definition).toLowerCase().includes(wanted));
  if (found.length === 0) return emptyNote("None matches.");
  return [
    h("ul", { class: "items" }, found.slice(0, MOST_SHOWN).map((entry) => {
      const name = nameOf(entry, kind);
      return h("li", null, h("a", { href: link("servers", server.name, kind, name), "aria-current": name === item ? "true" : null },
        h("span", { class: "name" }, theirs(name, 100)),
        h("span", { class: "quiet about" }, theirs(entry.definition.description ?? entry.definition.title ?? entry.definition.name, 120))));
    })),
    found.length > MOST_SHOWN && emptyNote(`${found.length - MOST_SHOWN} more: search for them.`),
  ];
}

function one(server, kind, entry) {
  const { definition } = entry;
  const name = nameOf(entry, kind);
  return [
    h("p", { class: "back" }, h("a", { href: link("servers", server.name, kind) }, `All ${NOUNS[kind]}s`)),
    h("h2", { class: "item-title" }, theirs(definition.title ?? definition.annotations?.title ?? name, 200)),
    h("p", { class: "names" },
      h("code", null, theirs(name, 300)),
      entry.public_name && entry.public_name !== name && h("span", { class: "quiet" }, " clients see ", h("code", null, theirs(entry.public_name, 300))),
      entry.offered === false && chip("not offered to clients", "warn"),
      hints(definition.annotations)),
    definition.description && h("div", { class: "description" }, h("bdi", null, text(definition.description).slice(0, 20_000))),
    kind === "tools" && tryIt(server, name, definition.inputSchema),
    kind === "tools" && h("details", null, h("summary", null, "Input schema"), json(definition.inputSchema, "Input schema")),
    definition.outputSchema && h("details", null, h("summary", null, "Output schema"), json(definition.outputSchema, "Output schema")),
    kind === "prompts" && definition.arguments && h("details", { once: { open: true } }, h("summary", null, "Arguments"), json(definition.arguments, "Arguments")),
    h("details", { once: { open: kind !== "tools" && kind !== "prompts" } }, h("summary", null, "Definition, as the server sent it"), json(definition, "Definition")),
  ];
}

function hints(annotations) {
  if (typeof annotations !== "object" || annotations === null) return null;
  return [
    annotations.readOnlyHint === true && chip("read-only", "good"),
    annotations.readOnlyHint !== true && annotations.destructiveHint === true && chip("destructive", "bad"),
    annotations.idempotentHint === true && chip("idempotent"),
    annotations.openWorldHint === true && chip("open world"),
  ];
}

export function json(value, label) {
  return h("pre", { class: "code", tabindex: "0", role: "region", "aria-label": label }, h("bdi", null, pretty(value)));
}
