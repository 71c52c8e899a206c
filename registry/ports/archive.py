"""What the archive itself needs: records, tables, pipeline, repository, bytes, trackers, places."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from typing import Protocol

from registry.core.audit.evidence import Surveyed
from registry.core.canonical import Json
from registry.core.deletion import Unit
from registry.core.digests import Digest, FileEntry
from registry.core.documents import Split
from registry.core.history import Copy, History
from registry.core.openings import Opening
from registry.core.pipeline import StageSpec
from registry.core.pointers import Published
from registry.core.records import Output, Revision
from registry.core.reports import ExecutionReport
from registry.core.runlog import RunLog
from registry.core.tensors import ChunkList, Leaf, TensorSpec
from registry.errors import ReckonError


class RecordStore(Protocol):
    """Append-only records by kind and digest. A record that is there is whole."""

    def put(self, kind: str, data: bytes) -> Digest:
        """Keep canonical bytes and return their SHA-256. Keeping the same bytes twice is one record."""
        ...

    def get(self, kind: str, digest: Digest) -> bytes:
        """Raises ``UnknownName`` when absent and ``DoesNotHold`` when the bytes are not those of the digest."""
        ...

    def digests(self, kind: str) -> Sequence[Digest]:
        """The digests of all records of a kind, sorted."""
        ...

    def kinds(self) -> Sequence[str]:
        """The kinds that have a record, sorted."""
        ...

    def strays(self) -> Sequence[str]:
        """Files among the records and tables whose place or name is not that of one, relative to the store, sorted."""
        ...


class TableStore(Protocol):
    """File tables of trees and leaf tables of tensor roots, by the digest that they add up to."""

    def put_files(self, entries: Sequence[FileEntry]) -> Digest:
        """Keep the file table of a tree; returns the tree digest."""
        ...

    def get_files(self, tree: Digest) -> Sequence[FileEntry]:
        """Sorted by path. Raises ``UnknownName`` when absent, ``DoesNotHold`` when they do not add up to ``tree``."""
        ...

    def put_leaves(self, leaves: Sequence[Leaf]) -> Digest:
        """Keep the leaf table of a tensor root; returns the root."""
        ...

    def get_leaves(self, root: Digest) -> Sequence[Leaf]:
        """Sorted by name. Raises ``UnknownName`` when absent, ``DoesNotHold`` when they do not add up to ``root``."""
        ...

    def trees(self) -> Sequence[Digest]:
        """The trees that have a file table, sorted."""
        ...

    def roots(self) -> Sequence[Digest]:
        """The tensor roots that have a leaf table, sorted."""
        ...


class Pipeline(Protocol):
    """The declared stages, and what DVC's lock says of them."""

    def stages(self) -> Mapping[str, StageSpec]:
        """All stages by name, in the order of ``dvc.yaml``. Raises ``Refused`` when a file cannot be read."""
        ...

    def locked(self) -> Mapping[str, Mapping[str, str]]:
        """For each stage in ``dvc.lock``: output path → DVC md5. Empty when there is no lock."""
        ...


class Repository(Protocol):
    """The git repository that the code is in."""

    def revision(self) -> Revision:
        """Commit, tree and the digest of uncommitted changes outside of what stages write."""
        ...

    def blobs(self, paths: Sequence[str]) -> Mapping[str, Digest]:
        """Git object ids of files as they are in the working tree. Raises ``Refused`` for a missing one."""
        ...

    def altered(self, folder: str) -> Sequence[str]:
        """Files under ``folder`` that the last commit holds and that are now missing or have other bytes, sorted."""
        ...

    def uncommitted(self, folder: str) -> Sequence[str]:
        """Files under ``folder`` that the last commit does not hold and git does not ignore, sorted."""
        ...


