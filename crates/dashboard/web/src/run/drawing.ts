// The network of a run on the map: hosts, links, and the ways of requests.

import type * as GeoJSON from "geojson";
import type { LayerSpecification } from "maplibre-gl";
import { colorOf } from "../colors";
import { ofCell, type Point } from "../geography";
import type { Rows } from "../rows";
import type { Load, Place, Request, RoomStream, RunHub, RunNode, Wire } from "./rows";

type Feature = GeoJSON.Feature;

export type View = "topology" | "grid";

export interface Drawing {
  view: View;
  /** The points of nodes by their names, and of hosts and LANs by their keys. */
  places: Map<string, Point>;
  wires: Feature[];
  stops: Feature[];
  ways: Feature[];
  hubs: Feature[];
  loads: Feature[];
}

/** Degrees of the map that the drawing's unit, or a cell, takes. */
const UNIT_DEG = 0.01;

export const SOURCES = ["loads", "wires", "ways", "stops"] as const;

const line = (points: Point[], properties: object): Feature => ({
  type: "Feature",
  properties,
  geometry: { type: "LineString", coordinates: points },
});
const dot = (point: Point, properties: object): Feature => ({
  type: "Feature",
  properties,
  geometry: { type: "Point", coordinates: point },
});

const scaled = ([x, y]: [number, number]): Point => [x * UNIT_DEG, y * UNIT_DEG];

/** The state of a link in a word. */
export function stateOf(wire: Wire): "up" | "down" | "lossy" {
  const legs = [wire.there, wire.back ?? wire.there];
  if (legs.some((leg) => !leg.up)) return "down";
  return legs.some((leg) => (leg.loss ?? 0) > 0 || leg.bursts) ? "lossy" : "up";
}

export function placesOf(hosts: Place[], lans: Place[], nodes: RunNode[], view: View): Map<string, Point> {
  const places = new Map<string, Point>();
  const put = (kind: string) => (place: Place) => {
    const point = view === "topology" ? place.at : place.ground;
    if (point) places.set(`${kind}/${place.name}`, scaled(point));
  };
  hosts.forEach(put("host"));
  lans.forEach(put("lan"));
  for (const node of nodes) {
    const point = view === "topology" ? places.get(`host/${node.node}`) : ofCell(node.cell);
    if (!point) continue;
    places.set(node.node, point);
    places.set(`host/${node.node}`, point);
  }
  return places;
}

export function wiresOf(wires: Wire[], places: Map<string, Point>): Feature[] {
  return wires.flatMap((wire) => {
    const [from, to] = [places.get(wire.from), places.get(wire.to)];
    return from && to ? [line([from, to], { link: `link/${wire.link}`, state: stateOf(wire) })] : [];
  });
}

/** The busy links, by the busier of their directions. */
export function loadsOf(rows: Rows, load: Load | undefined, places: Map<string, Point>): Feature[] {
  const used = new Map<string, number>();
  for (const busy of load?.links ?? []) {
    // A queue that drops is full.
    const most = Math.max(used.get(busy.link) ?? 0, busy.dropped > 0 ? 1 : busy.used);
    used.set(busy.link, most);
  }
  return [...used].flatMap(([link, part]) => {
    const wire = rows.get(`link/${link}`) as Wire | undefined;
    const [from, to] = [wire && places.get(wire.from), wire && places.get(wire.to)];
    return from && to ? [line([from, to], { used: part })] : [];
  });
}

/** Hosts without a node, and LANs. */
export function stopsOf(hosts: Place[], lans: Place[], nodes: RunNode[], places: Map<string, Point>): Feature[] {
  const names = new Set(nodes.map((node) => node.node));
  const stop = (kind: string) => (place: Place) => {
    const point = places.get(`${kind}/${place.name}`);
    return point ? [dot(point, { name: place.name, kind })] : [];
  };
  return [...hosts.filter((host) => !names.has(host.name)).flatMap(stop("host")), ...lans.flatMap(stop("lan"))];
}

export function hubsOf(hubs: RunHub[], places: Map<string, Point>): Feature[] {
  return hubs.flatMap((hub) => {
    const point = places.get(`host/${hub.host}`);
    return point ? [dot(point, { name: hub.up ? hub.name : `${hub.name} ✕` })] : [];
  });
}

