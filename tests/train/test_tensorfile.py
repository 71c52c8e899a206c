"""Arrays in one file: the same bytes whatever the order, read back before they count, refused when not whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from registry.errors import DoesNotHold, MalformedRecord, Refused
from train import tensorfile

ARRAYS = {
    "b/weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "a": np.asarray(7, np.int32),
    "key": np.asarray([1, 2], np.uint32),
    "empty": np.zeros((0, 3), np.float32),
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    tensorfile.write_arrays(tmp_path / "x.safetensors", ARRAYS)
    read = tensorfile.read_arrays(tmp_path / "x.safetensors")
    assert read.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
        assert read[name].tobytes() == array.tobytes()


def test_neither_order_nor_layout_changes_a_byte(tmp_path: Path) -> None:
    tensorfile.write_arrays(tmp_path / "one", ARRAYS)
    turned = {name: np.array(ARRAYS[name], order="F") for name in reversed(ARRAYS)}
    tensorfile.write_arrays(tmp_path / "two", turned)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert tensorfile.root(tmp_path / "one") == tensorfile.root(tmp_path / "two")


def test_the_root_follows_every_tensor(tmp_path: Path) -> None:
    tensorfile.write_arrays(tmp_path / "one", ARRAYS)
    roots = {tensorfile.root(tmp_path / "one")}
    for change in ({"a": np.asarray(8, np.int32)}, {"a": np.asarray([7], np.int32)}, {"c": np.asarray(7, np.int32)}):
        tensorfile.write_arrays(tmp_path / "other", {**ARRAYS, **change})
        roots.add(tensorfile.root(tmp_path / "other"))
    assert len(roots) == 4


def test_a_disk_that_gives_back_other_bytes_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: real(self)[:-1] + b"\xff")
    with pytest.raises(DoesNotHold, match="read back"):
        tensorfile.write_arrays(tmp_path / "x", ARRAYS)


@pytest.mark.parametrize(
    "harm", [lambda data: data[:-1], lambda data: data + b"0", lambda data: b"{}", lambda data: b""]
)
def test_a_file_that_is_not_whole_is_refused(tmp_path: Path, harm: object) -> None:
    path = tmp_path / "x"
    tensorfile.write_arrays(path, ARRAYS)
    path.write_bytes(harm(path.read_bytes()))  # type: ignore[operator]
    for read in (tensorfile.read_arrays, tensorfile.root):
        with pytest.raises(MalformedRecord):
            read(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="does not exist"):
        tensorfile.root(tmp_path / "none")
