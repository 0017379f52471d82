// A browser that notices what a page must not do: complain, open something, or ask anybody but its gateway.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";

import { load } from "../packages.mjs";

const { chromium } = (await load("playwright-core")).default;
const axe = readFileSync(createRequire(`${process.env.EVERGATE_PEERS_DIR ?? ""}/node/package.json`).resolve("axe-core/axe.min.js"), "utf8");

/** Longer than anything takes on the busiest machine. */
export const PATIENCE = 20_000;

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

function executable() {
  if (process.env.EVERGATE_CHROMIUM) return process.env.EVERGATE_CHROMIUM;
  const places = (process.env.PATH ?? "").split(delimiter).flatMap((folder) => NAMES.map((name) => join(folder, name)));
  const found = places.find((place) => existsSync(place));
  if (!found) throw new Error(`none of ${NAMES.join(", ")} is installed`);
  return found;
}

/** Its sandbox cannot be had as root. */
export const browser = await chromium.launch({
  executablePath: executable(),
  args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
});

/** Runs `test` with a page at the gateway's address, and fails if the page did something it must not. */
export async function withPage(gateway, options, test) {
  const { at = "", expected = [], ...rest } = options;
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "light", ...rest });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const wrong = [];
  const complain = (what) => expected.some((pattern) => pattern.test(what)) || wrong.push(what);
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complain(`console: ${message.text()}`));
  page.on("pageerror", (error) => complain(`exception: ${error.stack}`));
  page.on("dialog", (dialog) => complain(`dialog: ${dialog.message()}`) && dialog.dismiss());
  page.on("popup", () => complain("a new window"));
  context.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.origin !== new URL(gateway.url).origin) complain(`request: ${request.url()}`);
  });
  try {
    await page.goto(gateway.url + at);
    await test(page, context);
    assert.deepEqual(wrong, []);
  } catch (error) {
    console.error(`--- the page:\n${await page.locator("body").innerText().catch(() => "gone")}\n--- what it did: ${wrong.join("\n")}\n--- the gateway:\n${gateway.log()}`);
    throw error;
  } finally {
    await context.close();
  }
}

/** Nothing serious that keeps somebody from using the page. */
export async function assertAccessible(page, what) {
  // The page's policy keeps scripts of others out, so this one comes through the debugger.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = serious.map(({ id, help, nodes }) => `${id}: ${help}\n  ${nodes.map(({ html, failureSummary }) => `${html}\n  ${failureSummary}`).join("\n  ")}`);
  assert.deepEqual(told, [], what);
}

/** Nothing is wider than the window. */
export async function assertFits(page, what) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(wide <= 0, `${what}: ${wide} pixels too wide`);
}
