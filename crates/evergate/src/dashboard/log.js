// What a child process writes on its standard error.

import { path } from "./api.js";
import { h } from "./dom.js";
import { clip, withoutControls } from "./format.js";
import { emptyNote, skeleton } from "./parts.js";
import { resource } from "./store.js";

const LONGEST_LINE = 4000;

export function tail(lines) {
  return h("pre", { class: "log", tabindex: "0", role: "region", "aria-label": "Log", dir: "ltr" },
    lines.map((line) => h("bdi", { class: "line" }, clip(withoutControls(line), LONGEST_LINE), "\n")));
}

export function logView(server) {
  if (!server.target?.startsWith("stdio")) {
    return emptyNote("Only servers that the gateway starts as processes have a log here; this one is reached over the network.");
  }
  const { value, error } = resource(`servers/${path(server.name)}/logs`, { every: 1500 });
  if (error) return h("p", { class: "notice bad", role: "alert" }, error);
  if (!value) return skeleton(1);
  const lines = value.lines ?? [];
  if (lines.length === 0) return emptyNote("It has written nothing.");
  requestAnimationFrame(follow);
  return h("pre", { id: "log", class: "log tall", tabindex: "0", role: "region", "aria-label": "Log", dir: "ltr", on: { scroll: remember } },
    lines.map((line) => h("bdi", { class: "line", key: line.n }, clip(withoutControls(line.text), LONGEST_LINE), "\n")));
}

/** New lines come into view unless somebody has scrolled away from them. */
let following = true;

function remember({ target }) {
  following = target.scrollTop + target.clientHeight >= target.scrollHeight - 8;
}

function follow() {
  const log = document.getElementById("log");
  if (log && following) log.scrollTop = log.scrollHeight;
}
