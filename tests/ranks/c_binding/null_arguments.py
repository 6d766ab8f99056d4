"""Every function of weft.h gets NULL and 0 for all its arguments: it refuses them, names the argument, and ends.

Usage: null_arguments.py PATH_OF_LIBWEFT C_INCLUDE_FOLDER
"""

import ctypes
import pathlib
import re
import sys

from weft_ctypes import BAD_ARGUMENT, error_text, weft

# Nothing that they need is missing: no error is BAD_ARGUMENT, or none at all.
WITHOUT_NEEDS = {"weft_error_code", "weft_error_text", "weft_code_name", "weft_dtype_name", "weft_dtype_bytes",
                 "weft_text_free"}


def functions(folder):
    for header in sorted(folder.rglob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for name, parameters in re.findall(r"^[\w ]+\*? ?\b(weft_\w+)\(([^;{}]*)\);", text, flags=re.M):
            parameters = re.sub(r"\(\*\w+\)\([^)]*\)", "* callback", parameters)  # its own parameters don't count
            yield name, [] if parameters == "void" else parameters.split(",")


def zero(parameter):
    if "*" in parameter or "_function " in parameter:
        return ctypes.c_void_p(0)
    if "double" in parameter:
        return ctypes.c_double(0)
    return ctypes.c_uint64(0)


def main():
    trouble, tried = [], 0
    for name, parameters in functions(pathlib.Path(sys.argv[2])):
        if name in WITHOUT_NEEDS:
            continue
        tried += 1
        code = getattr(weft, name)(*map(zero, parameters))
        if code != BAD_ARGUMENT or "NULL" not in error_text():
            trouble.append(f"{name}: code {code}: {error_text()}")
    if trouble or tried < 150:
        sys.exit("\n".join([f"failed, of {tried} functions:", *trouble]))
    print(f"{tried} functions")


main()
