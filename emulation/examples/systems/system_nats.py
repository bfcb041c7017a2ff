"""The task over NATS: a server on the hub's host, a client on each other one."""

import asyncio
import os
import ssl
import subprocess
import threading

import nats
from common import ANSWER, HOST, IS_SECURE, OBJECT, OWN, PROVIDERS, SHARED, TIMEOUT, Messages
from common import Node as BaseNode
from common import now, wait_for

CONFIG = """\
listen: "0.0.0.0:4222"
# A client that is gone is given up after 45 s, not after 4 minutes. The documentation recommends a longer interval than
# the clients have.
ping_interval: "15s"
ping_max: 3
write_deadline: "10s"
"""
TLS = """\
tls {{
  cert_file: "{0}/hub.pem"
  key_file: "{0}/hub.key"
  ca_file: "{0}/ca.pem"
  verify: true
  timeout: 10
}}
"""


def run_hub() -> "subprocess.Popen[bytes]":
    config = OWN / "nats.conf"
    config.write_text(CONFIG + (TLS.format(SHARED) if IS_SECURE else ""))
    program = os.environ.get("NATS_SERVER", "nats-server")
    return subprocess.Popen([program, "-c", str(config)], stderr=(OWN / "daemon.log").open("wb"))


class Node(BaseNode):
    """The client is asynchronous: it runs on a thread of its own."""

    def __init__(self) -> None:
        wait_for(SHARED / "ready")
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.client = self._run(self._connect())
        print(f"{now():.3f} connected", flush=True)

    def _run(self, call):
        return asyncio.run_coroutine_threadsafe(call, self.loop).result()

    async def _connect(self) -> nats.NATS:
        tls = None
        if IS_SECURE:
            tls = ssl.create_default_context(cafile=str(SHARED / "ca.pem"))
            tls.load_cert_chain(SHARED / f"{HOST}.pem", SHARED / f"{HOST}.key")

        async def tell(error: Exception) -> None:
            print(f"{now():.3f} client: {type(error).__name__}: {error}", flush=True)

        return await nats.connect(
            f"{'tls' if IS_SECURE else 'nats'}://hub:4222",
            tls=tls,
            connect_timeout=10,
            ping_interval=5,
            max_outstanding_pings=3,
            reconnect_time_wait=0.5,
            max_reconnect_attempts=-1,
            error_cb=tell,
        )

    def provide(self) -> None:
        for kind, data in (("answer", ANSWER), ("object", OBJECT)):

            async def answer(message, data=data) -> None:
                await message.respond(data)

            self._run(self.client.subscribe(f"{_place(HOST)}.{kind}", cb=answer))

    def publish(self, data: bytes) -> None:
        self._run(self.client.publish(f"{_place(HOST)}.messages", data))

    def request(self, provider: str, kind: str) -> bytes:
        return self._run(self.client.request(f"{_place(provider)}.{kind}", b"", timeout=TIMEOUT)).data

    def subscribe(self, provider: str, messages: Messages) -> None:
        async def take(message) -> None:
            messages.add(message.data)

        self._run(self.client.subscribe(f"{_place(provider)}.messages", cb=take))

    def close(self) -> None:
        self._run(self.client.close())


def _place(provider: str) -> str:
    x, y = PROVIDERS[provider]
    return f"place.{x}.{y}"
