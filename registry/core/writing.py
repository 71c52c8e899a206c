"""The canonical text of a program, and its fingerprint: the SHA-256 of that text.

Operations stand in the order in which the results come to need them, depth first; values are numbered as they are
written. Equal dataflows give equal texts. Refuses nothing: what is no program was refused when it was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from registry.core.dataflow import Body, Dataflow, Node, Value, dataflow
from registry.core.digests import Digest, sha256
from registry.core.mlir import parse

FORM: Final = 1
_Numbers = dict[int, dict[bytes, int]]


def canonical_text(program: Dataflow) -> str:
    """The program as text. ``FORM`` counts the changes of this form: texts of two forms cannot be compared."""
    return "\n".join([f"program form {FORM}", *program.header, *_Writer().body(program.body), ""])


def fingerprint(text: str) -> Digest:
    """The fingerprint of a program by its canonical text."""
    return sha256(text.encode())


def read_program(mlir: str) -> Dataflow:
    """The dataflow of StableHLO in MLIR's generic form. Raises ``Refused`` for anything else."""
    return dataflow(parse(mlir))


class _Writer:
    """Numbers by the level that a value depends on: those of a region are forgotten at its end."""

    def __init__(self) -> None:
        self._numbers: _Numbers = {}
        self._next = 0

    def body(self, body: Body) -> Iterator[str]:
        """The lines of a region."""
        indent = "  " * body.depth
        self._numbers[body.depth] = {}
        for node in body.arguments:
            yield f"{indent}{self._number(node)} = argument : {node.signature}"
        for root in body.roots:
            yield from self._needed(root, indent)
        if body.effects:
            yield f"{indent}does {', '.join(self._name((node, 0)) for node in body.effects)}"
        yield f"{indent}gives {', '.join(self._name(value) for value in body.results)}"

    def _needed(self, root: Node, indent: str) -> Iterator[str]:
        """The lines of everything that ``root`` needs and that is not written yet, and its own. No recursion: chains
        of operations are longer than any stack; only regions in regions recurse."""
        waiting: list[tuple[Node, Iterator[Node]]] = [(root, root.inputs)]
        while waiting:
            node, inputs = waiting[-1]
            if self._written(node):
                waiting.pop()
                continue
            following = next((one for one in inputs if not self._written(one)), None)
            if following is None:
                waiting.pop()
                yield from self._operation(node, indent)
            else:
                waiting.append((following, following.inputs))

    def _operation(self, node: Node, indent: str) -> Iterator[str]:
        operands = ", ".join(self._name(value) for value in node.operands)
        attributes = f" {{{node.attributes}}}" if node.attributes else ""
        for body in node.bodies:
            yield f"{indent}  region"
            yield from self.body(body)
        yield f"{indent}{self._number(node)} = {node.name}({operands}){attributes} : {node.signature}"

    def _written(self, node: Node) -> bool:
        return node.id in self._numbers.get(node.level, {})

    def _number(self, node: Node) -> str:
        self._numbers.setdefault(node.level, {})[node.id] = self._next
        self._next += 1
        return f"%{self._next - 1}"

    def _name(self, value: Value) -> str:
        node, index = value
        return f"%{self._numbers[node.level][node.id]}" + (f"#{index}" if index else "")
