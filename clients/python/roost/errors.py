"""Errors of a daemon: one class for each exit code of the command ``roost``, and finer ones below them."""

from __future__ import annotations

import json
from typing import Any


class RoostError(Exception):
    """The base of all errors. The text is the daemon's sentence.

    >>> error_from({"code": "busy", "message": "all providers are busy", "retry_after_ms": 1500})
    Busy('all providers are busy')
    """

    exit_code = 1
    """The exit code of ``roost`` for this error."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "internal",
        retry_after: float | None = None,
        summary: dict[str, Any] | None = None,
        provider_reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        """The code of the local API, such as ``not-found``."""
        self.retry_after = retry_after
        """Seconds until a new attempt may succeed."""
        self.summary = summary
        """The part of a transfer that was received before the error."""
        self.provider_reason = provider_reason
        """The words of the provider's program, if that declined."""


class UsageError(RoostError):
    """The query is wrong. The daemon did nothing."""

    exit_code = 2


class Unreachable(RoostError):
    """No daemon answers on the socket, or the daemon broke off its answer."""

    exit_code = 3


class Leaving(Unreachable):
    """The daemon finishes its work and ends."""


class NotFound(RoostError):
    """No node there offers the service."""

    exit_code = 4


class NotYetKnown(NotFound):
    """The hub started less than a lease ago and may not know every node."""


class Refused(RoostError):
    """The remote refuses: not allowed, or no common transport."""

    exit_code = 5


class Busy(Refused):
    """Every provider is at its limit, or the daemon is."""


class TimedOut(RoostError):
    """The time allowed has passed, or no hub was reached in it."""

    exit_code = 6


class UnreachableAbove(TimedOut):
    """The super nodes above do not answer, and nobody below offers the service."""


class Incomplete(RoostError):
    """The transfer began and did not end, or the data is damaged."""

    exit_code = 7


_CLASSES: dict[str, type[RoostError]] = {
    "usage": UsageError,
    "no-such-endpoint": UsageError,
    "leaving": Leaving,
    "not-found": NotFound,
    "not-yet-known": NotYetKnown,
    "refused": Refused,
    "busy": Busy,
    "timed-out": TimedOut,
    "unreachable-above": UnreachableAbove,
    "incomplete": Incomplete,
}


def error_from(error: dict[str, Any], summary: dict[str, Any] | None = None) -> RoostError:
    """Makes the error of a daemon's JSON. A code of a later version becomes a plain ``RoostError``."""
    code, wait = str(error.get("code", "internal")), error.get("retry_after_ms")
    make = _CLASSES.get(code, RoostError)
    retry_after = None if wait is None else wait / 1000
    message, reason = str(error.get("message", code)), error.get("provider_reason")
    return make(message, code=code, retry_after=retry_after, summary=summary, provider_reason=reason)


def error_of_answer(status: int, body: bytes) -> RoostError:
    """Makes the error of an answer that is no success."""
    try:
        return error_from(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return RoostError(f"the daemon answered {status}")
