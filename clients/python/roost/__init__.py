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
from .asynchronous import AsyncRoost, AsyncTransfer
from .asynchronous_connection import AsyncEvents
from .asynchronous_offers import AsyncAnswer, AsyncIncomingRequest, AsyncOffering
from .blocking import Roost, Transfer
from .blocking_connection import Events
from .blocking_offers import Answer, IncomingRequest, Offering
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
from .offers import OfferRequest

__all__ = [
    "ANYWHERE",
    "Accepted",
    "Answer",
    "Area",
    "AsyncAnswer",
    "AsyncEvents",
    "AsyncIncomingRequest",
    "AsyncOffering",
    "AsyncRoost",
    "AsyncTransfer",
    "Busy",
    "Candidate",
    "Change",
    "Events",
    "Hub",
    "IncomingRequest",
    "Incomplete",
    "Leaving",
    "Lookup",
    "Member",
    "Moved",
    "NotFound",
    "NotYetKnown",
    "OfferRequest",
    "Offering",
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
