"""Offers the reading of a thermometer, as the node's service ``demo/thermometer``.

    python3 thermometer.py /sys/class/thermal/thermal_zone0/temp
    roost request demo/thermometer --any -o -
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import roost


def reading(path: Path) -> bytes:
    """Reads thousandths of a degree, as Linux tells them, into a SenML pack (RFC 8428)."""
    celsius = int(path.read_text()) / 1000
    pack = [{"n": path.parent.name, "u": "Cel", "v": celsius, "t": round(time.time(), 3)}]
    return json.dumps(pack).encode()


def main(path: Path) -> None:
    node = roost.Roost()
    with node.offer("demo/thermometer:object", max_bytes=1000, metadata={"unit": "Cel"}) as offering:
        print("Offering demo/thermometer; Ctrl-C ends it.", flush=True)
        for incoming in offering:
            try:
                incoming.answer(reading(path), "application/senml+json")
            except OSError as error:
                incoming.decline(f"the thermometer cannot be read: {error.strerror}")
            except roost.RoostError as error:
                print(f"{incoming.request.requester_name}: {error}", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        main(Path(sys.argv[1]))
    except KeyboardInterrupt:
        pass
