// The way of a request: its steps in words, and its stations on the map.

import { milliseconds } from "./format";
import type { Point } from "./geography";

export interface Hop {
  number: number;
  node: string;
  name?: string;
  tier?: number;
  step: string;
  reason?: string;
  other?: string;
  other_name?: string;
  held_ms: number;
  reached_ms?: number;
  round_trip_ms?: number;
  heard_ms: number;
}

export interface Traced {
  service: string;
  trace: { sent: number; accepted_ms?: number; hops: Hop[] };
  summary?: {
    provider: string;
    provider_name?: string;
    cell: string;
    place?: { lat: number; lon: number };
    transport: string;
    relayed: boolean;
    first_byte_ms: number | null;
  } | null;
  error?: { message: string } | null;
}

export interface Station {
  node: string;
  label: string;
  point: Point;
}

/** The drawing: stations, and lines between them; a line that led nowhere is a dead end. */
export interface Route {
  stations: Station[];
  lines: { points: [Point, Point]; kind: "asks" | "answers" | "dead-end" }[];
}

const DEAD_ENDS = ["declined", "silent", "refused"];
const OF_PROVIDER = ["reused", "dialed"];

export const nameOf = (node: string, name?: string) => name ?? node.slice(0, 8);

/** The step of a hub or of the provider, in words. */
export function did(hop: Hop): string {
  const other = hop.other ? nameOf(hop.other, hop.other_name) : (hop.other_name ?? "");
  const reason = (hop.reason ?? "").replaceAll("_", " ");
  switch (hop.step) {
    case "handed":
      return `handed it to ${other}`;
    case "relayed":
      return `handed it to ${other}, to relay the answer`;
    case "passed":
      return `passed it on to ${other}`;
    case "looked-up":
      return "asked other hubs what they have";
    case "declined":
      return `heard from ${other}: ${reason}`;
    case "silent":
      return `heard nothing from ${other}`;
    case "refused":
      return reason === "too many" ? "declined it: too many" : `had nobody left to try: ${reason}`;
    case "reused":
      return "answered over a connection that was up";
    case "dialed":
      return `answered over a new connection${hop.reached_ms === undefined ? "" : ` (${milliseconds(hop.reached_ms)})`}`;
    default:
      return hop.step;
  }
}

/** The times of the whole request, a sentence each. */
export function totals({ trace, summary }: Traced): string[] {
  const words: string[] = [];
  if (trace.accepted_ms !== undefined) words.push(`Accepted after ${milliseconds(trace.accepted_ms)}.`);
  if (summary && summary.first_byte_ms !== null) {
    const way = summary.relayed ? "through the hub" : "directly";
    words.push(`First byte after ${milliseconds(summary.first_byte_ms)}, ${way} over ${summary.transport}.`);
  }
  if (trace.sent > 1) words.push(`Sent ${trace.sent} times.`);
  if (trace.hops.length === 0) words.push("Nobody on the way told anything.");
  return words;
}

/** The stations of a request. Hubs have no place: they stand beside the way from the requester to the provider. */
export function routeOf(traced: Traced, requester: Station, placeOf: (node: string) => Point | undefined): Route {
  const { hops } = traced.trace;
  const provider = hops.find((hop) => OF_PROVIDER.includes(hop.step))?.node ?? traced.summary?.provider;
  const end = (provider ? placeOf(provider) : undefined) ?? requester.point;
  const last = Math.max(1, ...hops.map((hop) => hop.number));
  const stations = new Map([[requester.node, requester]]);
  const beside = (index: number, number: number): Point => {
    const [dx, dy] = [end[0] - requester.point[0], end[1] - requester.point[1]];
    const length = Math.hypot(dx, dy);
    // A node may get what it offers itself, and a provider may be in the same cell.
    const [ux, uy] = length > 0 ? [dx / length, dy / length] : [1, 0];
    const [reach, share] = [Math.max(length, 0.02), number / (last + 1)];
    const off = reach * (0.15 + 0.1 * index);
    return [requester.point[0] + ux * reach * share - uy * off, requester.point[1] + uy * reach * share + ux * off];
  };
  const add = (node: string, label: string, number: number) => {
    if (stations.has(node)) return;
    const before = [...stations.values()].filter((station) => !placeOf(station.node)).length;
    stations.set(node, { node, label, point: placeOf(node) ?? beside(before, number) });
  };
  // The map has the names of nodes already.
  const named = (node: string, name?: string) => (placeOf(node) ? "" : nameOf(node, name));
  for (const hop of hops) add(hop.node, `${named(hop.node, hop.name)} ${milliseconds(hop.held_ms)}`.trim(), hop.number);
  for (const hop of hops) if (hop.other) add(hop.other, named(hop.other, hop.other_name), hop.number + 1);
  if (provider) add(provider, named(provider, traced.summary?.provider_name), last);
  const lines: Route["lines"] = [];
  const drawn = new Set<string>();
  const link = (from: string, to: string, kind: Route["lines"][number]["kind"]) => {
    const ends = [stations.get(from), stations.get(to)];
    const key = `${from} ${to} ${kind}`;
    if (!ends[0] || !ends[1] || from === to || drawn.has(key)) return;
    drawn.add(key);
    lines.push({ points: [ends[0].point, ends[1].point], kind });
  };
  for (const hop of hops.filter((hop) => !OF_PROVIDER.includes(hop.step))) {
    if (hop.number === 1) link(requester.node, hop.node, "asks");
    if (hop.other) link(hop.node, hop.other, DEAD_ENDS.includes(hop.step) ? "dead-end" : "asks");
  }
  // A provider that is meant by its name is asked without hubs.
  if (provider && lines.length === 0) link(requester.node, provider, "asks");
  const relay = traced.summary?.relayed ? hops.find((hop) => hop.step === "relayed")?.node : undefined;
  if (provider && traced.trace.accepted_ms !== undefined) {
    if (relay) {
      link(provider, relay, "answers");
      link(relay, requester.node, "answers");
    } else link(provider, requester.node, "answers");
  }
  return { stations: [...stations.values()], lines };
}
