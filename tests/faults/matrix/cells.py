"""The cells of the matrix, and the expected outcome of each."""

import dataclasses
import itertools

OPERATIONS = ("put", "get", "dynamic", "rendezvous", "push_pull")
SIZES = (8, 1 << 20, 64 << 20)
FAULTS = ("kill", "stop", "term", "exit")
LINK_FAULTS = ("cut", "back")  # of the victim's host; back: for less than DEAD_AFTER_S
PASSING_FAULTS = ("pause",)  # stopped for less than DEAD_AFTER_S, then continued
MOMENTS = ("bootstrap", "before", "during", "after")
INSIDE = "inside"  # the copy of a tensor, or its way by TCP, between two pieces of it: of tensors that have several
# Within the TCP transfer the rank holds the connection that exit() would use to report the end.
INSIDE_FAULTS = {1: ("kill", "stop", "term", "exit", "pause"), 2: ("kill", "stop", "term", "pause")}

RANKS = 3
DEAD_AFTER_S = 1.0
INIT_TIMEOUT_S = 4.0
LARGE_S = 2.0  # a rank that copies the largest tensors ends these copies before it looks around
EXIT_STATUS = 7  # of a rank whose fault is an exit
SEEN_HERE_S = 0.1  # from the fault until a rank of the victim's host has seen its end
SEEN_THERE_S = 1.0  # one of another host
LINKED_RUN_S = 30.0  # of the ranks that nothing ends


@dataclasses.dataclass(frozen=True)
class Cell:
    """On one host; or rank 0 on another one, reached over TCP, than the ranks 1 and 2."""

    operation: str
    bytes: int
    fault: str
    moment: str
    hosts: int = 1

    @property
    def victim(self):
        return 0 if self.fault in LINK_FAULTS else 1

    def is_near(self, rank):
        """Whether the rank is on the victim's host."""
        return self.hosts == 1 or (rank > 0) == (self.victim > 0)

    def arguments(self):
        return [self.operation, str(self.bytes), self.fault, self.moment]

    def __str__(self):
        return " ".join([*self.arguments(), "shm" if self.hosts == 1 else "tcp"])


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The expected outcome of each survivor, and of the victim."""

    codes: tuple  # one of these
    within_s: float  # from the fault on
    says: tuple  # in the text of each error
    one_says: str  # in the text of one error at least
    victim_exit: int


def seen_within_s(cell, rank, full):
    """How soon after the fault the rank must have seen the victim's end; None: that doesn't matter. A process with the
    largest tensors takes the system a while to end, which only the full matrix, on a quiet machine, is strict about."""
    if cell.moment in ("bootstrap", "after") or cell.fault in ("back", *PASSING_FAULTS):
        return None
    if cell.fault in ("stop", "cut"):
        return DEAD_AFTER_S + 2
    strict = full or cell.bytes != SIZES[-1]
    return SEEN_HERE_S if strict and cell.is_near(rank) else SEEN_THERE_S


def outcome(cell, ends_s):
    """`ends_s`: how soon after the death of a rank the others must have ended."""
    victim_exit = {"kill": 137, "stop": 137, "term": 143, "exit": EXIT_STATUS, "cut": 3, "back": 0, "pause": 0}[cell.fault]
    if cell.moment == "bootstrap":
        # The others know of a rank that has not joined only that it is missing.
        says = (f"rank {cell.victim}", "WEFT_INIT_TIMEOUT")
        return Outcome(("timeout",), INIT_TIMEOUT_S + 3, says, "", victim_exit)
    if cell.fault in ("back", *PASSING_FAULTS):
        return Outcome(("ok",), LINKED_RUN_S, (), "", victim_exit)
    within = DEAD_AFTER_S + 2 if cell.fault in ("stop", "cut") else ends_s
    if cell.bytes == SIZES[-1]:
        within += LARGE_S
    if cell.moment == "after":
        return Outcome(("ok",), within, (), "", victim_exit)
    code = "peer_left" if cell.fault == "exit" else "peer_failed"
    says = (f"rank {cell.victim} (host ",)
    if cell.fault == "term":
        says += ("was ended by SIGTERM",)
    if cell.fault == "exit":
        says += (f"has left the job by exit({EXIT_STATUS})",)
    # The rank that gives another up states the cause; the others may see only that the rank was killed then, or that a
    # third rank left because of it.
    one_says = {"stop": "stopped for", "kill": "died without leaving", "cut": "silent for"}.get(cell.fault, "")
    return Outcome((code,), within, says, one_says if cell.hosts == 1 or cell.fault == "cut" else "", victim_exit)


def all_cells(hosts):
    # Before a rank has joined, the operation does not matter.
    for fault in FAULTS:
        yield Cell("put", 8, fault, "bootstrap", hosts)
    for moment, fault, operation, size in itertools.product(MOMENTS[1:], FAULTS, OPERATIONS, SIZES):
        yield Cell(operation, size, fault, moment, hosts)
    for fault, operation, size in itertools.product(PASSING_FAULTS, OPERATIONS, SIZES):
        yield Cell(operation, size, fault, "during", hosts)
    for fault, operation, size in itertools.product(INSIDE_FAULTS[hosts], OPERATIONS, SIZES[1:]):
        yield Cell(operation, size, fault, INSIDE, hosts)
    if hosts > 1:
        for moment, fault, operation, size in itertools.product(MOMENTS[1:3], LINK_FAULTS, OPERATIONS, SIZES):
            yield Cell(operation, size, fault, moment, hosts)


def quick_cells(hosts):
    """Every fault at every moment, with operations and sizes in turn: on one host each twice."""
    for fault in FAULTS if hosts == 1 else FAULTS[:1]:
        yield Cell("put", 8, fault, "bootstrap", hosts)
    turn = 0
    for moment, fault in itertools.product(MOMENTS[1:], FAULTS):
        for _ in range(2 if hosts == 1 else 1):
            yield Cell(OPERATIONS[turn % 5], SIZES[turn // 5 % 3], fault, moment, hosts)
            turn += 1
    # Each fault within a copy meets another operation.
    for operation, fault in zip(OPERATIONS, INSIDE_FAULTS[hosts]):
        yield Cell(operation, SIZES[1], fault, INSIDE, hosts)
    # A rank's last notice about its own end must not queue behind the data that it sends.
    for fault in ("term", "exit") if hosts > 1 else ():
        yield Cell("put", SIZES[2], fault, "during", hosts)
    for fault in LINK_FAULTS if hosts > 1 else ():
        yield Cell(OPERATIONS[turn % 5], SIZES[1], fault, "during", hosts)
        turn += 1
