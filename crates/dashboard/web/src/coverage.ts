// The hubs with the nodes that are at home there, and the areas of these nodes on the map.

import type { Point } from "./geography";
import type { Daemon, Hub, Node } from "./rows";

/** A hub as the daemon sees it. */
export interface HubNodes {
  id: string;
  name: string;
  relation: string;
  tier: number | undefined;
  /** Nodes whose home it is, as far as they are known here. */
  home: Node[];
  /** Nodes for which it stands by. */
  standby: Node[];
}

/** This hub first, then the others by their names. None at a node, which knows only its own home. */
export function hubsOf(nodes: Node[], hubs: Hub[], daemon: Daemon | undefined): HubNodes[] {
  if (!daemon?.index) return [];
  const all = new Map<string, HubNodes>();
  const hub = (id: string, name?: string) => {
    const known = all.get(id) ?? { id, name: name ?? id.slice(0, 8), relation: "", tier: undefined, home: [], standby: [] };
    if (name) known.name = name;
    all.set(id, known);
    return known;
  };
  const own = hub(daemon.node, daemon.name);
  [own.relation, own.tier] = ["this hub", daemon.index.tier];
  for (const other of hubs) {
    if (!other.node) continue;
    const row = hub(other.node, other.name);
    row.relation = other.up ? other.relation : `${other.relation}, down`;
    // A sibling is of the same tier, and a parent of a higher one that it does not tell.
    row.tier = other.tier ?? (other.relation === "sibling" ? daemon.index.tier : undefined);
  }
  for (const node of nodes) {
    if (node.home) {
      hub(node.home, node.home_name).home.push(node);
      own.standby.push(node);
    } else {
      own.home.push(node);
      if (node.standby) hub(node.standby, node.standby_name).standby.push(node);
    }
  }
  const [first, ...others] = all.values();
  return [first!, ...others.sort((a, b) => a.name.localeCompare(b.name))];
}

/** The corners of the smallest convex polygon around all points, against the clock. */
export function hull(points: Point[]): Point[] {
  const sorted = [...points].sort(([ax, ay], [bx, by]) => ax - bx || ay - by);
  const turns = ([ax, ay]: Point, [bx, by]: Point, [cx, cy]: Point) => (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
  const half = (points: Point[]) => {
    const chain: Point[] = [];
    for (const point of points) {
      while (chain.length > 1 && turns(chain.at(-2)!, chain.at(-1)!, point) <= 0) chain.pop();
      chain.push(point);
    }
    return chain.slice(0, -1);
  };
  const corners = [...half(sorted), ...half(sorted.reverse())];
  return corners.length > 0 ? corners : points.slice(0, 1);
}

/** The polygon around points with a margin in degrees of latitude, closed; one point gives a circle. */
export function area(points: Point[], margin: number): Point[] {
  const around = ([x, y]: Point): Point[] => {
    const wide = margin / Math.max(0.1, Math.cos((y * Math.PI) / 180));
    const steps = Array.from({ length: 16 }, (_, step) => (step * Math.PI) / 8);
    return steps.map((angle) => [x + wide * Math.cos(angle), y + margin * Math.sin(angle)]);
  };
  const corners = hull(hull(points).flatMap(around));
  return corners.length > 0 ? [...corners, corners[0]!] : [];
}

/** A margin that is seen at the size of the whole network. */
export function marginOf(points: Point[]): number {
  const heights = points.map(([, y]) => y);
  const widths = points.map(([x]) => x);
  const span = (values: number[]) => values.reduce((most, value) => Math.max(most, value), -Infinity) - values.reduce((least, value) => Math.min(least, value), Infinity);
  return points.length > 0 ? Math.max(0.003, 0.05 * Math.max(span(heights), span(widths))) : 0;
}
