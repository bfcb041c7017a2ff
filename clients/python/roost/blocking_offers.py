"""Services that a program offers, blocking."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from . import calls
from .blocking_connection import Connection, Events, one, whole
from .errors import RoostError
from .offers import BACKLOG, BYTES, AnswerState, OfferRequest, request_of
from .protocol import Call, Exchange, Json, Whole

if TYPE_CHECKING:
    from typing_extensions import Self


class Answer:
    """The data of an answer. Leaving the ``with`` block ends it in order, and an exception breaks it off."""

    def __init__(self, path: str, request: OfferRequest, format: str) -> None:
        self._state = AnswerState(request, format)
        self._connection = Connection(path, self._state.exchange)
        self._is_over = False

    def send(self, data: bytes) -> bool:
        """Sends a datagram, or the next piece of an object. It blocks while the requester takes no more.

        Returns false once the requester has gone or has enough. Raises the daemon's error if the offer allows no more.
        """
        if not self._is_over and not self._connection.send(self._state.encode(data)):
            self._finish()
        return not self._is_over

    def finish(self) -> None:
        """Ends the data in order, and waits until the daemon has taken all of it."""
        if not self._is_over:
            self._finish()

    def _finish(self) -> None:
        self._is_over = True
        try:
            self._connection.end_body()
            self._connection.next()
        finally:
            self._connection.close()

    def break_off(self) -> None:
        """Breaks the data off, so that the requester's transfer fails."""
        self._is_over = True
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is None:
            self.finish()
        else:
            self.break_off()


class IncomingRequest:
    """A request for an offer, which the program answers or declines."""

    def __init__(self, path: str, request: OfferRequest) -> None:
        self._path = path
        self.request = request
        self._gone = threading.Event()
        self.is_answered = False

    @property
    def is_gone(self) -> bool:
        """True once the request needs no more data."""
        return self._gone.is_set()

    def wait_until_gone(self, timeout: float | None = None) -> bool:
        return self._gone.wait(timeout)

    def body(self) -> bytes:
        """Returns the body of a call."""
        exchange: Exchange[bytes] = Exchange(calls.offer_body(self.request.number), Whole())
        return one(self._path, exchange) or b""

    def give(self, format: str = BYTES) -> Answer:
        """Begins the answer: datagrams of a stream, or the pieces of an object. ``format`` is their media type."""
        self.is_answered = True
        return Answer(self._path, self.request, format)

    def answer(self, data: bytes, format: str = BYTES) -> None:
        """Answers with an object."""
        with self.give(format) as answer:
            answer.send(data)

    def decline(self, reason: str) -> None:
        """Declines with a reason of at most 200 bytes, which the requester gets to read."""
        self.is_answered = True
        whole(self._path, calls.decline(self.request.number, reason))


class Offering:
    """An offered service: an iterator of the requests for it. Leaving the ``with`` block withdraws the offer."""

    def __init__(self, path: str, call: Call) -> None:
        self._path = path
        self._events: Events[Json] = Events(path, call)
        self._incoming: queue.Queue[IncomingRequest | BaseException | None] = queue.Queue()
        self._open: dict[int, IncomingRequest] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Takes lines while the program works, so that it learns of requesters that go."""
        last: BaseException | None = None
        try:
            for event in self._events:
                request = request_of(event)
                if request is not None:
                    incoming = IncomingRequest(self._path, request)
                    self._open[request.number] = incoming
                    if self._incoming.qsize() < BACKLOG:
                        self._incoming.put(incoming)
                elif event.get("event") == "gone" and (known := self._open.pop(event["request"], None)):
                    known._gone.set()
        except BaseException as error:
            last = error
        self._incoming.put(last)

    def __iter__(self) -> Iterator[IncomingRequest]:
        return self

    def __next__(self) -> IncomingRequest:
        while isinstance(incoming := self._incoming.get(), IncomingRequest):
            if not incoming.is_gone:
                return incoming
        # Others that wait learn the end, too.
        self._incoming.put(incoming)
        if incoming is None:
            raise StopIteration
        raise incoming

    def serve(self, answer: Callable[[IncomingRequest], None]) -> None:
        """Answers each request in a thread of its own, until the offer ends.

        A request that ``answer`` leaves without one is declined. Its exceptions are logged.
        """
        for incoming in self:
            threading.Thread(target=self._answer, args=(answer, incoming), daemon=True).start()

    @staticmethod
    def _answer(answer: Callable[[IncomingRequest], None], incoming: IncomingRequest) -> None:
        try:
            answer(incoming)
        except Exception:
            logging.getLogger("roost").exception("a request for %s failed", incoming.request.service)
        if not incoming.is_answered:
            try:
                incoming.decline("its program does not answer")
            except RoostError:
                # The requester has gone.
                pass

    def close(self) -> None:
        """Withdraws the offer."""
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.close()
