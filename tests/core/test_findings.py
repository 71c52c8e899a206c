"""A verdict holds only when something was checked; findings say both sides."""

from __future__ import annotations

from registry.core.comparison import Change
from registry.core.digests import Algorithm, Digest, FileEntry, sha256
from registry.core.findings import Finding, Tally, Trouble, Verdict, of_fact, of_file, of_tensor
from registry.core.tensors import Leaf


def entry(data: bytes) -> FileEntry:
    return FileEntry(path="a", size_bytes=len(data), digest=sha256(data))


def leaf(dtype: str, filling: str) -> Leaf:
    return Leaf(name="w", dtype=dtype, shape=(2,), digest=Digest(Algorithm.BLAKE3, filling * 64))


def test_a_check_of_nothing_does_not_hold() -> None:
    assert not Tally().verdict.holds
    assert not Verdict(checked=0, findings=()).holds
    assert Verdict(checked=1, findings=()).holds


def test_one_finding_is_enough() -> None:
    tally = Tally(files=5)
    assert tally.verdict.holds
    tally.add([of_file("shards", "p/a", Change(key="a", recorded=entry(b"1"), found=None))])
    assert not tally.verdict.holds


def test_a_file_is_told_once_for_all_outputs_that_hold_it() -> None:
    tally = Tally()
    change = Change(key="a", recorded=entry(b"1"), found=entry(b"2"))
    tally.add([of_file("rung/d32", "p/a", change)])
    tally.add([of_file("rung/d32@step-2", "p/a", change), of_file("rung/d32@step-2", "p/b", change)])
    assert [one.path for one in tally.findings] == ["p/a", "p/b"]


def test_findings_without_a_place_are_all_kept() -> None:
    tally = Tally()
    tally.add([Finding(subject=name, trouble=Trouble.REFERENCE, text="x") for name in ("a", "b")])
    assert len(tally.findings) == 2


def test_a_file_is_missing_extra_or_altered() -> None:
    one, same_size, longer = entry(b"1"), entry(b"2"), entry(b"11")
    told = [
        of_file("s", "p/a", Change(key="a", recorded=recorded, found=found))
        for recorded, found in ((one, None), (None, one), (one, same_size), (one, longer))
    ]
    assert [finding.trouble for finding in told] == [Trouble.MISSING, Trouble.EXTRA, Trouble.ALTERED, Trouble.ALTERED]
    assert [(finding.recorded, finding.found) for finding in told] == [
        (str(one.digest), None),
        (None, str(one.digest)),
        (str(one.digest), str(same_size.digest)),
        (str(one.digest), str(longer.digest)),
    ]
    assert "as many" in told[2].text
    assert "has 2 bytes; 1 are recorded" in told[3].text


def test_a_tensor_is_named_with_what_is_wrong() -> None:
    one, other, wider = leaf("float32", "1"), leaf("float32", "2"), leaf("float64", "1")
    told = [
        of_tensor("rung/d32@step-2", "p", Change(key="w", recorded=recorded, found=found)).text
        for recorded, found in ((one, None), (None, one), (one, other), (one, wider))
    ]
    assert [text.removeprefix("The tensor w of rung/d32@step-2 ") for text in told] == [
        "is recorded and not there.",
        "is not in the record.",
        "has other values than recorded.",
        "is float64 [2]; float32 [2] is recorded.",
    ]


def test_a_fact_is_told_with_both_values() -> None:
    told = of_fact("tokens/code", "p", Change(key="tokens", recorded="5", found="6"))
    assert (told.trouble, told.part, told.recorded, told.found) == (Trouble.CONTENTS, "tokens", "5", "6")
