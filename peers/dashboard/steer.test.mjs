// What operators see and do, with a real gateway, real servers and real failures.

import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { browser, withPage } from "./browser.mjs";
import { Gateway, own, scripted } from "./gateway.mjs";

let gateway;

before(async () => {
  gateway = await Gateway.start({
    docs: scripted("--stderr", "docs speaks", "--crash-while", "/nonexistent"),
    forms: own(),
    away: { url: "http://127.0.0.1:9/mcp" },
  });
});
after(async () => {
  await gateway.stop();
  await browser.close();
});

const row = (page, name) => page.getByRole("listitem").filter({ has: page.getByRole("link", { name, exact: true }) }).filter({ has: page.getByRole("heading", { level: 3 }) });
const heading = (page) => page.getByRole("heading", { level: 1 });

test("the page says how everything is, in one sentence and server by server", async () => {
  await withPage(gateway, {}, async (page) => {
    await heading(page).filter({ hasText: /^away has been (reconnecting|disconnected) for / }).waitFor();
    assert.match(await page.getByRole("banner").innerText(), /Degraded[^]*0 sessions[^]*0 in flight[^]*0 held[^]*up \d+/);
    await row(page, "docs").getByText("Connected", { exact: true }).waitFor();
    const names = await page.getByRole("heading", { level: 3 }).allInnerTexts();
    assert.deepEqual(names, ["away", "docs", "forms"], "those in trouble first");
    assert.match(await row(page, "away").innerText(), /Attempt \d+ (in \d+ s|is under way)/);
    assert.doesNotMatch(await row(page, "away").innerText(), /follows in/, "the countdown is there once");
    assert.match(await row(page, "docs").getByRole("img").getAttribute("aria-label"), /^Last .*connected \d/);
    assert.match(await page.title(), /^\(1\) Servers/);
  });
});

test("the files are not taken for anything else, and are asked for anew", async () => {
  const page = await fetch(gateway.url);
  assert.match(page.headers.get("content-security-policy"), /^default-src 'none'; script-src 'self';/);
  assert.equal(page.headers.get("x-content-type-options"), "nosniff");
  const etag = page.headers.get("etag");
  const script = await fetch(new URL("dashboard/app.js", gateway.url));
  assert.match(script.headers.get("content-type"), /^text\/javascript/);
  const again = await fetch(gateway.url, { headers: { "if-none-match": etag } });
  assert.equal(again.status, 304);
  assert.equal((await fetch(gateway.url, { method: "POST" })).status, 405);
  assert.equal((await fetch(new URL("dashboard/nothing.js", gateway.url))).status, 404);
});

test("a server that is killed is seen to go and to come back", async () => {
  const stop = gateway.path("stop");
  const own = await Gateway.start({ docs: scripted("--crash-while", stop) });
  try {
    await withPage(own, {}, async (page) => {
      await heading(page).filter({ hasText: "docs is connected." }).waitFor();
      const [{ pid }] = (await own.get("servers")).servers;
      writeFileSync(stop, "");
      process.kill(pid, "SIGKILL");
      await heading(page).filter({ hasText: "docs has been reconnecting for" }).waitFor();
      await row(page, "docs").getByText("Reconnecting", { exact: true }).waitFor();
      await row(page, "docs").getByText(/^Lost .* ago because /).waitFor();
      await page.getByRole("region", { name: "Events" }).getByText(/docs reconnecting/).first().waitFor();
      await page.locator("#announcements").filter({ hasText: "docs: reconnecting." }).waitFor({ state: "attached" });
      const waiting = own.call("docs", "echo", { text: "still here" });
      await heading(page).filter({ hasText: /; 1 call waits\.$/ }).waitFor();
      rmSync(stop);
      await heading(page).filter({ hasText: "docs is connected." }).waitFor();
      assert.match(await waiting, /still here/);
      assert.match(await row(page, "docs").getByRole("img").getAttribute("aria-label"), /reconnecting/);
      const [, generation] = (await row(page, "docs").innerText()).match(/gen\s*(\d+)/);
      assert.ok(Number(generation) > 1, "another connection");
      await row(page, "docs").getByRole("link", { name: "docs" }).click();
      await page.getByRole("link", { name: "Calls" }).last().click();
      await page.getByRole("row", { name: /Answered.*echo/ }).waitFor();
    });
  } finally {
    rmSync(stop, { force: true });
    await own.stop();
  }
});

