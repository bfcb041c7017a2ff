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

export interface Measurement {
  name: string;
  value: string;
}

interface SenmlRecord {
  bn?: string;
  bu?: string;
  n?: string;
  u?: string;
  v?: number;
  vs?: string;
  vb?: boolean;
}

/** The newest value of each name in a SenML pack (RFC 8428). */
export function measurements(pack: unknown): Measurement[] {
  if (!Array.isArray(pack)) return [];
  let [base, unit] = ["", ""];
  const newest = new Map<string, string>();
  for (const record of pack as SenmlRecord[]) {
    [base, unit] = [record.bn ?? base, record.bu ?? unit];
    const value = record.v ?? record.vs ?? record.vb;
    if (value === undefined) continue;
    newest.set(base + (record.n ?? ""), `${value} ${record.u ?? unit}`.trim());
  }
  return [...newest].map(([name, value]) => ({ name, value }));
}

export interface TrackPosition {
  id: string;
  lat: number;
  lon: number;
  alt_m?: number;
  speed_mps?: number;
  course_deg?: number;
}

/** The positions among lines of a track. */
export function positions(lines: string): TrackPosition[] {
  return lines.split("\n").flatMap((line) => {
    try {
      const record = JSON.parse(line) as TrackPosition;
      const isPlace = Math.abs(record.lat) <= 90 && Math.abs(record.lon) <= 180;
      return typeof record.id === "string" && isPlace ? [record] : [];
    } catch {
      return [];
    }
  });
}
