#!/usr/bin/env python3
"""Reports retired words (scripts/retired_words.txt), comment sentences with forbidden openings or phrases, and archaisms
in the texts that programs print.

Reads file names on standard input, relative to the repository's root. Checks sentences in // and /// comments of C++
and in # comments of scripts and CMake, and the string literals of C++ outside tests/: logs, errors, tools' output."""
import fnmatch
import re
import sys

# Phrases that readers must read twice. Sentences begin with their subject, and numbers or units replace "so many".
# docs/glossary.md has the words.
OPENING = re.compile(r"(?:^|[.;:?!] )(Who|What|Whoever|Whatever|Of (?:a|an|the|what|all|this|that|its|each)|None|Nobody"
                     r"|Somebody|Whether so|Such that)\b")
ANYWHERE = re.compile(r"\bso (?:many|much)(?:-th)?\b|\b(?:had better|in vain|mend(?:s|ed|ing)?|tarry|by and by|for ever)\b")
# In a literal. A value, such as ACTION=mend or "mend" alone, is no prose.
ARCHAIC = re.compile(rf"(?<!=)(?:{ANYWHERE.pattern}|\b(?:nobody|somebody|bears?|bearing)\b)", re.IGNORECASE)
VALUE = re.compile(r"\w+")
CPP = (".cpp", ".hpp", ".h", ".c")
# A comment, a raw literal, a literal, or a character, of which the literals have a group.
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^()\\ ]*)\((?P<raw>.*?)\)\1"|"(?P<text>(?:[^"\\\n]|\\.)*)"'
                   r"|(?<!\w)'(?:[^'\\\n]|\\.)+'", re.DOTALL)
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


def literals(source):
    """(line number, text) of each string literal; adjacent ones are one text."""
    end, first, text = None, 0, ""
    for token in TOKEN.finditer(source):
        body = token["raw"] if token["raw"] is not None else token["text"]
        if body is None:
            continue
        if end is None or source[end:token.start()].strip():
            if text:
                yield first, text
            first, text = source.count("\n", 0, token.start()) + 1, ""
        text, end = text + body, token.end()
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
        if path.endswith(CPP) and not path.startswith("tests/"):
            for number, text in literals("\n".join(lines)):
                match = ARCHAIC.search(text)
                if match and not VALUE.fullmatch(text):
                    print(f"{path}:{number}: \"{match.group(0)}\" in a text: say it in today's English, with a number")
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
