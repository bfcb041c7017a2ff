// The map under the network: the tiles of a PMTiles file, if the dashboard was given one.

import { addProtocol, type LayerSpecification, type SourceSpecification } from "maplibre-gl";
import { PMTiles, Protocol, TileType } from "pmtiles";

export interface Ground {
  source: SourceSpecification;
  layers: LayerSpecification[];
}

/** The colors of a map that keeps quiet under the network. */
export interface Palette {
  water: string;
  land: string;
  road: string;
  border: string;
  text: string;
  halo: string;
}

export interface Tiles {
  /** The source with its layers in these colors. */
  ground: (palette: Palette) => Ground;
}

/** The names that Protomaps, OpenMapTiles and Shortbread give to layers of a kind. */
const KINDS: [kind: "water" | "land" | "road" | "border" | "place", names: string[]][] = [
  ["land", ["earth", "land", "landcover", "landuse", "park", "sites"]],
  ["water", ["water", "ocean", "water_polygons", "waterway", "water_lines"]],
  ["road", ["roads", "streets", "transportation", "transit"]],
  ["border", ["boundaries", "boundary"]],
  ["place", ["places", "place", "place_labels", "boundary_labels"]],
];

interface Metadata {
  attribution?: string;
  vector_layers?: { id: string }[];
}

/** Reads what tiles there are; none if the dashboard has none, or they cannot be read. */
export async function openTiles(): Promise<Tiles | undefined> {
  const page = await fetch("/api/page");
  if (!page.ok || !((await page.json()) as { tiles: boolean }).tiles) return undefined;
  const file = new PMTiles(`${location.origin}/api/tiles`);
  const protocol = new Protocol();
  protocol.add(file);
  addProtocol("pmtiles", protocol.tile);
  const [header, metadata] = await Promise.all([file.getHeader(), file.getMetadata() as Promise<Metadata>]);
  const at = {
    tiles: [`pmtiles://${location.origin}/api/tiles/{z}/{x}/{y}`],
    minzoom: header.minZoom,
    maxzoom: header.maxZoom,
    // Words alone: the file may come from a stranger.
    attribution: (metadata.attribution ?? "").replace(/<[^>]*>/g, "").replace(/[<>&]/g, ""),
  };
  if (header.tileType !== TileType.Mvt) {
    const layer: LayerSpecification = { id: "tiles", type: "raster", source: "tiles", paint: { "raster-saturation": -0.4 } };
    return { ground: () => ({ source: { type: "raster", tileSize: 256, ...at }, layers: [layer] }) };
  }
  const names = (metadata.vector_layers ?? []).map(({ id }) => id);
  return { ground: (palette) => ({ source: { type: "vector", ...at }, layers: layersOf(names, palette) }) };
}

function layersOf(names: string[], palette: Palette): LayerSpecification[] {
  return KINDS.flatMap(([kind, known]) =>
    names.filter((name) => known.includes(name)).flatMap((name) => layers(kind, name, palette)),
  );
}

function layers(kind: (typeof KINDS)[number][0], name: string, palette: Palette): LayerSpecification[] {
  const of = { source: "tiles", "source-layer": name };
  const fill = (color: string): LayerSpecification => ({
    id: `fill-${name}`,
    type: "fill",
    ...of,
    filter: ["==", ["geometry-type"], "Polygon"],
    paint: { "fill-color": color },
  });
  const line = (color: string, width: number): LayerSpecification => ({
    id: `line-${name}`,
    type: "line",
    ...of,
    filter: ["==", ["geometry-type"], "LineString"],
    paint: { "line-color": color, "line-width": width },
  });
  switch (kind) {
    case "land":
      return [fill(palette.land)];
    case "water":
      return [fill(palette.water), line(palette.water, 1)];
    case "road":
      return [line(palette.road, 1)];
    case "border":
      return [line(palette.border, 1.5)];
    case "place":
      return [
        {
          id: `names-${name}`,
          type: "symbol",
          ...of,
          layout: { "text-field": ["coalesce", ["get", "name:en"], ["get", "name"], ""], "text-size": 11 },
          paint: { "text-color": palette.text, "text-halo-color": palette.halo, "text-halo-width": 1 },
        },
      ];
  }
}
