// The rows of a run, by key: `request/12`. Times are milliseconds since the run's workload began.

import type { Node } from "../rows";

export interface Run {
  name: string;
  architecture?: string;
  transport?: string;
  topology: string;
  seed?: number;
  duration_s?: number;
  /** The end of the run with its drain; none while it goes on. */
  ended_s?: number;
  simulated?: boolean;
  started_unix_s?: number;
  state: "running" | "finished" | "interrupted" | "silent";
  /** True if hosts have places on the grid. */
  grid: boolean;
  hosts: number;
  doubts?: string[];
}

/** A host or a LAN. */
export interface Place {
  name: string;
  class?: string;
  at: [number, number];
  ground?: [number, number];
}

export interface RunNode extends Node {
  name: string;
  class: string;
  hubs: string[];
  state: string;
  up: boolean;
}

export interface RunHub {
  name: string;
  host: string;
  relation: string;
  tier: number;
  parents: string[];
  state: string;
  up: boolean;
}

export interface Leg {
  rate_bps: number | null;
  delay_ms: number;
  loss?: number;
  jitter?: string;
  bursts?: boolean;
  queue: string;
  up: boolean;
}

/** A link, or the leg of a host on a LAN. */
export interface Wire {
  link: string;
  net: string;
  from: string;
  to: string;
  there: Leg;
  /** The other direction, if it differs. */
  back: Leg | null;
}

export interface Total {
  link: string;
  host: string;
  direction: string;
  bytes: number;
  packets: number;
  dropped_queue: number;
  dropped_loss: number;
  dropped_down: number;
}

export interface Fault {
  fault: number;
  at_ms: number;
  object: string;
  what: string;
}

export interface Request {
  request: number;
  at_ms: number;
  end_ms: number;
  node: string;
  service: string;
  target: string;
  provider: string | null;
  outcome: "completed" | "failed" | "timed-out" | "cut";
  error: string | null;
  detail: string | null;
  latency_ms: number | null;
  elapsed_ms: number;
  bytes: number;
  packets: number;
  lost: number;
  transport?: string;
  relayed: boolean;
  way: string[];
  /** True if the way leads from end to end. */
  whole: boolean;
}

export interface Sample {
  active: number;
  completed: number;
  failed: number;
  offered_bps: number;
  delivered_bps: number;
}

/** The busy directions of links in a second. */
export interface Load {
  at_ms: number;
  links: { link: string; host: string; direction: string; used: number; inside_bytes: number; dropped: number }[];
}

/** The stream of a member of a room at another one. */
export interface RoomStream {
  stream: string;
  room: string;
  service: string;
  provider: string;
  downstreams: { node: string }[];
  lost: number;
}
