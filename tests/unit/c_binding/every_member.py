"""Every public member of the C++ headers has its C name (c_names.txt), or stands in exceptions.txt with a reason.

Usage: every_member.py INCLUDE_FOLDER C_INCLUDE_FOLDER

A line of c_names.txt: `member = C name`. For a struct: `type = C struct`, whose fields of the same names count; for an
enumeration: `type = PREFIX_`, with a constant for each value. A line of exceptions.txt: `member: reason`; a `*` stands
for anything. The reason "not yet" is for what is to come; the others are for good. A field "in the report's JSON" must be named
where weft/c/world.h documents that."""

import fnmatch
import pathlib
import re
import sys

from public_members import closing, members, without_comments

HERE = pathlib.Path(__file__).parent


def lines(name, mark):
    for number, line in enumerate((HERE / name).read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            left, _, right = line.partition(mark)
            yield f"{name}:{number}", left.strip(), right.strip()


class CNames:
    """The functions, structs with their fields, and constants of weft.h."""

    def __init__(self, folder):
        text = "".join(header.read_text() for header in sorted(folder.rglob("*.h")))
        self.documented = set(re.findall(r'"(\w+)"', text))
        self.macros = set(re.findall(r"^#define (WEFT_\w+)", text, flags=re.M))
        text = without_comments(text)
        self.constants = set(re.findall(r"\b(WEFT_\w+)(?= =|,|\s*\})", text)) | self.macros
        self.functions = set(re.findall(r"\b(weft_\w+)\((?!\*)", text))
        self.types = set(re.findall(r"typedef (?:struct|enum) \w+ (weft_\w+);", text))
        self.types |= set(re.findall(r"\(\*(weft_\w+)\)\(", text))
        self.fields = {}
        for struct in re.finditer(r"typedef struct (weft_\w+) \{", text):
            body = text[struct.end():closing(text, struct.end() - 1)]
            names = re.findall(r"(\w+)(?:\[\w+\])?(?=\s*[,;])|\(\*(\w+)\)", body)
            self.fields[struct.group(1)] = {a or b for a, b in names}

    def has(self, name):
        struct, _, field = name.partition(".")
        return (name in self.functions or name in self.constants or name in self.types
                or field in self.fields.get(struct, ()))


def c_name_of(member, names, types, known):
    """The C name of a member, by its own line or its type's; None without one."""
    if member in names:
        return names[member]
    owner, _, last = member.rpartition("::")
    prefix = types.get(owner)
    if prefix is None or "(" in last:
        return None
    return prefix + last.upper() if prefix.endswith("_") else f"{prefix}.{last}"


def main():
    include, c_include = map(pathlib.Path, sys.argv[1:3])
    known = CNames(c_include)
    there = {m: header.name for header in sorted(include.rglob("*.hpp")) for m in members(header.read_text())}
    owners = {m.rpartition("::")[0] for m in there}
    complaints, names, types = [], {}, {}
    for place, member, name in lines("c_names.txt", " = "):
        if member not in there and member not in owners:
            complaints.append(f"{place}: there is no {member} in the C++ headers")
        elif not name.endswith("_") and not known.has(name) and name not in known.fields:
            complaints.append(f"{place}: there is no {name} in weft.h")
        (names if member in there else types)[member] = name
    exceptions = list(lines("exceptions.txt", ": "))
    used, not_yet = set(), 0
    for member, header in there.items():
        name = c_name_of(member, names, types, known)
        if name is not None and known.has(name):
            continue
        match = next((e for e in exceptions if fnmatch.fnmatchcase(member, e[1])), None)
        if match is None:
            complaints.append(f"{header}: {member} has no C name: give it one in bindings/c, and a line in c_names.txt; "
                              "or a line with the reason in exceptions.txt")
        else:
            used.add(match[0])
            not_yet += match[2] == "not yet"
            if match[2] == "in the report's JSON" and member.rpartition("::")[2] not in known.documented:
                complaints.append(f"{header}: {member} is not in the JSON that weft/c/world.h documents")
    for place, member, reason in exceptions:
        if place not in used:
            complaints.append(f"{place}: {member} is no exception any more, or not in the C++ headers")
        if not reason:
            complaints.append(f"{place}: {member} stands here without a reason")
    for line in complaints:
        print(line)
    print(f"{len(there)} public members, {not_yet} of them not yet in C")
    return 1 if complaints or not there else 0


if __name__ == "__main__":
    sys.exit(main())
