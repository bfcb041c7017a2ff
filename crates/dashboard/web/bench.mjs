// Measures the page in Chromium with many nodes that move, which it is given in the daemon's place:
//     node bench.mjs [NODES]
// Prints the time to the first paint, the time until all nodes are drawn, and frames a second while the map is dragged.

import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { browser } from "./tests/network.mjs";

const NODES = Number(process.argv[2] ?? 1000);
const PAGE = new URL("../page", import.meta.url).pathname;
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css" };

const node = (number, step) => ({
  node: number.toString(16).padStart(32, "0"),
  name: `n${number}`,
  cell: `${(number % 40) * 5 + (step % 5)},${Math.floor(number / 40) * 5}`,
  services: [["video"], ["track"], ["image"], ["sensor"]][number % 4],
  streams_left: 8,
  uplink_left_kbps: null,
  record: `1.${step}`,
});

const rows = (step, every) =>
  Object.fromEntries(
    [...Array(NODES).keys()].filter((number) => number % every === step % every).map((number) => [`node/${number}`, node(number, step)]),
  );

const server = createServer((request, response) => {
  if (request.url !== "/api/events") {
    const path = join(PAGE, request.url === "/" ? "index.html" : request.url);
    response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" });
    return response.end(readFileSync(path));
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const say = (event, data) => response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  const now = Date.now();
  say("picture", { from_ms: now, at_ms: now, now_ms: now, set: rows(0, 1) });
  // A fifth of the nodes moves each second.
  let step = 0;
  const moving = setInterval(() => say("change", { at_ms: Date.now(), set: rows(++step, 5) }), 1000);
  request.on("close", () => clearInterval(moving));
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));

const chrome = await browser();
const page = await chrome.newPage({ viewport: { width: 1280, height: 800 } });
await page.goto(`http://127.0.0.1:${server.address().port}/`);
await page.getByText(`Nodes (${NODES})`).waitFor();
const times = await page.evaluate(() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return { first_paint_ms: Math.round(paint.startTime), nodes_listed_ms: Math.round(performance.now()) };
});
await page.waitForTimeout(2000);
const frames = page.evaluate(
  () =>
    new Promise((done) => {
      const started = performance.now();
      const spans = [];
      let last = started;
      const frame = (now) => {
        spans.push(now - last);
        last = now;
        if (now - started < 5000) return requestAnimationFrame(frame);
        spans.sort((a, b) => a - b);
        done({ frames_per_second: spans.length / 5, p99_ms: spans[Math.floor(spans.length * 0.99)] });
      };
      requestAnimationFrame(frame);
    }),
);
const canvas = await page.locator("canvas").boundingBox();
await page.mouse.move(canvas.x + 200, canvas.y + 200);
await page.mouse.down();
let over = false;
void frames.then(() => (over = true));
for (let step = 0; !over; step++) {
  await page.mouse.move(canvas.x + 300 + 150 * Math.sin(step / 20), canvas.y + 250 + 100 * Math.cos(step / 20));
}
await page.mouse.up();
console.log(JSON.stringify({ nodes: NODES, ...times, ...(await frames) }));
await chrome.close();
server.close();
process.exit();
