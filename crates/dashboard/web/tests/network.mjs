// A small Roost network of real daemons on loopback, and a browser over it.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRequire } from "node:module";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const PROGRAMS = process.env.ROOST_PROGRAMS ?? new URL("../../../../target/debug", import.meta.url).pathname;
// Daemons refuse variables of Roost that they do not know.
delete process.env.ROOST_PROGRAMS;
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** The longest wait for a daemon or the page, milliseconds. */
export const PATIENCE = 30_000;

export async function until(what, holds) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const value = await holds();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${PATIENCE} ms: ${what}`);
    await new Promise((wake) => setTimeout(wake, 50));
  }
}

export class Network {
  folder = mkdtempSync(join(tmpdir(), "roost-page-"));
  #running = [];

  constructor(...group) {
    this.roost("group", "init", this.path("group"), "--name", "alps", ...group);
  }

  path(name) {
    return join(this.folder, name);
  }

  roost(...words) {
    return execFileSync(join(PROGRAMS, "roost"), words, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  /** Starts a program of Roost. */
  start(program, name, words) {
    return this.run(join(PROGRAMS, program), name, words);
  }

  status(name) {
    try {
      return JSON.parse(this.roost("--socket", this.path(`${name}.sock`), "--json", "status"));
    } catch {
      return undefined;
    }
  }

  /** `issued` has further words for the certificate. */
  async daemon(program, name, role, words, issued = []) {
    const identity = this.path(`id-${name}`);
    this.roost("group", "issue", this.path("group"), name, "--role", role, "-o", identity, ...issued);
    return this.restart(program, name, words);
  }

  async restart(program, name, words) {
    const all = ["--identity", this.path(`id-${name}`), "--socket", this.path(`${name}.sock`), ...words];
    const child = this.start(program, name, all);
    const ready = () => ["listening", "attached"].includes(this.status(name)?.state);
    await until(`${name} is ready`, ready).catch((error) => {
      throw new Error(`${error.message}; its log:\n${readFileSync(this.path(`${name}.log`), "utf8")}`);
    });
    return child;
  }

  hub(name = "hub1", port = 0, ...more) {
    return this.daemon("supernode", name, "supernode", ["--listen", `udp://127.0.0.1:${port}`, ...more]);
  }

  node(name, at, services, hub = "hub1", more = [], issued = []) {
    return this.daemon("overlay-node", name, "node", this.nodeWords(at, services, hub, more), issued);
  }

  /** The words of a node at a hub. */
  nodeWords(at, services, hub = "hub1", more = []) {
    const endpoint = this.status(hub).listen[0];
    const words = ["--super", endpoint, "--listen", "udp://127.0.0.1:0", "--at", at];
    return [...words, ...(services ? ["--services", services] : []), ...more];
  }

  /** Makes a clip of one color with ffmpeg. */
  clip(name, color, ...more) {
    const path = this.path(name);
    const picture = ["-f", "lavfi", "-i", `color=${color}:size=320x180:rate=20:duration=4`];
    const form = ["-c:v", "libx264", "-g", "20", "-pix_fmt", "yuv420p", ...(more.length ? more : ["-bf", "0"])];
    execFileSync("ffmpeg", ["-nostdin", "-loglevel", "error", ...picture, ...form, "-f", "mpegts", path]);
    return path;
  }

  /** Starts any program; what it prints goes into a file. */
  run(program, name, words) {
    const log = openSync(this.path(`${name}.log`), "a");
    const child = spawn(program, words, { stdio: ["ignore", log, log] });
    this.#running.push(child);
    return child;
  }

  /** Serves the page over a daemon, and returns its address. */
  async dashboard(name = "hub1", ...more) {
    const words = ["--socket", this.path(`${name}.sock`), "dashboard", "--listen", "127.0.0.1:0", ...more];
    return (await this.#serve(words)).url;
  }

  /** Starts `roost demo --watch`. */
  demo() {
    return this.#serve(["demo", "--watch"]);
  }

  async #serve(words) {
    const child = spawn(join(PROGRAMS, "roost"), words, { stdio: ["ignore", "pipe", "ignore"] });
    this.#running.push(child);
    let printed = "";
    child.stdout.on("data", (data) => (printed += data));
    const url = await until("the page is served", () => /^http:\S+/m.exec(printed)?.[0]);
    return { child, url };
  }

  async end() {
    const ended = this.#running.map(
      (child) => child.exitCode !== null || child.signalCode !== null || new Promise((done) => child.once("exit", done)),
    );
    this.#running.forEach((child) => child.kill("SIGTERM"));
    await Promise.all(ended);
    rmSync(this.folder, { recursive: true });
  }
}

export function stop(child, signal = "SIGTERM") {
  const ended = new Promise((done) => child.once("exit", done));
  child.kill(signal);
  return ended;
}

/** Chromium, which asks nobody outside. */
export function browser() {
  const quiet = ["--disable-background-networking", "--disable-sync", "--disable-quic", "--no-first-run"];
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--enable-unsafe-swiftshader", ...quiet] });
}

/** Opens the page; each error of the page or of its policy is added to `errors`. */
export async function open(browser, url, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, ...options });
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await page.goto(url);
  page.setDefaultTimeout(PATIENCE);
  return { page, errors };
}

/** Fails if axe finds a serious fault, or if the page scrolls sideways. Axe is put into the page, which its policy forbids. */
export async function assertAccessible(page, form) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), [], form);
  const sideways = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.equal(sideways, false, `${form} scrolls sideways`);
}
