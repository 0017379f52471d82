// Asks before something is interrupted. The browser keeps the focus inside, closes it on Escape and gives the focus back.

import { h, draw } from "./dom.js";

const dialog = document.getElementById("dialog");
let answer = null;

dialog.addEventListener("close", () => {
  answer?.(false);
  answer = null;
});
// A click beside the box means no.
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});

/** Whether it shall be done. */
export function confirmed({ title, text, action, tone = "" }) {
  draw(dialog,
    h("div", { class: "box" },
      h("h2", { id: "dialog-title" }, title),
      text.map((paragraph) => h("p", null, paragraph)),
      h("div", { class: "buttons" },
        h("button", { type: "button", class: "button", on: { click: () => dialog.close() } }, "Cancel"),
        h("button", { type: "button", class: `button primary ${tone}`, on: { click: say } }, action))));
  dialog.showModal();
  dialog.querySelector("button").focus();
  return new Promise((resolve) => (answer = resolve));
}

function say() {
  answer?.(true);
  answer = null;
  dialog.close();
}
