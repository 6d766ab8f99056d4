"""Errors: a subclass of weft.Error for each code of weft.h."""

from __future__ import annotations

from typing import Any, NoReturn

from ._native import ffi, lib


class Error(Exception):
    """A failure of weft. `str()` of it is one line: code, operation, place, message, hint.

    Texts that don't apply are empty, ranks are -1."""

    code: int = -1  #: the number of weft_code

    def __init__(self, message: str, *, text: str = "", operation: str = "", hint: str = "", rank: int = -1,
                 peer: int = -1, host: str = "", slot: str = "", sequence_expected: int = 0,
                 sequence_seen: int = 0) -> None:
        super().__init__(text or (f"{operation}: " if operation else "") + message + (f" ({hint})" if hint else ""))
        self.operation = operation  #: the operation that failed: "put", "attach", "join"
        self.message = message  #: the event, with both sides' values if two sides disagree
        self.hint = hint  #: a remedy to try
        self.rank = rank  #: the rank that reports the failure
        self.peer = peer  #: the rank at fault or waited for
        self.host = host  #: the peer's host
        self.slot = slot  #: the slot concerned
        self.sequence_expected = sequence_expected  #: waits: the sequence number waited for
        self.sequence_seen = sequence_seen  #: waits: the last sequence number seen

    def within(self, operation: str) -> Error:
        """The same failure of a call that is made of others."""
        return type(self)(self.message, text=str(self).replace(self.operation, operation, 1), operation=operation,
                          hint=self.hint, rank=self.rank, peer=self.peer, host=self.host, slot=self.slot,
                          sequence_expected=self.sequence_expected, sequence_seen=self.sequence_seen)


class Timeout(Error, TimeoutError):
    """The deadline passed; the operation is still alive."""


class UnderWay(Timeout):
    """The deadline passed while a tensor was on its way: the put goes on, and its memory stays lent to weft."""


class PeerFailed(Error):
    """A peer died without leaving."""


class PeerLeft(Error):
    """A peer left the job in order, and this operation still needed it."""


class Closed(Error):
    """The other end closed the slot, signal, rendezvous or publication; or this handle is closed."""


class Mismatch(Error):
    """The two ends disagree: dtype, shape, depth or flow; calls; versions."""


class DuplicateName(Error):
    """This rank already exposes a slot or signal of that name."""


class WriterTaken(Error):
    """The slot already has its one writer."""


class BadArgument(Error, ValueError):
    """The call itself is wrong."""


class BadConfig(Error, ValueError):
    """A WEFT_* variable or an option has a value that is not accepted."""


class Exhausted(Error):
    """Memory, descriptors or a queue are used up."""


class Unreachable(Error):
    """No fabric reaches the peer."""


class FlowOverrun(Error):
    """WEFT_CHECK=flow saw a synchronous slot overtake its reader."""


class Cancelled(Error):
    """The request was cancelled."""


class Bootstrap(Error):
    """The ranks could not exchange their addresses."""


class System(Error):
    """The operating system refused; the message has its reason."""


class Forked(Error):
    """This process is a fork of a rank's process and is not a rank."""


class PathFailed(Error):
    """The connection to a peer broke; the peer itself may still be alive."""


class Fenced(Error):
    """Other ranks have declared this one dead; it takes no part any more."""


class Partitioned(Error):
    """This rank was cut off from most of its group, which goes on without it."""


def _class_of_code() -> dict[int, type[Error]]:
    """The classes by code: each is named as its code is."""
    classes = {}
    for number, name in ffi.typeof("weft_code").elements.items():
        if number == 0:
            continue
        found = globals().get("".join(part.capitalize() for part in name[len("WEFT_CODE_"):].split("_")))
        # A libweft that is newer than this file has codes without a class.
        classes[number] = found if found is not None else type(name, (Error,), {})
        classes[number].code = number
    return classes


CLASSES: dict[int, type[Error]] = _class_of_code()


def text(value: Any) -> str:
    """A C text as str."""
    found: bytes = ffi.string(value)
    return found.decode("utf-8", "replace")


def c_text(value: str) -> bytes:
    """A str as a C text."""
    if "\0" in value:
        raise bad_argument("", f"{value!r} has a NUL character, where a text of C ends", "leave it out")
    return value.encode()


def last_error(code: int) -> Error:
    """The exception of this thread's last failing call, which has returned `code`."""
    detail = ffi.new("weft_error*")
    detail.struct_size = ffi.sizeof("weft_error")
    lib.weft_last_error(detail)
    return CLASSES.get(code, Error)(
        text(detail.message), text=text(lib.weft_error_text()), operation=text(detail.operation),
        hint=text(detail.hint), rank=detail.rank, peer=detail.peer, host=text(detail.host), slot=text(detail.slot),
        sequence_expected=detail.sequence_expected, sequence_seen=detail.sequence_seen)


def raise_last(code: int) -> NoReturn:
    raise last_error(code)


def check(code: int) -> None:
    """Raises the failure of a call that has returned `code`."""
    if code:
        raise last_error(code)


def bad_argument(operation: str, message: str, hint: str = "") -> BadArgument:
    return BadArgument(message, operation=operation, hint=hint)
