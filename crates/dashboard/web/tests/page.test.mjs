// The page in a real browser over real daemons.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { assertAccessible, browser, Network, open, stop, until } from "./network.mjs";
import { tilesOf } from "./tiles.mjs";

/** The row of a node in the list. */
const row = (page, name) => page.locator("tr", { has: page.getByRole("button", { name, exact: true }) }).first();

/** The color of the map near its corner. */
async function ground(page) {
  const shot = await page.locator("canvas").screenshot();
  return page.evaluate(async (bytes) => {
    const image = await createImageBitmap(new Blob([new Uint8Array(bytes)], { type: "image/png" }));
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.drawImage(image, -7, -5);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  }, [...shot]);
}

describe("the page over a hub", () => {
  let network, chrome, url;

  before(async () => {
    [network, chrome] = [new Network("--origin", "47.0,8.0", "--cell", "1km"), await browser()];
    await network.hub();
    await network.node("uav1", "47.1,8.1", "video,track");
    await network.node("uav2", "47.3,8.5", "image");
    url = await network.dashboard();
  });
  after(async () => {
    await chrome?.close();
    await network?.end();
  });

  test("shows nodes that come, move and go", async () => {
    const { page, errors } = await open(chrome, url);
    await row(page, "uav1").getByText("video, track").waitFor();
    const late = await network.node("uav3", "47.2,8.2", "sensor");
    await row(page, "uav3").waitFor();
    const cell = await row(page, "uav3").locator("td").nth(1).textContent();
    network.roost("--socket", network.path("uav3.sock"), "move", "--at", "47.25,8.4");
    await until("the row has another cell", async () => (await row(page, "uav3").locator("td").nth(1).textContent()) !== cell);
    await stop(late);
    await row(page, "uav3").waitFor({ state: "detached" });
    assert.deepEqual(errors, []);
    await page.close();
  });

  test("shows a node's offers and a program's, and closes them", async () => {
    const { page, errors } = await open(chrome, url);
    const lidar = ["acme/lidar", "--stream", "--rate", "400kbit", "--meta", "sensor=ir", "--", "cat", "/dev/zero"];
    const offer = network.start("roost", "offer", ["--socket", network.path("uav2.sock"), "offer", ...lidar]);
    await row(page, "uav2").getByText("acme/lidar").waitFor();
    await page.getByRole("button", { name: "uav2", exact: true }).click();
    const details = page.getByRole("region", { name: "uav2" });
    await details.getByText("acme/lidar:stream").waitFor();
    await details.getByText("sensor=ir").waitFor();
    await details.getByText("lat 47.30000, lon 8.50000").waitFor();
    await details.getByText(/Connected over udp, round trip/).waitFor();
    await page.keyboard.press("Escape");
    await details.waitFor({ state: "detached" });
    await stop(offer);
    assert.deepEqual(errors, []);
    await page.close();
  });

  test("finds providers by service and place", async () => {
    const { page } = await open(chrome, url);
    await page.getByRole("combobox", { name: "service" }).fill("video");
    await page.getByLabel("near").fill("47.1,8.2");
    await page.getByRole("button", { name: "Search" }).click();
    const found = page.getByRole("search").locator("+ div");
    await found.getByText("lat 47.10000, lon 8.10000").waitFor();
    await found.getByText("7.6 km").waitFor();
    await page.getByLabel("near").fill("8.2,47.1");
    await page.getByRole("button", { name: "Search" }).click();
    await found.getByText("did you mean 47.1,8.2?").waitFor();
    await page.close();
  });

  test("shows a stream as it flows", async () => {
    const { page } = await open(chrome, url);
    const watch = ["subscribe", "video", "--any", "--for", "60s", "-o", "/dev/null"];
    const watching = network.start("roost", "watch", ["--socket", network.path("uav2.sock"), ...watch]);
    await page.getByText("uav1 → one receiver").waitFor();
    await stop(watching, "SIGKILL");
    await page.close();
  });

  test("draws each node in the color of its service", async () => {
    const { page } = await open(chrome, url);
    await row(page, "uav2").waitFor();
    const green = async () => {
      const shot = await page.locator("canvas").screenshot();
      return page.evaluate(async (bytes) => {
        const image = await createImageBitmap(new Blob([new Uint8Array(bytes)], { type: "image/png" }));
        const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
        canvas.drawImage(image, 0, 0);
        const { data } = canvas.getImageData(0, 0, image.width, image.height);
        let count = 0;
        // #009e73, of images, as the legend says.
        for (let at = 0; at < data.length; at += 4) count += data[at] < 12 && Math.abs(data[at + 1] - 158) < 8 && Math.abs(data[at + 2] - 115) < 8;
        return count;
      }, [...shot]);
    };
    await until("the map has a green dot", async () => (await green()) > 40);
    await page.close();
  });

  test("shows the network as it was", async () => {
    const { page } = await open(chrome, url);
    const guest = await network.node("guest", "47.15,8.3", "sensor");
    await row(page, "guest").waitFor();
    const there = Date.now();
    await stop(guest);
    await row(page, "guest").waitFor({ state: "detached" });
    // The last second of the time line counts as now.
    const isPast = async () => Number(await page.locator("#time").getAttribute("max")) > there + 1100;
    await until("that was over a second ago", isPast);
    await page.locator("#time").evaluate((slider, at) => {
      slider.value = at;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
    }, there);
    await row(page, "guest").waitFor();
    await page.getByText(/ ago$/).waitFor();
    await page.getByRole("button", { name: "Now" }).click();
    await row(page, "guest").waitFor({ state: "detached" });
    await page.close();
  });

  test("has no serious fault of access, in each form", async () => {
    const forms = [{ colorScheme: "light" }, { colorScheme: "dark" }, { viewport: { width: 400, height: 800 } }];
    for (const form of forms) {
      const { page } = await open(chrome, url, { ...form, bypassCSP: true });
      await page.getByRole("button", { name: "uav1", exact: true }).click();
      await assertAccessible(page, JSON.stringify(form));
      await page.close();
    }
  });

  test("changes its colors, and the map's", async () => {
    const { page } = await open(chrome, url, { colorScheme: "light" });
    await row(page, "uav1").waitFor();
    await until("a light map", async () => (await ground(page))[0] > 200);
    await page.getByRole("button", { name: "Dark" }).click();
    await until("a dark map", async () => (await ground(page))[0] < 60);
    await page.getByRole("button", { name: "Light" }).click();
    await until("a light map again", async () => (await ground(page))[0] > 200);
    await page.close();
  });

  test("draws the network over tiles", async () => {
    const file = network.path("red.pmtiles");
    writeFileSync(file, tilesOf([200, 40, 40]));
    const { page, errors } = await open(chrome, await network.dashboard("hub1", "--tiles", file));
    await row(page, "uav1").waitFor();
    await until("a red map", async () => {
      const [red, green, blue] = await ground(page);
      return red > green + 50 && red > blue + 50;
    });
    await page.getByText("A map of nothing").waitFor({ state: "attached" });
    assert.deepEqual(errors, []);
    const wrong = () => network.roost("--socket", network.path("hub1.sock"), "dashboard", "--tiles", "package.json");
    assert.throws(wrong, /package\.json is no PMTiles file/);
    await page.close();
  });

  test("answers no stranger", async () => {
    const { host } = new URL(url);
    const status = async (headers) => (await fetch(`${url}api/history`, { headers })).status;
    assert.equal(await status({}), 200);
    // A name that somebody else made resolve to this machine, in the browser's place.
    const { request } = await import("node:http");
    const asked = (headers) =>
      new Promise((done, fail) =>
        request(url, { headers }, (answer) => (answer.resume(), done(answer.statusCode))).on("error", fail).end(),
      );
    assert.equal(await asked({ host: "evil.example" }), 403);
    assert.equal(await asked({ host, origin: "http://evil.example" }), 403);
    assert.equal(await asked({ host, origin: `http://${host}` }), 200);
  });
});

