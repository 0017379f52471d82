// For everybody, and against everybody: assistive technology, keyboards, phones, and servers that mean badly.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { assertAccessible, assertFits, browser, withPage } from "./browser.mjs";
import { Gateway, own, scripted } from "./gateway.mjs";

let gateway;

before(async () => {
  gateway = await Gateway.start({
    docs: scripted("--stderr", "docs speaks"),
    forms: own(),
    hostile: own("--hostile"),
    away: { url: "http://127.0.0.1:9/mcp" },
    missing: { command: "/nonexistent/command" },
    off: { ...scripted(), disabled: true },
    each: { ...scripted(), isolation: "per_client" },
  });
  await gateway.call("docs", "echo", { text: "x" });
});
after(async () => {
  await gateway.stop();
  await browser.close();
});

const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };
const PLACES = {
  "#/": "Servers",
  "#/servers/docs": "Recovery",
  "#/servers/away": "Recovery",
  "#/servers/missing": "Recovery",
  "#/servers/forms/tools/form": "Try it",
  "#/servers/docs/log": null,
  "#/calls": "Recent calls",
  "#/sessions": "Sessions",
  "#/events": "Events",
};

for (const [name, options] of Object.entries({ light: {}, dark: { colorScheme: "dark" }, phone: PHONE })) {
  test(`no page keeps anybody out: ${name}`, async () => {
    await withPage(gateway, options, async (page) => {
      for (const [place, shown] of Object.entries(PLACES)) {
        await page.goto(gateway.url + place);
        await (shown ? page.getByRole("heading", { name: shown, exact: true }).first() : page.getByText("docs speaks")).waitFor();
        await page.locator("main [aria-busy]").waitFor({ state: "detached" });
        await assertAccessible(page, `${name} ${place}`);
        await assertFits(page, `${name} ${place}`);
      }
      await page.goto(`${gateway.url}#/servers/docs`);
      await page.getByRole("button", { name: "Restart" }).click();
      await page.getByRole("dialog").waitFor();
      await assertAccessible(page, `${name} dialog`);
      await assertFits(page, `${name} dialog`);
    });
  });
}

test("everything can be done with the keyboard alone", async () => {
  await withPage(gateway, {}, async (page) => {
    await page.getByRole("heading", { level: 1 }).waitFor();
    const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
    const focused = () => page.evaluate(() => (document.activeElement.getAttribute("aria-label") ?? document.activeElement.innerText).trim());
    const tabTo = async (wanted) => {
      for (let tries = 0; tries < 60; tries += 1) {
        await press("Tab");
        const name = await focused();
        if (wanted.test(name)) {
          const outline = await page.evaluate(() => {
            const element = document.activeElement;
            return [getComputedStyle(element), getComputedStyle(element, "::after")].some((style) => style.outlineStyle !== "none" && style.outlineWidth !== "0px");
          });
          assert.ok(outline, `${name} shows that it has the focus`);
          return;
        }
      }
      assert.fail(`never reached ${wanted}`);
    };
    await press("Tab");
    assert.equal(await focused(), "Skip to the content");
    await press("Enter");
    assert.ok(await page.locator("main").evaluate((main) => main === document.activeElement));
    await tabTo(/^forms$/);
    await press("Enter");
    await page.getByRole("heading", { level: 1, name: "forms" }).waitFor();
    assert.equal(await focused(), "forms", "whoever comes to a page begins at its title");
    await tabTo(/^Tools/);
    await press("Enter");
    await tabTo(/^form\b/);
    await press("Enter");
    await page.getByRole("region", { name: "Try it" }).waitFor();
    await tabTo(/^$/);
    await page.keyboard.type("by keyboard");
    await press("Tab");
    await page.keyboard.type("7");
    await tabTo(/^Call the tool$/);
    await press("Enter");
    await page.getByRole("region", { name: "Content" }).first().getByText("by keyboard").waitFor();
    await press("Shift+Tab");
    await page.evaluate(() => document.querySelector("h1").focus());
    await tabTo(/^Restart$/);
    await press("Enter");
    await page.getByRole("dialog").waitFor();
    assert.equal(await focused(), "Cancel");
    await press("Tab", "Enter");
    await page.getByText("Restart asked for.").first().waitFor();
  });
});

test("the colours can be chosen, and the choice stays", async () => {
  await withPage(gateway, {}, async (page) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.getByRole("button", { name: "Colours: as the system" }).click();
    await page.getByRole("button", { name: "Colours: light" }).click();
    await page.getByRole("button", { name: "Colours: dark" }).waitFor();
    const dark = await ground();
    assert.notEqual(dark, light);
    await page.reload();
    assert.equal(await ground(), dark);
    await page.getByRole("button", { name: "Colours: dark" }).click();
    assert.equal(await ground(), light);
  });
});

for (const [name, options] of Object.entries({ wide: {}, phone: PHONE })) {
  test(`what servers write is text and stays in its place: ${name}`, async () => {
    await withPage(gateway, options, async (page) => {
      const inert = async (what) => {
        await page.locator("main [aria-busy]").waitFor({ state: "detached" });
        assert.equal(await page.evaluate(() => window.pwned), undefined, what);
        assert.equal(await page.locator("main script, main iframe, main a[href^='javascript']").count(), 0, what);
        await assertFits(page, what);
      };
      await page.goto(`${gateway.url}#/servers/hostile`);
      await page.getByText("<script>window.pwned=1</script>").first().waitFor();
      await inert("overview");
      await page.goto(`${gateway.url}#/servers/hostile/log`);
      await page.getByText("red �bell").waitFor();
      await inert("log");
      await page.goto(`${gateway.url}#/servers/hostile/prompts`);
      await page.getByText("<script>window.pwned=1</script>").first().waitFor();
      await inert("prompts");
      await page.goto(`${gateway.url}#/servers/hostile/tools`);
      const names = page.locator(".items a");
      await names.first().waitFor();
      const count = await names.count();
      assert.ok(count >= 3, `${count} tools`);
      for (let index = 0; index < count; index += 1) {
        await page.goto(`${gateway.url}#/servers/hostile/tools`);
        await names.nth(index).click();
        await page.getByRole("heading", { name: "Try it" }).waitFor();
        await page.locator("details").evaluateAll((all) => all.forEach((one) => (one.open = true)));
        await inert(`tool ${index}`);
        await page.getByRole("button", { name: "Call the tool" }).click();
        await page.getByText("The tool says it failed").waitFor();
        await inert(`result of tool ${index}`);
      }
      await assertAccessible(page, "hostile");
    });
  });
}
