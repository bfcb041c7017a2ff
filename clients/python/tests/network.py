"""A small network of real daemons on loopback with a throw-away group, set up as an operator would."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from roost import Roost, RoostError

T = TypeVar("T")

PATIENCE = 30.0
"""The longest time for a daemon to come up or to notice something, on a busy machine, seconds."""


def folder_of_programs() -> Path | None:
    """The folder of ``ROOST_PROGRAMS``, else that of ``roost`` in the search path."""
    named = os.environ.get("ROOST_PROGRAMS") or os.path.dirname(shutil.which("roost") or "")
    return Path(named).resolve() if named and Path(named, "overlay-node").exists() else None


def wait_until(told: Callable[[], T | None], problem: str) -> T:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        value = told()
        if value is not None:
            return value
        time.sleep(0.02)
    raise AssertionError(problem)


class Network:
    def __init__(self) -> None:
        programs = folder_of_programs()
        assert programs is not None
        self._programs = programs
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []
        self._config = self.path / "empty.toml"
        # An empty file keeps out the settings of this machine's daemons.
        self._config.touch()
        self._roost("group", "init", str(self.path / "grove"), "--name", "grove")

    def _roost(self, *arguments: str) -> None:
        subprocess.run([self._programs / "roost", *arguments], check=True, capture_output=True)

    def start(self, program: str, role: str, name: str, *arguments: str) -> Roost:
        """Starts a daemon and waits until it listens or is attached."""
        identity = str(self.path / f"{name}.id")
        self._roost("group", "issue", str(self.path / "grove"), name, "--role", role, "-o", identity)
        socket, log = self.path / f"{name}.sock", self.path / f"{name}.log"
        listen = [part for scheme in ("udp", "tcp", "quic") for part in ("--listen", f"{scheme}://127.0.0.1:0")]
        fixed = ["--config", str(self._config), "--identity", identity, "--socket", str(socket), *listen]
        self._logs.append(log.open("wb"))
        self._processes[name] = subprocess.Popen(
            [self._programs / program, *fixed, *arguments],
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._logs[-1],
        )
        daemon = Roost(socket)
        wait_until(lambda: self._is_ready(daemon), f"{name} is not ready: {log.read_text()[-2000:]}")
        return daemon

    @staticmethod
    def _is_ready(daemon: Roost) -> bool | None:
        try:
            return daemon.status()["state"] in ("listening", "attached") or None
        except RoostError:
            return None

    def hub(self, name: str) -> Roost:
        return self.start("supernode", "supernode", name)

    def node(self, name: str, at: str, hub: Roost, *arguments: str) -> Roost:
        endpoints = ",".join(hub.status()["listen"])
        return self.start("overlay-node", "node", name, "--at", at, "--super", endpoints, *arguments)

    def kill(self, name: str) -> None:
        """Ends a daemon without a warning, as when its host loses power."""
        self._processes[name].kill()
        self._processes[name].wait()

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        for log in self._logs:
            log.close()
        self._folder.cleanup()