test("the page tells when the daemon is gone, and goes on when it is back", async () => {
  const [network, chrome] = [new Network(), await browser()];
  try {
    const hub = await network.hub();
    const [endpoint] = network.status("hub1").listen;
    await network.node("rover", "3,4", "sensor");
    const { page } = await open(chrome, await network.dashboard());
    await row(page, "rover").waitFor();
    await stop(hub, "SIGKILL");
    await page.getByRole("alert").getByText("The daemon does not answer").waitFor();
    await network.restart("supernode", "hub1", ["--listen", endpoint]);
    await page.getByRole("alert").waitFor({ state: "detached" });
    await row(page, "rover").waitFor();
    await page.close();
  } finally {
    await chrome.close();
    await network.end();
  }
});

test("the page over a node shows what its hub finds", async () => {
  const [network, chrome] = [new Network(), await browser()];
  try {
    await network.hub();
    await network.node("rover", "3,4", "sensor");
    await network.node("base", "1,1", "video");
    const { page, errors } = await open(chrome, await network.dashboard("rover"));
    await row(page, "base").waitFor();
    await page.getByText("node of group alps, attached").waitFor();
    await page.getByRole("cell", { name: "home", exact: true }).waitFor();
    const late = await network.node("late", "5,5", "track");
    await row(page, "late").waitFor();
    await stop(late);
    await row(page, "late").waitFor({ state: "detached" });
    assert.deepEqual(errors, []);
    await page.close();
  } finally {
    await chrome.close();
    await network.end();
  }
});

test("the demo's page shows nodes that move", async () => {
  const [network, chrome] = [new Network(), await browser()];
  try {
    const { child, url } = await network.demo();
    const { page } = await open(chrome, url);
    const cell = () => row(page, "p2p-image").locator("td").nth(1).textContent();
    const before = await cell();
    await until("the node moves", async () => (await cell()) !== before);
    await page.getByText("p2p-video → one receiver").waitFor();
    assert.equal(await stop(child, "SIGINT"), 0);
    await page.getByRole("alert").waitFor();
    await page.close();
  } finally {
    await chrome.close();
    await network.end();
  }
});
