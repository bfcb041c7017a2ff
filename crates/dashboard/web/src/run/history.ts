// The moments of a run, one after the other.

import { apply, type Change, type History, type Rows } from "../rows";

/** Finds the rows of a moment from those of the moment before. */
export class Cursor {
  #rows: Rows;
  #next = 0;

  constructor(private readonly history: History) {
    this.#rows = new Map(history.rows);
  }

  rowsAt(at: number): Rows {
    const { changes, rows } = this.history;
    const last = changes[this.#next - 1];
    if (last && last.at_ms > at) [this.#rows, this.#next] = [new Map(rows), 0];
    for (let change = changes[this.#next]; change && change.at_ms <= at; change = changes[this.#next]) {
      apply(this.#rows, change);
      this.#next++;
    }
    return new Map(this.#rows);
  }

  /** Adds a change, which may be earlier than others. */
  add(change: Change): void {
    const { changes, rows } = this.history;
    let place = changes.length;
    while (place > 0 && changes[place - 1]!.at_ms > change.at_ms) place--;
    changes.splice(place, 0, change);
    if (place < this.#next) [this.#rows, this.#next] = [new Map(rows), 0];
  }
}

/** The time in the run: `1:02.5`. */
export function clock(ms: number): string {
  const tenths = Math.round(ms / 100);
  const [minutes, rest] = [Math.floor(tenths / 600), tenths % 600];
  return `${minutes}:${(rest / 10).toFixed(1).padStart(4, "0")}`;
}
