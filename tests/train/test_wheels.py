"""Wheels as data: pins, hashes, licences, and hostile zip files."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.wheelhouse import pin, wheel_bytes

from registry.errors import DoesNotHold, MalformedRecord, Refused
from train.data import wheels
from train.data.wheels import Wheel, members, open_wheel, verified_bytes, wheel_metadata

FILES = {"alpha/b.py": "b = 1\n", "alpha/a.py": "a = 1\n", "alpha/tests/c.py": "c = 1\n", "alpha/d.rst": "D\n"}


def pinned(data: bytes, licence: str = "MIT") -> Wheel:
    return Wheel.read(pin("alpha", "1.0", data, licence=licence))


def with_member(name: str, content: bytes = b"x") -> bytes:
    """A wheel with one more member, whatever its name."""
    out = io.BytesIO(wheel_bytes("alpha", "1.0", FILES))
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr(name, content)
    return out.getvalue()


def test_members_come_sorted_without_skipped_folders_and_metadata() -> None:
    data = wheel_bytes("alpha", "1.0", FILES)
    with open_wheel(pinned(data), data) as archive:
        found = list(members(archive, (".py",), ("tests",)))
        assert found == [("alpha/a.py", b"a = 1\n"), ("alpha/b.py", b"b = 1\n")]
        assert [path for path, _ in members(archive, (".rst", ".txt"), ())] == ["alpha/d.rst"]


def test_the_description_is_the_payload_of_the_metadata() -> None:
    data = wheel_bytes("alpha", "1.0", FILES, body="Longer words.\n")
    with open_wheel(pinned(data), data) as archive:
        assert wheel_metadata(pinned(data), archive).get_payload() == "Longer words.\n"


def test_one_flipped_bit_is_found(tmp_path: Path) -> None:
    data = wheel_bytes("alpha", "1.0", FILES)
    path = tmp_path / "alpha.whl"
    path.write_bytes(data)
    assert verified_bytes(pinned(data), path) == data
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    with pytest.raises(DoesNotHold, match="pinned to"):
        verified_bytes(pinned(data), path)


@pytest.mark.parametrize("name", ["../evil.py", "/etc/evil.py", "alpha/../../evil.py", "alpha\\evil.py", "alpha//x.py"])
def test_a_member_that_leaves_its_folder_is_refused(name: str) -> None:
    data = with_member(name)
    with pytest.raises(DoesNotHold, match="leave its folder"):
        open_wheel(pinned(data), data)


def test_two_members_of_one_name_are_refused() -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = with_member("alpha/a.py")
    with pytest.raises(DoesNotHold, match="two members of one name"):
        open_wheel(pinned(data), data)


def test_a_zip_that_claims_too_much_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "MAXIMUM_TEXT_BYTES", 1000)
    data = with_member("alpha/zeros.py", bytes(1001))
    with pytest.raises(DoesNotHold, match="claims over"):
        open_wheel(pinned(data), data)


def test_a_member_over_the_limit_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "MAXIMUM_MEMBER_BYTES", 1000)
    data = with_member("alpha/zeros.py", bytes(1001))
    with open_wheel(pinned(data), data) as archive, pytest.raises(DoesNotHold, match="over 1000"):
        list(members(archive, (".py",), ()))


def test_a_member_that_lies_about_its_size_is_refused() -> None:
    """The size in the zip's table is the wheel's own word."""
    data = bytearray(with_member("alpha/zeros.py", bytes(5000)))
    place = data.rindex(b"PK\x01\x02") + 24
    assert data[place : place + 4] == struct.pack("<I", 5000)
    data[place : place + 4] = struct.pack("<I", 10)
    with open_wheel(pinned(bytes(data)), bytes(data)) as archive, pytest.raises(DoesNotHold, match="cannot be read"):
        list(members(archive, (".py",), ()))


def test_damage_inside_a_member_is_found() -> None:
    """A pin that names damaged bytes: the hash fits, the member does not."""
    data = bytearray(wheel_bytes("alpha", "1.0", {"alpha/a.py": "a = 1\n" * 500}))
    data[data.index(b"alpha/a.py") + len("alpha/a.py") + 4] ^= 0xFF
    with open_wheel(pinned(bytes(data)), bytes(data)) as archive, pytest.raises(DoesNotHold, match="cannot be read"):
        list(members(archive, (".py",), ()))


@pytest.mark.parametrize("data", [b"", b"not a zip", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_wheel_is_refused(data: bytes) -> None:
    with pytest.raises(DoesNotHold):
        open_wheel(pinned(data), data)


@pytest.mark.parametrize(
    "make",
    [
        lambda: wheel_bytes("beta", "1.0", FILES),
        lambda: wheel_bytes("alpha", "1.1", FILES),
    ],
)
def test_another_project_or_version_is_refused(make: Callable[[], bytes]) -> None:
    data = make()
    with pytest.raises(DoesNotHold, match="says that it is"):
        open_wheel(pinned(data), data)


@pytest.mark.parametrize(
    ("headers", "licence"),
    [
        ("License-Expression: MIT\n", "MIT"),
        ("License: BSD\nClassifier: License :: OSI Approved :: BSD License\n", "BSD-3-Clause"),
        ("License: Apache License,\n  Version 2.0\n", "Apache-2.0"),
        ("Classifier: License :: OSI Approved :: Apache Software License\n", "Apache-2.0"),
    ],
)
def test_a_licence_may_be_spelled_in_several_ways(headers: str, licence: str) -> None:
    data = wheel_bytes("alpha", "1.0", FILES, headers=headers)
    open_wheel(pinned(data, licence), data).close()


@pytest.mark.parametrize(
    "headers",
    [
        "",
        "License-Expression: GPL-3.0-only\n",
        "License: MIT\nClassifier: License :: OSI Approved :: GNU General Public License (GPL)\n",
        "License-Expression: MIT OR GPL-3.0-only\n",
        "License-Expression: Apache-2.0\n",
    ],
)
def test_a_licence_that_is_not_the_stated_one_is_refused(headers: str) -> None:
    data = wheel_bytes("alpha", "1.0", FILES, headers=headers)
    with pytest.raises(DoesNotHold, match=r"states .*, not MIT"):
        open_wheel(pinned(data), data)


def test_a_licence_that_is_not_permissive_cannot_be_pinned() -> None:
    with pytest.raises(Refused, match="not a licence that the corpus takes"):
        pinned(b"", "GPL-3.0-only")


@pytest.mark.parametrize(
    "change", [{"name": "../alpha"}, {"name": "Alpha"}, {"version": "1.0/.."}, {"domain": "a/b"}, {"licence": 3}]
)
def test_a_malformed_pin_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(Refused):
        Wheel.read({**pin("alpha", "1.0", b""), **change})


def test_a_pin_without_a_whole_sha256_is_refused() -> None:
    with pytest.raises(MalformedRecord):
        Wheel.read({**pin("alpha", "1.0", b""), "sha256": "abc"})
