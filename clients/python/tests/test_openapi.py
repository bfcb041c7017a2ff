"""The API's own description against the daemons that serve it, by Schemathesis where that is installed."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import unittest
from importlib.util import find_spec
from typing import Any

import roost

from .network import Network, folder_of_programs

ENDLESS = ("/v1/watch", "/v1/requests", "/v1/room", "/v1/offer", "/v1/request", "/v1/send")
"""The endpoints whose answers last: Schemathesis reads answers to their end."""

EXAMPLES = 60
SEED = 20070401


def ask(path: str, method: str, target: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
    """Returns the status, the headers and the beginning of the body of an answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(20)
        caller.connect(path)
        head = f"{method.upper()} {target} HTTP/1.1\r\nHost: roost\r\nContent-Length: {len(body)}\r\n"
        caller.sendall(f"{head}Connection: close\r\n\r\n".encode() + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = caller.recv(1 << 16)
            if not piece:
                break
            answer += piece
        first, _, rest = answer.partition(b"\r\n\r\n")
        lines = first.decode().split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        while len(rest) < length:
            piece = caller.recv(1 << 16)
            if not piece:
                break
            rest += piece
        return status, headers, rest


class Forwarder:
    """A port on loopback in front of a Unix socket, for a program that knows ports only."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with caller, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as daemon:
            daemon.connect(self._path)
            back = threading.Thread(target=self._copy, args=(daemon, caller), daemon=True)
            back.start()
            self._copy(caller, daemon)
            back.join()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        self._listener.close()


@unittest.skipUnless(folder_of_programs(), "ROOST_PROGRAMS names no folder with the daemons")
class Description(unittest.TestCase):
    network: Network
    daemons: dict[str, roost.Roost]

    @classmethod
    def setUpClass(cls) -> None:
        cls.network = Network()
        cls.addClassCleanup(cls.network.stop)
        hub = cls.network.hub("sn1")
        outbox = cls.network.path / "outbox"
        outbox.mkdir()
        settings = ("--services", "video,image", "--outbox", str(outbox))
        cls.daemons = {"hub": hub, "node": cls.network.node("camera", "5,5", hub, *settings)}

    def description(self, daemon: str) -> tuple[str, dict[str, Any]]:
        path = self.daemons[daemon].socket
        status, headers, body = ask(path, "get", "/v1/openapi.json")
        self.assertEqual((status, headers["content-type"]), (200, "application/json"))
        return path, json.loads(body)

    def test_endpoints_are_there_with_these_methods(self) -> None:
        for daemon in self.daemons:
            path, description = self.description(daemon)
            for target, methods in description["paths"].items():
                status, headers, _ = ask(path, "delete", target)
                self.assertEqual(status, 405, target)
                allowed = {method.strip().lower() for method in headers["allow"].split(",")} - {"head"}
                self.assertEqual(allowed, set(methods), target)

    def test_endpoints_take_these_parameters(self) -> None:
        for daemon in self.daemons:
            path, description = self.description(daemon)
            for target, methods in description["paths"].items():
                for method, operation in methods.items():
                    parameters = operation.get("parameters", [])
                    if not parameters:
                        continue
                    status, _, body = ask(path, method, f"{target}?no-such-parameter=1")
                    self.assertEqual(status, 400, target)
                    listed = re.search("expected one of ([a-z0-9, ]+)", json.loads(body)["error"]["message"])
                    assert listed is not None, body
                    named = {parameter["name"] for parameter in parameters}
                    self.assertEqual(set(listed[1].split(", ")), named, f"{method} {target}")
                    required = {parameter["name"] for parameter in parameters if parameter["required"]}
                    if required:
                        self.assertEqual(ask(path, method, target)[0], 400, f"{method} {target}")

    def test_patterns_take_documented_texts(self) -> None:
        _, description = self.description("node")
        schemas = description["components"]["schemas"]
        cell: re.Pattern[str] = re.compile(schemas["Cell"]["pattern"])
        for text in ("27,92", "-1000000,1000000", "0,-999999"):
            self.assertRegex(text, cell)
        for text in ("01,5", "1000001,0", "5"):
            self.assertNotRegex(text, cell)
        seen = set()
        for methods in description["paths"].values():
            for operation in methods.values():
                for parameter in operation.get("parameters", []):
                    schema = parameter["schema"]
                    for example in schema.get("examples", []) if "pattern" in schema else []:
                        self.assertRegex(example, schema["pattern"])
                        seen.add(parameter["name"])
        self.assertEqual(seen, {"timeout", "where", "rect"})

    @unittest.skipUnless(find_spec("schemathesis"), "Schemathesis is not installed")
    def test_answers_are_as_described(self) -> None:
        for daemon in self.daemons:
            path, _ = self.description(daemon)
            forwarder = Forwarder(path)
            self.addCleanup(forwarder.close)
            excluded = [part for target in ENDLESS for part in ("--exclude-path", target)]
            command = [
                *(sys.executable, "-m", "schemathesis.cli", "run"),
                f"http://127.0.0.1:{forwarder.port}/v1/openapi.json",
                *("--url", f"http://127.0.0.1:{forwarder.port}"),
                *("--checks", "status_code_conformance,content_type_conformance,response_schema_conformance"),
                *("--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", str(SEED)),
                *("--request-timeout", "30", "--no-color", *excluded),
            ]
            ended = subprocess.run(command, cwd=self.network.path, capture_output=True, text=True, timeout=600)
            self.assertEqual(ended.returncode, 0, ended.stdout[-6000:] + ended.stderr[-2000:])
            # Nothing that a caller sends is a fault of the daemon.
            self.assertNotEqual(self.daemons[daemon].status().get("state"), "draining")
