"""The asyncio face: the same operations, awaited."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from . import calls
from .answers import Accepted, Change, Lookup, Moved, Ping, Progress, Roster, Sent, Services, Status, Summary
from .asynchronous_connection import AsyncEvents, Connection, Opening, document, whole
from .asynchronous_offers import AsyncOffering
from .calls import ANYWHERE, Area
from .protocol import Call, Json, broken_off
from .transfer import FileOffer, PartFile, TransferState

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .calls import LookupOptions, OfferOptions, RequestOptions, SendOptions


class AsyncTransfer:
    """The data of a request: an iterator of datagrams or pieces. Closing it cancels the request."""

    def __init__(self, path: str, state: TransferState, connection: Connection[bytes]) -> None:
        self._path = path
        self._state = state
        self._connection = connection

    @classmethod
    async def open(cls, path: str, call: Call) -> Self:
        state = TransferState(call)
        transfer = cls(path, state, await Connection.open(path, state))
        try:
            while not state.accepted:
                if await transfer._connection.next() is None:
                    raise state.went_away()
        except BaseException:
            await transfer.close()
            raise
        return transfer

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

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while (piece := await self._connection.next()) == b"":
            pass
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def read(self) -> bytes:
        """Reads all that is left."""
        return b"".join([piece async for piece in self])

    async def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes all data to a file, which gets its name when it is complete and its digest is right."""
        try:
            with PartFile(path) as part:
                async for piece in self:
                    await asyncio.to_thread(part.write, piece)
                return part.complete(self._state)
        finally:
            await self.close()

    async def end(self) -> None:
        """Ends a reflected stream early. The rest of its data and its summary follow."""
        await whole(self._path, calls.end(self._state.number()))

    async def close(self) -> None:
        """Cancels the request, unless it has ended."""
        await self._connection.close()


class AsyncRoost:
    """A daemon on this host, for asyncio. The operations are those of ``Roost``."""

    def __init__(self, socket: str | os.PathLike[str] | None = None) -> None:
        self.socket = calls.find_socket(socket)

    async def status(self) -> Status:
        return cast(Status, await document(self.socket, calls.status()))

    async def services(self) -> Services:
        """Names the services that a node offers, or that a hub knows."""
        return cast(Services, await document(self.socket, calls.services()))

    async def lookup(self, service: str, area: Area = ANYWHERE, **options: Unpack[LookupOptions]) -> Lookup:
        """Names the nodes that offer a service, the best first. An empty answer is no error."""
        return cast(Lookup, await document(self.socket, calls.lookup(service, area, options)))

    def request(self, service: str, area: Area = ANYWHERE, **options: Unpack[RequestOptions]) -> Opening[AsyncTransfer]:
        """Requests a service. The transfer opens once a provider has accepted::

        async with roost.request("video", Area.at(27, 92), duration=10) as stream:
            async for datagram in stream:
                player.write(datagram)
        """
        call = calls.request(service, area, options)
        return Opening(lambda: AsyncTransfer.open(self.socket, call))

    def subscribe(
        self, service: str, area: Area = ANYWHERE, **options: Unpack[RequestOptions]
    ) -> Opening[AsyncTransfer]:
        """Subscribes to a stream that super nodes reflect; without ``duration`` it has no end."""
        options.setdefault("reflect", "always")
        call = calls.request(service, area, options)
        return Opening(lambda: AsyncTransfer.open(self.socket, call))

    def call(
        self, service: str, data: bytes = b"", area: Area = ANYWHERE, **options: Unpack[RequestOptions]
    ) -> Opening[AsyncTransfer]:
        """Calls a service with a body of at most 64 KiB. The transfer opens once a provider has accepted."""
        call = calls.call(service, area, data, options)
        return Opening(lambda: AsyncTransfer.open(self.socket, call))

    def offer(self, service: str, **options: Unpack[OfferOptions]) -> Opening[AsyncOffering]:
        """Offers a service as long as the offering is open::

        async with roost.offer("acme/thermometer:object") as offering:
            async for incoming in offering:
                await incoming.answer(b"21.5")
        """
        call = calls.offer(service, options)
        return Opening(lambda: AsyncOffering.open(self.socket, call))

    def watch(
        self, area: Area = ANYWHERE, *, services: Iterable[str] = (), names: bool = False
    ) -> Opening[AsyncEvents[Change]]:
        """Reports changes in an area. The first one has the nodes that are there at the start."""
        call = calls.watch(area, services=services, names=names)
        return Opening(lambda: AsyncEvents[Change].open(self.socket, call))

    def room(self, name: str, *, names: bool = False) -> Opening[AsyncEvents[Roster]]:
        """Enters a room and reports its other members, again with every change."""
        call = calls.room(name, names=names)
        return Opening(lambda: AsyncEvents[Roster].open(self.socket, call))

    async def send(self, path: str | os.PathLike[str], node: str, **options: Unpack[SendOptions]) -> Sent:
        """Sends a file to a node with an inbox. Returns once the receiver has verified it.

        With ``until`` the file goes into the outbox, and the call returns when it is there.
        """
        offer = await asyncio.to_thread(FileOffer, path, node, options)
        try:
            async with Opening(lambda: AsyncEvents[Json].open(self.socket, offer.call)) as events:
                async for event in events:
                    chunk = await asyncio.to_thread(offer.answer, event)
                    if chunk is not None:
                        await whole(self.socket, chunk)
                    if offer.sent is not None:
                        return offer.sent
            raise broken_off()
        finally:
            offer.close()

    async def ping(self, node: str | None = None) -> Ping:
        """Measures the round trip to a node, or to the hub."""
        return cast(Ping, await document(self.socket, calls.ping(node)))

    async def move(self, x: int | str, y: int | None = None) -> Moved:
        """Moves this node to a cell, or to a place as ``Area`` has it."""
        return cast(Moved, await document(self.socket, calls.move(x, y)))
