"""weft: an MPI-style runtime that moves tensors between ranks. docs/python.md of the project is its manual."""

try:
    from . import _native
except ImportError as error:
    # For example an older libweft, which lacks functions that this package needs.
    raise ImportError(f"weft's compiled module can't be loaded: {error}; install libweft and this package of one "
                      "release, and cffi") from None

from . import collective, errors
from ._memory import Tensor
from .arrival import Arrival
from .collective import Call, Collectives, Plan
from .device import Memory
from .errors import (
                     BadArgument,
                     BadConfig,
                     Bootstrap,
                     Cancelled,
                     Closed,
                     DuplicateName,
                     Error,
                     Exhausted,
                     Fenced,
                     FlowOverrun,
                     Forked,
                     Mismatch,
                     Partitioned,
                     PathFailed,
                     PeerFailed,
                     PeerLeft,
                     System,
                     Timeout,
                     UnderWay,
                     Unreachable,
                     WriterTaken,
)
from .group import Group
from .message import ANY_SOURCE, ANY_TAG, MessageInfo, MessageRequest, Messages
from .published import PublishedReader, PublishedSlot, PublishedSpec
from .rendezvous import Received, Rendezvous, RendezvousSpec
from .signal import RemoteSignal, Signal
from .slot import RemoteSlot, Request, Slot, SlotSpec
from .world import World, array

__all__ = [
    "ANY_SOURCE", "ANY_TAG", "Arrival", "BadArgument", "BadConfig", "Bootstrap", "Call", "Cancelled", "Closed",
    "Collectives", "DuplicateName", "Error", "Exhausted", "Fenced", "FlowOverrun", "Forked", "Group", "Memory",
    "MessageInfo", "MessageRequest", "Messages", "Mismatch", "Partitioned", "PathFailed", "PeerFailed", "PeerLeft",
    "Plan", "PublishedReader", "PublishedSlot", "PublishedSpec", "Received", "RemoteSignal", "RemoteSlot",
    "Rendezvous", "RendezvousSpec", "Request", "Signal", "Slot", "SlotSpec", "System", "Tensor", "Timeout",
    "UnderWay", "Unreachable", "World", "WriterTaken", "array", "collective", "errors",
]
del _native
