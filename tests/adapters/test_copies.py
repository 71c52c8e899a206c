"""Copies of recorded files, tables and token streams: the right bytes or none."""

from __future__ import annotations

import io
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.adapters.copies import remote_folder
from registry.adapters.token_streams import TokenStreams, read_columns
from registry.cli import charting
from registry.core.documents import Split
from registry.errors import DoesNotHold, Refused, UnknownName

RUN = "rung/d32"


@pytest.fixture
def paper(charted):
    """An output, one of its files, and the places of its copies."""
    navigator = charted.navigator
    own = navigator.course(RUN).legs[0].own
    entry = navigator.entry(own, "order.json")
    return own, entry, dict(charting.copies(charted.root).places(own, entry))


def test_any_copy_with_the_recorded_bytes_will_do(charted, paper):
    own, entry, places = paper
    assert list(places) == ["workspace", "cache", "remote"]
    data = places["workspace"].read_bytes()
    for name in ("workspace", "cache"):
        assert charting.copies(charted.root).read(own, entry) == data
        charted.flip(places[name])
        assert charting.copies(charted.root).read(own, entry) == data
    places["cache"].write_bytes(data + b"more")
    places["workspace"].unlink()
    assert charting.copies(charted.root).read(own, entry) == data


def test_other_bytes_are_never_handed_out(charted, paper):
    own, entry, places = paper
    for path in places.values():
        charted.flip(path)
    with pytest.raises(DoesNotHold, match="other bytes"):
        charting.copies(charted.root).read(own, entry)
    for path in places.values():
        path.unlink()
    with pytest.raises(UnknownName, match="nowhere"):
        charting.copies(charted.root).read(own, entry)


@pytest.mark.parametrize("listing", [b"", b"{}", b"[[]]", b'[{"md5": "../../x", "relpath": "order.json"}]', b"\xff"])
def test_a_list_that_is_not_its_own_name_is_no_list(charted, paper, listing):
    """A damaged list of a folder in the cache hides nothing: the remote's is taken."""
    own, entry, _ = paper
    md5 = own.locator
    for store in (".dvc/cache", "artifacts/store/remote"):
        charted.write(f"{store}/files/md5/{md5[:2]}/{md5[2:]}", listing)
        places = dict(charting.copies(charted.root).places(own, entry))
        assert ("cache" in places) == (store == ".dvc/cache")


def test_a_remote_is_a_folder_or_none(charted):
    assert remote_folder(charted.root) == charted.root / "artifacts/store/remote"
    charted.write(".dvc/config", b"[core]\n    remote = far\n['remote \"far\"']\n    url = s3://somewhere/else\n")
    assert remote_folder(charted.root) is None
    charted.write(".dvc/config", b"[core]\n")
    assert remote_folder(charted.root) is None
    charted.write(".dvc/config", b"nonsense\n")
    with pytest.raises(Refused):
        remote_folder(charted.root)


def table(**columns: object) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def test_columns_are_read_by_name_and_type():
    data = table(id=["a", "b"], row=[1, 2], more=[0.5, 0.25])
    assert read_columns(data, {"row": int, "id": str}, "it") == {"row": [1, 2], "id": ["a", "b"]}


@pytest.mark.parametrize(
    "data",
    [b"", b"PAR1", table(id=["a"]), table(id=[1], row=[1]), table(id=["a"], row=[None]), table(id=["a"], row=[0.5])],
    ids=["nothing", "cut", "missing", "kind", "gap", "float"],
)
def test_a_damaged_table_is_told(data):
    with pytest.raises(DoesNotHold, match="it "):
        read_columns(data, {"id": str, "row": int}, "it")


def test_tokens_are_those_of_the_stream(charted):
    stream = charted.streams["code"]
    spans = [range(3), range(5, 9), range(len(stream) - 2, len(stream))]
    found = TokenStreams(charted.root).read("artifacts/tokens/code", Split.TRAIN, spans)
    assert found == [b"".join(one.to_bytes(4, "little") for one in stream[span.start : span.stop]) for span in spans]


def test_a_range_beyond_the_stream_and_a_missing_stream_are_told(charted):
    streams = TokenStreams(charted.root)
    end = len(charted.streams["code"])
    with pytest.raises(DoesNotHold, match="tokens/code"):
        streams.read("artifacts/tokens/code", Split.TRAIN, [range(end - 1, end + 1)])
    shutil.rmtree(charted.root / "artifacts/tokens/math/train")
    with pytest.raises(DoesNotHold, match="tokens/math"):
        streams.read("artifacts/tokens/math", Split.TRAIN, [range(1)])
    with pytest.raises(Refused):
        streams.read("../outside", Split.TRAIN, [range(1)])


def test_a_stream_of_another_kind_is_told(charted):
    path = charted.root / "artifacts/tokens/code/train/input_ids"
    shutil.rmtree(path / "data")
    shutil.copytree(path / "offsets", path / "data")
    assert json.loads((path / "data/zarr.json").read_bytes())["data_type"] == "int64"
    with pytest.raises(DoesNotHold, match="no tokens"):
        TokenStreams(charted.root).read("artifacts/tokens/code", Split.TRAIN, [range(1)])
