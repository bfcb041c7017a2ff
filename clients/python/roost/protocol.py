"""The local API's HTTP, without I/O: bytes of a request, and the answer from pieces of any size.

An ``Exchange`` is one request with its answer. The caller sends ``request`` and then takes items. ``MORE`` instead of
an item means that the exchange needs bytes: ``feed`` brings them, empty ones at the end of the connection.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

from .errors import RoostError, Unreachable, error_of_answer

SCHEMA = 2
JSON = "application/json"
LINES = "application/jsonl"
FRAMES = "application/vnd.roost.frames"

READ_BYTES = 1 << 16
"""The most bytes to take from a socket at once."""

MAX_HEAD_BYTES = 1 << 16
MAX_JSON_BYTES = 64 << 20
MAX_LINE_BYTES = 1 << 20
MAX_FRAME_BYTES = 1 << 20

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Json = dict[str, Any]


class Wait(Enum):
    MORE = "more"


MORE: Final = Wait.MORE


@dataclass(frozen=True)
class Call:
    """One request of the local API."""

    method: str
    target: str
    accept: str = JSON
    body: bytes = b""
    is_chunked: bool = False
    """True if the body follows in chunks, see ``encode_chunk``."""

    def encode(self) -> bytes:
        length = "Transfer-Encoding: chunked" if self.is_chunked else f"Content-Length: {len(self.body)}"
        head = (
            f"{self.method} {self.target} HTTP/1.1\r\nHost: roost\r\nAccept: {self.accept}\r\n"
            f"{length}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + self.body


LAST_CHUNK = b"0\r\n\r\n"


def encode_chunk(data: bytes) -> bytes:
    """
    >>> encode_chunk(b"hello")
    b'5\\r\\nhello\\r\\n'
    """
    return b"%x\r\n%b\r\n" % (len(data), data)


def malformed(problem: str) -> RoostError:
    return RoostError(f"the daemon's answer is not understood: {problem}")


def broken_off() -> Unreachable:
    return Unreachable("the daemon broke off its answer", code="broken")


class Answer:
    """The head and body of an HTTP answer (RFC 9112), with a length or in chunks."""

    def __init__(self) -> None:
        self.status: int | None = None
        self._buffer = bytearray()
        self._is_closed = False
        self._is_chunked = False
        self._has_chunk = False
        self._is_over = False
        # Bytes that are left of the body, or of the present chunk.
        self._left = 0

    def feed(self, data: bytes) -> None:
        self._buffer += data
        self._is_closed = self._is_closed or not data

    def take(self) -> bytes | Wait | None:
        """Returns the next bytes of the body; ``None`` after the last ones."""
        if self.status is None and not self._read_head():
            return self._wait()
        while not self._left and not self._is_over:
            if not self._next_chunk():
                return self._wait()
        if self._is_over:
            return None
        if not self._buffer:
            return self._wait()
        piece = bytes(self._buffer[: self._left])
        del self._buffer[: self._left]
        self._left -= len(piece)
        self._is_over = not self._left and not self._is_chunked
        return piece

    def _wait(self) -> Wait:
        if self._is_closed:
            raise broken_off()
        if self.status is None and len(self._buffer) > MAX_HEAD_BYTES:
            raise malformed("its head is too long")
        return MORE

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *rest = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        try:
            self.status = int(first.split(" ")[1])
            self._is_chunked = fields.get("transfer-encoding", "").lower() == "chunked"
            self._left = 0 if self._is_chunked else int(fields["content-length"])
        except (ValueError, IndexError, KeyError):
            raise malformed(f"it begins with {first[:80]!r}") from None
        self._is_over = not self._is_chunked and self._left == 0
        return True

    def _next_chunk(self) -> bool:
        # A line's end closes each chunk but has no place before the first.
        start = 2 if self._has_chunk else 0
        end = self._buffer.find(b"\r\n", start)
        if end < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise malformed("a chunk has no length")
            return False
        try:
            length = int(self._buffer[start:end].split(b";")[0], 16)
        except ValueError:
            raise malformed("a chunk has no length") from None
        del self._buffer[: end + 2]
        self._left, self._is_over, self._has_chunk = length, length == 0, True
        return True


class Decoder(Protocol[T]):
    """Puts items together from the bytes of a body."""

    def decode(self, data: bytes) -> list[T]: ...

    def finish(self) -> list[T]: ...


class Whole:
    """A body of bytes, at most ``MAX_JSON_BYTES``."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def decode(self, data: bytes) -> list[bytes]:
        self._bytes += data
        if len(self._bytes) > MAX_JSON_BYTES:
            raise malformed("it is too long")
        return []

    def finish(self) -> list[bytes]:
        return [bytes(self._bytes)]


