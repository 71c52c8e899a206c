"""A lowered program as what flows where: the canonical form that a program's fingerprint is the digest of.

Each value is named by the digest of its operation and of everything that flows into it. So the form does not know names
of functions, modules or values, where something was written, the order of operations that do not depend on each other,
function boundaries, dead code, or whether the same thing is computed twice. It knows every operation with its types,
constants, attributes and shardings, and the order in which values are combined. Refuses programs without ``main``,
recursion, and more operations, results, operands or nesting than any program of ours has.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from registry.core.mlir import Operation, Region
from registry.errors import Refused

MOST_OPERATIONS: Final = 2_000_000
MOST_WORK: Final = (
    50_000_000  # operations, values, nodes walked, and 64 characters of attributes and types, as one each
)
DEEPEST_CALLS: Final = 128
_ENDS: Final = frozenset({"func.return", "stablehlo.return", "sdy.return", "mhlo.return", "shape.return"})
_STATEFUL: Final = frozenset({"stablehlo.rng", "stablehlo.infeed", "stablehlo.outfeed", "stablehlo.send"})
_VARIES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r'(?:, )?jax\.(?:result|arg)_info = "(?:[^"\\]|\\.)*"',
        r'(?:, )?sym_(?:name|visibility) = "(?:[^"\\]|\\.)*"',
        r"(?<=channel_handle<handle = )\d+",
    )
)
_SYMBOL = re.compile(r'"(?:[^"\\]|\\.)*"|".*|@([\w.$-]+|"(?:[^"\\]|\\.)*")')
_FUNCTION_ATTRIBUTES = re.compile(r"(?:arg|res)_attrs = \[[{}, ]*\](?:, )?|function_type = .*?(?=, [\w.]+ = |$)")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operation of the dataflow. ``level`` is the depth of the innermost loop or reduction that it depends on,
    ``outer`` the next one outwards; ``place`` is where it was written, which is no part of its name."""

    id: bytes
    name: str
    attributes: str
    signature: str
    operands: tuple[Value, ...]
    bodies: tuple[Body, ...]
    level: int
    outer: int
    place: str

    @property
    def inputs(self) -> Iterator[Node]:
        """Nodes that flow into this one from outside of its regions."""
        for value in self.operands:
            yield value[0]
        for body in self.bodies:
            yield from body.free


