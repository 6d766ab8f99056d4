"""Every control call of the headers is in the table of control_calls_test.cpp.

Usage: control_calls.py INCLUDE_FOLDER TEST_SOURCE
"""

import pathlib
import re
import sys

# Value types and read-only classes: they are made of their arguments alone.
VALUES = {"Error", "ErrorDetail", "Status", "Shape", "Memory", "Stream", "Tensor", "Storage", "Rule", "Optimizer",
          "ReduceOp", "Codec"}
# Functions that describe a collective; the call that takes the description is in the table.
DESCRIBERS = {"barrier", "broadcast", "reduce", "all_reduce", "scan", "gather", "scatter", "all_gather",
              "reduce_scatter", "all_to_all", "text"}
# The dataflow graph belongs to no rank: tests/unit/dataflow has its errors. A report is a value.
WITHOUT_A_RANK = {"definition.hpp", "executor_report.hpp", "graph.hpp", "partition.hpp"}


def statements(text):
    """Declarations at namespace and class level, with the class that each is in: bodies are left out."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"^#[^\n]*", "", text, flags=re.M)
    scopes, access, start, i = [], [], 0, 0
    while i < len(text):
        c = text[i]
        if c == "{":
            head = text[start:i].strip()
            kind = re.search(r"\b(namespace|class|struct|enum)\b", head)
            if kind and "(" not in head and kind.group(1) != "enum":
                name = re.search(r"(?:class|struct)\s+(?:alignas\(\d+\)\s*)?(?:WEFT_API\s+)?(\w+)", head)
                scopes.append(name.group(1) if name else None)
                access.append(kind.group(1) != "class")
                start = i + 1
            else:  # a body, or an initializer: skipped
                depth = 1
                while depth:
                    i += 1
                    depth += {"{": 1, "}": -1}.get(text[i], 0)
                if head.count("(") == head.count(")") and "(" in head:
                    start = i + 1
        elif c == "}":
            scopes.pop()
            access.pop()
            start = i + 1
        elif c == ";":
            inside = [scope for scope in scopes if scope]
            if not access or access[-1]:
                yield inside, " ".join(text[start:i].split())
            start = i + 1
        elif c == ":" and access and re.search(r"\b(public|private|protected)\s*$", text[start:i]):
            access[-1] = "public" in text[start:i]
            start = i + 1
        i += 1


def control_calls(header):
    for classes, text in statements(header.read_text()):
        if "noexcept" in text or re.search(r"=\s*(default|delete|0)$", text) or "(" not in text:
            continue
        if re.match(r"(using|friend|template|static_assert|typedef)\b", text) or "operator" in text or "~" in text:
            continue
        if not classes and ("WEFT_API" not in text or text.startswith("[[noreturn")):
            continue  # not public, or the throwing itself
        name = re.search(r"(\w+)\s*\(", text).group(1)
        if classes and classes[-1] in VALUES or not classes and name in DESCRIBERS:
            continue
        if classes and classes[-1] == name and text.count("(") == 1 and text.endswith("()"):
            continue
        yield "::".join([*classes[-1:], name])


def main():
    folder, source = map(pathlib.Path, sys.argv[1:3])
    declared = {call for header in sorted(folder.glob("*.hpp"))
                if header.name not in WITHOUT_A_RANK for call in control_calls(header)}
    tried = set(re.findall(r'\{"([\w:]+)",\s*\[', source.read_text()))
    print(f"{len(declared)} control calls in the headers, {len(tried)} in the table")
    trouble = [f"{call} is not in the table" for call in sorted(declared - tried)]
    trouble += [f"{call} is no control call of the headers" for call in sorted(tried - declared)]
    if trouble or len(declared) < 30:
        sys.exit("\n".join(["failed:", *trouble]))


main()
