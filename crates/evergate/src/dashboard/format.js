// Times, numbers and lists in words.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const clockTime = new Intl.DateTimeFormat("en", {
  hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});
const dayAndTime = new Intl.DateTimeFormat("en", {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});

/** Two units at most: `850 ms`, `12 s`, `2 min 5 s`, `2 h 3 min`, `3 d 4 h`. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 0) return "0 s";
  if (ms < 10) return `${grouped.format(ms)} ms`;
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${grouped.format(Math.floor(ms / 100) / 10)} s`;
  return wholeDuration(ms);
}

/** The same for what is counted while one looks: no fractions, which would only flicker. */
export function wholeDuration(ms) {
  const seconds = Math.max(0, Math.floor(ms / SECOND));
  if (ms < MINUTE) return `${seconds} s`;
  if (ms < HOUR) return two(seconds, 60, "min", 1, "s");
  if (ms < DAY) return two(seconds, 3600, "h", 60, "min");
  return two(seconds, 86400, "d", 3600, "h");
}

function two(seconds, large, largeName, small, smallName) {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ""}`;
}

/** A time of day; with the date if it was not today. */
export function clock(unixMs) {
  const date = new Date(unixMs);
  const today = date.toDateString() === new Date().toDateString();
  return (today ? clockTime : dayAndTime).format(date);
}

export function isoTime(unixMs) {
  return Number.isFinite(unixMs) ? new Date(unixMs).toISOString() : null;
}

export function number(value) {
  return Number.isFinite(value) ? grouped.format(value) : "–";
}

export function bytes(count) {
  if (!Number.isFinite(count)) return "–";
  if (count < 1000) return `${count} B`;
  if (count < 1_000_000) return `${grouped.format(count / 1000)} kB`;
  return `${grouped.format(count / 1_000_000)} MB`;
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** `a`, `a and b`, `a, b and c`; beyond `most`, how many more there are. */
export function listed(words, most = 3) {
  const shown = words.length > most + 1 ? [...words.slice(0, most), `${words.length - most} more`] : words;
  if (shown.length < 2) return shown.join("");
  return `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

/** `handshake_done` as a person would write it. */
export function words(name) {
  return text(name).replaceAll("_", " ");
}

/** Servers send what they like where a text belongs. */
export function text(value) {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : JSON.stringify(value);
}

/** The beginning of what may be too long for its place. Cut between characters, not within one. */
export function clip(value, most) {
  const whole = text(value);
  if (whole.length <= most) return whole;
  return `${whole.slice(0, most).replace(/[\uD800-\uDBFF]$/, "")}…`;
}

/** Colours and cursor movements are for terminals; other control characters would be invisible here. */
export function withoutControls(line) {
  return text(line)
    .replace(/\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g, "")
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, "�");
}

export function pretty(value) {
  return JSON.stringify(value, null, 2) ?? "";
}
