"""Parameters of a model counted in its leaves, apart from the arithmetic of the shape.

The published table counts matrices only. What it leaves out is listed here leaf by leaf, so that nothing hides in a
rounding: norms, gates, convolutions, and the router's state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import equinox as eqx
import jax
from haliax.util import is_named_array
from levanter.utils.jax_utils import leaf_key_paths

from train.grug.family import Grug

_SMALL: Final = frozenset({"norm", "attention_norm", "mixture_norm", "taps", "head_gate", "router_state"})
_ROUTED: Final = "experts"
_TABLES: Final = frozenset({"embeddings", "lm_head"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Parameters of the published table, ``active`` for one token, and numbers in the leaves that it leaves out."""

    total: int
    active: int
    small: Mapping[str, int]


def counted(family: Grug) -> Counted:
    """Count the leaves of the abstract model; no array is made."""
    sizes = dict(_sizes(family))
    small = {name: size for name, size in sizes.items() if _SMALL & set(name.split("."))}
    large = {name: size for name, size in sizes.items() if name not in small}
    config = family.config
    active = 0
    for name, size in large.items():
        parts = set(name.split("."))
        if _ROUTED in parts:
            active += size * config.experts_per_token // config.routed_experts
        elif not parts & _TABLES:
            active += size
    return Counted(total=sum(large.values()), active=active, small=small)


def _sizes(family: Grug) -> Iterator[tuple[str, int]]:
    model = eqx.filter_eval_shape(lambda: family.build(jax.random.PRNGKey(0)))
    names = jax.tree.leaves(leaf_key_paths(model, is_leaf=is_named_array))
    leaves = jax.tree.leaves(model, is_leaf=is_named_array)
    for name, leaf in zip(names, leaves, strict=True):
        array = leaf.array if is_named_array(leaf) else leaf
        yield name, int(array.size)
