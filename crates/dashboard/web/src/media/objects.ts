// Objects and records of a node, read again and again.

import { query, type Selection } from "./whep";

export async function object(selection: Selection, signal: AbortSignal): Promise<Blob> {
  const answer = await fetch(`/api/object?${query(selection)}`, { signal });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.blob();
}

/** Calls `show` with each new object, `pause` milliseconds after the one before, until the returned function is called. */
export function repeat(
  selection: Selection,
  pause: number,
  show: (object: Blob) => void | Promise<void>,
  failed: (message: string) => void,
): () => void {
  const abort = new AbortController();
  let waiting: ReturnType<typeof setTimeout>;
  async function again() {
    try {
      await show(await object(selection, abort.signal));
    } catch (error) {
      if (!abort.signal.aborted) failed(error instanceof Error ? error.message : String(error));
    }
    if (!abort.signal.aborted) waiting = setTimeout(again, pause);
  }
  void again();
  return () => {
    abort.abort();
    clearTimeout(waiting);
  };
}
