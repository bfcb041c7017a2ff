// The moment of a run that the page shows, made of its rows.

import type { Point } from "../geography";
import type { Network } from "../network.svelte";
import { hubsOf, loadsOf, placesOf, stopsOf, streamsOf, waysOf, wiresOf, type Drawing, type View } from "./drawing";
import type { Load, Place, Request, RoomStream, Run, RunHub, RunNode, Sample, Total, Wire } from "./rows";

/** The rows by section, in one pass. */
function sections(rows: Map<string, unknown>): Map<string, unknown[]> {
  const all = new Map<string, unknown[]>();
  for (const [key, row] of rows) {
    const name = key.slice(0, key.indexOf("/"));
    const section = all.get(name);
    if (section) section.push(row);
    else all.set(name, [row]);
  }
  return all;
}

/** Gives the list of before while each of its elements stays the same. */
function stable<T>(): (list: unknown[] | undefined) => T[] {
  let before: T[] = [];
  return (list = []) => {
    const isSame = list.length === before.length && list.every((row, place) => row === before[place]);
    if (!isSame) before = list as T[];
    return before;
  };
}

export class Moment {
  view: View = $state("topology");
  #network: Network;
  #chosen: () => string | undefined;
  #same = {
    hosts: stable<Place>(),
    lans: stable<Place>(),
    nodes: stable<RunNode>(),
    hubs: stable<RunHub>(),
    wires: stable<Wire>(),
    totals: stable<Total>(),
  };

  constructor(network: Network, chosen: () => string | undefined) {
    this.#network = network;
    this.#chosen = chosen;
  }

  readonly run = $derived.by(() => this.#network.rows.get("run/self") as Run | undefined);
  readonly at = $derived.by(() => this.#network.shown ?? this.#network.at);
  readonly sample = $derived.by(() => this.#network.rows.get("sample/self") as Sample | undefined);
  /** The load of the second that has just ended; none if no link was busy in it. */
  readonly load = $derived.by(() => {
    const load = this.#network.rows.get("load/self") as Load | undefined;
    return load && this.at - load.at_ms < 1_000 ? load : undefined;
  });
  readonly #sections = $derived.by(() => sections(this.run ? this.#network.rows : new Map()));
  readonly #hosts = $derived.by(() => this.#same.hosts(this.#sections.get("host")));
  readonly #lans = $derived.by(() => this.#same.lans(this.#sections.get("lan")));
  readonly nodes = $derived.by(() => this.#same.nodes(this.#sections.get("node")));
  readonly hubs = $derived.by(() => this.#same.hubs(this.#sections.get("hub")));
  readonly wires = $derived.by(() => this.#same.wires(this.#sections.get("link")));
  readonly totals = $derived.by(() => this.#same.totals(this.#sections.get("total")));
  /** Requests that go on, or have just ended. */
  readonly requests = $derived.by(() => (this.#sections.get("request") ?? []) as Request[]);

  readonly streams = $derived.by(() => (this.#sections.get("stream") ?? []) as RoomStream[]);

  /** The chosen request, also when it is over or has not begun. */
  readonly request = $derived.by(() => {
    const chosen = this.#chosen();
    return this.#network.past.requests.find((request) => `request/${request.request}` === chosen);
  });
  readonly wire = $derived.by(() => this.wires.find((wire) => `link/${wire.link}` === this.#chosen()));
  readonly node = $derived.by(() => this.nodes.find((node) => node.node === this.#chosen()));

  /** Nodes for the map: in the colors of what they request, and with a mark if they are down. */
  readonly dots: RunNode[] = $derived.by(() => {
    const asked = new Map(this.requests.filter(this.#goesOn).map((request) => [request.node, request.service]));
    return this.nodes.map((node) => {
      const service = asked.get(node.node);
      return { ...node, name: node.up ? node.name : `${node.name} ✕`, services: service ? [service] : [] };
    });
  });
  #goesOn = (request: Request): boolean => request.at_ms <= this.at && this.at < request.end_ms;

  readonly #places: Map<string, Point> = $derived.by(() =>
    placesOf(this.#hosts, this.#lans, this.view === "grid" ? this.nodes : this.#named, this.view),
  );
  #names = "";
  #kept: RunNode[] = [];
  /** The nodes, the same while none comes or goes: in the topology none moves. */
  readonly #named = $derived.by(() => {
    const names = this.nodes.map((node) => node.node).join(" ");
    if (names !== this.#names) [this.#names, this.#kept] = [names, this.nodes];
    return this.#kept;
  });
  readonly #wireLines = $derived.by(() => wiresOf(this.wires, this.#places));
  readonly #stops = $derived.by(() => stopsOf(this.#hosts, this.#lans, this.#named, this.#places));
  readonly #rings = $derived.by(() => hubsOf(this.hubs, this.#places));
  readonly #loads = $derived.by(() => loadsOf(this.#network.rows, this.load, this.#places));
  readonly #ways = $derived.by(() => {
    const going = this.requests.filter(this.#goesOn);
    const ways = waysOf(this.#network.rows, going, this.#places, this.request);
    return [...streamsOf(this.streams, this.#places), ...ways];
  });

  readonly drawing: Drawing | undefined = $derived.by(() => {
    if (!this.run) return undefined;
    const [places, wires, stops] = [this.#places, this.#wireLines, this.#stops];
    return { view: this.view, places, wires, stops, hubs: this.#rings, loads: this.#loads, ways: this.#ways };
  });
}
