// Light, dark, or as the system says.

import { announce } from "./announce.js";
import { h } from "./dom.js";
import { changed } from "./store.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const LABEL = { system: "Colours: as the system", light: "Colours: light", dark: "Colours: dark" };
const PICTURE = {
  system: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM8 3v10A5 5 0 0 1 8 3z",
  light: "M8 4.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM7.3 0h1.4v2.6H7.3zM7.3 13.4h1.4V16H7.3zM0 7.3h2.6v1.4H0zM13.4 7.3H16v1.4h-2.6zM1.9 2.9l1-1 1.8 1.8-1 1zM11.3 12.3l1-1 1.8 1.8-1 1zM13.1 1.9l1 1-1.8 1.8-1-1zM3.7 11.3l1 1-1.8 1.8-1-1z",
  dark: "M6.2 1.6A6.6 6.6 0 1 0 14.4 10 5.4 5.4 0 0 1 6.2 1.6z",
};

const chosen = () => document.documentElement.dataset.theme ?? "system";

export function themeButton() {
  return h("button", { type: "button", class: "button icon", "aria-label": LABEL[chosen()], title: LABEL[chosen()], on: { click: next } },
    h("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true", focusable: "false" }, h("path", { d: PICTURE[chosen()], "fill-rule": "evenodd" })));
}

function next() {
  const theme = NEXT[chosen()];
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === "system") localStorage.removeItem("evergate-theme");
    else localStorage.setItem("evergate-theme", theme);
  } catch { /* storage is forbidden: until the page is closed */ }
  announce(LABEL[theme]);
  changed();
}
