"""The operations of the local API as requests, and the words in them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import quote

from .protocol import FRAMES, LINES, Call, Json


def find_socket(path: str | os.PathLike[str] | None = None) -> str:
    """Finds the daemon's socket as the command ``roost`` does.

    The named one, else that of ``ROOST_SOCKET``, else ``roost/overlay-node.sock`` in ``XDG_RUNTIME_DIR`` or ``/run``.
    """
    named = os.fspath(path) if path is not None else os.environ.get("ROOST_SOCKET")
    if named is not None:
        return named
    folders = [folder for folder in (os.environ.get("XDG_RUNTIME_DIR"), "/run") if folder]
    places = [Path(folder, "roost/overlay-node.sock") for folder in folders]
    return str(next((place for place in places if place.exists()), places[0]))


@dataclass(frozen=True)
class Area:
    """The part of the grid that a query covers.

    A place is a cell, ``27, 92``, or in a group with a datum a text: ``"47.3769,8.5417"``, ``"geo:47.37,8.54"`` or MGRS.

    >>> Area.near(27, 92, within=5).query()
    {'near': '27,92', 'within': '5'}
    >>> Area.near("47.3769,8.5417", within="5km").json()
    {'within': {'center': '47.3769,8.5417', 'radius': '5km'}}
    >>> Area.anywhere().json()
    'anywhere'
    """

    kind: str
    places: tuple[str, ...] = ()
    radius: int | str | None = None

    @classmethod
    def at(cls, x: int | str, y: int | None = None) -> Area:
        """One cell."""
        return cls("at", (_place(x, y),))

    @classmethod
    def near(cls, x: int | str, y: int | None = None, *, within: int | str | None = None) -> Area:
        """The nearest to a place, or all within a number of cells or a length such as ``"5km"``."""
        return cls("near" if within is None else "within", (_place(x, y),), within)

    @classmethod
    def rect(cls, x1: int, y1: int, x2: int, y2: int) -> Area:
        """A rectangle of cells between two corners, both of them in it."""
        return cls("rect", (_place(min(x1, x2), min(y1, y2)), _place(max(x1, x2), max(y1, y2))))

    @classmethod
    def anywhere(cls) -> Area:
        return cls("any")

    def query(self) -> dict[str, str]:
        """Returns the parameters of a query."""
        if self.kind == "any":
            return {"any": "true"}
        if self.kind == "within":
            return {"near": self.places[0], "within": str(self.radius)}
        return {self.kind: ",".join(self.places)}

    def json(self) -> Json | str:
        """Returns the value in a request's body."""
        if self.kind == "any":
            return "anywhere"
        if self.kind == "within":
            return {"within": {"center": self.places[0], "radius": self.radius}}
        if self.kind == "rect":
            return {"rect": {"min": self.places[0], "max": self.places[1]}}
        return {self.kind: self.places[0]}


def _place(x: int | str, y: int | None) -> str:
    """
    >>> _place(27, 92), _place("47.3769,8.5417", None)
    ('27,92', '47.3769,8.5417')
    """
    if isinstance(x, str) != (y is None):
        raise TypeError("a place is a cell, two whole numbers, or one text")
    return x if isinstance(x, str) else f"{x},{y}"


ANYWHERE = Area.anywhere()


class RequestOptions(TypedDict, total=False):
    """The options of a request; all have defaults. Times are seconds."""

    provider: str
    """The node to ask, without a hub: an id, the beginning of one, or a name."""
    scope: str
    mode: str
    count: int
    duration: float
    """The length of a stream."""
    min_kbps: int
    transports: list[str]
    profile: str
    delivery: str
    """The use of the paths: ``stripe``, ``duplicate`` or ``backup``."""
    reflect: str
    resume: Mapping[str, Any]
    trace: bool
    timeout: float
    """The longest wait for a provider."""
    patience: float
    """The longest time without progress of a transfer."""
    where: Mapping[str, str]
    """Metadata that the provider's offer has to carry."""
    params: str
    """What the provider's program gets to read, at most 1 KiB."""


_TIMES = {"duration": "duration_ms", "timeout": "timeout_ms", "patience": "patience_ms"}


def request(service: str, area: Area, options: RequestOptions) -> Call:
    """
    >>> request("video", Area.at(27, 92), {"duration": 1.5}).body
    b'{"service":"video","area":{"at":"27,92"},"duration_ms":1500}'
    """
    return Call("POST", "/v1/request", FRAMES, _request(service, area, options).encode())


def call(service: str, area: Area, data: bytes, options: RequestOptions) -> Call:
    return Call("POST", _target("/v1/call", {"request": _request(service, area, options)}), FRAMES, data)


def _request(service: str, area: Area, options: RequestOptions) -> str:
    body: Json = {"service": service, "area": area.json()}
    check_options(options, RequestOptions)
    for name, value in options.items():
        if name in _TIMES:
            body[_TIMES[name]] = milliseconds(name, value)
        else:
            body["class" if name == "delivery" else name] = value
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def check_options(options: Mapping[str, Any], known: type) -> None:
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(f"there is no option {name!r}: expected one of {', '.join(known.__annotations__)}")


