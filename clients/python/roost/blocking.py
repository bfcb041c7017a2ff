"""The plain face: calls block until the daemon answers."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from . import calls
from .answers import Accepted, Change, Lookup, Moved, Ping, Progress, Roster, Sent, Services, Status, Summary
from .blocking_connection import Connection, Events, document, whole
from .blocking_offers import Offering
from .calls import ANYWHERE, Area
from .protocol import Call, Json, broken_off
from .transfer import FileOffer, PartFile, TransferState

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .calls import LookupOptions, OfferOptions, RequestOptions, SendOptions


class Transfer(io.RawIOBase):
    """The data of a request: an iterator of datagrams or pieces, and a file that can be read.

    Leaving the ``with`` block cancels the request.
    """

    def __init__(self, path: str, call: Call) -> None:
        super().__init__()
        self._path = path
        self._rest = b""
        self._state = TransferState(call)
        self._connection: Connection[bytes] = Connection(path, self._state)
        try:
            while not self._state.accepted:
                piece = self._connection.next()
                if piece is None:
                    raise self._state.went_away()
                self._rest += piece
        except BaseException:
            self._connection.close()
            raise

    @property
    def accepted(self) -> Accepted:
        """The provider's acceptance."""
        return self._state.accepted

    @property
    def progress(self) -> Progress:
        """The last report of progress; the daemon sends one a second."""
        return self._state.progress

    @property
    def trace(self) -> dict[str, Any] | None:
        """The path of a request with ``trace=True``, once it has ended."""
        return self._state.trace

    @property
    def summary(self) -> Summary | None:
        """The end of the transfer, once all of it has been read."""
        return self._state.summary

    def _piece(self) -> bytes | None:
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        while (piece := self._connection.next()) == b"":
            pass
        return piece

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        piece = self._piece()
        if piece is None:
            raise StopIteration
        return piece

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        piece = self._piece() or b""
        taken = min(len(view), len(piece))
        view[:taken] = piece[:taken]
        self._rest = piece[taken:]
        return taken

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes all data to a file, which gets its name when it is complete and its digest is right."""
        with self, PartFile(path) as part:
            for piece in self:
                part.write(piece)
            return part.complete(self._state)

    def end(self) -> None:
        """Ends a reflected stream early. The rest of its data and its summary follow."""
        whole(self._path, calls.end(self._state.number()))

    def close(self) -> None:
        """Cancels the request, unless it has ended."""
        if hasattr(self, "_connection"):
            self._connection.close()
        super().close()


class Roost:
    """A daemon on this host. Each call takes a connection of its own, so threads may share a ``Roost``.

    ``socket`` is the daemon's; by default that of ``ROOST_SOCKET``, else an overlay node's in its usual places.
    """

    def __init__(self, socket: str | os.PathLike[str] | None = None) -> None:
        self.socket = calls.find_socket(socket)

    def status(self) -> Status:
        return cast(Status, document(self.socket, calls.status()))

    def services(self) -> Services:
        """Names the services that a node offers, or that a hub knows."""
        return cast(Services, document(self.socket, calls.services()))

    def lookup(self, service: str, area: Area = ANYWHERE, **options: Unpack[LookupOptions]) -> Lookup:
        """Names the nodes that offer a service, the best first. An empty answer is no error."""
        return cast(Lookup, document(self.socket, calls.lookup(service, area, options)))

    def request(self, service: str, area: Area = ANYWHERE, **options: Unpack[RequestOptions]) -> Transfer:
        """Requests a service. Returns once a provider has accepted.

        An image into a file::

            roost.request("image", Area.near(27, 92)).save("picture.jpg")

        Ten seconds of a stream, a datagram at a time::

            with roost.request("video", Area.at(27, 92), duration=10) as stream:
                for datagram in stream:
                    player.write(datagram)
            print(stream.summary)
        """
        return Transfer(self.socket, calls.request(service, area, options))

    def subscribe(self, service: str, area: Area = ANYWHERE, **options: Unpack[RequestOptions]) -> Transfer:
        """Subscribes to a stream that super nodes reflect; without ``duration`` it has no end."""
        options.setdefault("reflect", "always")
        return Transfer(self.socket, calls.request(service, area, options))

    def call(self, service: str, data: bytes = b"", area: Area = ANYWHERE, **options: Unpack[RequestOptions]) -> Transfer:
        """Calls a service with a body of at most 64 KiB. Returns once a provider has accepted.

        An answer that fits into memory::

            tile = roost.call("acme/tiles", b'{"zoom": 3}').read()
        """
        return Transfer(self.socket, calls.call(service, area, data, options))

    def offer(self, service: str, **options: Unpack[OfferOptions]) -> Offering:
        """Offers a service as long as the offering is open::

        with roost.offer("acme/thermometer:object") as offering:
            for incoming in offering:
                incoming.answer(Path("/sys/class/thermal/thermal_zone0/temp").read_bytes())
        """
        return Offering(self.socket, calls.offer(service, options))

    def watch(self, area: Area = ANYWHERE, *, services: Iterable[str] = (), names: bool = False) -> Events[Change]:
        """Reports changes in an area. The first one has the nodes that are there at the start."""
        return Events(self.socket, calls.watch(area, services=services, names=names))

    def room(self, name: str, *, names: bool = False) -> Events[Roster]:
        """Enters a room and reports its other members, again with every change."""
        return Events(self.socket, calls.room(name, names=names))

    def send(self, path: str | os.PathLike[str], node: str, **options: Unpack[SendOptions]) -> Sent:
        """Sends a file to a node with an inbox. Returns once the receiver has verified it.

        With ``until`` the file goes into the outbox, and the call returns when it is there.
        """
        offer = FileOffer(path, node, options)
        try:
            with Events[Json](self.socket, offer.call) as events:
                for event in events:
                    chunk = offer.answer(event)
                    if chunk is not None:
                        whole(self.socket, chunk)
                    if offer.sent is not None:
                        return offer.sent
            raise broken_off()
        finally:
            offer.close()

    def ping(self, node: str | None = None) -> Ping:
        """Measures the round trip to a node, or to the hub."""
        return cast(Ping, document(self.socket, calls.ping(node)))

    def move(self, x: int | str, y: int | None = None) -> Moved:
        """Moves this node to a cell, or to a place as ``Area`` has it."""
        return cast(Moved, document(self.socket, calls.move(x, y)))
