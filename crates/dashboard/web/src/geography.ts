// The points of nodes on the map.

import type { Node } from "./rows";

export type Point = [number, number];

/** Degrees of the map that a cell takes where the group has no datum: the grid then is the map. */
const CELL_DEG = 0.01;

/** The farthest cell that the map can show, near the edge of the projection. */
const FARTHEST = 8_000;

/** Longitude and latitude of a cell of a plain grid. */
export function ofCell(cell: string): Point | undefined {
  const [x, y] = cell.split(",").map(Number);
  if (x === undefined || y === undefined || !Number.isFinite(x) || !Number.isFinite(y)) return undefined;
  if (Math.abs(x) > FARTHEST || Math.abs(y) > FARTHEST) return undefined;
  return [x * CELL_DEG, y * CELL_DEG];
}

/** Longitude and latitude of a node, if the map can show it. */
export function ofNode(node: { cell?: string; place?: { lat: number; lon: number } }): Point | undefined {
  if (node.place) return [node.place.lon, node.place.lat];
  return node.cell ? ofCell(node.cell) : undefined;
}

/** The longitude within half a turn of another one, so that nodes on both sides of 180° stay together. */
export function near(longitude: number, other: number): number {
  return longitude - 360 * Math.round((longitude - other) / 360);
}

/** The middle of all nodes. */
export function middle(nodes: Node[]): Point | undefined {
  const points = nodes.map(ofNode).filter((point) => point !== undefined);
  const [first] = points;
  if (!first) return undefined;
  const sum = points.reduce(([x, y], point) => [x + near(point[0], first[0]), y + point[1]], [0, 0]);
  return [sum[0] / points.length, sum[1] / points.length];
}

/** The corners, south-west and north-east, around all points. */
export function bounds(points: Point[]): [Point, Point] | undefined {
  const first = points[0];
  if (!first) return undefined;
  const corners: [Point, Point] = [[...first], [...first]];
  for (const [x, y] of points) {
    corners[0] = [Math.min(corners[0][0], x), Math.min(corners[0][1], y)];
    corners[1] = [Math.max(corners[1][0], x), Math.max(corners[1][1], y)];
  }
  return corners;
}

/** The lines of a grid over an area, with a handy step. */
export function gridLines([west, south]: Point, [east, north]: Point): Point[][] {
  const wanted = Math.max(east - west, north - south, 0.001) / 12;
  const unit = 10 ** Math.floor(Math.log10(wanted));
  const step = unit * ([1, 2, 5].find((times) => times * unit >= wanted) ?? 10);
  const lines: Point[][] = [];
  const [left, right] = [Math.floor(west / step) * step, Math.ceil(east / step) * step];
  const [low, high] = [Math.max(-85, Math.floor(south / step) * step), Math.min(85, Math.ceil(north / step) * step)];
  for (let x = left; x <= right; x += step) lines.push([[x, low], [x, high]]);
  for (let y = low; y <= high; y += step) lines.push([[left, y], [right, y]]);
  return lines;
}