def milliseconds(name: str, seconds: Any) -> int:
    """Turns seconds into whole milliseconds, at least one for any time above zero."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
        raise ValueError(f"{name}={seconds!r}: expected seconds above zero")
    return max(1, round(seconds * 1000))


def _target(path: str, query: Mapping[str, str | None]) -> str:
    pairs = [f"{key}={quote(value, safe=',')}" for key, value in query.items() if value is not None]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def _flag(value: bool) -> str | None:
    return "true" if value else None


def _duration(name: str, seconds: float | None) -> str | None:
    return None if seconds is None else f"{milliseconds(name, seconds)}ms"


def status() -> Call:
    return Call("GET", "/v1/status")


def services() -> Call:
    return Call("GET", "/v1/services")


class LookupOptions(TypedDict, total=False):
    """The options of a lookup; all have defaults."""

    count: int
    """The most providers to list."""
    names: bool
    """Hubs tell the names of nodes, too."""
    timeout: float
    """The longest wait for an answer, seconds."""
    where: Mapping[str, str]
    """Metadata that an offer has to carry."""


def lookup(service: str, area: Area, options: LookupOptions) -> Call:
    """
    >>> lookup("acme/lidar", Area.anywhere(), {"where": {"sensor": "ir"}}).target
    '/v1/lookup?service=acme%2Flidar&any=true&where=sensor%3Dir'
    """
    check_options(options, LookupOptions)
    count = options.get("count")
    query = {
        "service": service,
        **area.query(),
        "k": None if count is None else str(count),
        "timeout": _duration("timeout", options.get("timeout")),
        "names": _flag(options.get("names", False)),
        "where": ",".join(f"{key}={value}" for key, value in options.get("where", {}).items()) or None,
    }
    return Call("POST", _target("/v1/lookup", query))


def watch(area: Area, *, services: Iterable[str], names: bool) -> Call:
    listed = ",".join([services] if isinstance(services, str) else services)
    return Call("GET", _target("/v1/watch", {"service": listed or None, **area.query(), "names": _flag(names)}), LINES)


def room(name: str, *, names: bool) -> Call:
    return Call("GET", _target("/v1/room", {"name": name, "names": _flag(names)}), LINES)


def ping(node: str | None) -> Call:
    return Call("POST", _target("/v1/ping", {"node": node}))


def move(x: int | str, y: int | None) -> Call:
    return Call("POST", _target("/v1/move", {"at": _place(x, y)}))


def end(request: int) -> Call:
    return Call("POST", f"/v1/end?request={request}")


class SendOptions(TypedDict, total=False):
    """The options of a file that is sent; all have defaults."""

    name: str
    """The file's name at the receiver."""
    addresses: list[str]
    """The receiver's endpoints, if no hub knows it."""
    timeout: float
    """The longest wait for the receiver's answer, seconds."""
    until: int
    """The file goes into the outbox until this time, Unix seconds."""
    priority: str
    wait: bool
    """The end of the delivery from the outbox is waited for."""


def send(node: str, name: str, length: int, digest: str, options: SendOptions) -> Call:
    until = options.get("until")
    query = {
        "node": node,
        "name": name,
        "bytes": str(length),
        "sha256": digest,
        "address": ",".join(options.get("addresses", [])) or None,
        "timeout": _duration("timeout", options.get("timeout")),
        "until": None if until is None else str(int(until)),
        "priority": options.get("priority"),
        "wait": _flag(options.get("wait", False)),
    }
    return Call("POST", _target("/v1/send", query), LINES)


def chunk(session: int, offset: int, piece: bytes) -> Call:
    return Call("POST", f"/v1/chunk?session={session}&offset={offset}", body=piece)


class OfferOptions(TypedDict, total=False):
    """What an offer tells of its service; all of it may be left out."""

    kbps: int
    """The rate of a stream, kbit/s."""
    max_bytes: int
    """The greatest size of an object."""
    metadata: Mapping[str, str]


def offer(service: str, options: OfferOptions) -> Call:
    """
    >>> offer("acme/lidar:stream", {"kbps": 400}).body
    b'{"service":"acme/lidar:stream","kbps":400}'
    """
    check_options(options, OfferOptions)
    text = json.dumps({"service": service, **options}, separators=(",", ":"), ensure_ascii=False)
    return Call("POST", "/v1/offer", LINES, text.encode())


def give(request: int, format: str) -> Call:
    query = {"request": str(request), "format": format}
    return Call("POST", _target("/v1/offer/data", query), is_chunked=True)


def decline(request: int, reason: str) -> Call:
    return Call("POST", _target("/v1/offer/decline", {"request": str(request), "reason": reason}))


def offer_body(request: int) -> Call:
    return Call("GET", f"/v1/offer/body?request={request}")
