"""The protocol without daemons: answers cut anywhere, and bytes that are none."""

from __future__ import annotations

import doctest
import json
import random
import unittest
from typing import Any
from unittest import mock

import roost
from roost import calls, errors, protocol
from roost.protocol import MORE, Call, Exchange, Frame, Frames, Json, Lines
from roost.transfer import TransferState

CALL = Call("GET", "/v1/status")


def frame(kind: int, payload: bytes) -> bytes:
    return bytes([kind]) + len(payload).to_bytes(4, "big") + payload


def event(name: str, **fields: Any) -> bytes:
    return frame(0, json.dumps({"event": name, **fields}).encode())


def answer(body: bytes, status: int = 200) -> bytes:
    return f"HTTP/1.1 {status} OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def chunked(pieces: list[bytes]) -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def cut(data: bytes, chance: random.Random) -> list[bytes]:
    """Cuts at random into pieces, some of a single byte."""
    pieces, start = [], 0
    while start < len(data):
        length = chance.choice([1, 1, 2, 3, 7, 64, 1000, 70_000])
        pieces.append(data[start : start + length])
        start += length
    return pieces


def run(exchange: protocol.Exchanging[Any], pieces: list[bytes]) -> list[Any]:
    """Takes all items, with the end of the connection after the pieces."""
    items, rest = [], [*pieces, b""]
    while (item := exchange.next()) is not None:
        if item is MORE:
            exchange.feed(rest.pop(0))
        else:
            items.append(item)
    return items


class Cuts(unittest.TestCase):
    def test_frames_survive_any_cut(self) -> None:
        payloads = [b"a", b"x" * 1200, bytes(range(256)) * 300, b"\r\n0\r\n\r\n"]
        sent: list[Frame] = [{"event": "accepted", "request": 1}, *payloads, {"event": "finished"}]
        body = event("accepted", request=1) + b"".join(frame(1, payload) for payload in payloads)
        body += frame(9, b"of a later version") + event("finished")
        for seed in range(200):
            chance = random.Random(seed)
            exchange: Exchange[Frame] = Exchange(CALL, Frames())
            whole = chunked(cut(body, chance)) if seed % 2 else answer(body)
            self.assertEqual(run(exchange, cut(whole, chance)), sent, f"seed {seed}")

    def test_lines_survive_any_cut(self) -> None:
        sent = [{"schema": 2, "number": number, "text": "é\n"} for number in range(20)]
        body = b"".join(json.dumps(line).encode() + b"\n" for line in sent)
        for seed in range(100):
            chance = random.Random(seed)
            exchange: Exchange[Json] = Exchange(CALL, Lines())
            self.assertEqual(run(exchange, cut(chunked(cut(body, chance)), chance)), sent, f"seed {seed}")

    def test_noise_ends_in_an_error(self) -> None:
        good = chunked([event("accepted"), frame(1, b"data" * 100), event("finished")])
        for seed in range(500):
            chance = random.Random(seed)
            noisy = bytearray(good)
            for _ in range(chance.randrange(1, 5)):
                noisy[chance.randrange(len(noisy))] = chance.randrange(256)
            try:
                run(TransferState(CALL), cut(bytes(noisy), chance))
            except errors.RoostError:
                pass

    def test_answer_that_breaks_off_never_passes(self) -> None:
        good = chunked([event("accepted"), frame(1, b"data"), event("finished", bytes=4)])
        for length in range(len(good) - len(b"0\r\n\r\n")):
            with self.assertRaises(errors.RoostError) as caught:
                run(TransferState(CALL), [good[:length]])
            self.assertIn(caught.exception.exit_code, (1, 3, 7))


