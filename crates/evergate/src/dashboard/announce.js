// Says aloud, to those who hear the page, what changed: only what matters, and several changes in one sentence.

import { listed } from "./format.js";
import { look } from "./states.js";

/** Long enough that a server which loses its connection and has it again at once is not mentioned. */
const GATHER_MS = 1500;

const waiting = new Map();
let timer = null;

/** A server changed state. */
export function announceTransition({ server, from, to }) {
  const first = waiting.get(server)?.from ?? from;
  if (first === to) waiting.delete(server);
  else waiting.set(server, { from: first, to });
  timer ??= setTimeout(tell, GATHER_MS);
}

function tell() {
  timer = null;
  const news = [...waiting].map(([server, { to }]) => `${server}: ${look(to).label.toLowerCase()}`);
  waiting.clear();
  if (news.length > 0) announce(`${listed(news, 4)}.`);
}

/** Read out when whoever listens has a moment. */
export function announce(sentence) {
  document.getElementById("announcements").textContent = sentence;
}
