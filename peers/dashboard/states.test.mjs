// When there is nothing to show: no servers, no key, no gateway, no answer yet.

import assert from "node:assert/strict";
import { after, test } from "node:test";

import { assertAccessible, browser, withPage } from "./browser.mjs";
import { Gateway, scripted } from "./gateway.mjs";

after(() => browser.close());

const heading = (page) => page.getByRole("heading", { level: 1 });

async function withGateway(servers, settings, body) {
  const gateway = await Gateway.start(servers, settings);
  try {
    await body(gateway);
  } finally {
    await gateway.stop();
  }
}

test("without servers the page says how to get some", async () => {
  await withGateway({}, {}, (gateway) => withPage(gateway, {}, async (page) => {
    await heading(page).filter({ hasText: "No servers are configured." }).waitFor();
    await page.getByText("evergate import").waitFor();
    await assertAccessible(page, "no servers");
  }));
});

test("a gateway with keys asks for one, and this tab keeps it", async () => {
  const keys = [
    { name: "ops", key: "an-operators-own-key", scopes: ["admin"] },
    { name: "agent", key: "an-agents-own-key-too" },
  ];
  await withGateway({ docs: scripted() }, { auth: { keys } }, (gateway) => withPage(gateway, { expected: [/status of 40[13]/] }, async (page, context) => {
    await heading(page).filter({ hasText: "This gateway asks for a key" }).waitFor();
    const key = page.getByLabel("Key", { exact: true });
    assert.equal(await key.getAttribute("type"), "password");
    await assertAccessible(page, "locked");
    await key.fill("a-key-that-nobody-has");
    await key.press("Enter");
    await page.getByRole("alert").getByText("The gateway does not know this key.").waitFor();
    await key.fill(keys[1].key);
    await key.press("Enter");
    await page.getByRole("alert").getByText("This key does not have the scope admin").waitFor();
    await key.fill(keys[0].key);
    await page.getByRole("button", { name: "Unlock" }).click();
    await heading(page).filter({ hasText: "docs is connected." }).waitFor();
    await page.reload();
    await heading(page).filter({ hasText: "docs is connected." }).waitFor();
    assert.ok(!page.url().includes(keys[0].key));
    assert.equal(await page.evaluate(() => localStorage.length), 0, "nothing outlives the tab");

    const other = await context.newPage();
    await other.goto(gateway.url);
    await other.getByRole("heading", { name: "This gateway asks for a key" }).waitFor();
    await other.close();

    await page.getByRole("button", { name: "Forget key" }).click();
    await heading(page).filter({ hasText: "This gateway asks for a key" }).waitFor();
    assert.doesNotMatch(await page.locator("body").innerText(), /docs/);
  }));
});

test("a gateway that is gone is said to be, and found again", async () => {
  await withGateway({ docs: scripted() }, {}, (gateway) => withPage(gateway, { expected: [/Failed to load resource/] }, async (page) => {
    await heading(page).filter({ hasText: "docs is connected." }).waitFor();
    await gateway.kill();
    await page.getByRole("alert").getByText(/^The gateway does not answer since /).waitFor();
    await page.getByText(/What you see is \d+ s old/).waitFor();
    await heading(page).filter({ hasText: "docs is connected." }).waitFor();
    assert.match(await page.locator("main").getAttribute("class"), /old/);
    assert.match(await page.title(), /^No answer/);
    assert.match(await page.getByRole("banner").innerText(), /No answer/);
    await assertAccessible(page, "gone");
    await gateway.launch();
    await page.getByRole("alert").waitFor({ state: "hidden" });
    assert.doesNotMatch((await page.locator("main").getAttribute("class")) ?? "", /old/);
    await heading(page).filter({ hasText: "docs is connected." }).waitFor();
    // The events of the new process, whose numbers begin anew.
    const events = page.getByRole("region", { name: "Events" }).getByRole("listitem");
    await events.filter({ hasText: "docs connected" }).first().waitFor();
    await page.reload();
    await heading(page).filter({ hasText: "docs is connected." }).waitFor();
  }));
});

test("loading, and a gateway that answers wrongly", async () => {
  await withGateway({ docs: scripted() }, {}, (gateway) => withPage(gateway, { expected: [/status of 502/] }, async (page) => {
    let answer;
    const asked = new Promise((resolve) => (answer = resolve));
    await page.route("**/api/v1/**", async (route) => {
      await asked;
      await route.fulfill({ status: 502, contentType: "text/html", body: "<h1>Bad gateway</h1>" });
    });
    await page.goto(`${gateway.url}?again`);
    await page.locator("[aria-busy=true]").waitFor();
    answer();
    await heading(page).filter({ hasText: "The gateway answers, but not as expected" }).waitFor();
    await page.getByText("The gateway answered with status 502.").waitFor();
    await page.unroute("**/api/v1/**");
    await page.getByRole("button", { name: "Ask now" }).click();
    await heading(page).filter({ hasText: "docs is connected." }).waitFor();
  }));
});

test("nobody is asked while nobody looks", async () => {
  await withGateway({ docs: scripted() }, {}, (gateway) => withPage(gateway, {}, async (page) => {
    await heading(page).filter({ hasText: "docs is connected." }).waitFor();
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => window.looksAway ?? false });
      window.looksAway = true;
      document.dispatchEvent(new Event("visibilitychange"));
    });
    let requests = 0;
    page.on("request", () => (requests += 1));
    await new Promise((wake) => setTimeout(wake, 2500));
    assert.equal(requests, 0);
    const asked = page.waitForRequest(/api\/v1\/servers/);
    await page.evaluate(() => {
      window.looksAway = false;
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await asked;
  }));
});
