// Drives Debian's Chromium over the pages. Reads {"scenario": name, ...} from standard input, prints a JSON value.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const asked = JSON.parse(readFileSync(0, "utf8"));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });

// Opens a page of its own, and notes what goes wrong in it and which origins it asks.
async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  const [faults, hosts] = [[], new Set()];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") faults.push(message.text()); });
  page.on("request", (request) => { if (!request.url().startsWith("data:")) hosts.add(new URL(request.url()).origin); });
  if (url) await page.goto(url, { waitUntil: "load" });
  return { context, page, faults, hosts };
}

const text = (page, selector) => page.locator(selector).first().innerText();

async function giveToken(page, token) {
  await page.fill("#token", token);
  const answered = page.waitForResponse((response) => response.request().headers().authorization !== undefined);
  await page.press("#token", "Enter");
  await answered;
  await page.waitForFunction(() => document.querySelector("#said").textContent !== "");
}

// Gives the token, if there is one, and follows a link of what it shows, if there is one to follow.
async function enter(page, token, then) {
  if (token) await giveToken(page, token);
  if (then) await Promise.all([page.waitForFunction((old) => document.title !== old, await page.title()), page.click(then)]);
}

const scenarios = {
  // What axe finds on each page, in both themes and at three widths, and whether a page is wider than its window.
  async axe({ urls, token = "", then = "" }) {
    const found = [];
    for (const url of urls) {
      const { context, page } = await open(url);
      await enter(page, token, then);
      await page.evaluate(axe);
      for (const colorScheme of ["light", "dark"]) {
        for (const width of [320, 768, 1440]) {
          await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
          await page.setViewportSize({ width, height: 800 });
          const { violations } = await page.evaluate(() => window.axe.run());
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
          const nodes = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`);
          if (nodes.length || wide > 0) found.push({ url, colorScheme, width, wide, nodes });
        }
      }
      await context.close();
    }
    return found;
  },

  // From opening the page to a call, with keys alone.
  async keyboard({ url, tool, argument, value }) {
    const { page, faults } = await open(url);
    const focused = () => page.evaluate(() => document.activeElement.textContent.trim() || document.activeElement.id);
    const reach = async (wanted) => {
      for (let count = 0; count < 120; count += 1) {
        await page.keyboard.press("Tab");
        const shown = await page.evaluate(() => {
          const style = getComputedStyle(document.activeElement);
          return document.activeElement.matches(".tabs input") || style.outlineStyle !== "none";
        });
        if (!shown) throw new Error(`the focus cannot be seen: ${await focused()}`);
        if (await page.evaluate((name) => document.activeElement.matches(name) || document.activeElement.textContent.trim() === name,
          wanted)) return count;
      }
      throw new Error(`keys do not reach ${wanted}`);
    };
    await reach(`a[href$="page/${tool}"]`);
    await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
    await reach(`[data-name="${argument}"]`);
    await page.keyboard.type(value);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector("#answer").textContent !== "");
    return { answer: await text(page, "#answer"), sent: await text(page, "#sent"), curl: await text(page, "#curl"), faults };
  },

  // What a page says, where it asked, and what of it the stranger made.
  async read({ url, selector = "main", token = "", then = "", click = "" }) {
    const { page, faults, hosts } = await open(url);
    await enter(page, token, then);
    if (click) {
      await page.locator(click).first().click();
      await page.waitForSelector(selector);
    }
    const strangers = await page.locator("img, iframe, object, embed, main script, main style, [onerror], [onload]").count();
    return { text: (await page.locator(selector).allInnerTexts()).join("\n"), title: await page.title(), address: page.url(),
      strangers, faults, hosts: [...hosts], cookies: await page.context().cookies(),
      kept: await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie].join()) };
  },

  async call({ url, arguments: values, token = "", then = "", agrees = false, button = "Call" }) {
    const { page, faults } = await open(url);
    await enter(page, token, then);
    const dialogs = [];
    page.on("dialog", (dialog) => { dialogs.push(dialog.message()); agrees ? dialog.accept() : dialog.dismiss(); });
    await page.fill("#json", typeof values === "string" ? values : JSON.stringify(values));
    await page.click(`button:text-is("${button}")`);
    const isOver = () => document.querySelector("#answer").textContent !== "";
    await page.waitForFunction(() => document.querySelector("#consent[open]") || document.querySelector("#answer").textContent !== "");
    if (await page.locator("#consent[open]").count()) {
      dialogs.push(await page.locator("#asked").textContent());
      await page.click(`#consent button[value="${agrees ? "agree" : "decline"}"]`);
      await page.waitForFunction(isOver);
    }
    return { answer: await text(page, "#answer"), sent: await page.locator("#sent").textContent(), dialogs, faults };
  },

  // What a person sees after giving a token that cannot be sent, or while the gateway is away; then what a copy button does.
  async trouble({ url, token, offline = false }) {
    const { context, page } = await open(url);
    await context.setOffline(offline);
    await page.fill("#token", token);
    await page.press("#token", "Enter");
    await page.waitForSelector("#said.wrong");
    return text(page, "#said");
  },

  async copy({ url, hasClipboard }) {
    const { page } = await open();
    if (!hasClipboard) await page.addInitScript(() => Object.defineProperty(Navigator.prototype, "clipboard", { value: undefined }));
    else await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.goto(url);
    await page.click('[data-copy="url"]');
    await page.waitForFunction(() => document.querySelector("#said").textContent !== "");
    return { said: await page.textContent("#said"),
      text: await page.evaluate(async (has) => has ? navigator.clipboard.readText() : getSelection().toString(), hasClipboard) };
  },

  // At 200 % a window of 1,280 px has room for 640: nothing is cut off, and all can be reached.
  async zoom({ url }) {
    const { page } = await open(url, { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 });
    return page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  },

  async motion({ url }) {
    const { page } = await open(url, { reducedMotion: "reduce" });
    return page.evaluate(() => [...document.querySelectorAll("*")].filter((one) => {
      const style = getComputedStyle(one);
      return style.animationName !== "none" || !/^0s(, 0s)*$/.test(style.transitionDuration) || style.scrollBehavior === "smooth";
    }).map((one) => one.outerHTML.slice(0, 80)));
  },

  async paint({ url }) {
    const { page } = await open(url);
    await page.waitForFunction(() => performance.getEntriesByType("paint").length > 0);
    return page.evaluate(() => performance.getEntriesByType("paint").map((one) => one.startTime)[0]);
  },

  async shoot({ shots }) {
    for (const { url, file, width = 1200, height = 900, full = false, act = "" } of shots) {
      for (const colorScheme of ["light", "dark"]) {
        const { context, page } = await open(url, { colorScheme, reducedMotion: "reduce", viewport: { width, height } });
        if (act) {
          await page.fill("#json", act);
          await page.click('button:text-is("Call")');
          await page.waitForFunction(() => document.querySelector("#answer").textContent !== "");
          await page.locator("#try-title").scrollIntoViewIfNeeded();
          await page.evaluate(() => document.querySelector("#try-title").closest("section").scrollIntoView());
        }
        await page.screenshot({ path: file.replace("THEME", colorScheme), fullPage: full });
        await context.close();
      }
    }
    return null;
  },

  async act({ url, button }) {
    const { page, faults } = await open(url);
    await page.click(`button:text-is("${button}")`);
    await page.waitForFunction(() => document.querySelector("#outcome").textContent !== "");
    return { outcome: await text(page, "#outcome"), faults };
  },
};

try {
  console.log(JSON.stringify(await scenarios[asked.scenario](asked)));
} finally {
  await browser.close();
}
