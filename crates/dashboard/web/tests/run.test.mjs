// The page over runs in virtual time, in a real browser.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { browser, open, PROGRAMS, stop, until } from "./network.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const PLAN = `
name = "small"
topology = { tree = { nodes = 11 } }
architecture = "super-node"
duration = "40s"
seed = 3

[[faults]]
at = "20s"
down = "high"

[[faults]]
at = "24s"
up = "high"

[[faults]]
at = "30s"
kill = "low2"

[movement]
speed = 20.0
`;

/** Runs of a folder, and the pages over them. */
class Runs {
  folder = mkdtempSync(join(tmpdir(), "roost-run-"));
  #running = [];

  path(name) {
    return join(this.folder, name);
  }

  emulate(...words) {
    return execFileSync(join(PROGRAMS, "emulate"), words, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  simulate(name, plan, ...more) {
    writeFileSync(this.path(`${name}.toml`), plan);
    this.emulate("simulate", this.path(`${name}.toml`), "-o", this.path(name), ...more);
    return this.path(name);
  }

  async view(folder) {
    const words = ["view", folder, "--listen", "127.0.0.1:0"];
    const child = spawn(join(PROGRAMS, "emulate"), words, { stdio: ["ignore", "pipe", "inherit"] });
    this.#running.push(child);
    let printed = "";
    child.stdout.on("data", (data) => (printed += data));
    const url = await until("the page is served", () => /^http:\S+/m.exec(printed)?.[0]);
    return { child, url };
  }

  async end() {
    await Promise.all(this.#running.filter((child) => child.exitCode === null && child.signalCode === null).map((child) => stop(child)));
    rmSync(this.folder, { recursive: true });
  }
}

const row = (page, name) => page.locator("tr", { has: page.getByRole("button", { name, exact: true }) }).first();
const at = async (page) => Number(await page.locator("#run-time").getAttribute("aria-valuetext").then((text) => {
  const [, minutes, seconds] = /^(\d+):([\d.]+) of/.exec(text);
  return 60 * minutes + Number(seconds);
}));

async function drag(page, ms) {
  await page.locator("#run-time").evaluate((slider, ms) => {
    slider.value = ms;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }, ms);
}

/** The points of the map in a color. */
async function count(page, [red, green, blue]) {
  const shot = await page.locator("canvas").screenshot();
  return page.evaluate(
    async ({ bytes, wanted }) => {
      const image = await createImageBitmap(new Blob([new Uint8Array(bytes)], { type: "image/png" }));
      const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
      canvas.drawImage(image, 0, 0);
      const { data } = canvas.getImageData(0, 0, image.width, image.height);
      let count = 0;
      for (let at = 0; at < data.length; at += 4) count += wanted.every((part, place) => Math.abs(data[at + place] - part) < 12);
      return count;
    },
    { bytes: [...shot], wanted: [red, green, blue] },
  );
}

describe("the page over a run", () => {
  let runs, chrome, url, results;

  before(async () => {
    [runs, chrome] = [new Runs(), await browser()];
    results = runs.simulate("small", PLAN);
    url = (await runs.view(results)).url;
  });
  after(async () => {
    await chrome?.close();
    await runs?.end();
  });

  test("shows nodes, links and the first moment", async () => {
    const { page, errors } = await open(chrome, url, { colorScheme: "light" });
    await row(page, "low1").waitFor();
    await page.getByText("super-node on tree-11, seed 3, simulated").waitFor();
    assert.equal(await at(page), 0);
    await page.getByRole("heading", { name: "Nodes (11)" }).waitFor();
    await row(page, "high/x45-1").getByText("100 Mbit/s").waitFor();
    await row(page, "high/x45-1").getByRole("button").click();
    await page.getByRole("region", { name: "Link high" }).getByText("queue of 50 packets").waitFor();
    // #8a8f98 is a node that requests nothing.
    await until("the nodes are drawn", async () => (await count(page, [138, 143, 152])) > 100);
    assert.deepEqual(errors, []);
    await page.close();
  });

  test("shows a fault at its time", async () => {
    const { page } = await open(chrome, url, { colorScheme: "light" });
    const link = row(page, "high/x45-1");
    await link.waitFor();
    const warning = () => count(page, [154, 52, 18]);
    // The legend has the color, too.
    const before = await warning();
    await row(page, "0:20.0").getByText("high is down").waitFor();
    await row(page, "0:20.0").getByRole("button").click();
    await link.getByText("down").waitFor();
    await until("the link is drawn as down", async () => (await warning()) > before + 20);
    await drag(page, 25_000);
    await link.getByText("down").waitFor({ state: "detached" });
    await drag(page, 31_000);
    await row(page, "low2").getByText("dead").waitFor();
    await drag(page, 5_000);
    await row(page, "low2").getByText("up").waitFor();
    await page.close();
  });

  test("shows the way of a request", async () => {
    const { page, errors } = await open(chrome, url);
    const records = readFileSync(join(results, "events.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
    const far = records.find((record) => record.record === "request" && record.provider?.startsWith("x45") && record.node.startsWith("low"));
    const local = records.find((record) => record.record === "request" && record.outcome === "completed");
    const request = far ?? local;
    await page.getByLabel("when").selectOption("all");
    await page.getByLabel("outcome").selectOption(request.outcome);
    await page.getByLabel("name", { exact: true }).fill(request.node);
    const name = `${request.provider} → ${request.node}`;
    await page.getByRole("button", { name }).first().click();
    const details = page.getByRole("region", { name: new RegExp(`for ${request.node}$`) });
    await details.getByText("→").first().waitFor();
    await details.getByText(/now it goes on/).waitFor();
    // The time is that of the request.
    assert.ok((await at(page)) > 0);
    await page.keyboard.press("Escape");
    await details.waitFor({ state: "detached" });
    assert.deepEqual(errors, []);
    await page.close();
  });

  test("plays, stops, and is dragged back", async () => {
    const { page, errors } = await open(chrome, url);
    await row(page, "low1").waitFor();
    await page.getByLabel("speed").selectOption("20");
    await page.getByRole("button", { name: "Play" }).click();
    await until("the time goes on", async () => (await at(page)) > 4);
    await page.getByRole("button", { name: "Stop" }).click();
    const stopped = await at(page);
    await drag(page, 2_000);
    assert.equal(await at(page), 2);
    assert.ok(stopped > 4);
    await page.getByLabel("speed").selectOption("100");
    await page.locator("body").press("Space");
    await page.getByRole("button", { name: "Play" }).waitFor();
    await until("the run is over", async () => (await at(page)) >= 40);
    assert.deepEqual(errors, []);
    await page.close();
  });

  test("shows movements on the grid", async () => {
    const { page } = await open(chrome, url);
    const cell = () => row(page, "low1").locator("td").nth(2).textContent();
    await row(page, "low1").waitFor();
    const first = await cell();
    await page.getByLabel("grid").check();
    await drag(page, 39_000);
    await until("the node has moved", async () => (await cell()) !== first);
    await drag(page, 0);
    await until("it is back", async () => (await cell()) === first);
    await page.close();
  });

  test("has no serious fault of access, in each form", async () => {
    for (const form of [{ colorScheme: "light" }, { colorScheme: "dark" }, { viewport: { width: 400, height: 800 } }]) {
      const { page } = await open(chrome, url, { ...form, bypassCSP: true });
      await page.getByRole("button", { name: "low1", exact: true }).click();
      await drag(page, 21_000);
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
      assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), [], JSON.stringify(form));
      const sideways = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      assert.equal(sideways, false, `${JSON.stringify(form)} scrolls sideways`);
      await page.close();
    }
  });

  test("follows a run to its end", async () => {
    const growing = runs.path("growing");
    cpSync(results, growing, { recursive: true });
    const lines = readFileSync(join(results, "events.jsonl"), "utf8").split("\n");
    const last = lines.findIndex((line) => line.includes('"record":"sample"') && JSON.parse(line).t >= 20);
    writeFileSync(join(growing, "events.jsonl"), lines.slice(0, last + 1).join("\n") + "\n");
    rmSync(join(growing, "run.json"));
    const { url } = await runs.view(growing);
    const { page, errors } = await open(chrome, url);
    await row(page, "low1").waitFor();
    await until("the page is at the last record", async () => (await at(page)) >= 20);
    await page.getByText("running").waitFor();
    await row(page, "high/x45-1").getByText("down").waitFor();
    appendFileSync(join(growing, "events.jsonl"), lines.slice(last + 1).join("\n"));
    await until("the time goes on", async () => (await at(page)) > 39);
    await row(page, "low2").getByText("dead").waitFor();
    cpSync(join(results, "run.json"), join(growing, "run.json"));
    await page.getByText("simulated").waitFor();
    assert.deepEqual(errors, []);
    await page.close();
  });

  test("lists the runs of a folder", () => {
    const listed = runs.emulate("view", runs.folder);
    assert.match(listed, /^ *1 +growing +super-node/m);
    assert.match(listed, /^ *2 +small +super-node/m);
    assert.throws(() => runs.emulate("view", runs.folder, "--run", "7"), /there is no run `7` in .* lists 2/);
  });

  test("refuses what is no run", () => {
    mkdirSync(runs.path("empty"));
    assert.throws(() => runs.emulate("view", runs.path("empty")), /is no folder of a run: name one /);
    assert.throws(() => runs.emulate("view", results, "--listen", "0.0.0.0:7791"), /open to other machines/);
  });
});

test("a run of a thousand nodes opens", async () => {
  const [runs, chrome] = [new Runs(), await browser()];
  try {
    const plan = `
      topology = { forest = { nodes = 1000 } }
      architecture = "super-node"
      duration = "10s"
      drain = "5s"
      [classes.node]
      mix = { sensor = 20, idle = 80 }
      [movement]
      speed = 6.0
    `;
    const results = runs.simulate("large", plan, "--level", "message");
    const began = performance.now();
    const { url } = await runs.view(results);
    const served = performance.now() - began;
    const { page, errors } = await open(chrome, url);
    await page.getByRole("heading", { name: "Nodes (1000)" }).waitFor();
    const opened = performance.now() - began;
    await until("the nodes are drawn", async () => (await count(page, [138, 143, 152])) > 1000);
    const drawn = performance.now() - began;
    const history = await (await fetch(`${url}api/history`)).text();
    await page.getByLabel("speed").selectOption("20");
    await page.getByRole("button", { name: "Play" }).click();
    await until("it plays", async () => (await at(page)) > 5);
    console.log(JSON.stringify({
      served_ms: Math.round(served), listed_ms: Math.round(opened), drawn_ms: Math.round(drawn), history_bytes: history.length,
    }));
    assert.ok(history.length < 16 * 1024 * 1024);
    assert.deepEqual(errors, []);
    await page.close();
  } finally {
    await chrome.close();
    await runs.end();
  }
});
