"""Messages: tensors sent to a rank, which receives them by source and tag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generator, NamedTuple, Sequence, Union

from . import _memory, _waits
from ._dtypes import NAMES
from ._handles import Line, Lock, Node, Owner, Use, busy
from ._memory import Tensor
from ._native import ffi, lib
from ._waits import PART, TIMEOUT
from .errors import Error, bad_argument, check, last_error
from .slot import Waitable
from .world import int_from

if TYPE_CHECKING:
    from .world import World

#: As the source of a receive: any rank.
ANY_SOURCE: int = lib.WEFT_ANY_SOURCE
#: A tag with the mask of the bits that count: `(value, mask)`.
Tag = Union[int, "tuple[int, int]"]
#: Every tag.
ANY_TAG: Tag = (0, 0)

_EXACT: int = lib.WEFT_EXACT_TAG
_send = lib.weft_python_send
_recv = lib.weft_python_recv


class MessageInfo(NamedTuple):
    """A message as its receive reports it."""

    source: int  #: the sender's rank
    tag: int
    bytes: int  #: size of the message; the receive's array may be larger
    dtype: str  #: element type of what was sent: "f32"


def _info() -> Any:
    info = ffi.new("weft_message_info*")
    info.struct_size = ffi.sizeof("weft_message_info")
    return info


def _told(info: Any) -> MessageInfo:
    return MessageInfo(info.source, info.tag, info.bytes, NAMES[info.dtype])


class Messages:
    """Sends and receives between any two ranks: World.messages. A message is the elements of one array and a tag. It is
    received into an array of the same element type, or of uint8, which takes the bytes of any.

    A receive takes the tags that equal its own, or, by a pair (value, mask), those that equal `value` in every bit of
    `mask`. Of several that match from one rank, it takes the one that was sent first. Messages make progress only
    inside calls that wait or test. One thread of a world at a time; another's call raises BadArgument."""

    def __init__(self, world: World) -> None:
        self._world = world
        lock = Lock()
        self._flag = lock.flag
        self._line = Line(lock)
        self._keep_report(_info()[0])
        self._begun = ffi.new("weft_message_request**")
        self._sent = _memory.Last("send")
        self._filled = _memory.Last("recv", writable=True)

    def send(self, to: int, tag: int, tensor: Any, timeout: float | None = None) -> None:
        """Sends an array and returns when it may be written again. After Timeout it goes on by itself if the receiver
        knows of it already; its memory is kept until then."""
        pair = self._sent.pair
        if tensor is not pair[0]:
            pair = self._sent.take(tensor)
        code = _send(self._flag, self._world._node.pointer, to, tag, pair[1]._handle, self._begun)
        if code:
            self._send_on(code, timeout)
        if self._line.waiting:
            self._line.free_waiting()

    def _send_on(self, code: int, timeout: float | None) -> None:
        if code == -1:
            raise busy("send")
        if code > 0:
            self._world._pointer("message")
            raise last_error(code)
        try:
            MessageRequest(self, self._begun[0])._wait_held(timeout)
        finally:
            self._flag[0] = 0
            self._line.free_waiting()

    def isend(self, to: int, tag: int, tensor: Any) -> MessageRequest:
        """The same without waiting: the array is lent to weft until the request has ended."""
        found = _memory.tensor_of(tensor, "send")
        with Use(self._line, "send"):
            return self._begin(lib.weft_message_isend, to, tag, found._handle)

    def recv(self, source: int, tag: Tag, into: Any, timeout: float | None = None) -> MessageInfo:
        """Receives a message into the first bytes of `into`. Mismatch: it is larger, or of another element type, and
        was dropped."""
        pair = self._filled.pair
        if into is not pair[0]:
            pair = self._filled.take(into)
        if type(tag) is not int:
            return self._recv_masked(source, tag, pair[1], timeout)
        box, report = self._known
        code = _recv(box, self._world._node.pointer, source, tag, pair[1]._handle,
                     PART if timeout is None or timeout > PART else _waits.given(timeout))
        if code:
            report = self._recv_rest(code, box, source, tag, pair[1], timeout)
        if self._line.waiting:
            self._line.free_waiting()
        return report

    def _recv_rest(self, code: int, box: Any, source: int, tag: int, into: Tensor,
                   timeout: float | None) -> MessageInfo:
        if code == -1:
            raise busy("recv")
        try:
            if code > 0:
                return self._recv_on(code, source, tag, _EXACT, into, timeout)
            return self._keep_report(box.came)
        finally:
            self._flag[0] = 0
            self._line.free_waiting()

    def _keep_report(self, info: Any) -> MessageInfo:
        """The report of this message and of those alike."""
        box = ffi.new("weft_python_mailbox*", (self._flag, info))
        report = _told(info)
        self._known = box, report
        return report

    def _recv_masked(self, source: int, tag: Tag, into: Tensor, timeout: float | None) -> MessageInfo:
        value, mask = tag if isinstance(tag, tuple) else (tag, _EXACT)
        info = _info()
        with Use(self._line, "recv"):
            code = lib.weft_message_recv(self._world._pointer("recv"), source, value, mask, into._handle,
                                         _waits.first_part(timeout), info)
            return self._recv_on(code, source, value, mask, into, timeout) if code else _told(info)

    def _recv_on(self, code: int, source: int, value: int, mask: int, into: Tensor,
                 timeout: float | None) -> MessageInfo:
        if code != TIMEOUT or (timeout is not None and timeout <= PART):
            raise last_error(code)
        request = self._begin(lib.weft_message_irecv, source, value, mask, into._handle)
        left = (self._world.timeout if timeout is None else _waits.given(timeout)) - PART
        try:
            return request._wait_held(max(left, 0.0))
        except BaseException:
            # A receive that waits no longer takes no message.
            lib.weft_message_request_cancel(request._node.pointer)
            raise

    def irecv(self, source: int, tag: Tag, into: Any) -> MessageRequest:
        """The same without waiting: `into` is lent to weft until the request has ended. Dropping the request cancels a
        receive that no message has matched."""
        found = _memory.tensor_of(into, "recv", writable=True)
        value, mask = tag if isinstance(tag, tuple) else (tag, _EXACT)
        with Use(self._line, "recv"):
            return self._begin(lib.weft_message_irecv, source, value, mask, found._handle)

    def sendrecv(self, to: int, tag: int, tensor: Any, source: int, source_tag: Tag, into: Any,
                 timeout: float | None = None) -> MessageInfo:
        """Sends and receives at once, so that ranks which exchange don't wait for each other's receive."""
        _waits.seconds(timeout)
        try:
            sent = self.isend(to, tag, tensor)
            info = self.recv(source, source_tag, into, timeout)
            sent.wait(timeout)
        except Error as error:
            raise error.within("sendrecv") from None
        return info

    def probe(self, source: int, tag: Tag, timeout: float | None = None) -> MessageInfo:
        """Waits for a message that recv() would take, and leaves it in place."""
        value, mask = tag if isinstance(tag, tuple) else (tag, _EXACT)
        info = _info()
        with Use(self._line, "probe"):
            pointer = self._world._pointer("probe")
            check(_waits.in_parts(lambda seconds: lib.weft_message_probe(pointer, source, value, mask, seconds, info),
                                  timeout, self._world.timeout))
        return _told(info)

    def iprobe(self, source: int, tag: Tag) -> MessageInfo | None:
        """The message that probe() would return at once; None if there is none."""
        value, mask = tag if isinstance(tag, tuple) else (tag, _EXACT)
        info, found = _info(), ffi.new("int*")
        with Use(self._line, "probe"):
            check(lib.weft_message_iprobe(self._world._pointer("probe"), source, value, mask, info, found))
        return _told(info) if found[0] else None

    def wait_all(self, requests: Sequence[MessageRequest], timeout: float | None = None) -> None:
        """Waits for all requests to end and raises the first failure in their order."""
        pointers = ffi.new("weft_message_request*[]", [request._pointer("wait_all") for request in requests])
        with Use(self._line, "wait_all"):
            pointer = self._world._pointer("wait_all")
            check(_waits.in_parts(lambda seconds: lib.weft_message_wait_all(pointer, pointers, len(pointers), seconds),
                                  timeout, self._world.timeout))

    def wait_any(self, requests: Sequence[MessageRequest], timeout: float | None = None) -> int:
        """Waits for one of the requests to end and returns its index."""
        if not requests:
            raise bad_argument("wait_any", "no requests", "give at least one")
        pointers = ffi.new("weft_message_request*[]", [request._pointer("wait_any") for request in requests])
        out = ffi.new("size_t*")
        with Use(self._line, "wait_any"):
            pointer = self._world._pointer("wait_any")
            check(_waits.in_parts(
                lambda seconds: lib.weft_message_wait_any(pointer, pointers, len(pointers), seconds, out), timeout,
                self._world.timeout))
        return int(out[0])

    def _begin(self, call: Any, *arguments: Any) -> MessageRequest:
        out = ffi.new("weft_message_request**")
        check(call(self._world._pointer("message"), *arguments, out))
        return MessageRequest(self, out[0])


