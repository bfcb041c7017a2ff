// Readings and tracks that anybody may have written.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readFileSync } from "node:fs";
import { transformWithOxc } from "vite";

const source = readFileSync(new URL("../src/media/readings.ts", import.meta.url), "utf8");
const { code } = await transformWithOxc(source, "readings.ts");
const { measurements, positions } = await import(`data:text/javascript,${encodeURIComponent(code)}`);

test("only sound positions are read", () => {
  const lines = [
    '{"id":"a","lat":1,"lon":2,"speed_mps":3,"course_deg":4}',
    '{"id":"b","lat":1,"lon":2,"speed_mps":null,"course_deg":"north"}',
    '{"id":"c","lat":null,"lon":2}',
    '{"id":"d","lat":"5","lon":2}',
    '{"id":"e","lat":91,"lon":2}',
    '{"id":7,"lat":1,"lon":2}',
    '{"lat":1,"lon":2}',
    "null",
    "[]",
    "{",
    "",
  ];
  assert.deepEqual(positions(lines.join("\n")), [
    { id: "a", lat: 1, lon: 2, speed_mps: 3, course_deg: 4 },
    { id: "b", lat: 1, lon: 2, speed_mps: undefined, course_deg: undefined },
  ]);
  assert.equal(positions(JSON.stringify({ id: "x".repeat(10_000), lat: 1, lon: 2 }))[0].id.length, 64);
});

test("a reading has the newest value of each name", () => {
  const pack = [
    { bn: "urn:a:", bu: "Cel", n: "t", v: 1 },
    { n: "t", v: 2 },
    { n: "note", vs: "dry", u: "" },
    { n: "door", vb: true, u: "open" },
    { n: "nothing" },
  ];
  assert.deepEqual(measurements(pack), [
    { name: "urn:a:t", value: "2 Cel" },
    { name: "urn:a:note", value: "dry" },
    { name: "urn:a:door", value: "true open" },
  ]);
  assert.deepEqual(measurements({}), []);
});
