// The network as the page shows it: live, or at a moment of the last hour.

import { apply, rowsAt, type Change, type History, type Rows } from "./rows";

export class Network {
  /** The rows to show. */
  rows: Rows = $state.raw(new Map());
  /** False while the daemon's dashboard itself does not answer. */
  connected = $state(false);
  /** The time of the last change, Unix milliseconds. */
  at = $state(0);
  /** The start of the history that can be shown. */
  from = $state(0);
  /** The moment that is shown; none is now. */
  shown: number | undefined = $state();

  #live: Rows = new Map();
  #history: History | undefined;

  /** Follows the changes; the browser connects again by itself. */
  follow(): () => void {
    const source = new EventSource("/api/events");
    source.addEventListener("open", () => (this.connected = true));
    source.addEventListener("error", () => (this.connected = false));
    source.addEventListener("picture", (event) => {
      this.#live = new Map();
      this.#take(JSON.parse(event.data) as Change);
    });
    source.addEventListener("change", (event) => {
      const change = JSON.parse(event.data) as Change;
      this.#history?.changes.push(change);
      this.#take(change);
    });
    return () => source.close();
  }

  /** Shows the network as it was; `undefined` is now. */
  async show(at: number | undefined): Promise<void> {
    this.shown = at;
    if (at === undefined) {
      this.#history = undefined;
      this.#draw();
      return;
    }
    if (!this.#history) {
      const answer = await fetch("/api/history");
      this.#history = (await answer.json()) as History;
      this.from = this.#history.from_ms;
    }
    if (this.shown === at) this.rows = rowsAt(this.#history, at);
  }

  #take(change: Change): void {
    apply(this.#live, change);
    this.at = change.at_ms;
    if (this.from === 0) this.from = change.at_ms;
    if (this.shown === undefined) this.#draw();
  }

  #draw(): void {
    this.rows = new Map(this.#live);
  }
}
