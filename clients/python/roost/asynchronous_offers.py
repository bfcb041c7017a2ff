"""Services that a program offers, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING

from . import calls
from .asynchronous_connection import AsyncEvents, Connection, one, whole
from .offers import BACKLOG, BYTES, AnswerState, OfferRequest, request_of
from .protocol import LAST_CHUNK, Call, Exchange, Json, Whole

if TYPE_CHECKING:
    from typing_extensions import Self


class AsyncAnswer:
    """The data of an answer. Leaving the ``async with`` block ends it in order, and an exception breaks it off."""

    def __init__(self, state: AnswerState, connection: Connection[bytes]) -> None:
        self._state = state
        self._connection = connection
        # The daemon may answer before the last piece.
        self._answer = asyncio.ensure_future(connection.next())
        self._is_over = False

    @classmethod
    async def open(cls, path: str, request: OfferRequest, format: str) -> AsyncAnswer:
        state = AnswerState(request, format)
        return cls(state, await Connection.open(path, state.exchange))

    async def send(self, data: bytes) -> bool:
        """Sends a datagram, or the next piece of an object. It waits while the requester takes no more.

        Returns false once the requester has gone or has enough. Raises the daemon's error if the offer allows no more.
        """
        if not self._is_over:
            await self._push(self._state.encode(data))
            # The rest of the answer comes after the end of the data.
            if self._answer.done() or self._state.exchange.has_begun:
                await self._finish()
        return not self._is_over

    async def _push(self, data: bytes) -> None:
        if self._answer.done():
            return
        sending = asyncio.ensure_future(self._connection.send(data))
        try:
            await asyncio.wait({sending, self._answer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()

    async def finish(self) -> None:
        """Ends the data in order, and waits until the daemon has taken all of it."""
        if not self._is_over:
            await self._finish()

    async def _finish(self) -> None:
        self._is_over = True
        try:
            # The daemon waits for the end of the body, also if it has answered already.
            await self._connection.send(LAST_CHUNK)
            await self._answer
        finally:
            await self._connection.close()

    async def break_off(self) -> None:
        """Breaks the data off, so that the requester's transfer fails."""
        self._is_over = True
        self._answer.cancel()
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is None:
            await self.finish()
        else:
            await self.break_off()


class AsyncIncomingRequest:
    """A request for an offer, which the program answers or declines."""

    def __init__(self, path: str, request: OfferRequest) -> None:
        self._path = path
        self.request = request
        self._gone = asyncio.Event()
        self.is_answered = False

    @property
    def is_gone(self) -> bool:
        """True once the request needs no more data."""
        return self._gone.is_set()

    async def wait_until_gone(self) -> None:
        await self._gone.wait()

    async def body(self) -> bytes:
        """Returns the body of a call."""
        exchange: Exchange[bytes] = Exchange(calls.offer_body(self.request.number), Whole())
        return await one(self._path, exchange) or b""

    async def give(self, format: str = BYTES) -> AsyncAnswer:
        """Begins the answer: datagrams of a stream, or the pieces of an object. ``format`` is their media type."""
        self.is_answered = True
        return await AsyncAnswer.open(self._path, self.request, format)

    async def answer(self, data: bytes, format: str = BYTES) -> None:
        """Answers with an object."""
        async with await self.give(format) as answer:
            await answer.send(data)

    async def decline(self, reason: str) -> None:
        """Declines with a reason of at most 200 bytes, which the requester gets to read."""
        self.is_answered = True
        await whole(self._path, calls.decline(self.request.number, reason))


class AsyncOffering:
    """An offered service: an iterator of the requests for it. Closing it withdraws the offer."""

    def __init__(self, path: str, events: AsyncEvents[Json]) -> None:
        self._path = path
        self._events = events
        self._incoming: asyncio.Queue[AsyncIncomingRequest | None] = asyncio.Queue()
        self._open: dict[int, AsyncIncomingRequest] = {}
        # It reads while the program works, so that this learns of requesters that go.
        self._reader = asyncio.ensure_future(self._read())

    @classmethod
    async def open(cls, path: str, call: Call) -> AsyncOffering:
        return cls(path, await AsyncEvents[Json].open(path, call))

    async def _read(self) -> None:
        try:
            async for event in self._events:
                request = request_of(event)
                if request is not None:
                    incoming = AsyncIncomingRequest(self._path, request)
                    self._open[request.number] = incoming
                    if self._incoming.qsize() < BACKLOG:
                        self._incoming.put_nowait(incoming)
                elif event.get("event") == "gone" and (known := self._open.pop(event["request"], None)):
                    known._gone.set()
        finally:
            self._incoming.put_nowait(None)

    def __aiter__(self) -> AsyncIterator[AsyncIncomingRequest]:
        return self

    async def __anext__(self) -> AsyncIncomingRequest:
        while (incoming := await self._incoming.get()) is not None:
            if not incoming.is_gone:
                return incoming
        # Others that wait learn the end, too.
        self._incoming.put_nowait(None)
        if self._reader.cancelled():
            raise StopAsyncIteration
        await self._reader
        raise StopAsyncIteration

    async def close(self) -> None:
        """Withdraws the offer."""
        self._reader.cancel()
        await self._events.close()
