// The network as the page shows it: live, or at a moment of the last hour.

import { apply, rowsAt, type Change, type History, type Rows, type Snapshot, type StoredHistory } from "./rows";

const HISTORY_MS = 3_600_000;

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
  /** How far this browser's clock is ahead of the daemon's host, milliseconds. */
  ahead = $state(0);

  #live: Rows = new Map();
  #history: History | undefined;
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
      // What came in between is not known here.
      this.#history = undefined;
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
      [this.#history, this.shown] = [undefined, undefined];
      this.rows = new Map(this.#live);
      return;
    }
    this.shown = Math.max(this.shown, this.#history.from_ms);
    this.rows = rowsAt(this.#history, this.shown);
  }

  async #load(): Promise<void> {
    this.#late = [];
    try {
      const answer = await fetch("/api/history");
      if (!answer.ok) throw new Error(await answer.text());
      const { from_ms, rows, changes } = (await answer.json()) as StoredHistory;
      const last = changes.at(-1)?.at_ms ?? from_ms;
      const late = this.#late.filter((change) => change.at_ms >= last);
      this.#history = { from_ms, rows: new Map(Object.entries(rows)), changes: [...changes, ...late] };
      this.from = from_ms;
    } catch {
      this.problem = "The history cannot be read now.";
    } finally {
      this.#loading = undefined;
    }
  }

  #take(change: Change): void {
    apply(this.#live, change);
    this.at = change.at_ms;
    this.from = Math.max(this.from, change.at_ms - HISTORY_MS);
    if (this.#loading) this.#late.push(change);
    if (this.#history) this.#remember(this.#history, change);
    if (this.shown === undefined) this.rows = new Map(this.#live);
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
