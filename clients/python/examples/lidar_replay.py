"""Replays a recording of a lidar to everybody who asks, with the recording's own timing.

The recording is a pcap file of the sensor's UDP packets, as ``tcpdump -w`` writes it.

    python3 lidar_replay.py recording.pcap
    roost request demo/lidar --any --for 10s -o scan.bin
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Iterator

import roost

LINK_HEADER_BYTES = {1: 14, 101: 0, 113: 16, 276: 20}
"""By link type: Ethernet, raw IP, and Linux's cooked captures."""


def packets(path: str) -> Iterator[tuple[float, bytes]]:
    """Yields time and payload of the UDP packets over IPv4."""
    with open(path, "rb") as file:
        head = file.read(24)
        order = "<" if head[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
        per_second = 1e9 if head[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1e6
        skip = LINK_HEADER_BYTES[struct.unpack(order + "I", head[20:24])[0] & 0xFFFF]
        while len(record := file.read(16)) == 16:
            seconds, fraction, length, _ = struct.unpack(order + "4I", record)
            packet = file.read(length)[skip:]
            if len(packet) > 28 and packet[0] >> 4 == 4 and packet[9] == 17:
                yield seconds + fraction / per_second, packet[(packet[0] & 15) * 4 + 8 :]


def replay(incoming: roost.IncomingRequest, path: str) -> None:
    with incoming.give("application/octet-stream") as answer:
        first, began = None, time.monotonic()
        for at, payload in packets(path):
            first = at if first is None else first
            # Leaves at once if the requester goes.
            if incoming.wait_until_gone(max(0.0, began + at - first - time.monotonic())):
                return
            if not answer.send(payload):
                return


if __name__ == "__main__":
    if len(sys.argv) != 2 or next(packets(sys.argv[1]), None) is None:
        sys.exit(f"Name a recording with UDP packets.\n{__doc__}")
    with roost.Roost().offer("demo/lidar:stream", kbps=10_000, metadata={"source": "recording"}) as offering:
        print("Offering demo/lidar; Ctrl-C ends it.", flush=True)
        try:
            offering.serve(lambda incoming: replay(incoming, sys.argv[1]))
        except KeyboardInterrupt:
            pass
