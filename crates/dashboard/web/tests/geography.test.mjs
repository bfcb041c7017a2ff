// The points of nodes, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { transformWithOxc } from "vite";
import { readFileSync } from "node:fs";

const source = readFileSync(new URL("../src/geography.ts", import.meta.url), "utf8");
const { code } = await transformWithOxc(source, "geography.ts");
const { bounds, gridLines, middle, near, ofCell } = await import(`data:text/javascript,${encodeURIComponent(code)}`);

test("nodes on both sides of 180° have their middle there", () => {
  const at = (lon) => ({ cell: "0,0", place: { lat: -17, lon } });
  const [lon, lat] = middle([at(179), at(-179)]);
  assert.deepEqual([Math.abs(lon), lat], [180, -17]);
  assert.equal(near(-179, 179), 181);
  assert.equal(middle([]), undefined);
});

test("cells beyond the map have no point", () => {
  assert.deepEqual(ofCell("27,92"), [0.27, 0.92]);
  for (const cell of ["-1000000,-1000000", "27", "a,b", ""]) assert.equal(ofCell(cell), undefined, cell);
});

test("a grid has some ten lines at each scale", () => {
  for (const span of [0.01, 1, 37, 300]) {
    const lines = gridLines([0, 0], [span, span]);
    assert.ok(lines.length > 8 && lines.length < 40, `${span}: ${lines.length}`);
  }
});

test("bounds are around all points", () => {
  assert.deepEqual(bounds([[1, 2], [-3, 9]]), [[-3, 2], [1, 9]]);
  assert.equal(bounds([]), undefined);
});
