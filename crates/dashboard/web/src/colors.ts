// Colors of services, which people with each kind of color blindness tell apart (Okabe and Ito 2008). The words beside
// them say the same.

export const SERVICES: [service: string, color: string][] = [
  ["video", "#0072b2"],
  ["track", "#e69f00"],
  ["image", "#009e73"],
  ["sensor", "#cc79a7"],
  ["own", "#d55e00"],
];

const NOTHING = "#8a8f98";

/** The color of a node: that of the first kind that it offers. */
export function colorOf(services: string[]): string {
  const kinds = services.map((service) => (service.includes("/") ? "own" : service.split("#")[0]));
  return SERVICES.find(([kind]) => kinds.includes(kind))?.[1] ?? NOTHING;
}
