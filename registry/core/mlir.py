"""MLIR in its generic form, read without MLIR: operations with operands, attributes, regions and places in the code.

One operation a line, as MLIR prints it with ``print_generic_op_form``. It knows no dialect. Refuses text that is not in
that form, regions of several blocks, and longer lines, more results or nesting than any program of ours has. Takes time
in proportion to the text, whatever is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from registry.errors import Refused

LARGEST_CHARACTERS: Final = 256 * 2**20
LONGEST_LINE: Final = 2**24
DEEPEST: Final = 64
MOST_RESULTS: Final = 10_000
_MOST_PLACED: Final = 2**28  # characters that are read for places; what comes later has none

_STRING = r'"(?:[^"\\]|\\.)*"'
_HEAD = re.compile(r'(?:(%[\w$.-]+)(?::(\d{1,6}))? = )?"([\w.$-]{1,200})"\(([^()"]*)\)')
# A string without an end takes the rest: otherwise each of its quotes would be tried as a beginning.
_TOKEN = re.compile(rf'{_STRING}|".*|->|[<>(){{}}\[\]]')
_PART = re.compile(rf'{_STRING}|".*|->|[<>(){{}}\[\],]')
_PLACE = re.compile(rf" loc\((#loc\d*|unknown|{_STRING}(?:\(#loc\d*\))?|callsite\(#loc\d* at #loc\d*\)|fused.*)\)$")
_ALIAS = re.compile(r"(#loc\d*) = loc\((.*)\)$")
_FILE = re.compile(rf"({_STRING}):(\d+):\d+.*")
_OPENING, _CLOSING = frozenset("<({["), frozenset(">)}]")


@dataclass(slots=True)
class Operation:
    """One operation. ``attributes`` and ``signature`` are text as printed; ``place`` is where it was written, or empty.

    ``operands`` and ``arguments`` of regions are names of values; a value is ``%3`` or, of several results, ``%3#1``.
    """

    name: str
    result: str | None
    results: int
    operands: tuple[str, ...]
    attributes: str
    signature: str = ""
    regions: list[Region] = field(default_factory=list)
    place: str = ""


@dataclass(slots=True)
class Region:
    """The only block of a region: its arguments with their types, and its operations in order."""

    arguments: list[tuple[str, str]] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


def parse(text: str) -> Operation:
    """The module. Raises ``Refused`` for anything that is not one operation in the generic form."""
    if len(text) > LARGEST_CHARACTERS:
        raise Refused(f"The program has more than {LARGEST_CHARACTERS} characters.")
    top = Region()
    _Parser(top, _Places(text)).read(line for line in text.splitlines() if line and not line.startswith("#loc"))
    if len(top.operations) != 1 or top.operations[0].name != "builtin.module" or not top.operations[0].regions:
        raise Refused("This is no module of MLIR in its generic form.", remedy="Print it with print_generic_op_form.")
    return top.operations[0]


class _Parser:
    """Lines to operations. ``stack`` holds the operations whose regions are open, each with its open region."""

    def __init__(self, top: Region, places: _Places) -> None:
        self._open: list[tuple[Operation, Region]] = []
        self._top, self._places = top, places

    def read(self, lines: Iterator[str]) -> None:
        for line in lines:
            if len(line) > LONGEST_LINE:
                raise Refused(f"A line of the program has more than {LONGEST_LINE} characters.")
            stripped = line.strip()
            if stripped.startswith(('"', "%")):
                self._operation(stripped)
            elif stripped.startswith("^"):
                self._block(stripped)
            elif stripped.startswith("}, {"):
                self._next_region(stripped)
            elif stripped.startswith("})"):
                self._close(stripped[2:])
            else:
                raise _malformed(stripped)
        if self._open:
            raise Refused("The program ends in the middle of a region.")

    def _operation(self, line: str) -> None:
        match = _HEAD.match(line)
        if match is None:
            raise _malformed(line)
        result, count, name, operands = match.groups()
        if int(count or 1) > MOST_RESULTS:
            raise Refused(f"An operation of the program has more than {MOST_RESULTS} results.")
        rest, place = self._located(line[match.end() :])
        attributes, rest = _bracketed(rest, " <{")
        one = Operation(
            name=name,
            result=result,
            results=0 if result is None else int(count or 1),
            operands=tuple(part.strip() for part in operands.split(",")) if operands.strip() else (),
            attributes=attributes,
            place=place,
        )
        (self._open[-1][1] if self._open else self._top).operations.append(one)
        if rest == " ({":
            self._begin(one)
        else:
            _finish(one, rest)

    def _begin(self, one: Operation) -> None:
        if len(self._open) >= DEEPEST:
            raise Refused(f"The program's regions are more than {DEEPEST} deep.")
        one.regions.append(Region())
        self._open.append((one, one.regions[-1]))

    def _next_region(self, line: str) -> None:
        if line != "}, {" or not self._open:
            raise _malformed(line)
        one, _ = self._open.pop()
        self._begin(one)

    def _close(self, line: str) -> None:
        if not self._open:
            raise _malformed(line)
        one, _ = self._open.pop()
        rest, place = self._located(line)
        one.place = place
        _finish(one, rest)

    def _block(self, line: str) -> None:
        region = self._open[-1][1] if self._open else None
        if region is None or region.arguments or region.operations:
            raise Refused("A region of the program has several blocks.", remedy="Lower to StableHLO, which has none.")
        inside, rest = _bracketed(line[line.find("(") :], "(") if "(" in line else ("", ":")
        if rest != ":":
            raise _malformed(line)
        region.arguments += [_argument(part) for part in _split(inside)]

    def _located(self, text: str) -> tuple[str, str]:
        match = _placed(text)
        return (text, "") if match is None else (text[: match.start()], self._places.of(match[1]))


class _Places:
    """Where operations were written: the name of the operation in the model, and the line of our own code."""

    def __init__(self, text: str) -> None:
        found = (_ALIAS.match(line) for line in text.splitlines() if line.startswith("#loc"))
        self._aliases: Mapping[str, str] = {match[1]: match[2] for match in found if match is not None}
        self._known: dict[str, str] = {}
        self._left = _MOST_PLACED

    def of(self, text: str) -> str:
        """Such as ``Attention/mul (train/model.py:111)``; empty when nothing is told."""
        if text not in self._known:
            names, files = self._gathered(text)
            own = next((file for file in files if file.startswith("train/")), None)
            where = own or next(iter(files), None)
            self._known[text] = " ".join([*names[:1], *([f"({where})"] if where else [])])
        return self._known[text]

    def _gathered(self, text: str) -> tuple[list[str], list[str]]:
        names: list[str] = []
        files: list[str] = []
        waiting, seen = [text], set[str]()
        while waiting:
            one = waiting.pop()
            body = self._aliases.get(one, one)
            if one in seen or len(seen) > 1000 or len(body) > self._left:
                continue
            seen.add(one)
            self._left -= len(body)
            match = _FILE.fullmatch(body)
            if match is not None:
                files.append(f"{_inside(match[1][1:-1])}:{match[2]}")
                continue
            if body.startswith('"') and '"' in body[1:]:
                names.append(body[1 : body.index('"', 1)])
            waiting += reversed(re.findall(r"#loc\d*", body))
        return names, files


def _inside(path: str) -> str:
    """A file without the machine's folders before it."""
    parts = path.split("/")
    for root, skip in (("site-packages", 1), ("train", 0), ("registry", 0)):
        if root in parts:
            return "/".join(parts[parts.index(root) + skip :])
    return parts[-1]


