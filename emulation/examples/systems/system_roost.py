"""The task over Roost: a super node on the hub's host, a daemon on each other one."""

import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from common import ANSWER, END, HOST, MESSAGES, OBJECT, OWN, PROVIDERS, REQUESTERS, SHARED, TIMEOUT, Messages
from common import Node as BaseNode
from common import now, wait_for

ADDRESS = os.environ["EMULATE_ADDRESS"]
HOSTS = dict(pair.split("=") for pair in os.environ["EMULATE_HOSTS"].split())
HUB = "udp://{0}:7700,tcp://{0}:7700,quic://{0}:7701".format(HOSTS["hub"])


def _daemon(program: str, port: int, quic: int, *more: str) -> "subprocess.Popen[bytes]":
    empty = OWN / "empty.toml"
    empty.write_text("")
    listen = [f"{scheme}://{ADDRESS}:{port}" for scheme in ("udp", "tcp")] + [f"quic://{ADDRESS}:{quic}"]
    args = [program, "--config", empty, "--identity", SHARED / f"{HOST}.id", "--drain", "1s", *more]
    for endpoint in listen:
        args += ["--listen", endpoint]
    return subprocess.Popen(list(map(str, args)), stderr=(OWN / "daemon.log").open("wb"))


def run_hub() -> "subprocess.Popen[bytes]":
    group = SHARED / "group"
    run = lambda *args: subprocess.run(["roost", "group", *map(str, args)], check=True, capture_output=True)
    run("init", "--name", "comparison", group)
    for host in (*PROVIDERS, *REQUESTERS, "hub"):
        role = "supernode" if host == "hub" else "node"
        run("issue", "--role", role, "--valid", "30d", "-o", SHARED / f"{host}.part", group, host)
        (SHARED / f"{host}.part").rename(SHARED / f"{host}.id")
    return _daemon("supernode", 7700, 7701, "--socket", str(Path(tempfile.mkdtemp()) / "s"))


class Node(BaseNode):
    def __init__(self) -> None:
        import roost

        self.roost = roost
        # Paths of sockets are short.
        self.folder = Path(tempfile.mkdtemp(prefix="roost-"))
        socket = self.folder / "s"
        wait_for(SHARED / "hub.id")
        x, y = PROVIDERS.get(HOST, (0, len(HOST) + int(HOST[1:])))
        hub = HUB
        self.daemon = _daemon("overlay-node", 0, 0, "--socket", str(socket), "--super", hub, "--at", f"{x},{y}")
        while not self._is_attached(socket):
            time.sleep(0.1)
        self.node = roost.Roost(socket)
        print(f"{now():.3f} attached", flush=True)
        self.answers: list = []

    def _is_attached(self, socket: Path) -> bool:
        try:
            return bool(self.roost.Roost(socket).status()["state"] == "attached")
        except Exception:  # the daemon is starting
            return False

    def provide(self) -> None:
        def serve(service: str, answer) -> None:
            with self.node.offer(service) as offering:
                offering.serve(answer)

        def stream(incoming) -> None:
            print(f"{now():.3f} stream for {incoming.request.requester_name}", flush=True)
            with incoming.give() as answer:
                self.answers.append(answer)
                incoming.wait_until_gone()
                self.answers.remove(answer)

        offers = [
            ("test/answer:object", lambda incoming: incoming.answer(ANSWER)),
            ("test/object:object", lambda incoming: incoming.answer(OBJECT)),
            ("test/messages:stream", stream),
        ]
        for service, answer in offers:
            threading.Thread(target=serve, args=(service, answer), daemon=True).start()

    def publish(self, data: bytes) -> None:
        for answer in list(self.answers):
            try:
                answer.send(data)
            except Exception as error:  # the requester has gone
                print(f"{now():.3f} message: {error}", flush=True)

    def request(self, provider: str, kind: str) -> bytes:
        area = self.roost.Area.at(*PROVIDERS[provider])
        with self.node.request(f"test/{kind}", area, timeout=TIMEOUT) as transfer:
            return transfer.read()

    def subscribe(self, provider: str, messages: Messages) -> None:
        area = self.roost.Area.at(*PROVIDERS[provider])
        while len(messages.delays) < MESSAGES and now() < END - 1:
            try:
                # With this profile all messages come, in order, also after a break.
                options = {"duration": END - now(), "profile": "surveillance"}
                with self.node.request("test/messages", area, **options) as stream:
                    for datagram in stream:
                        messages.add(datagram)
            except Exception as error:
                print(f"{now():.3f} messages: {type(error).__name__}: {error}", flush=True)
                time.sleep(0.2)

    def close(self) -> None:
        self.daemon.terminate()
        self.daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
