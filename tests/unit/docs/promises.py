"""What the docs promise names its test, and each test that is named exists.

Usage: promises.py SOURCE_FOLDER

docs/promises.md has a table for each document: words of it, and the tests that hold them. Every sentence of README's
"Errors and deadlines", every paragraph and table row of SECURITY.md, and every section of docs/guide.md must hold words of
a row or name a test itself, and so must every section of docs/gpu.md that says what works. Tables of bad input and of
planted defects only name tests.
Tests are named as `Suite.Name`, `Suite.*`, by their name in CTest, or by a path below tests. A row may say "no test: why".
Each code of weft::Code must have a row in docs/operating.md.
"""

import fnmatch
import pathlib
import re
import sys

ROW = re.compile(r"^\| (.+?) \| (.+?) \|$")
GTEST = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.M)
CTEST = re.compile(r"weft_\w*test\(\s*([\w${}-]+)")
NAMED = re.compile(r"`([A-Z]\w+\.[A-Za-z*][\w*]*|tests/[\w./]+|[a-z][a-z0-9]*(?:_[a-z0-9*]+)+)`")


def squeezed(text):
    return " ".join(text.split())


def all_tests(source):
    names, patterns = set(), set()
    for path in (source / "tests").rglob("*.cpp"):
        names |= {f"{suite}.{name}" for suite, name in GTEST.findall(path.read_text())}
    for folder in ("tests", "mpirun_examples", "benchmarks"):
        for path in (source / folder).rglob("CMakeLists.txt"):
            patterns |= {re.sub(r"\$\{\w+\}", "*", name) for name in CTEST.findall(path.read_text())}
    return names, patterns


class Check:
    def __init__(self, source):
        self.source = source
        self.names, self.patterns = all_tests(source)
        self.wrong = []

    def exists(self, test):
        if test.startswith("tests/"):
            return (self.source / test).exists()
        if "." in test:
            return any(fnmatch.fnmatch(name, test) for name in self.names)
        return any(fnmatch.fnmatch(test, p) or fnmatch.fnmatch(p, test) for p in self.patterns)

    def tests_in(self, text):
        """Those that are meant as tests: a word with a _ in it may be a setting of CMake or a field."""
        named = NAMED.findall(text)
        return [test for test in named if self.exists(test) or "/" in test or test[0].isupper()]

    def rows_of(self, heading):
        text = (self.source / "docs/promises.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
        rows = [m.groups() for m in map(ROW.match, text.splitlines()) if m][1:]
        for words, tests in rows:
            if set(words) <= set("-| "):
                continue
            unknown = [test for test in re.findall(r"`([^`]+)`", tests) if not self.exists(test)]
            if unknown:
                self.wrong.append(f"docs/promises.md: there is no test {', '.join(unknown)} (\"{words}\")")
            if "`" not in tests and not tests.startswith("no test: "):
                self.wrong.append(f"docs/promises.md names neither a test nor a reason for \"{words}\"")
            yield squeezed(words), "`" in tests

    def compare(self, document, parts, heading):
        rows = dict(self.rows_of(heading))
        whole = squeezed(" ".join(parts))
        for words, is_tested in rows.items():
            if is_tested and words not in whole:
                self.wrong.append(f"docs/promises.md: {document} does not say \"{words}\"")
        for part in map(squeezed, parts):
            if not any(words in part for words in rows) and not self.tests_in(part):
                self.wrong.append(f"{document}: no test is named for \"{part[:100]}\" (docs/promises.md)")
        for test in self.tests_in(whole):
            if not self.exists(test):
                self.wrong.append(f"{document}: there is no test {test}")

    def codes(self):
        header = (self.source / "include/weft/error.hpp").read_text()
        body = re.search(r"enum class Code[^{]*\{(.*?)\};", header, re.S)[1]
        codes = re.findall(r"^\s*(\w+)\s*(?:=[^,]*)?,", re.sub(r"//.*", "", body), re.M)
        table = (self.source / "docs/operating.md").read_text()
        self.wrong += [f"docs/operating.md has no row for the code {code}" for code in codes
                       if code != "ok" and not re.search(rf"^\|[^|]*`{code}`", table, re.M)]


def blocks(text):
    """Paragraphs and table rows, without headings, rules of tables and code."""
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.splitlines() if not line.startswith(("#", "    ", "|--"))]
        rows = [line for line in lines if line.startswith("|")]
        if rows:
            yield from (row for i, row in enumerate(rows) if i > 0 or len(rows) == 1)
        elif lines:
            yield "\n".join(lines)


def main():
    check = Check(pathlib.Path(sys.argv[1]))
    readme = (check.source / "README.md").read_text()
    section = readme.split("## Errors and deadlines\n")[1].split("\n## ")[0]
    sentences = re.split(r"(?<=\.)\s+", section.strip())
    check.compare("README.md", sentences, "README, Errors and deadlines")
    security = (check.source / "SECURITY.md").read_text().split("\n## Reporting")[0]
    check.compare("SECURITY.md", list(blocks(security)), "SECURITY")
    guide = re.sub(r"```.*?```", "", (check.source / "docs/guide.md").read_text(), flags=re.S)
    check.compare("docs/guide.md", guide.split("\n## "), "Guide")
    gpus = re.sub(r"```.*?```", "", (check.source / "docs/gpu.md").read_text(), flags=re.S)
    promised = gpus.split("\n## Works now")[1].split("\n## Not yet")[0]
    check.compare("docs/gpu.md", re.split(r"\n###? ", promised), "GPUs")
    for heading in ("GPUs, bad input", "GPUs, planted defects"):
        list(check.rows_of(heading))
    check.codes()
    for line in check.wrong:
        print(line)
    sys.exit(1 if check.wrong else 0)


main()
