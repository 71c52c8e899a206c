"""The map from the tensors of a checkpoint to the tensors of its export: exact, complete, and applied without JAX.

An exported tensor is made of parts of leaves: a leaf, or a slice of its leading axes, transposed, reshaped, cast;
several parts are joined along an axis. Slices come first, so that a part is one range of its leaf's bytes.
Refuses a map whose shapes and dtypes do not work out, that uses a leaf only in part, or that names one twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Self

from registry.core.canonical import Json
from registry.core.codec import Reader
from registry.core.tensor_operations import Form, Operation, Shape, Take, form_after, integers, read_operation
from registry.core.tensors import TensorSpec
from registry.errors import DoesNotHold, MalformedRecord

MODEL = "model/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A leaf of the checkpoint and what is done with it, in this order."""

    leaf: str
    operations: tuple[Operation, ...] = ()

    def __post_init__(self) -> None:
        if any(isinstance(one, Take) for one in self.rest):
            raise MalformedRecord(f"A map slices the leaf {self.leaf!r} after other operations.")

    @property
    def slices(self) -> Shape:
        """The indexes into the leading axes."""
        leading = takewhile(lambda one: isinstance(one, Take), self.operations)
        return tuple(one.index for one in leading if isinstance(one, Take))

    @property
    def rest(self) -> tuple[Operation, ...]:
        """What is done after slicing."""
        return self.operations[len(self.slices) :]

    def sliced(self, leaf: TensorSpec) -> TensorSpec:
        """The slice of ``leaf``, before anything else is done."""
        return TensorSpec(name=leaf.name, dtype=leaf.dtype, shape=leaf.shape[len(self.slices) :])

    def start_byte(self, leaf: TensorSpec) -> int:
        """Where the slice begins in the C-order bytes of ``leaf``. It is as long as :meth:`sliced` says."""
        index = 0
        for size, taken in zip(leaf.shape, self.slices, strict=False):
            index = index * size + taken
        return index * self.sliced(leaf).size_bytes

    def to_json(self) -> dict[str, Json]:
        return {"leaf": self.leaf, "operations": [one.to_json() for one in self.operations]}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        operations = reader.raw("operations")
        if isinstance(operations, str) or not isinstance(operations, Sequence):
            raise MalformedRecord("The operations of a part must be a list.")
        one = cls(leaf=reader.text("leaf"), operations=tuple(read_operation(item) for item in operations))
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How one exported tensor is made: of one part, or of several joined along ``axis``."""

    target: TensorSpec
    parts: tuple[Part, ...]
    axis: int | None = None

    def check(self, leaves: Mapping[str, TensorSpec]) -> None:
        """Raise ``MalformedRecord`` unless the parts make the target."""
        name = self.target.name
        if not self.parts or (len(self.parts) == 1) != (self.axis is None):
            raise MalformedRecord(f"The tensor {name!r} needs one part, or several and an axis.")
        unknown = [part.leaf for part in self.parts if part.leaf not in leaves]
        if unknown:
            raise MalformedRecord(f"The tensor {name!r} is made of leaves that are not listed: {', '.join(unknown)}.")
        sources = [(leaves[part.leaf], part.operations) for part in self.parts]
        forms = [form_after(operations, leaf.dtype, leaf.shape) for leaf, operations in sources]
        dtype, shape = forms[0] if self.axis is None else _joined(forms, self.axis)
        if (dtype, shape) != (self.target.dtype, self.target.shape):
            told = f"{self.target.dtype}{list(self.target.shape)}"
            raise MalformedRecord(f"The map makes {dtype}{list(shape)} for the tensor {name!r}, which is {told}.")

    def to_json(self) -> dict[str, Json]:
        return {**_json(self.target), "parts": [part.to_json() for part in self.parts], "axis": self.axis}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        parts, axis = reader.objects("parts", Part.read), reader.optional("axis", reader.integer)
        return cls(target=_spec(reader), parts=parts, axis=axis)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A leaf of the model that is not exported, and why."""

    leaf: str
    reason: str

    def to_json(self) -> dict[str, Json]:
        return {"leaf": self.leaf, "reason": self.reason}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(leaf=reader.text("leaf"), reason=reader.text("reason"))
        reader.close()
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMap:
    """All rules of an export and the leaves that they use, each sorted by name. A map that exists works out.

    Raises ``MalformedRecord`` when a rule does not, or an element of a used leaf goes nowhere.
    """

    leaves: tuple[TensorSpec, ...]
    rules: tuple[Rule, ...]
    left_out: tuple[LeftOut, ...] = ()

    def __post_init__(self) -> None:
        _require_ascending([leaf.name for leaf in self.leaves])
        _require_ascending([rule.target.name for rule in self.rules])
        _require_ascending(sorted([*self.by_name, *(one.leaf for one in self.left_out)]))
        for rule in self.rules:
            rule.check(self.by_name)
        taken: dict[str, set[Shape]] = {leaf.name: set() for leaf in self.leaves}
        for part in (part for rule in self.rules for part in rule.parts):
            taken[part.leaf].add(part.slices)
        for leaf in self.leaves:
            if not _covers(taken[leaf.name], leaf.shape):
                raise MalformedRecord(f"The map does not use all of the leaf {leaf.name!r}.")

    @property
    def by_name(self) -> dict[str, TensorSpec]:
        """The used leaves by name."""
        return {leaf.name: leaf for leaf in self.leaves}

    def require_all_of(self, checkpoint: Iterable[TensorSpec]) -> None:
        """Raise ``DoesNotHold`` unless the model's leaves in a checkpoint are just those that the map uses or leaves
        out, each with its dtype and shape."""
        present = {spec.name: spec for spec in checkpoint if spec.name.startswith(MODEL)}
        known = self.by_name
        told = known.keys() | {one.leaf for one in self.left_out}
        silent, absent = sorted(present.keys() - told), sorted(told - present.keys())
        if silent or absent:
            raise DoesNotHold(
                f"The map says nothing of {', '.join(silent) or 'no leaf'} in the checkpoint, and speaks of "
                f"{', '.join(absent) or 'no leaf'} that is not there.",
                remedy="Extend the map of the model's family, or state there why a leaf is left out.",
            )
        other = sorted(name for name, leaf in known.items() if present[name] != leaf)
        if other:
            raise DoesNotHold(f"The checkpoint has other dtypes or shapes than the map: {', '.join(other)}.")

    def to_json(self) -> dict[str, Json]:
        return {
            "leaves": [_json(leaf) for leaf in self.leaves],
            "tensors": [rule.to_json() for rule in self.rules],
            "left_out": [one.to_json() for one in self.left_out],
        }

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read a map. Raises ``MalformedRecord`` also for one that does not work out."""
        one = cls(
            leaves=reader.objects("leaves", _spec),
            rules=reader.objects("tensors", Rule.read),
            left_out=reader.objects("left_out", LeftOut.read),
        )
        reader.close()
        return one


def _joined(forms: Sequence[Form], axis: int) -> Form:
    """The form of arrays joined along an axis, which all but that axis must share."""
    dtype, shape = forms[0]
    others = {(one, shape[:axis], shape[axis + 1 :]) for one, shape in forms}
    if axis >= len(shape) or len(others) != 1:
        raise MalformedRecord(f"Arrays of other dtypes or shapes cannot be joined along axis {axis}.")
    return dtype, (*shape[:axis], sum(shape[axis] for _, shape in forms), *shape[axis + 1 :])


def _covers(taken: set[Shape], shape: Shape) -> bool:
    """Whether slices, given by their leading indexes, together are an array of ``shape``."""
    if () in taken or not taken:
        return bool(taken)
    inner: dict[int, set[Shape]] = {}
    for first, *rest in taken:
        inner.setdefault(first, set()).add(tuple(rest))
    return len(inner) == shape[0] and all(_covers(rest, shape[1:]) for rest in inner.values())


def _require_ascending(names: Sequence[str]) -> None:
    for name, following in pairwise(names):
        if name >= following:
            raise MalformedRecord(f"A map names {following!r} twice or out of order.")


def _json(spec: TensorSpec) -> dict[str, Json]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}


def _spec(reader: Reader) -> TensorSpec:
    spec = TensorSpec(name=reader.text("name"), dtype=reader.text("dtype"), shape=integers(reader.raw("shape")))
    reader.close()
    return spec
