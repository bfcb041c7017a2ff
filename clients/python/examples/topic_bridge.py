"""Bridges a topic of a robot to a service and back. The topic comes and goes by lines, as ``ros2 topic`` has it.

    ros2 topic echo --csv /scan | python3 topic_bridge.py offer demo/scan
    python3 topic_bridge.py take demo/scan --hz 5 | your-publisher
Each requester may ask for its own rate.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time

import roost


class Topic:
    """The last message of standard input. A requester that is behind misses some, as a topic's subscriber may."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number, self._last, self._is_over = 0, b"", False

    def read(self) -> None:
        while not self._is_over:
            line = sys.stdin.buffer.readline()
            with self._changed:
                self._number, self._last, self._is_over = self._number + 1, line.rstrip(b"\n"), not line
                self._changed.notify_all()

    def send_to(self, incoming: roost.IncomingRequest) -> None:
        pause = 1 / float(json.loads(incoming.request.params or "{}").get("hz", 1e6))
        with incoming.give("text/plain") as answer:
            sent, due = 0, time.monotonic()
            while not incoming.wait_until_gone(max(0.0, due - time.monotonic())):
                with self._changed:
                    is_new = self._changed.wait_for(lambda: self._number > sent, timeout=1)
                    message, sent = self._last, self._number
                if self._is_over or (is_new and not answer.send(message[:8192])):
                    return
                due = time.monotonic() + pause


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("way", choices=["offer", "take"])
    parser.add_argument("service")
    parser.add_argument("--hz", type=float, help="the most messages a second")
    chosen = parser.parse_args()
    node, topic = roost.Roost(), Topic()
    if chosen.way == "offer":
        with node.offer(f"{chosen.service}:stream") as offering:
            threading.Thread(target=offering.serve, args=(topic.send_to,), daemon=True).start()
            topic.read()
    else:
        for message in node.request(chosen.service, params=json.dumps({"hz": chosen.hz or 1e6}), duration=3600):
            print(message.decode(errors="replace"), flush=True)
