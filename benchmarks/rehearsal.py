"""``make rehearse``: a release is published, pulled, audited and tampered with, on this machine and before your eyes.

Everything happens in a temporary folder: a copy of the archive, a hub of our own, a key that is thrown away. Each line
that begins with ``$`` is run by the shell just as it is printed. Ends with status 1 as soon as a command ends otherwise
than it should; the archive is only read.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RELEASE = "pocket-moe"
VERSION = "1.0.0"
OPEN, FLIPPED = "f = open('{place}', 'r+b'); f.seek(-9, 2)", "b = f.read(1)[0] ^ 1; f.seek(-9, 2); f.write(bytes([b]))"
FLIP = f'python -c "{OPEN}; {FLIPPED}"'
BAD_LINES = "'^contradicted|^Does not hold'"


class Failed(Exception):
    """A command ended otherwise than a rehearsal that goes well."""


@dataclass(frozen=True, kw_only=True)
class Export:
    """What is released: of which checkpoint, a small tensor of it, and the first and the last file of weights."""

    checkpoint: str
    tensor: str
    first: str
    last: str


class Rehearsal:
    """A shell with a working folder and an environment, both of which its lines can change.

    ``release`` is what the release of the archive's export is to be called.
    """

    def __init__(self, archive: Path, scratch: Path, release: str = RELEASE) -> None:
        self.archive, self.scratch, self.folder = archive, scratch, archive
        self.release, self.repository = release, f"lab/{release}"
        own = {"T": str(scratch), "HF_HUB_OFFLINE": "0", "PYTHONUNBUFFERED": "1"}
        self.environment = {**os.environ, **own}
        self.environment.pop("HF_TOKEN", None)

    @property
    def built(self) -> str:
        """The release with its version."""
        return f"{self.release}@{VERSION}"

    @property
    def address(self) -> str:
        """Where the release is published."""
        return f"hf://{self.repository}@v{VERSION}"

    def go(self, folder: Path) -> None:
        """Change the folder."""
        self.folder = folder
        print(f"$ cd {self._shown(str(folder))}", flush=True)

    def let(self, **values: str) -> None:
        """Set variables."""
        self.environment |= values
        print("$ export " + " ".join(f"{name}={self._shown(value)}" for name, value in values.items()), flush=True)

    def run(self, line: str, *, status: int = 0, needs: tuple[str, ...] = ()) -> None:
        """Run a line as it is printed. Raises ``Failed`` unless it ends with ``status`` and prints ``needs``."""
        print(f"$ {line}", flush=True)
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(self._shown(ended.stdout), end="", flush=True)
        lacking = [text for text in needs if text not in ended.stdout]
        if ended.returncode != status or lacking:
            wanted = f"status {status}" + "".join(f" and {text!r}" for text in lacking)
            raise Failed(f"The line above ended with status {ended.returncode}; {wanted} was to be seen.")
        if status:
            print(f"(status {status})", flush=True)

    @contextmanager
    def hub(self) -> Iterator[str]:
        """Serve the hub on a free port for as long as it is needed; yields its address."""
        print("$ reckon hub serve $T/hub --port 0 &", flush=True)
        server = subprocess.Popen(
            ["reckon", "hub", "serve", str(self.scratch / "hub"), "--port", "0", "--json"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert server.stdout is not None
            address = str(json.loads(server.stdout.readline() or "{}").get("endpoint", ""))
            if not address:
                raise Failed("The hub did not start.")
            print(f"endpoint  {address}", flush=True)
            yield address
        finally:
            server.terminate()
            server.wait(timeout=30)

    def _shown(self, text: str) -> str:
        return text.replace(str(self.scratch), "$T")


def rehearse(stage: Rehearsal) -> None:
    """The whole of it. Raises ``Failed`` at the first thing that goes otherwise."""
    scratch, export = stage.scratch, _export(stage.archive)
    print("$ T=$(mktemp -d)", flush=True)
    stage.run("git clone -q . $T/lab && cp -a artifacts manifests dvc.lock $T/lab/")
    stage.go(scratch / "lab")
    stage.run("reckon keys new $T/release.pem --no-passphrase")
    stage.run("echo 'schema = 1' > $T/trust.toml")
    stage.run(f"reckon keys show $T/release.pem.pub --who Rehearsal --releases '{stage.release}*' >> $T/trust.toml")
    with stage.hub() as address:
        stage.let(HF_ENDPOINT=address, HF_TOKEN_PATH=str(scratch / "hub/tokens/write"))
        _publish(stage, export.checkpoint)
        (scratch / "elsewhere").mkdir()
        stage.go(scratch / "elsewhere")
        _pull(stage, export)
        _tamper(stage, export)
        _take_back(stage)


def _publish(stage: Rehearsal, checkpoint: str) -> None:
    stage.run(f"reckon release checkpoints {checkpoint} {stage.repository}")
    named = f"--name {stage.release} --version {VERSION} --repo {stage.repository}"
    stage.run(f"reckon release build export {named} --key $T/release.pem", needs=(f"Built {stage.built}",))
    stage.run(f"reckon release push {stage.built} {stage.repository}", needs=("Published",))


def _pull(stage: Rehearsal, export: Export) -> None:
    stage.run(
        f"reckon pull {stage.address} --tensor {export.tensor} -o tensor --trust $T/trust.toml", needs=("Rehearsal",)
    )
    stage.run(f"reckon pull {stage.address} -o release --trust $T/trust.toml", needs=("Every byte was hashed",))
    step = export.checkpoint.partition("@")[2]
    stage.run(f"reckon pull {stage.address} --checkpoint {step} -o {step} --trust $T/trust.toml", needs=("hashed",))
    stage.run(f"reckon audit {stage.address} --trust $T/trust.toml | tail -n 3", needs=("Holds.",))
    stage.run("reckon audit ./release --trust $T/trust.toml | tail -n 3", needs=("Holds.",))


def _tamper(stage: Rehearsal, export: Export) -> None:
    print("# One bit of the weights is flipped, first here, then on the hub's disk; the audit again.", flush=True)
    stage.run(FLIP.format(place=f"release/{export.first}"))
    needs = (f"contradicted  {stage.built}+files", f"{export.first} has other bytes")
    stage.run(f"reckon audit ./release --trust $T/trust.toml | grep -E {BAD_LINES}", status=1, needs=needs)
    digest = hashlib.sha256((stage.scratch / "lab/artifacts/export" / export.last).read_bytes())
    place = f"hub/objects/{digest.hexdigest()[:2]}/{digest.hexdigest()}"
    stage.run(f"chmod u+w ../{place}; {FLIP.format(place=f'../{place}')}")
    needs = (f"contradicted  {stage.built}+files", export.last)
    stage.run(f"reckon audit {stage.address} --trust $T/trust.toml | grep -E {BAD_LINES}", status=1, needs=needs)
    stage.run(FLIP.format(place=f"../{place}"))


def _take_back(stage: Rehearsal) -> None:
    print("# The release is taken back: it stays where it was, and says so.", flush=True)
    stage.go(stage.scratch / "lab")
    why = "--reason 'Only a rehearsal.' --key $T/release.pem"
    stage.run(f"reckon release yank {stage.built} {stage.repository} {why}", needs=("yanked", "attested by"))
    stage.go(stage.scratch / "elsewhere")
    stage.run(
        f"reckon pull {stage.address} config.json -o again --trust $T/trust.toml",
        needs=("was yanked", "The notice is attested by Rehearsal"),
    )


def _export(archive: Path) -> Export:
    """What lies in the export here. Raises ``Failed`` without one."""
    folder = archive / "artifacts/export"
    try:
        told = json.loads((folder / "export.json").read_bytes())
    except FileNotFoundError:
        raise Failed("There is no export here. Run 'make repro' first.") from None
    files = sorted(told["weights"])
    with (folder / files[0]).open("rb") as weights:
        header = json.loads(weights.read(int.from_bytes(weights.read(8), "little")))
    header.pop("__metadata__", None)
    smallest = min(header, key=lambda name: (header[name]["data_offsets"][1] - header[name]["data_offsets"][0], name))
    return Export(checkpoint=told["checkpoint"]["name"], tensor=smallest, first=files[0], last=files[-1])


def main() -> int:
    """Rehearse in the folder that we are in."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as scratch:
        try:
            rehearse(Rehearsal(Path.cwd(), Path(scratch)))
        except Failed as failure:
            print(f"rehearsal: {failure}", file=sys.stderr)
            return 1
    print(f"The rehearsal went well, in {time.monotonic() - began:.0f} s. Nothing of it is left.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
