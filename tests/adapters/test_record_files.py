"""Records on disk: whole or not at all, whoever else writes, whenever we are killed, whatever the disk does."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.disks import read_only, small_disk

from registry.adapters.records import FileRecordStore
from registry.adapters.tables import TableFolder
from registry.core import canonical
from registry.core.digests import Digest, FileEntry, sha256
from registry.errors import DoesNotHold, OutsideFailed

DATA = canonical.encode({"kind": "recipe", "schema": 1})
WRITER = """
import sys
from pathlib import Path
from registry.adapters.records import FileRecordStore
from registry.core import canonical

root, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
store = FileRecordStore(root)
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    store.put("recipe", canonical.encode({"shared": number, "filling": "x" * 3000}))
    store.put("recipe", canonical.encode({"own": number, "by": name}))
print("done", flush=True)
"""


def writer(root: Path, name: str, count: int) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), name, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen) -> None:
    process.stdin.write("go\n")
    process.stdin.flush()


def leftovers(root: Path) -> list[str]:
    return [path.name for path in root.rglob(".*")]


def test_recorders_at_once_lose_nothing(tmp_path: Path) -> None:
    processes = [writer(tmp_path, name, 60) for name in ("a", "b", "c")]
    for process in processes:
        go(process)
    assert [process.communicate()[0] for process in processes] == ["done\n"] * 3
    store = FileRecordStore(tmp_path)
    assert len(store.digests("recipe")) == 60 + 3 * 60
    for digest in store.digests("recipe"):
        store.get("recipe", digest)
    assert leftovers(tmp_path) == []


@pytest.mark.slow
def test_a_killed_recorder_leaves_no_half_record(tmp_path: Path) -> None:
    store = FileRecordStore(tmp_path)
    moments = random.Random(7)
    for number in range(6):
        process = writer(tmp_path, str(number), 10_000)
        go(process)
        time.sleep(moments.uniform(0.005, 0.05))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        for digest in store.digests("recipe"):
            store.get("recipe", digest)
        assert list(store.strays()) == []
    written = len(store.digests("recipe"))
    assert written
    go(again := writer(tmp_path, "again", 5))
    assert again.communicate()[0] == "done\n"
    assert len(store.digests("recipe")) >= written + 5


def test_what_a_kill_left_behind_is_no_record_and_no_stray(tmp_path: Path) -> None:
    store = FileRecordStore(tmp_path)
    digest = store.put("recipe", DATA)
    (tmp_path / f"recipes/.{digest.hex}.json.0a1b2c3d.tmp").write_bytes(DATA[:5])
    assert store.digests("recipe") == (digest,)
    assert list(store.strays()) == []


def test_a_full_disk_leaves_no_half_record(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        store = FileRecordStore(disk)
        kept: list[Digest] = []

        def fill() -> None:
            for number in range(1000):
                kept.append(store.put("recipe", canonical.encode({"number": number, "filling": "x" * 3000})))  # noqa: PERF401

        with pytest.raises(OutsideFailed, match=r"No space left on device.*Free some space"):
            fill()
        assert kept
        assert sorted(kept) == list(store.digests("recipe"))
        for digest in kept:
            store.get("recipe", digest)
        assert leftovers(disk) == []
        with pytest.raises(OutsideFailed, match="No space left"):
            TableFolder(disk).put_files(
                [FileEntry(path=f"{n}", size_bytes=n, digest=sha256(b"%d" % n)) for n in range(2000)]
            )
        assert list(TableFolder(disk).trees()) == []


def test_a_file_size_limit_leaves_no_half_record(tmp_path: Path) -> None:
    """The same where nothing may be mounted: the write fails in its middle."""
    program = (
        "import sys; from pathlib import Path; from registry.adapters.records import FileRecordStore;"
        "from registry.errors import OutsideFailed\n"
        "try: FileRecordStore(Path(sys.argv[1])).put('recipe', b'x' * 100_000)\n"
        "except OutsideFailed as error: print(error.message)"
    )

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], preexec_fn=limit, capture_output=True, text=True, check=True
    )
    assert "could not be kept: File too large." in done.stdout
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_read_only_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    with (
        read_only(tmp_path / "manifests") as folder,
        pytest.raises(OutsideFailed, match=r"could not be kept: .*make the folder writable"),
    ):
        FileRecordStore(folder).put("recipe", DATA)


def test_a_record_that_cannot_be_replaced_is_compared(tmp_path: Path) -> None:
    store = FileRecordStore(tmp_path)
    path = tmp_path / f"recipes/{store.put('recipe', DATA).hex}.json"
    path.write_bytes(DATA[:-3])
    with pytest.raises(DoesNotHold, match="git checkout"):
        store.put("recipe", DATA)
    assert path.read_bytes() == DATA[:-3], "damage is evidence and is not mended in passing"


def test_a_record_over_the_limit_is_not_read(tmp_path: Path) -> None:
    store = FileRecordStore(tmp_path)
    path = tmp_path / f"recipes/{store.put('recipe', DATA).hex}.json"
    with path.open("r+b") as file:
        file.truncate(canonical.MAXIMUM_BYTES + 1)
    with pytest.raises(DoesNotHold, match="over the limit of a record"):
        store.get("recipe", sha256(DATA))


def test_a_folder_or_link_in_the_place_of_a_record_is_told(tmp_path: Path) -> None:
    store = FileRecordStore(tmp_path)
    (tmp_path / "recipes" / f"{'a' * 64}.json").mkdir(parents=True)
    (tmp_path / "recipes" / f"{'b' * 64}.json").symlink_to("/nowhere")
    assert list(store.digests("recipe")) == []
    assert list(store.strays()) == [f"recipes/{'a' * 64}.json", f"recipes/{'b' * 64}.json"]


def test_records_are_files_that_others_may_read(tmp_path: Path) -> None:
    digest = FileRecordStore(tmp_path).put("recipe", DATA)
    path = tmp_path / f"recipes/{digest.hex}.json"
    assert json.loads(path.read_bytes()) == {"kind": "recipe", "schema": 1}
    assert path.stat().st_nlink == 1
    assert path.stat().st_mode & 0o444 == 0o444 & ~os.umask(os.umask(0o022))