class WrongAnswers(unittest.TestCase):
    def fails(self, pieces: bytes, decoder: Any = None) -> errors.RoostError:
        with self.assertRaises(errors.RoostError) as caught:
            run(Exchange[Any](CALL, decoder or Frames()), [pieces])
        return caught.exception

    def test_long_frame_is_refused(self) -> None:
        self.assertIn("longer than it may be", str(self.fails(answer(b"\x01\xff\xff\xff\xff"))))

    def test_long_line_is_refused(self) -> None:
        self.assertIn("longer", str(self.fails(answer(b"x" * (protocol.MAX_LINE_BYTES + 1)), Lines())))

    def test_half_frame_is_refused(self) -> None:
        self.assertIn("within a frame", str(self.fails(answer(frame(1, b"data")[:-1]))))

    def test_other_schema_is_refused(self) -> None:
        error = self.fails(answer(b'{"schema":3}'), protocol.Document())
        self.assertIn("of schema 3, not 2", str(error))

    def test_other_protocol_is_refused(self) -> None:
        self.assertEqual(self.fails(b"SSH-2.0-OpenSSH\r\n\r\n").exit_code, 1)

    def test_endless_head_is_refused(self) -> None:
        self.assertIn("head is too long", str(self.fails(b"x" * (protocol.MAX_HEAD_BYTES + 1))))


class Errors(unittest.TestCase):
    def test_codes_have_classes(self) -> None:
        table = {
            "usage": (errors.UsageError, 2), "leaving": (errors.Leaving, 3), "not-found": (errors.NotFound, 4),
            "not-yet-known": (errors.NotYetKnown, 4), "busy": (errors.Busy, 5), "refused": (errors.Refused, 5),
            "timed-out": (errors.TimedOut, 6), "unreachable-above": (errors.UnreachableAbove, 6),
            "incomplete": (errors.Incomplete, 7), "internal": (errors.RoostError, 1), "later": (errors.RoostError, 1),
        }  # fmt: skip
        for code, (kind, exit_code) in table.items():
            body = json.dumps({"schema": 2, "error": {"code": code, "message": "m", "retry_after_ms": 250}}).encode()
            with self.assertRaises(errors.RoostError) as caught:
                run(Exchange[Frame](CALL, Frames()), [answer(body, 503)])
            error = caught.exception
            self.assertIs(type(error), kind)
            self.assertEqual((error.exit_code, error.code, str(error), error.retry_after), (exit_code, code, "m", 0.25))

    def test_words_of_a_provider_are_told(self) -> None:
        error = errors.error_from({"code": "refused", "message": "m", "provider_reason": "no map of there"})
        self.assertEqual(error.provider_reason, "no map of there")
        self.assertIsNone(errors.error_from({"code": "refused", "message": "m"}).provider_reason)

    def test_error_without_json_names_the_status(self) -> None:
        for body in (b"", b"no json", b"[]", b'{"error":1}'):
            with self.assertRaisesRegex(errors.RoostError, "answered 500"):
                run(Exchange[Frame](CALL, Frames()), [answer(body, 500)])


class Requests(unittest.TestCase):
    def test_names_are_escaped(self) -> None:
        self.assertEqual(calls.room("ops & air", names=True).target, "/v1/room?name=ops%20%26%20air&names=true")

    def test_wrong_options_are_refused(self) -> None:
        options: Any = {"durration": 1}
        with self.assertRaisesRegex(TypeError, "durration"):
            calls.request("video", roost.ANYWHERE, options)
        for seconds in (0, -1, float("inf"), float("nan"), "10s", True):
            options = {"duration": seconds}
            with self.assertRaisesRegex(ValueError, "expected seconds"):
                calls.request("video", roost.ANYWHERE, options)

    def test_socket_is_found(self) -> None:
        for environment, path in [
            ({"ROOST_SOCKET": "/a/b.sock", "XDG_RUNTIME_DIR": "/c"}, "/a/b.sock"),
            ({"XDG_RUNTIME_DIR": "/nowhere"}, "/nowhere/roost/overlay-node.sock"),
            ({}, "/run/roost/overlay-node.sock"),
        ]:
            with mock.patch.dict("os.environ", environment, clear=True), mock.patch("pathlib.Path.exists") as exists:
                exists.return_value = False
                self.assertEqual(calls.find_socket(), path)
        self.assertEqual(calls.find_socket("/named"), "/named")


def load_tests(_: unittest.TestLoader, tests: unittest.TestSuite, __: str | None) -> unittest.TestSuite:
    for module in (errors, protocol, calls):
        tests.addTests(doctest.DocTestSuite(module))
    return tests
