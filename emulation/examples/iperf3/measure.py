"""Turns the JSON of `iperf3 -J` into measurements: `iperf3 -J -c HOST | python3 measure.py`."""

import json
import sys


def measure(name, **what):
    print(json.dumps({"measure": name, **what}), flush=True)


result = json.load(sys.stdin)
if "error" in result:
    sys.exit(result["error"])
for interval in result["intervals"]:
    rate = interval["sum"]["bits_per_second"] / 1e6
    measure("throughput", value=round(rate, 3), unit="Mbit/s", better="higher", t=round(interval["sum"]["end"], 3))
    for stream in interval["streams"]:
        if "rtt" in stream:
            measure("round trip", value=stream["rtt"] / 1e3, unit="ms", better="lower")
measure("retransmits", count=result["end"]["sum_sent"].get("retransmits", 0), better="lower")
