"""Finds services by kind and place and receives their data, through a Roost daemon on this host.

``Roost`` blocks, ``AsyncRoost`` is for asyncio. Both have the same operations, over the daemon's Unix socket.
"""

from .answers import (
    Accepted,
    Candidate,
    Change,
    Hub,
    Lookup,
    Member,
    Moved,
    Ping,
    Progress,
    Roster,
    Sent,
    ServiceRow,
    Services,
    Status,
    Summary,
)
from .asynchronous import AsyncEvents, AsyncRoost, AsyncTransfer
from .blocking import Events, Roost, Transfer
from .calls import ANYWHERE, Area
from .errors import (
    Busy,
    Incomplete,
    Leaving,
    NotFound,
    NotYetKnown,
    Refused,
    RoostError,
    TimedOut,
    Unreachable,
    UnreachableAbove,
    UsageError,
)

__all__ = [
    "ANYWHERE",
    "Accepted",
    "Area",
    "AsyncEvents",
    "AsyncRoost",
    "AsyncTransfer",
    "Busy",
    "Candidate",
    "Change",
    "Events",
    "Hub",
    "Incomplete",
    "Leaving",
    "Lookup",
    "Member",
    "Moved",
    "NotFound",
    "NotYetKnown",
    "Ping",
    "Progress",
    "Refused",
    "Roost",
    "RoostError",
    "Roster",
    "Sent",
    "ServiceRow",
    "Services",
    "Status",
    "Summary",
    "TimedOut",
    "Transfer",
    "Unreachable",
    "UnreachableAbove",
    "UsageError",
]