class Document:
    """A body of one JSON object."""

    def __init__(self) -> None:
        self._whole = Whole()

    def decode(self, data: bytes) -> list[Json]:
        self._whole.decode(data)
        return []

    def finish(self) -> list[Json]:
        return [parse(text) for text in self._whole.finish()]


class Lines:
    """A body of JSON objects, one a line."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def decode(self, data: bytes) -> list[Json]:
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = rest
        if any(len(line) > MAX_LINE_BYTES for line in (*lines, rest)):
            raise malformed("a line is longer than it may be")
        return [parse(bytes(line)) for line in lines if line]

    def finish(self) -> list[Json]:
        if self._buffer:
            raise malformed("it ended within a line")
        return []


Frame = Json | bytes
"""An event, or a datagram or a piece of an object."""


class Frames:
    """A body of frames: one byte of kind, four bytes of length (big endian), as many bytes.

    >>> frames = Frames()
    >>> frames.decode(bytes([1, 0, 0, 0, 2]) + b"a"), frames.decode(b"b")
    ([], [b'ab'])
    """

    EVENT, DATA, HEADER_BYTES = 0, 1, 5

    def __init__(self) -> None:
        self._buffer = bytearray()

    def decode(self, data: bytes) -> list[Frame]:
        self._buffer += data
        frames: list[Frame] = []
        start = 0
        while len(self._buffer) - start >= self.HEADER_BYTES:
            length = int.from_bytes(self._buffer[start + 1 : start + self.HEADER_BYTES], "big")
            if length > MAX_FRAME_BYTES:
                raise malformed("a frame is longer than it may be")
            end = start + self.HEADER_BYTES + length
            if len(self._buffer) < end:
                break
            kind, payload = self._buffer[start], bytes(self._buffer[start + self.HEADER_BYTES : end])
            if kind == self.EVENT:
                frames.append(parse(payload))
            elif kind == self.DATA:
                frames.append(payload)
            # A frame of another kind is of a later version.
            start = end
        del self._buffer[:start]
        return frames

    def finish(self) -> list[Frame]:
        if self._buffer:
            raise malformed("it ended within a frame")
        return []


def encode_datagram(payload: bytes) -> bytes:
    """Returns the frame of a datagram."""
    return bytes([Frames.DATA]) + len(payload).to_bytes(4, "big") + payload


def parse(text: bytes) -> Json:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise malformed(str(error)) from None
    if not isinstance(value, dict):
        raise malformed("it is no JSON object")
    if value.get("schema", SCHEMA) != SCHEMA:
        raise malformed(f"it is of schema {value['schema']}, not {SCHEMA}")
    return value


class Exchanging(Protocol[T_co]):
    """An ``Exchange``, or an object that behaves like one."""

    request: bytes

    @property
    def feed(self) -> Callable[[bytes], None]: ...

    def next(self) -> T_co | Wait | None: ...


class Exchange(Generic[T]):
    """One request, and the items of its answer."""

    def __init__(self, call: Call, decoder: Decoder[T]) -> None:
        self.request = call.encode()
        self._answer = Answer()
        self._decoder = decoder
        self._refusal = Whole()
        self._items: deque[T] = deque()
        self._is_over = False

    @property
    def has_begun(self) -> bool:
        """True once the daemon has begun to answer."""
        return self._answer.status is not None

    def feed(self, data: bytes) -> None:
        """Takes bytes from the connection; empty ones are its end."""
        self._answer.feed(data)

    def next(self) -> T | Wait | None:
        """Returns the next item; ``None`` after the last one.

        Raises the daemon's error if the answer is none of success.
        """
        while not self._items:
            if self._is_over:
                return None
            piece = self._answer.take()
            if piece is MORE:
                return MORE
            self._decode(piece)
        return self._items.popleft()

    def _decode(self, piece: bytes | None) -> None:
        self._is_over = piece is None
        status = self._answer.status or 0
        if 200 <= status < 300:
            self._items += self._decoder.finish() if piece is None else self._decoder.decode(piece)
        elif piece is None:
            raise error_of_answer(status, b"".join(self._refusal.finish()))
        else:
            self._refusal.decode(piece)
