"""Fetch pinned wheels with the ordinary client (pip), and keep them by name in a folder that is verified by hash.

pip takes its index, mirrors, proxies and certificates from where it always does; nothing of that is known here. A
wheel gets its final name only after its hash was checked. Refuses a wheel whose bytes are not the pinned ones (exit
code 1) and says what to do when the network is down (exit code 3).
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from registry.errors import DoesNotHold, OutsideFailed
from train.data.wheels import Wheel, verified_bytes

TIMEOUT_SECONDS = 900
_MISMATCH = "DO NOT MATCH THE HASHES"
_OPTIONS = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-input", "--disable-pip-version-check")


def fetch(wheels: Sequence[Wheel], folder: Path) -> tuple[Wheel, ...]:
    """Make sure that ``folder`` holds every wheel, verified; returns those that had to be fetched.

    A file with other bytes than the pinned ones is thrown away and fetched again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    absent = tuple(wheel for wheel in wheels if not _present(wheel, folder))
    if absent:
        with tempfile.TemporaryDirectory(prefix="partial-", dir=folder) as partial:
            _download(absent, Path(partial))
            for wheel in absent:
                _accept(wheel, Path(partial), folder)
    return absent


def requirement(wheel: Wheel) -> str:
    """The line of a requirements file that allows these bytes only."""
    return f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n"


def _present(wheel: Wheel, folder: Path) -> bool:
    path = folder / wheel.file
    if not path.is_file():
        return False
    try:
        verified_bytes(wheel, path)
    except DoesNotHold:
        path.unlink()
        return False
    return True


def _accept(wheel: Wheel, partial: Path, folder: Path) -> None:
    path = partial / wheel.file
    if not path.is_file():
        got = sorted(item.name for item in partial.iterdir())
        raise DoesNotHold(
            f"The index has no {wheel.file}; it gave {', '.join(got) or 'nothing'}.",
            remedy="Pin a wheel that runs on every Python and platform (py3-none-any).",
        )
    verified_bytes(wheel, path)
    path.replace(folder / wheel.file)


def _download(wheels: Sequence[Wheel], target: Path) -> None:
    requirements = target / "requirements.txt"
    requirements.write_text("".join(map(requirement, wheels)), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", *_OPTIONS]
    command += ["--dest", str(target), "--requirement", str(requirements)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise OutsideFailed(
            f"pip did not end within {TIMEOUT_SECONDS} seconds.", remedy="See whether the package index answers."
        ) from error
    if done.returncode != 0:
        _explain(done.stdout + done.stderr, wheels)


def _explain(talk: str, wheels: Sequence[Wheel]) -> None:
    names = ", ".join(f"{wheel.name} {wheel.version}" for wheel in wheels)
    told = _without_places(" ".join(line.strip() for line in talk.splitlines() if line.strip()))[-1500:]
    if _MISMATCH in talk:
        raise DoesNotHold(
            f"The index gave other bytes than the pinned ones for one of {names}. pip says: {told}",
            remedy="Compare the pin in params.yaml with the index. A wheel's bytes must never change.",
        )
    raise OutsideFailed(
        f"pip could not fetch {names}. pip says: {told}",
        remedy="See that the package index can be reached ('pip download' by hand), then run the stage again.",
    )


def _without_places(talk: str) -> str:
    """What pip said without addresses, hosts and paths: a failed attempt is recorded with its cause."""
    talk = re.sub(r"[a-z][a-z0-9+.-]*://[^\s'\")]+", "<address>", talk)
    talk = re.sub(r"host='[^']*'", "host=<address>", talk)
    return re.sub(r"(?<![\w<])/[^\s'\"),]+", "<path>", talk)


def copy_verified(wheel: Wheel, source: Path, target: Path) -> None:
    """Write the verified wheel from ``source`` to ``target``; nothing stays under the final name if that fails."""
    data = verified_bytes(wheel, source / wheel.file)
    partial = target / f".{wheel.file}.partial"
    try:
        partial.write_bytes(data)
        partial.replace(target / wheel.file)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
