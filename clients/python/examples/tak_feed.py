"""Feeds a TAK server or a team's multicast group with tracks of the overlay, as Cursor on Target.

    python3 tak_feed.py udp://239.2.3.1:6969
    python3 tak_feed.py tcp://tak.example:8087 --near 27,92
"""

from __future__ import annotations

import argparse
import json
import socket
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

import roost

UNKNOWN = "9999999.0"
STALE = timedelta(seconds=30)


def event(line: bytes, provider: str) -> bytes:
    """Makes an event of a line of a track: a friendly unit on the ground."""
    record = json.loads(line)
    now = datetime.now(timezone.utc)
    name = quoteattr(str(record.get("id") or provider))
    begins, stale = (at.strftime('"%Y-%m-%dT%H:%M:%S.%fZ"') for at in (now, now + STALE))
    point = f'lat="{record["lat"]}" lon="{record["lon"]}" hae="{record.get("alt_m", UNKNOWN)}"'
    way = f'course="{record.get("course_deg", 0)}" speed="{record.get("speed_mps", 0)}"'
    return (
        f'<event version="2.0" uid={name} type="a-f-G" how="m-g" time={begins} start={begins} stale={stale}>'
        f'<point {point} ce="{UNKNOWN}" le="{UNKNOWN}"/>'
        f"<detail><contact callsign={name}/><track {way}/></detail></event>\n"
    ).encode()


def connect(where: str) -> socket.socket:
    address = urlsplit(where)
    kind = socket.SOCK_STREAM if address.scheme == "tcp" else socket.SOCK_DGRAM
    found = socket.getaddrinfo(address.hostname, address.port, type=kind)[0]
    server = socket.socket(found[0], kind)
    server.connect(found[4])
    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("server", help="tcp://HOST:PORT or udp://HOST:PORT")
    parser.add_argument("--near", metavar="PLACE", help="the place whose nearest track is taken")
    chosen = parser.parse_args()
    area = roost.Area.near(chosen.near) if chosen.near else roost.ANYWHERE
    server = connect(chosen.server)
    with roost.Roost().subscribe("track", area) as track:
        for line in track:
            if b'"lat"' in line:
                server.sendall(event(line, track.accepted.get("provider_name", "track")))
