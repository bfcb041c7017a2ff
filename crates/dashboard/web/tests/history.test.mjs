// The moments of a run, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readFileSync } from "node:fs";
import { transformWithOxc } from "vite";

async function load(name, ...before) {
  const source = before.join("\n") + readFileSync(new URL(`../src/${name}`, import.meta.url), "utf8").replace(/^import .*$/gm, "");
  const { code } = await transformWithOxc(source, "file.ts");
  return import(`data:text/javascript,${encodeURIComponent(code)}`);
}

const { apply, rowsAt } = await load("rows.ts");
const { Cursor, clock } = await load("run/history.ts", apply.toString());

function history() {
  const change = (at_ms) => ({ at_ms, set: { a: at_ms, [`b${at_ms}`]: 1 }, gone: [`b${at_ms - 30}`] });
  return { from_ms: 0, rows: new Map([["a", -1]]), changes: [0, 10, 10, 20, 30, 45, 60].map(change) };
}

test("any way through a run leads to the same moments", () => {
  const [one, cursor] = [history(), new Cursor(history())];
  for (const at of [0, 5, 10, 60, 45, 44, 9, 10, 30, -1, 100]) {
    assert.deepEqual(cursor.rowsAt(at), rowsAt(one, at), `at ${at}`);
  }
});

test("late changes stand at their times", () => {
  const cursor = new Cursor(history());
  cursor.rowsAt(45);
  cursor.add({ at_ms: 15, set: { late: 1 } });
  cursor.add({ at_ms: 70, set: { last: 1 } });
  assert.deepEqual([10, 15, 45, 70].map((at) => [cursor.rowsAt(at).has("late"), cursor.rowsAt(at).has("last")]), [
    [false, false],
    [true, false],
    [true, false],
    [true, true],
  ]);
});

test("times of a run are read easily", () => {
  assert.deepEqual([0, 950, 59_960, 62_540, 3_600_000].map(clock), ["0:00.0", "0:01.0", "1:00.0", "1:02.5", "60:00.0"]);
});
