"""What this project's own arithmetic says of a foreign thing: figures that follow from others that were told.

The shape of a rung fixes its size, length and rates (``registry.core.ladder``); racks fix devices; the step that a run
reached fixes the tokens that it saw. A derived figure is one more claim, by this project. Refuses nothing: a shape that
no model can have is told as such by :func:`impossible`.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from registry.core import decimals, published
from registry.core.adopted.claims import Said
from registry.core.adopted.record import Bond, Ended
from registry.core.adopted.shelf import Shelf, Thing
from registry.core.family import Family
from registry.core.ladder import Rung, Shape, derive
from registry.errors import Refused

SHAPE: Final = ("hidden", "layers", "kv_heads", "batch_sequences")
BY_SHAPE: Final = "the ladder's arithmetic"
BY_FAMILY: Final = "the family that this project's ladder arithmetic uses"
BY_RACKS: Final = "racks times the devices of the expert axis"
BY_STEPS: Final = "the last step times the tokens of a step"
EXPERT_AXIS: Final = "expert_axis"
_CONSTANTS: Final = {
    "vocabulary": "vocabulary",
    "context_tokens": "context_tokens",
    "head_dim": "head_dim",
    "routed_experts": "routed_experts",
    "experts_per_token": "experts_per_token",
    "shared_experts": "shared_experts",
    "sliding_window": "sliding_window",
    "global_attention_every": "global_every",
}


def derived(thing: Thing, shelf: Shelf) -> Iterator[Said]:
    """Every figure that follows for ``thing`` from others."""
    yield from _constants(thing)
    rung = rung_of(thing)
    if rung is None:
        return
    for column in published.COLUMNS:
        yield _said(column, getattr(rung, column), BY_SHAPE)
    yield _said("tokens_per_step", rung.tokens_per_step, BY_SHAPE)
    last = thing.whole("last_step")
    if thing.ended is Ended.PARTIAL and last is not None:
        about = thing.said["last_step"][0].about
        yield _said("trained_tokens", last * rung.tokens_per_step, BY_STEPS, about=about)
    yield from _devices(thing, shelf)


def rung_of(thing: Thing) -> Rung | None:
    """The rung that the thing's shape fixes; None where no shape of a known family is told, or none that can be."""
    try:
        return _rung(thing)
    except Refused:
        return None


def impossible(thing: Thing) -> str | None:
    """Why no model can have the shape that is told; None when one can."""
    try:
        _rung(thing)
    except Refused as error:
        return error.message
    return None


def _rung(thing: Thing) -> Rung | None:
    family = _family(thing)
    if family is None or not all(thing.said.get(quantity) for quantity in SHAPE):
        return None
    pair = thing.said["kv_heads"][0].value.split("/")
    numbers = {name: _number(thing.said[name][0].value) for name in SHAPE if name != "kv_heads"}
    shape = Shape.from_settings({**numbers, "kv_heads": [_number(part) for part in pair]})
    return derive(family, shape)


def _family(thing: Thing) -> Family | None:
    """The family by the thing's own link: only the published one is known here."""
    names = {link.name for link in thing.bound(Bond.FAMILY)}
    return published.FAMILY if published.FAMILY.name in names else None


def _constants(thing: Thing) -> Iterator[Said]:
    if thing.name != published.FAMILY.name:
        return
    for quantity, field in _CONSTANTS.items():
        yield _said(quantity, getattr(published.FAMILY, field), BY_FAMILY)
    for quantity in ("expert_width", "latent_width"):
        share = getattr(published.FAMILY, quantity)
        yield _said(quantity, f"hidden/{1 / share}", BY_FAMILY)


def _devices(thing: Thing, shelf: Shelf) -> Iterator[Said]:
    racks = thing.whole("racks")
    for link in thing.bound(Bond.FAMILY):
        family = shelf.things.get(link.name)
        axis = family.whole(EXPERT_AXIS) if family is not None else None
        if racks is not None and axis is not None:
            yield _said("gpus", racks * axis, BY_RACKS)


def _said(quantity: str, value: Decimal | int | str, source: str, *, about: bool = False) -> Said:
    text = value if isinstance(value, str) else str(value) if isinstance(value, int) else decimals.write(value)
    return Said(quantity=quantity, value=text, source=source, label=source, about=about, derived=True)


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else text