class Bytes(Protocol):
    """Files and folders of the working tree, observed."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        ...

    def is_folder(self, path: str) -> bool:
        """Whether it is a folder."""
        ...

    def files(self, path: str) -> Sequence[FileEntry]:
        """Hash all files of a folder (paths relative to it), or one file (its own name). ``Refused`` if absent."""
        ...

    def locator(self, path: str) -> str:
        """DVC's md5 of a file, or of a folder with ``.dir``."""
        ...

    def read(self, path: str) -> bytes:
        """The bytes of a small file."""
        ...


class Observer(Protocol):
    """Identities that do not depend on a container."""

    def tensors(self, path: str) -> Sequence[Leaf]:
        """Leaves of a checkpoint or of safetensors files, sorted by name."""
        ...

    def contents(self, stage: str, path: str) -> Mapping[str, Json]:
        """Counts and content digests of a stage's output, read back from the bytes."""
        ...


class Tensors(Protocol):
    """An open container of tensors."""

    @property
    def container(self) -> str:
        """Its kind, such as ``safetensors``."""
        ...

    @property
    def specs(self) -> Sequence[TensorSpec]:
        """Its tensors, sorted by name. Never empty."""
        ...

    def leaves(self, specs: Sequence[TensorSpec], advance: Callable[[int], None]) -> Sequence[Leaf]:
        """The leaves of ``specs``, in their order; ``advance`` is told of bytes as they are done."""
        ...

    def chunks(self, spec: TensorSpec) -> ChunkList:
        """The chunk digests of one tensor, which prove ranges of it."""
        ...

    def read(self, spec: TensorSpec, start_byte: int, stop_byte: int) -> bytes:
        """Elements of a tensor in C order, little-endian. Raises ``Refused`` for a range that cuts one or leaves it."""
        ...


class Attempts(Protocol):
    """What stage processes left behind while they ran."""

    def of_stage(self, stage: str) -> Sequence[RunLog]:
        """All attempts of a stage, oldest first."""
        ...

    def stages(self) -> Iterator[str]:
        """Stages that were ever attempted here."""
        ...

    def alive(self, log: RunLog) -> bool:
        """Whether the process of the attempt still runs."""
        ...


class Host(Protocol):
    """The machine that we are on."""

    def facts(self) -> Mapping[str, Json]:
        """Host name, processor, cores that this process may use, memory, kernel."""
        ...

    def numerics(self) -> Mapping[str, Json]:
        """What of the host can change bits: the machine's kind and the versions of the numeric libraries."""
        ...

    def now(self) -> str:
        """UTC with microseconds, as in run logs."""
        ...


class Openings(Protocol):
    """Openings of stages, kept beside the run logs."""

    def add(self, opening: Opening) -> None:
        """Keep an opening."""
        ...

    def of_stage(self, stage: str) -> Sequence[Opening]:
        """All openings of a stage, oldest first."""
        ...


class Cache(Protocol):
    """DVC's cache: a second copy of the bytes, found by DVC's md5."""

    def files(self, locator: str, name: str) -> Sequence[FileEntry]:
        """Hash the objects behind a locator, those that the cache has. A locator of a single file is called ``name``.

        Raises ``UnknownName`` when the cache does not know the locator and ``DoesNotHold`` when its list of files is
        damaged.
        """
        ...


class Tracker(Protocol):
    """A system that shows executions to people. What it holds is a copy; the records are the authority."""

    @property
    def system(self) -> str:
        """Its name in pointer records, such as ``mlflow``."""
        ...

    def publish(self, report: ExecutionReport) -> Published:
        """Make the tracker hold one complete run of this execution, and return where.

        Doing it again changes nothing; what an earlier try left incomplete is completed. Raises ``Unreachable`` when
        the tracker does not answer and ``OutsideFailed`` when it refuses or another process publishes for too long.
        """
        ...

    def find(self, execution: Digest) -> Published | None:
        """Where the tracker holds the complete run of an execution. None when it holds none. Raises as ``publish``."""
        ...

    def read_history(self, run_id: str) -> Copy:
        """The history of a run. Raises ``UnknownName`` when there is no such run, else as ``publish``."""
        ...

    def facts(self, run_id: str) -> Mapping[str, str]:
        """What a run says of its execution: ``recipe``, ``commit`` and so on. Raises like ``read_history``."""
        ...


