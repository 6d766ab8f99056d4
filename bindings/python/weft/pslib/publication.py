"""Publications: a rank publishes versions of tensors; readers outside the job join by a token and take the newest."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from .. import _dtypes, _memory, _waits
from .._handles import Hold, Node, Owner, Use
from .._memory import Tensor
from .._native import ffi, lib
from ..errors import bad_argument, c_text, check, text
from ..world import int_from, text_from
from .options import sized

if TYPE_CHECKING:
    from ..world import World


@dataclass(frozen=True)
class PublishedTensor:
    """One tensor of a publication."""

    name: str
    shape: Any
    dtype: Any = "f32"


@dataclass(frozen=True)
class PublicationStatistics:
    """Counters of one publication since its creation."""

    version: int  #: the newest version; 0: none yet
    full_bytes: int  #: bytes of one complete version
    rows_changed: int  #: rows that changed in the newest version
    bytes_copied: int  #: into the publication's buffers
    full_sent: int  #: answers with all rows
    deltas_sent: int  #: answers with changed rows only
    full_bytes_sent: int  #: payload of the answers with all rows
    delta_bytes_sent: int  #: payload of the answers with changed rows only
    revoked: int  #: answers restarted because their version was overwritten
    subscribers: int  #: that read the publication now


@dataclass(frozen=True)
class ReaderStatistics:
    """Counters of one reader since it joined."""

    full_taken: int  #: versions received with all rows
    deltas_taken: int  #: versions received as changed rows
    bytes_received: int  #: payload
    bytes_copied: int  #: from one of its buffers to the other
    begun_anew: int  #: versions overwritten before they had arrived completely


def _statistics(kind: str, into: Any, call: Any, pointer: Any) -> Any:
    out = sized(kind)
    check(call(pointer, out))
    return into(**{name: getattr(out, name) for name in into.__dataclass_fields__})


def _options(kind: str, address: str | None, token_file: str | os.PathLike[str] | None, held: list[Any]) -> Any:
    options = sized(kind)
    if address is not None:
        held.append(ffi.new("char[]", c_text(address)))
        options.address = held[-1]
    if token_file is not None:
        held.append(ffi.new("char[]", c_text(os.fspath(token_file))))
        options.token_file = held[-1]
    return options


class Publisher(Owner):
    """Accepts subscribers, at `address` (WEFT_SUBSCRIBE_ADDR) and by the token in `token_file`
    (WEFT_SUBSCRIBE_TOKEN_FILE). Any thread."""

    def __init__(self, world: World, *, address: str | None = None, token_file: str | os.PathLike[str] | None = None,
                 most_subscribers: int = 0) -> None:
        held: list[Any] = []
        options = _options("weft_publisher_options", address, token_file, held)
        options.most_subscribers = most_subscribers
        out = ffi.new("weft_publisher**")
        check(lib.weft_publisher_open(world._pointer("publisher"), options, out))
        self._world = world
        self._node = Node(out[0], lib.weft_publisher_close, world._node, name="the publisher")

    def publication(self, name: str, tensors: Sequence[PublishedTensor], *, buffers: int = 0, history: int = 0,
                    deltas: bool = True) -> Publication:
        """Creates a publication of these tensors."""
        held: list[Any] = []
        array = ffi.new("weft_published_tensor[]", len(tensors))
        for place, spec in enumerate(tensors):
            named, dims = ffi.new("char[]", c_text(spec.name)), _memory.dims_of(spec.shape, "publication")
            held += [named, dims]
            array[place].struct_size = ffi.sizeof("weft_published_tensor")
            array[place].name, array[place].dims, array[place].ndims = named, dims, len(dims)
            array[place].dtype = _dtypes.number_of(spec.dtype, "publication")
        options = sized("weft_publication_options")
        options.buffers, options.history, options.no_deltas = buffers, history, not deltas
        out = ffi.new("weft_publication**")
        check(lib.weft_publication_open(self._pointer("publication"), c_text(name), array, len(array), options, out))
        return Publication(self, out[0], tensors)

    @property
    def address(self) -> str:
        """The addresses at which subscribers connect, separated by commas."""
        return text_from(lib.weft_publisher_address, self._pointer("address"))

    @property
    def subscribers(self) -> int:
        return int_from(lib.weft_publisher_subscribers, self._pointer("subscribers"))

    @property
    def rejected_connections(self) -> int:
        return int_from(lib.weft_publisher_rejected_connections, self._pointer("rejected_connections"),
                        kind="uint64_t*")

    def leave(self, timeout: float | None = None) -> None:
        """Accepts no more subscribers, gives each the newest version at its next request, then tells it that the
        publisher has left. Returns when all have gone."""
        pointer = self._pointer("leave")
        _waits.on_thread(lambda: check(lib.weft_publisher_leave(pointer, _waits.seconds(timeout))))


class Publication(Owner):
    """A named set of tensors whose versions subscribers take."""

    def __init__(self, publisher: Publisher, pointer: Any, tensors: Sequence[PublishedTensor]) -> None:
        """Not for users: call Publisher.publication()."""
        self._publisher = publisher
        self.tensors = tuple(tensors)
        self._node = Node(pointer, lib.weft_publication_close, publisher._node, name="the publication")

    def publish(self, values: Sequence[Any] | Mapping[str, Any], step: int = 0) -> None:
        """Publishes the arrays, in the order of the tensors or by their names, as the next version. They are copied
        before it returns. `step` is any number of the caller's. Never waits for a subscriber."""
        if isinstance(values, Mapping):
            lacking = [spec.name for spec in self.tensors if spec.name not in values]
            if lacking:
                raise bad_argument("publish", f"no array for {', '.join(lacking)}", "give one for each tensor")
            values = [values[spec.name] for spec in self.tensors]
        tensors, handles = _memory.tensor_list(values, "publish")
        with Use(self._node.line, "publish"):
            check(lib.weft_publication_publish(self._pointer("publish"), handles, len(tensors), step))

    @property
    def version(self) -> int:
        """The newest version, counted from 1; 0 before the first."""
        return int_from(lib.weft_publication_version, self._pointer("version"), kind="uint64_t*")

    @property
    def statistics(self) -> PublicationStatistics:
        found: PublicationStatistics = _statistics("weft_publication_statistics", PublicationStatistics,
                                                   lib.weft_publication_get_statistics, self._pointer("statistics"))
        return found


