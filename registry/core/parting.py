"""Where two results part: bit-exact answers first, distances second, and which facts of their making differ.

A side is what is known of one result: its transcript, its tensors' leaves, its held-out losses, its setup and recipe.
Pure; whoever calls reads the bytes and measures. Refuses to call two sides equal when nothing of them was compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from registry.core import transcript
from registry.core.canonical import Json
from registry.core.comparison import Change, Part, changes, leaf_changes, recipe_changes
from registry.core.digests import Digest
from registry.core.distances import LossDistance, TensorDistance, heldout_losses, largest, step_losses
from registry.core.records import Recipe
from registry.core.setups import Setup, SetupChange, setup_changes
from registry.core.tensors import Leaf, tensor_root
from registry.core.transcript import Transcript

Measure: TypeAlias = Callable[[Sequence[str]], Sequence[TensorDistance]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One result. None where it has nothing of the kind, or nothing that could be read; ``notes`` say why.

    ``contents`` are identities of outputs by name, such as tree digests, for results without tensors; ``scripted`` are
    distributions with scripts, as :func:`registry.core.setups.setup_changes` takes them.
    """

    label: str
    transcript: Transcript | None = None
    leaves: Sequence[Leaf] | None = None
    evaluation: bytes | None = None
    contents: Mapping[str, str] = field(default_factory=dict)
    setup: Setup | None = None
    scripted: frozenset[str] = frozenset()
    recipe: Recipe | None = None
    notes: tuple[str, ...] = ()

    @property
    def root(self) -> Digest | None:
        """The tensor root."""
        return tensor_root(self.leaves) if self.leaves else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Two sides compared. What only one side has was not compared, and is None or empty here."""

    recorded: Side
    found: Side
    lines: transcript.Comparison | None
    tensors: tuple[Change[Leaf], ...] | None
    contents: tuple[Change[str], ...]
    distances: tuple[TensorDistance, ...]
    steps: tuple[LossDistance, ...]
    heldout: tuple[LossDistance, ...]
    setup: tuple[SetupChange, ...]
    asked: Mapping[Part, tuple[Change[str], ...]]

    @property
    def compared(self) -> bool:
        """Whether anything bit-exact was compared."""
        return bool(self.lines and self.lines.compared) or self.tensors is not None or bool(self.shared_contents)

    @property
    def shared_contents(self) -> frozenset[str]:
        """The outputs that both sides have."""
        return frozenset(self.recorded.contents) & frozenset(self.found.contents)

    @property
    def equal(self) -> bool:
        """Whether everything that was compared is the same, bit for bit; at least something was."""
        parted = (self.lines is not None and self.lines.difference is not None) or self.tensors or self.contents
        return self.compared and not parted

    @property
    def first_step(self) -> int | None:
        """The first step at which the transcripts differ."""
        return None if self.lines is None or self.lines.difference is None else self.lines.difference.step

    @property
    def first_tensor(self) -> str | None:
        """The first differing tensor in the order of names."""
        return self.tensors[0].key if self.tensors else None

    @property
    def furthest(self) -> TensorDistance | None:
        """The tensor with the largest relative distance."""
        known = [one for one in self.distances if one.relative is not None]
        return max(known, key=lambda one: one.relative or 0.0, default=None)

    def to_json(self) -> dict[str, Json]:
        """What parts them, for a record: exact facts, and distances as strings."""
        far, loss = self.furthest, largest(self.steps)
        fields = None if self.lines is None or self.lines.difference is None else list(self.lines.difference.fields)
        return {
            "first_step": self.first_step,
            "fields": fields,
            "compared_steps": 0 if self.lines is None else self.lines.compared,
            "first_tensor": self.first_tensor,
            "differing_tensors": None if self.tensors is None else len(self.tensors),
            "furthest_tensor": None if far is None else far.name,
            "largest_relative": None if far is None else spelled(far.relative),
            "largest_loss": None if loss is None else spelled(loss.distance),
            "heldout": {one.name: spelled(one.distance) for one in self.heldout},
        }


def part(recorded: Side, found: Side, measure: Measure | None = None) -> Parting:
    """Compare two sides. ``measure`` gives the distances of tensors by name, asked only where their values differ."""
    lines = None
    if recorded.transcript is not None and found.transcript is not None:
        lines = transcript.compare(recorded.transcript, found.transcript)
    tensors = None
    if recorded.leaves and found.leaves:
        tensors = leaf_changes(recorded.leaves, found.leaves)
    return Parting(
        recorded=recorded,
        found=found,
        lines=lines,
        tensors=tensors,
        contents=_contents(recorded, found),
        distances=_distances(tensors or (), measure),
        steps=() if lines is None or lines.difference is None else _steps(recorded, found),
        heldout=_heldout(recorded.evaluation, found.evaluation),
        setup=()
        if recorded.setup is None or found.setup is None
        else setup_changes(recorded.setup, found.setup, found.scripted),
        asked={} if recorded.recipe is None or found.recipe is None else recipe_changes(recorded.recipe, found.recipe),
    )


def spelled(value: float | None) -> str | None:
    """A distance as a string of three digits, for records and people."""
    return None if value is None else f"{value:.3g}"


def _contents(recorded: Side, found: Side) -> tuple[Change[str], ...]:
    """Outputs that both have with another identity."""
    shared = recorded.contents.keys() & found.contents.keys()
    return changes({key: recorded.contents[key] for key in shared}, {key: found.contents[key] for key in shared})


def _distances(tensors: Sequence[Change[Leaf]], measure: Measure | None) -> tuple[TensorDistance, ...]:
    comparable = [one.key for one in tensors if one.recorded and one.found and one.recorded.spec == one.found.spec]
    return tuple(measure(comparable)) if measure is not None and comparable else ()


def _steps(recorded: Side, found: Side) -> tuple[LossDistance, ...]:
    if recorded.transcript is None or found.transcript is None:
        return ()
    return step_losses(recorded.transcript, found.transcript)


def _heldout(recorded: bytes | None, found: bytes | None) -> tuple[LossDistance, ...]:
    return () if recorded is None or found is None or recorded == found else heldout_losses(recorded, found)
