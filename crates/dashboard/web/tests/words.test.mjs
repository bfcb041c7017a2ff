// The geometry and the words of the sections, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "vite";

/** A module of the page with what it imports. */
async function load(name) {
  const entry = new URL(`../src/${name}.ts`, import.meta.url).pathname;
  const lib = { entry, formats: ["es"], fileName: name };
  const [{ output }] = await build({ configFile: false, logLevel: "error", build: { write: false, lib } });
  return import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);
}

const { area, hubsOf, hull, marginOf } = await load("coverage");
const { did, routeOf, totals } = await load("trace");
const { detailsOf, endsIn, isRefusal } = await load("group");

test("a hull leaves out what is inside", () => {
  const square = [[0, 0], [4, 0], [4, 4], [0, 4]];
  assert.deepEqual(hull([...square, [2, 2], [1, 3], [4, 2]]), square);
  assert.deepEqual(hull([[1, 1], [1, 1]]).length > 0, true);
  assert.deepEqual([hull([[3, 3]]), hull([])], [[[3, 3]], []]);
});

test("an area has a margin and is closed", () => {
  for (const points of [[[8, 47]], [[8, 47], [9, 47]], [[8, 47], [9, 47], [8.5, 47.5]]]) {
    const ring = area(points, 0.1);
    assert.deepEqual(ring[0], ring.at(-1));
    assert.ok(ring.length > 8);
    for (const [x, y] of points) assert.ok(ring.some(([, b]) => b > y + 0.05) && ring.some(([a]) => a < x), JSON.stringify(points));
  }
  assert.deepEqual([area([], 1), marginOf([])], [[], 0]);
  assert.ok(marginOf([[0, 0], [1, 0]]) >= 0.05);
});

test("nodes are counted at their homes and standbys", () => {
  const daemon = { node: "a", name: "hub1", index: { nodes: 2, tier: 1 } };
  const nodes = [{ node: "1" }, { node: "2", standby: "b" }, { node: "3", home: "b", home_name: "hub2" }];
  const hubs = [{ relation: "sibling", node: "b", name: "hub2", up: true }, { relation: "child", node: "c", name: "low", up: false, tier: 0 }];
  const rows = hubsOf(nodes, hubs, daemon).map(({ name, relation, tier, home, standby }) => [name, relation, tier, home.length, standby.length]);
  assert.deepEqual(rows, [["hub1", "this hub", 1, 2, 1], ["hub2", "sibling", 1, 1, 1], ["low", "child, down", 0, 0, 0]]);
  assert.deepEqual(hubsOf(nodes, hubs, { node: "a", name: "n" }), []);
});

const hop = (more) => ({ number: 1, node: "h1", name: "hub1", step: "handed", held_ms: 0.05, heard_ms: 3, ...more });

test("each step of a trace is said in words", () => {
  assert.equal(did(hop({ other: "p", other_name: "base" })), "handed it to base");
  assert.equal(did(hop({ step: "declined", other_name: "base", reason: "source_failed" })), "heard from base: source failed");
  assert.equal(did(hop({ step: "dialed", reached_ms: 21.4 })), "answered over a new connection (21 ms)");
  assert.equal(did(hop({ step: "later" })), "later");
  const traced = { trace: { sent: 2, accepted_ms: 40, hops: [] }, summary: { relayed: true, transport: "tcp", first_byte_ms: 41 } };
  assert.equal(totals(traced).join(" "), "Accepted after 40 ms. First byte after 41 ms, through the hub over tcp. Sent 2 times. Nobody on the way told anything.");
});

test("a route leads over its hubs to the provider and back", () => {
  const hops = [
    hop({ step: "declined", other: "q", other_name: "busy", reason: "busy" }),
    hop({ step: "passed", other: "h2", other_name: "hub2" }),
    hop({ number: 2, node: "h2", name: "hub2", other: "p", other_name: "base" }),
    hop({ number: 3, node: "p", name: "base", step: "reused" }),
  ];
  const places = new Map([["r", [0, 0]], ["p", [3, 0]]]);
  const self = { node: "r", label: "rover", point: [0, 0] };
  const traced = { trace: { sent: 1, accepted_ms: 9, hops }, summary: { provider: "p", relayed: false } };
  const route = routeOf(traced, self, (node) => places.get(node));
  assert.deepEqual(route.stations.map(({ node }) => node), ["r", "h1", "h2", "p", "q"]);
  assert.deepEqual(route.lines.map(({ kind }) => kind), ["asks", "dead-end", "asks", "asks", "answers"]);
  const point = (node) => route.stations.find((station) => station.node === node).point;
  assert.deepEqual(point("p"), [3, 0]);
  assert.ok(point("h1")[0] < point("h2")[0] && point("h1")[1] !== point("h2")[1]);
  const failed = routeOf({ trace: { sent: 1, hops: [] }, error: { message: "nobody" } }, self, () => undefined);
  assert.deepEqual([failed.stations.length, failed.lines.length], [1, 0]);
  assert.ok(route.stations.every((station) => station.point.every(Number.isFinite)));
});

test("certificates and audit records are said in words", () => {
  const day = 86_400;
  assert.deepEqual([5 * day, 1.5 * day, 600, 5, 0, -3].map((left) => endsIn(1000 + left, 1000)), ["in 5 days", "in 36 h", "in 10 min", "in 1 min", "ended", "ended"]);
  const denied = { kind: "action-denied", details: { action: "request", service: "video", area: "(5,5)", rule: "rule 1", policy: 3, more: 12 } };
  assert.equal(detailsOf(denied), "request video (5,5): rule 1, of policy 3; 12 more times");
  assert.equal(detailsOf({ kind: "action-denied", details: { more: 2 } }), "2 more times");
  assert.equal(detailsOf({ kind: "document-taken", details: { document: "policy", number: 4 } }), "document policy, number 4");
  assert.deepEqual(["action-denied", "certificate-refused", "started"].map((kind) => isRefusal({ kind })), [true, true, false]);
});
