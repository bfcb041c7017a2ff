// Sources and layers of the map beside the network itself: the areas of hubs, and the way of a request.

import type * as GeoJSON from "geojson";
import type { LayerSpecification, GeoJSONSourceSpecification } from "maplibre-gl";
import { area, hubsOf, marginOf } from "./coverage";
import type { Point } from "./geography";
import type { Daemon, Hub, Node } from "./rows";
import type { Route } from "./trace";

type Feature = GeoJSON.Feature;

const empty: GeoJSONSourceSpecification = { type: "geojson", data: { type: "FeatureCollection", features: [] } };

export const overlaySources = { areas: empty, route: empty };

/** Under the nodes and their connections. */
export function areaLayers(color: (name: string) => string): LayerSpecification[] {
  const paint = ["case", ["get", "own"], color("accent"), color("quiet")] as unknown as string;
  return [
    { id: "areas", type: "fill", source: "areas", paint: { "fill-color": paint, "fill-opacity": 0.08 } },
    {
      id: "area-edges",
      type: "line",
      source: "areas",
      paint: { "line-color": paint, "line-opacity": 0.5, "line-width": 1, "line-dasharray": [4, 3] },
    },
    {
      id: "area-names",
      type: "symbol",
      source: "areas",
      layout: { "text-field": ["get", "name"], "text-size": 11, "text-optional": true },
      paint: { "text-color": color("quiet"), "text-halo-color": color("map"), "text-halo-width": 1.5 },
    },
  ];
}

/** Above everything else. */
export function routeLayers(color: (name: string) => string): LayerSpecification[] {
  const of = (kind: string) => ["==", ["get", "kind"], kind] as unknown as boolean;
  const line = (kind: string, paint: object): LayerSpecification => ({
    id: `route-${kind}`,
    type: "line",
    source: "route",
    filter: of(kind),
    paint: { "line-color": color("accent"), "line-width": 3, ...paint },
  });
  return [
    line("asks", {}),
    line("answers", { "line-dasharray": [2, 1.5] }),
    line("dead-end", { "line-color": color("warn"), "line-dasharray": [1, 1.5] }),
    {
      id: "route-stations",
      type: "circle",
      source: "route",
      filter: of("station"),
      paint: { "circle-radius": 5, "circle-color": color("surface"), "circle-stroke-color": color("accent"), "circle-stroke-width": 2.5 },
    },
    {
      id: "route-names",
      type: "symbol",
      source: "route",
      filter: of("station"),
      layout: { "text-field": ["get", "label"], "text-size": 12, "text-offset": [0, -0.9], "text-anchor": "bottom", "text-allow-overlap": true },
      paint: { "text-color": color("accent"), "text-halo-color": color("map"), "text-halo-width": 2 },
    },
  ];
}

/** The areas of the nodes of each hub. */
export function areaFeatures(nodes: Node[], hubs: Hub[], daemon: Daemon | undefined, places: Map<string, Point>): Feature[] {
  const margin = marginOf([...places.values()]);
  return hubsOf(nodes, hubs, daemon).flatMap((hub): Feature[] => {
    const points = hub.home.map((node) => places.get(node.node)).filter((point) => point !== undefined);
    if (points.length === 0) return [];
    const properties = { name: hub.name, own: hub.id === daemon?.node };
    return [{ type: "Feature", properties, geometry: { type: "Polygon", coordinates: [area(points, margin)] } }];
  });
}

export function routeFeatures(route: Route | undefined): Feature[] {
  if (!route) return [];
  const lines = route.lines.map(
    ({ points, kind }): Feature => ({ type: "Feature", properties: { kind }, geometry: { type: "LineString", coordinates: points } }),
  );
  const stations = route.stations.map(
    ({ label, point }): Feature => ({ type: "Feature", properties: { kind: "station", label }, geometry: { type: "Point", coordinates: point } }),
  );
  return [...lines, ...stations];
}
