// The gateway wants a key before it says anything.

import { hasKey, setKey } from "./api.js";
import { h } from "./dom.js";
import { startOver } from "./live.js";
import { message } from "./parts.js";
import { store } from "./store.js";

export function lockedView() {
  const problem = store.problem || (hasKey() ? "The gateway does not know this key." : "");
  return message("This gateway asks for a key",
    h("p", null, "One with the scope ", h("code", null, "admin"), " from ", h("code", null, "gateway.auth.keys"), " of its configuration. This tab keeps it until it is closed, and sends it to this gateway only."),
    h("form", { class: "key", on: { submit: unlock } },
      h("label", { for: "key" }, "Key"),
      h("input", {
        id: "key", type: "password", autocomplete: "off", spellcheck: "false", required: true,
        "aria-invalid": problem ? "true" : null, "aria-describedby": problem ? "key-problem" : null,
        island: (input) => requestAnimationFrame(() => input.focus()),
      }),
      h("button", { type: "submit", class: "button primary" }, "Unlock")),
    problem && h("p", { id: "key-problem", class: "problem", role: "alert" }, sentence(problem)));
}

function unlock(event) {
  event.preventDefault();
  const typed = event.target.querySelector("input").value.trim();
  if (typed === "") return;
  setKey(typed);
  startOver();
}

function sentence(message) {
  return message.charAt(0).toUpperCase() + message.slice(1);
}
