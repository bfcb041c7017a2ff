// Makes a PMTiles file of one tile: the whole Earth in one color.
// The format is https://github.com/protomaps/PMTiles/blob/main/spec/v3/spec.md.

import { crc32, deflateSync } from "node:zlib";

function chunk(kind, data) {
  const body = Buffer.concat([Buffer.from(kind), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}

/** A picture of 256 × 256 points in one color. */
function picture([red, green, blue]) {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(256, 0);
  head.writeUInt32BE(256, 4);
  head.set([8, 2, 0, 0, 0], 8);
  const line = Buffer.concat([Buffer.from([0]), Buffer.alloc(256 * 3, Buffer.from([red, green, blue]))]);
  const lines = Buffer.concat(Array(256).fill(line));
  const magic = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([magic, chunk("IHDR", head), chunk("IDAT", deflateSync(lines)), chunk("IEND", Buffer.alloc(0))]);
}

function varint(number) {
  const bytes = [];
  for (; number > 127; number >>>= 7) bytes.push((number & 127) | 128);
  return [...bytes, number];
}

export function tilesOf(color) {
  const tile = picture(color);
  // One entry: tile 0, once, its length, and its offset plus one.
  const directory = Buffer.from([1, 0, 1, ...varint(tile.length), 1]);
  const metadata = Buffer.from(JSON.stringify({ name: "one color", attribution: "<b>A map</b> of nothing" }));
  const head = Buffer.alloc(127);
  head.write("PMTiles");
  head[7] = 3;
  const parts = [directory, metadata, Buffer.alloc(0), tile];
  let offset = head.length;
  parts.forEach((part, number) => {
    head.writeBigUInt64LE(BigInt(offset), 8 + 16 * number);
    head.writeBigUInt64LE(BigInt(part.length), 16 + 16 * number);
    offset += part.length;
  });
  // Tiles, entries and contents; clustered; no compression; pictures as PNG; zoom 0 alone.
  [72, 80, 88].forEach((at) => head.writeBigUInt64LE(1n, at));
  head.set([1, 1, 1, 2, 0, 0], 96);
  [-1_800_000_000, -850_000_000, 1_800_000_000, 850_000_000].forEach((at, number) => head.writeInt32LE(at, 102 + 4 * number));
  return Buffer.concat([head, ...parts]);
}
