// All requests and faults of a run, whatever moment is shown.

import type { Change } from "../rows";
import type { Fault, Request } from "./rows";

interface Timed {
  at_ms: number;
}

export class Past {
  requests: Request[] = $state.raw([]);
  faults: Fault[] = $state.raw([]);
  #rows = new Map<string, Timed>();

  /** Adds what these changes tell; a row may come twice. */
  add(changes: Change[]): void {
    const count = this.#rows.size;
    for (const change of changes) {
      for (const [key, row] of Object.entries(change.set ?? {})) {
        if (key.startsWith("request/") || key.startsWith("fault/")) this.#rows.set(key, row as Timed);
      }
    }
    if (this.#rows.size === count) return;
    const of = (section: string) =>
      [...this.#rows].filter(([key]) => key.startsWith(section)).map(([, row]) => row).sort((a, b) => a.at_ms - b.at_ms);
    [this.requests, this.faults] = [of("request/") as Request[], of("fault/") as Fault[]];
  }

  clear(): void {
    this.#rows.clear();
    [this.requests, this.faults] = [[], []];
  }
}
