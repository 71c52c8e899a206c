"""File tables and leaf tables column by column: checked in bulk, rows made only when asked for.

A hero's archive has millions of rows, and a Python object for each would cost minutes and gigabytes. Here a whole table
is checked by Arrow, its digest is computed from the columns, and the rows come as a sequence that builds one when it is
touched. Every byte is hostile: rows, lengths and the expanded size are bounded before anything is expanded. Refuses
tables over a limit, rows that :class:`FileEntry` or :class:`Leaf` would refuse, unsorted rows, and wrong sums.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar, overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from registry.core.audit.evidence import Surveyed
from registry.core.digests import PAGE_FILES, Algorithm, Digest, FileEntry, digest_of_tree, merkle_root, sha256
from registry.core.tensors import TensorSpec
from registry.errors import DoesNotHold, ReckonError, UnknownName

T = TypeVar("T")
U = TypeVar("U")
_MOST_ROWS = 5_000_000
_LONGEST_TEXT_BYTES = 4096
_MOST_TEXT_BYTES = 2**29
_LARGEST_SIZE = 2**53 - 1
_KEPT_TABLES = 4
_FILES = {"path": pa.string(), "size_bytes": pa.int64(), "sha256": pa.string()}
_LEAVES = {"name": pa.string(), "dtype": pa.string(), "shape": pa.string(), "blake3": pa.string()}
_BAD_PATH = r"(^|/)\.{0,2}(/|$)|[\\\x00-\x1f\x7f]"
_BAD_NAME = r"^$|[^!-~]"
_HEX_DIGITS = 64
_HEX = b"0123456789abcdef"
_PLAIN = bytes(byte for byte in range(32, 256) if byte not in b"\\\x7f")
_SHAPE = r"^\[([0-9]{1,16}(, [0-9]{1,16}){0,31})?\]$"


class FileRows(Sequence[FileEntry]):
    """The files of a tree, sorted by path; an entry is made when it is asked for."""

    def __init__(self, paths: Any, sizes: Any, digests: Any) -> None:
        self._columns = (paths, sizes, digests)

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, at: int) -> FileEntry: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[FileEntry]: ...

    def __getitem__(self, at: int | slice) -> FileEntry | Sequence[FileEntry]:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            if step != 1:
                return [self[index] for index in range(start, stop, step)]
            return FileRows(*(column.slice(start, max(stop - start, 0)) for column in self._columns))
        path, size_bytes, digest = (column[at].as_py() for column in self._columns)
        return FileEntry(path=path, size_bytes=size_bytes, digest=Digest(Algorithm.SHA256, digest))

    @property
    def size_bytes(self) -> int:
        """The bytes of all files together."""
        return int(pc.sum(self._columns[1]).as_py() or 0)

    @property
    def digest(self) -> Digest:
        """The tree digest, from the columns."""
        return digest_of_tree(len(self), merkle_root(_leaves(self._texts)))

    @cached_property
    def _texts(self) -> Any:
        """Each row as it stands in a page, with the comma that would follow it."""
        paths, sizes, digests = self._columns
        quoted = pc.replace_substring(paths, '"', '\\"') if b'"' in _bytes(paths) else paths
        return _joined('["', quoted, '",', pc.cast(sizes, pa.string()), ',"sha256:', digests, '"],')

    def part(self, path: str) -> Digest | None:
        """SHA-256 of the file at ``path``, tree digest of the folder there, or None when there is neither."""
        paths, _, digests = self._columns
        at = self._position(path)
        if at < len(self) and paths[at].as_py() == path:
            return Digest(Algorithm.SHA256, digests[at].as_py())
        first, after = self._position(f"{path}/"), self._position(f"{path}0")
        if first == after:
            return None
        begin = len(('["' + f"{path}/".replace('"', '\\"')).encode())
        inside = _cut(self._texts.slice(first, after - first), begin)
        return digest_of_tree(after - first, merkle_root(_leaves(_joined('["', inside))))

    def _position(self, path: str) -> int:
        paths = self._columns[0]
        return bisect_left(range(len(self)), path, key=lambda index: str(paths[index].as_py()))


class TableColumns:
    """Tables by digest. ``fetch`` gives the bytes of ``objects/<hex>.parquet`` (or ``tensors/…``), or None."""

    def __init__(self, fetch: Callable[[str], bytes | None]) -> None:
        self._fetch = fetch
        self._kept: OrderedDict[Digest, FileRows] = OrderedDict()

    def files(self, tree: Digest) -> FileRows:
        """The files of a tree. Raises ``UnknownName`` when there is no table, ``DoesNotHold`` for a wrong one."""
        if tree not in self._kept:
            self._kept[tree] = self._files(tree)
            while len(self._kept) > _KEPT_TABLES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(tree)
        return self._kept[tree]

    def survey(self, wanted: Mapping[Digest, Sequence[str]]) -> Mapping[Digest, Surveyed | ReckonError]:
        """Check the tables of all these trees, on all cores, and find the digests of the given paths in each."""
        return dict(zip(wanted, self._side_by_side(lambda item: self._surveyed(*item), wanted.items()), strict=True))

    def count_leaves(self, roots: Collection[Digest]) -> Mapping[Digest, int | ReckonError]:
        """Check the leaf tables of all these tensor roots, on all cores: the number of tensors of each."""
        return dict(zip(roots, self._side_by_side(self.leaves, roots), strict=True))

    def _surveyed(self, tree: Digest, paths: Sequence[str]) -> Surveyed:
        rows = self._files(tree)
        parts = {path: rows.part(path) for path in paths}
        return Surveyed(files=len(rows), size_bytes=rows.size_bytes, parts=parts)

    def _side_by_side(self, work: Callable[[T], U], items: Iterable[T]) -> list[U | ReckonError]:
        def told(item: T) -> U | ReckonError:
            try:
                return work(item)
            except ReckonError as error:
                return error

        with ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="tables") as pool:
            return list(pool.map(told, items))

    def leaves(self, root: Digest) -> int:
        """The number of tensors of a root. Raises like :meth:`files`."""
        name = f"tensors/{root.hex}.parquet"
        table = self._read(name, _LEAVES)
        if _root(table, name) != root:
            raise _wrong(name, "its rows do not add up to its name")
        return int(table.num_rows)

    def _files(self, tree: Digest) -> FileRows:
        name = f"objects/{tree.hex}.parquet"
        table = self._read(name, _FILES)
        paths, sizes, digests = (_one(table.column(column)) for column in _FILES)
        _require(_all_inside(paths), name, "a path could leave the tree")
        _require(_all_hex(digests), name, "a digest is no SHA-256")
        _require(_all(pc.and_(pc.greater_equal(sizes, 0), pc.less_equal(sizes, _LARGEST_SIZE))), name, "a size is none")
        _require(_ascending(paths), name, "its paths are not sorted, or one stands twice")
        rows = FileRows(paths, sizes, digests)
        if rows.digest != tree:
            raise _wrong(name, "its rows do not add up to its name")
        return rows

    def _read(self, name: str, columns: dict[str, Any]) -> Any:
        data = self._fetch(name)
        if data is None:
            raise UnknownName(f"There is no table {name}.", remedy="Is 'manifests/' complete? See 'git status'.")
        texts = [column for column, kind in columns.items() if kind == pa.string()]
        try:
            file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
            _require(file.metadata.num_rows <= _MOST_ROWS, name, f"it has more than {_MOST_ROWS} rows")
            table = file.read(columns=list(columns), use_threads=False)
            _require(table.column_names == list(columns), name, "its columns are others")
            bounded = [_bounded(table.column(column), kind, name) for column, kind in columns.items()]
        except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
            raise _wrong(name, f"it cannot be read: {str(error)[:200]}") from error
        return pa.table(dict(zip(columns, bounded, strict=True)))


def _leaves(rows: Any) -> list[bytes]:
    """The leaf hash of every page of rows; each row ends with the comma that would follow it."""
    _, offsets, text = rows.buffers()
    if text is None:
        return []
    ends, data = memoryview(offsets).cast("i"), memoryview(text)
    borders = [*range(0, len(rows), PAGE_FILES), len(rows)]
    pages = (data[ends[first] : ends[after] - 1] for first, after in pairwise(borders))
    return [hashlib.sha256(b"".join((b"\0[", page, b"]"))).digest() for page in pages]


def _bounded(column: Any, kind: Any, name: str) -> Any:
    """A column as plain values, after its expanded size was found to be within limits."""
    _require(column.null_count == 0, name, "a value is missing")
    if kind != pa.string():
        return column.cast(kind)
    for chunk in column.chunks:
        _require(pa.types.is_dictionary(chunk.type), name, "a text is none")
        lengths = pc.fill_null(pc.binary_length(chunk.dictionary), 0)
        longest = pc.max(lengths).as_py() or 0
        total = pc.sum(lengths.take(chunk.indices)).as_py() or 0
        _require(longest <= _LONGEST_TEXT_BYTES and total <= _MOST_TEXT_BYTES, name, "its texts are too long")
    plain = column.cast(kind)
    plain.validate(full=True)
    return plain


def _root(table: Any, name: str) -> Digest:
    """The tensor root of a leaf table: SHA-256 of the canonical list of its rows."""
    names, dtypes, shapes, digests = (_one(table.column(column)) for column in _LEAVES)
    _require(len(names) > 0 and _ascending(names), name, "its names are not sorted, or there is none")
    _require(_all_hex(digests), name, "a digest is no BLAKE3")
    _require(_all(pc.match_substring_regex(shapes, _SHAPE)), name, "a shape is none")
    _check_specs(names, dtypes, shapes)
    quoted = pc.replace_substring(pc.replace_substring(names, "\\", "\\\\"), '"', '\\"')
    plain = pc.replace_substring(shapes, " ", "")
    rows = _joined('["', quoted, '","', dtypes, '",', plain, ',"blake3:', digests, '"]')
    listed = ",".join(rows.to_pylist())
    return sha256(f'{{"kind":"tensors","leaves":[{listed}],"schema":1}}'.encode())


def _check_specs(names: Any, dtypes: Any, shapes: Any) -> None:
    """Every name, and every pair of dtype and shape, as :class:`TensorSpec` takes them. Raises ``MalformedRecord``."""
    for odd in names.filter(
        pc.or_(pc.match_substring_regex(names, _BAD_NAME), pc.greater(pc.binary_length(names), 1024))
    ):
        TensorSpec(name=odd.as_py(), dtype="uint8", shape=())
    pairs = pa.table({"dtype": dtypes, "shape": shapes}).group_by(["dtype", "shape"]).aggregate([])
    for pair in pairs.to_pylist():
        TensorSpec(name="any", dtype=pair["dtype"], shape=tuple(json.loads(pair["shape"])))


def _joined(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")


def _one(column: Any) -> Any:
    """A column as one array."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _ascending(column: Any) -> bool:
    return len(column) < 2 or _all(pc.less(column.slice(0, len(column) - 1), column.slice(1)))