class HistoryFiles(Protocol):
    """Our own histories, as stages write them."""

    def read(self, path: str, digest: Digest) -> History | None:
        """The history in a file. None when no file with the bytes of ``digest`` lies there.

        Raises ``DoesNotHold`` when the bytes are the recorded ones and no history.
        """
        ...


class CopyFiles(Protocol):
    """Histories that a tracker's client left on this disk."""

    def read(self, location: str) -> Copy:
        """The history at ``location``, a file or folder relative to the repository. Damage is told, not raised.

        Raises ``UnknownName`` when nothing lies there, ``DoesNotHold`` when it is no such file, and ``OutsideFailed``
        when the client's reader cannot be run.
        """
        ...


class Columns(Protocol):
    """File tables and leaf tables in bulk: checked by the column, rows made only when touched."""

    def files(self, tree: Digest) -> Sequence[FileEntry]:
        """Sorted by path. Raises ``UnknownName`` when absent, ``DoesNotHold`` when they do not add up to ``tree``."""
        ...

    def survey(self, wanted: Mapping[Digest, Sequence[str]]) -> Mapping[Digest, Surveyed | ReckonError]:
        """Check these trees and find the digest of each given path in them; the error where a table does not hold."""
        ...

    def count_leaves(self, roots: Collection[Digest]) -> Mapping[Digest, int | ReckonError]:
        """Check these leaf tables and count their tensors; the error where a table does not hold."""
        ...


class Papers(Protocol):
    """Small artifacts, wherever they lie."""

    def read(self, path: str, digest: Digest) -> bytes:
        """The bytes of ``digest``, recorded at ``path``. Raises ``UnknownName`` when absent, else ``DoesNotHold``."""
        ...


class Commits(Protocol):
    """Git's objects and history."""

    @property
    def here(self) -> bool:
        """Whether there is a repository to ask."""
        ...

    def read(self, name: Digest) -> bytes | None:
        """An object as git hashes it, or None when it is not here."""
        ...

    def additions(self, folder: str) -> Mapping[str, str]:
        """For each file ever added under ``folder``: the first commit that added it."""
        ...

    def precedes(self, earlier: str, later: str) -> bool:
        """Whether a commit is another or an ancestor of it. False when one of them is not here."""
        ...


class TokenStreams(Protocol):
    """The token streams of the working tree."""

    def read(self, path: str, split: Split, ranges: Sequence[range]) -> Sequence[bytes]:
        """The tokens of each range as little-endian int32, from the caches at ``path``.

        Raises ``DoesNotHold`` where they cannot be read. Whether they are the recorded ones is for the caller to prove.
        """
        ...


class Places(Protocol):
    """The places that a clean-up may empty. ``notes`` tell what was left alone while they were walked."""

    @property
    def notes(self) -> Sequence[str]:
        """What was left alone, and why."""
        ...

    def units(self, stages: Sequence[str]) -> Iterator[Unit]:
        """Everything that could go; ``stages`` tell where the scratch of a stage begins."""
        ...

    def remove(self, unit: Unit) -> None:
        """Take a unit away. Raises ``OutsideFailed`` when it changed since it was found, or cannot be taken away."""
        ...


class Shelves(Protocol):
    """Where copies of recorded files lie, by DVC's names and in the working tree."""

    def listing(self, output: Output) -> Mapping[str, str] | None:
        """Relative path → md5 of the files of an output; None when no list that holds tells it."""
        ...

    def members(self, locator: str) -> Mapping[str, str] | None:
        """Relative path → md5 of the files behind a folder's locator; None when no list that holds tells it."""
        ...

    def holds(self, output: Output, entry: FileEntry, away: Set[str]) -> bool:
        """Whether a copy with the recorded bytes, hashed now, lies in a place whose path is not ``away``."""
        ...

    def digest(self, path: str) -> Digest:
        """The SHA-256 of a file in the archive."""
        ...
