// Readings and tracks, out of the data of a node.

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
  speed_mps: number | undefined;
  course_deg: number | undefined;
}

/** The longest name of a target. */
const LONGEST_ID = 64;

const number = (value: unknown) => (typeof value === "number" && Number.isFinite(value) ? value : undefined);

/** The positions among lines of a track, which anybody may have written. */
export function positions(lines: string): TrackPosition[] {
  return lines.split("\n").flatMap((line) => {
    let record: Record<string, unknown> | null;
    try {
      record = JSON.parse(line) as Record<string, unknown> | null;
    } catch {
      return [];
    }
    const [lat, lon, id] = [number(record?.lat), number(record?.lon), record?.id];
    if (typeof id !== "string" || lat === undefined || lon === undefined) return [];
    if (Math.abs(lat) > 90 || Math.abs(lon) > 180) return [];
    const [speed_mps, course_deg] = [number(record?.speed_mps), number(record?.course_deg)];
    return [{ id: id.slice(0, LONGEST_ID), lat, lon, speed_mps, course_deg }];
  });
}
