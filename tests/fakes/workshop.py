"""A working tree in memory: stages, code, bytes, a host with a clock that never repeats itself, and run logs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from registry.core.canonical import Json
from registry.core.digests import Digest, FileEntry, git_blob, sha256
from registry.core.pipeline import StageSpec
from registry.core.records import Revision
from registry.core.runlog import RunLog
from registry.core.tensors import Leaf, TensorSpec, leaf_of
from registry.errors import MalformedRecord, Refused, UnknownName

CLEAN = Revision(commit="c" * 40, tree="d" * 40, patch=None)


@dataclass
class FakePipeline:
    """Declared stages and a lock, both to be changed at will."""

    specs: dict[str, StageSpec] = field(default_factory=dict)
    lock: dict[str, dict[str, str]] = field(default_factory=dict)

    def stages(self) -> Mapping[str, StageSpec]:
        return self.specs

    def locked(self) -> Mapping[str, Mapping[str, str]]:
        return self.lock


@dataclass
class FakeDisk:
    """Files by path; a folder is what has files below it. ``hashed`` lists what was read, to count the reading."""

    held: dict[str, bytes] = field(default_factory=dict)
    hashed: list[str] = field(default_factory=list)

    def exists(self, path: str) -> bool:
        return path in self.held or self.is_folder(path)

    def is_folder(self, path: str) -> bool:
        return any(one.startswith(f"{path}/") for one in self.held)

    def files(self, path: str) -> Sequence[FileEntry]:
        self.hashed.append(path)
        if path in self.held:
            return (_entry(path.rpartition("/")[2], self.held[path]),)
        if not self.is_folder(path):
            raise Refused(f"{path} does not exist.")
        inside = sorted(one for one in self.held if one.startswith(f"{path}/"))
        return tuple(_entry(one[len(path) + 1 :], self.held[one]) for one in inside)

    def locator(self, path: str) -> str:
        rows = [(entry.path, entry.digest.hex) for entry in self.files(path)]
        md5 = hashlib.md5(repr(rows).encode(), usedforsecurity=False).hexdigest()
        return f"{md5}.dir" if self.is_folder(path) else md5

    def read(self, path: str) -> bytes:
        if path not in self.held:
            raise Refused(f"{path} does not exist.")
        return self.held[path]


@dataclass
class FakeRepository:
    """A revision that is what a test says, and blobs of the fake disk's files."""

    disk: FakeDisk
    at: Revision = CLEAN
    changed: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)

    def revision(self) -> Revision:
        return self.at

    def blobs(self, paths: Sequence[str]) -> Mapping[str, Digest]:
        for path in paths:
            if path not in self.disk.held:
                raise Refused(f"The code file {path} does not exist.")
        return {path: git_blob(self.disk.held[path]) for path in paths}

    def altered(self, folder: str) -> Sequence[str]:
        return sorted(self.changed)

    def uncommitted(self, folder: str) -> Sequence[str]:
        return sorted(self.fresh)


@dataclass
class FakeObserver:
    """A tensor a file ``*.tensor`` (its bytes are uint8 values), and the number of lines as contents."""

    disk: FakeDisk

    def tensors(self, path: str) -> Sequence[Leaf]:
        found = {one: data for one, data in self.disk.held.items() if one.startswith(f"{path}/")}
        named = {one[len(path) + 1 :].removesuffix(".tensor"): data for one, data in found.items() if _holds(one)}
        if not named:
            raise MalformedRecord(f"{path} holds no tensors.")
        return sorted(leaf_of(TensorSpec(name=name, dtype="uint8", shape=(len(b),)), b) for name, b in named.items())

    def contents(self, stage: str, path: str) -> Mapping[str, Json]:
        inside = [data for one, data in self.disk.held.items() if one == path or one.startswith(f"{path}/")]
        if any(data.startswith(b"garbage") for data in inside):
            raise MalformedRecord(f"{path} is garbage.")
        return {"lines": sum(data.count(b"\n") for data in inside)}


@dataclass
class FakeHost:
    """A host of a name, with numeric libraries of a version, where every look at the clock is a microsecond later."""

    name: str = "harbour"
    version: str = "1.0"
    ticks: int = 0

    def facts(self) -> Mapping[str, Json]:
        return {"name": self.name, "cores": 2}

    def numerics(self) -> Mapping[str, Json]:
        return {"machine": "x86_64", "jax": self.version}

    def now(self) -> str:
        self.ticks += 1
        seconds, micros = divmod(self.ticks, 1_000_000)
        return f"2026-11-30T12:{seconds // 60:02d}:{seconds % 60:02d}.{micros:06d}Z"


@dataclass
class FakeAttempts:
    """Run logs by stage, and the attempts whose process is said to run. A stage in ``broken`` has unreadable logs."""

    logs: dict[str, list[RunLog]] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)

    def of_stage(self, stage: str) -> Sequence[RunLog]:
        if stage in self.broken:
            raise MalformedRecord(f"A run log of {stage} is malformed.")
        return sorted(self.logs.get(stage, []), key=lambda log: log.started.attempt)

    def stages(self) -> Iterator[str]:
        yield from sorted(self.logs)

    def alive(self, log: RunLog) -> bool:
        return log.finished is None and log.started.attempt in self.running


@dataclass
class FakeCache:
    """Cached trees by locator."""

    held: dict[str, Sequence[FileEntry]] = field(default_factory=dict)

    def files(self, locator: str, name: str) -> Sequence[FileEntry]:
        if locator not in self.held:
            raise UnknownName(f"The cache does not know {locator}.")
        return self.held[locator]


def _entry(path: str, data: bytes) -> FileEntry:
    return FileEntry(path=path, size_bytes=len(data), digest=sha256(data))


def _holds(path: str) -> bool:
    return path.endswith(".tensor")
