"""Connections with a daemon for asyncio, each for one exchange."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .errors import Unreachable
from .protocol import MORE, READ_BYTES, Call, Document, Exchange, Exchanging, Json, Lines, Whole
from .transfer import line_of, only

if TYPE_CHECKING:
    from typing_extensions import Protocol, Self

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

    async def send(self, data: bytes) -> None:
        """Sends a part of the body. It waits while the daemon takes no more."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            # The answer says why.
            pass

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


async def document(path: str, call: Call) -> Any:
    exchange: Exchange[Json] = Exchange(call, Document())
    return only(await one(path, exchange))


async def whole(path: str, call: Call) -> None:
    exchange: Exchange[bytes] = Exchange(call, Whole())
    await one(path, exchange)


async def one(path: str, exchange: Exchanging[T]) -> T | None:
    connection = await Connection.open(path, exchange)
    try:
        return await connection.next()
    finally:
        await connection.close()
