// The pictures in the README, when EVERGATE_PICTURES says where they go; see CONTRIBUTING.md.

import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";

import { browser } from "./browser.mjs";
import { example } from "./example.mjs";
import { Gateway } from "./gateway.mjs";

const folder = process.env.EVERGATE_PICTURES;
const NOW = Date.UTC(2026, 10, 16, 14, 32, 10);
const LARGEST = 300_000;

const WIDE = { viewport: { width: 1280, height: 800 } };
const PHONE = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, isMobile: true };
const PICTURES = {
  "dashboard-light": [WIDE, "light", "#/"],
  "dashboard-dark": [WIDE, "dark", "#/"],
  "dashboard-detail": [WIDE, "light", "#/servers/docs"],
  "dashboard-try-it": [WIDE, "light", "#/servers/docs/tools/search"],
  "dashboard-phone": [PHONE, "light", "#/"],
};

mkdirSync(folder, { recursive: true });
const gateway = await Gateway.start({});
const { answer, stream } = example(NOW);
for (const [name, [options, colorScheme, place]] of Object.entries(PICTURES)) {
  const context = await browser.newContext({ ...options, colorScheme, timezoneId: "UTC", locale: "en-GB" });
  const page = await context.newPage();
  await page.clock.setFixedTime(NOW);
  await page.route("**/api/v1/**", (route) => {
    const url = new URL(route.request().url());
    const path = decodeURIComponent(url.pathname.replace("/api/v1/", ""));
    if (path === "events") return route.fulfill({ contentType: "text/event-stream", body: stream() });
    return route.fulfill({ contentType: "application/json", body: JSON.stringify(answer(path, url.searchParams)) });
  });
  await page.goto(gateway.url + place);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.locator("main [aria-busy]").waitFor({ state: "detached" });
  await page.getByText("docs").first().waitFor();
  await page.evaluate(() => document.activeElement?.blur());
  await page.waitForTimeout(300);
  const file = join(folder, `${name}.png`);
  await page.screenshot({ path: file });
  const { size } = statSync(file);
  console.log(`${file}: ${size} bytes`);
  if (size > LARGEST) throw new Error(`${file} is too large for a README`);
  await context.close();
}
await gateway.stop();
await browser.close();
