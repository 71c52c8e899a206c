"""What has to hold on a node before a launch starts there, each check with what it found.

Run as ``python -m train.launch_preflight PLAN`` in the run's folder. A plan that lacks an input is refused (2) before
anything is looked at, with what is lacking and how it would be given. Else prints one line a check; ends with status 1
when one does not hold. Looks at commit and lock, installed wheels against the lock and against their own RECORD,
device kind and driver, clock, disk, inputs, and rehearses restoring: the parent's tensors are read and hashed, and a
file is written and read back where the run will write. Needs no JAX.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.markers import Marker

from registry.core.digests import sha256
from registry.errors import ReckonError, Refused
from train import paths, tensorfile
from train.launch_spec import Spec, read_spec

# What decides bits: their installed files are hashed. The rest is compared by version.
HASHED: Final = ("jax", "jaxlib", "marin-levanter", "marin-haliax", "equinox", "optax")
_REHEARSAL_BYTES: Final = 8 * 2**20
_CLOCK_SECONDS: Final = 5.0
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)(?: *; *([^\\]+?))? *\\?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was looked at, whether it holds, and what was found."""

    name: str
    holds: bool
    told: str


def main(arguments: list[str]) -> None:
    """Check the node for the plan that the only argument names."""
    try:
        spec = read_spec(Path(arguments[0] if arguments else "plan.json"))
        require_inputs(spec)
    except ReckonError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(error.exit_code) from error
    found = list(checks(spec))
    for one in found:
        sys.stdout.write(f"{'ok' if one.holds else 'NO'}  {one.name}: {one.told}\n")
    raise SystemExit(0 if all(one.holds for one in found) else 1)


def require_inputs(spec: Spec) -> None:
    """Raises ``Refused`` when the plan names inputs that nobody gave the archive in which it was made."""
    lacking = spec.facts["lacking"]
    if not lacking:
        return
    told = [
        f"{one['what']} {one['name']} ({one['digest'] or 'no digest is told'}; {one['why']}). {one['give']}"
        for one in lacking
    ]
    raise Refused(f"{spec.stage} cannot start: it lacks {' It lacks '.join(told)}", remedy="Nothing was started.")


def checks(spec: Spec) -> Iterator[Check]:
    """All checks, in order. A check that cannot be made does not hold."""
    for name, look in _LOOKS.items():
        try:
            holds, told = look(spec)
        except (OSError, ValueError, KeyError, subprocess.SubprocessError, ReckonError) as error:
            holds, told = False, f"{type(error).__name__}: {error}"
        yield Check(name=name, holds=holds, told=told)


def _commit(spec: Spec) -> tuple[bool, str]:
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    found, wanted = done.stdout.strip(), str(spec.facts["commit"])
    dirty = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no", "--", "train", "registry", "params.yaml"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    return found == wanted and not dirty, f"{found[:12]}{', with changes' if dirty else ''}; the plan has {wanted[:12]}"


def _lock(spec: Spec) -> tuple[bool, str]:
    found, wanted = sha256(Path("requirements.lock").read_bytes()).hex, str(spec.facts["lock"])
    return found == wanted, "the plan's" if found == wanted else f"{found[:12]}, not {wanted[:12]}"


def _wheels(spec: Spec) -> tuple[bool, str]:
    del spec
    pins = dict(filter(None, map(_pinned, Path("requirements.lock").read_text(encoding="utf-8").splitlines())))
    installed = {one.metadata["Name"].lower(): one for one in importlib.metadata.distributions()}
    wrong = [name for name, version in pins.items() if name in installed and installed[name].version != version]
    altered = [name for name in HASHED if name in installed and not _whole(installed[name])]
    told = f"{sum(name in installed for name in pins)} of {len(pins)} pins installed, {len(HASHED)} hashed"
    return not wrong and not altered, told if not wrong + altered else f"wrong: {', '.join([*wrong, *altered])}"


def _pinned(line: str) -> tuple[str, str] | None:
    """Name and version that a line of the lock pins for this Python and platform; None for any other line."""
    match = _PIN.match(line)
    if match is None or (match[3] is not None and not Marker(match[3]).evaluate()):
        return None
    return match[1].lower(), match[2]


def _whole(distribution: importlib.metadata.Distribution) -> bool:
    """Whether the installed files of a wheel are those of its RECORD."""
    for file in distribution.files or ():
        if file.hash is not None and file.suffix in (".py", ".so"):
            found = hashlib.new(file.hash.mode, Path(str(file.locate())).read_bytes()).digest()
            if base64.urlsafe_b64encode(found).rstrip(b"=").decode() != file.hash.value:
                return False
    return bool(distribution.files)


def _device(spec: Spec) -> tuple[bool, str]:
    if spec.platform == "cpu":
        cores = len(os.sched_getaffinity(0))
        return cores >= 1, f"cpu, {cores} cores"
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    found = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout.strip().splitlines()
    kinds = {line.split(",")[0].strip() for line in found}
    told = f"{len(found)} × {', '.join(sorted(kinds))}"
    return len(found) >= spec.devices_per_process and len(kinds) == 1, told


def _driver(spec: Spec) -> tuple[bool, str]:
    if spec.platform == "cpu":
        return True, "none is needed"
    told = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
    match = re.search(r"(\d{3})\.\d+", told)
    return match is not None and int(match[1]) >= 570, f"{told} (570 is the least for GB200)"


def _clock(spec: Spec) -> tuple[bool, str]:
    """This clock against the file system's, which all nodes share."""
    del spec
    probe = Path(f".preflight-{os.getpid()}")
    probe.write_bytes(b"")
    apart = abs(time.time() - probe.stat().st_mtime)
    probe.unlink()
    return apart < _CLOCK_SECONDS, f"{apart:.1f} s from the file system's"


def _disk(spec: Spec) -> tuple[bool, str]:
    needed, free = int(spec.facts["forecast"]["total_bytes"]), shutil.disk_usage(".").free
    quota = spec.facts["quotas"]["disk_bytes"]
    allowed = free if quota is None else min(free, int(quota))
    return needed <= allowed, f"{needed} bytes are needed, {free} are free, the quota is {quota}"


def _inputs(spec: Spec) -> tuple[bool, str]:
    missing = [str(one["path"]) for one in spec.facts["inputs"] if not Path(str(one["path"])).exists()]
    return not missing, f"missing: {', '.join(missing)}" if missing else f"{len(spec.facts['inputs'])} are here"


def _restore(spec: Spec) -> tuple[bool, str]:
    """Read the parent as the run will, and write and read back a file where it will write."""
    place = paths.ARTIFACTS if paths.ARTIFACTS.is_dir() else Path()
    probe = place / f".rehearsal-{os.getpid()}"
    data = os.urandom(_REHEARSAL_BYTES)
    probe.write_bytes(data)
    same = probe.read_bytes() == data
    probe.unlink()
    if spec.parent is None:
        return same, "nothing to restore; a file was written and read back"
    found, wanted = str(tensorfile.root(spec.parent / "state.safetensors")), str(spec.facts["parent"]["root"])
    return same and found == wanted, f"the parent's root is {found[:19]}…, the plan has {wanted[:19]}…"


_LOOKS: Final[dict[str, Callable[[Spec], tuple[bool, str]]]] = {
    "commit": _commit,
    "lock": _lock,
    "wheels": _wheels,
    "device": _device,
    "driver": _driver,
    "clock": _clock,
    "disk": _disk,
    "inputs": _inputs,
    "restore": _restore,
}


if __name__ == "__main__":
    main(sys.argv[1:])
