"""Proofs that a leaf stands in a Merkle tree: the sibling hashes on its way to the root (RFC 6962, 2.1.1).

The root itself is ``registry.core.digests.merkle_root``. Refuses an index beyond the tree and paths of another length
than the tree's size demands, so that a proof is bound to the number of leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

from registry.core.digests import node_hash
from registry.errors import MalformedRecord

HASH_BYTES = 32
MOST_LEAVES = 2**40


def audit_path(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The sibling hashes of the leaf at ``index``, from the leaf up. ``leaves`` are leaf hashes in their order.

    Raises ``MalformedRecord`` when there is no such leaf.
    """
    _check(index, len(leaves))
    level, at, path = list(leaves), index, []
    while len(level) > 1:
        sibling = at ^ 1
        if sibling < len(level):
            path.append(level[sibling])
        odd = level[-1:] if len(level) % 2 else []
        level = [node_hash(level[left], level[left + 1]) for left in range(0, len(level) - 1, 2)] + odd
        at //= 2
    return tuple(path)


def root_by_path(leaf: bytes, index: int, leaves: int, path: Sequence[bytes]) -> bytes:
    """The root of a tree of ``leaves`` leaves with the leaf hash ``leaf`` at ``index``, if ``path`` is right.

    Raises ``MalformedRecord`` when the path has not the length that the index and the number of leaves demand.
    """
    _check(index, leaves)
    siblings = list(path)
    root, at, last = leaf, index, leaves - 1
    while last > 0:
        if at % 2 or at < last:
            if not siblings or len(siblings[0]) != HASH_BYTES:
                raise MalformedRecord(f"A path of {len(path)} hashes is too short for a tree of {leaves} leaves.")
            sibling = siblings.pop(0)
            root = node_hash(sibling, root) if at % 2 else node_hash(root, sibling)
        at, last = at // 2, last // 2
    if siblings:
        raise MalformedRecord(f"A path of {len(path)} hashes is too long for a tree of {leaves} leaves.")
    return root


def _check(index: int, leaves: int) -> None:
    if not 0 <= index < leaves <= MOST_LEAVES:
        raise MalformedRecord(f"A tree of {leaves} leaves has no leaf {index}.")