def _cut(column: Any, begin: int) -> Any:
    """Texts without their first ``begin`` bytes, which end with a character."""
    return pc.binary_slice(column.view(pa.binary()), begin, 2**31 - 1).view(pa.string())


def _all_hex(column: Any) -> bool:
    """Whether every text is 64 lower-case hex digits."""
    return _all(pc.equal(pc.binary_length(column), _HEX_DIGITS)) and not _bytes(column).translate(None, _HEX)


def _all_inside(paths: Any) -> bool:
    """Whether every path is one that :func:`checked_path` takes. What is plainly good is not looked at twice."""
    text = _bytes(paths)
    borders = (pc.starts_with(paths, "/"), pc.starts_with(paths, "."), pc.ends_with(paths, "/"), pc.equal(paths, ""))
    if not (b"//" in text or b"/." in text or text.translate(None, _PLAIN) or any(map(_any, borders))):
        return True
    return not _any(pc.match_substring_regex(paths, _BAD_PATH))


def _bytes(column: Any) -> bytes:
    """The bytes of all texts of a column one after the other."""
    _, offsets, text = column.buffers()
    if text is None or not len(column):
        return b""
    ends = memoryview(offsets).cast("i")
    return bytes(memoryview(text)[ends[column.offset] : ends[column.offset + len(column)]])


def _all(flags: Any) -> bool:
    return bool(pc.all(flags, min_count=0).as_py())


def _any(flags: Any) -> bool:
    return bool(pc.any(flags, min_count=0).as_py())


def _require(condition: bool, name: str, complaint: str) -> None:
    if not condition:
        raise _wrong(name, complaint)


def _wrong(name: str, complaint: str) -> ReckonError:
    return DoesNotHold(
        f"The table {name} does not hold: {complaint}.", remedy=f"Restore it: git checkout -- manifests/{name}"
    )