Value = tuple[Node, int]


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A region: its arguments at a depth, what it does besides, what it gives, and nodes that it takes from outside."""

    depth: int
    arguments: tuple[Node, ...]
    effects: tuple[Node, ...]
    results: tuple[Value, ...]
    free: tuple[Node, ...]

    @property
    def roots(self) -> tuple[Node, ...]:
        """All that makes the region need anything."""
        return (*self.effects, *(node for node, _ in self.results))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataflow:
    """A program: facts of its module, the attributes of its arguments and results, its body, and all nodes by id."""

    header: tuple[str, ...]
    body: Body
    nodes: dict[bytes, Node]


def dataflow(module: Operation) -> Dataflow:
    """The dataflow of a parsed module. Raises ``Refused`` for one that is no whole program."""
    try:
        return _Builder(module).program()
    except RecursionError as error:
        raise Refused("The program's calls and regions are nested too deep.") from error


@dataclass(slots=True)
class _Frame:
    """One instance of a function: its values by name, how deep in regions it stands, what it does besides."""

    values: dict[str, Value]
    depth: int
    effects: list[Node] = field(default_factory=list)


class _Builder:
    def __init__(self, module: Operation) -> None:
        named = {_symbol(one): one for one in module.regions[0].operations}
        self._functions = {name: one for name, one in named.items() if one.name == "func.func"}
        others = {name: one for name, one in named.items() if one.name != "func.func"}
        texts = {name: f"{one.name} {_unvaried(one.attributes)}" for name, one in others.items()}
        self._symbols = dict(sorted(texts.items(), key=lambda pair: pair[1]))
        self._numbers = {name: number for number, name in enumerate(self._symbols)}
        self._module = module
        self._nodes: dict[bytes, Node] = {}
        self._bodies: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._made = self._work = 0
        self._calls: list[str] = []

    def program(self) -> Dataflow:
        main = self._functions.get("main")
        if main is None or not main.regions:
            raise Refused("The program has no function 'main'.")
        frame = _Frame({}, 0)
        body = self._body(main.regions[0], frame)
        symbols = (f"@{number} = {self._plain(text)}" for number, text in enumerate(self._symbols.values()))
        header = (self._plain(self._module.attributes), *symbols, self._plain(main.attributes))
        return Dataflow(header=tuple(text for text in header if text), body=body, nodes=self._nodes)

    def _body(self, region: Region, frame: _Frame) -> Body:
        """A region in a frame that is already at its depth."""
        arguments = []
        for index, (name, kind) in enumerate(region.arguments):
            node = self._argument(index, kind, frame.depth)
            frame.values[name] = (node, 0)
            arguments.append(node)
        outside, frame.effects = frame.effects, []
        results = self._run(region, frame)
        effects, frame.effects = tuple(frame.effects), outside
        roots = (*effects, *(node for node, _ in results))
        return Body(frame.depth, tuple(arguments), effects, results, tuple(self._free(roots, frame.depth)))

    def _run(self, region: Region, frame: _Frame) -> tuple[Value, ...]:
        """All operations of a block; what its last one gives."""
        for one in region.operations:
            self._made += 1
            if self._made > MOST_OPERATIONS:
                raise Refused(f"The program has more than {MOST_OPERATIONS} operations.")
            self._worked(one.results + _size(one))
            operands = tuple(self._value(name, frame) for name in one.operands)
            if one.name in _ENDS:
                return operands
            for index, value in enumerate(self._done(one, operands, frame)):
                if one.result is not None:
                    frame.values[one.result if one.results == 1 else f"{one.result}#{index}"] = value
        return ()

    def _done(self, one: Operation, operands: tuple[Value, ...], frame: _Frame) -> Sequence[Value]:
        if one.name in ("func.call", "call"):
            return self._called(one, operands, frame)
        frame.depth += 1
        bodies = tuple(self._body(region, frame) for region in one.regions)
        frame.depth -= 1
        attributes = self._plain(one.attributes)
        stateful = one.name in _STATEFUL or "has_side_effect = true" in attributes
        order = str(len(frame.effects)) if stateful else ""
        node = self._node(replace(one, attributes=attributes), operands, bodies, order)
        if stateful or not one.results:
            frame.effects.append(node)
        return [(node, index) for index in range(one.results)]

    def _called(self, one: Operation, operands: tuple[Value, ...], frame: _Frame) -> Sequence[Value]:
        """The body of a function in the place of its call."""
        match = re.search(r'callee = @([\w.$-]+|"[^"]*")', one.attributes)
        name = "" if match is None else match[1].strip('"')
        with_attributes = self._entered(name)
        self._calls.append(name)
        function = self._functions[name]
        inner = _Frame({}, frame.depth, frame.effects)
        arguments = function.regions[0].arguments
        if len(arguments) != len(operands):
            raise Refused(f"The program calls {name!r} with {len(operands)} values; it takes {len(arguments)}.")
        inner.values.update(zip((argument for argument, _ in arguments), operands, strict=True))
        results = self._run(function.regions[0], inner)
        self._calls.pop()
        if not with_attributes:
            return results
        node = self._node(replace(one, attributes=with_attributes), (*operands, *results), ())
        return [(node, index) for index in range(len(results))]

    def _entered(self, name: str) -> str:
        """The attributes of a function's arguments and results that say more than their types."""
        function = self._functions.get(name)
        if function is None or not function.regions:
            raise Refused(f"The program calls {name!r}, which it does not have.")
        if name in self._calls or len(self._calls) >= DEEPEST_CALLS:
            raise Refused(f"The program's function {name!r} calls itself.")
        if name not in self._told:
            self._told[name] = _FUNCTION_ATTRIBUTES.sub("", self._plain(function.attributes)).strip(", ")
        return self._told[name]

    def _value(self, name: str, frame: _Frame) -> Value:
        found = frame.values.get(name)
        if found is None:
            raise Refused(f"The program uses {name}, which it does not make.")
        return found

    def _plain(self, text: str) -> str:
        """Attributes without what varies, and with what a symbol stands for in its place."""
        text = _unvaried(text)
        if "@" in text:
            text = _SYMBOL.sub(lambda match: match[0] if match[1] is None else self._meaning(match[1].strip('"')), text)
        return text

    def _meaning(self, name: str) -> str:
        if name in self._functions:
            if name not in self._bodies:
                self._entered(name)
                self._calls.append(name)
                body = self._body(self._functions[name].regions[0], _Frame({}, 1))
                self._calls.pop()
                self._bodies[name] = _body_id(body).hex()
            return f"@{self._bodies[name]}"
        if name not in self._symbols:
            raise Refused(f"The program speaks of {name!r}, which it does not have.")
        return f"@{self._numbers[name]}"

    def _argument(self, index: int, kind: str, depth: int) -> Node:
        name = hashlib.sha256(f"argument\0{index}\0{kind}\0{depth}".encode()).digest()
        return self._nodes.setdefault(name, Node(name, "argument", "", kind, (), (), depth, -1, ""))

    def _node(self, one: Operation, operands: tuple[Value, ...], bodies: tuple[Body, ...], order: str = "") -> Node:
        """The operation on these operands. Only attributes and order of ``one`` that are plain may be in it."""
        hasher = hashlib.sha256("\0".join((one.name, one.attributes, one.signature, order)).encode())
        for node, index in operands:
            hasher.update(node.id + index.to_bytes(4, "big"))
        for body in bodies:
            hasher.update(b"\1" + _body_id(body))
        name = hasher.digest()
        if name not in self._nodes:
            texts = (one.name, one.attributes, one.signature)
            self._nodes[name] = Node(name, *texts, operands, bodies, *_levels(operands, bodies), one.place)
        return self._nodes[name]

    def _free(self, roots: Sequence[Node], depth: int) -> Iterator[Node]:
        """The nodes that a region at ``depth`` takes from outside, in the order in which it comes to need them."""
        seen: set[bytes] = set()
        waiting = list(reversed(roots))
        while waiting:
            node = waiting.pop()
            if node.id in seen:
                continue
            seen.add(node.id)
            self._worked(_size(node))
            if node.level < depth:
                yield node
            else:
                waiting += reversed(list(node.inputs))

    def _worked(self, units: int) -> None:
        self._work += units
        if self._work > MOST_WORK:
            raise Refused("The program is larger, with its calls in place, than any of ours.")


def _size(one: Operation | Node) -> int:
    return 1 + len(one.operands) + (len(one.attributes) + len(one.signature)) // 64


def _body_id(body: Body) -> bytes:
    hasher = hashlib.sha256(str(body.depth).encode())
    for node in (*body.arguments, *body.effects):
        hasher.update(node.id)
    for node, index in body.results:
        hasher.update(node.id + index.to_bytes(4, "big"))
    return hasher.digest()


def _levels(operands: Sequence[Value], bodies: Sequence[Body]) -> tuple[int, int]:
    """The two innermost depths that something depends on; zero and minus one for what depends on nothing."""
    inputs = [node for node, _ in operands] + [node for body in bodies for node in body.free]
    found = {-1, 0, *(node.level for node in inputs), *(node.outer for node in inputs)}
    first, second = sorted(found)[-1:-3:-1]
    return first, second


def _unvaried(text: str) -> str:
    for pattern in _VARIES:
        text = pattern.sub("", text)
    return text.replace("{, ", "{").removeprefix(", ")


def _symbol(one: Operation) -> str:
    match = re.search(r'sym_name = "((?:[^"\\]|\\.)*)"', one.attributes)
    return "" if match is None else match[1]
