"""Serves map tiles out of an MBTiles file by calls: the body says which tile, the answer is the tile.

    python3 tile_server.py switzerland.mbtiles
    roost call demo/tiles --any --data '{"z": 8, "x": 133, "y": 90}' -o tile.png
"""

from __future__ import annotations

import json
import sqlite3
import sys

import roost

TYPES = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp", "pbf": "application/vnd.mapbox-vector-tile"}


class Tiles:
    def __init__(self, path: str) -> None:
        # Each thread opens the file itself, which is only read.
        self._uri = f"file:{path}?mode=ro"
        with self._open() as tiles:
            self.about: dict[str, str] = dict(tiles.execute("SELECT name, value FROM metadata").fetchall())

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._uri, uri=True)

    def find(self, zoom: int, x: int, y: int) -> bytes | None:
        """Finds a tile by the numbers of the web, whose rows count from the north; those of MBTiles do not."""
        if not 0 <= zoom <= 30:
            return None
        where = (zoom, x, (1 << zoom) - 1 - y)
        query = "SELECT tile_data FROM tiles WHERE zoom_level = ? AND tile_column = ? AND tile_row = ?"
        with self._open() as tiles:
            row = tiles.execute(query, where).fetchone()
        return None if row is None else bytes(row[0])

    def answer(self, incoming: roost.IncomingRequest) -> None:
        try:
            wanted = json.loads(incoming.body())
            tile = self.find(int(wanted["z"]), int(wanted["x"]), int(wanted["y"]))
        except (ValueError, KeyError, TypeError):
            incoming.decline('the body is no tile: send {"z": 8, "x": 133, "y": 90}')
            return
        if tile is None:
            incoming.decline("this map has no such tile")
        else:
            incoming.answer(tile, TYPES.get(self.about.get("format", ""), "application/octet-stream"))


if __name__ == "__main__":
    served = Tiles(sys.argv[1])
    name = {"map": served.about.get("name", "map")[:60]}
    with roost.Roost().offer("demo/tiles:call", max_bytes=1_000_000, metadata=name) as offering:
        print("Offering demo/tiles; Ctrl-C ends it.", flush=True)
        try:
            offering.serve(served.answer)
        except KeyboardInterrupt:
            pass
