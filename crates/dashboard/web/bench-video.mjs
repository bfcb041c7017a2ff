// The time from the click on a video to its first picture, over `roost demo --watch`: ten clicks, each on a page of its
// own, at any time between two key frames. `node bench-video.mjs` prints milliseconds, sorted.

import { browser, Network, open } from "./tests/network.mjs";

const CLICKS = 10;

/** Clicks on Play, and gives the time until the browser has shown a picture. */
const first = (page) =>
  page.evaluate(
    () =>
      new Promise((done) => {
        const start = performance.now();
        [...document.querySelectorAll("button")].find((button) => button.textContent === "Play").click();
        const look = () => {
          const video = document.querySelector("video");
          if (video) video.requestVideoFrameCallback(() => done(performance.now() - start));
          else requestAnimationFrame(look);
        };
        look();
      }),
  );

const [network, chrome] = [new Network(), await browser()];
try {
  const { url } = await network.demo();
  const times = [];
  for (let click = 0; click < CLICKS; click += 1) {
    const { page } = await open(chrome, url);
    await page.getByRole("button", { name: "p2p-video", exact: true }).first().click();
    await page.getByRole("button", { name: "Play" }).first().waitFor();
    await page.waitForTimeout(500 + Math.random() * 1000);
    times.push(Math.round(await first(page)));
    await page.close();
  }
  console.log(times.sort((a, b) => a - b).join(" "));
} finally {
  await chrome.close();
  await network.end();
}
