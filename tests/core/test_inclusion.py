"""Merkle trees over files: the published test vectors, proofs for every leaf, and proofs that must not pass."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core import canonical
from registry.core.codec import record_bytes
from registry.core.digests import FileEntry, leaf_hash, merkle_root, node_hash, sha256, tree_digest
from registry.core.inclusion import Inclusion, prove
from registry.core.merkle import audit_path, root_by_path
from registry.errors import DoesNotHold, MalformedRecord, ReckonError, UnknownName

# Inputs and roots of the reference implementation of Certificate Transparency, trees of one to eight leaves.
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAVES = st.lists(st.binary(max_size=8), min_size=1, max_size=70).map(lambda rows: [leaf_hash(row) for row in rows])


def tree(count: int) -> list[FileEntry]:
    return sorted(FileEntry(path=f"train-{n:05}.parquet", size_bytes=n, digest=sha256(b"%d" % n)) for n in range(count))


def test_the_published_roots():
    leaves = [leaf_hash(bytes.fromhex(text)) for text in INPUTS]
    assert [merkle_root(leaves[: size + 1]).hex() for size in range(8)] == ROOTS
    assert merkle_root([]) == hashlib.sha256(b"").digest()


@given(LEAVES, st.data())
def test_every_leaf_has_a_proof_and_only_that_leaf(leaves, data):
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = audit_path(leaves, index)
    assert len(path) <= (len(leaves) - 1).bit_length()
    assert root_by_path(leaves[index], index, len(leaves), path) == merkle_root(leaves)
    assert root_by_path(leaf_hash(b"another one"), index, len(leaves), path) != merkle_root(leaves)


@given(LEAVES.filter(lambda rows: len(rows) > 1), st.data())
def test_a_proof_of_another_length_is_refused(leaves, data):
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = audit_path(leaves, index)
    for wrong in (path[:-1], (*path, path[0]), ()):
        with pytest.raises(MalformedRecord):
            root_by_path(leaves[index], index, len(leaves), wrong)
    with pytest.raises(MalformedRecord):
        root_by_path(leaves[index], len(leaves), len(leaves), path)


def test_a_node_is_no_leaf():
    """Without the two prefixes the two files of a tree could be passed off as one."""
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    assert node_hash(left, right) not in (leaf_hash(left + right), hashlib.sha256(left + right).digest())


@pytest.mark.parametrize("count", [1, 2, 16, 17, 32, 33, 100])
def test_a_file_is_proved_by_its_tree_alone(count):
    entries = tree(count)
    whole = tree_digest(entries)
    for entry in entries:
        proof = Inclusion.from_json(canonical.decode(record_bytes(prove("shards", entries, entry.path))))
        proof.verify(whole)
        assert proof.entry == entry


@pytest.mark.slow
def test_a_proof_of_a_hundred_thousand_shards_is_short():
    proof = prove("shards", tree(100_000), "train-77777.parquet")
    assert len(proof.path) == 13
    assert len(record_bytes(proof)) < 4000


def altered(proof: Inclusion) -> dict[str, Inclusion]:
    first, *others = proof.page
    return {
        "bytes": replace(proof, page=(replace(first, digest=sha256(b"other")), *others)),
        "size": replace(proof, page=(replace(first, size_bytes=99), *others)),
        "name": replace(proof, page=(replace(first, path="train-00099.parquet"), *others)),
        "neighbour": replace(proof, page=(*proof.page[:-1], replace(proof.page[-1], size_bytes=99))),
        "place": replace(proof, index=proof.index + 16),
        "number of files": replace(proof, files=proof.files + 1),
        "hash": replace(proof, path=(bytes(32), *proof.path[1:])),
        "tree": replace(proof, tree=tree_digest(tree(9))),
        "short": replace(proof, path=proof.path[1:]),
    }


@pytest.mark.parametrize("what", altered(prove("shards", tree(70), "train-00032.parquet")))
def test_an_altered_proof_does_not_hold(what):
    entries = tree(70)
    with pytest.raises((DoesNotHold, MalformedRecord)):
        altered(prove("shards", entries, "train-00032.parquet"))[what].verify(tree_digest(entries))


def test_the_place_in_a_page_says_which_file_is_proved():
    entries = tree(20)
    for path in ("train-00003.parquet", "train-00004.parquet"):
        assert prove("shards", entries, path).entry.path == path
    with pytest.raises(MalformedRecord, match="does not hold"):
        replace(prove("shards", entries, "train-00003.parquet"), page=tuple(entries[:15]))


def test_what_is_not_there_has_no_proof():
    with pytest.raises(UnknownName):
        prove("shards", tree(3), "train-00003.parquet")
    with pytest.raises(UnknownName):
        prove("shards", [], "train-00003.parquet")


FIELDS = st.dictionaries(
    st.sampled_from(["kind", "schema", "name", "tree", "files", "index", "page", "path", "more"]),
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 2**53 - 1) | st.text(max_size=5) | st.just("inclusion"),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["path", "digest"]), inner),
    ),
)


@given(FIELDS)
def test_no_value_does_more_than_be_refused(value):
    whole = {**record(), **value}
    try:
        proof = Inclusion.from_json(whole)
        proof.verify(tree_digest(tree(8)))
    except ReckonError:
        return
    assert {**whole, "name": "", "index": 0}.items() >= {**record(), "name": "", "index": 0}.items()


def record() -> dict:
    return dict(prove("shards", tree(8), "train-00003.parquet").to_json())
