"""The answers of a daemon: its JSON objects as they come, with the fields that programs need most.

A later daemon may add fields; they are there under their names, too. The reference of the local API has them all.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Candidate(TypedDict, total=False):
    """A node with its services, in the answer of a lookup or watch."""

    node: str
    name: str
    cell: str
    services: list[str]
    streams_left: int
    uplink_left_kbps: int | None
    addresses: list[str]
    record: str


class Lookup(TypedDict):
    coverage: str
    candidates: list[Candidate]
    elapsed_ms: float


class Change(TypedDict, total=False):
    """A line of a watch. A gap in ``number`` is a change that was lost."""

    number: int
    present: list[Candidate]
    gone: list[str]
    gone_names: dict[str, str]


class Member(TypedDict, total=False):
    node: str
    name: str
    cell: str
    services: list[str]


class Roster(TypedDict):
    """The members of a room except this node. Each roster replaces the one before."""

    members: list[Member]


class Hub(TypedDict, total=False):
    node: str
    name: str
    role: str
    address: str
    rtt_ms: float
    since_s: float


class Status(TypedDict, total=False):
    role: str
    name: str
    group: str
    node: str
    labels: dict[str, str]
    version: str
    state: str
    started_unix_s: int
    uptime_s: float
    certificate_not_after_unix_s: int
    listen: list[str]
    hub: Hub
    standby: Hub
    cell: str
    services: list[str]
    providing: list[dict[str, Any]]
    receiving: list[dict[str, Any]]
    last_error: str


class ServiceRow(TypedDict, total=False):
    service: str
    source: str
    active: int
    served: int
    providers: int


class Services(TypedDict):
    services: list[ServiceRow]


class Ping(TypedDict, total=False):
    node: str
    name: str
    address: str
    rtt_ms: float


# A keyword of the language, hence not a class body.
Moved = TypedDict("Moved", {"from": str, "to": str})


class Accepted(TypedDict, total=False):
    """The acceptance of a request by a provider."""

    request: int
    provider: str
    provider_name: str
    cell: str
    transport: str
    relayed: bool
    reflected: bool
    format: str
    bytes: int
    sha256: str
    offset: int
    duration_ms: int
    bits_per_second: int


class Progress(TypedDict, total=False):
    bytes: int
    elapsed_ms: float
    lost: int


class Summary(TypedDict, total=False):
    """The end of a transfer."""

    provider: str
    provider_name: str
    cell: str
    transport: str
    relayed: bool
    reflected: bool
    bytes: int
    packets: int
    lost: int
    late: int
    reordered: int
    duplicates: int
    unread: int
    interruptions: int
    interrupted_ms: float
    jitter_ms: float
    first_byte_ms: float | None
    elapsed_ms: float
    digest_ok: bool | None
    complete: bool


class Sent(TypedDict, total=False):
    """The end of a file that was sent: ``event`` is ``finished``, or ``queued`` for one that waits in the outbox."""

    event: str
    node: str
    node_name: str
    id: str
    until_unix_s: int
