// Figures in words.

const UNITS = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"];

export function rate(bitsPerSecond: number): string {
  let [value, unit] = [bitsPerSecond, 0];
  while (value >= 1000 && unit < UNITS.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${Number(value.toPrecision(2))} ${UNITS[unit]}`;
}

export function milliseconds(value: number | undefined): string {
  if (value === undefined) return "–";
  const micros = value > 0 && value < 0.1;
  return micros ? `${Number((value * 1000).toPrecision(2))} µs` : `${Number(value.toPrecision(2))} ms`;
}

/** Lost packets of hundred; a dash if they are not known. */
export function loss(percent: number | undefined): string {
  return percent === undefined ? "–" : `${Number(percent.toPrecision(2))} %`;
}

/** The place with its kind: `lat 47.37690, lon 8.54170`, or `cell 27,92`. */
export function place(cell: string, at?: { lat: number; lon: number }): string {
  return at ? `lat ${at.lat.toFixed(5)}, lon ${at.lon.toFixed(5)} (cell ${cell})` : `cell ${cell}`;
}

export function time(unixMs: number): string {
  return new Date(unixMs).toLocaleTimeString(undefined, { hour12: false });
}

/** The time from one moment to the next, such as `3 min 20 s`. */
export function span(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
