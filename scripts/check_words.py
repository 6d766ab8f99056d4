#!/usr/bin/env python3
"""Reports retired words (scripts/retired_words.txt) and comment sentences with forbidden openings or phrases.

Reads file names on standard input, relative to the repository's root. Checks sentences in // and /// comments of C++
and in # comments of scripts and CMake."""
import fnmatch
import re
import sys

# Phrases that readers must read twice. Sentences begin with their subject, and numbers or units replace "so many".
# docs/glossary.md has the words.
OPENING = re.compile(r"(?:^|[.;:?!] )(Who|What|Whoever|Whatever|Of (?:a|an|the|what|all|this|that|its|each)|None|Nobody"
                     r"|Somebody|Whether so|Such that)\b")
ANYWHERE = re.compile(r"\bso (?:many|much)(?:-th)?\b|\b(?:had better|in vain|mend(?:s|ed|ing)?|tarry|by and by|for ever)\b")
COMMENT = {".cpp": "//", ".hpp": "//", ".h": "//", ".c": "//", ".py": "#", ".sh": "#", ".cmake": "#", ".txt": "#"}


def retired():
    rules = []
    for line in open("scripts/retired_words.txt", encoding="utf-8"):
        line = line.rstrip("\n")
        if not line or line.startswith("#"):
            continue
        pattern, *globs = line.split("\t")
        rules.append((re.compile(pattern), [g for g in globs if g[0] != "!"], [g[1:] for g in globs if g[0] == "!"]))
    return rules


def is_in(path, globs):
    return any(fnmatch.fnmatch(path, glob) for glob in globs)


def comments(lines, mark):
    """(line number, text) of each comment; adjacent comment lines are one text, so that sentences may span lines."""
    first, text = 0, ""
    for number, line in enumerate(lines, 1):
        at = line.find(mark)
        alone = at >= 0 and not line[:at].strip()
        quoted = at > 0 and (line[:at].count('"') % 2 == 1 or line[at - 1] == ":")
        body = line[at:].lstrip("/#!< ").strip() if at >= 0 and not quoted else None
        if body is None or not alone or not text:
            if text:
                yield first, text
            first, text = number, body or ""
            if body is not None and not alone:
                yield first, text
                text = ""
        else:
            text += " " + body
    if text:
        yield first, text


def main():
    words, broken = retired(), 0
    for path in sys.stdin.read().split():
        if path.startswith(("scripts/retired_words", "scripts/check_words", "tests/fuzz/corpus/")) or path == "LICENSE":
            continue
        try:
            lines = open(path, encoding="utf-8").read().split("\n")
        except UnicodeDecodeError:
            continue
        mine = [p for p, only, but in words if (not only or is_in(path, only)) and not is_in(path, but)]
        for number, line in enumerate(lines, 1):
            for pattern in mine:
                if match := pattern.search(line):
                    print(f"{path}:{number}: retired word \"{match.group(0)}\": docs/glossary.md has the one in its place")
                    broken += 1
        mark = COMMENT.get("." + path.rsplit(".", 1)[-1])
        if not mark:
            continue
        for number, text in comments(lines, mark):
            match = OPENING.search(text) or ANYWHERE.search(text)
            if match:
                print(f"{path}:{number}: \"{match.group(0).strip()}\" in a comment: begin with the subject, say how many")
                broken += 1
    print(f"{broken} found" if broken else "words: none found")
    return broken > 0


if __name__ == "__main__":
    sys.exit(main())
