"""The rule above all others: what is reached loses no copy unless another one, hashed, stays."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from registry.core.deletion import File, Going, Needed, Place, Plan, Staying, Unit, forecast, grouped, spare
from registry.core.digests import sha256
from registry.core.reaching import Ground, Reason

NEEDED = {sha256(b"needed"): Needed(what="hero/1@step-12", reason=Reason(ground=Ground.RELEASE, why="it is released"))}


def unit(path: str, *, size: int = 6, inode: int = 0, names: int = 1, place: Place = Place.SCRATCH) -> Unit:
    file = File(path=path, size_bytes=size, inode=(1, inode or hash(path)), names=names, modified_ns=0)
    return Unit(place=place, name=path, path=path, files=(file,), modified_ns=0)


def going(path: str, **facts: object) -> Going:
    return Going(unit=unit(path, **facts), what=path, why="old")


def fates(units, held: dict[str, bytes], copies: set[str], sizes=frozenset({6})):
    """The fate of units whose files hold these bytes, when copies lie at these paths too."""
    hashed: list[str] = []

    def digest(path):
        hashed.append(path)
        return sha256(held[path])

    def has_copy(one, away):
        return any(sha256(held[path]) == one for path in copies if path not in away)

    return spare(units, NEEDED, sizes, (digest, has_copy)), hashed


def test_the_last_copy_stays_and_says_of_what():
    (one,), _ = fates([going("a")], {"a": b"needed"}, set())
    assert isinstance(one, Staying)
    assert one.ground == "release"
    assert one.why == "it is the last copy of hero/1@step-12, which stays: it is released"


def test_a_copy_that_stays_lets_another_go():
    (one,), _ = fates([going("a")], {"a": b"needed", "b": b"needed"}, {"b"})
    assert isinstance(one, Going)


def test_a_damaged_copy_is_none():
    (one,), _ = fates([going("a")], {"a": b"needed", "b": b"n3eded"}, {"b"})
    assert isinstance(one, Staying)


def test_of_two_copies_that_would_both_go_one_stays():
    found, _ = fates([going("a"), going("b")], {"a": b"needed", "b": b"needed"}, {"a", "b"})
    assert [type(one) for one in found] == [Staying, Going]


def test_only_files_of_a_needed_size_are_hashed():
    found, hashed = fates([going("a", size=5), going("b")], {"a": b"other", "b": b"needed"}, set())
    assert hashed == ["b"]
    assert [type(one) for one in found] == [Going, Staying]


@given(st.lists(st.tuples(st.sampled_from([b"needed", b"n3eded", b"others"]), st.booleans()), max_size=8))
def test_whatever_goes_a_copy_stays(files):
    """Any mix of copies, damaged ones and others, each going or not, each looked at as a copy: one good one is left."""
    held = {str(at): data for at, (data, _) in enumerate(files)}
    units = [
        going(str(at)) if goes else Staying(unit=unit(str(at)), what="x", ground="current", why="y")
        for at, (_, goes) in enumerate(files)
    ]
    found, _ = fates(units, held, set(held))
    left = [held[one.unit.path] for one in found if isinstance(one, Staying)]
    assert (b"needed" in left) == (b"needed" in held.values())


def test_a_forecast_counts_what_becomes_free():
    """A file with another name on the disk frees nothing; all names together free it once."""
    alone, linked = unit("a", inode=1), unit("b", inode=2, names=2)
    other = unit("c", inode=2, names=2)
    assert forecast([alone, linked]).freed_bytes == 6
    assert forecast([alone, linked, other]).freed_bytes == 12
    held = forecast([alone, linked, other])
    assert (held.units, held.files, held.size_bytes) == (3, 3, 18)


def test_what_stays_is_told_together():
    staying = [Staying(unit=unit(path), what="hero", ground="current", why="newest") for path in "ab"]
    plan = Plan(going=(), staying=(*staying, replace(staying[0], what="rung")), notes=())
    assert [(what, held.units) for what, _, _, _, held in grouped(plan.staying)] == [("hero", 2), ("rung", 1)]
    assert plan.forecast.units == 0
