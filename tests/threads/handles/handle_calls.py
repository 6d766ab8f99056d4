"""Every public function of every handle of the headers is in the table of calls.

Usage: handle_calls.py INCLUDE_FOLDER SOURCES_OF_THE_TABLE...

A class of the headers is a handle, whose functions are in the table, or a value, which is named here: it owns its whole
state, and no world, rank or other object can go before it. Functions that take a world make or use handles.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "unit" / "c_binding"))
import public_members  # noqa: E402

HANDLES = {"World", "Slot", "RemoteSlot", "Arrival", "Request", "PublishedSlot", "PublishedReader", "Signal",
           "RemoteSignal", "Group", "Collectives", "Plan", "Messages", "MessageRequest", "Rendezvous",
           "ParameterServer", "Table", "SparseTable", "Publisher", "Publication", "Reader", "Executor",
           "VariableCheckpoints", "TableVariables", "TracingAllocator"}
VALUES = {"Attributes", "bf16", "Clock", "Compression", "Consistency", "Deadline", "Definition", "Definitions", "Error", "f16",
          "ErrorDetail", "ExecutorReport", "Graph", "Kernels", "Memory", "MemoryNeed", "Optimizer", "PartialShape",
          "ParameterView", "Received", "ReduceOp", "Result", "Schedule", "Shape", "Status", "Stream", "TableOptions",
          "Tag", "Tensor", "TensorId", "TensorType", "TracingReport",
          # Given to functions of the user's for the time of a call, or written by the user.
          "Codec", "GradientBuilder", "Inference", "KernelCall", "Rule", "Storage"}
# dataflow::Plan is a value, Plan of a collective a handle.
VALUES_BY_SCOPE = {"weft::dataflow::Plan"}
# Makes the first world, so there is none before it; and a subscriber, which needs none.
WITHOUT_A_WORLD = {"World::join()", "World::join(options)", "Reader::join(name, options, deadline)"}


def calls(header):
    for member in public_members.members(header.read_text()):
        scope, call = member.split("(", 1)[0], member
        if "(" not in member:
            continue  # a field, or a value of an enumeration
        scopes = scope.split("::")
        owner, name = "::".join(scopes[:-1]), scopes[-1]
        short = scopes[-2]
        parameters = call[call.index("("):]
        if short in ("weft", "dataflow", "pslib"):
            if "world" in parameters:
                yield f"{name}{parameters}"
            continue
        if owner in VALUES_BY_SCOPE or short in VALUES:
            continue
        if short not in HANDLES:
            sys.exit(f"{header.name}: is {owner} a handle or a value? name it in handle_calls.py")
        yield f"{short}::{name}{parameters}"


def main():
    folder, *sources = map(pathlib.Path, sys.argv[1:])
    declared = {call for header in sorted(folder.glob("*.hpp")) for call in calls(header)} - WITHOUT_A_WORLD
    text = re.sub(r'"\s*\n\s*"', "", "\n".join(source.read_text() for source in sources))
    names = re.findall(r'\{"([^"]+)",\s*Answer::', text)
    # Calls that take a handle have its type in front.
    taking = re.compile(r"^(?:World|Executor)::(\w+::\w+\(.*|load_variables\(.*)$")
    tried = {taking.sub(r"\1", name) for name in names}
    print(f"{len(declared)} calls of handles in the headers, {len(tried)} in the table")
    trouble = [f"{call} is not in the table" for call in sorted(declared - tried)]
    trouble += [f"{call} is no call of the headers" for call in sorted(tried - declared)]
    if trouble or len(declared) < 180:
        sys.exit("\n".join(["failed:", *trouble]))


main()
