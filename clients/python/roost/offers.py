"""Requests for an offer and the data that answers them, without a connection."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import calls
from .protocol import Exchange, Json, Whole, encode_chunk, encode_datagram

BYTES = "application/octet-stream"

KNOWN_STREAMS = ("video", "track")

BACKLOG = 64
"""The most requests that wait for their program. The daemon declines them after 10 s."""


@dataclass(frozen=True)
class OfferRequest:
    """A request for an offer."""

    number: int
    service: str
    requester: str
    """The id of the node that wants the service; the first one of a reflected stream."""
    requester_name: str | None = None
    duration: float | None = None
    """The length of a stream, seconds; ``None`` for an object and for a stream without an end."""
    where: dict[str, str] = field(default_factory=dict)
    params: str = ""
    body_bytes: int | None = None
    """The length of a call's body."""

    @property
    def is_stream(self) -> bool:
        """
        >>> [OfferRequest(1, name, "").is_stream for name in ("acme/lidar:stream", "video#bow", "acme/map:object")]
        [True, True, False]
        """
        name, _, form = self.service.partition(":")
        return form == "stream" or name.partition("#")[0] in KNOWN_STREAMS


def request_of(event: Json) -> OfferRequest | None:
    """Returns the request that a line of an offer tells."""
    if event.get("event") != "request":
        return None
    millis = event.get("duration_ms")
    return OfferRequest(
        number=event["request"],
        service=event["service"],
        requester=event["requester"],
        requester_name=event.get("requester_name"),
        duration=None if millis is None else millis / 1000,
        where=event.get("where", {}),
        params=event.get("params", ""),
        body_bytes=event.get("body_bytes"),
    )


class AnswerState:
    """The data of one answer: pieces to send, and the daemon's answer, which may come before the last one."""

    def __init__(self, request: OfferRequest, format: str) -> None:
        self._is_stream = request.is_stream
        self.exchange: Exchange[bytes] = Exchange(calls.give(request.number, format), Whole())

    def encode(self, data: bytes) -> bytes:
        """Returns the bytes of a datagram, or of a piece of an object."""
        # An empty chunk would be the last one.
        framed = encode_datagram(data) if self._is_stream else data
        return encode_chunk(framed) if framed else b""
