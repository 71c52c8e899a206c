"""DVC's remote: brings the bytes that ``dvc.lock`` names into the working tree.

DVC moves bytes and does not vouch for them; whoever calls this verifies them afterwards. Refuses nothing that DVC does
not refuse; files that were changed here are never overwritten.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from registry.errors import OutsideFailed


def pull(archive: Path, path: str) -> None:
    """``dvc pull`` of one output, or of a file or folder in it. Raises ``OutsideFailed`` with DVC's own words."""
    beside = Path(sys.executable).with_name("dvc")
    program = str(beside) if beside.is_file() else shutil.which("dvc")
    if program is None:
        raise OutsideFailed("dvc is not installed.", remedy="Install deadreckon with its extra 'lab'.")
    ended = subprocess.run(
        [program, "pull", "--quiet", "--", path], cwd=archive, capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        words = " ".join(ended.stderr.split())[-400:] or f"status {ended.returncode}"
        raise OutsideFailed(f"dvc pull {path} failed: {words}", remedy="See 'dvc remote list' and 'dvc status -c'.")