def _finish(one: Operation, rest: str) -> None:
    """Attributes after the regions, and the types."""
    more, rest = _bracketed(rest, " {")
    one.attributes = ", ".join(part for part in (one.attributes, more) if part)
    if not rest.startswith(" : ("):
        raise _malformed(rest)
    one.signature = rest[3:]


def _placed(text: str) -> re.Match[str] | None:
    """Where the place at the end of a text begins. Without the bracket at its end no beginning is tried."""
    return _PLACE.search(text) if text.endswith(")") else None


def _bracketed(text: str, opening: str) -> tuple[str, str]:
    """What stands between the brackets that ``text`` begins with, and what follows; all of it when there are none."""
    if not text.startswith(opening):
        return "", text
    depth, start = 0, len(opening)
    for match in _TOKEN.finditer(text):
        if match[0] in _OPENING:
            depth += 1
        elif match[0] in _CLOSING:
            depth -= 1
            if depth == 0:
                return text[start : match.end() - len(opening.strip())], text[match.end() :]
    raise _malformed(text)


def _split(text: str) -> Iterator[str]:
    """The parts between commas outside of brackets and strings."""
    depth, start = 0, 0
    for match in _PART.finditer(text):
        if match[0] == "," and depth == 0:
            yield text[start : match.start()].strip()
            start = match.end()
        depth += (match[0] in _OPENING) - (match[0] in _CLOSING)
    if text[start:].strip():
        yield text[start:].strip()


def _argument(text: str) -> tuple[str, str]:
    name, _, kind = text.partition(": ")
    match = _placed(kind)
    if not name.startswith("%") or not kind:
        raise _malformed(text)
    return name, kind if match is None else kind[: match.start()]


def _malformed(text: str) -> Refused:
    return Refused(f"This is no operation in MLIR's generic form: {text[:120]!r}.")
