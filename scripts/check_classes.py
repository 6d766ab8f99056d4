#!/usr/bin/env python3
"""Reports classes that are too wide: more than 25 public methods or 25 fields, and interfaces of more than 10
methods. Prints the widest ones. Reads headers named on standard input, relative to the repository's root.

The parser is no C++ parser: everything at a class's own level that ends with ; or { counts as a member."""
import re
import sys

METHODS, FIELDS, INTERFACE = 25, 25, 10
SEAMS = ("p2p/transport/verbs/api/", "p2p/transport/verbs/fake/", "p2p/transport/cuda/api/")  # as wide as the C library that they wrap


def strip(text):
    text = re.sub(r'R"\((.*?)\)"', '""', text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    return re.sub(r"^[ \t]*#.*?$", "", text, flags=re.M)


def closing(text, start):
    """The index after the brace that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        if text[i] == "{":
            depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0:
                return i + 1
    return len(text)


HEAD = re.compile(r"\b(class|struct)\s+(?:\[\[[^\]]*\]\]\s*)?(?:WEFT_API\s+)?(?:alignas\([^)]*\)\s*)?([A-Za-z_]\w*)"
                  r"(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?\{")


def members(body, is_struct):
    """(public methods, fields, virtual pure methods) of a class body without its braces."""
    methods, fields, pure = set(), 0, 0
    public = is_struct
    i, begin = 0, 0
    while i < len(body):
        c = body[i]
        if c == ":" and (match := re.search(r"(public|private|protected)\s*$", body[begin:i])) and body[i + 1:i + 2] != ":":
            public = match.group(1) == "public"
            begin = i + 1
        elif c == "{":
            head = body[begin:i]
            end = closing(body, i)
            if re.match(r"\s*(template\s*<.*>\s*)?(class|struct|enum|union)\b", head, re.S) or not re.search(r"\)", head):
                # a nested type, or a field with an initializer in braces
                rest = body[end:]
                if re.match(r"\s*;", rest) or re.match(r"\s*\w+\s*;", rest):
                    if not re.match(r"\s*(template\s*<.*>\s*)?(class|struct|enum|union)\b", head, re.S):
                        fields += not re.match(r"\s*(static|using|friend)\b", head)
                    elif re.match(r"\s*\w+\s*;", rest):
                        fields += 1
                    end += rest.index(";") + 1
                begin = i = end
                continue
            add(head, public, methods)
            rest = re.match(r"\s*;?", body[end:])
            begin = i = end + rest.end()
            continue
        elif c == ";":
            text = body[begin:i].strip()
            begin = i + 1
            if text and not re.match(r"(using|friend|static_assert|typedef|struct|class|enum)\b", text):
                declared = re.sub(r"<[^<>]*(<[^<>]*(<[^<>]*>)?[^<>]*>)?[^<>]*>", "", text)
                declared = re.sub(r"alignas\([^)]*\)", "", declared)
                before_value = re.split(r"=(?!=)", declared)[0]
                if "(" in before_value or "operator" in before_value:
                    if re.search(r"=\s*0$", text):
                        pure += 1
                    add(text, public, methods)
                elif not text.startswith("static"):
                    fields += 1 + before_value.count(",")
        i += 1
    return len(methods), fields, pure


def add(text, public, methods):
    if not public or re.search(r"=\s*(delete|default)\b", text):
        return
    match = re.search(r"(operator\s*[^\s(]+|~?\w+)\s*\(", text)
    if match and not match.group(1).startswith("~"):
        methods.add(match.group(1))


def classes(file):
    with open(file, encoding="utf-8") as f:
        text = strip(f.read())
    for match in HEAD.finditer(text):
        open_brace = match.end() - 1
        body = text[open_brace + 1:closing(text, open_brace) - 1]
        public, fields, pure = members(body, match.group(1) == "struct")
        names = re.search(rf"\b{match.group(2)}\b", body)
        constructors = 1 if names else 0
        yield match.group(2), match.group(1), max(0, public - constructors), fields, pure


def main():
    found, broken = [], 0
    for file in sys.stdin.read().split():
        if file.startswith(SEAMS):
            continue
        for name, kind, methods, fields, pure in classes(file):
            found.append((methods, fields, pure, name, file))
            # A struct without methods is a record, which may have any number of fields.
            record = kind == "struct" and methods == 0
            if methods > METHODS or (fields > FIELDS and not record):
                print(f"{file}: {name} has {methods} public methods and {fields} fields; at most "
                      f"{METHODS} and {FIELDS}: split it into named member objects")
                broken = 1
            if pure > INTERFACE:
                print(f"{file}: the interface {name} has {pure} methods; at most {INTERFACE}")
                broken = 1
    widest = sorted(found, reverse=True)[:3] + sorted(found, key=lambda c: -c[1])[:3]
    print("widest: " + ", ".join(f"{name} {methods} methods {fields} fields"
                                 for methods, fields, _, name, _ in dict.fromkeys(widest)))
    return broken


if __name__ == "__main__":
    sys.exit(main())
