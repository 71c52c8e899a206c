"""history.parquet is read only when its bytes are the recorded ones, and only when it is a history."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.archives import POINTS, history, parquet

from registry.adapters.histories import ParquetHistories
from registry.core.digests import sha256
from registry.errors import DoesNotHold, Refused


def put(root, data):
    (root / "a").mkdir(exist_ok=True)
    (root / "a/history.parquet").write_bytes(data)
    return ParquetHistories(root).read("a/history.parquet", sha256(data))


def test_every_point_is_read(tmp_path):
    assert put(tmp_path, parquet(POINTS)) == history()


def test_other_bytes_are_not_read_and_an_absent_file_is_none(tmp_path):
    data = parquet(POINTS)
    put(tmp_path, data)
    assert ParquetHistories(tmp_path).read("a/history.parquet", sha256(data + b"x")) is None
    assert ParquetHistories(tmp_path).read("b/history.parquet", sha256(data)) is None


def test_a_path_that_leaves_the_repository_is_refused(tmp_path):
    with pytest.raises(Refused):
        ParquetHistories(tmp_path).read("../history.parquet", sha256(b""))


def table(**columns):
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1 not really PAR1",
        parquet(POINTS)[:-20],
        table(step=[1], metric=["a"]),
        table(step=[1, None], metric=["a", "a"], value=[0.1, 0.2]),
        table(step=[-1], metric=["a"], value=[0.1]),
        table(step=["one"], metric=["a"], value=[0.1]),
        table(step=[0.5], metric=["a"], value=[0.1]),
    ],
)
def test_recorded_bytes_that_are_no_history_do_not_hold(tmp_path, data):
    with pytest.raises(DoesNotHold, match="is not a history"):
        put(tmp_path, data)
