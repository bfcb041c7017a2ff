"""The examples as their users run them, each as a process of its own."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import struct
import subprocess
import sys
import unittest
from pathlib import Path
from xml.etree import ElementTree

import roost
from roost import Area, Roost

from .network import Network, folder_of_programs, wait_until

EXAMPLES = Path(__file__).parent.parent / "examples"
THERE = Area.at(5, 5)


def pcap(payloads: list[bytes]) -> bytes:
    """A capture of raw IPv4 with a UDP packet each 10 ms."""
    capture = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    for number, payload in enumerate(payloads):
        header = bytes([0x45, 0]) + struct.pack(">HHHBBHII", 28 + len(payload), 0, 0, 64, 17, 0, 1, 2)
        packet = header + struct.pack(">HHHH", 2368, 2368, 8 + len(payload), 0) + payload
        capture += struct.pack("<4I", 100, number * 10_000, len(packet), len(packet)) + packet
    return capture


@unittest.skipUnless(folder_of_programs(), "ROOST_PROGRAMS names no folder with the daemons")
class Examples(unittest.TestCase):
    network: Network
    provider: Roost
    requester: Roost

    @classmethod
    def setUpClass(cls) -> None:
        cls.network = Network()
        cls.addClassCleanup(cls.network.stop)
        hub = cls.network.hub("sn1")
        track = cls.network.path / "uav.jsonl"
        record = {"t": "2026-05-01T12:00:00Z", "id": "uav-7", "lat": 47.3, "lon": 8.5, "alt_m": 900.0, "course_deg": 90.0}
        track.write_text(json.dumps(record) + "\n")
        cls.provider = cls.network.node("camera", "5,5", hub, "--services", "track", "--sources-track", f"file:{track}")
        cls.requester = cls.network.node("ground", "1,1", hub)

    def run_at(self, node: Roost, example: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(EXAMPLES / example), *arguments]
        paths = os.pathsep.join([str(EXAMPLES.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "ROOST_SOCKET": node.socket, "PYTHONPATH": paths}
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def end() -> None:
            process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def wait_until_found(self, service: str) -> None:
        wait_until(lambda: self.requester.lookup(service)["candidates"] or None, f"{service} is not found")

    def test_thermometer_tells_its_reading(self) -> None:
        zone = self.network.path / "zone0"
        zone.mkdir()
        (zone / "temp").write_text("21500\n")
        self.run_at(self.provider, "thermometer.py", str(zone / "temp"))
        self.wait_until_found("demo/thermometer")
        with self.requester.request("demo/thermometer", THERE) as transfer:
            [reading] = json.loads(transfer.read())
        self.assertEqual((reading["n"], reading["u"], reading["v"]), ("zone0", "Cel", 21.5))
        (zone / "temp").unlink()
        with self.assertRaisesRegex(roost.Refused, "the thermometer cannot be read: No such file"):
            self.requester.request("demo/thermometer", THERE)

    def test_lidar_replays_in_time(self) -> None:
        payloads = [bytes([number]) * 1206 for number in range(40)]
        (self.network.path / "lidar.pcap").write_bytes(pcap(payloads))
        self.run_at(self.provider, "lidar_replay.py", str(self.network.path / "lidar.pcap"))
        self.wait_until_found("demo/lidar")
        with self.requester.request("demo/lidar", THERE, duration=30) as stream:
            self.assertEqual(list(stream), payloads)
        assert stream.summary
        self.assertGreater(stream.summary["elapsed_ms"], 390)

    def test_tiles_are_called(self) -> None:
        path = self.network.path / "map.mbtiles"
        with sqlite3.connect(path) as tiles:
            tiles.execute("CREATE TABLE metadata (name TEXT, value TEXT)")
            tiles.execute("INSERT INTO metadata VALUES ('format', 'png'), ('name', 'Grove')")
            tiles.execute("CREATE TABLE tiles (zoom_level INT, tile_column INT, tile_row INT, tile_data BLOB)")
            tiles.execute("INSERT INTO tiles VALUES (8, 133, ?, ?)", ((1 << 8) - 1 - 90, b"tile"))
        tiles.close()
        self.run_at(self.provider, "tile_server.py", str(path))
        self.wait_until_found("demo/tiles")
        with self.requester.call("demo/tiles", b'{"z": 8, "x": 133, "y": 90}', THERE) as answer:
            self.assertEqual(answer.read(), b"tile")
        self.assertEqual(answer.accepted["format"], "image/png")
        refusals = {b'{"z": 8, "x": 1, "y": 1}': "this map has no such tile", b"rubbish": "the body is no tile"}
        for body, words in refusals.items():
            with self.assertRaisesRegex(roost.Refused, words):
                self.requester.call("demo/tiles", body, THERE)

    def test_topic_crosses_at_the_rate_asked_for(self) -> None:
        topic = self.run_at(self.provider, "topic_bridge.py", "offer", "demo/scan")
        self.wait_until_found("demo/scan")
        taker = self.run_at(self.requester, "topic_bridge.py", "take", "demo/scan", "--hz", "1000")
        assert topic.stdin and taker.stdout
        # The request is there once a message has crossed.
        os.set_blocking(taker.stdout.fileno(), False)
        numbers = iter(range(100_000))

        def first() -> bytes | None:
            assert topic.stdin and taker.stdout
            topic.stdin.write(b"scan %d\n" % next(numbers))
            topic.stdin.flush()
            return taker.stdout.readline() or None

        self.assertRegex(wait_until(first, "no message crosses"), rb"scan \d+\n")

    def test_tracks_reach_a_tak_server(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            server.settimeout(20)
            self.run_at(self.requester, "tak_feed.py", f"udp://127.0.0.1:{server.getsockname()[1]}", "--near", "5,5")
            event = ElementTree.fromstring(server.recv(1 << 16))
        point, track = event.find("point"), event.find("detail/track")
        assert point is not None and track is not None
        self.assertEqual((event.get("uid"), event.get("type")), ("uav-7", "a-f-G"))
        self.assertEqual((point.get("lat"), point.get("hae"), track.get("course")), ("47.3", "900.0", "90.0"))