class MessageRequest(Owner, Waitable):
    """A send or receive that is under way."""

    def __init__(self, messages: Messages, pointer: Any) -> None:
        self._messages = messages
        self._world = messages._world
        self._node = Node(pointer, lib.weft_message_request_free, self._world._node, messages._line, "the request")

    def test(self) -> bool:
        """True if the operation has ended, well or not. Never blocks; makes progress."""
        with Use(self._node.line, "test"):
            return bool(int_from(lib.weft_message_request_test, self._pointer("test")))

    def wait(self, timeout: float | None = None) -> MessageInfo:
        """Waits for the operation's end and raises its failure. Timeout leaves it under way, and its memory lent."""
        with Use(self._node.line, "wait"):
            return self._wait_held(timeout)

    def _wait_held(self, timeout: float | None) -> MessageInfo:
        info = _info()
        pointer = self._pointer("wait")
        code = lib.weft_message_request_wait(pointer, _waits.first_part(timeout), info)
        if code:
            check(_waits.rest(lambda seconds: lib.weft_message_request_wait(pointer, seconds, info), timeout,
                              self._world.timeout, code))
        return _told(info)

    def cancel(self) -> None:
        """Cancels a receive that no message has matched, or a send that has not left this rank. BadArgument: wait for
        it instead."""
        with Use(self._node.line, "cancel"):
            code = lib.weft_message_request_cancel(self._pointer("cancel"))
            if code != lib.WEFT_CODE_CANCELLED:
                check(code)

    async def ended(self, timeout: float | None = None) -> MessageInfo:
        """wait() for asyncio."""
        await self._wait_in_loop(self.test, timeout)
        return self.wait(0.0)

    def __await__(self) -> Generator[Any, None, MessageInfo]:
        return self.ended().__await__()
