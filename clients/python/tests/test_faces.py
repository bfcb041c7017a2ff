"""Both faces against a daemon that does what real ones seldom do."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import roost

from .test_protocol import chunked, event, frame

MOST_UNREAD_BYTES = 1 << 20


class Daemon:
    """A socket whose callers get what a function sends to them."""

    def __init__(self, test: unittest.TestCase, serve: Callable[[socket.socket], None]) -> None:
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "daemon.sock")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self._listener.listen()
        test.addCleanup(self._listener.close)
        self._serve = serve
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        test.addCleanup(self._thread.join)

    def _run(self) -> None:
        caller, _ = self._listener.accept()
        with caller:
            caller.recv(1 << 16)
            self._serve(caller)


class Faces(unittest.TestCase):
    def endless(self, caller: socket.socket) -> None:
        """Sends as much as the caller takes, and counts it."""
        caller.settimeout(0.5)
        caller.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        pieces = [event("accepted", request=1), *[frame(1, b"x" * 1000)] * 10_000]
        try:
            for piece in pieces:
                caller.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.taken += len(piece)
        except OSError:
            self.is_stalled.set()

    def setUp(self) -> None:
        self.taken = 0
        self.is_stalled = threading.Event()

    def test_unread_data_stays_with_the_daemon(self) -> None:
        daemon = Daemon(self, self.endless)
        with roost.Roost(daemon.path).request("video") as stream:
            self.assertEqual(len(next(stream)), 1000)
            self.assertTrue(self.is_stalled.wait(10))
        self.assertLess(self.taken, MOST_UNREAD_BYTES)

    def test_unread_data_stays_with_the_daemon_in_asyncio(self) -> None:
        daemon = Daemon(self, self.endless)

        async def run() -> None:
            async with roost.AsyncRoost(daemon.path).request("video") as stream:
                self.assertEqual(len(await stream.__anext__()), 1000)
                self.assertTrue(await asyncio.to_thread(self.is_stalled.wait, 10))

        asyncio.run(run())
        self.assertLess(self.taken, MOST_UNREAD_BYTES)

    def test_wrong_digest_gets_no_name(self) -> None:
        body = [event("accepted", sha256="00" * 32), frame(1, b"data"), event("finished")]
        daemon = Daemon(self, lambda caller: caller.sendall(chunked(body)))
        path = daemon.path.with_name("picture.jpg")
        with self.assertRaisesRegex(roost.Incomplete, "digest"):
            roost.Roost(daemon.path).request("image").save(path)
        self.assertEqual([entry.name for entry in daemon.path.parent.iterdir()], ["daemon.sock"])

    def test_failure_tells_what_came(self) -> None:
        error = {"code": "incomplete", "message": "the provider fell silent"}
        body = [event("accepted"), frame(1, b"data"), event("failed", error=error, summary={"bytes": 4})]
        daemon = Daemon(self, lambda caller: caller.sendall(chunked(body)))
        with self.assertRaisesRegex(roost.Incomplete, "fell silent") as caught:
            list(roost.Roost(daemon.path).request("image"))
        self.assertEqual(caught.exception.summary, {"bytes": 4})

    def test_last_line_of_a_watch_is_its_error(self) -> None:
        body = [b'{"schema":2,"number":1}\n', b'{"schema":2,"error":{"code":"leaving","message":"it leaves"}}\n']
        daemon = Daemon(self, lambda caller: caller.sendall(chunked(body)))
        with roost.Roost(daemon.path).watch() as changes:
            next(changes)
            with self.assertRaisesRegex(roost.Leaving, "it leaves"):
                next(changes)

    def test_silent_end_is_unreachable(self) -> None:
        daemon = Daemon(self, lambda caller: time.sleep(0))
        with self.assertRaisesRegex(roost.Unreachable, "broke off"):
            roost.Roost(daemon.path).status()
