"""A client of TAK made with pytak: prints the events that it receives, and tells its own position every second.

usage: client.py URL UID [CA CERT KEY]
"""

import asyncio
import os
import sys
from configparser import ConfigParser

import pytak


class Position(pytak.QueueWorker):
    """Tells where the client is."""

    def __init__(self, queue, config, uid):
        super().__init__(queue, config)
        self.uid = uid

    async def run(self, _=-1):
        while True:
            event = pytak.cot_event(
                uid=self.uid, cot_type="a-f-G-U-C", lat=47.25, lon=8.25, hae=410, stale=60, callsign=self.uid.upper()
            )
            await self.put_queue(pytak.serialize_cot(event))
            await asyncio.sleep(1)


class Printer(pytak.QueueWorker):
    """Prints what comes, an event a line."""

    async def run(self, _=-1):
        while True:
            event = await self.queue.get()
            text = event.decode() if isinstance(event, bytes) else str(event)
            print(text.replace("\n", " "), flush=True)


async def main(url, uid, ca=None, cert=None, key=None):
    config = ConfigParser()
    # TAK_PROTO=1 in the environment makes it speak protobuf.
    form = os.environ.get("TAK_PROTO", "0")
    config["tak"] = {
        "COT_URL": url, "PYTAK_MULTICAST_LOCAL_ADDR": "127.0.0.1", "PYTAK_NO_HELLO": "1", "TAK_PROTO": form
    }
    if ca:
        files = {"CAFILE": ca, "CERT": cert, "KEY": key}
        config["tak"].update({f"PYTAK_TLS_CLIENT_{name}": path for name, path in files.items()})
    tool = pytak.CLITool(config["tak"])
    await tool.setup()
    tool.add_tasks({Position(tool.tx_queue, tool.config, uid), Printer(tool.rx_queue, tool.config)})
    await tool.run()


asyncio.run(main(*sys.argv[1:]))
