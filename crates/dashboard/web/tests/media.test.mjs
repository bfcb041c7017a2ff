// Data of services in a real browser: video, pictures, readings, tracks.

import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { after, before, describe, test } from "node:test";
import { browser, Network, open, stop, until } from "./network.mjs";

/** Frames that the page's video has shown, and the color of its middle. */
const shown = (page) =>
  page.evaluate(() => {
    const video = document.querySelector("video");
    if (!video?.videoWidth) return { frames: 0, color: [] };
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.drawImage(video, -video.videoWidth / 2, -video.videoHeight / 2);
    const [red, green, blue] = canvas.getImageData(0, 0, 1, 1).data;
    return { frames: video.getVideoPlaybackQuality().totalVideoFrames, color: [red, green, blue] };
  });

/** Opens a service of a node. */
async function choose(page, node, verb) {
  await page.getByRole("button", { name: node, exact: true }).first().click();
  await page.getByRole("region", { name: node, exact: true }).getByRole("button", { name: verb }).first().click();
}

async function plays(page, color) {
  await until("twenty frames", async () => (await shown(page)).frames > 20);
  const { frames, color: middle } = await shown(page);
  color.forEach((part, at) => assert.ok(Math.abs(part - middle[at]) < 40, `${middle} is not ${color}`));
  await until("more frames", async () => (await shown(page)).frames > frames);
}

const RED = [250, 0, 0];
const GREEN = [0, 128, 0];

/** A port of UDP that nobody uses. */
const freePort = () =>
  new Promise((done) => {
    const socket = createSocket("udp4").bind(0, "127.0.0.1", () => {
      const { port } = socket.address();
      socket.close(() => done(port));
    });
  });

describe("data on the page", () => {
  let network, chrome, url, camera;

  before(async () => {
    [network, chrome] = [new Network("--origin", "26.9,91.9", "--cell", "1km"), await browser()];
    await network.hub();
    const source = ["--sources-video", `file:${network.clip("green.ts", "green")}`];
    camera = { words: network.nodeWords("26.95,91.95", "video,track,image,sensor", "hub1", source) };
    camera.child = await network.daemon("overlay-node", "camera", "node", camera.words);
    await network.node("viewer", "27.0,92.1", "");
    url = await network.dashboard("viewer");
  });
  after(async () => {
    await chrome?.close();
    await network?.end();
  });

  test("plays a video, one copy for all who watch", async () => {
    const pages = await Promise.all([1, 2].map(async () => open(chrome, url)));
    for (const { page } of pages) await choose(page, "camera", "Play");
    for (const { page } of pages) await plays(page, GREEN);
    const { streams } = JSON.parse(network.roost("--socket", network.path("viewer.sock"), "--json", "streams"));
    assert.equal(streams.length, 1);
    for (const { page, errors } of pages) {
      await page.getByRole("button", { name: "Close video of camera" }).click();
      await page.locator("video").waitFor({ state: "detached" });
      assert.deepEqual(errors, []);
      await page.close();
    }
    const none = () => JSON.parse(network.roost("--socket", network.path("viewer.sock"), "--json", "streams")).streams;
    await until("the stream has ended", () => none().length === 0);
  });

  test("shows a picture, a reading and a track", async () => {
    const { page, errors } = await open(chrome, url);
    await choose(page, "camera", "Show");
    const picture = page.getByRole("img", { name: "The newest of this node" });
    await until("the picture is there", () => picture.evaluate((image) => image.naturalWidth > 0));
    await choose(page, "camera", "Read");
    await page.getByRole("cell", { name: /^\d+(\.\d+)? Cel$/ }).waitFor();
    await choose(page, "camera", "Follow");
    const place = page.getByRole("row", { name: /synthetic-1/ }).getByRole("cell").nth(1);
    const before = await place.textContent();
    await until("the target moves", async () => (await place.textContent()) !== before);
    assert.deepEqual(errors, []);
    await page.close();
  });

  test("plays over a hub through a node", async () => {
    const through = await network.dashboard("hub1", "--through", network.path("viewer.sock"));
    const { page, errors } = await open(chrome, through);
    await choose(page, "camera", "Play");
    await plays(page, GREEN);
    assert.deepEqual(errors, []);
    await page.goto(await network.dashboard("hub1"));
    await page.getByRole("button", { name: "camera", exact: true }).click();
    await page.getByRole("region", { name: "camera" }).getByText("video, track").or(page.getByText("room for")).first().waitFor();
    assert.equal(await page.getByRole("button", { name: "Play" }).count(), 0);
    await page.close();
  });

  test("says that a camera is gone, and plays again when it is back", async () => {
    const { page } = await open(chrome, url);
    await choose(page, "camera", "Play");
    await plays(page, GREEN);
    await stop(camera.child, "SIGKILL");
    await page.getByRole("status").getByText("The video has stopped.").waitFor();
    camera.child = await network.restart("overlay-node", "camera", camera.words);
    const { frames } = await shown(page);
    const again = async () => (await shown(page)).frames;
    await until("it plays again", async () => ![frames, 0].includes(await again()));
    await page.close();
  });

  test("plays H.264 in RTP, and says of other data that it has no picture", async () => {
    const port = await freePort();
    await network.node("rtp", "26.9,92.0", "", "hub1", ["--sources-video", `rtp://127.0.0.1:${port}?encoding=h264`]);
    await network.node("synthetic", "26.92,92.05", "video");
    const reordered = `file:${network.clip("reordered.ts", "blue", "-bf", "2")}`;
    await network.node("reordered", "26.94,92.05", "", "hub1", ["--sources-video", reordered]);
    const picture = ["-re", "-f", "lavfi", "-i", "color=red:size=320x180:rate=20"];
    const form = ["-c:v", "libx264", "-tune", "zerolatency", "-g", "20", "-pix_fmt", "yuv420p"];
    const to = ["-x264-params", "repeat-headers=1", "-f", "rtp", `rtp://127.0.0.1:${port}?pkt_size=1160`];
    network.run("ffmpeg", "sender", ["-nostdin", ...picture, ...form, ...to]);
    const { page } = await open(chrome, url);
    await choose(page, "rtp", "Play");
    await plays(page, RED);
    await choose(page, "synthetic", "Play");
    await page.getByText("No picture has come.").waitFor();
    await choose(page, "reordered", "Play");
    await page.getByText(/The browser shows \d+ of \d+ pictures\. Cameras/).waitFor();
    await page.close();
  });
});
