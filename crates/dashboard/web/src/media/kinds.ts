// The kinds of services whose data this page shows.

const VERBS = { video: "Play", image: "Show", sensor: "Read", track: "Follow" };

export type Kind = keyof typeof VERBS;

/** The kind of a service such as `video` or `video#bow`; none for those of one's own. */
export function kindOf(service: string): Kind | undefined {
  const kind = service.split("#")[0] ?? "";
  return kind in VERBS ? (kind as Kind) : undefined;
}

/** The word on the button that shows the data of a service. */
export function verbOf(service: string): string | undefined {
  const kind = kindOf(service);
  return kind && VERBS[kind];
}
