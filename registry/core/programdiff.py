"""How two programs differ: where the difference begins, not everything that follows from it.

An operation begins a difference when one program has it, the other has not, and all that flows into it both have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from registry.core.dataflow import Dataflow, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An operation without the numbers of values, where it was written, and how often it begins a difference."""

    operation: str
    places: tuple[str, ...]
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramDiff:
    """What begins the difference on either side, what follows from it by kind of operation, and facts of the whole.

    ``removed`` and ``added`` are operations where the difference begins, ``header_removed`` and ``header_added`` facts
    of the module (mesh, arguments, shardings); ``gone`` and ``new`` count all operations that only one side has.
    """

    removed: tuple[Line, ...]
    added: tuple[Line, ...]
    header_removed: tuple[str, ...]
    header_added: tuple[str, ...]
    gone: Mapping[str, int]
    new: Mapping[str, int]

    @property
    def reordered(self) -> bool:
        """Whether both do the same operations to other values: only what is combined with what has changed."""
        return bool(self.removed) and [one.operation for one in self.removed] == [one.operation for one in self.added]


def compare(before: Dataflow, after: Dataflow) -> ProgramDiff:
    """How ``after`` differs from ``before``. Two equal programs differ in nothing."""
    old, new = _needed(before), _needed(after)
    headers = Counter(before.header), Counter(after.header)
    return ProgramDiff(
        removed=_lines(_begins(old, new)),
        added=_lines(_begins(new, old)),
        header_removed=tuple((headers[0] - headers[1]).elements()),
        header_added=tuple((headers[1] - headers[0]).elements()),
        gone=_kinds(old, new),
        new=_kinds(new, old),
    )


def _needed(program: Dataflow) -> dict[bytes, Node]:
    """All nodes that the results need, those inside of regions included, and the arguments, in a settled order."""
    found: dict[bytes, Node] = {}
    waiting = [*reversed(program.body.roots), *reversed(program.body.arguments)]
    while waiting:
        node = waiting.pop()
        if node.id not in found:
            found[node.id] = node
            waiting += reversed(list(_inputs(node)))
    return found


def _inputs(node: Node) -> Iterator[Node]:
    for operand, _ in node.operands:
        yield operand
    for body in node.bodies:
        yield from body.roots
        yield from body.arguments


def _begins(here: Mapping[bytes, Node], there: Mapping[bytes, Node]) -> Iterator[Node]:
    for name, node in here.items():
        if node.name == "argument" and node.level > 0:
            continue  # Of a region: its type follows from what enters the region.
        if name not in there and all(one.id in there for one in _inputs(node)):
            yield node


def _lines(nodes: Iterator[Node]) -> tuple[Line, ...]:
    found: dict[str, list[str]] = {}
    for node in nodes:
        attributes = f" {{{node.attributes}}}" if node.attributes else ""
        found.setdefault(f"{node.name}{attributes} : {node.signature}", []).append(node.place)
    return tuple(
        Line(operation=text, places=tuple(dict.fromkeys(place for place in places if place)), times=len(places))
        for text, places in sorted(found.items())
    )


def _kinds(here: Mapping[bytes, Node], there: Mapping[bytes, Node]) -> dict[str, int]:
    return dict(sorted(Counter(node.name for name, node in here.items() if name not in there).items()))
