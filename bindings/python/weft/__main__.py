"""python -m weft info | status | topo | trace | tune: runs the tool of that name, weft-info and so on."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys

TOOLS = ("info", "status", "topo", "trace", "tune")


def tool(name: str) -> str | None:
    """The path of a tool: the one that the wheel carries, that lies beside the package in a build folder (python/weft
    and bin) or an installed tree (lib/python3/dist-packages/weft and bin), or that PATH has."""
    package = pathlib.Path(__file__).resolve().parent
    for folder in [package, *package.parents][0:5:2]:
        found = folder / "bin" / f"weft-{name}"
        if os.access(found, os.X_OK):
            return str(found)
    return shutil.which(f"weft-{name}")


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    name = arguments[0]
    if name not in TOOLS:
        print(f"weft: {name!r} is no tool; one of {', '.join(TOOLS)}", file=sys.stderr)
        return 2
    path = tool(name)
    if path is None:
        package = "weft-topo" if name == "topo" else "weft-tools"
        print(f"weft: weft-{name} is not installed; Debian's package is {package}", file=sys.stderr)
        return 127
    os.execv(path, [f"weft-{name}", *arguments[1:]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
