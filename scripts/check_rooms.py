#!/usr/bin/env python3
"""Reports every include that points to a higher room, every folder that is no known room, and every header of a C
library that is included outside its seam.

A room is a folder. The list below orders them, lowest first: a room may include itself and the rooms before it,
which excludes cycles. Run the script in the repository's root."""
import os
import re
import sys

ORDER = """
base/os base base/stats base/kernels
runtime/dataflow/graph
topology/parse topology/model topology/import topology/discover/hwloc topology/discover topology/select
topology/placement topology/json topology/render topology/doctor topology/tool
p2p/progress p2p/memory p2p/transport/cuda/api p2p/transport/address p2p/transport/auth p2p/transport p2p/transport/cuda/kernels p2p/transport/cuda p2p/transport/wireup
p2p/transport/shm p2p/transport/tcp p2p/transport/verbs/api p2p/transport/verbs/device p2p/transport/verbs/cm
p2p/transport/verbs p2p/mesh p2p/slot/attach p2p/slot/put p2p/slot/published p2p/slot p2p/message p2p/rendezvous p2p/signal
p2p/transport/sim p2p/transport/verbs/fake
runtime/bootstrap runtime/bootstrap/token runtime/collective runtime/health runtime/subscribe runtime/world
runtime/dataflow/execute
runtime/tool/tune runtime/tool/gpu runtime/tool runtime/tool/chaos runtime/tool/status runtime/tool/trace
pslib/replication pslib/compression pslib/optimizer pslib/checkpoint pslib/insight pslib/table pslib/bsp
pslib/async pslib/sparse pslib/publication pslib pslib/graph
bindings/c bindings/c/include bindings/c/include/weft/c bindings/onednn/include/weft bindings/onednn
""".split()
# The top: separate programs, which do not include each other.
TOPS = {
    "mpirun_examples": None,
    "benchmarks": """benchmarks/python benchmarks/harness benchmarks/limits benchmarks/workloads benchmarks/driver
                     benchmarks/output benchmarks/convergence benchmarks/experiments benchmarks""".split(),
}
# Rooms of one kind that must not include each other: their shared code belongs in a room below all of them.
APART = [
    ["p2p/transport/shm", "p2p/transport/tcp", "p2p/transport/verbs"],
    ["p2p/slot/put", "p2p/slot/published"],
    ["p2p/message", "p2p/rendezvous", "p2p/signal"],
    ["pslib/bsp", "pslib/async", "pslib/sparse"],
]
SEAMS = {
    "pmix.h": "runtime/bootstrap/",
    "expat.h": "topology/import/",
    "hwloc.h": "topology/discover/hwloc/",
    "infiniband/verbs.h": "p2p/transport/verbs/api/",
    "cuda.h": "p2p/transport/cuda/",
    "dnnl.hpp": "bindings/onednn/",
    "mpi.h": "benchmarks/peers/",
}
PEERS = "benchmarks/peers/"  # separate programs, with any includes
HEIGHT = {room: i for i, room in enumerate(ORDER)}
INCLUDE = re.compile(r'\s*#\s*include\s*["<]([^">]+)[">]')


def top(folder):
    return folder.split("/")[0]


def family(folder):
    for group in APART:
        for member in group:
            if folder == member or folder.startswith(member + "/"):
                return id(group), member
    return None, None


def fault(file, header):
    """Why `file` may not include `header`, or None."""
    here, there = os.path.dirname(file), os.path.dirname(header)
    if file.startswith(PEERS) or top(here) == "tests":
        return None
    if header in SEAMS and not file.startswith(SEAMS[header]):
        return f"only {SEAMS[header]} may include <{header}>"
    if here == there or not os.path.exists(header):
        return None
    if top(here) == "include":
        return None if top(there) == "include" else "public headers include only weft/ and the standard library"
    if top(there) == "tests":
        return "only tests include tests"
    inner = TOPS.get(top(here))
    if top(there) in TOPS:
        if top(there) != top(here):
            return f"{top(here)} is below or beside {top(there)}"
        if inner and inner.index(there) > inner.index(here):
            return f"{here} is below {there}"
        return None
    if top(here) in TOPS:
        return None
    if HEIGHT[there] > HEIGHT[here]:
        return f"{here} is below {there}"
    group, member = family(here)
    other_group, other = family(there)
    if group is not None and group == other_group and member != other:
        return f"{member} and {other} must not include each other"
    return None


def main():
    broken = 0
    for file in sys.stdin.read().split():
        folder = os.path.dirname(file)
        known = (folder in HEIGHT or top(folder) in ("include", "tests") or file.startswith(PEERS)
                 or (top(folder) in TOPS and folder in (TOPS[top(folder)] or [folder])))
        if not known:
            print(f"{file}: {folder} is no room that scripts/check_rooms.py knows")
            broken = 1
            continue
        with open(file, encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                match = INCLUDE.match(line)
                why = match and fault(file, match.group(1))
                if why:
                    print(f'{file}:{number}: includes "{match.group(1)}": {why}')
                    broken = 1
    return broken


if __name__ == "__main__":
    sys.exit(main())
