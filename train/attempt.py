"""What a stage's process tells of itself while it runs: its run log, one durable line an event.

``registry.core.runlog`` has the events, ``registry/README.md`` the contract. The log lies outside of every output,
since it has clocks. Whatever ends the process, the log says it, or says nothing, which means *interrupted*.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import secrets
import socket
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Self

from registry.core import runlog
from registry.core.canonical import Json
from train import paths


class Attempt:
    """One process of a stage. ``folder`` is where timings, trackers and other files with clocks belong."""

    def __init__(self, stage: str) -> None:
        began = datetime.now(UTC)
        self.stage = stage
        self.name = f"{began:%Y%m%dt%H%M%Sz}-{secrets.token_hex(4)}"
        self.folder = paths.RUNS / stage / self.name
        self.step: int | None = None
        self._reached: BinaryIO | None = None
        self._finished = False

    def start(
        self,
        settings: Mapping[str, Json],
        *,
        determinism: Mapping[str, Json] | None = None,
        resumed: Mapping[str, Json] | None = None,
        parent: Mapping[str, Json] | None = None,
    ) -> None:
        """Tell that the process began; ``settings`` are the declared parameters by key, as it read them."""
        self.folder.mkdir(parents=True)
        self.tell(
            runlog.Started(
                stage=self.stage,
                attempt=self.name,
                time=now(),
                pid=os.getpid(),
                host=socket.gethostname(),
                argv=tuple(sys.orig_argv[1:]),
                settings=dict(settings),
                determinism=dict(determinism or {}),
                resumed=None if resumed is None else dict(resumed),
                parent=None if parent is None else dict(parent),
            )
        )

    def tell(self, event: runlog.Event) -> None:
        """Append one event; it is on the disk when this returns."""
        with (self.folder / "run.jsonl").open("ab") as file:
            file.write(runlog.line(event))
            file.flush()
            os.fsync(file.fileno())

    def reach(self, step: int) -> None:
        """Note a completed step beside the log, so that a kill does not hide it. Costs a write of one small page."""
        if self._reached is None:
            self._reached = (self.folder / runlog.REACHED).open("wb", buffering=0)
        os.pwrite(self._reached.fileno(), runlog.mark(step), 0)
        self.step = step

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Tell the end. A disk so full that it cannot be told leaves an attempt without a last word."""
        with suppress(OSError) if error is not None else nullcontext():
            self.finish(error)

    def finish(self, error: BaseException | None = None) -> None:
        """Tell what was imported and how it ended. Telling it twice tells it once."""
        if self._finished or not self.folder.exists():
            return
        self._finished = True
        if self._reached is not None:
            self._reached.close()
        self.tell(environment())
        cause: dict[str, Json] | None = None
        if error is not None:
            cause = {"error": type(error).__name__, "message": str(error)[:2000] or type(error).__name__}
        outcome = runlog.Outcome.COMPLETE if error is None else runlog.Outcome.FAILED
        self.tell(runlog.Finished(time=now(), outcome=outcome, cause=cause, step=self.step))


def now() -> str:
    """UTC with microseconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def environment() -> runlog.Environment:
    """What this process imported so far: distributions with the SHA-256 of their RECORD, Python, platform, device."""
    return runlog.Environment(
        distributions=tuple(_distributions()),
        python=platform.python_version(),
        platform={
            "system": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "libc": "-".join(platform.libc_ver()),
            "cores": len(os.sched_getaffinity(0)),
        },
        accelerator=_accelerator(),
    )


def _distributions() -> list[runlog.Facts]:
    imported = {name.partition(".")[0] for name in sys.modules}
    owners = importlib.metadata.packages_distributions()
    names = sorted({owner for module in imported for owner in owners.get(module, ())})
    return [_distribution(importlib.metadata.distribution(name)) for name in names]


def _distribution(found: importlib.metadata.Distribution) -> runlog.Facts:
    record = found.read_text("RECORD")
    digest = None if record is None else f"sha256:{sha256(record.encode()).hexdigest()}"
    return {"name": found.metadata["Name"].lower(), "version": found.version, "record": digest}


def _accelerator() -> runlog.Facts:
    """Devices as JAX sees them, if this process imported JAX."""
    jax = sys.modules.get("jax")
    if jax is None:
        return {"kind": "none"}
    device = jax.devices()[0]
    driver = Path("/proc/driver/nvidia/version")
    return {
        "kind": device.platform,
        "name": device.device_kind,
        "count": jax.device_count(),
        "driver": driver.read_text().splitlines()[0] if driver.is_file() else None,
    }
