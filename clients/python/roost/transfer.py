"""Both directions of data, without a connection: what a request receives, and a file that is sent."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

from . import calls
from .answers import Accepted, Progress, Sent, Summary
from .errors import Incomplete, Unreachable, UsageError, error_from
from .protocol import MORE, Call, Exchange, Frame, Frames, Json, Wait, malformed

READ_FILE_BYTES = 1 << 20


class TransferState:
    """One request with its answer, as an ``Exchange`` of payload. An event becomes empty bytes."""

    def __init__(self, call: Call) -> None:
        self._exchange: Exchange[Frame] = Exchange(call, Frames())
        self.request = self._exchange.request
        self.feed = self._exchange.feed
        self.accepted: Accepted = {}
        self.progress: Progress = {}
        self.trace: Json | None = None
        self.summary: Summary | None = None

    def next(self) -> bytes | Wait | None:
        try:
            frame = self._exchange.next()
        except Unreachable as error:
            raise self.went_away() if self.accepted else error from None
        if isinstance(frame, bytes) or frame is MORE:
            return frame
        if frame is not None:
            self._apply(frame)
            return b""
        if self.summary is None:
            raise self.went_away()
        return None

    def _apply(self, event: Json) -> None:
        name = event.get("event")
        if name == "accepted":
            self.accepted = cast(Accepted, event)
        elif name == "progress":
            self.progress = cast(Progress, event)
        elif name == "traced":
            self.trace = event
        elif name == "finished":
            self.summary = cast(Summary, event)
        elif name == "failed":
            raise error_from(event["error"], event.get("summary"))

    def went_away(self) -> Incomplete:
        return Incomplete("the daemon went away in mid-transfer; what came is incomplete", code="incomplete")

    def number(self) -> int:
        """Returns the request's number at its daemon."""
        if "request" not in self.accepted:
            raise UsageError("the daemon is too old to end a stream: leave the with block", code="usage")
        return self.accepted["request"]


class PartFile:
    """A file that gets its name when it is complete; until then, and never after an error, ``NAME.part``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._part = self.path.with_name(self.path.name + ".part")
        self._file: BinaryIO = open(self._part, "wb")
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)

    def complete(self, state: TransferState) -> Path:
        self._file.close()
        told = state.accepted.get("sha256")
        if told is not None and told != self._digest.hexdigest():
            raise Incomplete("the data does not have the provider's digest; ask again", code="incomplete")
        os.replace(self._part, self.path)
        return self.path

    def __enter__(self) -> PartFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)


class FileOffer:
    """A file that is offered to a node, and the chunks that the daemon asks for."""

    def __init__(self, path: str | os.PathLike[str], node: str, options: calls.SendOptions) -> None:
        calls.check_options(options, calls.SendOptions)
        self._file: BinaryIO = open(path, "rb")
        self._wait = options.get("wait", False)
        digest, length = hashlib.sha256(), 0
        while piece := self._file.read(READ_FILE_BYTES):
            digest.update(piece)
            length += len(piece)
        self.length = length
        self.sent: Sent | None = None
        self.call = calls.send(node, options.get("name", Path(path).name), length, digest.hexdigest(), options)

    def answer(self, event: Json) -> Call | None:
        """Returns the chunk that an event asks for. After the last event, ``sent`` is set."""
        name = event.get("event")
        if name == "read":
            self._file.seek(event["offset"])
            return calls.chunk(event["session"], event["offset"], self._file.read(event["bytes"]))
        if name == "failed" or "error" in event:
            raise error_from(event["error"])
        if name == "finished" or (name == "queued" and not self._wait):
            self.sent = cast(Sent, event)
        return None

    def close(self) -> None:
        self._file.close()


def line_of(event: Json) -> Json:
    """Returns a line of an endless answer. The last one may be the daemon's error."""
    if "error" in event:
        raise error_from(event["error"])
    return event


def only(item: Json | None) -> Json:
    if item is None:
        raise malformed("it is empty")
    return item
