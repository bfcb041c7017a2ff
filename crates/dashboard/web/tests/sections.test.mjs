// The sections about the group, its hubs, rooms and requests, in a real browser over real daemons.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { request } from "node:http";
import { assertAccessible, browser, Network, open, stop, until } from "./network.mjs";

const NO_SENSORS = `[[rule]]
title = "no sensors for rover"
deny = ["request"]
who = { name = "rover" }
services = ["sensor"]

[[rule]]
title = "all else is open"
allow = ["all"]
`;

const table = (page, heading) => page.getByRole("region", { name: heading });
const rowOf = (region, text) => region.getByRole("row").filter({ hasText: text }).first();

describe("the sections over hubs and nodes", () => {
  let network, chrome, url, atNode, lost;

  before(async () => {
    [network, chrome] = [new Network("--origin", "47.0,8.0", "--cell", "1km"), await browser()];
    await network.hub("hub1", 0, "--audit", network.path("audit.log"));
    const [endpoint] = network.status("hub1").listen;
    await network.hub("hub2", 0, "--sibling", endpoint);
    await network.node("base", "47.1,8.1", "video,sensor", "hub1", [], ["--label", "team=red"]);
    await network.node("rover", "47.3,8.5", "image", "hub1", [], ["--valid", "3d"]);
    lost = await network.node("lost", "47.2,8.2", "track");
    await network.node("far", "47.5,8.9", "video", "hub2");
    url = await network.dashboard("hub1");
    atNode = await network.dashboard("rover");
  });
  after(async () => {
    await chrome?.close();
    await network?.end();
  });

  test("hubs with the nodes at home and on standby", async () => {
    const { page, errors } = await open(chrome, url);
    const homes = table(page, "Homes and standbys");
    const at = await until("the node has a home and a standby", () => {
      const { hub, standby } = network.status("base");
      return hub && standby && { home: hub.name, standby: standby.name };
    });
    const names = (hub, column) => rowOf(homes, hub).locator("td").nth(column);
    await names(at.home, 2).locator("summary").click();
    await names(at.home, 2).getByRole("button", { name: "base" }).waitFor();
    await names(at.standby, 3).locator("summary").click();
    await names(at.standby, 3).getByRole("button", { name: "base" }).click();
    const [label, other] = at.home === "hub1" ? ["standby", "hub2"] : ["home", "hub2; this hub is its standby"];
    const details = page.getByRole("region", { name: "base" });
    await details.getByText(label, { exact: true }).waitFor();
    await details.getByText(other, { exact: true }).waitFor();
    await rowOf(homes, "hub2").getByText("sibling").waitFor();
    assert.deepEqual(errors, []);
    await page.close();
  });

  test("areas of hubs on the map can be left out", async () => {
    const { page, errors } = await open(chrome, url);
    await rowOf(table(page, "Homes and standbys"), "hub1").waitFor();
    const shot = async () => (await page.locator("canvas").screenshot()).toString("base64");
    await until("the map stands still", async () => (await shot()) === (await shot()));
    const drawn = await shot();
    await page.getByRole("checkbox", { name: /areas of their nodes/ }).uncheck();
    await until("the map is another one", async () => (await shot()) !== drawn);
    assert.deepEqual(errors, []);
    await page.close();
  });

  test("connections tell their losses", async () => {
    // An image takes some eighty packets, and each of them is confirmed.
    network.roost("--socket", network.path("base.sock"), "request", "image", "--any", "-o", "/dev/null");
    const { page } = await open(chrome, atNode);
    const connections = page.locator("table", { has: page.getByRole("columnheader", { name: "loss" }) }).last();
    await connections.getByRole("row").filter({ hasText: "base" }).getByRole("cell", { name: /^[\d.]+ %$/ }).waitFor();
    const wraps = await connections.locator("td.number").evaluateAll((cells) => cells.map((cell) => getComputedStyle(cell).whiteSpace));
    assert.ok(wraps.length > 0 && wraps.every((space) => space === "nowrap"), String(wraps));
    await page.close();
  });

  test("members, their labels and the end of their certificates", async () => {
    const { page, errors } = await open(chrome, url);
    const members = table(page, "Members here");
    await rowOf(members, "base").getByText("team=red").waitFor();
    await rowOf(members, "rover").getByText("in 2 days").waitFor();
    await members.getByText("One certificate ends within a week.").waitFor();
    assert.deepEqual(errors, []);
    await page.close();
  });

  test("a revocation, a policy and a denial", async () => {
    const { page, errors } = await open(chrome, url);
    const documents = table(page, "Documents of the group");
    const via = ["--via", network.path("hub1.sock")];
    await rowOf(table(page, "Members here"), "lost").waitFor();
    network.roost("group", "revoke", network.path("group"), "lost", ...via);
    await rowOf(documents, "revocations").getByText("one certificate is revoked; of nodes that were here: lost").waitFor();
    const audit = table(page, "Audit records");
    await rowOf(audit, "certificate-refused").waitFor();
    await stop(lost);
    writeFileSync(network.path("policy.toml"), NO_SENSORS);
    network.roost("policy", "publish", network.path("policy.toml"), "--group", network.path("group"), ...via);
    await rowOf(documents, "policy").getByText("1", { exact: true }).waitFor();
    const asks = () => network.roost("--socket", network.path("rover.sock"), "request", "sensor", "--any", "-o", "/dev/null");
    await until("the policy is in force at the node", () => network.status("rover")?.policy?.number === 1);
    assert.throws(asks, /no sensors for rover/);
    await rowOf(audit, "document-taken").waitFor();
    await audit.getByRole("checkbox", { name: /only what was denied/ }).check();
    await until("only refusals are listed", async () => (await audit.getByText("document-taken").count()) === 0);
    await rowOf(audit, "certificate-refused").waitFor();
    await table(await atRover(), "Audit records").getByText("This daemon keeps none").waitFor();
    assert.deepEqual(errors, []);
    await page.close();
  });

  async function atRover() {
    const { page } = await open(chrome, atNode);
    return page;
  }

  test("a request hop by hop, with its times", async () => {
    const { page, errors } = await open(chrome, atNode);
    await page.getByText("Trace a request").click();
    const form = page.getByRole("form", { name: "Trace" });
    await form.getByLabel("service").fill("video");
    await form.getByLabel("from node").fill("base");
    await form.getByRole("button", { name: "Trace" }).click();
    const way = page.getByRole("list", { name: "The way of the request" });
    await way.getByText(/answered over/).waitFor();
    await page.getByText(/^Accepted after [\d.]+ ms\. First byte after [\d.]+ ms, directly over udp\./).waitFor();
    await form.getByLabel("from node").fill("");
    await form.getByLabel("near").fill("47.1,8.1");
    await form.getByRole("button", { name: "Trace" }).click();
    await way.getByText("handed it to base").waitFor();
    await form.getByLabel("service").fill("acme/nothing");
    await form.getByRole("button", { name: "Trace" }).click();
    await page.getByText(/acme\/nothing/).last().waitFor();
    // The browser itself tells of the answer 400.
    assert.deepEqual(errors.filter((error) => !error.includes("400")), []);
    await page.close();
  });

  test("a trace calls nothing, and one runs at a time", async () => {
    const call = network.start("roost", "call", ["--socket", network.path("base.sock"), "offer", "acme/horn", "--call", "--", "touch", network.path("blown")]);
    const trace = (query) => fetch(`${atNode}api/trace?${query}`, { method: "POST" });
    await until("the call is offered", async () => (await (await fetch(`${atNode}api/lookup?service=acme/horn&any=true`)).text()).includes("horn"));
    const answer = await trace("service=acme/horn&any=true");
    assert.deepEqual([answer.status, (await answer.text()).includes("is a call")], [400, true]);
    const both = await Promise.all([trace("service=video&any=true"), trace("service=video&any=true")]);
    assert.deepEqual(both.map(({ status }) => status).sort(), [200, 429]);
    assert.equal((await fetch(`${atNode}api/trace?service=video&any=true`)).status, 405);
    await stop(call);
  });

  test("a hub traces nothing, and says so", async () => {
    const { page } = await open(chrome, url);
    await page.getByText("Trace a request").click();
    await page.getByText("A hub requests nothing itself.").waitFor();
    const answer = await fetch(`${url}api/trace?service=video&any=true`, { method: "POST" });
    assert.deepEqual([answer.status, (await answer.text()).includes("put to a node's socket")], [400, true]);
    await page.close();
  });

  test("rooms with their members and streams", async () => {
    const enters = (name) => network.start("roost", `room-${name}`, ["--socket", network.path(`${name}.sock`), "join-room", "ops"]);
    const inside = ["base", "rover"].map(enters);
    const { page, errors } = await open(chrome, atNode);
    const rooms = table(page, "Rooms");
    await rooms.getByText("ops", { exact: true }).waitFor();
    await rowOf(rooms, "base").getByText("video, sensor").waitFor();
    await rowOf(rooms, "base").getByText(/video.*bit\/s/).waitFor();
    const { page: hub } = await open(chrome, url);
    await rowOf(table(hub, "Rooms"), "rover").getByText("image").waitFor();
    await rowOf(table(hub, "Rooms"), "base").getByText(/video to one receiver \(/).waitFor();
    await Promise.all(inside.map((member) => stop(member)));
    await rooms.waitFor({ state: "detached" });
    assert.deepEqual(errors, []);
    await page.close();
    await hub.close();
  });

  test("a node watches services of people's own", async () => {
    const { page, errors } = await open(chrome, atNode);
    const row = (name) => page.locator("tr", { has: page.getByRole("button", { name, exact: true }) }).first();
    await row("base").waitFor();
    await network.node("sonar", "47.4,8.3", "");
    const offers = (name) => network.start("roost", `offer-${name}`, ["--socket", network.path(`${name}.sock`), "offer", "acme/sonar", "--stream", "--rate", "8kbit", "--", "cat", "/dev/zero"]);
    const alone = offers("sonar");
    const found = page.getByRole("search");
    await found.getByRole("combobox", { name: "service" }).fill("acme/sonar");
    await until("the search finds it", async () => {
      await found.getByRole("button", { name: "Search" }).click();
      return (await page.getByRole("search").locator("+ div").getByRole("button", { name: "sonar" }).count()) > 0;
    });
    // From now on it is watched.
    await page.locator("h2", { hasText: "Nodes" }).locator("+ table").getByRole("button", { name: "sonar", exact: true }).waitFor();
    await stop(alone);
    await page.locator("h2", { hasText: "Nodes" }).locator("+ table").getByRole("button", { name: "sonar", exact: true }).waitFor({ state: "detached" });
    await row("base").waitFor();
    assert.deepEqual(errors, []);
    await page.close();
  });

  test("a link of another page opens the page, and nothing else", async () => {
    const { host } = new URL(url);
    const link = { host, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "cross-site" };
    const asked = (target, headers) =>
      new Promise((done, fail) =>
        request(new URL(target, url), { headers }, (answer) => (answer.resume(), done(answer.statusCode))).on("error", fail).end(),
      );
    assert.equal(await asked("/", link), 200);
    assert.equal(await asked("/api/history", link), 403);
    assert.equal(await asked("/", { ...link, "sec-fetch-dest": "iframe" }), 403);
    assert.equal(await asked("/", { ...link, host: "evil.example" }), 403);
    const page = await chrome.newPage();
    // The same address under its other name is another site.
    await page.goto(atNode.replace("127.0.0.1", "localhost"));
    await page.evaluate((target) => {
      document.body.innerHTML = `<a href="${target}">open</a>`;
    }, url);
    await page.getByRole("link", { name: "open" }).click();
    await page.getByRole("heading", { name: "Homes and standbys" }).waitFor();
    await page.close();
  });

  test("the sections have no serious fault of access", async () => {
    for (const [at, form] of [[url, { colorScheme: "light" }], [atNode, { colorScheme: "dark" }], [url, { viewport: { width: 400, height: 800 } }], [atNode, { viewport: { width: 400, height: 800 } }]]) {
      const { page } = await open(chrome, at, { ...form, bypassCSP: true });
      await page.getByRole("heading", { name: "Documents of the group" }).waitFor();
      await page.getByText("Trace a request").click();
      if (at === atNode) {
        await page.getByRole("form", { name: "Trace" }).getByRole("button", { name: "Trace" }).click();
        await page.getByRole("list", { name: "The way of the request" }).waitFor();
      }
      await assertAccessible(page, JSON.stringify(form));
      if (process.env.SHOTS) {
        await page.getByRole("heading", { name: at === url ? "Homes and standbys" : "Documents of the group" }).scrollIntoViewIfNeeded();
        await page.screenshot({ path: `${process.env.SHOTS}/${at === url ? "hub" : "node"}-${form.colorScheme ?? 400}.png`, fullPage: true });
      }
      await page.close();
    }
  });
});