/** The ways of these requests, each link once in a color; the chosen request is above the others. */
export function waysOf(rows: Rows, requests: Request[], places: Map<string, Point>, chosen?: Request): Feature[] {
  const drawn = new Map<string, Feature>();
  const draw = (request: Request, isChosen: boolean) => {
    const color = colorOf([request.service]);
    const ends = [request.provider ?? request.target, request.node].map((name) => places.get(`host/${name}`));
    const [from, to] = ends;
    if (!request.whole && from && to) {
      drawn.set(`request/${request.request}`, line([from, to], { color, chosen: isChosen, broken: true }));
    }
    for (const link of request.way) {
      const wire = rows.get(`link/${link}`) as Wire | undefined;
      const points = wire && [places.get(wire.from), places.get(wire.to)];
      if (!points?.[0] || !points[1]) continue;
      const properties = { color, chosen: isChosen, broken: false };
      drawn.set(`${link} ${color} ${isChosen}`, line(points as Point[], properties));
    }
  };
  requests.forEach((request) => request !== chosen && draw(request, false));
  if (chosen) draw(chosen, true);
  return [...drawn.values()];
}

/** Streams of rooms, from end to end: the records do not tell their ways. */
export function streamsOf(streams: RoomStream[], places: Map<string, Point>): Feature[] {
  return streams.flatMap(({ service, provider, downstreams }) => {
    const [from, to] = [places.get(provider), places.get(downstreams[0]?.node ?? "")];
    return from && to ? [line([from, to], { color: colorOf([service]), chosen: false, broken: true })] : [];
  });
}

/** The map's layers of a run, under those of nodes. */
export function runLayers(color: (name: string) => string): LayerSpecification[] {
  const state = (down: unknown, lossy: unknown, up: unknown) =>
    ["match", ["get", "state"], "down", down, "lossy", lossy, up] as never;
  const wire = { type: "line" as const, source: "wires" };
  return [
    {
      id: "loads",
      type: "line",
      source: "loads",
      layout: { "line-cap": "round" },
      paint: {
        "line-color": color("accent"),
        "line-opacity": 0.35,
        "line-width": ["interpolate", ["linear"], ["get", "used"], 0, 3, 1, 16],
      },
    },
    {
      ...wire,
      id: "wires",
      filter: ["!=", ["get", "state"], "down"],
      paint: { "line-color": state(color("warn"), color("text"), color("quiet")), "line-opacity": 0.5, "line-width": state(1, 2, 1) },
    },
    {
      id: "way-edges",
      type: "line",
      source: "ways",
      filter: ["get", "chosen"],
      layout: { "line-cap": "round" },
      paint: { "line-color": color("text"), "line-width": 9 },
    },
    {
      id: "ways",
      type: "line",
      source: "ways",
      filter: ["!", ["get", "broken"]],
      layout: { "line-cap": "round" },
      paint: { "line-color": ["get", "color"], "line-width": ["case", ["get", "chosen"], 6, 3] },
    },
    {
      id: "ways-broken",
      type: "line",
      source: "ways",
      filter: ["get", "broken"],
      paint: { "line-color": ["get", "color"], "line-width": 2, "line-dasharray": [1, 2] },
    },
    // Above the ways, which end at it.
    {
      ...wire,
      id: "wires-down",
      filter: ["==", ["get", "state"], "down"],
      paint: { "line-color": color("warn"), "line-width": 3, "line-dasharray": [1.5, 1.5] },
    },
    {
      id: "stops",
      type: "circle",
      source: "stops",
      paint: {
        "circle-radius": ["match", ["get", "kind"], "lan", 3, 4],
        "circle-color": ["match", ["get", "kind"], "lan", color("quiet"), color("surface")],
        "circle-stroke-color": color("quiet"),
        "circle-stroke-width": 1.5,
      },
    },
    {
      id: "stop-names",
      type: "symbol",
      source: "stops",
      layout: {
        "text-field": ["get", "name"],
        "text-size": 11,
        "text-offset": [0, 0.9],
        "text-anchor": "top",
        "text-optional": true,
      },
      paint: { "text-color": color("quiet"), "text-halo-color": color("map"), "text-halo-width": 1.5 },
    },
  ];
}