class Reader(Owner):
    """A reader of a publication: Reader.join(). It needs no world and no launcher. One thread at a time.

    After PeerFailed or PeerLeft a reader is unusable: join again."""

    def __init__(self, pointer: Any) -> None:
        """Not for users: call Reader.join()."""
        self._node = Node(pointer, lib.weft_reader_close, None, name="the reader")
        self._into: list[Tensor] = []
        self.tensors = self._specs()

    @staticmethod
    def join(name: str, *, address: str | None = None, token_file: str | os.PathLike[str] | None = None,
             timeout: float | None = None) -> Reader:
        """Waits until a publisher has a publication of that name, and subscribes."""
        held: list[Any] = []
        options = _options("weft_reader_options", address, token_file, held)
        named = c_text(name)

        def call() -> Any:
            out = ffi.new("weft_reader**")
            check(lib.weft_reader_join(named, options, _waits.seconds(timeout), out))
            return out[0]

        return Reader(_waits.on_thread(call, lib.weft_reader_close))

    def _specs(self) -> tuple[PublishedTensor, ...]:
        count = int_from(lib.weft_reader_tensors, self._node.pointer, kind="size_t*")
        found = []
        for place in range(count):
            spec = sized("weft_published_tensor")
            check(lib.weft_reader_tensor_at(self._node.pointer, place, spec))
            found.append(PublishedTensor(text(spec.name), tuple(spec.dims[0:spec.ndims]), _dtypes.NAMES[spec.dtype]))
        return tuple(found)

    def receive_into(self, arrays: Sequence[Any]) -> None:
        """Receives versions in place into arrays, one for each of the publication's tensors, in their order. Before the
        first pull."""
        self._into = [_memory.tensor_of(array, "receive_into", writable=True) for array in arrays]
        handles = ffi.new("weft_tensor*[]", [tensor._handle for tensor in self._into])
        check(lib.weft_reader_receive_into(self._pointer("receive_into"), handles, len(handles)))

    def pull_latest(self, timeout: float | None = None) -> None:
        """Takes the newest version if it is newer than the last pulled. Waits only while there is no version at all."""
        self._pull(lib.weft_reader_pull_latest, timeout)

    def pull_newer(self, timeout: float | None = None) -> None:
        """The same, but waits until there is a newer version. After Timeout the next call resumes."""
        self._pull(lib.weft_reader_pull_newer, timeout)

    def _pull(self, call: Any, timeout: float | None) -> None:
        if timeout is not None:
            with Use(self._node.line, "pull"):
                pointer = self._pointer("pull")
                check(_waits.in_parts(lambda seconds: call(pointer, seconds), timeout, timeout))
            return

        # The reader's own limit is known to C alone. After Ctrl-C the reader is in use until the call ends.
        def pull() -> None:
            with Use(self._node.line, "pull"):
                check(call(self._pointer("pull"), -1.0))

        _waits.on_thread(pull)

    @property
    def version(self) -> int:
        """The version that was pulled last; 0 before the first pull."""
        return int_from(lib.weft_reader_version, self._pointer("version"), kind="uint64_t*")

    @property
    def step(self) -> int:
        """The `step` that the publisher gave that version."""
        return int_from(lib.weft_reader_step, self._pointer("step"), kind="uint64_t*")

    @property
    def whole(self) -> bool:
        """True if the tensors hold one complete version."""
        return bool(int_from(lib.weft_reader_whole, self._pointer("whole")))

    def tensor(self, name: str) -> Tensor:
        """A tensor of the last version, read-only: unchanged during the next pull and until the one after it begins.
        A reader that is closed goes when its last tensor does."""
        out = ffi.new("weft_tensor**")
        check(lib.weft_reader_tensor(self._pointer("tensor"), c_text(name), out))
        return _memory.Lent(out[0], Hold(self._node))

    def array(self, name: str) -> Any:
        """The same as a numpy array."""
        return self.tensor(name).array

    @property
    def statistics(self) -> ReaderStatistics:
        found: ReaderStatistics = _statistics("weft_reader_statistics", ReaderStatistics,
                                              lib.weft_reader_get_statistics, self._pointer("statistics"))
        return found

