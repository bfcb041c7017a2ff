// The rows that the daemon's dashboard tells, by key: `node/9405d298…`.

export interface Offer {
  service: string;
  kbps?: number;
  max_bytes?: number;
  metadata?: Record<string, string>;
}

export interface Node {
  node: string;
  name?: string;
  cell: string;
  services: string[];
  offers?: Offer[];
  streams_left: number;
  uplink_left_kbps: number | null;
  record: string;
  place?: { lat: number; lon: number };
  position?: { course_deg?: number; speed_mps?: number; accuracy_m?: number; alt_m?: number };
  home?: string;
  home_name?: string;
  standby?: string;
  standby_name?: string;
  suspended?: boolean;
}

export interface Daemon {
  role: "node" | "supernode" | "server";
  name: string;
  group: string;
  node: string;
  state: string;
  version: string;
  cell?: string;
  place?: { lat: number; lon: number };
  hub?: { name?: string; node?: string; rtt_ms?: number };
  standby?: { name?: string };
  index?: { nodes: number; tier: number };
  certificate_not_after_unix_s: number;
  labels?: Record<string, string>;
  documents?: Record<string, number>;
  datum?: { origin: string; cell: string };
  listen: string[];
}

export interface Connection {
  node: string;
  name: string;
  role: string;
  relation?: string;
  transport: string;
  address: string;
  rtt_ms: number;
  /** Lost packets of hundred lately; not known over TCP, or of too few packets. */
  loss_percent?: number;
  sent_bps: number;
  received_bps: number;
}

export interface Hub {
  relation: string;
  node?: string;
  name?: string;
  endpoints: string[];
  up: boolean;
  rtt_ms?: number;
  reason?: string;
  tier?: number;
}

export interface Stream {
  stream: string;
  service?: string;
  provider?: string;
  provider_name?: string;
  bits_per_second: number;
  loss_percent?: number;
  downstreams: { node?: string; name?: string; kind: string; bits_per_second: number }[];
}

export interface Transfer {
  way: "providing" | "receiving";
  service: string;
  remote?: string;
  remote_name?: string;
  bits_per_second: number;
}

export interface Service {
  service: string;
  providers?: number;
  served?: number;
}

/** A member at the other end of a connection. */
export interface Member {
  node: string;
  name: string;
  role: string;
  labels: string;
  certificate_not_after_unix_s: number;
}

export interface GroupDocument {
  kind: string;
  number: number;
  revoked?: number;
  nodes_revoked?: string[];
  nodes?: number;
  behind?: number;
  nodes_behind?: string[];
  hubs_behind?: string[];
}

export interface AuditRecord {
  sequence: number;
  time: string;
  kind: string;
  node?: string | null;
  name?: string | null;
  details?: Record<string, unknown>;
}

export interface Room {
  room: string;
  name?: string | null;
  members: { node: string; name?: string | null; cell: string; services: string[] }[];
}

export interface Feed {
  state: "live" | "lost" | "partial" | "off";
  message?: string;
}

export type Rows = Map<string, unknown>;

export interface Change {
  at_ms: number;
  set?: Record<string, unknown>;
  gone?: string[];
}

/** The whole picture, as it comes first. */
export interface Snapshot extends Change {
  from_ms: number;
  now_ms: number;
}

/** The history as it comes: the rows at its start, and each change since. */
export interface StoredHistory {
  from_ms: number;
  rows: Record<string, unknown>;
  changes: Change[];
}

export interface History {
  from_ms: number;
  rows: Rows;
  changes: Change[];
}

/** Makes the rows what they are after the change. */
export function apply(rows: Rows, change: Change): void {
  for (const key of change.gone ?? []) rows.delete(key);
  for (const [key, row] of Object.entries(change.set ?? {})) rows.set(key, row);
}

/** The rows as they were at a moment of the history. */
export function rowsAt(history: History, at: number): Rows {
  const rows: Rows = new Map(history.rows);
  for (const change of history.changes) {
    if (change.at_ms > at) break;
    apply(rows, change);
  }
  return rows;
}

/** The rows of one section, in the order of their keys. */
export function section<T>(rows: Rows, name: string): T[] {
  const keys = [...rows.keys()].filter((key) => key.startsWith(`${name}/`)).sort();
  return keys.map((key) => rows.get(key) as T);
}
