// The network as the page shows it: live, or at a moment of the last hour or of a run.

import { Cursor } from "./run/history";
import { Past } from "./run/past.svelte";
import type { Run } from "./run/rows";
import { apply, rowsAt, type Change, type History, type Rows, type Snapshot, type StoredHistory } from "./rows";

const HISTORY_MS = 3_600_000;

/** The longest time for which a change of a run waits for others. */
const REFRESH_MS = 100;

export class Network {
  /** The rows to show. */
  rows: Rows = $state.raw(new Map());
  /** False while the dashboard itself does not answer; not known before the first answer. */
  connected: boolean | undefined = $state();
  /** True once the browser does not try any more. */
  refused = $state(false);
  /** The time of the last change, Unix milliseconds. */
  at = $state(0);
  /** The start of the history that can be shown. */
  from = $state(0);
  /** The moment that is shown; none is now. */
  shown: number | undefined = $state();
  /** The reason that a moment cannot be shown. */
  problem = $state("");
  /** The time by which this browser's clock is ahead of the daemon's host, milliseconds. */
  ahead = $state(0);

  /** True over a run, whose times count from its start and of which all is kept. */
  isRun = $state(false);
  readonly past = new Past();

  #live: Rows = new Map();
  #history: History | undefined;
  #cursor: Cursor | undefined;
  #wasOpened = false;
  /** Changes of a run that are not shown yet. */
  #fresh: Change[] = [];
  #loading: Promise<void> | undefined;
  /** Changes that come while the history is on its way. */
  #late: Change[] = [];

  /** Follows the changes; the browser connects again by itself. */
  follow(): () => void {
    const source = new EventSource("/api/events");
    source.addEventListener("open", () => (this.connected = true));
    source.addEventListener("error", () => {
      this.connected = false;
      this.refused = source.readyState === EventSource.CLOSED;
    });
    source.addEventListener("picture", (event) => {
      const picture = JSON.parse(event.data) as Snapshot;
      this.#live = new Map();
      this.from = picture.from_ms;
      this.ahead = Date.now() - picture.now_ms;
      // Changes in between are not known here.
      [this.#history, this.#cursor, this.#fresh] = [undefined, undefined, []];
      const run = picture.set?.["run/self"] as Run | undefined;
      this.isRun = run !== undefined;
      if (run) {
        apply(this.#live, picture);
        this.at = picture.at_ms;
        return void this.#open(run);
      }
      this.#take(picture);
      if (this.shown !== undefined) void this.show(this.shown);
    });
    source.addEventListener("change", (event) => this.#take(JSON.parse(event.data) as Change));
    return () => source.close();
  }

  /** Shows the network as it was; `undefined` is now. */
  async show(at: number | undefined): Promise<void> {
    [this.shown, this.problem] = [at, ""];
    if (at !== undefined && !this.#history) {
      this.#loading ??= this.#load();
      await this.#loading;
    }
    if (this.shown === undefined || !this.#history) {
      this.shown = undefined;
      if (!this.isRun) this.#history = undefined;
      this.rows = new Map(this.#live);
      return;
    }
    this.shown = Math.max(this.shown, this.#history.from_ms);
    this.rows = this.#cursor ? this.#cursor.rowsAt(this.shown) : rowsAt(this.#history, this.shown);
  }

  /** Shows a run that is over from its start, and one that goes on as it is now. */
  async #open(run: Run): Promise<void> {
    this.#loading ??= this.#load();
    await this.#loading;
    const isOver = run.state === "finished" || run.state === "interrupted";
    const at = this.shown ?? (isOver && !this.#wasOpened ? 0 : undefined);
    this.#wasOpened = true;
    await this.show(at);
  }

  async #load(): Promise<void> {
    this.#late = [];
    try {
      const answer = await fetch("/api/history");
      if (!answer.ok) throw new Error(await answer.text());
      const { from_ms, rows, changes } = (await answer.json()) as StoredHistory;
      const last = changes.at(-1)?.at_ms ?? from_ms;
      const late = this.isRun ? [] : this.#late.filter((change) => change.at_ms >= last);
      this.#history = { from_ms, rows: new Map(Object.entries(rows)), changes: [...changes, ...late] };
      if (this.isRun) {
        this.#cursor = new Cursor(this.#history);
        this.past.clear();
        this.past.add(this.#history.changes);
      }
      this.from = from_ms;
    } catch {
      this.problem = "The history cannot be read now.";
    } finally {
      this.#loading = undefined;
    }
  }

  #take(change: Change): void {
    if (this.isRun) return this.#takeOfRun(change);
    apply(this.#live, change);
    this.at = change.at_ms;
    this.from = Math.max(this.from, change.at_ms - HISTORY_MS);
    if (this.#loading) this.#late.push(change);
    if (this.#history) this.#remember(this.#history, change);
    if (this.shown === undefined) this.rows = new Map(this.#live);
  }

  #takeOfRun(change: Change): void {
    apply(this.#live, change);
    this.at = Math.max(this.at, change.at_ms);
    // Those of a moment come together, and are shown together.
    if (this.#fresh.push(change) === 1) setTimeout(() => this.#refresh(), REFRESH_MS);
  }

  #refresh(): void {
    if (this.#loading) return void setTimeout(() => this.#refresh(), REFRESH_MS);
    const fresh = this.#fresh.splice(0);
    if (this.#cursor) {
      fresh.forEach((change) => this.#cursor?.add(change));
      this.past.add(fresh);
    }
    if (this.shown === undefined) this.rows = new Map(this.#live);
    else if (this.#cursor) this.rows = this.#cursor.rowsAt(this.shown);
  }

  /** Adds a change, and forgets those that are over an hour old. */
  #remember(history: History, change: Change): void {
    history.changes.push(change);
    let [first] = history.changes;
    while (first && first.at_ms < this.from) {
      apply(history.rows, first);
      history.from_ms = first.at_ms;
      history.changes.shift();
      [first] = history.changes;
    }
  }
}
