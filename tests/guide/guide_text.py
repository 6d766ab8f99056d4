"""docs/guide.md and README.md show the programs of tests/guide as they are.

Usage: guide_text.py compare|write SOURCE_FOLDER

A comment `<!-- FILE: REGION -->` precedes a block of code, which is then the lines of tests/guide/FILE between
`[REGION]` and `[end]`, each alone in a comment. `write` puts them there. Every other fenced block of the guide in C++, C
or Python fails, and so does a region that no block shows. The code of a phrase table's last column stands in
tests/guide/phrases.cpp, phrases.py or samples.cpp. The guide has at most 5000 words beside its code.
"""

import pathlib
import re
import sys

MOST_WORDS = 5000
SHOWN = re.compile(r"<!-- (\S+): (.+?) -->\n```(\w*)\n(.*?)```\n", re.DOTALL)
FENCED = re.compile(r"^```(cpp|c|python)\n", re.MULTILINE)
REGION = re.compile(r"^(?:// |/\* |# )\[(.+?)\](?: \*/)?\n(.*?)^(?:// |/\* |# )\[end\](?: \*/)?\n", re.DOTALL | re.MULTILINE)


def regions(folder):
    """The code of each region by (file, name)."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in (".cpp", ".hpp", ".c", ".py") and path.name != "guide_text.py":
            for name, code in REGION.findall(path.read_text()):
                found[path.name, name] = code
    return found


def squeezed(text):
    return re.sub(r"\s+", "", text)


def phrases(text):
    """The code in the last cells of the tables below "## Phrases"."""
    if "\n## Phrases" not in text:
        return []
    section = text.split("\n## Phrases")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row.rstrip(" |").rsplit(" | ", 1)[-1])]


def words(text):
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    prose = "\n".join(line for line in prose.splitlines() if not line.startswith(("    ", "<!--")))
    return len(re.findall(r"\w[\w'.-]*", re.sub(r"`[^`]*`", "code", prose)))


def main():
    command, source = sys.argv[1], pathlib.Path(sys.argv[2])
    folder = source / "tests/guide"
    code_of = regions(folder)
    shown, wrong = set(), []
    for document in (source / "docs/guide.md", source / "README.md"):
        text = document.read_text()

        def with_code(match):
            file, name, language, code = match.groups()
            shown.add((file, name))
            if (file, name) not in code_of:
                wrong.append(f"{document.name}: tests/guide/{file} has no region [{name}]")
                return match[0]
            if code != code_of[file, name]:
                wrong.append(f"{document.name} does not show tests/guide/{file} [{name}] as it is")
            return f"<!-- {file}: {name} -->\n```{language}\n{code_of[file, name]}```\n"

        right = SHOWN.sub(with_code, text)
        if command == "write":
            document.write_text(right)
        if document.name != "guide.md":
            continue
        others = len(FENCED.findall(text)) - sum(m[2] in ("cpp", "c", "python") for m in SHOWN.findall(text))
        if others:
            wrong.append(f"{document.name}: {others} blocks of code come from no program")
        ran = "".join(squeezed((folder / name).read_text()) for name in ("phrases.cpp", "phrases.py", "samples.cpp"))
        wrong += [f"{document.name}: no program runs the phrase {code}" for code in phrases(text) if squeezed(code) not in ran]
        if not phrases(text):
            wrong.append(f"{document.name} has no phrases")
        if words(text) > MOST_WORDS:
            wrong.append(f"{document.name} has {words(text)} words, more than {MOST_WORDS}")
    wrong += [f"no document shows tests/guide/{file} [{name}]" for file, name in code_of if (file, name) not in shown]
    if command == "compare" and wrong:
        print(*wrong, f"`python3 {sys.argv[0]} write .` copies the programs' text", sep="\n")
        sys.exit(1)


main()
