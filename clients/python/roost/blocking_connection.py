"""Blocking connections with a daemon, each for one exchange."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .errors import Unreachable
from .protocol import (
    LAST_CHUNK,
    MORE,
    READ_BYTES,
    Call,
    Document,
    Exchange,
    Exchanging,
    Json,
    Lines,
    Whole,
    broken_off,
)
from .transfer import line_of, only

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class Connection(Generic[T]):
    """A connection with one exchange. The socket is read only while somebody waits for an item."""

    def __init__(self, path: str, exchange: Exchanging[T]) -> None:
        self._exchange = exchange
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._is_closed = False
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise Unreachable(f"no daemon answers on {path}: {error.strerror or error}", code="unreachable") from error
        try:
            self._socket.sendall(exchange.request)
        except OSError:
            # The daemon may have refused before it read everything: its answer is there.
            pass

    def next(self) -> T | None:
        """Returns the next item; ``None`` after the last one, or once closed."""
        while not self._is_closed:
            item = self._exchange.next()
            if item is not MORE:
                return item
            try:
                data = self._socket.recv(READ_BYTES)
            except ConnectionError:
                data = b""
            except OSError:
                if self._is_closed:
                    return None
                raise broken_off() from None
            if not self._is_closed:
                self._exchange.feed(data)
        return None

    def send(self, data: bytes) -> bool:
        """Sends a part of the body. Returns false if the answer is there already, or the daemon takes no more."""
        try:
            if self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) is not None:
                return False
        except BlockingIOError:
            pass
        except OSError:
            return False
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def end_body(self) -> None:
        """Sends the end of the body, also if the answer is there already: the daemon waits for it."""
        try:
            self._socket.sendall(LAST_CHUNK)
        except OSError:
            # The daemon takes no more.
            pass

    def close(self) -> None:
        """Ends the exchange. A thread that waits for an item gets none."""
        if not self._is_closed:
            self._is_closed = True
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                # The daemon has closed it already.
                pass
            self._socket.close()


class Events(Generic[T]):
    """The lines of a watch or room. Leaving the ``with`` block ends it."""

    def __init__(self, path: str, call: Call) -> None:
        exchange: Exchange[Json] = Exchange(call, Lines())
        self._connection = Connection(path, exchange)
        try:
            # A refusal is an error of the call, not of the first line that is taken.
            self._first = self._connection.next()
        except BaseException:
            self._connection.close()
            raise

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        event, self._first = self._first or self._connection.next(), None
        if event is None:
            raise StopIteration
        return cast(T, line_of(event))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.close()


def document(path: str, call: Call) -> Any:
    exchange: Exchange[Json] = Exchange(call, Document())
    return only(one(path, exchange))


def whole(path: str, call: Call) -> None:
    exchange: Exchange[bytes] = Exchange(call, Whole())
    one(path, exchange)


def one(path: str, exchange: Exchanging[T]) -> T | None:
    connection = Connection(path, exchange)
    try:
        return connection.next()
    finally:
        connection.close()
