"""Record stores: what is kept is whole, is found by its digest, and is never another's bytes. Fake and folder alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.stores import MemoryRecords

from registry.adapters.records import FileRecordStore
from registry.core import canonical
from registry.core.digests import Digest, sha256
from registry.errors import DoesNotHold, Refused, UnknownName
from registry.ports import RecordStore

DATA = canonical.encode({"kind": "recipe", "schema": 1})


@dataclass
class Subject:
    """A store, and a way to tamper with what it holds."""

    store: RecordStore
    tamper: Callable[[str, Digest, bytes], None]
    litter: Callable[[str], None]


@pytest.fixture(params=["fake", "folder"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    if request.param == "fake":
        memory = MemoryRecords()
        yield Subject(
            store=memory,
            tamper=lambda kind, digest, data: memory.held[kind].update({digest: data}),
            litter=memory.stray.append,
        )
        return

    def write(path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    yield Subject(
        store=FileRecordStore(tmp_path),
        tamper=lambda kind, digest, data: write(tmp_path / f"{kind}s/{digest.hex}.json", data),
        litter=lambda path: write(tmp_path / path, b"litter"),
    )


def test_what_is_kept_is_found_by_its_digest(subject: Subject) -> None:
    digest = subject.store.put("recipe", DATA)
    assert digest == sha256(DATA)
    assert subject.store.get("recipe", digest) == DATA
    assert subject.store.digests("recipe") == (digest,)
    assert subject.store.kinds() == ("recipe",)


def test_the_same_bytes_twice_are_one_record(subject: Subject) -> None:
    assert subject.store.put("recipe", DATA) == subject.store.put("recipe", DATA)
    assert len(subject.store.digests("recipe")) == 1


def test_an_empty_store_has_nothing(subject: Subject) -> None:
    assert list(subject.store.kinds()) == []
    assert list(subject.store.digests("recipe")) == []
    assert list(subject.store.strays()) == []
    with pytest.raises(UnknownName, match="no recipe record"):
        subject.store.get("recipe", sha256(DATA))


def test_digests_are_sorted(subject: Subject) -> None:
    kept = [subject.store.put("recipe", canonical.encode(number)) for number in range(20)]
    assert list(subject.store.digests("recipe")) == sorted(kept)


def test_kinds_do_not_mix(subject: Subject) -> None:
    digest = subject.store.put("recipe", DATA)
    with pytest.raises(UnknownName):
        subject.store.get("product", digest)
    assert list(subject.store.digests("product")) == []


@pytest.mark.parametrize("kind", ["", "Recipe", "../recipe", "a/b", "recipe.", "1"])
def test_a_kind_is_a_word(subject: Subject, kind: str) -> None:
    with pytest.raises(Refused, match="not a kind"):
        subject.store.put(kind, DATA)


def test_altered_bytes_are_never_returned(subject: Subject) -> None:
    digest = subject.store.put("recipe", DATA)
    subject.tamper("recipe", digest, DATA[:-1] + b"]")
    with pytest.raises(DoesNotHold, match="does not have the bytes of its name"):
        subject.store.get("recipe", digest)


def test_a_record_is_not_put_over_other_bytes(subject: Subject) -> None:
    digest = subject.store.put("recipe", DATA)
    subject.tamper("recipe", digest, b"other")
    with pytest.raises(DoesNotHold, match="other bytes"):
        subject.store.put("recipe", DATA)


def test_what_is_no_record_is_told(subject: Subject) -> None:
    subject.store.put("recipe", DATA)
    for path in ("note.txt", "recipes/copy.json", f"recipes/{'A' * 64}.json", f"deep/recipes/{'a' * 64}.json"):
        subject.litter(path)
    assert list(subject.store.strays()) == sorted(
        ["note.txt", "recipes/copy.json", f"recipes/{'A' * 64}.json", f"deep/recipes/{'a' * 64}.json"]
    )
    assert len(subject.store.digests("recipe")) == 1
