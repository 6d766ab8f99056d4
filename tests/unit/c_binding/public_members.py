"""The public members of weft's C++ headers: functions by name and parameters, fields, and values of enumerations."""

import re

# Left out by rule: a handle in C has one way to be made and one to be freed.
SPECIAL = re.compile(r"operator\b|^~|^(using|friend|static_assert|typedef|extern)\b|= delete$")


def without_comments(text):
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"^\s*#([^\n]*\\\n)*[^\n]*", "", text, flags=re.M)


def closing(text, i):
    """The index of the brace that closes the one at `i`."""
    depth = 0
    while True:
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
        i += 1


def declarations(text):
    """(scopes, declaration) of every public declaration at namespace or class level; bodies are left out."""
    scopes, public, start, i = [], [], 0, 0
    while i < len(text):
        c = text[i]
        head = text[start:i].strip()
        if c == "{":
            kind = re.search(r"\b(namespace|class|struct)\b", head)
            if kind and "(" not in head.replace("alignas(", "") and not re.match(r"enum\b", head):
                name = re.search(r"(?:namespace|class|struct)\s+(?:alignas\(\d+\)\s*)?(?:\[\[\w+\]\]\s*)?(?:WEFT_API\s+)?([\w:]+)", head)
                scopes.append(name.group(1) if name else "")
                public.append(kind.group(1) != "class" and (not public or public[-1] or kind.group(1) == "namespace"))
                if kind.group(1) == "class" and len(public) > 1 and not public[-2]:
                    public[-1] = None  # in a private part: nothing in it is public
                start = i + 1
            else:
                end = closing(text, i)
                # An initializer, or an enumeration, is part of its declaration; a function's body ends one.
                if "(" in head and head.count("(") == head.count(")") and not re.search(r"=\s*$", head):
                    if not public or public[-1]:
                        yield list(scopes), " ".join(head.split())
                    start = end + 1
                i = end
        elif c == "}":
            scopes.pop()
            public.pop()
            start = i + 1
        elif c == ";":
            if head and (not public or public[-1]):
                yield list(scopes), " ".join(head.split())
            start = i + 1
        elif c == ":" and public and (access := re.search(r"\b(public|private|protected)$", head)):
            if public[-1] is not None:
                public[-1] = access.group(1) == "public"
            start = i + 1
        i += 1


def split(text, mark=","):
    """The parts of `text` between marks outside brackets."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1, ">": -1}.get(c, 0)
        if c == mark and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    return [p.strip() for p in parts + [part] if p.strip()]


def parameter(text):
    name = re.search(r"(\w+)\s*(\[\w*\])?$", split(text, "=")[0])
    return name.group(1) if name else text


def members(text):
    """The names of all public members that a header declares."""
    for scopes, one in declarations(without_comments(text)):
        if "detail" in scopes or SPECIAL.search(one) or re.match(r"(class|struct|namespace)\b", one):
            continue
        scope = "::".join(scopes)
        own = scopes[-1] if scopes else ""
        if enum := re.match(r"enum (?:class )?(\w+)[^{]*\{(.*)\}$", one):
            for value in split(enum.group(2)):
                yield f"{scope}::{enum.group(1)}::{split(value, '=')[0]}"
            continue
        one = re.sub(r"^template\s*<[^>]*>\s*", "", one)
        if re.match(r"concept\b", one):
            continue
        # The arguments of a template hide neither a function's brackets nor a field's name.
        plain = one
        while plain != (plain := re.sub(r"<[^<>]*>", lambda hidden: "_" * len(hidden.group()), plain)):
            pass
        function = re.match(r"[^=({]*?\b(\w+)\s*\(", plain)
        if function:
            name = function.group(1)
            start = function.end() - 1
            depth, end = 0, start
            for end in range(start, len(one)):
                depth += {"(": 1, ")": -1}.get(one[end], 0)
                if depth == 0:
                    break
            parameters = split(one[start + 1:end])
            same = len(parameters) == 1 and re.match(rf"(const )?{own}\s*&", parameters[0])
            if name == own and (not parameters or same):
                continue  # made empty, copied or moved
            yield f"{scope}::{name}({', '.join(map(parameter, parameters))})"
        else:
            name = re.search(r"(\w+)$", re.sub(r"(\{.*\}|=.*)$", "", one).strip())
            yield f"{scope}::{name.group(1) if name else one}"
