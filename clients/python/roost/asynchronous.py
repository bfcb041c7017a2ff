"""The asyncio face: the same operations, awaited."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from . import calls
from .answers import Accepted, Change, Lookup, Moved, Ping, Progress, Roster, Sent, Services, Status, Summary
from .calls import ANYWHERE, Area
from .errors import Unreachable
from .protocol import MORE, READ_BYTES, Call, Document, Exchange, Exchanging, Json, Lines, Whole, broken_off
from .transfer import FileOffer, PartFile, TransferState, line_of, only

if TYPE_CHECKING:
    from typing_extensions import Protocol, Self, Unpack

    from .calls import RequestOptions, SendOptions

    class Closing(Protocol):
        async def close(self) -> None: ...


T = TypeVar("T")
C = TypeVar("C", bound="Closing")


class Connection(Generic[T]):
    """A connection with one exchange. At most ``2 * READ_BYTES`` wait in memory for their reader."""

    def __init__(self, exchange: Exchanging[T], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._exchange = exchange
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, path: str, exchange: Exchanging[T]) -> Connection[T]:
        try:
            reader, writer = await asyncio.open_unix_connection(path, limit=READ_BYTES)
        except OSError as error:
            raise Unreachable(f"no daemon answers on {path}: {error.strerror or error}", code="unreachable") from error
        connection = cls(exchange, reader, writer)
        try:
            writer.write(exchange.request)
            await writer.drain()
        except OSError:
            # The daemon may have refused before it read everything: its answer is there.
            pass
        except BaseException:
            await connection.close()
            raise
        return connection

    async def next(self) -> T | None:
        """Returns the next item; ``None`` after the last one."""
        while (item := self._exchange.next()) is MORE:
            try:
                self._exchange.feed(await self._reader.read(READ_BYTES))
            except OSError:
                self._exchange.feed(b"")
        return item

    async def close(self) -> None:
        """Ends the exchange."""
        # Nothing is left to be sent, so nothing has to be waited for.
        self._writer.close()


class Opening(Generic[C]):
    """An operation that begins: ``async with`` it, or ``await`` it and close it later."""

    def __init__(self, open: Callable[[], Awaitable[C]]) -> None:
        self._open = open
        self._opened: C | None = None

    def __await__(self) -> Generator[Any, None, C]:
        return self._open().__await__()

    async def __aenter__(self) -> C:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


class AsyncEvents(Generic[T]):
    """The lines of a watch or room."""

    def __init__(self, connection: Connection[Json], first: Json | None) -> None:
        self._connection = connection
        self._first = first

    @classmethod
    async def open(cls, path: str, call: Call) -> Self:
        exchange: Exchange[Json] = Exchange(call, Lines())
        connection = await Connection.open(path, exchange)
        try:
            # A refusal is an error of the call, not of the first line that is taken.
            return cls(connection, await connection.next())
        except BaseException:
            await connection.close()
            raise

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        event, self._first = self._first or await self._connection.next(), None
        if event is None:
            raise StopAsyncIteration
        return cast(T, line_of(event))

    async def close(self) -> None:
        await self._connection.close()


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
        await _whole(self._path, calls.end(self._state.number()))

    async def close(self) -> None:
        """Cancels the request, unless it has ended."""
        await self._connection.close()


async def _document(path: str, call: Call) -> Any:
    exchange: Exchange[Json] = Exchange(call, Document())
    return only(await _one(path, exchange))


async def _whole(path: str, call: Call) -> None:
    exchange: Exchange[bytes] = Exchange(call, Whole())
    await _one(path, exchange)


async def _one(path: str, exchange: Exchanging[T]) -> T | None:
    connection = await Connection.open(path, exchange)
    try:
        return await connection.next()
    finally:
        await connection.close()


class AsyncRoost:
    """A daemon on this host, for asyncio. The operations are those of ``Roost``."""

    def __init__(self, socket: str | os.PathLike[str] | None = None) -> None:
        self.socket = calls.find_socket(socket)

    async def status(self) -> Status:
        return cast(Status, await _document(self.socket, calls.status()))

    async def services(self) -> Services:
        """Names the services that a node offers, or that a hub knows."""
        return cast(Services, await _document(self.socket, calls.services()))

    async def lookup(
        self,
        service: str,
        area: Area = ANYWHERE,
        *,
        count: int | None = None,
        names: bool = False,
        timeout: float | None = None,
    ) -> Lookup:
        """Names the nodes that offer a service, the best first. An empty answer is no error."""
        call = calls.lookup(service, area, count=count, names=names, timeout=timeout)
        return cast(Lookup, await _document(self.socket, call))

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
                        await _whole(self.socket, chunk)
                    if offer.sent is not None:
                        return offer.sent
            raise broken_off()
        finally:
            offer.close()

    async def ping(self, node: str | None = None) -> Ping:
        """Measures the round trip to a node, or to the hub."""
        return cast(Ping, await _document(self.socket, calls.ping(node)))

    async def move(self, x: int, y: int) -> Moved:
        """Moves this node to a cell."""
        return cast(Moved, await _document(self.socket, calls.move(x, y)))