test("a server's page can be linked to, reloaded and left again", async () => {
  await withPage(gateway, {}, async (page) => {
    await row(page, "docs").getByRole("link", { name: "docs" }).click();
    await heading(page).filter({ hasText: "docs" }).waitFor();
    await page.getByText(/^Connected for /).waitFor();
    await page.getByText("docs speaks").waitFor();
    await page.getByRole("link", { name: "Log", exact: true }).click();
    assert.match(page.url(), /#\/servers\/docs\/log$/);
    await page.reload();
    await page.getByRole("region", { name: "Log" }).getByText("docs speaks").waitFor();
    await page.goBack();
    await page.getByRole("heading", { name: "Recovery" }).waitFor();
    await page.goBack();
    await heading(page).filter({ hasText: "away" }).waitFor();
    await page.goto(`${gateway.url}#/servers/dogs`);
    await page.getByText(/No server of this gateway is called dogs/).waitFor();
    await page.getByRole("link", { name: "docs" }).waitFor();
  });
});

test("what interrupts is asked about, and what makes no sense says why", async () => {
  await withPage(gateway, { at: "#/servers/docs", expected: [/409/] }, async (page) => {
    const disable = page.getByRole("button", { name: "Disable" });
    await disable.click();
    const dialog = page.getByRole("dialog", { name: "Disable docs?" });
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    assert.ok(await disable.evaluate((button) => button === document.activeElement), "the focus is back");
    assert.equal((await gateway.get("servers/docs")).state, "connected");

    await disable.click();
    await dialog.getByRole("button", { name: "Disable" }).click();
    await page.locator(".title").getByText("Disabled").waitFor();
    await page.getByRole("button", { name: "Enable" }).click();
    await page.locator(".title").getByText("Connected").waitFor();

    const { generation } = await gateway.get("servers/docs");
    await page.getByRole("button", { name: "Restart" }).click();
    await page.getByRole("dialog", { name: "Restart docs?" }).getByRole("button", { name: "Restart" }).click();
    await page.getByText("Restart asked for.").first().waitFor();
    await page.waitForFunction(async (old) => (await (await fetch("api/v1/servers/docs")).json()).generation > old, generation);

    await page.goto(`${gateway.url}#/servers/away`);
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.getByRole("alert").getByText(/^Away is not connected|^away is not connected/i).waitFor();
  });
});

test("a tool is called from its schema", async () => {
  await withPage(gateway, { at: "#/servers/forms/tools" }, async (page) => {
    await page.getByRole("searchbox", { name: "Search tools" }).fill("nothing like it");
    await page.getByText("None matches.").waitFor();
    await page.getByRole("searchbox", { name: "Search tools" }).fill("field of");
    await page.getByRole("link", { name: /^form/ }).click();
    const form = page.getByRole("region", { name: "Try it" });
    const call = form.getByRole("button", { name: "Call the tool" });
    const field = (name) => form.getByLabel(new RegExp(`^${name}`));

    await call.click();
    await form.getByText("Required.", { exact: true }).waitFor();
    assert.ok(await field("text").evaluate((input) => input === document.activeElement), "the first wrong field has the focus");
    assert.equal(await field("text").getAttribute("aria-required"), "true");
    await field("text").fill("ä \"quoted\"");
    await field("whole").fill("1.5");
    await field("list").fill("{}");
    await call.click();
    await form.getByText("Not a whole number.").waitFor();
    await form.getByText("Must be a list: [ … ].").waitFor();
    await field("whole").fill("0");
    await form.getByText("Must be at least 1.").waitFor();
    await field("whole").fill("42");
    await field("list").fill("[\"a\", \"b\"]");
    await field("yes").selectOption("false");
    await field("one").selectOption({ label: "3" });
    await call.click();
    await form.getByText("Answered").waitFor();
    const shown = JSON.parse(await form.getByRole("region", { name: "Content" }).first().innerText());
    assert.deepEqual(shown, { text: "ä \"quoted\"", whole: 42, part: 0.5, yes: false, one: 3, list: ["a", "b"] });
    const picture = form.getByRole("img", { name: "Picture that the tool returned" });
    assert.equal(await picture.evaluate((image) => image.decode().then(() => image.naturalWidth)), 1);

    await form.getByRole("button", { name: "Raw JSON" }).click();
    const raw = form.getByLabel("Arguments as JSON");
    assert.equal(JSON.parse(await raw.inputValue()).whole, 42);
    await raw.fill("{ nothing }");
    await raw.press("Control+Enter");
    await form.getByText(/^Not valid JSON/).waitFor();
    await raw.fill("{\"text\":\"raw\"}");
    await raw.press("Control+Enter");
    await form.getByRole("region", { name: "Content" }).first().getByText("raw").waitFor();
  });
});

test("calls and sessions of clients are listed, and calls can be filtered", async () => {
  await gateway.call("forms", "form", { text: "x", whole: 1 });
  await withPage(gateway, { at: "#/calls" }, async (page) => {
    const calls = page.getByRole("region", { name: "Recent calls" }).getByRole("row");
    await calls.filter({ hasText: "somebody 1" }).first().waitFor();
    await page.getByLabel("Server").selectOption("docs");
    await page.getByLabel("Server").selectOption("forms");
    await page.getByLabel("Contains").fill("somebody");
    await calls.filter({ hasText: "somebody 1" }).first().waitFor();
    assert.match(page.url(), /server=forms.*text=somebody/);
    await page.getByLabel("Outcome").selectOption("unknown");
    await page.getByText("No calls yet.").waitFor();
    await page.getByRole("link", { name: "Sessions" }).click();
    await page.getByRole("row", { name: /somebody 1.*forms/ }).first().waitFor();
  });
});
