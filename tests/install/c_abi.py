"""The C ABI of weft.h is that of the last release, with additions alone: functions, values of enumerations, and fields at
the end of structs that begin with their size. abidiff compares the headers with bindings/c/last_release.abi, which abidw
has written. exports.sh checks which names the library exports.

Usage: c_abi.py SOURCE_FOLDER CC            compares, and shows by planted changes that differences are found
       c_abi.py SOURCE_FOLDER CC --write    writes the record: once with each release
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# The one struct of the API that can't grow: it does not begin with its size.
SUPPRESSIONS = """
[suppress_type]
  type_kind = struct
  name_regexp = ^weft_
  name_not_regexp = ^weft_slot_spec$
  has_data_member_inserted_at = end
"""


def stubs(text):
    """The preprocessed headers as a program that defines each function, so that abidw finds its types."""
    text = re.sub(r"^\s*#pragma.*$", "", text, flags=re.M)
    return re.sub(r"^((?:const )?\w+\s?\**) ?(weft_\w+)(\([^;{}]*\));",
                  lambda f: f"{f[1]} {f[2]}{f[3]} {{ {'' if f[1] == 'void' else 'return 0;'} }}",
                  re.sub(r"\s*\n\s+", " ", text), flags=re.M)


class Abi:
    def __init__(self, source, cc, scratch):
        self.source, self.cc, self.scratch = source, cc, scratch
        self.suppressions = scratch / "grown.suppr"
        self.suppressions.write_text(SUPPRESSIONS)

    def library(self, name, change=lambda text: text):
        """A library with the headers' functions, after a change of the headers."""
        include = self.scratch / name
        shutil.copytree(self.source / "bindings/c/include", include)
        changed = 0
        for header in include.rglob("*.h"):
            before = header.read_text()
            header.write_text(change(before))
            changed += header.read_text() != before
        if changed == 0 and name != "now":
            sys.exit(f"the planted change {name} is in no header")
        text = subprocess.run([self.cc, "-E", "-P", f"-I{include}", str(include / "weft.h")], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        program, library = include / "stubs.c", include / "libweft.so"
        program.write_text(stubs(text))
        subprocess.run([self.cc, "-g", "-O0", "-shared", "-fPIC", "-w", str(program), "-o", str(library),
                        f"-Wl,--version-script={self.source}/cmake/weft.map", "-Wl,-soname=libweft.so"], check=True)
        return library

    def record(self, library, file):
        subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-architecture",
                        "--out-file", str(file), str(library)], check=True)
        # The path of the program that was compiled says nothing.
        file.write_text(re.sub(r" path='[^']*'", " path='weft.h'", file.read_text()))
        return file

    def difference(self, old, new):
        """Empty if `new` has all of `old` unchanged."""
        new = self.record(new, new.with_suffix(".abi"))
        done = subprocess.run(["abidiff", "--no-added-syms", "--no-show-locs", "--suppressions", str(self.suppressions),
                               str(old), str(new)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode & 3:
            sys.exit(f"abidiff failed:\n{done.stdout}")
        return done.stdout if done.returncode else ""


def check_planted(abi, now):
    """Changes that must be found, and additions that must not."""
    def change(old, new):
        def apply(text):
            return re.sub(old, new, text, flags=re.S)
        return apply
    planted = [
        ("a function less", r"weft_code weft_rank\(.*?;", "", True),
        ("another parameter", r"weft_put_wait\(weft_remote_slot\* remote, double", "weft_put_wait(weft_remote_slot* remote, float", True),
        ("another value", r"WEFT_CODE_CLOSED = 4", "WEFT_CODE_CLOSED = 21", True),
        ("a field in front", r"size_t ndims;        /\* at most 8 \*/", "int more; size_t ndims;", True),
        ("a slot spec that grew", r"\} weft_slot_spec;", "int more[2]; } weft_slot_spec;", True),
        ("a field within", r"size_t token_bytes;", "int64_t more; size_t token_bytes;", True),
        ("a struct that grew", r"\} weft_join_options;", "int64_t more; } weft_join_options;", False),
        ("a value more", r"WEFT_DTYPE_BOOL = 8", "WEFT_DTYPE_BOOL = 8, WEFT_DTYPE_F8 = 9", False),
        ("a function more", r"weft_code weft_rank\(", "weft_code weft_more(int x);\nweft_code weft_rank(", False),
    ]
    failed = 0
    for number, (what, old, new, must_differ) in enumerate(planted):
        found = abi.difference(now, abi.library(f"planted{number}", change(old, new)))
        if bool(found) != must_differ:
            failed = 1
            print(f"{what}: the comparison {'finds nothing' if must_differ else 'finds'}\n{found}")
    return failed


def main():
    source, cc = pathlib.Path(sys.argv[1]), sys.argv[2]
    if shutil.which("abidw") is None or shutil.which("abidiff") is None:
        print("skipped: no abidw and abidiff on this machine (Debian: abigail-tools)")
        return 77
    record = source / "bindings/c/last_release.abi"
    with tempfile.TemporaryDirectory() as folder:
        abi = Abi(source, cc, pathlib.Path(folder))
        now = abi.library("now")
        if "--write" in sys.argv:
            abi.record(now, record)
            return 0
        if found := abi.difference(record, now):
            print(f"the C ABI differs from the last release's:\n{found}")
            return 1
        return check_planted(abi, abi.record(now, now.with_name("now.abi")))


if __name__ == "__main__":
    sys.exit(main())
